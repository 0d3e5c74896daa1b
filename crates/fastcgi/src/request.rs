//! The client's messages: begin, parameters, input, abort; and the query for an application's
//! values.
//!
//! Every function appends to the caller's buffer. Long content is not copied: [`stdin_header`] goes
//! before the content. Read back by the other role in `responder/tests.rs`.

use crate::{
    ids::{RecordKind, RequestId},
    limits::CONTENT_BYTES_MAX,
    pairs,
    records::{HEADER_BYTES, header, put_header},
};

/// The role of an application that answers requests (§6.2), the only one in use.
pub(crate) const ROLE_RESPONDER: u16 = 1;

/// The flag of §5.1 that makes an application leave the connection open.
pub(crate) const FLAG_KEEP: u8 = 1;

/// The state of the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPersistence {
    /// The application leaves the connection open for another request.
    Keep,
    /// The application closes the connection.
    Close,
}

/// The names of an application's values (§4.1).
pub const VALUE_NAMES: [&str; 3] = ["FCGI_MAX_CONNS", "FCGI_MAX_REQS", "FCGI_MPXS_CONNS"];

/// Appends the beginning of a request.
pub fn begin(out: &mut Vec<u8>, id: RequestId, persistence: RequestPersistence) {
    put_header(out, RecordKind::BeginRequest, Some(id), 8);
    let [role_high, role_low] = ROLE_RESPONDER.to_be_bytes();
    let flags = if persistence == RequestPersistence::Keep { FLAG_KEEP } else { 0 };
    out.extend_from_slice(&[role_high, role_low, flags, 0, 0, 0, 0, 0]);
}

/// Whether a parameter fits into one record. PHP closes the connection on any other parameter.
pub fn fits_record(name: &[u8], value: &[u8]) -> bool {
    let (_, count) = pairs::lengths(name, value);
    count + name.len() + value.len() <= CONTENT_BYTES_MAX
}

/// Writes the parameters of a request. End with [`finish`](Self::finish).
#[must_use = "parameters end with finish()"]
#[derive(Debug)]
pub struct Params<'a> {
    out: &'a mut Vec<u8>,
    id: RequestId,
    /// Position of the current record's header.
    record_at: usize,
}

impl<'a> Params<'a> {
    /// Parameters of request `id`, behind the contents of `out`.
    pub fn new(out: &'a mut Vec<u8>, id: RequestId) -> Self {
        let record_at = out.len();
        put_header(out, RecordKind::Params, Some(id), 0);
        Self { out, id, record_at }
    }

    /// Appends a parameter. A parameter that does not fit behind the others begins a record,
    /// because PHP reads the parameters of each record by themselves. Only a parameter that is
    /// longer than a record is cut ([`fits_record`]).
    ///
    /// # Panics
    /// If the name or the value has 2 GiB or more.
    pub fn pair(&mut self, name: &[u8], value: &[u8]) {
        let (lengths, count) = pairs::lengths(name, value);
        let bytes = count + name.len() + value.len();
        if self.content_bytes() > 0 && self.content_bytes() + bytes > CONTENT_BYTES_MAX {
            self.next_record();
        }
        if bytes <= CONTENT_BYTES_MAX {
            self.out.reserve(bytes);
            [&lengths[..count], name, value].into_iter().for_each(|part| self.out.extend_from_slice(part));
            return;
        }
        self.bytes(&lengths[..count]);
        self.bytes(name);
        self.bytes(value);
    }

    fn bytes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = CONTENT_BYTES_MAX - self.content_bytes();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.out.extend_from_slice(now);
            bytes = later;
            if self.content_bytes() == CONTENT_BYTES_MAX {
                self.next_record();
            }
        }
    }

    fn content_bytes(&self) -> usize {
        self.out.len() - self.record_at - HEADER_BYTES
    }

    fn next_record(&mut self) {
        let header = header(RecordKind::Params, Some(self.id), self.content_bytes());
        self.out[self.record_at..][..HEADER_BYTES].copy_from_slice(&header);
        self.record_at = self.out.len();
        put_header(self.out, RecordKind::Params, Some(self.id), 0);
    }

    /// Ends the parameters.
    pub fn finish(mut self) {
        // The last record is empty, because an empty record ends the stream.
        if self.content_bytes() > 0 {
            self.next_record();
        }
    }
}

/// Appends the header of a record of input; the content of `bytes` bytes must follow. Zero bytes
/// end the input.
///
/// # Panics
/// If `bytes` is more than [`CONTENT_BYTES_MAX`].
pub fn stdin_header(out: &mut Vec<u8>, id: RequestId, bytes: usize) {
    assert!(bytes <= CONTENT_BYTES_MAX, "one record of input has at most {CONTENT_BYTES_MAX} bytes");
    put_header(out, RecordKind::Stdin, Some(id), bytes);
}

/// Appends a piece of input, copied. An empty piece appends nothing, because an empty record would
/// end the input.
pub fn stdin(out: &mut Vec<u8>, id: RequestId, input: &[u8]) {
    for piece in input.chunks(CONTENT_BYTES_MAX) {
        stdin_header(out, id, piece.len());
        out.extend_from_slice(piece);
    }
}

/// Appends the end of the input.
pub fn end_stdin(out: &mut Vec<u8>, id: RequestId) {
    stdin_header(out, id, 0);
}

/// Appends a request to abort request `id` (§5.4). The application still ends the request.
pub fn abort(out: &mut Vec<u8>, id: RequestId) {
    put_header(out, RecordKind::AbortRequest, Some(id), 0);
}

/// Appends a query for values by name (§4.1), at most a few of [`VALUE_NAMES`].
///
/// # Panics
/// If the names do not fit into one record.
pub fn get_values(out: &mut Vec<u8>, names: &[&str]) {
    let mut content = Vec::new();
    for name in names {
        let (lengths, count) = pairs::lengths(name.as_bytes(), b"");
        content.extend_from_slice(&lengths[..count]);
        content.extend_from_slice(name.as_bytes());
    }
    put_header(out, RecordKind::GetValues, None, content.len());
    out.extend_from_slice(&content);
}
