//! The reply to a client: output, error output, the end.
//!
//! [`FastcgiResponse`] reads the records of a request's answer and refuses every record that no
//! application may send: another request's records, kinds of the other direction, output after the
//! end. `response/tests.rs` checks that any cut gives the same events, and that no bytes cause a
//! panic.

use crate::{
    FastcgiFault,
    ids::{RecordKind, RequestId},
    records::{RecordRead, RecordReader},
};
use std::ops::Range;

#[cfg(test)]
mod tests;

/// Bytes of the content of `FCGI_END_REQUEST` (§5.5).
const END_BYTES: usize = 8;

/// Reads the answer to a request.
#[derive(Clone, Debug)]
pub struct FastcgiResponse {
    reader: RecordReader,
    id: RequestId,
    stdout_ended: bool,
    ended: bool,
}

/// An event, and the number of bytes to drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseStep {
    /// Bytes of the input that are consumed.
    pub consumed: usize,
    /// The event; none if the bytes have no meaning.
    pub event: Option<ResponseEvent>,
}

/// A part of an answer. Ranges are positions in the input of [`FastcgiResponse::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseEvent {
    /// A piece of the output: head and body as in CGI.
    Stdout(Range<usize>),
    /// A piece of the error output.
    Stderr(Range<usize>),
    /// The request has ended. Applications may omit the ends of their streams.
    End {
        /// The application's exit code, which may be meaningless.
        app_status: u32,
        /// Whether the application accepted the request.
        protocol_status: ProtocolStatus,
    },
    /// Queried names and values; see [`pairs::read`](crate::pairs::read).
    Values(Range<usize>),
    /// The application does not know this kind of record.
    UnknownKind(u8),
}

/// The end of a request at the protocol level (§5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// The request was answered.
    Complete,
    /// The application handles one request at a time on a connection.
    CannotMultiplex,
    /// The application has no capacity for the request.
    Overloaded,
    /// The application does not support this role.
    UnknownRole,
    /// A number outside of the specification.
    Unknown(u8),
}

impl ProtocolStatus {
    pub(crate) fn of(number: u8) -> Self {
        match number {
            0 => Self::Complete,
            1 => Self::CannotMultiplex,
            2 => Self::Overloaded,
            3 => Self::UnknownRole,
            number => Self::Unknown(number),
        }
    }
}

impl FastcgiResponse {
    /// The answer to request `id`.
    pub fn new(id: RequestId) -> Self {
        Self { reader: RecordReader::default(), id, stdout_ended: false, ended: false }
    }

    /// Whether the request has ended and the connection is between records. Another request may
    /// follow, unless unexpected bytes are left.
    pub fn is_over(&self) -> bool {
        self.ended && self.is_between_records()
    }

    /// Whether the application has closed its output. Only the end of the request may follow, and
    /// an application may work on before.
    pub fn has_output_ended(&self) -> bool {
        self.stdout_ended
    }

    /// Whether the next byte begins a record. Applications announce a record's length once they
    /// have its content, so within a record the rest is about to arrive.
    pub fn is_between_records(&self) -> bool {
        self.reader.is_between_records()
    }

    /// Continues reading in `input`, which has arrived and was not consumed; `None` if more bytes
    /// are needed.
    ///
    /// # Errors
    /// The protocol error. The connection must be closed.
    pub fn read(&mut self, input: &[u8]) -> Result<Option<ResponseStep>, FastcgiFault> {
        match self.reader.read(input)? {
            RecordRead::NeedMore => Ok(None),
            RecordRead::Skip(consumed) => Ok(Some(ResponseStep { consumed, event: None })),
            RecordRead::Record { consumed, kind, id, data } => {
                let event = match (kind, id) {
                    (RecordKind::GetValuesResult, 0) => Some(ResponseEvent::Values(data)),
                    (RecordKind::UnknownType, 0) => Some(unknown_kind(&input[data])?),
                    (_, id) if RequestId::new(id) == Some(self.id) => self.of_request(kind, data, input)?,
                    (_, got) => return Err(FastcgiFault::OtherRequest { expected: self.id, got }),
                };
                Ok(Some(ResponseStep { consumed, event }))
            }
        }
    }

    fn of_request(
        &mut self,
        kind: RecordKind,
        data: Range<usize>,
        input: &[u8],
    ) -> Result<Option<ResponseEvent>, FastcgiFault> {
        if self.ended {
            return Err(FastcgiFault::OutOfPlace(kind));
        }
        match kind {
            RecordKind::Stdout if self.stdout_ended => Err(FastcgiFault::OutOfPlace(kind)),
            RecordKind::Stdout if data.is_empty() => {
                self.stdout_ended = true;
                Ok(None)
            }
            RecordKind::Stdout => Ok(Some(ResponseEvent::Stdout(data))),
            RecordKind::Stderr if data.is_empty() => Ok(None),
            RecordKind::Stderr => Ok(Some(ResponseEvent::Stderr(data))),
            RecordKind::EndRequest => {
                self.ended = true;
                end_request(&input[data]).map(Some)
            }
            _ => Err(FastcgiFault::OutOfPlace(kind)),
        }
    }
}

fn end_request(content: &[u8]) -> Result<ResponseEvent, FastcgiFault> {
    let Ok([a, b, c, d, status, ..]) = <[u8; END_BYTES]>::try_from(content) else {
        return Err(FastcgiFault::Length { kind: RecordKind::EndRequest, bytes: content.len() });
    };
    let app_status = u32::from_be_bytes([a, b, c, d]);
    Ok(ResponseEvent::End { app_status, protocol_status: ProtocolStatus::of(status) })
}

fn unknown_kind(content: &[u8]) -> Result<ResponseEvent, FastcgiFault> {
    match content.first() {
        Some(&number) => Ok(ResponseEvent::UnknownKind(number)),
        None => Err(FastcgiFault::Length { kind: RecordKind::UnknownType, bytes: 0 }),
    }
}
