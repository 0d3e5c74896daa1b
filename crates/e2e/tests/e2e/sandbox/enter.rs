//! Enters a thread of another process and makes the thread run a system call, like code of an
//! attacker there.
//!
//! By ptrace: the thread is stopped in a call of its own, makes another call by the same
//! instruction, and continues. Processors other than x86-64 are left out.

use nix::{
    errno::Errno,
    sys::{
        ptrace::{self, AddressType, Options},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};
use std::{
    os::unix::ffi::OsStrExt as _,
    path::Path,
    time::{Duration, Instant},
};

/// How long a thread may take to be in a system call.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes below the thread's stack that the thread may be using.
const STACK_BYTES_USED: u64 = 4096;

/// A system call; a text argument is passed by its address.
#[derive(Debug)]
pub(super) struct CallAttempt {
    number: u64,
    text: Vec<u8>,
    arguments: [Argument; 4],
}

#[derive(Clone, Copy, Debug)]
enum Argument {
    Text,
    Number(u64),
}

/// The result of an attempt.
pub(super) enum Made {
    Refused(Errno),
    Succeeded(u64),
    NotPossible(String),
}

/// Typical calls of an attacker, with the expected refusals. `file` is a path where the server's
/// user could make a file.
pub(super) fn attempts(file: &Path) -> Vec<(CallAttempt, Errno)> {
    use Argument::{Number, Text};
    let none = Number(0);
    let attempt = |number, text: &[u8], arguments| CallAttempt { number, text: text.to_owned(), arguments };
    let here = Number((-100_i64).cast_unsigned());
    let flags = Number(nix::libc::O_CREAT as u64 | nix::libc::O_WRONLY as u64);
    let parent = u64::from(std::process::id());
    let sys = |number: nix::libc::c_long| number.cast_unsigned();
    let path = file.as_os_str().as_bytes();
    let truncate = |more| Number(nix::libc::O_TRUNC as u64 | more);
    // An open for reading would empty a file that the user may write. On older kernels Landlock
    // refuses that, once the file is there.
    let truncations = [
        (attempt(sys(nix::libc::SYS_openat), path, [here, Text, truncate(0), none]), Errno::ENOSYS),
        (attempt(sys(nix::libc::SYS_openat), path, [here, Text, truncate(3), none]), Errno::ENOSYS),
        // The argument struct is not in the sealed page.
        (attempt(sys(nix::libc::SYS_openat2), path, [here, Text, Text, Number(24)]), Errno::ENOSYS),
    ];
    let truncations = truncations.into_iter().filter(|_| kernel_seals_memory());
    vec![
        (attempt(sys(nix::libc::SYS_openat), path, [here, Text, flags, Number(0o600)]), Errno::EACCES),
        (attempt(sys(nix::libc::SYS_execve), b"/bin/true", [Text, none, none, none]), Errno::ENOSYS),
        (attempt(sys(nix::libc::SYS_kill), b"", [Number(parent), none, none, none]), Errno::ENOSYS),
        (attempt(sys(nix::libc::SYS_bpf), b"", [Number(5), none, none, none]), Errno::ENOSYS),
        (attempt(sys(nix::libc::SYS_io_uring_setup), b"", [Number(8), none, none, none]), Errno::ENOSYS),
        (attempt(sys(nix::libc::SYS_unshare), b"", [none; 4]), Errno::ENOSYS),
        (attempt(sys(nix::libc::SYS_clone), b"", [Number(17), none, none, none]), Errno::ENOSYS),
    ]
    .into_iter()
    .chain(truncations)
    .collect()
}

/// Whether the kernel has `mseal(2)`, which Linux 6.10 brought.
fn kernel_seals_memory() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0_u32));
    (numbers.next(), numbers.next()) >= (Some(6), Some(10))
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn make(_: u32, _: &CallAttempt) -> Made {
    Made::NotPossible("this is for x86-64".to_owned())
}

/// Has a thread make a call.
#[cfg(target_arch = "x86_64")]
pub(super) fn make(thread: u32, attempt: &CallAttempt) -> Made {
    let pid = Pid::from_raw(thread.cast_signed());
    let deadline = Instant::now() + PATIENCE;
    loop {
        match make_once(pid, attempt) {
            Ok(Some(value)) => return result(value),
            Err(error) => return Made::NotPossible(error.to_string()),
            Ok(None) if Instant::now() > deadline => {
                return Made::NotPossible("it is in no system call".to_owned());
            }
            Ok(None) => std::thread::park_timeout(Duration::from_millis(1)),
        }
    }
}

fn result(value: u64) -> Made {
    match value.cast_signed() {
        error @ -4095..=-1 => Made::Refused(Errno::from_raw(-error as i32)),
        _ => Made::Succeeded(value),
    }
}

/// Nothing if the thread was in no system call.
#[cfg(target_arch = "x86_64")]
fn make_once(pid: Pid, attempt: &CallAttempt) -> nix::Result<Option<u64>> {
    /// The instruction `syscall`.
    const INSTRUCTION: [u8; 2] = [0x0f, 0x05];

    let wait = || waitpid(pid, Some(WaitPidFlag::__WALL));
    ptrace::seize(pid, Options::empty())?;
    ptrace::interrupt(pid)?;
    wait()?;
    let before = ptrace::getregs(pid)?;
    let code = ptrace::read(pid, (before.rip - 2) as AddressType)?.to_ne_bytes();
    if !code.starts_with(&INSTRUCTION) {
        ptrace::detach(pid, None)?;
        return Ok(None);
    }
    let text_at = (before.rsp - STACK_BYTES_USED) & !15;
    let mut text = attempt.text.clone();
    text.resize(text.len() / 8 * 8 + 8, 0);
    let words: Vec<[u8; 8]> =
        text.chunks_exact(8).map(|word| word.try_into().expect("eight bytes")).collect();
    let places = (0..).map(|word: u64| (text_at + 8 * word) as AddressType);
    let kept: Vec<i64> =
        places.clone().take(words.len()).map(|at| ptrace::read(pid, at)).collect::<nix::Result<_>>()?;
    for (at, word) in places.clone().zip(&words) {
        ptrace::write(pid, at, i64::from_ne_bytes(*word))?;
    }
    let value = |argument: Argument| match argument {
        Argument::Text => text_at,
        Argument::Number(number) => number,
    };
    let [first, second, third, fourth] = attempt.arguments.map(value);
    let mut changed = before;
    (changed.rip, changed.rax, changed.orig_rax) = (before.rip - 2, attempt.number, u64::MAX);
    (changed.rdi, changed.rsi, changed.rdx, changed.r10) = (first, second, third, fourth);
    ptrace::setregs(pid, changed)?;
    ptrace::step(pid, None)?;
    wait()?;
    let answer = ptrace::getregs(pid)?.rax;
    for (at, word) in places.zip(kept) {
        ptrace::write(pid, at, word)?;
    }
    // The kernel makes the call again that was interrupted.
    ptrace::setregs(pid, before)?;
    ptrace::detach(pid, None)?;
    Ok(Some(answer))
}
