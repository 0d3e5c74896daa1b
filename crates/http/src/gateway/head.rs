//! The head of a program's answer (RFC 3875 §6.2, §6.3): read as the bytes arrive, checked line by
//! line, within limits.
//!
//! Lines end in LF or CRLF, as programs write lines. Every forwarded line is a token, a colon and
//! text without control characters. So no program can write a line by accident. The server replaces
//! the fields that the server decides (`Connection`, `Date`, `Server`, framing).
//! `X-Accel-Redirect`, `X-Sendfile` and `X-Accel-Buffering` are always removed, whether or not the
//! configuration allows these fields. Harmless oddities pass, as with other servers; dropped parts
//! are reported ([`Oddity`]); the rest is refused. Tested in `gateway/tests/heads.rs`.

use super::{BadHead, Oddity};
use crate::scan;
use crate::status::Status;

/// Longest head, in bytes. PHP programs with many cookies have heads beyond 8 KiB, the buffer at
/// which other servers stop.
pub const HEAD_BYTES: usize = 64 * 1024;

/// Most fields in a head: twice the default limit for a client, because each cookie takes a line.
pub const HEAD_FIELDS: usize = 200;

/// Bounds of a program's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Longest head in bytes, the final empty line included. See [`HEAD_BYTES`].
    pub bytes: usize,
    /// Most fields. See [`HEAD_FIELDS`].
    pub fields: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { bytes: HEAD_BYTES, fields: HEAD_FIELDS }
    }
}

/// The answer that a program's head asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramAnswer {
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
    /// Whether the program gave the status. Otherwise the status follows from the other fields.
    pub is_status_given: bool,
    /// The reason phrase; may be empty.
    pub reason: Vec<u8>,
    /// Bytes of content that the program announces.
    pub content_length: Option<u64>,
    /// Whether each part of the content is sent immediately, however small: `X-Accel-Buffering:
    /// no`.
    pub is_unbuffered: bool,
    /// The fields to forward, each line with CRLF, without `Content-Length`.
    pub lines: Vec<u8>,
}

/// The lines of fields, with their line ends.
pub fn field_lines(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines.split_inclusive(|&byte| byte == b'\n')
}

/// The name in the line of a field.
pub fn field_name(line: &[u8]) -> &[u8] {
    line.split(|&byte| byte == b':').next().unwrap_or_default()
}

/// Whether `lines` say that the content has several parts of a file. The type names the text
/// between the parts (RFC 9110, section 15.3.7.2).
pub fn has_parts(lines: &[u8]) -> bool {
    const TYPE: &[u8] = b"multipart/byteranges";
    field_lines(lines).any(|line| {
        let name = field_name(line);
        let value = line.get(name.len() + 1..).unwrap_or_default().trim_ascii();
        name.eq_ignore_ascii_case(b"content-type")
            && value.get(..TYPE.len()).is_some_and(|start| start.eq_ignore_ascii_case(TYPE))
    })
}

/// See [`ResponseHead::lines_of_error`].
const KEPT_WITH_ERRORS: [&[u8]; 6] =
    [b"WWW-Authenticate", b"Proxy-Authenticate", b"Allow", b"Retry-After", b"Set-Cookie", b"Cache-Control"];

impl ResponseHead {
    /// Appends the status line and the fields; the server's own fields must follow.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(itoa::Buffer::new().format(self.status).as_bytes());
        out.push(b' ');
        out.extend_from_slice(&self.reason);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.lines);
    }

    /// The lines that a page must keep which replaces this error: the challenge of a 401 and a 407,
    /// the methods of a 405 (RFC 9110 §11.6.1, §15.5.6), when to try again, cookies, and who may
    /// store the answer.
    pub fn lines_of_error(&self) -> Vec<u8> {
        let is_kept =
            |line: &&[u8]| KEPT_WITH_ERRORS.iter().any(|kept| field_name(line).eq_ignore_ascii_case(kept));
        field_lines(&self.lines).filter(is_kept).flatten().copied().collect()
    }

    /// Whether the program wrote a field with this name, in any case.
    pub fn has_field(&self, name: &[u8]) -> bool {
        field_lines(&self.lines).any(|line| field_name(line).eq_ignore_ascii_case(name))
    }

    /// Whether an answer with this status has content at all (RFC 9110 §6.4.1).
    pub fn has_content(&self) -> bool {
        !matches!(self.status, 204 | 205 | 304)
    }
}

/// Reads a head as the bytes arrive. A prefix of the bytes gives "more" or exactly the verdict of
/// the whole.
#[derive(Clone, Debug)]
pub struct HeadReader {
    limits: HeadLimits,
    /// Bytes of whole lines that were read.
    at: usize,
    fields: usize,
    draft: HeadDraft,
    oddities: Vec<Oddity>,
}

