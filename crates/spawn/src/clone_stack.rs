//! The memory of a child until the exec: part of the spawner's memory, of which nothing is copied.
//!
//! `CLONE_VM`: a child shares all memory. The child uses only its [`CloneStack`]: its stack, its
//! input data, and the place for the reason of a failure, which the spawner reads afterwards
//! without a pipe. The spawner continues meanwhile. The spawner does not touch the clone stack
//! until the kernel has cleared its word (`CLONE_CHILD_CLEARTID`). By then the child has executed
//! its program, or has ended. The spawner waits for the exec only where it must know that the
//! program runs (`CLONE_VFORK`).

#![allow(unsafe_code)]

use crate::{
    child::{self, Child, ChildFailure, ChildRules},
    error::StartStep,
    raw, request,
};
use rustix::{io::Errno, process::Pid};
use std::{
    cell::Cell,
    ffi::{CStr, CString, c_int, c_void},
    io, iter,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    ptr::{self, NonNull},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

/// Bytes of a child's stack. The child's steps use less than an eighth, which a test measures by
/// filling the stack with a pattern.
const STACK_BYTES: usize = 64 * 1024;

/// `clone3(2)`: the child is born into the cgroup whose folder is given. The C library's constant
/// is too narrow.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The exit code of a child that could not execute its program; shells use the same.
const NOT_EXECUTED: c_int = 127;

/// Everything that a child does before its program runs.
pub(crate) struct ChildPlan<'a> {
    pub(crate) path: CString,
    /// Arguments and variables, in the format of a request.
    pub(crate) strings: &'a [u8],
    /// No descriptor here may be a standard descriptor.
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    pub(crate) folder: BorrowedFd<'a>,
    pub(crate) ruleset: Option<BorrowedFd<'a>>,
    pub(crate) cgroup: Option<Membership<'a>>,
    pub(crate) rules: Arc<ChildRules>,
}

/// The cgroup of a child.
#[derive(Clone, Copy)]
pub(crate) struct Membership<'a> {
    /// The folder of the cgroup in which the child is born.
    pub(crate) folder: BorrowedFd<'a>,
    /// The file `cgroup.procs` of the cgroup. The child writes itself there where birth into a
    /// cgroup is not available.
    pub(crate) members: BorrowedFd<'a>,
}

/// Whether the spawner waits until a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartWait {
    /// The spawner waits, and then knows that the program runs.
    UntilItRuns,
    /// The spawner continues. The spawner learns of a failure when the child ends.
    No,
}

/// Whether the caller wants a descriptor of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descriptor {
    Wanted,
    /// No descriptor, because a descriptor costs a file in the kernel.
    Unwanted,
}

/// The memory of one child at a time, until its program runs.
pub(crate) struct CloneStack(NonNull<StackPlace>);

struct StackPlace {
    /// The kernel clears the word when the child no longer uses the memory.
    in_use: AtomicU32,
    failure: Cell<Option<ChildFailure>>,
    child: Option<Child>,
    /// The bytes of a child's strings; the buffer is kept for reuse.
    text: Vec<u8>,
    /// In the unit of a stack's alignment.
    stack: Box<[u128]>,
}

impl CloneStack {
    pub(crate) fn new() -> Self {
        let place = StackPlace {
            in_use: AtomicU32::new(0),
            failure: Cell::new(None),
            child: None,
            text: Vec::new(),
            stack: vec![0; STACK_BYTES / size_of::<u128>()].into_boxed_slice(),
        };
        Self(NonNull::from(Box::leak(Box::new(place))))
    }

    fn is_occupied(&self) -> bool {
        // SAFETY: the place lives as long as `self`, and every write to this field is atomic.
        let in_use = unsafe { &(*self.0.as_ptr()).in_use };
        // Acquire: orders the read after all that the child has written here.
        in_use.load(Ordering::Acquire) != 0
    }

    /// The place while no child uses it.
    fn place(&mut self) -> &mut StackPlace {
        assert!(!self.is_occupied(), "a child lives here");
        // SAFETY: no other reference exists: only children get a reference, and there is no child.
        unsafe { self.0.as_mut() }
    }

    /// The reason why the last child could not become its program, with the program's path. `None`
    /// if the child succeeded, or was killed before. Call this after the child has ended.
    pub(crate) fn failure(&mut self) -> Option<(&CStr, ChildFailure)> {
        let place = self.place();
        let failure = place.failure.get()?;
        Some((&place.child.as_ref().expect("one has failed").path, failure))
    }

