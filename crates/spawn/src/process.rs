//! Calls by which a process affects itself and its children, except starting programs: forking,
//! signals, ends.

#![allow(unsafe_code)]

use crate::reply::{ProgramEnd, ProgramUsage};
use rustix::process::{Pid, getpid};
use std::{
    ffi::{CStr, c_int},
    fs, io, mem,
    os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd},
    ptr,
    time::Duration,
};

/// Standard input, output and error: the first three.
const STANDARD_DESCRIPTORS: u32 = 3;

/// The highest signal number of Linux.
const SIGNAL_MAX: c_int = 64;
/// Bytes of the kernel's set of signals.
const SIGNAL_SET_BYTES: usize = 8;
/// Words of the kernel's `struct sigaction`: handler, flags, restorer, mask. All zeroes is the
/// default.
const KERNEL_SIGACTION_WORDS: usize = 4;

/// Which of two processes this is.
pub(crate) enum Forked {
    Parent(Pid),
    Child,
}

/// Forks.
///
/// # Errors
///
/// The error of the system.
///
/// # Panics
///
/// In a process that has other threads, because the child would have none of those threads.
pub(crate) fn fork() -> io::Result<Forked> {
    assert_eq!(threads()?, 1, "only a process of one thread is forked");
    // SAFETY: this process has one thread, so no operation is left half done in the child.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(Pid::from_raw(pid).expect("a child has a number above zero"))),
    }
}

/// Threads of this process.
pub(crate) fn threads() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// Closes every descriptor except the standard descriptors and `kept`. The owners of the closed
/// descriptors must not use or drop them.
pub(crate) fn close_all_but(kept: impl IntoIterator<Item: AsFd>) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.into_iter().map(|fd| fd.as_fd().as_raw_fd().unsigned_abs()).collect();
    kept.sort_unstable();
    let mut first = STANDARD_DESCRIPTORS;
    for fd in kept {
        if first < fd {
            close_range(first, fd - 1)?;
        }
        first = first.max(fd + 1);
    }
    close_range(first, u32::MAX)
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: the caller of `close_all_but` has a process of its own, in which no code uses these
    // descriptors.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Ends this process at once, without the exit handlers that its parent registered.
pub(crate) fn exit(code: c_int) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

/// Sets the process name for `ps`, blocks all signals, which children must unblock, and resets all
/// dispositions, which programs inherit.
pub(crate) fn settle(name: &CStr) {
    // The name is only for the operator, so a failure does no harm.
    let _ = rustix::thread::set_name(name);
    // SAFETY: the set is filled before it is read; the dispositions are the kernel's initial ones.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
        // This bypasses the C library, because the C library does not reset the two signals that it
        // uses itself.
        let default = [0u64; KERNEL_SIGACTION_WORDS];
        for signal in 1..=SIGNAL_MAX {
            // The kernel refuses the signals that cannot be handled; that is harmless.
            libc::syscall(libc::SYS_rt_sigaction, signal, &raw const default, 0, SIGNAL_SET_BYTES);
        }
    }
}

/// A descriptor that is readable when a child has ended. The signal must be blocked.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is filled before it is read; the descriptor is new and has no other owner.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// Discards the pending signals.
pub(crate) fn drain(signals: &OwnedFd) {
    let mut buffer = [0; 1024];
    while rustix::io::read(signals, &mut buffer).is_ok_and(|read| read == buffer.len()) {}
}

/// The child that the next signal names, if a signal is pending. When several children end before
/// the signal is read, the signal names only one of these children. That child may have been waited
/// for already.
pub(crate) fn named_child(signals: &OwnedFd) -> Option<Pid> {
    let mut signal = [0; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::read(signals, &mut signal).ok()?;
    let pid = signal[..read].get(mem::offset_of!(libc::signalfd_siginfo, ssi_pid)..)?.first_chunk()?;
    Pid::from_raw(i32::from_ne_bytes(*pid))
}

/// A child that has ended and was not waited for, so its number is not reused yet.
pub(crate) struct EndedChild {
    pub(crate) pid: Pid,
    pub(crate) end: ProgramEnd,
    pub(crate) usage: ProgramUsage,
}

/// The end of this child, if the child has ended.
pub(crate) fn end_of(pid: Pid) -> Option<EndedChild> {
    ended(libc::P_PID, pid.as_raw_nonzero().get().unsigned_abs())
}

/// The end of any child. The kernel scans all children, one after the other.
pub(crate) fn next_end() -> Option<EndedChild> {
    ended(libc::P_ALL, 0)
}

fn ended(which: libc::idtype_t, id: libc::id_t) -> Option<EndedChild> {
    // SAFETY: all zeroes is a value of either.
    let (mut info, mut used): (libc::siginfo_t, libc::rusage) = unsafe { mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // This bypasses the C library, because its `waitid` does not return the resource usage.
    // SAFETY: both values are local and writable; the first stays zero when no child has ended.
    let (pid, status) = unsafe {
        libc::syscall(libc::SYS_waitid, which, id, &raw mut info, options, &raw mut used);
        (Pid::from_raw(info.si_pid())?, info.si_status())
    };
    let end =
        if info.si_code == libc::CLD_EXITED { ProgramEnd::Code(status) } else { ProgramEnd::Signal(status) };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    let memory_bytes_max = used.ru_maxrss.unsigned_abs() * 1024;
    Some(EndedChild {
        pid,
        end,
        usage: ProgramUsage { user: time(used.ru_utime), system: time(used.ru_stime), memory_bytes_max },
    })
}

/// The flag of a process that is ending (`PF_EXITING`), in `/proc/PID/stat`.
const ENDING: u64 = 4;

/// The place of the flags behind the name of a process in `/proc/PID/stat`.
const FLAGS_AT: usize = 6;

/// Whether a child runs. A process that is ending closes its descriptors before its parent can
/// learn of the end.
pub(crate) fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let flags = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(FLAGS_AT)?.parse().ok());
    flags.is_some_and(|flags: u64| flags & ENDING == 0)
}

/// Children of this process, including adopted orphans; none where the kernel does not list
/// children.
pub(crate) fn children() -> Vec<Pid> {
    children_of(getpid())
}

/// Children of the only thread of a process.
pub(crate) fn children_of(parent: Pid) -> Vec<Pid> {
    let pid = parent.as_raw_nonzero();
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}
