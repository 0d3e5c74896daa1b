//! `multipart/byteranges` (RFC 9110 §14.6): part heads, the end, and the total length before the
//! first byte is sent.
//!
//! The builder never sees the content: the server writes part head, bytes of the file, part head,
//! bytes of the file, end. `ranges/tests.rs` checks that the announced length equals the written
//! length.

use super::{ByteRange, write_content_range};

/// Separates the parts. A boundary must not occur in the content, but no server checks the content.
/// Like other servers, this server makes a collision improbable, by 64 bits that the client cannot
/// choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary([u8; Boundary::LEN]);

impl Boundary {
    const LEN: usize = 16;

    /// A boundary out of 64 bits that should differ from response to response.
    pub fn new(bits: u64) -> Self {
        Self(std::array::from_fn(|i| b"0123456789abcdef"[(bits >> (4 * i) & 0xf) as usize]))
    }

    /// The boundary, as in the `Content-Type` field.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The parts of one response.
#[derive(Clone, Copy, Debug)]
pub struct Multipart<'a> {
    /// At least two ranges, as in [`super::Ranges::Several`].
    pub ranges: &'a [ByteRange],
    /// Bytes of the whole representation.
    pub size: u64,
    /// The representation's own content type.
    pub content_type: &'a [u8],
    /// The separator.
    pub boundary: Boundary,
}

impl Multipart<'_> {
    /// Appends the value of the response's `Content-Type`.
    pub fn write_content_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        out.extend_from_slice(self.boundary.as_bytes());
    }

    /// The exact length of the response's content: heads, parts and end.
    pub fn content_length(&self) -> u64 {
        let mut framing = Vec::with_capacity(256);
        let mut length = 0;
        for index in 0..self.ranges.len() {
            framing.clear();
            self.write_part_head(index, &mut framing);
            length += framing.len() as u64 + self.ranges[index].len();
        }
        framing.clear();
        self.write_end(&mut framing);
        length + framing.len() as u64
    }

    /// Appends the head of part `index`.
    pub fn write_part_head(&self, index: usize, out: &mut Vec<u8>) {
        if index > 0 {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"--");
        out.extend_from_slice(self.boundary.as_bytes());
        out.extend_from_slice(b"\r\nContent-Type: ");
        out.extend_from_slice(self.content_type);
        out.extend_from_slice(b"\r\nContent-Range: ");
        write_content_range(out, self.ranges[index], self.size);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Appends the end after the last part.
    pub fn write_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(self.boundary.as_bytes());
        out.extend_from_slice(b"--\r\n");
    }
}
