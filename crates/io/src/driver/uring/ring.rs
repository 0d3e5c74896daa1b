//! The ring: queues operations, enters the kernel, collects completions.
//!
//! Contains the two queues and every `unsafe` reason about operations without memory. The ring
//! counts the entries that the kernel has consumed, so the caller knows when a send without a
//! completion is decided. A full submission queue is submitted early; if the kernel then takes
//! nothing (out of memory), entries spill into a list. Tested in `tests/suite`.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use io_uring::register::Restriction;
use io_uring::squeue::{Entry, Flags};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, types};

use super::outbox::SendOp;
use crate::driver::outgoing::More;

/// A completion, copied out of the ring.
#[derive(Clone, Copy)]
pub(super) struct Completion {
    pub(super) user_data: u64,
    pub(super) result: i32,
    flags: u32,
}

impl Completion {
    /// Whether the operation continues (multishot).
    pub(super) fn goes_on(self) -> bool {
        cqueue::more(self.flags)
    }

    /// The receive buffer of the completion.
    pub(super) fn buffer(self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }
}

/// The number of connections to accept, now and later.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HowMany {
    /// All, until canceled.
    All,
    /// The first only.
    One,
}

/// The form of a send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SendForm {
    /// During submission, without waiting; a completion comes only after a partial send or an
    /// error.
    AtOnce,
    /// Until every byte is taken; a completion always comes.
    Whole,
}

/// Whether and how long to wait for a completion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RingWait {
    No,
    /// Until there is a completion, or the timeout.
    First(Option<Duration>),
}

/// `struct io_uring_getevents_arg` of the kernel.
#[repr(C)]
struct GetEventsArg {
    sigmask: u64,
    sigmask_bytes: u32,
    min_wait_us: u32,
    timeout: u64,
}

/// `struct io_uring_rsrc_update` of the kernel.
#[repr(C)]
struct RingFdUpdate {
    index: u32,
    reserved: u32,
    fd: u64,
}

const REGISTER_RING_FDS: libc::c_uint = 20;
const UNREGISTER_RING_FDS: libc::c_uint = 21;

/// The operations of the driver. The kernel refuses all others on its rings, because operations of
/// io_uring do not pass seccomp: an attacker with code in the process could use them otherwise.
const OPERATIONS: [u8; 8] = [
    opcode::Accept::CODE,
    opcode::RecvMulti::CODE,
    opcode::PollAdd::CODE,
    opcode::AsyncCancel::CODE,
    opcode::Close::CODE,
    opcode::Send::CODE,
    opcode::SendMsg::CODE,
    opcode::AcceptMulti::CODE,
];

/// The operations of io_uring_register(2) on an enabled ring: descriptors of rings (20, 21), rings
/// of buffers (22, 23), polling of network cards (27, 28).
const REGISTRATIONS: [u8; 6] = [20, 21, 22, 23, 27, 28];

/// Maximum size of a send in bytes: the kernel's bound (MAX_RW_COUNT), rounded down.
const SEND_MAX: usize = 1 << 30;

pub(super) struct Ring {
    io: IoUring,
    /// The argument of `io_uring_enter`: an index registered with the kernel, or the descriptor.
    enter_fd: RawFd,
    enter_flags: EnterFlags,
    registered: bool,
    spilled: VecDeque<Entry>,
    /// Entries pushed since the ring was made.
    pushed: u64,
    /// Pushed entries that the kernel has consumed.
    consumed: u64,
    /// The number of entries pushed up to the last receive.
    last_receive: u64,
    /// Operations that will still complete; silent ones do not count.
    in_flight: usize,
}

impl Ring {
    pub(super) fn new(entries: u32) -> io::Result<Self> {
        let io = build(entries, true).or_else(|_| build(entries, false))?;
        let (enter_fd, registered) = match register_ring_fd(&io) {
            Some(index) => (index, true),
            None => (io.as_raw_fd(), false),
        };
        let mut enter_flags = EnterFlags::GETEVENTS;
        if registered {
            enter_flags |= EnterFlags::REGISTERED_RING;
        }
        if io.params().is_feature_no_iowait() {
            enter_flags |= EnterFlags::NO_IOWAIT;
        }
        Ok(Self {
            io,
            enter_fd,
            enter_flags,
            registered,
            spilled: VecDeque::new(),
            pushed: 0,
            consumed: 0,
            last_receive: 0,
            in_flight: 0,
        })
    }

    pub(super) fn io(&self) -> &IoUring {
        &self.io
    }

