//! For how long a thread ran, and for how long it waited for a cpu that ran another thread.

use crate::clock::thread_cpu_ns;
use std::{fs::File, os::unix::fs::FileExt as _};

/// The kernel's times of a thread: two numbers of twenty digits, a count, and spaces.
const TEXT_MAX: usize = 64;

/// The times of the thread that opened it.
pub struct ThreadTimes {
    /// `/proc/thread-self/schedstat`. Without it (a kernel without `CONFIG_SCHED_INFO`, no `/proc`)
    /// the times count the cpu time alone.
    schedstat: Option<File>,
}

impl ThreadTimes {
    /// For the calling thread.
    pub fn open() -> ThreadTimes {
        ThreadTimes { schedstat: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// Nanoseconds for which the thread had work: its cpu time, and its waits for a cpu. Only for
    /// the thread that opened the times. Two or three system calls of 1 µs.
    pub fn with_work_ns(&self) -> u64 {
        self.read().unwrap_or_else(thread_cpu_ns)
    }

    fn read(&self) -> Option<u64> {
        let mut text = [0; TEXT_MAX];
        let length = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = str::from_utf8(&text[..length]).ok()?;
        let mut times = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (ran, waited) = (times.next()?.ok()?, times.next()?.ok()?);
        ran.checked_add(waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_cover_the_cpu_time() {
        let times = ThreadTimes::open();
        let (begin_ns, before_ns) = (thread_cpu_ns(), times.with_work_ns());
        while thread_cpu_ns() < begin_ns + 5_000_000 {
            std::hint::spin_loop();
        }
        // The kernel brings the file up to date at each of its ticks.
        assert!(times.with_work_ns() - before_ns > 0);
    }

    #[test]
    fn cpu_time_serves_without_the_file() {
        let times = ThreadTimes { schedstat: None };
        let before_ns = thread_cpu_ns();
        assert!((before_ns..=before_ns + 1_000_000_000).contains(&times.with_work_ns()));
    }
}
