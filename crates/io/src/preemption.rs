//! Whether the calling thread, when it is woken, takes the cpu from who runs there, and how often others took its own.
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

/// How often the calling thread has lost its cpu while it wanted to run: a system call, of half a microsecond on a virtual machine.
/// Where it has waited for something does not count.
pub fn preemptions() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills in what the pointer is to, which lives until the call returns.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert_eq!(answer, 0, "every kernel knows what a thread has used");
    // SAFETY: the call has succeeded: it is filled in.
    unsafe { usage.assume_init() }.ru_nivcsw as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        time::{Duration, Instant},
    };

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

    /// Two threads on one cpu that both run, then one that waits, and one that is alone with what it does for a moment.
    #[test]
    fn a_preemption_is_seen_and_waiting_is_none() {
        let cpu = crate::current_affinity()[0];
        crate::pin_current_thread(cpu).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let (over, before) = (AtomicBool::new(false), preemptions());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                crate::pin_current_thread(cpu).unwrap();
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            while preemptions() == before && Instant::now() < deadline {
                std::hint::spin_loop();
            }
            over.store(true, Ordering::Relaxed);
        });
        assert!(preemptions() > before, "the other ran meanwhile");
        let waits_unseen = || {
            let before = preemptions();
            std::thread::spawn(|| ()).join().unwrap();
            preemptions() == before
        };
        assert!((0..1_000).any(|_| waits_unseen()), "joining the other is no loss of the cpu");
        assert!((0..1_000).any(|_| preemptions() == preemptions()));
    }
}