    /// Makes waits poll the network cards of the used sockets for at most `up_to` before they
    /// sleep; zero disables polling (`IORING_REGISTER_NAPI`, Linux 6.9).
    pub(super) fn busy_poll(&self, up_to: Duration) -> io::Result<()> {
        let mut napi = types::Napi::new();
        let submitter = self.io.submitter();
        if up_to.is_zero() {
            return submitter.unregister_napi(&mut napi);
        }
        let micros = u32::try_from(up_to.as_micros()).unwrap_or(u32::MAX);
        submitter.register_napi(&mut napi.set_busy_poll_timeout(micros))
    }

    /// Accepts connections.
    pub(super) fn accept(&mut self, listener: RawFd, how_many: HowMany, user_data: u64) {
        let (fd, flags) = (types::Fd(listener), libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        let entry = match how_many {
            HowMany::All => opcode::AcceptMulti::new(fd).flags(flags).build(),
            HowMany::One => opcode::Accept::new(fd, ptr::null_mut(), ptr::null_mut()).flags(flags).build(),
        };
        self.in_flight += 1;
        // SAFETY: the operation uses no memory of this process, because the peer's address is not
        // requested.
        unsafe { self.push(entry.user_data(user_data)) };
    }

    /// Receives into the registered buffers until canceled.
    pub(super) fn receive(&mut self, stream: RawFd, buffer_group: u16, user_data: u64) {
        let entry = opcode::RecvMulti::new(types::Fd(stream), buffer_group).build();
        self.in_flight += 1;
        // SAFETY: the memory is the buffer group's, which outlives every receive (see `Buffers`).
        unsafe { self.push(entry.user_data(user_data)) };
        self.last_receive = self.pushed;
    }

    /// Waits once for `events` of poll(2).
    pub(super) fn poll(&mut self, fd: RawFd, events: libc::c_short, user_data: u64) {
        let entry = opcode::PollAdd::new(types::Fd(fd), events as u32).build();
        self.in_flight += 1;
        // SAFETY: the operation uses no memory of this process.
        unsafe { self.push(entry.user_data(user_data)) };
    }

    /// Reports input on `fd` repeatedly.
    pub(super) fn poll_always(&mut self, fd: RawFd, user_data: u64) {
        let entry = opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32).multi(true).build();
        self.in_flight += 1;
        // SAFETY: the operation uses no memory of this process.
        unsafe { self.push(entry.user_data(user_data)) };
    }

    /// Cancels an operation, which then completes; silent unless there is nothing to cancel.
    pub(super) fn cancel(&mut self, target: u64, user_data: u64) {
        let entry = opcode::AsyncCancel::new(target).build().flags(Flags::SKIP_SUCCESS);
        // SAFETY: the operation uses no memory of this process.
        unsafe { self.push(entry.user_data(user_data)) };
    }

    /// Cancels everything; silent.
    pub(super) fn cancel_all(&mut self, user_data: u64) {
        let entry = opcode::AsyncCancel2::new(types::CancelBuilder::any().all()).build();
        let entry = entry.flags(Flags::SKIP_SUCCESS);
        // SAFETY: the operation uses no memory of this process.
        unsafe { self.push(entry.user_data(user_data)) };
    }

    /// Closes a descriptor with the next submission; silent.
    pub(super) fn close(&mut self, fd: OwnedFd, user_data: u64) {
        let entry = opcode::Close::new(types::Fd(fd.into_raw_fd())).build().flags(Flags::SKIP_SUCCESS);
        // SAFETY: the operation uses no memory of this process, and the kernel owns the descriptor
        // from here on.
        unsafe { self.push(entry.user_data(user_data)) };
    }

    /// Sends the rest of `op` and returns the count of entries pushed so far, see
    /// [`Ring::consumed`].
    ///
    /// # Safety
    /// `op` must stay in place, untouched, until the completion has come, or for
    /// [`SendForm::AtOnce`] until the entry has been consumed and no completion has come by then.
    pub(super) unsafe fn send(
        &mut self,
        socket: RawFd,
        op: &mut SendOp,
        attempt: SendForm,
        user_data: u64,
    ) -> u64 {
        let mut flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        if op.outgoing.more == More::Yes {
            flags |= libc::MSG_MORE;
        }
        if attempt == SendForm::AtOnce {
            flags |= libc::MSG_DONTWAIT;
        }
        let fd = types::Fd(socket);
        let (head, body) = op.outgoing.rest();
        let left = head.len() + body.len();
        let mut entry = match (head, body) {
            (part, []) | ([], part) => {
                let len = part.len().min(SEND_MAX) as u32;
                opcode::Send::new(fd, part.as_ptr(), len).flags(flags).build()
            }
            _ => opcode::SendMsg::new(fd, op.message()).flags(flags as u32).build(),
        };
        match attempt {
            // The kernel cuts longer sends, and a successful cut send is not complete.
            SendForm::AtOnce if left <= SEND_MAX => entry = entry.flags(Flags::SKIP_SUCCESS),
            SendForm::AtOnce => {}
            SendForm::Whole => self.in_flight += 1,
        }
        // SAFETY: the caller guarantees that the memory stays valid.
        unsafe { self.push(entry.user_data(user_data)) };
        self.pushed
    }

