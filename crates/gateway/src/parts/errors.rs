//! The error output of programs: lines on standard error, each with its request.
//!
//! `vermeil: php 5f2a9c…: PHP Warning:  …`. A program may write without end. So each line has a
//! maximum length, and all programs together have a maximum rate. Excess lines are counted, and the
//! count is logged. Tested below.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use vermeil_exchange::RequestName;
use vermeil_log::{NoticeKind, Notices};

/// Longest line, in bytes; the rest is cut. PHP cuts its own lines at 1,024 bytes
/// (`log_errors_max_len`), without file name and time.
const LINE_BYTES_MAX: usize = 2048;

/// Lines logged per second, of all programs together. With lines of at most two kilobytes this is
/// 200 KB per second; further lines are counted.
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
                self.leave_out(1);
                None
            }
        }
    }

    /// Counts lines as left out.
    fn leave_out(&self, lines: u64) {
        self.unsaid.fetch_add(lines, Ordering::Relaxed);
    }

    fn say(&self, program: &str, request: Option<RequestName>, line: &[u8]) -> LineFate {
        let Some(unsaid) = self.take(self.origin.elapsed().as_secs()) else { return LineFate::LeftOut };
        let put = |line: fmt::Arguments<'_>| self.notices.say_unpaced(NoticeKind::ProgramSaid, line);
        if unsaid > 0 && !put(format_args!("{program}: {unsaid} lines of error output were left out")) {
            self.leave_out(unsaid + 1);
            return LineFate::LeftOut;
        }
        let line = String::from_utf8_lossy(line);
        let is_logged = match request {
            Some(request) => put(format_args!("{program} {request}: {line}")),
            None => put(format_args!("{program}: {line}")),
        };
        if !is_logged {
            self.leave_out(1);
            return LineFate::LeftOut;
        }
        LineFate::Logged
    }
}

/// Whether a line was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineFate {
    Logged,
    /// The lines of this second were spent, or standard error was full. The line is counted.
    LeftOut,
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
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.extend(&rest[..end]);
            rest = &rest[end + 1..];
            if self.end_line() == LineFate::LeftOut {
                rest = self.leave_out(rest);
            }
        }
        self.extend(rest);
    }

    fn extend(&mut self, text: &[u8]) {
        let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
        self.line.extend_from_slice(&text[..text.len().min(room)]);
    }

    fn end_line(&mut self) -> LineFate {
        let line = self.line.trim_ascii_end();
        let fate = match line {
            b"" => LineFate::Logged,
            line => self.sink.say(self.program, self.request, line),
        };
        self.line.clear();
        fate
    }

    /// Counts the whole lines of `bytes` as left out, and returns the unfinished line. Counting
    /// costs less than asking the sink for each line, and a program may write lines without end.
    fn leave_out<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let (whole, unfinished) = bytes.split_at(end);
        let lines = whole.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii_end().is_empty());
        self.sink.leave_out(lines.count() as u64);
        unfinished
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
    use std::time::Duration;

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
        let whole = "x".repeat(LINE_BYTES_MAX);
        let expected = [whole.as_str(), "next"].map(|line| format!("vermeil: php 00000000000000ab: {line}"));
        assert_eq!(lines(&[&long, &long, b"\nnext\n"]), expected);
    }

    /// Regression: lines that standard error did not take were lost without a count.
    #[test]
    fn lines_that_standard_error_refuses_are_counted() {
        let sink = ErrorSink::new(Arc::new(Notices::full()));
        let mut errors = ErrorLines::of_program(sink.clone(), "php");
        errors.push(b"one\ntwo\n");
        errors.push(b"three\n");
        assert_eq!(sink.unsaid.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn lines_of_a_flood_are_counted_at_once() {
        let notices = Arc::new(Notices::kept());
        let sink = Arc::new(ErrorSink {
            // The first second lasts until then.
            origin: Instant::now() + Duration::from_secs(3600),
            notices: notices.clone(),
            spent: AtomicU64::new(LINES_PER_SECOND),
            unsaid: AtomicU64::new(0),
        });
        let mut errors = ErrorLines::of_program(sink.clone(), "php");
        errors.push(b"one\ntwo\n\n \nthree\nunfini");
        errors.push(b"shed\n");
        drop(errors);
        assert_eq!((sink.unsaid.load(Ordering::Relaxed), notices.lines()), (4, Vec::new()));
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
