//! The framing of a program's content on the way to the client (RFC 9112 §6), and which part of the
//! content is sent.
//!
//! The announced length binds the program. Excess content is dropped. Missing content breaks the
//! connection, because the client must not take a part for the whole. Without a length, HTTP/1.1
//! gets chunks, and HTTP/1.0 gets everything up to the end of the connection. Tested in
//! `gateway/tests/bodies.rs`.

use super::ResponseHead;
use crate::response::{HeadWriter, PageContent};
use crate::version::Version;
use std::io::Write as _;

/// The framing of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// No content, even if the program writes content.
    None,
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// Everything up to the end of the connection, which must be closed.
    UntilClose,
}

/// The field line that says [`BodyFraming::Chunked`].
const CHUNKED: &[u8] = b"Transfer-Encoding: chunked\r\n";

/// The end of chunked content.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The end of one chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// Appends the head of a chunk of `bytes`, which must not be 0, because 0 would end the content.
pub fn chunk_header(out: &mut Vec<u8>, bytes: usize) {
    assert!(bytes > 0, "an empty chunk ends the content");
    write!(out, "{bytes:X}\r\n").expect("a vector takes every byte");
}

/// Content on the way to the client, counted.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    framing: BodyFraming,
    sent: u64,
}

/// The treatment of the next piece of a program's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentPiece {
    /// Drop the piece.
    Dropped,
    /// Send the first so many bytes of the piece unchanged.
    Plain(usize),
    /// Send the whole piece as a chunk.
    Chunk,
}

/// How content can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentEnd {
    /// The content is complete.
    Complete,
    /// The content is complete once [`LAST_CHUNK`] was sent.
    LastChunk,
    /// The content is complete once the connection is closed in good order.
    Close,
    /// The program announced more: the connection must be cut.
    Short,
}

impl Body {
    /// For an answer with `head` to a request of `version`, of which `content` is wanted.
    pub fn new(head: &ResponseHead, version: Version, content: PageContent) -> Self {
        let framing = match (head.content_length, version) {
            _ if content == PageContent::Omitted || !head.has_content() => BodyFraming::None,
            (Some(length), _) => BodyFraming::Length(length),
            (None, Version::Http11) => BodyFraming::Chunked,
            (None, Version::Http10) => BodyFraming::UntilClose,
        };
        Self { framing, sent: 0 }
    }

    /// The framing.
    pub fn framing(&self) -> BodyFraming {
        self.framing
    }

    /// Bytes of content handed to the client.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether the client has all the promised content, so that further output of the program does
    /// not matter.
    pub fn is_complete(&self) -> bool {
        match self.framing {
            BodyFraming::None => true,
            BodyFraming::Length(length) => self.sent == length,
            BodyFraming::Chunked | BodyFraming::UntilClose => false,
        }
    }

    /// Takes a piece of `bytes` bytes.
    pub fn piece(&mut self, bytes: usize) -> ContentPiece {
        let piece = match self.framing {
            _ if bytes == 0 => ContentPiece::Dropped,
            BodyFraming::None => ContentPiece::Dropped,
            BodyFraming::Length(length) => match usize::try_from(length - self.sent) {
                Ok(0) => ContentPiece::Dropped,
                left => ContentPiece::Plain(left.map_or(bytes, |left| left.min(bytes))),
            },
            BodyFraming::Chunked => ContentPiece::Chunk,
            BodyFraming::UntilClose => ContentPiece::Plain(bytes),
        };
        self.sent += match piece {
            ContentPiece::Dropped => 0,
            ContentPiece::Plain(bytes) => bytes as u64,
            ContentPiece::Chunk => bytes as u64,
        };
        piece
    }

    /// Says the framing in the client's head, for the content of `head`.
    pub fn write_framing<'w>(&self, head: &ResponseHead, writer: HeadWriter<'w>) -> HeadWriter<'w> {
        match (self.framing, head.content_length) {
            (BodyFraming::Length(length), _) => writer.content_length(length),
            (BodyFraming::Chunked, _) => writer.lines(CHUNKED),
            // The content of the response to a GET.
            (BodyFraming::None, Some(length)) if head.has_content() => writer.content_length(length),
            (BodyFraming::None, _) if head.status == 205 => writer.content_length(0),
            (BodyFraming::None | BodyFraming::UntilClose, _) => writer,
        }
    }

    /// The program has ended.
    pub fn end(&self) -> ContentEnd {
        match self.framing {
            BodyFraming::Length(length) if self.sent < length => ContentEnd::Short,
            BodyFraming::None | BodyFraming::Length(_) => ContentEnd::Complete,
            BodyFraming::Chunked => ContentEnd::LastChunk,
            BodyFraming::UntilClose => ContentEnd::Close,
        }
    }
}
