//! The error output of programs: lines on standard error, each with its request.
//!
//! `vermeil: php 5f2a9c…: PHP Warning:  …`. A program may write without end. So each line has a
//! maximum length, and all programs together have a maximum rate. Excess lines are counted, and the
//! count is logged. Tested below.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Instant;
use vermeil_exchange::RequestName;
use vermeil_log::{NoticeKind, Notices};

/// Longest line, in bytes; the rest is cut. PHP cuts its own lines at 1,024 bytes
/// (`log_errors_max_len`), without file name and time.
const LINE_BYTES_MAX: usize = 2048;

/// Lines logged per second, of all programs together. With lines of at most a kilobyte this is 100
/// KB per second; further lines are counted.
const LINES_PER_SECOND: u64 = 100;

/// The destination of the error output of all programs of a server, with the rate limit.
#[derive(Debug)]
pub struct ErrorSink {
    notices: Arc<Notices>,
    origin: Instant,
    /// The present second in the high half, and the number of lines logged in that second in the
    /// low half.
    spent: AtomicU64,
    unsaid: AtomicU64,
}

impl ErrorSink {
    /// A destination in the log of the operator.
    pub fn new(notices: Arc<Notices>) -> Arc<Self> {
        let (spent, unsaid) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { notices, origin: Instant::now(), spent, unsaid })
    }

    /// Takes the permit for one more line. Returns the number of lines left out before this line.
    fn take(&self, second: u64) -> Option<u64> {
        let spend = |spent: u64| match (spent >> 32 == second, spent & u64::from(u32::MAX)) {
            (false, _) => Some(second << 32 | 1),
            (true, lines) if lines < LINES_PER_SECOND => Some(spent + 1),
            (true, _) => None,
        };
        // Relaxed, because the counts publish no other data.
        match self.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend) {
            Ok(_) => Some(self.unsaid.swap(0, Ordering::Relaxed)),
            Err(_) => {
                self.unsaid.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    fn say(&self, program: &str, request: Option<RequestName>, line: &[u8]) {
        let Some(unsaid) = self.take(self.origin.elapsed().as_secs()) else { return };
        if unsaid > 0 {
            let more = format_args!("{program}: {unsaid} lines of error output were left out");
            self.notices.say_unpaced(NoticeKind::ProgramSaid, more);
        }
        let line = String::from_utf8_lossy(line);
        match request {
            Some(request) => {
                self.notices
                    .say_unpaced(NoticeKind::ProgramSaid, format_args!("{program} {request}: {line}"));
            }
            None => self.notices.say_unpaced(NoticeKind::ProgramSaid, format_args!("{program}: {line}")),
        }
    }
}

/// The error output of a program, logged line by line. Dropping this value logs an unfinished line.
#[derive(Debug)]
pub(crate) struct ErrorLines {
    sink: Arc<ErrorSink>,
    program: &'static str,
    /// `None` for output that belongs to no request.
    request: Option<RequestName>,
    /// The unfinished line.
    line: Vec<u8>,
}

impl ErrorLines {
    pub(crate) fn new(sink: Arc<ErrorSink>, program: &'static str, request: RequestName) -> Self {
        Self { sink, program, request: Some(request), line: Vec::new() }
    }

    /// For output that belongs to no request.
    pub(crate) fn of_program(sink: Arc<ErrorSink>, program: &'static str) -> Self {
        Self { sink, program, request: None, line: Vec::new() }
    }

    /// Takes more output.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, ended) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if ended {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = self.line.trim_ascii_end();
        if !line.is_empty() {
            self.sink.say(self.program, self.request, line);
        }
        self.line.clear();
    }
}

impl Drop for ErrorLines {
    fn drop(&mut self) {
        self.end_line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let notices = Arc::new(Notices::kept());
        let mut errors = ErrorLines::new(ErrorSink::new(notices.clone()), "php", RequestName(0xAB));
        pieces.iter().for_each(|piece| errors.push(piece));
        drop(errors);
        notices.lines()
    }

    #[test]
    fn lines_are_put_together_and_named() {
        assert_eq!(
            lines(&[b"PHP War", b"ning: x\r\nsec", b"ond\n", b"\n", b"rest"]),
            ["PHP Warning: x", "second", "rest"].map(|line| format!("vermeil: php 00000000000000ab: {line}"))
        );
        assert_eq!(lines(&[b"", b"\n\n"]), Vec::<String>::new());
    }

    #[test]
    fn a_name_is_sixteen_digits() {
        assert_eq!(RequestName(0x0123_4567_89ab_cdef).to_string(), "0123456789abcdef");
        assert_eq!(&RequestName(u64::MAX).digits(), b"ffffffffffffffff");
    }

    #[test]
    fn an_endless_line_is_cut() {
        let long = vec![b'x'; 10_000];
        assert!(lines(&[&long, &long, b"\nnext\n"]).len() == 2);
    }

    #[test]
    fn beyond_the_pace_lines_are_counted() {
        let pace = ErrorSink::new(Arc::new(Notices::kept()));
        for second in [0, 1] {
            for line in 0..LINES_PER_SECOND {
                assert_eq!(pace.take(second), Some(if (second, line) == (1, 0) { 7 } else { 0 }));
            }
            for _ in 0..7 {
                assert_eq!(pace.take(second), None);
            }
        }
    }
}
