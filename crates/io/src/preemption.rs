//! How often the calling thread was preempted, and how often the thread waited. Tested below.

#![allow(unsafe_code)]

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
