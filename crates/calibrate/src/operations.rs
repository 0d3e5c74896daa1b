//! Measurements on one core: the clock, a lock, a system call, and an event of the runtime.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use vermeil::{Handler, Runtime};

use crate::{CalibrateError, MeasureEffort, least};

/// Dependent operations of a step of the clock's measurement: shifts and exclusive ors, each one
/// cycle on every supported processor.
const STEP_OPERATIONS: f64 = 6.0;

/// Times of a core's operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operations {
    /// Taking and releasing an uncontended lock.
    pub(crate) lock_ns: f64,
    /// An atomic addition.
    pub(crate) atomic_ns: f64,
    /// A system call without effect.
    pub(crate) syscall_ns: f64,
    /// Posting an event and running an empty handler.
    pub(crate) event_ns: f64,
}

impl Operations {
    /// All operations except the runtime's events.
    pub(crate) fn measure(effort: MeasureEffort) -> Self {
        let times = effort.of(100_000);
        let (lock, number) = (Mutex::new(0u64), AtomicU64::new(0));
        let each = |operation: &dyn Fn()| {
            least(5, || {
                let start = Instant::now();
                (0..times).for_each(|_| operation());
                start.elapsed().as_nanos() as f64 / times as f64
            })
        };
        Self {
            lock_ns: each(&|| *lock.lock().expect("nothing panics under this lock") += 1),
            atomic_ns: each(&|| _ = number.fetch_add(1, Ordering::AcqRel)),
            syscall_ns: each(&|| _ = black_box(rustix::process::getppid())),
            event_ns: 0.0,
        }
    }
}

/// Millions of cycles per second.
pub(crate) fn mhz(effort: MeasureEffort) -> f64 {
    let steps = effort.of(2_000_000);
    let ns = least(5, || {
        let mut value = black_box(0x9E37_79B9_7F4A_7C15u64);
        let start = Instant::now();
        for _ in 0..steps {
            value ^= value << 13;
            value ^= value >> 7;
            value ^= value << 17;
        }
        black_box(value);
        start.elapsed().as_nanos() as f64
    });
    (steps as f64 * STEP_OPERATIONS * 1_000.0 / ns.max(1.0)).max(1.0)
}

/// An event that posts itself again, on a runtime of one core.
pub(crate) fn event_ns(cpu: usize, effort: MeasureEffort) -> Result<f64, CalibrateError> {
    let wrong = |error: &dyn std::fmt::Display| CalibrateError::Runtime(error.to_string());
    let runtime = Runtime::builder()
        .cpus([cpu])
        .policy(vermeil::Policy::None)
        .build()
        .map_err(|error| wrong(&error))?;
    let handle = runtime.handle();
    let color = handle.color();
    let again: Arc<OnceLock<Handler<u64>>> = Arc::default();
    let waiter = std::thread::current();
    let left_to_run = Arc::new(AtomicU64::new(u64::MAX));
    let handler = handle.handler("again", {
        let (again, color, left_to_run) = (again.clone(), color.clone(), left_to_run.clone());
        move |left: u64| match left {
            0 => {
                // Pairs with the load of the waiting thread.
                left_to_run.store(0, Ordering::Release);
                waiter.unpark();
            }
            left => _ = again.get().map(|again| again.post(&color, left - 1)),
        }
    });
    let _set_once = again.set(handler);
    let count = effort.of(200_000) as u64;
    let mut failed = None;
    let ns = least(3, || {
        left_to_run.store(count, Ordering::Release);
        let start = Instant::now();
        if let Err(full) = handler.post(&color, count) {
            failed = Some(wrong(&full));
            return f64::INFINITY;
        }
        while left_to_run.load(Ordering::Acquire) != 0 {
            std::thread::park();
        }
        start.elapsed().as_nanos() as f64 / count as f64
    });
    runtime.shutdown(Duration::from_secs(5));
    failed.map_or(Ok(ns), Err)
}
