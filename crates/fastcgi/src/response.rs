//! What a client hears back: output, error output, the end.
//!
//! [`Response`] reads the records of one request's answer and refuses what no application may send: another request's
//! records, kinds that go the other way, output after its end. That any cut gives the same events, and that no bytes
//! can make it panic, is tested in `response/tests.rs`.

use crate::{
    Fault,
    records::{Kind, Read, Reader, RequestId},
};
use std::ops::Range;

#[cfg(test)]
mod tests;

/// Bytes of the content of `FCGI_END_REQUEST` (§5.5).
const END_BYTES: usize = 8;

/// Reads the answer to one request.
#[derive(Clone, Debug)]
pub struct Response {
    reader: Reader,
    id: RequestId,
    stdout_ended: bool,
    ended: bool,
}

/// What was found, and how many bytes to drop with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// What they are; nothing if they mean nothing.
    pub event: Option<Event>,
}

/// A part of an answer. Ranges are places in the input that [`Response::read`] was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A piece of the output: head and body as of CGI.
    Stdout(Range<usize>),
    /// A piece of the error output.
    Stderr(Range<usize>),
    /// The request has ended; applications may leave out the ends of their streams.
    End {
        /// The application's exit code, for what it is worth.
        app_status: u32,
        /// Whether the application took the request at all.
        protocol_status: ProtocolStatus,
    },
    /// Names and values that were asked for; see [`pairs::read`](crate::pairs::read).
    Values(Range<usize>),
    /// The application does not know this kind of record.
    UnknownKind(u8),
}

/// How a request ended for the protocol (§5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// It was answered.
    Complete,
    /// The application does one request at a time on a connection.
    CannotMultiplex,
    /// The application has no room for it.
    Overloaded,
    /// The application does not play this role.
    UnknownRole,
    /// A number that the specification does not give.
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

    /// Whether the request has ended and the connection stands between records: another request may follow, unless
    /// bytes are left that nobody asked for.
    pub fn is_over(&self) -> bool {
        self.ended && self.is_between_records()
    }

    /// Whether the next byte begins a record. Applications announce a record's length when they have its content, so amid
    /// one the rest is about to come.
    pub fn is_between_records(&self) -> bool {
        self.reader.is_between_records()
    }

    /// Reads on in `input`, what has arrived and was not consumed; nothing if more bytes are needed.
    ///
    /// # Errors
    /// What is wrong. The connection must be closed.
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
