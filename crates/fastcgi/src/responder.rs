//! The application's side, as small as tests and benches need it: requests in, output out.
//!
//! [`RequestReader`] reads the client's messages and holds the parameters until they are complete.
//! Roles other than the responder's are reported, not refused, because the caller decides on the
//! answer. Tested in `responder/tests.rs`, together with the output of [`request`](crate::request).

use crate::{
    FastcgiFault,
    ids::{RecordKind, RequestId},
    limits::{CONTENT_BYTES_MAX, PARAMS_BYTES_MAX},
    records::{RecordRead, RecordReader, put_header},
    request::{FLAG_KEEP, ROLE_RESPONDER, RequestPersistence},
};
use std::ops::Range;

#[cfg(test)]
mod tests;

/// Reads the requests of a connection, one at a time.
#[derive(Clone, Debug, Default)]
pub struct RequestReader {
    reader: RecordReader,
    params: Vec<u8>,
}

/// An event, and the number of bytes to drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestStep {
    /// Bytes of the input that are consumed.
    pub consumed: usize,
    /// The event; none if the bytes have no meaning yet.
    pub event: Option<RequestEvent>,
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestEvent {
    /// A request begins.
    Begin {
        /// The request's number.
        id: RequestId,
        /// Whether the client uses the responder role; this crate supports no other role.
        is_responder: bool,
        /// The state of the connection after the answer.
        persistence: RequestPersistence,
    },
    /// All parameters, to be read with [`pairs::read`](crate::pairs::read).
    Params(Vec<u8>),
    /// A piece of the input, at this position.
    Stdin(Range<usize>),
    /// The end of the input.
    StdinEnd,
    /// The request must be aborted.
    Abort,
    /// The client queries values, by these pairs.
    GetValues(Range<usize>),
}

impl RequestReader {
    /// Continues reading in `input`, which has arrived and was not consumed; `None` if more bytes
    /// are needed.
    ///
    /// # Errors
    /// The protocol error. The connection must be closed.
    pub fn read(&mut self, input: &[u8]) -> Result<Option<RequestStep>, FastcgiFault> {
        match self.reader.read(input)? {
            RecordRead::NeedMore => Ok(None),
            RecordRead::Skip(consumed) => Ok(Some(RequestStep { consumed, event: None })),
            RecordRead::Record { consumed, kind, id, data } => {
                let event = self.record(kind, id, data, input)?;
                Ok(Some(RequestStep { consumed, event }))
            }
        }
    }

    fn record(
        &mut self,
        kind: RecordKind,
        id: u16,
        data: Range<usize>,
        input: &[u8],
    ) -> Result<Option<RequestEvent>, FastcgiFault> {
        match kind {
            RecordKind::BeginRequest => {
                self.params.clear();
                begin(id, &input[data]).map(Some)
            }
            RecordKind::Params if data.is_empty() => {
                Ok(Some(RequestEvent::Params(std::mem::take(&mut self.params))))
            }
            RecordKind::Params if self.params.len() + data.len() > PARAMS_BYTES_MAX => {
                Err(FastcgiFault::ParamsTooLong)
            }
            RecordKind::Params => {
                self.params.extend_from_slice(&input[data]);
                Ok(None)
            }
            RecordKind::Stdin if data.is_empty() => Ok(Some(RequestEvent::StdinEnd)),
            RecordKind::Stdin => Ok(Some(RequestEvent::Stdin(data))),
            RecordKind::AbortRequest => Ok(Some(RequestEvent::Abort)),
            RecordKind::GetValues => Ok(Some(RequestEvent::GetValues(data))),
            _ => Err(FastcgiFault::OutOfPlace(kind)),
        }
    }
}

fn begin(id: u16, content: &[u8]) -> Result<RequestEvent, FastcgiFault> {
    let out_of_place = FastcgiFault::OutOfPlace(RecordKind::BeginRequest);
    let id = RequestId::new(id).ok_or(out_of_place)?;
    let &[role_high, role_low, flags, ..] = content else {
        return Err(FastcgiFault::Length { kind: RecordKind::BeginRequest, bytes: content.len() });
    };
    Ok(RequestEvent::Begin {
        id,
        is_responder: u16::from_be_bytes([role_high, role_low]) == ROLE_RESPONDER,
        persistence: if flags & FLAG_KEEP != 0 {
            RequestPersistence::Keep
        } else {
            RequestPersistence::Close
        },
    })
}

/// Appends a piece of output, in as many records as necessary.
pub fn stdout(out: &mut Vec<u8>, id: RequestId, output: &[u8]) {
    stream(out, RecordKind::Stdout, id, output);
}

/// Appends a piece of error output.
pub fn stderr(out: &mut Vec<u8>, id: RequestId, output: &[u8]) {
    stream(out, RecordKind::Stderr, id, output);
}

fn stream(out: &mut Vec<u8>, kind: RecordKind, id: RequestId, content: &[u8]) {
    for piece in content.chunks(CONTENT_BYTES_MAX) {
        put_header(out, kind, Some(id), piece.len());
        out.extend_from_slice(piece);
    }
}

/// Appends the end of the output and of the request.
pub fn end(out: &mut Vec<u8>, id: RequestId, app_status: u32) {
    put_header(out, RecordKind::Stdout, Some(id), 0);
    put_header(out, RecordKind::EndRequest, Some(id), 8);
    out.extend_from_slice(&app_status.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
}
