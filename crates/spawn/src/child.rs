//! From clone to exec: a child that borrows the spawner's memory instead of copying it.
//!
//! `CLONE_VM | CLONE_VFORK`: no page table is copied, and the spawner stands still until the child has executed its
//! program or given up, so what the child writes (why it failed) is read afterwards without a pipe. In return the child
//! must do nothing but system calls: no allocation, no lock, no panic. Everything it needs is prepared in a [`Plan`].
//!
//! The order of the steps is that of what they need: limits and cgroup while privileged, the folder as the user who must
//! be able to enter it, the signal of the parent's death after the change of user, which clears it.

#![allow(unsafe_code)]

use crate::{error::Step, profile::Identity};
use rustix::{
    fs::Mode,
    io::Errno,
    process::{
        Pid, Resource, Rlimit, Signal, fchdir, getppid, set_parent_process_death_signal, setpgid, setrlimit,
        setsid, umask,
    },
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
    thread::{
        Gid, Uid, clear_ambient_capability_set, set_no_new_privs, set_thread_groups, set_thread_res_gid,
        set_thread_res_uid,
    },
};
use std::{
    cell::Cell,
    convert::Infallible,
    ffi::{CStr, c_char, c_int, c_void},
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    ptr,
};

/// Bytes of the child's stack. The steps below use less than an eighth of it, which a test measures by filling it with a
/// pattern.
const STACK_BYTES: usize = 64 * 1024;

/// `clone3(2)`: the child is born into the cgroup whose folder is given. The C library's constant is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// What the exit code of a child is that could not execute its program; shells use the same.
const NOT_EXECUTED: c_int = 127;

/// Strings for the kernel: pointers to them, with a null pointer behind the last.
#[derive(Default)]
pub(crate) struct Strings(Vec<*const c_char>);

impl Strings {
    /// Replaces what was there. The strings must live as long as the plan that uses them, which borrows this.
    pub(crate) fn fill<'a>(&mut self, strings: impl Iterator<Item = &'a CStr>) {
        self.0.clear();
        self.0.extend(strings.map(CStr::as_ptr));
        self.0.push(ptr::null());
    }
}

/// Everything a child does before its program runs.
pub(crate) struct Plan<'a> {
    pub(crate) path: &'a CStr,
    pub(crate) arguments: &'a Strings,
    pub(crate) variables: &'a Strings,
    /// None of them may be a standard descriptor.
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    pub(crate) folder: BorrowedFd<'a>,
    pub(crate) limits: &'a [(Resource, u64)],
    pub(crate) identity: Option<&'a Identity>,
    pub(crate) groups: &'a [Gid],
    pub(crate) umask: u32,
    pub(crate) no_new_privileges: bool,
    pub(crate) ruleset: Option<BorrowedFd<'a>>,
    pub(crate) cgroup: Option<Membership<'a>>,
    /// The spawner.
    pub(crate) parent: Pid,
    pub(crate) apart: Apart,
}

/// What a child is the leader of, so that it ends with all it has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apart {
    /// A process group in the keeper's session, which has no terminal.
    Group,
    /// A session too: within one, processes may go on and join groups across users. Where the kernel has scheduling
    /// groups for sessions (`sched_autogroup_enabled`) each is another: measured, 10 µs more when idle, 40 to 190 µs
    /// when busy, and nothing of that in a cgroup with the cpu controller, where there are no such groups.
    Session,
}

/// The cgroup a child shall be in.
#[derive(Clone, Copy)]
pub(crate) struct Membership<'a> {
    /// In which it is born.
    pub(crate) folder: BorrowedFd<'a>,
    /// Its `cgroup.procs`, into which a child writes itself where being born there is not to be had.
    pub(crate) members: BorrowedFd<'a>,
}

/// A stack for children, one at a time.
pub(crate) struct Stack(Box<[u128]>);

impl Stack {
    pub(crate) fn new() -> Self {
        // The unit of the stack's alignment.
        Self(vec![0; STACK_BYTES / size_of::<u128>()].into_boxed_slice())
    }

    fn end(&mut self) -> *mut c_void {
        self.0.as_mut_ptr_range().end.cast()
    }
}

/// What the child sees and where it says why it failed.
struct Shared<'a> {
    plan: &'a Plan<'a>,
    /// The members of a cgroup that the child is not born in.
    joins: Cell<Option<BorrowedFd<'a>>>,
    failure: Cell<Option<(Step, Errno)>>,
}

