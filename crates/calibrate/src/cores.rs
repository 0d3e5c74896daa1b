//! Measurements between cores: the transfer of a cache line, and the wake-up of a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vermeil_sched::{Distance, Layout};

use crate::{CalibrateError, MeasureEffort};

/// Reads of a line before a waiting thread yields, because two threads on the same cpu must still
/// make progress.
const LOOKS: u32 = 10_000;
/// Time before the wake-up, so that the thread sleeps: ten times the time of going to sleep.
const ASLEEP: Duration = Duration::from_micros(100);

/// An atomic in a line of its own; aligned to two lines, because prefetchers fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

/// Runs `f` on a new thread on this cpu.
pub(crate) fn on_cpu<T: Send>(cpu: usize, f: impl FnOnce() -> T + Send) -> Result<T, CalibrateError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, move || {
            vermeil_io::pin_current_thread(cpu).map_err(|source| CalibrateError::Pin { cpu, source })?;
            Ok(f())
        })?;
        thread.join().expect("a measurement does not panic")
    })
}

/// For each distance between two of these cpus, the first pair at that distance.
pub(crate) fn pairs(layout: &Layout, cpus: &[usize]) -> Vec<(Distance, usize, usize)> {
    let mut found: Vec<(Distance, usize, usize)> = Vec::new();
    for a in layout.indices() {
        for &b in layout.neighbours(a) {
            let distance = layout.distance(a, b);
            if found.iter().all(|(known, ..)| *known != distance) {
                found.push((distance, cpus[a.0 as usize], cpus[b.0 as usize]));
            }
        }
    }
    found.sort();
    found
}

/// Time of a line's transfer from the core that wrote the line to another core.
pub(crate) fn line_ns(a: usize, b: usize, effort: MeasureEffort) -> Result<f64, CalibrateError> {
    let rounds = effort.of(2_000) as u64;
    let tries = effort.of(200).min(20);
    let line = Padded::default();
    let all = rounds * tries as u64;
    thread::scope(|scope| {
        let answering = thread::Builder::new().spawn_scoped(scope, || {
            let pinned = vermeil_io::pin_current_thread(b);
            for round in 0..all {
                wait_for(&line, 2 * round + 1);
                // Pairs with the loads of `wait_for`: a store moves the line.
                line.0.store(2 * round + 2, Ordering::Release);
            }
            pinned.map_err(|source| CalibrateError::Pin { cpu: b, source })
        })?;
        let mut best = f64::INFINITY;
        let pinned = vermeil_io::current_affinity();
        let here = vermeil_io::pin_current_thread(a).map_err(|source| CalibrateError::Pin { cpu: a, source });
        for turn in 0..tries as u64 {
            let start = Instant::now();
            for round in turn * rounds..(turn + 1) * rounds {
                line.0.store(2 * round + 1, Ordering::Release);
                wait_for(&line, 2 * round + 2);
            }
            best = best.min(start.elapsed().as_nanos() as f64 / (2 * rounds) as f64);
        }
        vermeil_io::allow_current_thread(&pinned)?;
        answering.join().expect("a measurement does not panic")?;
        here.map(|()| best)
    })
}

fn wait_for(line: &Padded, value: u64) {
    let mut looks = 0;
    while line.0.load(Ordering::Acquire) != value {
        looks += 1;
        if looks % LOOKS == 0 { thread::yield_now() } else { std::hint::spin_loop() }
    }
}

/// The cost of waking a sleeping thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    /// Duration of the call in the waking thread: the median.
    pub(crate) call_ns: f64,
    /// Time until the thread runs: the median.
    pub(crate) median_ns: f64,
    /// Time until the thread runs: the 99th percentile.
    pub(crate) tail_ns: f64,
}

impl Wake {
    /// Wakes a thread on `sleeper` from a thread on `waker`.
    pub(crate) fn measure(
        waker: usize,
        sleeper: usize,
        effort: MeasureEffort,
    ) -> Result<Self, CalibrateError> {
        let epoch = Instant::now();
        let now_ns = move || epoch.elapsed().as_nanos() as u64;
        let (woke_ns, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let sleeping = {
            let (woke_ns, ended) = (woke_ns.clone(), ended.clone());
            thread::Builder::new().spawn(move || {
                let pinned = vermeil_io::pin_current_thread(sleeper);
                while !ended.load(Ordering::Acquire) {
                    thread::park();
                    woke_ns.store(now_ns(), Ordering::Release);
                }
                pinned.map_err(|source| CalibrateError::Pin { cpu: sleeper, source })
            })?
        };
        let wakes = effort.of(2_000);
        let thread = sleeping.thread().clone();
        let times = on_cpu(waker, move || {
            let (mut calls, mut lates) = (Vec::new(), Vec::new());
            for _ in 0..wakes {
                thread::sleep(ASLEEP);
                let before_ns = now_ns();
                thread.unpark();
                calls.push(now_ns() - before_ns);
                while woke_ns.load(Ordering::Acquire) < before_ns {
                    thread::yield_now();
                }
                lates.push(woke_ns.load(Ordering::Acquire) - before_ns);
            }
            ended.store(true, Ordering::Release);
            thread.unpark();
            (calls, lates)
        });
        sleeping.join().expect("a measurement does not panic")?;
        let (mut calls, mut lates) = times?;
        calls.sort_unstable();
        lates.sort_unstable();
        let at = |sorted: &[u64], permille: usize| sorted[(sorted.len() - 1) * permille / 1_000] as f64;
        Ok(Self { call_ns: at(&calls, 500), median_ns: at(&lates, 500), tail_ns: at(&lates, 995) })
    }
}
