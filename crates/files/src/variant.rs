//! A representation of a file: validators, ready-made heads, bytes.
//!
//! The look-up makes the representation once, so that sending only copies. Byte-exact examples in
//! `tests/heads.rs`.

use super::{
    content::{Charge, Content},
    open::FileValidator,
    options::FileTags,
};
use std::ops::Range;
use vermeil_http::{HttpDate, Status, Validators, negotiate::Choice, response::HeadWriter};

pub(super) mod media;

/// The name of the server, without a version, because a version helps attackers only.
pub const SERVER: &[u8] = b"Server: vermeil\r\n";

/// Room for a head, in bytes: a usual head has 230 to 300.
const HEAD_BYTES: usize = 384;

/// A representation of a file: uncompressed or precompressed.
#[derive(Debug)]
pub struct Variant {
    head: Box<[u8]>,
    /// The place of [`Variant::shared_fields`] in the head.
    shared_fields: Range<usize>,
    /// The place of [`Variant::partial_fields`] in the head.
    partial_fields: Range<usize>,
    media_type: Box<str>,
    etag: Box<[u8]>,
    /// `None` while another content may still get the same date.
    last_modified: Option<HttpDate>,
    bytes: u64,
    device: u64,
    coding: VariantCoding,
    probe: usize,
    content: Content,
    /// For the content in memory.
    _charge: Option<Charge>,
}

/// The coding of a representation, and whether the server may code the representation further.
#[derive(Clone, Copy, Debug)]
struct VariantCoding {
    coding: Choice,
    varies: Varies,
    /// Whether `Cache-Control` has `no-transform`.
    is_fixed: bool,
    /// See [`Variant::is_changing`].
    is_changing: bool,
}

/// Whether the answer depends on `Accept-Encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Varies {
    Yes,
    No,
}

/// Whether an answer may contain the file's time of modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dated {
    /// The second of the modification has passed, so no later write gets the same date.
    Yes,
    /// The second of the modification is not over, so the content may still change under the same
    /// date. A client could then combine parts of two contents. Or the date is in the future, which
    /// RFC 9110 §8.8.2.1 forbids.
    No,
}

/// The source of an entity tag, beside the validator of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagSource {
    /// A hash of the content: strong, whatever times the kernel reports.
    Content(u64),
    /// The validator alone: strong, because every later change moves the time of change.
    Identity,
    /// The validator alone: weak, because another content may have the same validator.
    Weak,
    /// The moment of the look-up: weak, because the file is changing and the bytes sent may be of
    /// any later moment.
    Moment(u64),
}

/// The kind of answer that sends the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileRole {
    /// The requested file: 200, with validators.
    Answer,
    /// The site's own page for a 404, without validators.
    NotFoundPage,
}

/// The parts of a representation.
pub(super) struct VariantParts {
    pub(super) validator: FileValidator,
    pub(super) coding: Choice,
    pub(super) varies: Varies,
    pub(super) role: FileRole,
    pub(super) media_type: Box<str>,
    pub(super) tag: TagSource,
    /// The index of the entry's probe that found the file.
    pub(super) probe: usize,
    /// Whether `Last-Modified` gives the time of modification.
    pub(super) dated: Dated,
    pub(super) content: Content,
    pub(super) charge: Option<Charge>,
    /// Whether the answer shows its tag.
    pub(super) tags: FileTags,
    /// The value of `Cache-Control`.
    pub(super) caching: Option<Box<str>>,
}

impl Variant {
    pub(super) fn new(parts: VariantParts) -> Self {
        let VariantParts {
            validator,
            coding,
            media_type,
            varies,
            role,
            tag,
            dated,
            content,
            charge,
            probe,
            tags,
            caching,
        } = parts;
        let etag = etag(&validator, coding, tag);
        let last_modified = (dated == Dated::Yes).then(|| HttpDate::new(validator.modified.seconds));
        let status = if role == FileRole::Answer { Status::Ok } else { Status::NotFound };
        // Incomplete on purpose, because the sender adds Date, Connection and the empty line.
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let _ = HeadWriter::new(&mut head, status);
        let fields_start = head.len();
        head.extend_from_slice(SERVER);
        if role == FileRole::Answer {
            if tags == FileTags::On {
                field(&mut head, "ETag", &etag);
            }
            if let Some(value) = &caching {
                field(&mut head, "Cache-Control", value.as_bytes());
            }
            if let Some(date) = &last_modified {
                field(&mut head, "Last-Modified", date.as_bytes());
            }
        }
        if varies == Varies::Yes {
            field(&mut head, "Vary", b"Accept-Encoding");
        }
        let shared_end = head.len();
        if let Some(name) = coding.content_encoding() {
            field(&mut head, "Content-Encoding", name.as_bytes());
        }
        if role == FileRole::Answer {
            field(&mut head, "Accept-Ranges", b"bytes");
        }
        let partial_end = head.len();
        let _ = HeadWriter::resume(&mut head)
            .field("Content-Type", media_type.as_bytes())
            .content_length(validator.bytes);
        Self {
            head: head.into(),
            shared_fields: fields_start..shared_end,
            partial_fields: fields_start..partial_end,
            media_type,
            etag: etag.into(),
            last_modified,
            bytes: validator.bytes,
            device: validator.device,
            coding: VariantCoding {
                coding,
                varies,
                is_fixed: caching.is_some_and(|value| forbids_transformation(value.as_bytes())),
                is_changing: matches!(tag, TagSource::Moment(_)),
            },
            probe,
            content,
            _charge: charge,
        }
    }

