//! The floor with io_uring: multishot receive into a buffer ring, and all sends of a turn in one
//! system call.
//!
//! One thread, one ring (single issuer, deferred task work). A request costs one completion and one
//! submission, because a send reports only its failure. A response from a file is the exception:
//! io_uring has no sendfile, so the loop calls sendfile and waits for a full socket with a poll.
//! The response's bytes are in `response.rs` or `files.rs`; the receive buffers are in
//! `FloorBuffers`, and their contents are read for files only.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::files::FloorFiles;
use crate::response::{RepeatedResponse, SendProgress};

/// Submissions per turn before an early flush: more than the connections of any run (64).
const SUBMISSIONS: u32 = 1024;
/// Receive buffers; a power of two, as the kernel asks. Buffers return at once, so few are in use
/// at any time.
const BUFFERS: u16 = 256;
/// Bytes per receive buffer: well above wrk's requests (under 200 bytes).
const BUFFER_BYTES: usize = 1024;
const BUFFER_GROUP: u16 = 0;
const PAGE_BYTES: usize = 4096;

/// The operation of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FloorOp {
    Accept,
    Receive,
    Send,
    Writable,
}

/// The user data of a submission: the operation, the descriptor and the connection's serial number.
/// The serial number is needed because a completion may come after the connection was closed and
/// the next connection got the same descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SubmissionTag {
    op: FloorOp,
    serial: u16,
    fd: RawFd,
}

impl SubmissionTag {
    fn pack(self) -> u64 {
        ((self.op as u64) << 48) | (u64::from(self.serial) << 32) | u64::from(self.fd as u32)
    }

    fn unpack(user_data: u64) -> Self {
        let op = [FloorOp::Accept, FloorOp::Receive, FloorOp::Send, FloorOp::Writable]
            [(user_data >> 48) as usize & 3];
        Self { op, serial: (user_data >> 32) as u16, fd: user_data as u32 as RawFd }
    }
}

/// Serves until the process is killed.
///
/// With `files`, a response is the file that the request names, in place of `response`.
pub(crate) fn run(
    listener: &TcpListener,
    response: &RepeatedResponse,
    files: Option<&mut FloorFiles>,
) -> io::Result<()> {
    let mut ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_cqsize(SUBMISSIONS * 4)
        .build(SUBMISSIONS)?;
    let mut floor = UringFloor {
        response,
        files,
        buffers: FloorBuffers::new(),
        listener: listener.as_raw_fd(),
        connections: Vec::new(),
        accepted: 0,
    };
    floor.buffers.register(&ring)?;
    let accept = floor.accept();
    push(&mut ring, accept)?;
    let mut completions: Vec<cqueue::Entry> = Vec::with_capacity(SUBMISSIONS as usize * 4);
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(Errno::INTR.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        completions.extend(ring.completion());
        for completion in completions.drain(..) {
            floor.on_completion(&mut ring, &completion)?;
        }
    }
}

/// Queues one submission, and flushes the queue first if the queue is full.
fn push(ring: &mut IoUring, entry: squeue::Entry) -> io::Result<()> {
    loop {
        // SAFETY: every entry built here names descriptors, and memory of the response or the
        // buffer ring, that live as long as the loop that waits for the entry's completion.
        if unsafe { ring.submission().push(&entry) }.is_ok() {
            return Ok(());
        }
        ring.submit()?;
    }
}

struct UringConnection {
    socket: OwnedFd,
    serial: u16,
    sent: u64,
    /// The response of a file, until the client has it and asks again.
    of_file: Vec<u8>,
}

struct UringFloor<'a> {
    response: &'a RepeatedResponse,
    files: Option<&'a mut FloorFiles>,
    buffers: FloorBuffers,
    listener: RawFd,
    connections: Vec<Option<UringConnection>>,
    accepted: u16,
}

