//! The floor with io_uring: multishot receive into a buffer ring, every send of a turn submitted in one system call.
//!
//! One thread, one ring (single issuer, deferred task work). A request costs one completion and one submission; a send
//! reports only its failure. A response from a file is the exception: io_uring has no sendfile, so the loop calls it and
//! waits for a full socket with a poll. Owns no bytes of the response: see `response.rs`; the buffers that receive
//! requests are in `Buffers` and never looked at.

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

use crate::response::{Progress, Response};

/// Submissions per turn before one is flushed early: more than the connections of any run (64).
const SUBMISSIONS: u32 = 1024;
/// Receive buffers; a power of two, as the kernel asks. They go back at once, so few are ever out.
const BUFFERS: u16 = 256;
/// Bytes per receive buffer: well above wrk's requests (under 200 bytes).
const BUFFER_BYTES: usize = 1024;
const BUFFER_GROUP: u16 = 0;
const PAGE_BYTES: usize = 4096;

/// What a completion is about; in the upper half of its user data, the descriptor is in the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Op {
    Accept = 0,
    Receive = 1,
    Send = 2,
    Writable = 3,
}

fn user_data(op: Op, fd: RawFd) -> u64 {
    ((op as u64) << 32) | u64::from(fd as u32)
}

/// Serves until the process is killed.
pub(crate) fn run(listener: &TcpListener, response: &Response) -> io::Result<()> {
    let mut ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_cqsize(SUBMISSIONS * 4)
        .build(SUBMISSIONS)?;
    let mut floor =
        Floor { response, buffers: Buffers::new(), listener: listener.as_raw_fd(), connections: Vec::new() };
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

/// Queues one submission, flushing the queue first when it is full.
fn push(ring: &mut IoUring, entry: squeue::Entry) -> io::Result<()> {
    loop {
        // SAFETY: every entry built here names descriptors, and memory of the response or the buffer ring, that live as
        // long as the loop that waits for its completion.
        if unsafe { ring.submission().push(&entry) }.is_ok() {
            return Ok(());
        }
        ring.submit()?;
    }
}

struct Connection {
    socket: OwnedFd,
    sent: u64,
}

struct Floor<'a> {
    response: &'a Response,
    buffers: Buffers,
    listener: RawFd,
    connections: Vec<Option<Connection>>,
}

impl Floor<'_> {
    fn accept(&self) -> squeue::Entry {
        opcode::AcceptMulti::new(Fd(self.listener)).build().user_data(user_data(Op::Accept, self.listener))
    }

    fn receive(fd: RawFd) -> squeue::Entry {
        opcode::RecvMulti::new(Fd(fd), BUFFER_GROUP).build().user_data(user_data(Op::Receive, fd))
    }

    fn on_completion(&mut self, ring: &mut IoUring, completion: &cqueue::Entry) -> io::Result<()> {
        let fd = (completion.user_data() & 0xffff_ffff) as RawFd;
        let done = !cqueue::more(completion.flags());
        match completion.user_data() >> 32 {
            op if op == Op::Accept as u64 => {
                if done {
                    push(ring, self.accept())?;
                }
                self.on_accept(ring, completion.result())
            }
            op if op == Op::Receive as u64 => {
                if let Some(buffer) = cqueue::buffer_select(completion.flags()) {
                    self.buffers.give_back(buffer);
                }
                self.on_receive(ring, fd, completion.result(), done)
            }
            op if op == Op::Send as u64 => {
                self.close(fd);
                Ok(())
            }
            _ => self.answer_from_file(ring, fd),
        }
    }

    fn on_accept(&mut self, ring: &mut IoUring, result: i32) -> io::Result<()> {
        if result < 0 {
            return Ok(());
        }
        let slot = result as usize;
        // SAFETY: the kernel just handed this descriptor over with the completion; nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(result) };
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        self.connections[slot] = Some(Connection { socket, sent: 0 });
        push(ring, Self::receive(result))
    }

    fn on_receive(&mut self, ring: &mut IoUring, fd: RawFd, result: i32, done: bool) -> io::Result<()> {
        let out_of_buffers = result == -Errno::NOBUFS.raw_os_error();
        if result <= 0 && !out_of_buffers {
            self.close(fd);
            return Ok(());
        }
        if done {
            push(ring, Self::receive(fd))?;
        }
        if out_of_buffers {
            return Ok(());
        }
        let Some(canned) = self.response.in_memory() else {
            if let Some(Some(connection)) = self.connections.get_mut(fd as usize) {
                connection.sent = 0;
            }
            return self.answer_from_file(ring, fd);
        };
        // With WAITALL the kernel goes on with a short send by itself, so success needs no completion.
        let flags = SendFlags::NOSIGNAL.bits() as i32 | rustix::net::RecvFlags::WAITALL.bits() as i32;
        let send = opcode::Send::new(Fd(fd), canned.as_ptr(), canned.len() as u32).flags(flags).build();
        push(ring, send.flags(squeue::Flags::SKIP_SUCCESS).user_data(user_data(Op::Send, fd)))
    }

    fn answer_from_file(&mut self, ring: &mut IoUring, fd: RawFd) -> io::Result<()> {
        let Some(Some(connection)) = self.connections.get_mut(fd as usize) else { return Ok(()) };
        match self.response.send(&connection.socket, &mut connection.sent) {
            Err(_) => {
                self.close(fd);
                Ok(())
            }
            Ok(Progress::Done) => Ok(()),
            Ok(Progress::Blocked) => {
                let out = rustix::event::PollFlags::OUT.bits();
                let poll = opcode::PollAdd::new(Fd(fd), u32::from(out)).build();
                push(ring, poll.user_data(user_data(Op::Writable, fd)))
            }
        }
    }

    fn close(&mut self, fd: RawFd) {
        if let Some(slot) = self.connections.get_mut(fd as usize) {
            *slot = None;
        }
    }
}

/// The buffer ring: entries the kernel takes from the front, and the memory they name.
struct Buffers {
    entries: NonNull<BufRingEntry>,
    memory: Vec<u8>,
    tail: u16,
}

impl Buffers {
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
        // SAFETY: the ring's memory is page-aligned, holds BUFFERS entries and lives as long as the process serves.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, BUFFERS, BUFFER_GROUP, 0) }
    }

    /// Hands buffer number `buffer` to the kernel.
    fn give_back(&mut self, buffer: u16) {
        let slot = usize::from(self.tail & (BUFFERS - 1));
        let address = self.memory[usize::from(buffer) * BUFFER_BYTES..].as_mut_ptr();
        // SAFETY: the slot is below BUFFERS, and the kernel reads only slots below the published tail, so this one is
        // ours until the store below.
        let entry = unsafe { self.entries.add(slot).as_mut() };
        entry.set_addr(address as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is a u16 inside the first entry, aligned and written by this thread only; the kernel reads
        // it. Release publishes the entry before the tail that covers it (io_uring_register_buf_ring(3)).
        unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.entries.as_ptr().cast(), Self::LAYOUT) }
    }
}
