//! What a program has written and nobody has handed on yet.
//!
//! Long output is never moved: a reader gives the memory it came into, what is before the output included, and a head that was
//! read is skipped, not taken out. Tested below.

use bytes::Bytes;
use std::mem;

/// Output of a program, in order.
#[derive(Debug, Default)]
pub(crate) struct Written {
    bytes: Vec<u8>,
    /// Where what is not handed on begins.
    start: usize,
}

impl Written {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where more of it is appended.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Takes over memory whose bytes from `start` on are the output; to be called while there is none.
    pub(crate) fn take_over(&mut self, bytes: Vec<u8>, start: usize) {
        debug_assert!(self.is_empty(), "output must not be lost");
        *self = Self { bytes, start };
    }

    /// The first `count` bytes are done with.
    pub(crate) fn skip(&mut self, count: usize) {
        self.start += count;
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
    }

    /// All of it, cut to `bytes_max`, with `behind` behind it.
    pub(crate) fn take(&mut self, bytes_max: usize, behind: &[&[u8]]) -> Bytes {
        let Self { mut bytes, start } = mem::take(self);
        bytes.truncate(start.saturating_add(bytes_max));
        behind.iter().for_each(|behind| bytes.extend_from_slice(behind));
        Bytes::from(bytes).slice(start..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_skipped_is_not_handed_on() {
        let mut written = Written::default();
        written.take_over(b"frame|head|body".to_vec(), 6);
        assert_eq!(written.as_slice(), b"head|body");
        written.skip(5);
        written.end().extend_from_slice(b" and more");
        assert_eq!((written.as_slice(), written.len()), (&b"body and more"[..], 13));
        assert_eq!(written.take(4, &[b"\r\n", b"0"]), b"body\r\n0"[..]);
        assert!(written.is_empty());
        written.end().extend_from_slice(b"x");
        assert_eq!(written.take(usize::MAX, &[]), b"x"[..]);
        written.end().extend_from_slice(b"x");
        written.skip(1);
        written.clear();
        assert!(written.is_empty() && written.as_slice().is_empty());
    }
}
