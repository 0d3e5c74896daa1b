//! Facts about this machine that a recording states: kernel, processor, cpus, settings.
//!
//! Reads `/proc` and `/sys`. A file that is missing leaves its fact empty, because no recording
//! should fail for that. Tested below.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use vermeil_topology::{CpuId, Machine, sysfs};

/// The number of frames that the kernel keeps of a stack at most, unless told otherwise.
const FRAMES_MAX: u16 = 127;

/// Cpus that are on line.
pub(crate) fn online_cpus() -> Vec<u32> {
    let text = read("/sys/devices/system/cpu/online");
    let cpus = parse_list(&text);
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// The cpus and memory nodes of this machine; `None` if `/sys` cannot be read.
pub(crate) fn topology() -> Option<Machine> {
    sysfs::read(Path::new("/")).ok()
}

/// The memory node of each cpu; 0 on a machine without nodes.
pub(crate) fn nodes_of(cpus: &[u32]) -> Vec<u32> {
    let machine = topology();
    let node = |cpu: &u32| machine.as_ref()?.pu(CpuId(*cpu))?.node;
    cpus.iter().map(|cpu| node(cpu).map_or(0, |node| node.0)).collect()
}

fn parse_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse(), last.parse::<u32>()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

/// The release of the kernel.
pub(crate) fn release() -> String {
    read("/proc/sys/kernel/osrelease")
}

/// The model of the processor.
pub(crate) fn processor() -> String {
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map(|(_, model)| model.to_owned()).unwrap_or_default()
}

/// The boot that the kernel's addresses belong to.
pub(crate) fn boot() -> String {
    read("/proc/sys/kernel/random/boot_id")
}

/// The name of this host.
pub(crate) fn host() -> String {
    read("/proc/sys/kernel/hostname")
}

/// How long this machine is up.
pub(crate) fn uptime() -> Option<Duration> {
    Duration::try_from_secs_f64(read("/proc/uptime").split(' ').next()?.parse().ok()?).ok()
}

/// `kernel.perf_event_paranoid`, or "unknown".
pub(crate) fn paranoid() -> String {
    let text = read("/proc/sys/kernel/perf_event_paranoid");
    if text.is_empty() { "unknown".to_owned() } else { text }
}

/// The most frames that the kernel keeps of a stack.
pub(crate) fn frames_max() -> u16 {
    read("/proc/sys/kernel/perf_event_max_stack").parse().unwrap_or(FRAMES_MAX)
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Nanoseconds of a clock.
pub(crate) fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The number of the user of a process.
pub(crate) fn owner(pid: i32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).map(|found| found.uid()).ok()
}

/// The command line of a process.
pub(crate) fn command_line(pid: i32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The kernel's list of symbols.
pub(crate) const KALLSYMS: &str = "/proc/kallsyms";

/// Whether a list of the kernel's symbols has their addresses. Where `kernel.kptr_restrict` hides
/// the addresses from a user, the kernel shows zeros.
pub(crate) fn shows_kernel_symbols(kallsyms: &Path) -> bool {
    use io::BufRead;
    let Ok(file) = fs::File::open(kallsyms) else { return false };
    let first = io::BufReader::new(file).lines().map_while(Result::ok).take(64);
    first.filter_map(|line| u64::from_str_radix(line.split(' ').next()?, 16).ok()).any(|address| address != 0)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_list_with_ranges_is_read() {
        assert_eq!(parse_list("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert!(parse_list("").is_empty());
    }

    #[test]
    fn this_machine_has_cpus_and_kernel() {
        assert!(!online_cpus().is_empty());
        assert_eq!(nodes_of(&online_cpus()).len(), online_cpus().len());
        assert!(!release().is_empty());
        assert!(!command_line(std::process::id() as i32).is_empty());
    }
}