impl UringFloor<'_> {
    fn accept(&self) -> squeue::Entry {
        let tag = SubmissionTag { op: FloorOp::Accept, serial: 0, fd: self.listener };
        opcode::AcceptMulti::new(Fd(self.listener)).build().user_data(tag.pack())
    }

    fn receive(tag: SubmissionTag) -> squeue::Entry {
        let tag = SubmissionTag { op: FloorOp::Receive, ..tag };
        opcode::RecvMulti::new(Fd(tag.fd), BUFFER_GROUP).build().user_data(tag.pack())
    }

    fn on_completion(&mut self, ring: &mut IoUring, completion: &cqueue::Entry) -> io::Result<()> {
        let tag = SubmissionTag::unpack(completion.user_data());
        let done = !cqueue::more(completion.flags());
        if let Some(buffer) = cqueue::buffer_select(completion.flags()) {
            self.read_file(tag, buffer, completion.result())?;
            self.buffers.give_back(buffer);
        }
        if tag.op == FloorOp::Accept {
            if done {
                push(ring, self.accept())?;
            }
            return self.on_accept(ring, completion.result());
        }
        if self.connection(tag).is_none() {
            return Ok(());
        }
        match tag.op {
            FloorOp::Receive => self.on_receive(ring, tag, completion.result(), done),
            FloorOp::Writable => self.answer_from_file(ring, tag),
            // A send reports only its failure.
            FloorOp::Send | FloorOp::Accept => {
                self.close(tag);
                Ok(())
            }
        }
    }

    /// The connection of a completion, if still open.
    fn connection(&mut self, tag: SubmissionTag) -> Option<&mut UringConnection> {
        self.connections
            .get_mut(tag.fd as usize)?
            .as_mut()
            .filter(|connection| connection.serial == tag.serial)
    }

    fn on_accept(&mut self, ring: &mut IoUring, result: i32) -> io::Result<()> {
        if result < 0 {
            return Ok(());
        }
        let slot = result as usize;
        // SAFETY: the kernel handed over this descriptor with the completion; there is no other
        // owner.
        let socket = unsafe { OwnedFd::from_raw_fd(result) };
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        self.accepted = self.accepted.wrapping_add(1);
        self.connections[slot] =
            Some(UringConnection { socket, serial: self.accepted, sent: 0, of_file: Vec::new() });
        push(ring, Self::receive(SubmissionTag { op: FloorOp::Receive, serial: self.accepted, fd: result }))
    }

    fn on_receive(
        &mut self,
        ring: &mut IoUring,
        tag: SubmissionTag,
        result: i32,
        done: bool,
    ) -> io::Result<()> {
        let out_of_buffers = result == -Errno::NOBUFS.raw_os_error();
        if result <= 0 && !out_of_buffers {
            self.close(tag);
            return Ok(());
        }
        if done {
            push(ring, Self::receive(tag))?;
        }
        if out_of_buffers {
            return Ok(());
        }
        let response = self.response;
        let canned = match &self.files {
            Some(_) => self.connection(tag).map(|connection| &connection.of_file[..]),
            None => response.in_memory(),
        };
        let Some(canned) = canned else {
            if let Some(connection) = self.connection(tag) {
                connection.sent = 0;
            }
            return self.answer_from_file(ring, tag);
        };
        // With WAITALL the kernel continues a short send without help, so success needs no
        // completion.
        let flags = SendFlags::NOSIGNAL.bits() as i32 | rustix::net::RecvFlags::WAITALL.bits() as i32;
        let send = opcode::Send::new(Fd(tag.fd), canned.as_ptr(), canned.len() as u32).flags(flags).build();
        push(
            ring,
            send.flags(squeue::Flags::SKIP_SUCCESS)
                .user_data(SubmissionTag { op: FloorOp::Send, ..tag }.pack()),
        )
    }

    /// Answers a request for a file, which has come in a buffer.
    fn read_file(&mut self, tag: SubmissionTag, buffer: u16, received: i32) -> io::Result<()> {
        let (Some(files), Ok(received)) = (&mut self.files, usize::try_from(received)) else { return Ok(()) };
        let connection = self.connections.get_mut(tag.fd as usize).and_then(Option::as_mut);
        match connection.filter(|connection| connection.serial == tag.serial && received > 0) {
            Some(connection) => {
                files.answer(self.buffers.received(buffer, received), &mut connection.of_file)
            }
            None => Ok(()),
        }
    }

    fn answer_from_file(&mut self, ring: &mut IoUring, tag: SubmissionTag) -> io::Result<()> {
        let response = self.response;
        let Some(connection) = self.connection(tag) else { return Ok(()) };
        match response.send(&connection.socket, &mut connection.sent) {
            Err(_) => {
                self.close(tag);
                Ok(())
            }
            Ok(SendProgress::Done) => Ok(()),
            Ok(SendProgress::Blocked) => {
                let out = rustix::event::PollFlags::OUT.bits();
                let poll = opcode::PollAdd::new(Fd(tag.fd), u32::from(out)).build();
                push(ring, poll.user_data(SubmissionTag { op: FloorOp::Writable, ..tag }.pack()))
            }
        }
    }

    fn close(&mut self, tag: SubmissionTag) {
        if let Some(slot) = self.connections.get_mut(tag.fd as usize) {
            *slot = None;
        }
    }
}

