//! Measures the costs of operations on this machine, and describes the result as a machine of the
//! simulator.
//!
//! Contains the measurements: pointer chases and sums (`memory`), lines and wake-ups between cores
//! (`cores`), locks, system calls and the runtime's events (`operations`); and the text form
//! (`describe`). Every number is the least or the median of several tries, because other processes
//! can only slow down a try. Leaves out the use of the numbers; only the test simulates with these
//! numbers (`tests/here.rs`).

mod cores;
mod describe;
mod memory;
mod operations;

use vermeil_sched::{Distance, Layout};
use vermeil_topology::{CpuId, Machine};

/// The permitted duration of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureEffort {
    /// Some seconds, for numbers.
    Full,
    /// A moment, as a smoke test: the numbers mean little.
    Smoke,
}

impl MeasureEffort {
    /// The number `full`, and a hundredth in a smoke run.
    fn of(self, full: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Smoke => (full / 100).max(2),
        }
    }
}

/// The errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// A thread cannot be put on a cpu.
    #[error("cannot run on cpu {cpu}: {source}; leave it out with taskset")]
    Pin {
        /// The cpu.
        cpu: usize,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// No thread can be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// The runtime whose events are timed does not start.
    #[error("cannot start a runtime to time its events: {0}")]
    Runtime(String),
    /// This process may use no cpu.
    #[error("the machine has no cpu that this process may use")]
    NoCpu,
}

/// The measurements. Times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Calibration {
    effort: MeasureEffort,
    /// Millions of dependent operations, of one cycle each, per second.
    mhz: f64,
    /// By level of cache: bytes, and the time of a chase step within the cache.
    caches: Vec<(u8, f64)>,
    memory: memory::MeasuredMemory,
    operations: operations::Operations,
    /// Transfer time of a line, by distance.
    lines: Vec<(Distance, f64)>,
    wake: cores::Wake,
}

/// Measures the machine on the cpus that this process may use.
///
/// # Errors
/// A thread cannot be started or pinned.
pub fn calibrate(
    machine: &Machine,
    cpus: &[CpuId],
    effort: MeasureEffort,
) -> Result<Calibration, CalibrateError> {
    let first = cpus.first().ok_or(CalibrateError::NoCpu)?.0 as usize;
    let all: Vec<usize> = cpus.iter().map(|cpu| cpu.0 as usize).collect();
    let layout =
        Layout::from_machine(machine, cpus).map_err(|error| CalibrateError::Runtime(error.to_string()))?;
    let on_first = cores::on_cpu(first, || {
        (
            operations::mhz(effort),
            memory::caches(machine, first, effort),
            operations::Operations::measure(effort),
        )
    })?;
    let (mhz, caches, operations) = on_first;
    let event_ns = operations::event_ns(first, effort)?;
    let mut lines = Vec::new();
    for (distance, a, b) in cores::pairs(&layout, &all) {
        lines.push((distance, cores::line_ns(a, b, effort)?));
    }
    Ok(Calibration {
        effort,
        mhz,
        caches,
        memory: memory::MeasuredMemory::measure(machine, &all, effort)?,
        operations: operations::Operations { event_ns, ..operations },
        lines,
        wake: cores::Wake::measure(first, all.last().copied().unwrap_or(first), effort)?,
    })
}

/// The least of several tries.
fn least(tries: usize, mut measure: impl FnMut() -> f64) -> f64 {
    (0..tries).map(|_| measure()).fold(f64::INFINITY, f64::min)
}
