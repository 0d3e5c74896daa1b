//! The head of a program's answer (RFC 3875 §6.2, §6.3): read as it comes, checked line by line, within bounds.
//!
//! Lines end in LF or CRLF, as programs write them. Everything that is handed on is a token, a colon and text without
//! control characters, so no program can write a line it did not mean to. What the server decides itself (`Connection`,
//! `Date`, `Server`, framing) is dropped; `X-Accel-Redirect`, `X-Sendfile` and `X-Accel-Buffering` are taken out, whoever allows them.
//! Tested in `gateway/tests/heads.rs`.

use super::BadHead;
use crate::response::Status;
use crate::scan;

/// Longest head, in bytes. PHP programs with many cookies have heads beyond 8 KiB, the buffer at which other servers
/// stop.
pub const HEAD_BYTES: usize = 64 * 1024;

/// Most fields in a head. Guess: twice what a client may send by default, since each cookie takes a line.
pub const HEAD_FIELDS: usize = 200;

/// Bounds of a program's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Longest head in bytes, its empty line included. See [`HEAD_BYTES`].
    pub bytes: usize,
    /// Most fields. See [`HEAD_FIELDS`].
    pub fields: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { bytes: HEAD_BYTES, fields: HEAD_FIELDS }
    }
}

/// What a program's head asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This answer, with the content that follows.
    Document(ResponseHead),
    /// The answer to a GET of this path and query of the same site (RFC 3875 §6.2.2).
    LocalRedirect(Vec<u8>),
    /// This answer, with the content of another path or file: `X-Accel-Redirect`.
    AccelRedirect(ResponseHead, Vec<u8>),
    /// This answer, with the content of a file by its path in the file system: `X-Sendfile`.
    SendFile(ResponseHead, Vec<u8>),
}

/// A checked head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code, from 200 to 599.
    pub status: u16,
    /// Whether the program said the status, or let it follow from the rest.
    pub is_status_given: bool,
    /// The phrase behind it; may be empty.
    pub reason: Vec<u8>,
    /// Bytes of content that the program announces.
    pub content_length: Option<u64>,
    /// Whether each part of the content is wanted as soon as it is written, however small: `X-Accel-Buffering: no`.
    pub is_unbuffered: bool,
    /// The fields to hand on, each line with its CRLF. No `Content-Length` is among them.
    pub lines: Vec<u8>,
}

impl ResponseHead {
    /// Appends the status line and the fields; what the server says itself is to follow.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(itoa::Buffer::new().format(self.status).as_bytes());
        out.push(b' ');
        out.extend_from_slice(&self.reason);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.lines);
    }

    /// Whether an answer with this status has content at all (RFC 9110 §6.4.1).
    pub fn has_content(&self) -> bool {
        !matches!(self.status, 204 | 205 | 304)
    }
}

/// Reads a head as it comes. A prefix of the bytes gives "more" or exactly the verdict of the whole.
#[derive(Clone, Debug)]
pub struct HeadReader {
    limits: HeadLimits,
    /// Bytes of whole lines that were read.
    at: usize,
    fields: usize,
    draft: Draft,
}

#[derive(Clone, Debug, Default)]
struct Draft {
    status: Option<(u16, Vec<u8>)>,
    location: Option<Vec<u8>>,
    content_length: Option<u64>,
    has_content_type: bool,
    is_unbuffered: bool,
    accel_redirect: Option<Vec<u8>>,
    send_file: Option<Vec<u8>>,
    lines: Vec<u8>,
}

impl HeadReader {
    /// Reads within `limits`.
    pub fn new(limits: HeadLimits) -> Self {
        Self { limits, at: 0, fields: 0, draft: Draft::default() }
    }

    /// Looks at `output`, all that the program has written so far. Gives the answer and the length of the head, or
    /// nothing if the head is not complete. Lines are read once, however they come.
    ///
    /// # Errors
    /// The first thing that is wrong. The reader must not be used after an answer or an error.
    pub fn read(&mut self, output: &[u8]) -> Result<Option<(Answer, usize)>, BadHead> {
        let cut = &output[..output.len().min(self.limits.bytes)];
        while let Some(len) = line_len(&cut[self.at..]) {
            let line = &cut[self.at..self.at + len];
            self.at += len + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                return std::mem::take(&mut self.draft).finish().map(|answer| Some((answer, self.at)));
            }
            self.fields += 1;
            if self.fields > self.limits.fields {
                return Err(BadHead::TooManyFields);
            }
            self.draft.take(line)?;
        }
        if output.len() >= self.limits.bytes { Err(BadHead::TooLong) } else { Ok(None) }
    }
}