    /// Starts a program and returns its process.
    pub(crate) fn start(
        &mut self,
        plan: ChildPlan<'_>,
        wait: StartWait,
        descriptor: Descriptor,
    ) -> Result<(Pid, Option<OwnedFd>), ChildFailure> {
        let cgroup = plan.cgroup;
        let mut birth = Birth::prepare(self, plan, wait, descriptor);
        let cloned = match cgroup {
            None => birth.cloned(),
            Some(cgroup) => match birth.cloned_into(cgroup.folder) {
                // `clone3` is missing or forbidden, as in some containers.
                Err(Errno::NOSYS | Errno::PERM) => {
                    birth.child().joins = Some(cgroup.members.as_raw_fd());
                    birth.cloned()
                }
                cloned => cloned,
            },
        };
        let (pid, descriptor) = cloned.map_err(|errno| (StartStep::Clone, errno))?;
        if wait == StartWait::UntilItRuns
            && let Some((_, failure)) = self.failure()
        {
            // The child has ended, or is about to. No other code waits for this child.
            let _ = rustix::io::retry_on_intr(|| {
                rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty())
            });
            return Err(failure);
        }
        Ok((pid, descriptor))
    }
}

impl Drop for CloneStack {
    fn drop(&mut self) {
        // A leak is better than freeing memory that a child uses.
        if !self.is_occupied() {
            // SAFETY: the pointer comes from `Box`, and no other reference exists.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

/// A child about to be born.
struct Birth<'c> {
    stack: &'c mut CloneStack,
    /// Of `clone(2)`.
    flags: c_int,
    descriptor: RawFd,
}

impl<'c> Birth<'c> {
    fn prepare(
        stack: &'c mut CloneStack,
        plan: ChildPlan<'_>,
        wait: StartWait,
        descriptor: Descriptor,
    ) -> Self {
        let StackPlace { failure, child, text, .. } = stack.place();
        failure.set(None);
        text.clear();
        text.extend_from_slice(plan.strings);
        let (mut arguments, mut variables) = match child.take() {
            Some(Child { arguments, variables, .. }) => (arguments, variables),
            None => Default::default(),
        };
        arguments.fill(iter::once(plan.path.as_c_str()).chain(request::arguments(text)));
        variables.fill(request::variables(text));
        *child = Some(Child {
            path: plan.path,
            arguments,
            variables,
            stdio: plan.stdio.map(|descriptor| descriptor.as_raw_fd()),
            folder: plan.folder.as_raw_fd(),
            ruleset: plan.ruleset.map(|ruleset| ruleset.as_raw_fd()),
            joins: None,
            rules: plan.rules,
        });
        let waits = if wait == StartWait::UntilItRuns { libc::CLONE_VFORK } else { 0 };
        let descriptor = if descriptor == Descriptor::Wanted { libc::CLONE_PIDFD } else { 0 };
        let flags = libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID | waits | descriptor;
        Self { stack, flags, descriptor: -1 }
    }

    fn child(&mut self) -> &mut Child {
        self.stack.place().child.as_mut().expect("prepared")
    }

    fn cloned(&mut self) -> Result<(Pid, Option<OwnedFd>), Errno> {
        let place = self.occupy();
        // SAFETY: the child runs `child_main` on a stack of its own. The child's data and its stack
        // stay unchanged until the child has left them, which `CloneStack` ensures.
        let pid = unsafe {
            let stack = (*place).stack.as_mut_ptr_range().end.cast();
            let (flags, in_use) = (self.flags | libc::SIGCHLD, (*place).in_use.as_ptr());
            let no_thread: *mut c_void = ptr::null_mut();
            libc::clone(child_main, stack, flags, place.cast(), &raw mut self.descriptor, no_thread, in_use)
        };
        if pid == -1 {
            return Err(
                self.failed_clone(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
            );
        }
        Ok(self.child_of(pid))
    }

    fn cloned_into(&mut self, cgroup: BorrowedFd<'_>) -> Result<(Pid, Option<OwnedFd>), Errno> {
        let place = self.occupy();
        // SAFETY: within the place, which no child uses yet.
        let (stack, in_use) = unsafe { ((*place).stack.as_mut_ptr(), (*place).in_use.as_ptr()) };
        let arguments = libc::clone_args {
            flags: self.flags as u64 | CLONE_INTO_CGROUP,
            pidfd: (&raw mut self.descriptor).expose_provenance() as u64,
            child_tid: in_use.expose_provenance() as u64,
            parent_tid: 0,
            exit_signal: libc::SIGCHLD as u64,
            stack: stack.expose_provenance() as u64,
            stack_size: STACK_BYTES as u64,
            tls: 0,
            set_tid: 0,
            set_tid_size: 0,
            cgroup: cgroup.as_raw_fd() as u64,
        };
        // SAFETY: as in `cloned`.
        let pid = unsafe { raw::clone3(&arguments, child_main, place.cast()) };
        match c_int::try_from(pid) {
            Ok(pid) if pid > 0 => Ok(self.child_of(pid)),
            Ok(errno) => Err(self.failed_clone(Errno::from_raw_os_error(-errno))),
            Err(_) => Err(self.failed_clone(Errno::IO)),
        }
    }

    /// From here on the place belongs to the child.
    fn occupy(&mut self) -> *mut StackPlace {
        *self.stack.place().in_use.get_mut() = 1;
        self.stack.0.as_ptr()
    }

    fn failed_clone(&mut self, errno: Errno) -> Errno {
        // SAFETY: there is no child.
        *unsafe { self.stack.0.as_mut() }.in_use.get_mut() = 0;
        errno
    }

    fn child_of(&self, pid: c_int) -> (Pid, Option<OwnedFd>) {
        let pid = Pid::from_raw(pid).expect("a child has a number above zero");
        let is_wanted = self.flags & libc::CLONE_PIDFD != 0;
        // SAFETY: the kernel has just made this descriptor for us, because of CLONE_PIDFD.
        (pid, is_wanted.then(|| unsafe { OwnedFd::from_raw_fd(self.descriptor) }))
    }
}

extern "C" fn child_main(place: *mut c_void) -> c_int {
    // SAFETY: the pointer is to the place of a clone stack, which belongs to this child until the
    // exec or the exit.
    let place = unsafe { &*place.cast::<StackPlace>() };
    match child::become_program(place.child.as_ref().expect("it was prepared")) {
        Ok(never) => match never {},
        Err(failure) => place.failure.set(Some(failure)),
    }
    NOT_EXECUTED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::ChildGroup;
    use rustix::process::{Resource, Signal, WaitOptions, getpid, waitpid};
    use std::{fs::File, os::fd::AsFd as _};

    const PATTERN: u128 = u128::MAX / 3;

    #[test]
    fn the_stack_is_large_enough_many_times_over() {
        let null = File::options().read(true).write(true).open("/dev/null").expect("it is there");
        let root = File::open("/").expect("it is there");
        let rules = Arc::new(ChildRules {
            limits: vec![(Resource::Core, 0)],
            identity: None,
            groups: Vec::new(),
            umask: 0o022,
            input_at_3: false,
            at_parents_death: Signal::KILL,
            no_new_privileges: true,
            parent: getpid(),
            apart: ChildGroup::Session,
        });
        let mut stack = CloneStack::new();
        let mut start = |path: &CStr, wait| {
            stack.place().stack.fill(PATTERN);
            let plan = ChildPlan {
                path: path.to_owned(),
                strings: b"Atrue\0",
                stdio: [null.as_fd(); 3],
                folder: root.as_fd(),
                ruleset: None,
                cgroup: None,
                rules: rules.clone(),
            };
            let started = stack.start(plan, wait, Descriptor::Unwanted).map(|(pid, _)| {
                let (_, status) = waitpid(Some(pid), WaitOptions::empty()).expect("our own").expect("ended");
                (status.exit_status(), stack.failure().map(|(_, failure)| failure))
            });
            let untouched = stack.place().stack.iter().take_while(|word| **word == PATTERN).count();
            let all = STACK_BYTES / size_of::<u128>();
            assert!(untouched > all * 7 / 8, "{untouched} of {all} words untouched");
            started
        };
        let missing = (StartStep::Execute, Errno::NOENT);
        for wait in [StartWait::UntilItRuns, StartWait::No] {
            assert_eq!(start(c"/bin/true", wait), Ok((Some(0), None)));
        }
        assert_eq!(start(c"/no/such/program", StartWait::UntilItRuns), Err(missing));
        assert_eq!(start(c"/no/such/program", StartWait::No), Ok((Some(NOT_EXECUTED), Some(missing))));
    }
}
