//! Records: the header of eight bytes, the content, the padding (§3.3).
//!
//! [`RecordReader`] cuts the input into records. Content of streams is passed on in pieces as it
//! arrives, content of other kinds is passed on whole, within [`WHOLE_BYTES_MAX`], and content of
//! unknown kinds is skipped. The reader holds no bytes: the caller keeps unconsumed bytes and
//! passes them again with more bytes behind. Tested through both roles.

use crate::{
    FastcgiFault,
    ids::{RecordKind, RequestId},
    limits::WHOLE_BYTES_MAX,
};
use std::ops::Range;

/// The only version.
const VERSION: u8 = 1;

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 8;

/// The treatment of a record's content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    InPieces,
    Whole,
    Skipped,
}

fn manner(kind: RecordKind) -> Manner {
    match kind {
        RecordKind::Params
        | RecordKind::Stdin
        | RecordKind::Stdout
        | RecordKind::Stderr
        | RecordKind::Data => Manner::InPieces,
        RecordKind::Unknown(_) => Manner::Skipped,
        _ => Manner::Whole,
    }
}

/// Appends a record's header. `id` is `None` for a record of the connection.
///
/// # Panics
/// If the content does not fit into one record.
pub(crate) fn put_header(out: &mut Vec<u8>, kind: RecordKind, id: Option<RequestId>, content_bytes: usize) {
    out.extend_from_slice(&header(kind, id, content_bytes));
}

/// A record's header.
pub(crate) fn header(kind: RecordKind, id: Option<RequestId>, content_bytes: usize) -> [u8; HEADER_BYTES] {
    let [id_high, id_low] = id.map_or(0, RequestId::number).to_be_bytes();
    let content_bytes = u16::try_from(content_bytes).expect("content fits into one record");
    let [length_high, length_low] = content_bytes.to_be_bytes();
    [VERSION, kind.number(), id_high, id_low, length_high, length_low, 0, 0]
}

/// Cuts a connection's bytes into records.
#[derive(Clone, Debug, Default)]
pub struct RecordReader {
    phase: RecordPhase,
}

#[derive(Clone, Copy, Debug, Default)]
enum RecordPhase {
    #[default]
    Header,
    Content {
        kind: RecordKind,
        id: u16,
        left: usize,
        padding: usize,
    },
    Padding {
        left: usize,
    },
}

/// The result of [`RecordReader::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordRead {
    /// Nothing yet: pass the same bytes again with more bytes behind.
    NeedMore,
    /// Meaningless bytes: drop this number.
    Skip(usize),
    /// A record, or a piece of a stream's record.
    Record {
        /// Bytes to drop, content included.
        consumed: usize,
        /// The kind.
        kind: RecordKind,
        /// The number of the request, zero for the connection.
        id: u16,
        /// The position of the content. Empty for a record of a stream: the stream's end.
        data: Range<usize>,
    },
}

impl RecordReader {
    /// Whether the next byte begins a record.
    pub fn is_between_records(&self) -> bool {
        matches!(self.phase, RecordPhase::Header)
    }

    /// Continues reading in `input`.
    ///
    /// # Errors
    /// The protocol error; nothing more can be read afterwards.
    pub fn read(&mut self, input: &[u8]) -> Result<RecordRead, FastcgiFault> {
        match self.phase {
            RecordPhase::Header => self.header(input),
            RecordPhase::Content { kind, id, left, padding } => {
                if input.is_empty() {
                    return Ok(RecordRead::NeedMore);
                }
                let count = left.min(input.len());
                self.phase = match left - count {
                    0 => after_content(padding),
                    left => RecordPhase::Content { kind, id, left, padding },
                };
                Ok(match manner(kind) {
                    Manner::Skipped => RecordRead::Skip(count),
                    _ => RecordRead::Record { consumed: count, kind, id, data: 0..count },
                })
            }
            RecordPhase::Padding { .. } if input.is_empty() => Ok(RecordRead::NeedMore),
            RecordPhase::Padding { left } => {
                let count = left.min(input.len());
                self.phase = after_content(left - count);
                Ok(RecordRead::Skip(count))
            }
        }
    }

    fn header(&mut self, input: &[u8]) -> Result<RecordRead, FastcgiFault> {
        // The first byte reveals input that is not FastCGI, however slowly the bytes arrive.
        if let Some(&version) = input.first()
            && version != VERSION
        {
            return Err(FastcgiFault::Version(version));
        }
        let Some(&[_, number, id_high, id_low, length_high, length_low, padding, _]) =
            input.first_chunk::<HEADER_BYTES>()
        else {
            return Ok(RecordRead::NeedMore);
        };
        let kind = RecordKind::of(number);
        let id = u16::from_be_bytes([id_high, id_low]);
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        let padding = usize::from(padding);
        if manner(kind) == Manner::Whole && length > WHOLE_BYTES_MAX {
            return Err(FastcgiFault::Length { kind, bytes: length });
        }
        let is_piecemeal = manner(kind) != Manner::Whole && length > 0;
        if is_piecemeal {
            self.phase = RecordPhase::Content { kind, id, left: length, padding };
            return Ok(RecordRead::Skip(HEADER_BYTES));
        }
        let end = HEADER_BYTES + length;
        if input.len() < end {
            return Ok(RecordRead::NeedMore);
        }
        self.phase = after_content(padding);
        Ok(match manner(kind) {
            Manner::Skipped => RecordRead::Skip(end),
            _ => RecordRead::Record { consumed: end, kind, id, data: HEADER_BYTES..end },
        })
    }
}

fn after_content(padding: usize) -> RecordPhase {
    match padding {
        0 => RecordPhase::Header,
        left => RecordPhase::Padding { left },
    }
}
