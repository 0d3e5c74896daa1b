//! Wake-up preemption: whether the calling thread, when woken, takes the cpu from the running
//! thread, and how often the thread itself was preempted.
//!
//! In the class `SCHED_OTHER` a woken thread preempts, if it has had less time than the running
//! thread. In `SCHED_BATCH` a woken thread runs when the running thread stops or has used up its
//! slice, a few milliseconds (sched(7); Linux, `check_preempt_wakeup_fair`). Uses system calls,
//! because not every C library has the functions. Tested below.

#![allow(unsafe_code)]

use std::io;

/// Whether the calling thread preempts when woken, which says which of the two classes it is in.
/// `None` in any other class, which an administrator has chosen, and if unknown.
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
/// A filter of system calls forbids the call, or the thread may not leave its class.
pub fn preempt_when_woken(preempts: bool) -> io::Result<()> {
    let class = if preempts { libc::SCHED_OTHER } else { libc::SCHED_BATCH };
    let priority: libc::c_int = 0;
    // SAFETY: `sched_param` is a priority, one integer that outlives the call; 0 is the calling
    // thread.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, class, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The number of involuntary switches of the calling thread: a system call, of half a microsecond
/// on a virtual machine. Voluntary waits do not count.
pub fn preemptions() -> u64 {
    usage().ru_nivcsw as u64
}

/// The number of voluntary waits of the calling thread, for example for a disk. As expensive as
/// [`preemptions`].
pub(crate) fn waits() -> u64 {
    usage().ru_nvcsw as u64
}

fn usage() -> libc::rusage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the pointee, which lives until the call returns.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert_eq!(answer, 0, "every kernel knows what a thread has used");
    // SAFETY: the call has succeeded, so the value is initialised.
    unsafe { usage.assume_init() }
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

    /// Two threads on one cpu that both run, then a thread that waits, and a thread that works
    /// alone for a moment.
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
