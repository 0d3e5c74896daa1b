//! The cost of a server: the cpu time of its whole process group, or of its core.
//!
//! A process group contains all processes that the server started, workers and helper threads
//! included. Run time in nanoseconds is the sum over `/proc/PID/task/TID/schedstat`. The split into
//! user and system time comes from `/proc/PID/stat`; the kernel samples the split in ticks, so the
//! split is good for a percentage only. A core's busy time also contains kernel work that is
//! charged to no process (received packets, interrupts). All counters only grow while threads live.
//! A thread that ends between two readings takes its time away, so a server under test must keep
//! its threads.

use std::fs;
use std::io;
use std::ops::Sub;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;

use crate::{BenchError, BenchResult};

/// The unit of `/proc/stat` and `/proc/PID/stat`: USER_HZ is 100 on every architecture Linux
/// supports today (proc(5)).
const TICK: Duration = Duration::from_millis(10);

/// Cpu time of a process group since the group started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Time spent running, to the nanosecond.
    pub run: Duration,
    /// Time in user mode, sampled in ticks.
    pub user: Duration,
    /// Time in the kernel, sampled in ticks.
    pub system: Duration,
}

impl Sub for CpuTime {
    type Output = Self;

    /// The time between an earlier reading and this reading.
    fn sub(self, earlier: Self) -> Self {
        Self {
            run: self.run.saturating_sub(earlier.run),
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

impl CpuTime {
    /// The share of user mode, from 0 to 1; `None` if less than a tick was sampled.
    pub fn user_share(&self) -> Option<f64> {
        let all = self.user + self.system;
        (!all.is_zero()).then(|| self.user.as_secs_f64() / all.as_secs_f64())
    }

    /// Reads the cpu time of every process in `group`.
    ///
    /// # Errors
    /// When the group has no process left.
    pub fn of_group(group: Pid) -> BenchResult<Self> {
        let mut sum = Self::default();
        let mut processes = 0;
        for entry in fs::read_dir("/proc").map_err(BenchError::thing("read", "/proc"))?.flatten() {
            let folder = entry.path();
            let Some(stat) = stat_of(&folder).filter(|stat| stat.group == group.as_raw_pid()) else {
                continue;
            };
            processes += 1;
            sum.user += stat.user;
            sum.system += stat.system;
            sum.run += run_time(&folder)?;
        }
        if processes == 0 {
            return Err(BenchError::form(format!("process group {group}"), "no process left in it"));
        }
        Ok(sum)
    }

    /// Reads the cpu time of this process.
    pub fn of_self() -> BenchResult<Self> {
        let folder = Path::new("/proc/self");
        let stat =
            stat_of(folder).ok_or_else(|| BenchError::form("/proc/self/stat", "not the form of proc(5)"))?;
        Ok(Self { run: run_time(folder)?, user: stat.user, system: stat.system })
    }
}

/// The memory of every process in `group` in bytes; a page shared by several processes counts in
/// parts (Pss of proc_pid_smaps(5)).
///
/// # Errors
/// A process's accounting cannot be read.
pub fn memory_of_group(group: Pid) -> BenchResult<u64> {
    let mut sum = 0;
    for entry in fs::read_dir("/proc").map_err(BenchError::thing("read", "/proc"))?.flatten() {
        let folder = entry.path();
        if stat_of(&folder).is_none_or(|stat| stat.group != group.as_raw_pid()) {
            continue;
        }
        let path = folder.join("smaps_rollup");
        let Some(text) = unless_ended(fs::read_to_string(&path)).map_err(BenchError::path("read", &path))?
        else {
            continue;
        };
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        sum += 1024 * kb.ok_or_else(|| BenchError::form(path.display(), "no line `Pss: N kB`"))?;
    }
    Ok(sum)
}

/// The ids of the processes in `group`.
///
/// # Errors
/// `/proc` cannot be read.
pub fn processes_of_group(group: Pid) -> BenchResult<Vec<u32>> {
    let entries = fs::read_dir("/proc").map_err(BenchError::thing("read", "/proc"))?.flatten();
    let is_member =
        |entry: &fs::DirEntry| stat_of(&entry.path()).is_some_and(|stat| stat.group == group.as_raw_pid());
    let members = entries.filter(is_member);
    Ok(members.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

struct Stat {
    group: i32,
    user: Duration,
    system: Duration,
}

/// The fields of `/proc/PID/stat` used here; `None` if there is no process or the process has just
/// ended.
fn stat_of(folder: &Path) -> Option<Stat> {
    parse_stat(&fs::read_to_string(folder.join("stat")).ok()?)
}

fn parse_stat(stat: &str) -> Option<Stat> {
    // The second field is the command in parentheses and may hold anything, so parsing starts at
    // the last parenthesis.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| Some(TICK * fields.get(index)?.parse::<u32>().ok()?);
    Some(Stat { group: fields.get(2)?.parse().ok()?, user: ticks(11)?, system: ticks(12)? })
}

/// The run time of all threads of one process; zero for a process that has just ended.
fn run_time(folder: &Path) -> BenchResult<Duration> {
    let mut sum = Duration::ZERO;
    let tasks = folder.join("task");
    let Some(entries) = unless_ended(fs::read_dir(&tasks)).map_err(BenchError::path("read", &tasks))? else {
        return Ok(sum);
    };
    for task in entries.flatten() {
        let path = task.path().join("schedstat");
        if let Some(text) =
            unless_ended(fs::read_to_string(&path)).map_err(BenchError::path("read", &path))?
        {
            sum += parse_schedstat(&text).ok_or_else(|| BenchError::form(path.display(), "no number"))?;
        }
    }
    Ok(sum)
}

/// `None` if the process or thread ended before the read.
fn unless_ended<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse_schedstat(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// One reading of the whole machine: busy time of our processes and of others.
#[derive(Clone, Copy, Debug)]
pub struct MachineTime {
    at: Instant,
    cpus: u32,
    idle: Duration,
    children: Duration,
}

impl MachineTime {
    /// Reads the machine's idle time, and the time of children of this process that have ended and
    /// been waited for.
    pub fn now() -> BenchResult<Self> {
        let stat = fs::read_to_string("/proc/stat").map_err(BenchError::thing("read", "/proc/stat"))?;
        let (idle, _) =
            parse_core(&stat, "cpu").ok_or_else(|| BenchError::form("/proc/stat", "no line for all cpus"))?;
        let is_cpu = |line: &&str| {
            line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let cpus = stat.lines().filter(is_cpu).count() as u32;
        Ok(Self { at: Instant::now(), cpus, idle, children: crate::rusage::children() })
    }

    /// The time of children waited for since an `earlier` reading.
    pub fn children_since(&self, earlier: &Self) -> Duration {
        self.children.saturating_sub(earlier.children)
    }

    /// The busy time of all cpus together since an `earlier` reading; good to a tick of 10 ms for
    /// each.
    pub fn busy_since(&self, earlier: &Self) -> Duration {
        ((self.at - earlier.at) * self.cpus).saturating_sub(self.idle.saturating_sub(earlier.idle))
    }

    /// The share of the machine, from 0 to 1, that went neither to `ours` nor to children waited
    /// for since an `earlier` reading: other programs, and kernel work charged to no process.
    pub fn others_since(&self, earlier: &Self, ours: Duration) -> f64 {
        let all = (self.at - earlier.at) * self.cpus;
        let others = self.busy_since(earlier).saturating_sub(ours + self.children_since(earlier));
        others.as_secs_f64() / all.as_secs_f64()
    }
}

/// One reading of a core: the time of the reading, the idle time and the kernel time.
#[derive(Clone, Copy, Debug)]
pub struct CoreTime {
    at: Instant,
    idle: Duration,
    system: Duration,
}

impl CoreTime {
    /// Reads the times of `cpu`.
    pub fn of(cpu: usize) -> BenchResult<Self> {
        let stat = fs::read_to_string("/proc/stat").map_err(BenchError::thing("read", "/proc/stat"))?;
        let (idle, system) = parse_core(&stat, &format!("cpu{cpu}"))
            .ok_or_else(|| BenchError::form("/proc/stat", format!("no line for cpu{cpu}")))?;
        Ok(Self { at: Instant::now(), idle, system })
    }

    /// The busy time of the core since an `earlier` reading; good to a tick of 10 ms.
    pub fn busy_since(&self, earlier: &Self) -> Duration {
        (self.at - earlier.at).saturating_sub(self.idle.saturating_sub(earlier.idle))
    }

    /// The core's time in the kernel since an `earlier` reading, interrupts included; good to a
    /// tick.
    pub fn system_since(&self, earlier: &Self) -> Duration {
        self.system.saturating_sub(earlier.system)
    }
}

/// The idle time and the kernel time of a cpu (proc(5): user, nice, system, idle, iowait, irq,
/// softirq).
fn parse_core(stat: &str, cpu: &str) -> Option<(Duration, Duration)> {
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(cpu))?;
    let ticks = |index: usize| line.split_whitespace().nth(index)?.parse::<u32>().ok();
    Some((TICK * (ticks(4)? + ticks(5)?), TICK * (ticks(3)? + ticks(6)? + ticks(7)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_a_hostile_command_name() {
        let line = "7 (a) b (c) S 1 42 42 0 -1 0 0 0 0 0 250 31 3 4 20 0 1 0 5 0 0";
        let stat = parse_stat(line).expect("the form of proc(5)");
        assert_eq!((stat.group, stat.user, stat.system), (42, TICK * 250, TICK * 31));
    }

    #[test]
    fn schedstat_counts_nanoseconds() {
        assert_eq!(parse_schedstat("294984 49253 3\n"), Some(Duration::from_nanos(294_984)));
        assert_eq!(parse_schedstat(""), None);
    }

    #[test]
    fn idle_is_idle_and_waiting_for_disk_and_the_kernel_has_its_interrupts_of_the_right_cpu() {
        let stat = "cpu 9 9 9 9 9 9 9\ncpu1 1 2 3 400 50 6 7 8 0 0\ncpu11 1 1 1 1 1 1 1\n";
        assert_eq!(parse_core(stat, "cpu1"), Some((TICK * 450, TICK * 16)));
        assert_eq!(parse_core(stat, "cpu"), Some((TICK * 18, TICK * 27)));
        assert_eq!(parse_core(stat, "cpu2"), None);
    }

    #[test]
    fn other_processes_have_remaining_time() {
        let at = Instant::now();
        let earlier = MachineTime { at, cpus: 2, idle: Duration::ZERO, children: Duration::ZERO };
        let second = Duration::from_secs(1);
        let later = MachineTime { at: at + second * 10, cpus: 2, idle: second * 5, children: second * 8 };
        assert_eq!(later.others_since(&earlier, second * 2), 0.25);
        assert_eq!(later.others_since(&earlier, second * 9), 0.0);
    }

    #[test]
    fn our_own_time_grows_with_work() {
        let before = CpuTime::of_self().expect("schedstat");
        let mut sum = 0u64;
        // The kernel updates a reading at the next tick at the latest, so work until the reading
        // changes.
        while CpuTime::of_self().expect("schedstat").run <= before.run {
            sum = std::hint::black_box((0..1_000_000u64).fold(sum, u64::wrapping_add));
        }
    }

    #[test]
    fn a_group_is_at_least_its_member() {
        let own = CpuTime::of_self().expect("schedstat");
        let group = CpuTime::of_group(rustix::process::getpgrp()).expect("our group");
        assert!(group.run >= own.run);
    }

    #[test]
    fn a_group_without_processes_is_an_error() {
        let nobody = Pid::from_raw(i32::MAX).expect("not zero");
        assert!(CpuTime::of_group(nobody).is_err());
    }
}
