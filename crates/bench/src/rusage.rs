//! The resource usage of threads and ended processes: `getrusage(2)` reports the scheduler's sum to
//! the microsecond, but `/proc` reports ticks of 10 ms. A short run of an injector takes ten such
//! ticks. Tested here.

#![allow(unsafe_code)]

use std::time::Duration;

/// Cpu time of this process's children that have ended and been waited for.
pub fn children() -> Duration {
    time(&usage(libc::RUSAGE_CHILDREN))
}

/// Cpu time of the thread that asks.
pub fn thread() -> Duration {
    time(&usage(libc::RUSAGE_THREAD))
}

/// The number of times that the calling thread has waited for something other than a cpu.
pub fn sleeps() -> i64 {
    usage(libc::RUSAGE_THREAD).ru_nvcsw
}

fn usage(whom: libc::c_int) -> libc::rusage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: there is room for one record, and the call writes no more.
    let refused = unsafe { libc::getrusage(whom, usage.as_mut_ptr()) };
    assert_eq!(refused, 0, "getrusage refuses only what it does not know");
    // SAFETY: all zeros are a record, and the call has filled it.
    unsafe { usage.assume_init() }
}

fn time(usage: &libc::rusage) -> Duration {
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn usage_of_child_is_included() {
        let before = children();
        let used =
            Command::new("sh").args(["-c", "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done"]).status();
        assert!(used.expect("sh runs").success());
        assert!(children() > before);
    }

    #[test]
    fn waiting_process_has_slept() {
        let before = sleeps();
        std::thread::sleep(Duration::from_millis(1));
        assert!(sleeps() > before);
    }
}
