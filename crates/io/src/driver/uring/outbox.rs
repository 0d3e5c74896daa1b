//! The memory of sends under way.
//!
//! Contains the boxes that keep bytes and message headers in place while the kernel may read them,
//! and a pool of empty boxes, so that a steady connection allocates nothing. Tested, through the
//! driver, in `tests/suite`.

use bytes::Bytes;

use crate::More;
use crate::driver::outgoing::Outgoing;

/// Empty boxes kept for reuse. The bound limits the memory kept after a burst; a further box costs
/// an allocation.
const POOL_MAX: usize = 1024;

/// A send under way. Stays in its box, because the kernel may hold pointers into it.
pub(super) struct SendOp {
    pub(super) outgoing: Outgoing,
    parts: [libc::iovec; 2],
    message: libc::msghdr,
}

impl SendOp {
    /// A header for the two remaining parts, valid until the next call and while the box stays
    /// alive.
    pub(super) fn message(&mut self) -> *const libc::msghdr {
        let (head, body) = self.outgoing.rest();
        self.parts = [head, body]
            .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        self.message.msg_iov = self.parts.as_mut_ptr();
        // `usize` in glibc, `c_int` in musl.
        self.message.msg_iovlen = self.parts.len() as _;
        &raw const self.message
    }
}

/// Unused boxes.
#[allow(clippy::vec_box)] // the kernel is given addresses inside: an operation never leaves its box
pub(super) struct Outbox {
    pool: Vec<Box<SendOp>>,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self { pool: Vec::new() }
    }

    pub(super) fn pack(&mut self, outgoing: Outgoing) -> Box<SendOp> {
        match self.pool.pop() {
            Some(mut op) => {
                op.outgoing = outgoing;
                op
            }
            None => Box::new(SendOp { outgoing, parts: [empty_part(); 2], message: empty_message() }),
        }
    }

    /// Takes back a box that the kernel has finished with, and returns its head, empty.
    pub(super) fn unpack(&mut self, op: Box<SendOp>) -> Vec<u8> {
        self.unpack_unsent(op).into_head()
    }

    /// Takes back a box that the kernel has finished with, and returns its send.
    pub(super) fn unpack_unsent(&mut self, mut op: Box<SendOp>) -> Outgoing {
        let nothing = Outgoing::new(Vec::new(), Bytes::new(), More::No);
        let outgoing = std::mem::replace(&mut op.outgoing, nothing);
        if self.pool.len() < POOL_MAX {
            self.pool.push(op);
        }
        outgoing
    }
}

fn empty_part() -> libc::iovec {
    libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }
}

#[allow(unsafe_code)]
fn empty_message() -> libc::msghdr {
    // SAFETY: `msghdr` consists of pointers and integers, for which zero is a valid value.
    unsafe { std::mem::zeroed() }
}
