//! Dates in the format of HTTP (RFC 9110 §5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
//!
//! The text is made once, when the second changes or a file is opened, and then copied.
//! `response/tests.rs` compares the text with the crate `httpdate`, which also reads dates for
//! `conditions.rs`.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

/// A point in time, to the second, with its text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HttpDate {
    seconds: i64,
    text: [u8; HttpDate::LEN],
}

impl HttpDate {
    /// Bytes of a date.
    pub const LEN: usize = 29;

    /// The last second of the year 9999: a later time has no such text.
    const SECONDS_MAX: i64 = 253_402_300_799;

    /// The date `seconds` after the start of 1970. File systems have times before 1970 or after the
    /// year 9999. Such a time becomes the nearest valid date.
    pub fn new(seconds: i64) -> Self {
        let seconds = seconds.clamp(0, Self::SECONDS_MAX);
        let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs()));
        let mut text = [0; Self::LEN];
        write!(&mut text[..], "{date}").expect("a date has 29 bytes");
        Self { seconds, text }
    }

    /// Seconds since the start of 1970.
    pub fn seconds(&self) -> i64 {
        self.seconds
    }

    /// The text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.text
    }
}

impl std::fmt::Debug for HttpDate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HttpDate({})", self.text.escape_ascii())
    }
}
