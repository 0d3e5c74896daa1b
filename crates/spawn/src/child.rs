//! From clone to exec: the steps of a child, in memory that the child borrows.
//!
//! A child makes only system calls: no allocation, no lock, no panic. No call goes through the C
//! library, because its `errno` is the spawner's. The spawner prepares everything that the child
//! needs in a [`Child`].
//!
//! Each step comes while its rights still exist. Limits and cgroup come while the child is
//! privileged. The child enters the folder as the user, because the user must be able to enter the
//! folder. The signal of the parent's death comes after the change of user, because that change
//! clears the signal.
//!
//! Leaves out the memory, and the clone itself (`clone_stack.rs`).

#![allow(unsafe_code)]

use crate::{error::StartStep, profile::Identity, raw};
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
    convert::Infallible,
    ffi::{CStr, CString, c_char},
    os::fd::{BorrowedFd, RawFd},
    ptr,
    sync::Arc,
};

/// Standard input, output and error: the first three.
const STANDARD_DESCRIPTORS: usize = 3;

/// Bytes of the kernel's set of signals.
const SIGNAL_SET_BYTES: usize = 8;

/// The step and the error that stopped a child before its program.
pub(crate) type ChildFailure = (StartStep, Errno);

/// Strings for the kernel: pointers to strings, with a null pointer at the end.
#[derive(Default)]
pub(crate) struct Strings(Vec<*const c_char>);

impl Strings {
    /// Replaces the strings. The strings must live as long as the child that reads the pointers.
    pub(crate) fn fill<'a>(&mut self, strings: impl Iterator<Item = &'a CStr>) {
        self.0.clear();
        self.0.extend(strings.map(CStr::as_ptr));
        self.0.push(ptr::null());
    }
}

/// Settings that all children of a profile share.
pub(crate) struct ChildRules {
    pub(crate) limits: Vec<(Resource, u64)>,
    pub(crate) identity: Option<Identity>,
    pub(crate) groups: Vec<Gid>,
    pub(crate) umask: u32,
    pub(crate) input_at_3: bool,
    pub(crate) no_new_privileges: bool,
    /// The spawner.
    pub(crate) parent: Pid,
    /// Sent to the child by the kernel when the spawner dies.
    pub(crate) at_parents_death: Signal,
    pub(crate) apart: ChildGroup,
}

/// The data that a child reads. The descriptors are numbers in the child's own table, which is a
/// copy.
pub(crate) struct Child {
    pub(crate) path: CString,
    pub(crate) arguments: Strings,
    pub(crate) variables: Strings,
    pub(crate) stdio: [RawFd; 3],
    pub(crate) folder: RawFd,
    pub(crate) ruleset: Option<RawFd>,
    /// The `cgroup.procs` file of a cgroup, if the child must join the cgroup after the clone.
    pub(crate) joins: Option<RawFd>,
    pub(crate) rules: Arc<ChildRules>,
}

/// The group that a child leads, so that the child ends with all of its descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildGroup {
    /// A process group in the keeper's session, which has no terminal.
    Group,
    /// A session as well: within a session, processes may continue each other and join process
    /// groups across users. Where the kernel has scheduling groups for sessions
    /// (`sched_autogroup_enabled`), each session is another group. Measured: 10 µs more when idle,
    /// 40 to 190 µs when busy. In a cgroup with the cpu controller there is no cost, because there
    /// are no such groups.
    Session,
}

/// Runs in a child: becomes the program, or returns the reason why not.
pub(crate) fn become_program(child: &Child) -> Result<Infallible, ChildFailure> {
    let at = |step| move |errno| (step, errno);
    // SAFETY: the descriptor is open in this process since the clone, until the program is
    // executed.
    let open = |descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) };
    let rules = &*child.rules;
    match rules.apart {
        ChildGroup::Session => drop(setsid().map_err(at(StartStep::Session))?),
        ChildGroup::Group => setpgid(None, None).map_err(at(StartStep::Session))?,
    }
    place_descriptors(child.stdio.map(open)).map_err(at(StartStep::Descriptors))?;
    umask(Mode::from_raw_mode(rules.umask));
    for &(resource, value) in &rules.limits {
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        setrlimit(resource, limit).map_err(at(StartStep::Limits))?;
    }
    if let Some(members) = child.joins {
        rustix::io::write(open(members), b"0").map_err(at(StartStep::Cgroup))?;
    }
    if let Some(identity) = &rules.identity {
        take_on(identity, &rules.groups).map_err(at(StartStep::Identity))?;
    }
    fchdir(open(child.folder)).map_err(at(StartStep::Enter))?;
    // The server's right to listen at low ports is for the server alone. Older kernels have no
    // ambient capabilities.
    let _ = clear_ambient_capability_set();
    if rules.no_new_privileges || child.ruleset.is_some() {
        set_no_new_privs(true).map_err(at(StartStep::Privileges))?;
    }
    if let Some(ruleset) = child.ruleset {
        confine(ruleset).map_err(at(StartStep::Confine))?;
    }
    set_parent_process_death_signal(Some(rules.at_parents_death)).map_err(at(StartStep::Parent))?;
    if getppid() != Some(rules.parent) {
        return Err((StartStep::Parent, Errno::SRCH));
    }
    unblock_signals().map_err(at(StartStep::Session))?;
    if rules.input_at_3 {
        // Last, because any of the descriptors above could be number 3.
        input_at_3().map_err(at(StartStep::Descriptors))?;
    }
    Err((StartStep::Execute, execute(child)))
}

/// Returns the error, because success does not return.
fn execute(child: &Child) -> Errno {
    let strings = |strings: &Strings| strings.0.as_ptr().addr();
    let arguments = [child.path.as_ptr().addr(), strings(&child.arguments), strings(&child.variables), 0];
    // SAFETY: both lists end with a null pointer, and their strings stay until we have left.
    match unsafe { raw::call(libc::SYS_execve, arguments) } {
        Err(errno) => errno,
        Ok(_) => Errno::NOEXEC,
    }
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
    let all = [STANDARD_DESCRIPTORS, u32::MAX as usize, libc::CLOSE_RANGE_CLOEXEC as usize, 0];
    // SAFETY: changes a flag of descriptors, nothing in memory.
    unsafe { raw::call(libc::SYS_close_range, all) }.map(drop)
}

/// Makes descriptor 3 another name of standard input, which the program keeps.
fn input_at_3() -> Result<(), Errno> {
    // SAFETY: changes the table of descriptors; the program owns number 3 from here on, and no code
    // here uses number 3.
    unsafe { raw::call(libc::SYS_dup3, [0, STANDARD_DESCRIPTORS, 0, 0]) }.map(drop)
}

fn confine(ruleset: RawFd) -> Result<(), Errno> {
    // SAFETY: restricts the calling process, and touches nothing in memory.
    unsafe { raw::call(libc::SYS_landlock_restrict_self, [ruleset as usize, 0, 0, 0]) }.map(drop)
}

/// The spawner blocks all signals, but programs expect that no signal is blocked.
fn unblock_signals() -> Result<(), Errno> {
    let none = [0u64; SIGNAL_SET_BYTES / size_of::<u64>()];
    let arguments = [libc::SIG_SETMASK as usize, none.as_ptr().addr(), 0, SIGNAL_SET_BYTES];
    // SAFETY: reads the set and nothing else.
    unsafe { raw::call(libc::SYS_rt_sigprocmask, arguments) }.map(drop)
}