/// Starts a program; gives its process.
pub(crate) fn start(plan: &Plan<'_>, stack: &mut Stack) -> Result<(Pid, OwnedFd), (Step, Errno)> {
    let shared = Shared { plan, joins: Cell::new(None), failure: Cell::new(None) };
    let cloned = match plan.cgroup {
        None => clone(&shared, stack),
        Some(cgroup) => match clone_into(cgroup.folder, &shared, stack) {
            // Without clone3, or forbidden to use it, as in some containers.
            Err(Errno::NOSYS | Errno::PERM) => {
                shared.joins.set(Some(cgroup.members));
                clone(&shared, stack)
            }
            cloned => cloned,
        },
    };
    let (pid, descriptor) = cloned.map_err(|errno| (Step::Clone, errno))?;
    match shared.failure.get() {
        None => Ok((pid, descriptor)),
        Some(failure) => {
            // It has ended, or is about to; nobody else waits for it.
            let _ = rustix::io::retry_on_intr(|| {
                rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty())
            });
            Err(failure)
        }
    }
}

fn clone(shared: &Shared<'_>, stack: &mut Stack) -> Result<(Pid, OwnedFd), Errno> {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    let argument = ptr::from_ref(shared).cast_mut().cast();
    let mut descriptor: c_int = -1;
    // SAFETY: the child runs `child_main` on a stack of its own, which outlives it: CLONE_VFORK suspends this thread, the
    // only one, until the child has ended or executed. The descriptor is written before that.
    let pid = unsafe { libc::clone(child_main, stack.end(), flags, argument, &raw mut descriptor) };
    if pid == -1 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(born(pid, descriptor))
}

fn clone_into(
    cgroup: BorrowedFd<'_>,
    shared: &Shared<'_>,
    stack: &mut Stack,
) -> Result<(Pid, OwnedFd), Errno> {
    let mut descriptor: c_int = -1;
    let arguments = libc::clone_args {
        flags: (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD) as u64 | CLONE_INTO_CGROUP,
        pidfd: ptr::from_mut(&mut descriptor).expose_provenance() as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.0.as_mut_ptr().expose_provenance() as u64,
        stack_size: STACK_BYTES as u64,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: cgroup.as_raw_fd() as u64,
    };
    // SAFETY: as in `clone`: a stack of the child's own, and a parent that stands still.
    let pid = unsafe { clone3(&arguments, child_main, ptr::from_ref(shared).cast_mut().cast()) };
    match c_int::try_from(pid) {
        Ok(pid) if pid > 0 => Ok(born(pid, descriptor)),
        Ok(errno) => Err(Errno::from_raw_os_error(-errno)),
        Err(_) => Err(Errno::IO),
    }
}

