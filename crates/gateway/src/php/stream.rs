//! A connection to a FastCGI application, and a request on it.
//!
//! The request is sent as parameters with short content behind them; longer content follows in
//! pieces as the application reads. The answer is read through `vermeil_fastcgi::Response`. A
//! connection is reused only if the last answer ended cleanly and no byte followed. Each request
//! has another number, so that late output is not mistaken for an answer.

use super::{
    Php,
    addresses::PoolAddresses,
    unframe::{make_room, unframe},
};
use crate::parts::{
    END_SOON, ErrorLines, Last, ProgramRead, ProgramReader, ProgramWriter, ResponseBuffer, Trouble,
};
use bytes::Bytes;
use std::{
    future::poll_fn,
    io, mem,
    path::{Path, PathBuf},
    task::Poll,
    time::Duration,
};
use vermeil::{DriverOptions, More, Sleep, TcpStream, now_ms};
use vermeil_exchange::COPY_BYTES_MAX;
use vermeil_fastcgi::{
    FastcgiResponse, RequestId,
    limits::CONTENT_BYTES_MAX,
    request::{self, Params, RequestPersistence},
};

/// Length from which a receive counts as part of a long answer: a full receive buffer of the
/// driver.
const LONG_BYTES: usize = DriverOptions::RECV_BUFFER_BYTES as usize;

/// Where an application listens.
#[derive(Debug)]
pub enum ApplicationAddress {
    Unix(PathBuf),
    Tcp(PoolAddresses),
}

impl std::fmt::Display for ApplicationAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", Path::display(path)),
            Self::Tcp(addresses) => addresses.fmt(f),
        }
    }
}

/// A connection, between requests.
#[derive(Debug)]
pub(super) struct PhpConnection {
    stream: TcpStream,
    /// Whether the socket tells what the application has read.
    is_unix: bool,
    opened_ms: u64,
    id: RequestId,
    /// Received and unread bytes. After a long answer the buffer has room for another.
    buffer: Vec<u8>,
    /// Whether the last request was given to the stream as a whole.
    is_given: bool,
    /// The answer to the last request, as far as it was read.
    response: FastcgiResponse,
}

impl PhpConnection {
    /// Connects. An address that is silent for its part of `patience` is passed over; the caller
    /// limits the whole.
    pub(super) async fn open(address: &ApplicationAddress, patience: Duration) -> io::Result<Self> {
        let (stream, is_unix) = match address {
            ApplicationAddress::Unix(path) => (TcpStream::connect_unix(path).await?, true),
            ApplicationAddress::Tcp(addresses) => (addresses.connect(patience).await?, false),
        };
        let (id, response) = (RequestId::FIRST, FastcgiResponse::new(RequestId::FIRST));
        let opened_ms = now_ms();
        Ok(Self { stream, is_unix, opened_ms, id, buffer: Vec::new(), is_given: false, response })
    }

    /// The time since the connection was opened, in milliseconds.
    pub(super) fn age_ms(&self) -> u64 {
        now_ms().saturating_sub(self.opened_ms)
    }

    /// Whether the application has read the whole last request, as far as the socket tells. A child
    /// of PHP leaves the record that ends the content until the child waits for the next request.
    /// Before, the child may work on although its answer has ended (`fastcgi_finish_request`).
    pub(super) fn is_read(&self) -> bool {
        let unread = || self.stream.with_fd(vermeil_io::held_bytes).ok()?.ok();
        !self.is_unix || unread().is_none_or(|bytes| bytes == 0)
    }

    /// Whether a connection of [`take_newest`] is reusable: the last answer ended cleanly, the
    /// application waits for a request, and neither bytes nor an end of stream have come since.
    ///
    /// [`take_newest`]: super::idle::IdleConnections::take_newest
    pub(super) async fn is_alive(&mut self) -> bool {
        let Self { stream, buffer, response, .. } = self;
        // A socket on another core could not be asked before.
        let was_asked = stream.is_here();
        // A poll would also be pending on another core, and with a spent budget.
        let is_here = stream.move_here().await.is_ok();
        let is_quiet = response.is_over() && buffer.is_empty() && matches!(stream.try_recv(buffer), Ok(None));
        is_here && is_quiet && (was_asked || self.is_read())
    }

    /// Whether the connection may be kept: the last request was sent whole, and the answer ended
    /// cleanly.
    pub(super) async fn may_be_kept(&self) -> bool {
        // An application may answer before reading the whole request. After half a record the
        // application could not parse another request.
        self.is_given && self.response.is_over() && self.buffer.is_empty() && self.is_sent().await
    }

    /// Whether the last send is complete.
    async fn is_sent(&self) -> bool {
        let mut sent = std::pin::pin!(self.stream.sent());
        poll_fn(|context| Poll::Ready(matches!(sent.as_mut().poll(context), Poll::Ready(Ok(_))))).await
    }