/// The buffer ring: entries that the kernel takes from the front, and their memory.
struct FloorBuffers {
    entries: NonNull<BufRingEntry>,
    memory: Vec<u8>,
    tail: u16,
}

impl FloorBuffers {
    const LAYOUT: Layout =
        match Layout::from_size_align(BUFFERS as usize * size_of::<BufRingEntry>(), PAGE_BYTES) {
            Ok(layout) => layout,
            Err(_) => panic!("the ring's layout is a constant"),
        };

    fn new() -> Self {
        // SAFETY: the layout has a size above zero.
        let pointer = unsafe { alloc_zeroed(Self::LAYOUT) }.cast::<BufRingEntry>();
        let entries = NonNull::new(pointer).unwrap_or_else(|| handle_alloc_error(Self::LAYOUT));
        let mut buffers = Self { entries, memory: vec![0; BUFFERS as usize * BUFFER_BYTES], tail: 0 };
        (0..BUFFERS).for_each(|buffer| buffers.give_back(buffer));
        buffers
    }

    fn register(&self, ring: &IoUring) -> io::Result<()> {
        let address = self.entries.as_ptr() as u64;
        // SAFETY: the ring's memory is page-aligned, holds BUFFERS entries and lives as long as the
        // process serves.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, BUFFERS, BUFFER_GROUP, 0) }
    }

    /// The first bytes of a buffer that the kernel has filled.
    fn received(&self, buffer: u16, bytes: usize) -> &[u8] {
        &self.memory[usize::from(buffer) * BUFFER_BYTES..][..bytes]
    }

    /// Hands buffer number `buffer` to the kernel.
    fn give_back(&mut self, buffer: u16) {
        let slot = usize::from(self.tail & (BUFFERS - 1));
        let address = self.memory[usize::from(buffer) * BUFFER_BYTES..].as_mut_ptr();
        // SAFETY: the slot is below BUFFERS, and the kernel reads only slots below the published
        // tail, so this thread owns the slot until the store below.
        let entry = unsafe { self.entries.add(slot).as_mut() };
        entry.set_addr(address as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is a u16 inside the first entry, aligned and written by this thread
        // only; the kernel reads the tail. Release publishes the entry before the tail that covers
        // the entry (io_uring_register_buf_ring(3)).
        unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for FloorBuffers {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.entries.as_ptr().cast(), Self::LAYOUT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_back_as_packed() {
        for op in [FloorOp::Accept, FloorOp::Receive, FloorOp::Send, FloorOp::Writable] {
            let tag = SubmissionTag { op, serial: u16::MAX - 1, fd: i32::MAX };
            assert_eq!(SubmissionTag::unpack(tag.pack()), tag);
        }
    }
}
