//! Whether the calling thread, when it is woken, takes the cpu from who runs there.
//!
//! It does so in the class `SCHED_OTHER`, if it has had less time than that one; in `SCHED_BATCH` it runs when that one stops
//! or has used up its slice, a few milliseconds (sched(7); Linux, `check_preempt_wakeup_fair`). Asked by system call, since
//! not every C library does. Tested below.

#![allow(unsafe_code)]

use std::io;

/// Which of the two classes the calling thread is in: whether it takes the cpu when it is woken. `None` in any other class, which
/// somebody chose for it, and where the kernel does not say.
pub fn preempts_when_woken() -> Option<bool> {
    // SAFETY: the call has no pointers; 0 is the calling thread.
    match unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } as libc::c_int {
        libc::SCHED_OTHER => Some(true),
        libc::SCHED_BATCH => Some(false),
        _ => None,
    }
}

/// Puts the calling thread into one of the two classes.
///
/// # Errors
/// Where a filter of system calls forbids it, or the thread is in a class that it has no right to leave.
pub fn preempt_when_woken(preempts: bool) -> io::Result<()> {
    let class = if preempts { libc::SCHED_OTHER } else { libc::SCHED_BATCH };
    let priority: libc::c_int = 0;
    // SAFETY: `sched_param` is its priority, one integer that outlives the call; 0 is the calling thread.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, class, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_changes_its_class_and_no_other() {
        let before = preempts_when_woken();
        std::thread::spawn(|| {
            for preempts in [false, true, false] {
                preempt_when_woken(preempts).unwrap();
                assert_eq!(preempts_when_woken(), Some(preempts));
            }
        })
        .join()
        .unwrap();
        assert_eq!(preempts_when_woken(), before);
    }
}