#[derive(Clone, Debug, Default)]
struct HeadDraft {
    status: Option<(u16, Vec<u8>)>,
    location: Option<Vec<u8>>,
    content_length: Option<u64>,
    /// The line, as forwarded.
    content_type: Option<Vec<u8>>,
    /// Whether there are fields to hand on that are not about the content.
    has_other_fields: bool,
    is_unbuffered: bool,
    accel_redirect: Option<Vec<u8>>,
    send_file: Option<Vec<u8>>,
    lines: Vec<u8>,
}

impl HeadReader {
    /// Reads within `limits`.
    pub fn new(limits: HeadLimits) -> Self {
        Self { limits, at: 0, fields: 0, draft: HeadDraft::default(), oddities: Vec::new() }
    }

    /// The parts of the head that are not forwarded, once there is an answer.
    pub fn oddities(&self) -> &[Oddity] {
        &self.oddities
    }

    /// Reads `output`, the program's complete output so far. Returns the answer and the length of
    /// the head, or `None` if the head is incomplete. Each line is read once, however the output is
    /// cut.
    ///
    /// # Errors
    ///
    /// The first error. The reader must not be used after an answer or an error.
    pub fn read(&mut self, output: &[u8]) -> Result<Option<(ProgramAnswer, usize)>, BadHead> {
        let cut = &output[..output.len().min(self.limits.bytes)];
        while let Some(len) = line_len(&cut[self.at..]) {
            let line = &cut[self.at..self.at + len];
            self.at += len + 1;
            // Several, where a program writes CRLF to a stream that makes CRLF of each LF.
            let text = line.iter().rposition(|&byte| byte != b'\r').map_or(0, |last| last + 1);
            let line = &line[..text];
            if line.is_empty() {
                let draft = std::mem::take(&mut self.draft);
                return draft.finish(&mut self.oddities).map(|answer| Some((answer, self.at)));
            }
            self.fields += 1;
            if self.fields > self.limits.fields {
                return Err(BadHead::TooManyFields);
            }
            self.draft.take(line, self.fields == 1, &mut self.oddities)?;
        }
        if output.len() >= self.limits.bytes { Err(BadHead::TooLong) } else { Ok(None) }
    }
}

/// Bytes before the first LF. The scan takes eight bytes at a time while the bytes are text, as
/// nearly all of the bytes are.
fn line_len(bytes: &[u8]) -> Option<usize> {
    let text = scan::text_len(bytes);
    bytes[text..].iter().position(|&byte| byte == b'\n').map(|more| text + more)
}

/// Fields that are the server's to write: the client gets the server's.
const REPLACED: [&[u8]; 3] = [b"connection", b"date", b"server"];

/// Fields about a connection that the client does not have with the program, and fields for other
/// servers.
const NOT_FOR_CLIENTS: [&[u8]; 9] = [
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"upgrade",
    b"x-accel-charset",
    b"x-accel-expires",
    b"x-accel-limit-rate",
    b"x-lighttpd-send-file",
];

impl HeadDraft {
    fn take(&mut self, line: &[u8], is_first: bool, oddities: &mut Vec<Oddity>) -> Result<(), BadHead> {
        let Some((name, value)) = split(line, is_first)? else {
            oddities.push(Oddity::Name(line.to_vec()));
            return Ok(());
        };
        if scan::text_len(value) < value.len() {
            return Err(BadHead::FieldValue);
        }
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        if is(b"status") {
            last(&mut self.status, status(value)?, "Status", oddities);
        } else if is(b"location") {
            last(&mut self.location, value.to_vec(), "Location", oddities);
        } else if is(b"content-type") {
            last(&mut self.content_type, field_line(name, value), "Content-Type", oddities);
        } else if is(b"content-length") {
            match scan::decimal_saturating(value).filter(|&length| length < u64::MAX) {
                Some(length) => once(&mut self.content_length, length)?,
                None => oddities.push(Oddity::Length(value.to_vec())),
            }
        } else if is(b"transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"identity") {
                return Err(BadHead::TransferCoding);
            }
        } else if is(b"x-accel-redirect") {
            once(&mut self.accel_redirect, value.to_vec())?;
        } else if is(b"x-sendfile") {
            once(&mut self.send_file, value.to_vec())?;
        } else if is(b"x-accel-buffering") {
            self.is_unbuffered = value.eq_ignore_ascii_case(b"no");
        } else if NOT_FOR_CLIENTS.into_iter().any(is) {
            oddities.push(Oddity::NotForClients(name.to_vec()));
        } else if !REPLACED.into_iter().any(is) {
            let is_about_content = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-"));
            self.has_other_fields |= !is_about_content;
            self.lines.extend_from_slice(&field_line(name, value));
        }
        Ok(())
    }

    fn finish(mut self, oddities: &mut Vec<Oddity>) -> Result<ProgramAnswer, BadHead> {
        let sends_file = self.accel_redirect.is_some() || self.send_file.is_some();
        let given = self.status.take();
        let is_status_given = given.is_some();
        let (mut status, mut reason) = given.unwrap_or((200, b"OK".to_vec()));
        if let Some(line) = self.content_type.take() {
            self.lines.splice(..0, line);
        }
        if sends_file {
            tell_beside_file(&self, status, oddities);
        } else if let Some(location) = self.location.take() {
            if location.is_empty() {
                return Err(BadHead::Location);
            }
            // `//host/path` names another host.
            let is_local = location.starts_with(b"/") && !location.starts_with(b"//");
            // Beside a redirect within the server RFC 3875 §6.2.2 allows no other field, and none
            // could reach the client; and only the client can go to a fragment.
            if is_local && !is_status_given && !self.has_other_fields && !location.contains(&b'#') {
                return Ok(ProgramAnswer::LocalRedirect(location));
            }
            if !is_status_given {
                (status, reason) = (302, b"Found".to_vec());
            }
            self.lines.extend_from_slice(&field_line(b"Location", &location));
        }
        if matches!((status, self.content_length), (204 | 205, Some(1..))) {
            oddities.push(Oddity::LengthOfNothing(status));
        }
        let Self { content_length, is_unbuffered, lines, .. } = self;
        let head = ResponseHead { status, is_status_given, reason, content_length, is_unbuffered, lines };
        Ok(match (self.accel_redirect, self.send_file) {
            (Some(_), Some(_)) => return Err(BadHead::Repeated),
            (Some(path), None) => ProgramAnswer::AccelRedirect(head, path),
            (None, Some(path)) => ProgramAnswer::SendFile(head, path),
            (None, None) => ProgramAnswer::Document(head),
        })
    }
}

