//! The formatted lines of the common log that are not written yet.
//!
//! Usually all lines of a batch are written at once. While the log takes nothing, further lines
//! wait here up to a bound. A line beyond the bound is dropped whole. Leaves out the writes and
//! their retries (`writer.rs`). Tested below, and through the whole log in `access_log/tests.rs`.

use super::batch::BATCH_BYTES;

/// Bytes of the buffer that stay when all lines are written: a batch in which every byte is escaped
/// needs four times its own bytes.
const KEPT_BYTES: usize = 4 * BATCH_BYTES;

/// Whole lines, of which the first may be written in part.
#[derive(Debug)]
pub(super) struct WaitingText {
    bytes: Vec<u8>,
    /// The number of written bytes at the start of `bytes`.
    written: usize,
    /// The most bytes that wait.
    bytes_max: usize,
}

impl WaitingText {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::with_capacity(2 * BATCH_BYTES), written: 0, bytes_max }
    }

    /// Adds the line that `write` appends. Returns false if there is no room for the line.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let before = self.bytes.len();
        write(&mut self.bytes);
        let has_room = self.unwritten().len() <= self.bytes_max;
        if !has_room {
            self.bytes.truncate(before);
        }
        has_room
    }

    /// The bytes to write next.
    pub(super) fn unwritten(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unwritten().is_empty()
    }

    /// Notes that the log took `count` more bytes. Returns the number of lines that end in these
    /// bytes.
    pub(super) fn advance(&mut self, count: usize) -> u64 {
        let lines = line_ends(&self.unwritten()[..count]);
        self.written += count;
        if self.is_empty() {
            self.clear();
        } else if self.written > self.bytes_max {
            // So rare that moving the rest costs less than writing it.
            let start = self.written - self.begun();
            self.bytes.drain(..start);
            self.written -= start;
        }
        lines
    }

    /// The written bytes of a line that is not written whole.
    pub(super) fn begun(&self) -> usize {
        let written = &self.bytes[..self.written];
        written.iter().rev().take_while(|&&byte| byte != b'\n').count()
    }

    /// Begins the line again that is not written whole.
    pub(super) fn restart_line(&mut self) {
        self.written -= self.begun();
    }

    /// Drops all lines, and returns their number.
    pub(super) fn drop_all(&mut self) -> u64 {
        let lines = line_ends(self.unwritten());
        self.clear();
        lines
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.written = 0;
    }
}

fn line_ends(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(text: &mut WaitingText, line: &str) -> bool {
        text.add(|bytes| bytes.extend_from_slice(line.as_bytes()))
    }

    #[test]
    fn line_without_room_is_dropped_whole() {
        let mut text = WaitingText::new(10);
        assert!(add(&mut text, "12345\n"));
        assert!(!add(&mut text, "1234\n"));
        assert!(add(&mut text, "123\n"));
        assert_eq!(text.unwritten(), b"12345\n123\n");
        assert_eq!((text.drop_all(), text.is_empty()), (2, true));
    }

    #[test]
    fn written_bytes_give_room() {
        let mut text = WaitingText::new(10);
        let mut expected = Vec::new();
        let mut written = Vec::new();
        for number in 0..100 {
            let line = format!("{number}\n");
            assert!(add(&mut text, &line));
            expected.extend_from_slice(line.as_bytes());
            // A byte of each line waits, so the text is never empty.
            let count = text.unwritten().len() - 1;
            written.extend_from_slice(&text.unwritten()[..count]);
            text.advance(count);
        }
        assert!(text.bytes.len() < 30, "{} bytes are kept", text.bytes.len());
        assert_eq!([written, text.unwritten().to_vec()].concat(), expected);
    }

    #[test]
    fn line_that_was_begun_starts_over() {
        let mut text = WaitingText::new(100);
        assert!(add(&mut text, "one\n") && add(&mut text, "two\n"));
        assert_eq!(text.advance(6), 1);
        assert_eq!(text.begun(), 2);
        text.restart_line();
        assert_eq!((text.begun(), text.unwritten()), (0, &b"two\n"[..]));
        assert_eq!((text.advance(4), text.begun()), (1, 0));
    }
}
