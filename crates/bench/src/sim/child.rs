//! One simulation in a separate process: the work and the output of `vermeil-sims`.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use vermeil_sim::{CompiledProgram, SimMachine, SimOptions, profile, simulate, workload};

use crate::{BenchError, BenchResult};

/// The result of one simulation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimSample {
    /// The events of the virtual clock.
    pub events: u64,
    /// Handlers run.
    pub runs: u64,
    /// Processor time of the thread.
    pub cpu_ns: u64,
    /// The most memory that the process had.
    pub memory_kb: u64,
    /// The trace hash.
    pub hash: u64,
}

/// Simulates `virtual_ms` beyond the workload's warm-up, or to the workload's end if `virtual_ms`
/// is 0.
///
/// # Errors
/// The workload, machine or policy does not exist.
pub fn run(name: &str, machine: &str, policy: &str, virtual_ms: u64) -> BenchResult<SimSample> {
    let wrong = |error: &dyn std::fmt::Display| BenchError::form("the case", error);
    let machine: SimMachine = profile(machine).map_err(|error| wrong(&error))?;
    let program: CompiledProgram = workload(name).map_err(|error| wrong(&error))?;
    let policy = policy.parse().map_err(|error| wrong(&error))?;
    let run_ns = (virtual_ms > 0).then(|| program.warm_up_ns() + virtual_ms * 1_000_000);
    let before_ns = thread_ns();
    let results = simulate(&machine, &program, &SimOptions { run_ns, ..SimOptions::new(policy) });
    let cpu_ns = (thread_ns() - before_ns).max(1);
    let (events, runs, hash) = (results.moments, results.steps, results.hash);
    Ok(SimSample { events, runs, cpu_ns, memory_kb: memory_kb()?, hash })
}

/// Processor time of this thread.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn memory_kb() -> BenchResult<u64> {
    let path = std::path::Path::new("/proc/self/status");
    let status = std::fs::read_to_string(path).map_err(BenchError::path("read", path))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| BenchError::form(path.display(), "it has no VmHWM"))
}
