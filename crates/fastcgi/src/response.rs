//! The reply to a client: output, error output, the end.
//!
//! [`Response`] reads the records of a request's answer and refuses every record that no
//! application may send: another request's records, kinds of the other direction, output after the
//! end. `response/tests.rs` checks that any cut gives the same events, and that no bytes cause a
//! panic.

use crate::{
    Fault,
    ids::{Kind, RequestId},
    records::{Read, Reader},
};
use std::ops::Range;

#[cfg(test)]
mod tests;

/// Bytes of the content of `FCGI_END_REQUEST` (§5.5).
const END_BYTES: usize = 8;

/// Reads the answer to a request.
#[derive(Clone, Debug)]
pub struct Response {
    reader: Reader,
    id: RequestId,
    stdout_ended: bool,
    ended: bool,
}

/// An event, and the number of bytes to drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are consumed.
    pub consumed: usize,
    /// The event; none if the bytes have no meaning.
    pub event: Option<Event>,
}

/// A part of an answer. Ranges are positions in the input of [`Response::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
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

impl Response {
    /// The answer to request `id`.
    pub fn new(id: RequestId) -> Self {
        Self { reader: Reader::default(), id, stdout_ended: false, ended: false }
    }

    /// Whether the request has ended and the connection is between records. Another request may
    /// follow, unless unexpected bytes are left.
    pub fn is_over(&self) -> bool {
        self.ended && self.is_between_records()
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
    pub fn read(&mut self, input: &[u8]) -> Result<Option<Step>, Fault> {
        match self.reader.read(input)? {
            Read::NeedMore => Ok(None),
            Read::Skip(consumed) => Ok(Some(Step { consumed, event: None })),
            Read::Record { consumed, kind, id, data } => {
                let event = match (kind, id) {
                    (Kind::GetValuesResult, 0) => Some(Event::Values(data)),
                    (Kind::UnknownType, 0) => Some(unknown_kind(&input[data])?),
                    (_, id) if RequestId::new(id) == Some(self.id) => self.of_request(kind, data, input)?,
                    (_, got) => return Err(Fault::OtherRequest { expected: self.id, got }),
                };
                Ok(Some(Step { consumed, event }))
            }
        }
    }

    fn of_request(&mut self, kind: Kind, data: Range<usize>, input: &[u8]) -> Result<Option<Event>, Fault> {
        if self.ended {
            return Err(Fault::OutOfPlace(kind));
        }
        match kind {
            Kind::Stdout if self.stdout_ended => Err(Fault::OutOfPlace(kind)),
            Kind::Stdout if data.is_empty() => {
                self.stdout_ended = true;
                Ok(None)
            }
            Kind::Stdout => Ok(Some(Event::Stdout(data))),
            Kind::Stderr if data.is_empty() => Ok(None),
            Kind::Stderr => Ok(Some(Event::Stderr(data))),
            Kind::EndRequest => {
                self.ended = true;
                end_request(&input[data]).map(Some)
            }
            _ => Err(Fault::OutOfPlace(kind)),
        }
    }
}

fn end_request(content: &[u8]) -> Result<Event, Fault> {
    let Ok([a, b, c, d, status, ..]) = <[u8; END_BYTES]>::try_from(content) else {
        return Err(Fault::Length { kind: Kind::EndRequest, bytes: content.len() });
    };
    let app_status = u32::from_be_bytes([a, b, c, d]);
    Ok(Event::End { app_status, protocol_status: ProtocolStatus::of(status) })
}

fn unknown_kind(content: &[u8]) -> Result<Event, Fault> {
    match content.first() {
        Some(&number) => Ok(Event::UnknownKind(number)),
        None => Err(Fault::Length { kind: Kind::UnknownType, bytes: 0 }),
    }
}