fn born(pid: c_int, descriptor: c_int) -> (Pid, OwnedFd) {
    let pid = Pid::from_raw(pid).expect("a child has a number above zero");
    // SAFETY: the kernel has just made this descriptor for us, because of CLONE_PIDFD.
    (pid, unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// `clone3(2)` for a child on a stack of its own, which the C library does not offer. Gives the child's number, or a
/// negative error number.
///
/// # Safety
/// `arguments` must give the child a stack, and `child` must not return before that may be given back.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3(
    arguments: &libc::clone_args,
    child: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> i64 {
    let result;
    // SAFETY: in the parent this is a system call, which clobbers rcx and r11. The child begins behind it with the same
    // registers and an empty, aligned stack, calls `child` and ends.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "mov edi, eax",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            exit = const libc::SYS_exit,
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") arguments,
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") child,
            in("r13") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
unsafe fn clone3(
    arguments: &libc::clone_args,
    child: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> i64 {
    let result;
    // SAFETY: in the parent this is a system call, which changes x0 only. The child begins behind it with the same
    // registers and an empty, aligned stack, calls `child` and ends.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, {argument}",
            "blr {child}",
            "mov x8, {exit}",
            "svc 0",
            "brk 1",
            "2:",
            exit = const libc::SYS_exit,
            child = in(reg) child,
            argument = in(reg) argument,
            inlateout("x0") ptr::from_ref(arguments) => result,
            in("x1") size_of::<libc::clone_args>(),
            in("x8") libc::SYS_clone3,
        );
    }
    result
}

/// As a kernel without it answers.
///
/// # Safety
/// None is needed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn clone3(_: &libc::clone_args, _: extern "C" fn(*mut c_void) -> c_int, _: *mut c_void) -> i64 {
    -i64::from(libc::ENOSYS)
}

extern "C" fn child_main(shared: *mut c_void) -> c_int {
    // SAFETY: the pointer is to the `Shared` of `start`, which waits for us.
    let shared = unsafe { &*shared.cast::<Shared<'_>>() };
    match become_program(shared.plan, shared.joins.get()) {
        Ok(never) => match never {},
        Err(failure) => shared.failure.set(Some(failure)),
    }
    NOT_EXECUTED
}

fn become_program(plan: &Plan<'_>, joins: Option<BorrowedFd<'_>>) -> Result<Infallible, (Step, Errno)> {
    let at = |step| move |errno| (step, errno);
    match plan.apart {
        Apart::Session => drop(setsid().map_err(at(Step::Session))?),
        Apart::Group => setpgid(None, None).map_err(at(Step::Session))?,
    }
    place_descriptors(plan.stdio).map_err(at(Step::Descriptors))?;
    umask(Mode::from_raw_mode(plan.umask));
    for &(resource, value) in plan.limits {
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        setrlimit(resource, limit).map_err(at(Step::Limits))?;
    }
    if let Some(members) = joins {
        rustix::io::write(members, b"0").map_err(at(Step::Cgroup))?;
    }
    if let Some(identity) = plan.identity {
        take_on(identity, plan.groups).map_err(at(Step::Identity))?;
    }
    fchdir(plan.folder).map_err(at(Step::Enter))?;
    // What the server was given to listen at low ports is nobody else's. Older kernels have none to give.
    let _ = clear_ambient_capability_set();
    if plan.no_new_privileges {
        set_no_new_privs(true).map_err(at(Step::Privileges))?;
    }
    if let Some(ruleset) = plan.ruleset {
        confine(ruleset).map_err(at(Step::Confine))?;
    }
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(at(Step::Parent))?;
    if getppid() != Some(plan.parent) {
        return Err((Step::Parent, Errno::SRCH));
    }
    unblock_signals().map_err(at(Step::Session))?;
    // SAFETY: both lists end with a null pointer, and their strings live in the parent, which stands still.
    unsafe { libc::execve(plan.path.as_ptr(), plan.arguments.0.as_ptr(), plan.variables.0.as_ptr()) };
    Err((Step::Execute, last_errno()))
}

fn take_on(identity: &Identity, groups: &[Gid]) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    set_thread_groups(groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

/// Standard descriptors in their places; all others close when the program is executed.
fn place_descriptors([stdin, stdout, stderr]: [BorrowedFd<'_>; 3]) -> Result<(), Errno> {
    dup2_stdin(stdin)?;
    dup2_stdout(stdout)?;
    dup2_stderr(stderr)?;
    // SAFETY: changes a flag of descriptors, nothing in memory.
    let set = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if set == -1 { Err(last_errno()) } else { Ok(()) }
}

fn confine(ruleset: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: restricts the calling process, and touches nothing in memory.
    let set = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    if set == -1 { Err(last_errno()) } else { Ok(()) }
}

/// The spawner blocks all signals; programs expect none to be.
fn unblock_signals() -> Result<(), Errno> {
    // SAFETY: an empty set is all zeroes, and the call reads nothing else.
    let set = unsafe {
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut())
    };
    if set == -1 { Err(last_errno()) } else { Ok(()) }
}

/// The error number of the last call into the C library: the parent's, whose memory this is; it does not run.
fn last_errno() -> Errno {
    // SAFETY: the location is this thread's, and always readable.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitOptions, getpid, waitpid};
    use std::{fs::File, os::fd::AsFd as _};

    const PATTERN: u128 = u128::MAX / 3;

    #[test]
    fn the_stack_is_large_enough_many_times_over() {
        let null = File::options().read(true).write(true).open("/dev/null").expect("it is there");
        let root = File::open("/").expect("it is there");
        let (mut arguments, mut variables) = (Strings::default(), Strings::default());
        arguments.fill([c"true"].into_iter());
        variables.fill([].into_iter());
        let mut plan = Plan {
            path: c"/bin/true",
            arguments: &arguments,
            variables: &variables,
            stdio: [null.as_fd(); 3],
            folder: root.as_fd(),
            limits: &[(Resource::Core, 0)],
            identity: None,
            groups: &[],
            umask: 0o022,
            no_new_privileges: true,
            ruleset: None,
            cgroup: None,
            parent: getpid(),
            apart: Apart::Session,
        };
        let mut stack = Stack::new();
        let mut start = |plan: &Plan<'_>| {
            stack.0.fill(PATTERN);
            let started = super::start(plan, &mut stack);
            let untouched = stack.0.iter().take_while(|word| **word == PATTERN).count();
            assert!(untouched > stack.0.len() * 7 / 8, "{untouched} of {} words untouched", stack.0.len());
            started
        };
        let (pid, _) = start(&plan).expect("started");
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).expect("our own").expect("ended");
        assert_eq!(status.exit_status(), Some(0));

        plan.path = c"/no/such/program";
        assert_eq!(start(&plan).expect_err("there is none"), (Step::Execute, Errno::NOENT));
    }
}
