//! The memory of sends under way.
//!
//! Owns the boxes that keep bytes and message headers in place while the kernel may read them, and a pool of empty
//! ones, so that a steady connection allocates nothing. Tested, through the driver, in `tests/suite`.

use bytes::Bytes;

use crate::More;
use crate::driver::outgoing::Outgoing;

/// Empty boxes kept for reuse. Guess: more sends than this are seldom under way at once on one core.
const POOL_MAX: usize = 1024;

/// One send under way. Stays in its box, so the kernel may point into it.
pub(super) struct SendOp {
    pub(super) outgoing: Outgoing,
    parts: [libc::iovec; 2],
    message: libc::msghdr,
}

impl SendOp {
    /// A header for the two parts that are left, valid until the next call and while the box stays alive.
    pub(super) fn message(&mut self) -> *const libc::msghdr {
        let (head, body) = self.outgoing.rest();
        self.parts = [head, body]
            .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        self.message.msg_iov = self.parts.as_mut_ptr();
        self.message.msg_iovlen = self.parts.len();
        &raw const self.message
    }
}

/// Boxes that are not in use.
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

    /// Takes a box back that the kernel has finished with, and gives its head, empty.
    pub(super) fn unpack(&mut self, mut op: Box<SendOp>) -> Vec<u8> {
        let nothing = Outgoing::new(Vec::new(), Bytes::new(), More::No);
        let head = std::mem::replace(&mut op.outgoing, nothing).into_head();
        if self.pool.len() < POOL_MAX {
            self.pool.push(op);
        }
        head
    }
}

fn empty_part() -> libc::iovec {
    libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }
}

#[allow(unsafe_code)]
fn empty_message() -> libc::msghdr {
    // SAFETY: `msghdr` is made of pointers and integers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}