    /// Begins a request, and returns its writer and reader. `put` writes the parameters.
    pub(super) fn begin(
        &mut self,
        persistence: RequestPersistence,
        put: impl FnOnce(&mut Params<'_>),
    ) -> (RequestWriter<'_>, ResponseReader<'_>) {
        self.id = self.id.next();
        self.is_given = false;
        self.response = FastcgiResponse::new(self.id);
        let mut first = Vec::with_capacity(2048);
        request::begin(&mut first, self.id, persistence);
        let mut params = Params::new(&mut first, self.id);
        put(&mut params);
        params.finish();
        let Self { stream, id, buffer, is_given, response, .. } = self;
        (
            RequestWriter { stream, id: *id, first, is_given },
            ResponseReader { stream, buffer, response, end: None },
        )
    }

    /// Closes a connection to `php`. If its child still works on the last request, the pool learns
    /// of that. Call this before the place of the connection is given back.
    pub(super) fn close(self, php: &Php) {
        if php.is_ours()
            && !self.is_read()
            && let Ok(Ok(socket)) = self.stream.with_fd(|fd| fd.try_clone_to_owned())
        {
            php.pool.leave_working(socket.into());
        }
    }

    /// Closes a connection to `php` amid a request. Tells the application to abandon the answer, if
    /// that is possible without waiting.
    pub(super) async fn abort(self, php: &Php) {
        let mut record = Vec::new();
        request::abort(&mut record, self.id);
        // Another send would split a send that is under way.
        if self.is_sent().await && self.stream.send(record, Bytes::new(), More::No).is_ok() {
            let mut taken = std::pin::pin!(self.stream.sent());
            poll_fn(|context| Poll::Ready(taken.as_mut().poll(context).is_ready())).await;
        }
        self.close(php);
    }
}

/// Writes a request to the application.
pub(super) struct RequestWriter<'a> {
    stream: &'a TcpStream,
    id: RequestId,
    /// Begin record and parameters, until sent.
    first: Vec<u8>,
    is_given: &'a mut bool,
}

impl RequestWriter<'_> {
    /// Waits for the previous send, then sends. The last send is not awaited, because waiting costs
    /// a system call and the answer shows whether the send succeeded.
    async fn send(&mut self, head: Vec<u8>, body: Bytes) -> io::Result<()> {
        self.stream.sent().await?;
        self.stream.send(head, body, More::No)
    }
}

impl ProgramWriter for RequestWriter<'_> {
    async fn write(&mut self, mut piece: Bytes, last: Last) -> Result<(), Trouble> {
        let mut head = mem::take(&mut self.first);
        loop {
            let record = piece.split_to(piece.len().min(CONTENT_BYTES_MAX));
            let ends = last == Last::Yes && piece.is_empty();
            if record.len() <= COPY_BYTES_MAX {
                request::stdin(&mut head, self.id, &record);
            } else {
                request::stdin_header(&mut head, self.id, record.len());
                self.send(mem::take(&mut head), record).await?;
            }
            if ends {
                request::end_stdin(&mut head, self.id);
            }
            if piece.is_empty() {
                break;
            }
        }
        if !head.is_empty() {
            self.send(head, Bytes::new()).await?;
        }
        *self.is_given |= last == Last::Yes;
        Ok(())
    }
}

/// Reads the answer of the application.
pub(super) struct ResponseReader<'a> {
    stream: &'a TcpStream,
    buffer: &'a mut Vec<u8>,
    response: &'a mut FastcgiResponse,
    /// Set once the application has closed its output: how long the end of the request may take.
    end: Option<Sleep>,
}

impl ProgramReader for ResponseReader<'_> {
    async fn read(
        &mut self,
        output: &mut ResponseBuffer,
        errors: &mut ErrorLines,
    ) -> Result<ProgramRead, Trouble> {
        loop {
            let read = unframe(self.response, self.buffer, output, errors)?;
            if let Some(read) = read {
                return Ok(read);
            }
            if self.response.has_output_ended() {
                let limit = self.end.get_or_insert_with(|| {
                    let mut limit = Sleep::unset();
                    limit.set(END_SOON);
                    limit
                });
                match limit.limit(self.stream.recv(self.buffer)).await {
                    Ok(Ok(1..)) => continue,
                    // The answer is whole. Without its end, the connection is not kept.
                    Ok(Ok(0) | Err(_)) | Err(_) => return Ok(ProgramRead::End),
                }
            }
            match self.stream.recv(self.buffer).await? {
                0 => return Err(Trouble::Ended),
                LONG_BYTES.. => make_room(self.buffer),
                _ => {}
            }
        }
    }

    fn is_amid(&self) -> bool {
        !(self.response.is_between_records() && self.buffer.is_empty())
    }
}