/// Reports the fields that the file's own head replaces. `ETag`, `Last-Modified` and similar
/// fields, which describe the file, are replaced.
fn tell_beside_file(draft: &HeadDraft, status: u16, oddities: &mut Vec<Oddity>) {
    if status != 200 {
        oddities.push(Oddity::BesideFile("Status"));
    }
    if draft.location.is_some() {
        oddities.push(Oddity::BesideFile("Location"));
    }
    let is_coded =
        |line: &[u8]| line.get(..17).is_some_and(|name| name.eq_ignore_ascii_case(b"content-encoding:"));
    if draft.lines.split(|&byte| byte == b'\n').any(is_coded) {
        oddities.push(Oddity::BesideFile("Content-Encoding"));
    }
}

/// Name and value of a field line.
type ProgramField<'a> = (&'a [u8], &'a [u8]);

/// Name and value of a line. `None` if the text before the colon is a single word that is not a
/// field name.
fn split(line: &[u8], is_first: bool) -> Result<Option<ProgramField<'_>>, BadHead> {
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return Err(BadHead::LineFolding);
    }
    if is_first && line.starts_with(b"HTTP/") {
        return Err(BadHead::StatusLine);
    }
    let colon = line.iter().position(|&byte| byte == b':').ok_or(BadHead::FieldName)?;
    // White space before the colon is harmless here, because the server writes a new line.
    let name = scan::trim(&line[..colon]);
    let is_word = !name.is_empty() && name.iter().all(|&byte| byte > b' ' && byte != 0x7f);
    match is_word {
        false => Err(BadHead::FieldName),
        true if scan::token_len(name) < name.len() => Ok(None),
        true => Ok(Some((name, scan::trim(&line[colon + 1..])))),
    }
}

fn field_line(name: &[u8], value: &[u8]) -> Vec<u8> {
    [name, b": ", value, b"\r\n"].concat()
}

/// Of two values the last counts, as with Apache.
fn last<T: PartialEq>(slot: &mut Option<T>, value: T, name: &'static str, oddities: &mut Vec<Oddity>) {
    if slot.as_ref().is_some_and(|before| *before != value) {
        oddities.push(Oddity::Repeated(name));
    }
    *slot = Some(value);
}

/// Two equal values count as a single value.
fn once<T: PartialEq>(slot: &mut Option<T>, value: T) -> Result<(), BadHead> {
    match slot.replace(value) {
        Some(before) if slot.as_ref() != Some(&before) => Err(BadHead::Repeated),
        _ => Ok(()),
    }
}

/// `Status: 404 Not Found`. Interim codes belong to the server. Codes with unknown framing are
/// refused.
fn status(value: &[u8]) -> Result<(u16, Vec<u8>), BadHead> {
    let (code, reason) = value.split_at_checked(3).ok_or(BadHead::Status)?;
    let reason = match reason {
        [] => reason,
        [b'0'..=b'9', ..] => return Err(BadHead::Status),
        rest => scan::trim(rest),
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