    /// # Safety
    /// The memory of the entry must stay valid until the operation has completed.
    unsafe fn push(&mut self, entry: Entry) {
        // SAFETY: as this function requires.
        if self.spilled.is_empty() && unsafe { self.push_if_room(&entry) } {
            return;
        }
        // An error comes again with the next turn, which reports it.
        let _ = self.enter(RingWait::No);
        // SAFETY: as this function requires.
        if self.spilled.is_empty() && unsafe { self.push_if_room(&entry) } {
            return;
        }
        self.spilled.push_back(entry);
        self.pushed += 1;
    }

    /// # Safety
    /// As [`Ring::push`].
    unsafe fn push_if_room(&mut self, entry: &Entry) -> bool {
        // SAFETY: as this function requires.
        let pushed = unsafe { self.io.submission().push(entry) }.is_ok();
        self.pushed += u64::from(pushed);
        pushed
    }

    fn unspill(&mut self) {
        let mut queue = self.io.submission();
        while let Some(entry) = self.spilled.front() {
            // SAFETY: the code that pushed the entry guarantees that the memory stays valid.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            self.spilled.pop_front();
        }
    }

    /// Whether entries wait for submission.
    pub(super) fn has_unsubmitted(&self) -> bool {
        self.consumed != self.pushed
    }

    /// Whether a receive waits for submission.
    pub(super) fn has_unsubmitted_receive(&self) -> bool {
        self.last_receive > self.consumed
    }

    /// The number of pushed entries that the kernel has consumed.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Whether an operation will still complete.
    pub(super) fn has_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// A counted operation has completed for good.
    pub(super) fn landed(&mut self) {
        debug_assert!(self.in_flight > 0);
        self.in_flight -= 1;
    }

    /// Whether the kernel has work that requires an enter.
    pub(super) fn has_kernel_work(&mut self) -> bool {
        let queue = self.io.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Whether completions wait outside the completion queue, which was full.
    pub(super) fn has_overflowed(&mut self) -> bool {
        self.io.submission().cq_overflow()
    }

    pub(super) fn has_completions(&mut self) -> bool {
        !self.io.completion().is_empty()
    }

    /// Submits all queued entries, runs the kernel's deferred work, and waits. An interruption, a
    /// timeout or a temporary lack of memory is no error.
    pub(super) fn enter(&mut self, wait: RingWait) -> io::Result<()> {
        while !self.spilled.is_empty() {
            self.unspill();
            let before = self.spilled.len();
            if before == 0 {
                break;
            }
            self.enter_once(RingWait::No)?;
            self.unspill();
            if self.spilled.len() == before {
                // The kernel takes nothing now, so there is no completion to wait for.
                return Ok(());
            }
        }
        self.enter_once(wait)
    }

    fn enter_once(&mut self, wait: RingWait) -> io::Result<()> {
        let (want, limit) = match wait {
            RingWait::No => (0, None),
            RingWait::First(timeout) => (1, timeout),
        };
        let timeout = limit.map(types::Timespec::from);
        let argument = GetEventsArg {
            sigmask: 0,
            sigmask_bytes: 0,
            min_wait_us: 0,
            timeout: timeout.as_ref().map_or(0, |timeout| (&raw const *timeout).addr() as u64),
        };
        let (mut pointer, mut bytes, mut flags) = (std::ptr::null(), 0, self.enter_flags);
        if limit.is_some() {
            (pointer, bytes) = (&raw const argument, size_of::<GetEventsArg>());
            flags |= EnterFlags::EXT_ARG;
        }
        let submit = self.io.submission().len();
        // SAFETY: the descriptor is this ring's, and the argument, if any, outlives the call.
        let result = unsafe {
            libc::syscall(libc::SYS_io_uring_enter, self.enter_fd, submit, want, flags.bits(), pointer, bytes)
        };
        self.consumed = self.pushed - (self.io.submission().len() + self.spilled.len()) as u64;
        if result >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => Ok(()),
            _ => Err(error),
        }
    }

