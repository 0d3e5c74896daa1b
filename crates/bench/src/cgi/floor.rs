//! The floor under every server: a loop that starts the program, reads its output and waits for its
//! end.
//!
//! One start after the other, on the servers' cpu, with the standard library's means: `posix_spawn`
//! and two pipes. The time of a server beyond the floor is the server's; the rest is the kernel's
//! and the program's.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::measure::CoreTime;
use crate::points::{PointKey, Points};
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};

/// The name in rows.
pub(super) const NAME: &str = "floor";

/// The duration of the loop: some hundred starts of a small program, a few dozen of a large
/// program.
const TIME_MAX: Duration = Duration::from_secs(1);

/// Runs `path` on `cpu` for the duration of a server's run, or [`TIME_MAX`]; records the numbers
/// under `program`.
pub(super) fn run(
    cpu: usize,
    (program, path): (&str, &Path),
    time: Duration,
    stop: &StopFlag,
    points: &mut Points,
) -> BenchResult<()> {
    let time = time.min(TIME_MAX);
    // A separate thread, because only this work is to be pinned.
    let measured = thread::scope(|scope| scope.spawn(|| measure(cpu, path, time)).join());
    let CgiFloor { starts, time, busy, system } = measured.expect("it does not panic")?;
    stop.check()?;
    let per_cpu_s = f64::from(starts) / busy.as_secs_f64();
    for (metric, unit, value) in [
        ("per_cpu_s", "req/cpu s", per_cpu_s),
        ("system_percent", "%", 100.0 * system.as_secs_f64() / busy.as_secs_f64()),
        ("per_s", "req/s", f64::from(starts) / time.as_secs_f64()),
    ] {
        points.push(PointKey { program: program.into(), variant: NAME.into(), metric, unit }, value);
    }
    eprintln!("           {program:<13} {NAME:<15} {per_cpu_s:>8.0} requests per cpu second");
    Ok(())
}

/// The result of the loop.
struct CgiFloor {
    starts: u32,
    time: Duration,
    /// The busy time of the cpu, and the part in the kernel.
    busy: Duration,
    system: Duration,
}

fn measure(cpu: usize, path: &Path, time: Duration) -> BenchResult<CgiFloor> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus).map_err(|errno| BenchError::thing("pin", "the floor")(errno.into()))?;
    let (begin, before) = (Instant::now(), CoreTime::of(cpu)?);
    let mut starts = 0;
    while begin.elapsed() < time {
        let output =
            Command::new(path).stdin(Stdio::null()).output().map_err(BenchError::path("start", path))?;
        if !output.status.success() || output.stdout.is_empty() {
            return Err(BenchError::peer(NAME, format!("{}: {}", path.display(), output.status)));
        }
        starts += 1;
    }
    let (time, after) = (begin.elapsed(), CoreTime::of(cpu)?);
    Ok(CgiFloor { starts, time, busy: after.busy_since(&before), system: after.system_since(&before) })
}
