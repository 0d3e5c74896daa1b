//! One representation of a file: its validators, its ready-made heads, its bytes.
//!
//! Made once, when the file is read; sending it only copies. Byte-exact examples in `tests/heads.rs`.

use super::{
    content::{Charge, Content},
    open::Identity,
};
use std::io::Write;
use vermeil_http::{HttpDate, Status, Validators, negotiate::Choice, response::HeadWriter};

pub(super) mod media;

/// Names the server, without a version, which would help attackers only.
pub(crate) const SERVER: &[u8] = b"Server: vermeil\r\n";

/// One representation of a file: as it is, or precompressed.
#[derive(Debug)]
pub struct Variant {
    head: Box<[u8]>,
    not_modified_head: Box<[u8]>,
    partial_fields: Box<[u8]>,
    media_type: Box<str>,
    etag: Box<[u8]>,
    /// Nothing while it can still become the date of another content.
    last_modified: Option<HttpDate>,
    bytes: u64,
    coding: Choice,
    probe: usize,
    content: Content,
    /// For the content in memory.
    _charge: Option<Charge>,
}

/// Whether what is sent depends on `Accept-Encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Varies {
    Yes,
    No,
}

/// Whether the time of modification of a file may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dated {
    /// It has passed, and with it what could be written in the same second.
    Yes,
    /// The content may be another before its second is over, and a part of that would be added to a part of this; or it is
    /// in the future, where RFC 9110 §8.8.2.1 has no date of modification.
    No,
}

/// What the tag of a content is made of, beside the identity of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// The content itself: strong, whatever the kernel tells of the file.
    Content(u64),
    /// The identity alone: strong, because the kernel moves the time of change with every later change.
    Identity,
    /// The identity alone, which may be that of another content too: weak.
    Weak,
    /// The moment of the look-up: the file is changing, and what is sent may be of any moment after. Weak.
    Moment(u64),
}

/// As what a file is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// What was asked for: 200, with validators.
    Answer,
    /// The site's page for what is not found: 404, which has none.
    NotFoundPage,
}

/// What a representation is made of.
pub(super) struct Parts {
    pub(super) identity: Identity,
    pub(super) coding: Choice,
    pub(super) varies: Varies,
    pub(super) role: Role,
    pub(super) media_type: Box<str>,
    pub(super) tag: Tag,
    /// Which of the entry's probes has found the file.
    pub(super) probe: usize,
    /// Whether `Last-Modified` says when the file was modified.
    pub(super) dated: Dated,
    pub(super) content: Content,
    pub(super) charge: Option<Charge>,
}

impl Variant {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { identity, coding, media_type, varies, role, tag, dated, content, charge, probe } = parts;
        let etag = etag(&identity, coding, tag);
        let last_modified = (dated == Dated::Yes).then(|| HttpDate::new(identity.modified.seconds));
        let fields = |out: &mut Vec<u8>, wanted: Fields| {
            out.extend_from_slice(SERVER);
            if role == Role::Answer {
                field(out, "ETag", &etag);
                if let Some(date) = &last_modified {
                    field(out, "Last-Modified", date.as_bytes());
                }
            }
            if varies == Varies::Yes {
                field(out, "Vary", b"Accept-Encoding");
            }
            if let (Some(name), Fields::OfContent) = (coding.content_encoding(), wanted) {
                field(out, "Content-Encoding", name.as_bytes());
            }
            if role == Role::Answer && wanted == Fields::OfContent {
                field(out, "Accept-Ranges", b"bytes");
            }
        };
        let status = if role == Role::Answer { Status::Ok } else { Status::NotFound };
        let (mut shared, mut partial_fields) = (Vec::new(), Vec::new());
        fields(&mut shared, Fields::OfResource);
        fields(&mut partial_fields, Fields::OfContent);
        let (mut head, mut not_modified_head) = (Vec::new(), Vec::new());
        // Unfinished on purpose: Date, Connection and the empty line belong to the moment of sending.
        let _ = HeadWriter::new(&mut head, status)
            .lines(&partial_fields)
            .field("Content-Type", media_type.as_bytes())
            .content_length(identity.bytes);
        let _ = HeadWriter::new(&mut not_modified_head, Status::NotModified).lines(&shared);
        Self {
            head: head.into(),
            not_modified_head: not_modified_head.into(),
            partial_fields: partial_fields.into(),
            media_type,
            etag: etag.into(),
            last_modified,
            bytes: identity.bytes,
            coding,
            probe,
            content,
            _charge: charge,
        }
    }

    /// Status line and fields of the whole answer, 200, or 404 of a site's own page for what is not found. What is
    /// missing depends on the moment: `Date`, `Connection`, the empty line.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The same of a 304.
    pub fn not_modified_head(&self) -> &[u8] {
        &self.not_modified_head
    }

    /// The field lines that a 206 shares with a 200: all but `Content-Type`, `Content-Length`, and what
    /// [`Variant::head`] leaves out.
    pub fn partial_fields(&self) -> &[u8] {
        &self.partial_fields
    }

    /// The value of `Content-Type`.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// What conditions are compared with.
    pub fn validators(&self) -> Validators<'_> {
        Validators { etag: &self.etag, last_modified: self.last_modified.as_ref() }
    }

    /// Length of the content, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How the content is compressed.
    pub fn coding(&self) -> Choice {
        self.coding
    }

    /// Where the content is.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Which of the entry's probes has found the file.
    pub(super) fn probe(&self) -> usize {
        self.probe
    }

    /// As [`OpenFile::still_same`]; what is in memory always is.
    ///
    /// [`OpenFile::still_same`]: super::OpenFile::still_same
    pub fn still_same(&self) -> bool {
        match &self.content {
            Content::Memory(_) => true,
            Content::Disk(file) => file.still_same(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fields {
    OfResource,
    OfContent,
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(piece);
    }
}

/// The tag of a content: changes with its inode (replaced, times kept), its size and its time of change. That one the
/// kernel sets with every write and every time of modification that is set, and nobody else can: what deploys files gives
/// them times of its own, and a later file of the same size and time may get the inode of an earlier one. Where the time
/// of change cannot tell two contents apart, [`Tag`] does.
fn etag(identity: &Identity, coding: Choice, made_of: Tag) -> Vec<u8> {
    let mut tag = Vec::with_capacity(64);
    if matches!(made_of, Tag::Weak | Tag::Moment(_)) {
        tag.extend_from_slice(b"W/");
    }
    let changed = identity.changed;
    write!(
        tag,
        "\"{:x}-{:x}-{:x}.{:x}",
        identity.inode, identity.bytes, changed.seconds, changed.nanoseconds
    )
    .and_then(|()| match made_of {
        Tag::Content(more) | Tag::Moment(more) => write!(tag, "-{more:x}"),
        Tag::Identity | Tag::Weak => Ok(()),
    })
    .and_then(|()| coding.content_encoding().map_or(Ok(()), |name| write!(tag, "-{name}")))
    .expect("a vector takes what is written");
    tag.push(b'"');
    tag
}
