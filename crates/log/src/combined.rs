//! One line of the access log, in the combined form of NCSA and Apache, and the host in front of
//! it:
//!
//! ```text
//! addr - user [10/Oct/2000:13:55:36 +0000] "GET /x HTTP/1.1" 200 2326 "referer" "agent"
//! ```
//!
//! Escapes fields and formats the time. Times are UTC, because UTC times sort, do not jump twice a
//! year, and need no time zone files. `-` stands for a field that was not sent and, as in the
//! common log format, for an empty body. In quoted fields, quotes, backslashes, control bytes and
//! all bytes beyond ASCII become `\xHH`. So a request cannot forge fields or lines. A field cut at
//! its bound ends in `\...`, which no escaped request can contain. Tested in `combined/tests.rs`:
//! goldens, and every line parses back to its record.

#[cfg(test)]
mod tests;

use super::record::{KeptField, KeptRecord};
use std::io::Write;

/// Ends a field that was longer than its bound.
const CUT_MARK: &[u8] = br"\...";
/// Stands for a field that was not sent.
const DASH: KeptField<'_> = KeptField { bytes: b"-", cut: false };
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const SECONDS_PER_DAY: u64 = 86_400;
/// 9999-12-31T23:59:59Z, the last time with a year of four digits.
const SECONDS_MAX: u64 = 253_402_300_799;

/// Writes lines, and caches the text of the last second.
#[derive(Debug)]
pub(super) struct LineWriter {
    seconds: u64,
    time: String,
}

impl LineWriter {
    pub(super) fn new() -> Self {
        Self { seconds: 0, time: time_text(0) }
    }

    /// Appends `HOST:PORT ` to `out`. The field has no quotes, so spaces are escaped too.
    pub(super) fn write_host(out: &mut Vec<u8>, host: Option<KeptField<'_>>, default_port: u16) {
        let host = host.filter(|host| !host.bytes.is_empty()).unwrap_or(DASH);
        write_word(out, host);
        // The colons of an IPv6 address stand within brackets.
        let behind_address = host.bytes.rsplit(|&byte| byte == b']').next().unwrap_or_default();
        if !behind_address.contains(&b':') {
            write!(out, ":{default_port}").expect("a vector takes every byte");
        }
        out.push(b' ');
    }

    /// `2000-10-10T13:55:36Z` (RFC 3339).
    pub(super) fn time_rfc3339(unix_seconds: u64) -> String {
        let seconds = unix_seconds.min(SECONDS_MAX);
        let (year, month, day) = civil_date(seconds / SECONDS_PER_DAY);
        let (hour, minute, second) = time_of_day(seconds);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// Appends the line of `record` to `out`, line end included.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, record: &KeptRecord<'_>) {
        let seconds = record.unix_seconds.min(SECONDS_MAX);
        if seconds != self.seconds {
            self.seconds = seconds;
            self.time = time_text(seconds);
        }
        write!(out, "{}", record.peer.client).expect("a vector takes every byte");
        out.extend_from_slice(b" - ");
        write_word(out, record.user.filter(|user| !user.bytes.is_empty()).unwrap_or(DASH));
        out.extend_from_slice(b" [");
        out.extend_from_slice(self.time.as_bytes());
        out.extend_from_slice(b"] \"");
        let line = record.request_line;
        write_escaped(out, if line.bytes.is_empty() { DASH } else { line });
        out.extend_from_slice(b"\" ");
        out.extend_from_slice(itoa::Buffer::new().format(record.status).as_bytes());
        out.push(b' ');
        match record.body_bytes {
            0 => out.push(b'-'),
            bytes => out.extend_from_slice(itoa::Buffer::new().format(bytes).as_bytes()),
        }
        for field in [record.referer, record.user_agent] {
            out.extend_from_slice(b" \"");
            write_escaped(out, field.unwrap_or(DASH));
            out.push(b'"');
        }
        out.push(b'\n');
    }
}

/// Appends a field without quotes, so spaces are escaped too.
pub(super) fn write_word(out: &mut Vec<u8>, field: KeptField<'_>) {
    for (index, word) in field.bytes.split(|&byte| byte == b' ').enumerate() {
        if index > 0 {
            out.extend_from_slice(br"\x20");
        }
        write_escaped(out, KeptField { bytes: word, cut: false });
    }
    if field.cut {
        out.extend_from_slice(CUT_MARK);
    }
}

/// Whether `byte` needs no escape in a quoted field.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

/// Number of plain bytes at the start of `bytes`. Checks whole blocks without branches, so that the
/// compiler uses vector instructions, because nearly every field is plain to its end.
fn plain_len(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<16>();
    let all_plain = |block: &&[u8; 16]| block.iter().fold(true, |all, &byte| all & is_plain(byte));
    let known = blocks.iter().take_while(all_plain).count() * 16;
    bytes[known..].iter().position(|&byte| !is_plain(byte)).map_or(bytes.len(), |more| known + more)
}

/// Appends a field, so that no client can forge a line or a quote. Runs of plain bytes are copied
/// in one piece, and all other bytes become `\xHH`.
pub(super) fn write_escaped(out: &mut Vec<u8>, field: KeptField<'_>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut rest = field.bytes;
    loop {
        let plain = plain_len(rest);
        out.extend_from_slice(&rest[..plain]);
        let Some(&byte) = rest.get(plain) else { break };
        out.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        rest = &rest[plain + 1..];
    }
    if field.cut {
        out.extend_from_slice(CUT_MARK);
    }
}

/// `10/Oct/2000:13:55:36 +0000`. `seconds` since 1970-01-01 UTC, at most [`SECONDS_MAX`].
fn time_text(seconds: u64) -> String {
    let (year, month, day) = civil_date(seconds / SECONDS_PER_DAY);
    let (hour, minute, second) = time_of_day(seconds);
    let month = MONTHS[month - 1];
    format!("{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
}

/// Hour, minute and second.
fn time_of_day(seconds: u64) -> (u64, u64, u64) {
    let of_day = seconds % SECONDS_PER_DAY;
    (of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// Year, month from 1 and day from 1 of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// The calculation starts years in March, so that the leap day comes last (H. Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn civil_date(day: u64) -> (u64, usize, u64) {
    const DAYS_PER_ERA: u64 = 146_097;
    const EPOCH_FROM_MARCH_0: u64 = 719_468;
    let day = day + EPOCH_FROM_MARCH_0;
    let (era, of_era) = (day / DAYS_PER_ERA, day % DAYS_PER_ERA);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month as usize, day_of_month)
}
