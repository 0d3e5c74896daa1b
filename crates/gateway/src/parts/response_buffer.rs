//! Output of a program that is not sent yet.
//!
//! This type copies long output as rarely as possible. A reader hands over its buffer, including
//! the bytes before the output. A parsed head is skipped, not removed. Short output is set aside,
//! so that long output after it need not be appended to it. Tested below.

use bytes::Bytes;
use std::mem;
use vermeil_exchange::COPY_BYTES_MAX;

/// Output of a program, in order.
#[derive(Debug, Default)]
pub(crate) struct ResponseBuffer {
    /// Short output that was set aside.
    aside: Vec<u8>,
    /// Later output.
    bytes: Vec<u8>,
    /// Where the unsent part of `bytes` begins.
    start: usize,
}

impl ResponseBuffer {
    /// The output that was not set aside.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(crate) fn len(&self) -> usize {
        self.aside.len() + self.as_slice().len()
    }

    /// Whether a buffer can be taken over.
    pub(crate) fn has_none_behind(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// The buffer to which a reader appends.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Takes over a buffer whose bytes from `start` on are output. Call this function only while
    /// all earlier output is set aside.
    pub(crate) fn take_over(&mut self, bytes: Vec<u8>, start: usize) {
        debug_assert!(self.has_none_behind(), "output must not be lost");
        (self.bytes, self.start) = (bytes, start);
    }

    /// Sets the output aside if its total is short.
    pub(crate) fn set_aside(&mut self) {
        if self.len() <= COPY_BYTES_MAX {
            self.aside.extend_from_slice(&self.bytes[self.start..]);
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Removes the first `count` bytes. Call this function before any output is set aside.
    pub(crate) fn skip(&mut self, count: usize) {
        self.start += count;
    }

    pub(crate) fn clear(&mut self) {
        self.aside.clear();
        self.bytes.clear();
        self.start = 0;
    }

    /// Takes all output.
    pub(crate) fn take_all(&mut self) -> Bytes {
        let mut short = Vec::new();
        let long = self.take(usize::MAX, &mut short, &[]);
        match (short.is_empty(), long.is_empty()) {
            (true, _) => long,
            (false, true) => short.into(),
            (false, false) => [&short[..], &long].concat().into(),
        }
    }

    /// Takes all output, cut to `bytes_max`, followed by `behind`. Output that was set aside and
    /// short output go into `out`. Returns the rest, to be sent after `out`.
    pub(crate) fn take(&mut self, bytes_max: usize, out: &mut Vec<u8>, behind: &[&[u8]]) -> Bytes {
        let aside = &self.aside[..self.aside.len().min(bytes_max)];
        out.extend_from_slice(aside);
        let bytes_max = bytes_max - aside.len();
        if self.as_slice().len().min(bytes_max) <= COPY_BYTES_MAX {
            let rest = self.as_slice();
            out.extend_from_slice(&rest[..rest.len().min(bytes_max)]);
            behind.iter().for_each(|behind| out.extend_from_slice(behind));
            self.clear();
            return Bytes::new();
        }
        let Self { mut bytes, start, .. } = mem::take(self);
        bytes.truncate(start.saturating_add(bytes_max));
        behind.iter().for_each(|behind| bytes.extend_from_slice(behind));
        Bytes::from(bytes).slice(start..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes for the connection's output, and the bytes to send after it.
    fn taken(written: &mut ResponseBuffer, bytes_max: usize) -> (Vec<u8>, Bytes) {
        let mut out = Vec::new();
        let rest = written.take(bytes_max, &mut out, &[b"\r\n", b"0"]);
        (out, rest)
    }

    #[test]
    fn skipped_bytes_are_not_handed_on() {
        let mut written = ResponseBuffer::default();
        written.take_over(b"frame|head|body".to_vec(), 6);
        assert_eq!(written.as_slice(), b"head|body");
        written.skip(5);
        written.end().extend_from_slice(b" and more");
        assert_eq!((written.as_slice(), written.len()), (&b"body and more"[..], 13));
        assert_eq!(taken(&mut written, 4), (b"body\r\n0".to_vec(), Bytes::new()));
        assert_eq!(written.len(), 0);
        written.end().extend_from_slice(b"x");
        assert_eq!(taken(&mut written, usize::MAX).0, b"x\r\n0");
        written.end().extend_from_slice(b"x");
        written.skip(1);
        written.clear();
        assert!(written.has_none_behind() && written.as_slice().is_empty());
    }

    #[test]
    fn long_output_is_not_copied_to_short_buffer() {
        let mut written = ResponseBuffer::default();
        written.take_over(b"head|body ".to_vec(), 5);
        written.set_aside();
        assert!(written.has_none_behind());
        let mut long = Vec::with_capacity(2 * COPY_BYTES_MAX);
        long.resize(COPY_BYTES_MAX + 9, b'x');
        let place = long.as_ptr();
        written.take_over(long, 8);
        written.set_aside();
        written.end().extend_from_slice(b" end");
        assert_eq!(written.len(), COPY_BYTES_MAX + 10);
        let (out, rest) = taken(&mut written, usize::MAX);
        assert_eq!(
            (&out[..], rest.as_ptr(), rest.len()),
            (&b"body "[..], place.wrapping_add(8), COPY_BYTES_MAX + 8)
        );
        assert!(rest.ends_with(b"x end\r\n0") && written.len() == 0);
    }

    #[test]
    fn reserved_bytes_are_cut() {
        let mut written = ResponseBuffer::default();
        for part in [&b"one "[..], b"two "] {
            written.end().extend_from_slice(part);
            written.set_aside();
        }
        written.end().extend_from_slice(&[b'x'; 2 * COPY_BYTES_MAX]);
        assert_eq!(taken(&mut written, 6), (b"one tw\r\n0".to_vec(), Bytes::new()));
        assert_eq!(written.len(), 0);
    }
}
