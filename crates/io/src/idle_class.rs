//! The scheduling class `SCHED_IDLE` of the kernel: a thread of this class runs only while no other
//! thread wants its cpu.
//!
//! Callers decide which threads are worth so little. Tested here.

#![allow(unsafe_code)]

use std::io;

/// Gives the calling thread the cpu time that no other thread wants. Another thread that wakes on
/// its cpu interrupts it at once. While all cpus are busy, the thread gets about 0.3 % of one.
///
/// # Errors
/// The system refuses the class.
pub fn run_in_idle_time() -> io::Result<()> {
    // SAFETY: all zeros is a value of this plain structure.
    let priority: libc::sched_param = unsafe { std::mem::zeroed() };
    // The function of musl's library always fails.
    let call = libc::SYS_sched_setscheduler;
    // SAFETY: the call reads the structure, which outlives the call. Thread 0 is the caller.
    match unsafe { libc::syscall(call, 0, libc::SCHED_IDLE, &raw const priority) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_has_the_idle_class() {
        let thread = std::thread::spawn(|| {
            run_in_idle_time().expect("every thread may take the idle class");
            // SAFETY: the call reads and writes no memory. Thread 0 is the caller.
            unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }
        });
        assert_eq!(thread.join().expect("the thread ends"), libc::SCHED_IDLE.into());
    }
}
