//! The kernel's counters of this process and its threads, from `/proc`.
//!
//! Reading them costs the cores nothing. A missing file counts as zero. Tested below.

use super::records::MemoryStatus;
use std::{collections::HashMap, fs, time::Duration};

/// How long a thread has run, and waited for its cpu, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// The time on a cpu.
    pub ran: Duration,
    /// The time of waiting for a cpu.
    pub waited: Duration,
}

/// The times of this process's threads `vermeil-0`, `vermeil-1` and so on, by that number.
pub fn core_times() -> HashMap<u32, ThreadTime> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads
        .filter_map(|thread| {
            let folder = thread.path();
            let name = fs::read_to_string(folder.join("comm")).ok()?;
            let core = name.trim_end().strip_prefix("vermeil-")?.parse().ok()?;
            Some((core, thread_time(&fs::read_to_string(folder.join("schedstat")).ok()?)?))
        })
        .collect()
}

/// Reads `schedstat`: nanoseconds run, nanoseconds waited, times scheduled (kernel documentation,
/// `sched-stats`).
fn thread_time(schedstat: &str) -> Option<ThreadTime> {
    let mut numbers =
        schedstat.split_ascii_whitespace().map(|number| number.parse().map(Duration::from_nanos));
    Some(ThreadTime { ran: numbers.next()?.ok()?, waited: numbers.next()?.ok()? })
}

/// Memory of this process.
pub fn memory() -> MemoryStatus {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    MemoryStatus {
        resident_bytes: field(&status, "VmRSS:"),
        page_table_bytes: field(&status, "VmPTE:"),
        transparent_huge_bytes: field(&rollup, "AnonHugePages:"),
        reserved_huge_bytes: field(&rollup, "Private_Hugetlb:") + field(&rollup, "Shared_Hugetlb:"),
    }
}

/// The bytes of a line such as `VmRSS:   11264 kB`.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_process_files_are_parsed() {
        let time = thread_time("123456789 1000 42\n").unwrap();
        assert_eq!((time.ran.as_nanos(), time.waited.as_nanos()), (123_456_789, 1000));
        assert_eq!(thread_time(""), None);
        assert_eq!(field("VmPeak:\t  9 kB\nVmRSS:\t   12 kB\n", "VmRSS:"), 12 << 10);
        assert_eq!(field("", "VmRSS:"), 0);
        assert!(memory().resident_bytes > 1 << 20);
    }
}