    /// Status line and fields of the whole answer: 200, or 404 for a site's own page. The sender
    /// adds `Date`, `Connection` and the empty line.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The field lines that a 304 shares with a 200: `Server` and the validators.
    pub fn shared_fields(&self) -> &[u8] {
        &self.head[self.shared_fields.clone()]
    }

    /// The field lines that a 206 shares with a 200: all but `Content-Type`, `Content-Length` and
    /// the omissions of [`Variant::head`].
    pub fn partial_fields(&self) -> &[u8] {
        &self.head[self.partial_fields.clone()]
    }

    /// The field lines about the coding, for an answer that is not the file itself.
    pub fn coding_fields(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.varies() {
            field(&mut out, "Vary", b"Accept-Encoding");
        }
        if let Some(name) = self.coding().content_encoding() {
            field(&mut out, "Content-Encoding", name.as_bytes());
        }
        out
    }

    /// The field lines of the content in a `coding` that the server makes, with the tag `tag`. They
    /// leave out `Vary`, and the fields that [`Variant::partial_fields`] leaves out.
    pub fn coded_fields(&self, coding: Choice, tag: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.partial_fields.len() + 64);
        for line in self.partial_fields().split_inclusive(|&byte| byte == b'\n') {
            match line {
                [b'E', b'T', b'a', b'g', b':', ..] => field(&mut out, "ETag", tag),
                // Coded content has no ranges, and says itself that it varies.
                [b'A', b'c', b'c', b'e', b'p', b't', b'-', ..] | [b'V', b'a', b'r', b'y', b':', ..] => {}
                line => out.extend_from_slice(line),
            }
        }
        if let Some(name) = coding.content_encoding() {
            field(&mut out, "Content-Encoding", name.as_bytes());
        }
        out
    }

    /// The tag of the content in a `coding` that the server makes. Weak, because another version of
    /// the encoder may give other bytes.
    pub fn coded_tag(&self, coding: Choice) -> Vec<u8> {
        let opaque = self.etag.strip_prefix(b"W/").unwrap_or(&self.etag);
        let opaque = opaque.strip_suffix(b"\"").unwrap_or(opaque);
        let name = coding.content_encoding().unwrap_or_default();
        [b"W/", opaque, b"-", name.as_bytes(), b"\""].concat()
    }

    /// The tag of the content. A strong tag names one content of a device.
    pub fn tag(&self) -> &[u8] {
        &self.etag
    }

    /// Whether no later look-up makes the same tag, because the file changed a moment ago.
    pub fn is_changing(&self) -> bool {
        self.coding.is_changing
    }

    /// The device of the file.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Whether the answer depends on `Accept-Encoding`.
    pub fn varies(&self) -> bool {
        self.coding.varies == Varies::Yes
    }

    /// Whether `Cache-Control` forbids to transform the content.
    pub fn is_fixed(&self) -> bool {
        self.coding.is_fixed
    }

    /// The value of `Content-Type`.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// The validators that conditional requests are compared with.
    pub fn validators(&self) -> Validators<'_> {
        Validators { etag: &self.etag, last_modified: self.last_modified.as_ref() }
    }

    /// Length of the content, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The content coding.
    pub fn coding(&self) -> Choice {
        self.coding.coding
    }

    /// The place of the content.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// The index of the entry's probe that found the file.
    pub(super) fn probe(&self) -> usize {
        self.probe
    }

    /// As [`OpenFile::still_same`]; always `true` for a content that cannot change.
    ///
    /// [`OpenFile::still_same`]: super::OpenFile::still_same
    pub fn still_same(&self) -> bool {
        match &self.content {
            Content::Memory(_) | Content::Sealed(_) => true,
            Content::Disk(file) => file.still_same(),
        }
    }
}

/// Whether a value of `Cache-Control` forbids to transform the content.
pub fn forbids_transformation(value: &[u8]) -> bool {
    let name = b"no-transform";
    value.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name))
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(piece);
    }
}

/// The tag of a content, from the inode (a replacement may keep the times), the size and the time
/// of change. The kernel sets the time of change with every write and with every change of the time
/// of modification. No program can choose the time of change. In contrast, deployment tools set the
/// time of modification, and a later file of the same size and time may reuse an inode. Where the
/// time of change cannot tell two contents apart, [`TagSource`] does.
fn etag(validator: &FileValidator, coding: Choice, made_of: TagSource) -> Vec<u8> {
    let mut tag = Vec::with_capacity(64);
    if matches!(made_of, TagSource::Weak | TagSource::Moment(_)) {
        tag.extend_from_slice(b"W/");
    }
    let changed = validator.changed;
    let parts = [validator.inode, validator.bytes, changed.seconds as u64, u64::from(changed.nanoseconds)];
    for (separator, part) in b"\"--.".iter().zip(parts) {
        tag.push(*separator);
        push_hex(&mut tag, part);
    }
    if let TagSource::Content(more) | TagSource::Moment(more) = made_of {
        tag.push(b'-');
        push_hex(&mut tag, more);
    }
    if let Some(name) = coding.content_encoding() {
        tag.push(b'-');
        tag.extend_from_slice(name.as_bytes());
    }
    tag.push(b'"');
    tag
}

/// Appends `number` in lower-case hexadecimal digits. By a profile, `write!` took a hundredth of a
/// request for a small file that is not in the cache.
fn push_hex(out: &mut Vec<u8>, number: u64) {
    let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
    out.extend((0..digits).rev().map(|digit| b"0123456789abcdef"[(number >> (4 * digit) & 0xF) as usize]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_as_of_the_standard_library() {
        for number in [0, 1, 9, 10, 15, 16, 0xFF, 0x100, 0xDEAD_BEEF, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            push_hex(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{number:x}"));
        }
    }
}