    /// Moves the available completions into `into`.
    pub(super) fn collect(&mut self, into: &mut Vec<Completion>) {
        into.extend(self.io.completion().map(|entry| Completion {
            user_data: entry.user_data(),
            result: entry.result(),
            flags: entry.flags(),
        }));
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.registered {
            let update = RingFdUpdate { index: self.enter_fd as u32, reserved: 0, fd: 0 };
            let fd = self.io.as_raw_fd();
            // SAFETY: `update` has the kernel's layout and outlives the call.
            unsafe {
                libc::syscall(libc::SYS_io_uring_register, fd, UNREGISTER_RING_FDS, &raw const update, 1)
            };
        }
    }
}

/// Makes a ring for this thread only, which runs deferred work only on enter, and flags such work.
fn build(entries: u32, without_array: bool) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all().setup_clamp();
    builder.setup_r_disabled();
    // Multishot operations complete often per submission.
    builder.setup_cqsize(entries.saturating_mul(4));
    if without_array {
        builder.setup_no_sqarray();
    }
    let io = builder.build(entries)?;
    if !(io.params().is_feature_ext_arg() && io.params().is_feature_nodrop()) {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    restrict(&io)?;
    io.submitter().register_enable_rings()?;
    Ok(io)
}

/// Restricts a ring that is not enabled yet to the operations of the driver, for its whole life.
fn restrict(io: &IoUring) -> io::Result<()> {
    let flags = Flags::BUFFER_SELECT | Flags::SKIP_SUCCESS;
    let mut restrictions: Vec<_> = OPERATIONS.map(Restriction::sqe_op).into();
    restrictions.extend(REGISTRATIONS.map(Restriction::register_op));
    restrictions.push(Restriction::sqe_flags_allowed(flags.bits()));
    io.submitter().register_restrictions(&mut restrictions)
}

/// Registers the ring with the calling thread, which saves every `enter` the lookup of a
/// descriptor.
fn register_ring_fd(io: &IoUring) -> Option<RawFd> {
    let mut update = RingFdUpdate { index: u32::MAX, reserved: 0, fd: io.as_raw_fd() as u64 };
    let fd = io.as_raw_fd();
    // SAFETY: `update` has the kernel's layout and outlives the call.
    let count =
        unsafe { libc::syscall(libc::SYS_io_uring_register, fd, REGISTER_RING_FDS, &raw mut update, 1) };
    (count == 1).then_some(update.index as RawFd)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of these operations on a new ring; `None` if there is no io_uring here.
    fn results(entries: Vec<Entry>) -> Option<Vec<i32>> {
        let mut ring = match Ring::new(8) {
            Ok(ring) => ring,
            Err(error) => {
                eprintln!("SKIPPED: io_uring: {error}");
                return None;
            }
        };
        let mut results = Vec::new();
        for entry in entries {
            // SAFETY: the entries of the tests use no memory of this process.
            unsafe { ring.push(entry) };
            let mut completions = Vec::new();
            while completions.is_empty() {
                ring.enter(RingWait::First(None)).expect("it enters");
                ring.collect(&mut completions);
            }
            results.extend(completions.iter().map(|completion| completion.result));
        }
        Some(results)
    }

    #[test]
    fn ring_refuses_operations_that_driver_does_not_use() {
        let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), c"/dev/null".as_ptr()).build();
        let socket = opcode::Socket::new(libc::AF_INET, libc::SOCK_DGRAM, 0).build();
        let linked = opcode::PollAdd::new(types::Fd(0), 0).build().flags(Flags::IO_LINK);
        let closed = opcode::Close::new(types::Fd(-1)).build();
        let Some(results) = results(vec![open, socket, opcode::Nop::new().build(), linked, closed]) else {
            return;
        };
        let refused = -libc::EACCES;
        assert_eq!(results, [refused, refused, refused, refused, -libc::EBADF]);
    }

    #[test]
    fn ring_refuses_registrations_that_driver_does_not_use() {
        let Ok(ring) = Ring::new(8) else { return eprintln!("SKIPPED: no io_uring") };
        let submitter = ring.io.submitter();
        let files = submitter.register_files(&[0]).expect_err("no such registration");
        let more = submitter.register_restrictions(&mut [Restriction::sqe_op(opcode::OpenAt::CODE)]);
        assert_eq!(files.raw_os_error(), Some(libc::EACCES));
        assert!(more.is_err(), "a restriction cannot be lifted");
    }
}