/// Bytes before the first LF. Eight are looked at at a time while they are text, as nearly all of them are.
fn line_len(bytes: &[u8]) -> Option<usize> {
    let text = scan::text_len(bytes);
    bytes[text..].iter().position(|&byte| byte == b'\n').map(|more| text + more)
}

/// Fields that are the server's to write, or about a connection the client does not have with the program.
const DROPPED: [&[u8]; 12] = [
    b"connection",
    b"date",
    b"keep-alive",
    b"proxy-connection",
    b"server",
    b"te",
    b"trailer",
    b"upgrade",
    b"x-accel-charset",
    b"x-accel-expires",
    b"x-accel-limit-rate",
    b"x-lighttpd-send-file",
];

impl Draft {
    fn take(&mut self, line: &[u8]) -> Result<(), BadHead> {
        let name_len = scan::token_len(line);
        if name_len == 0 || line.get(name_len) != Some(&b':') {
            return Err(BadHead::FieldName);
        }
        let (name, value) = (&line[..name_len], scan::trim(&line[name_len + 1..]));
        if scan::text_len(value) < value.len() {
            return Err(BadHead::FieldValue);
        }
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        if is(b"status") {
            once(&mut self.status, status(value)?)
        } else if is(b"location") {
            once(&mut self.location, value.to_vec())
        } else if is(b"content-length") {
            let length = scan::decimal_saturating(value).filter(|&length| length < u64::MAX);
            once(&mut self.content_length, length.ok_or(BadHead::Length)?)
        } else if is(b"transfer-encoding") {
            Err(BadHead::TransferCoding)
        } else if is(b"x-accel-redirect") {
            once(&mut self.accel_redirect, value.to_vec())
        } else if is(b"x-sendfile") {
            once(&mut self.send_file, value.to_vec())
        } else if is(b"x-accel-buffering") {
            self.is_unbuffered = value.eq_ignore_ascii_case(b"no");
            Ok(())
        } else {
            if is(b"content-type") && std::mem::replace(&mut self.has_content_type, true) {
                return Err(BadHead::Repeated);
            }
            if !DROPPED.into_iter().any(is) {
                self.line(name, value);
            }
            Ok(())
        }
    }

    fn line(&mut self, name: &[u8], value: &[u8]) {
        self.lines.reserve(name.len() + value.len() + 4);
        for piece in [name, b": ", value, b"\r\n"] {
            self.lines.extend_from_slice(piece);
        }
    }

    fn finish(mut self) -> Result<Answer, BadHead> {
        let sends_file = self.accel_redirect.is_some() || self.send_file.is_some();
        let has_cgi_field = self.has_content_type || self.location.is_some() || self.status.is_some();
        if !has_cgi_field && !sends_file {
            return Err(BadHead::NoCgiField);
        }
        let is_status_given = self.status.is_some();
        let (mut status, mut reason) = self.status.take().unwrap_or((200, b"OK".to_vec()));
        if let Some(location) = self.location.take() {
            if location.is_empty() {
                return Err(BadHead::Location);
            }
            // `//host/path` names another host.
            let is_local = location.starts_with(b"/") && !location.starts_with(b"//");
            if is_local && !is_status_given && !sends_file {
                return Ok(Answer::LocalRedirect(location));
            }
            if !is_status_given {
                (status, reason) = (302, b"Found".to_vec());
            }
            self.line(b"Location", &location);
        }
        let Self { content_length, is_unbuffered, lines, .. } = self;
        let head = ResponseHead { status, is_status_given, reason, content_length, is_unbuffered, lines };
        Ok(match (self.accel_redirect, self.send_file) {
            (Some(_), Some(_)) => return Err(BadHead::Repeated),
            (Some(path), None) => Answer::AccelRedirect(head, path),
            (None, Some(path)) => Answer::SendFile(head, path),
            (None, None) => Answer::Document(head),
        })
    }
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), BadHead> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(BadHead::Repeated),
    }
}

/// `Status: 404 Not Found`. Interim codes are the server's own; so are codes that no one knows how to frame.
fn status(value: &[u8]) -> Result<(u16, Vec<u8>), BadHead> {
    let (code, reason) = value.split_at_checked(3).ok_or(BadHead::Status)?;
    let reason = match reason {
        [] => reason,
        [b' ', rest @ ..] => scan::trim(rest),
        _ => return Err(BadHead::Status),
    };
    let code = scan::decimal_saturating(code).and_then(|code| u16::try_from(code).ok());
    match code {
        Some(code @ 200..=599) if reason.is_empty() => {
            let known = Status::ALL.iter().find(|known| known.code() == code);
            Ok((code, known.map_or_else(Vec::new, |known| known.reason().into())))
        }
        Some(code @ 200..=599) => Ok((code, reason.to_vec())),
        _ => Err(BadHead::Status),
    }
}
