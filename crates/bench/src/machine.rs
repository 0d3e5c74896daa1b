//! The origin of the numbers: the commit, the machine, the versions of the peers, and the two cpus
//! of a run.
//!
//! Names the kind of machine, never the machine: no host name leaves the machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::{BenchError, BenchResult};

/// The cpus of a run: one for the server, the other for the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BenchCpus {
    /// Where every server is pinned.
    pub server: usize,
    /// The cpu of the load; the server's cpu if there is only one cpu, which a bench must report.
    pub client: usize,
}

impl BenchCpus {
    /// The first two cpus this process may run on.
    pub fn allowed() -> BenchResult<Self> {
        let set = sched_getaffinity(None)
            .map_err(|error| BenchError::thing("read", "the allowed cpus")(error.into()))?;
        let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
        let server = cpus.next().ok_or_else(|| BenchError::form("the set of allowed cpus", "it is empty"))?;
        Ok(Self { server, client: cpus.next().unwrap_or(server) })
    }

    /// Returns whether server and load have separate cpus.
    pub fn are_apart(self) -> bool {
        self.server != self.client
    }
}

/// The first cpu's value of a field of `/proc/cpuinfo`.
fn cpuinfo(name: &str) -> Option<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// The frequency of the first cpu, to turn times into cycles; 1000 where the kernel does not report
/// the frequency, so that a cycle is a nanosecond.
pub fn mhz() -> f64 {
    cpuinfo("cpu MHz").and_then(|mhz| mhz.parse().ok()).unwrap_or(1000.0)
}

/// Processor, number of cpus and kernel, such as `AMD EPYC, 2 cpus, Linux 6.18.44`.
pub fn describe() -> String {
    let model = cpuinfo("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let uname = rustix::system::uname();
    format!("{model}, {cpus} cpus, Linux {}", kernel_version(&uname.release().to_string_lossy()))
}

/// The numbers of a kernel release, without the suffix of a distributor or builder.
fn kernel_version(release: &str) -> &str {
    release.split_once(|c: char| !c.is_ascii_digit() && c != '.').map_or(release, |(version, _)| version)
}

/// The commit checked out in `repository`, with `-dirty` if tracked files differ from the commit;
/// `unknown` without git.
pub fn commit(repository: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(repository).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(hash) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".into() };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => hash,
        _ => format!("{hash}-dirty"),
    }
}

/// The first line of a program's version output, `None` if the program cannot be run. Some programs
/// print the version to standard error.
pub fn version(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).lines().next().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_release_is_cut_to_its_version() {
        assert_eq!(kernel_version("6.18.44-cloud-amd64"), "6.18.44");
        assert_eq!(kernel_version("5.15.0"), "5.15.0");
    }

    #[test]
    fn this_machine_has_a_cpu_and_a_description() {
        assert!(BenchCpus::allowed().is_ok());
        assert!(describe().contains("Linux"));
    }
}
