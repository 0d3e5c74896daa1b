//! One connection: receiving, sending, and the time that the client may take.
//!
//! An idle connection keeps no buffer, and a connection that waits for long is visible to other
//! cores (`parking.rs`). Leaves out the loop over requests (the server). Tested through the
//! binary on both drivers (`crates/e2e/tests`).

mod for_programs;
mod half_closed;
mod origin;
mod parking;
mod under_way;
mod write_timeout;

use crate::client_stream::{ClientStream, ENCRYPTED_AT_ONCE};
use bytes::Bytes;
use half_closed::HalfClosed;
pub use origin::ClientOrigin;
use std::{
    future::poll_fn,
    io, mem,
    os::fd::BorrowedFd,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use under_way::UnderWay;
use vermeil::{More, Sleep, movable, now_ms};
use vermeil_accept::admission_control::Admission;
use vermeil_address::Client;
use vermeil_exchange::{ContentStep, Lost, Visitor};
use vermeil_http::{Conversation, ConversationEvent, gateway::ClientLink, response::Persistence};
use vermeil_log::LoggedClient;
use vermeil_settings::gateway::CONTENT_RATE_MIN;
use vermeil_state::{
    connections::IdleState,
    core_context::{self, ConnectionPermit, CoreContext},
    counts::AnswerEnd,
};
use write_timeout::with_write_timeout;

/// Bytes that a client may send ahead while a program answers. Beyond this bound the server no
/// longer watches the client. The bound is the memory that such a connection may take.
const WATCHED_BYTES_MAX: usize = 16 * 1024;

/// Bytes of answers that have left the socket although the client acknowledges nothing: the initial
/// window of ten packets of 1460 bytes (RFC 6928). A reset discards only bytes that wait.
const LEFT_BYTES: u64 = 14_600;

/// A connection between its events.
pub struct Connection {
    /// The bytes of the client.
    pub stream: ClientStream,
    /// The permit to be one of the connections of the core.
    pub permit: ConnectionPermit,
    /// Whether the connection is served.
    pub admission: Admission,
    /// What is known of the client.
    pub client: ClientFacts,
    /// The state of HTTP.
    pub conversation: Conversation,
    /// The received bytes.
    pub input: Input,
    /// Answers not yet handed to the driver.
    pub output: Vec<u8>,
    /// The answers that the driver got.
    handed: HandedOver,
    /// The time that the client may take.
    pub wait: ClientWait,
    /// How the connection is closed if nothing else happens.
    pub farewell: Farewell,
    /// The request that is being answered, if its answer has to wait.
    under_way: Option<Box<UnderWay>>,
    /// Set when the client has sent its last byte.
    half_closed: Option<Box<HalfClosed>>,
}

/// The answers that the driver got from a connection.
#[derive(Default)]
struct HandedOver {
    /// Whether the driver still holds an answer.
    is_held: bool,
    /// Bytes of all answers.
    bytes: u64,
}

/// What is known of the client of a connection.
pub struct ClientFacts {
    /// The client in the log. `None` while the log is off.
    pub logged: Option<LoggedClient>,
    /// Set once an answer may have depended on it.
    pub origin: Option<Box<ClientOrigin>>,
    /// Both ends of the connection, set once a program was told of them, because they cost two
    /// system calls. Shared with the request that is being answered.
    link: Option<Arc<ClientLink>>,
}

/// Received bytes, of which some at the start are processed.
#[derive(Default)]
pub struct Input {
    bytes: Vec<u8>,
    /// The number of processed bytes at the start of `bytes`.
    consumed: usize,
}

impl Input {
    /// The bytes that are not processed yet.
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.consumed..]
    }

    /// Marks the next `count` bytes as processed.
    pub fn consume(&mut self, count: usize) {
        self.consumed += count;
    }
}

impl From<Input> for Vec<u8> {
    fn from(input: Input) -> Self {
        let Input { mut bytes, consumed } = input;
        bytes.drain(..consumed);
        bytes
    }
}

impl From<Vec<u8>> for Input {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, consumed: 0 }
    }
}

/// The time that the client may take.
pub struct ClientWait {
    limit: Sleep,
    waiting_for: WaitingFor,
    /// Since when the client has made no progress with a part of a request, on the core's clock.
    quiet_since_ms: Option<u64>,
    /// Bytes of content that have come since then.
    quiet_bytes: u64,
    /// The last rest was short.
    asks_often: bool,
}

impl ClientWait {
    fn new() -> Self {
        Self {
            limit: Sleep::unset(),
            waiting_for: WaitingFor::Nothing,
            quiet_since_ms: None,
            quiet_bytes: 0,
            asks_often: false,
        }
    }

    /// The client has sent a whole request, or content at the minimum rate. The next wait begins
    /// anew, also if the client has sent a part of the next request already.
    pub fn end_quiet(&mut self) {
        (self.quiet_since_ms, self.quiet_bytes) = (None, 0);
        self.waiting_for = WaitingFor::Nothing;
    }
}

/// The kind of the next bytes, which decides how long the client may take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitingFor {
    Nothing,
    FirstRequest,
    NextRequest,
    RestOfHead,
    RestOfBody,
}

impl WaitingFor {
    fn idle_state(self) -> IdleState {
        match self {
            WaitingFor::FirstRequest => IdleState::BeforeFirst,
            WaitingFor::NextRequest => IdleState::Between,
            WaitingFor::RestOfBody => IdleState::Body,
            WaitingFor::RestOfHead | WaitingFor::Nothing => IdleState::Head,
        }
    }
}

/// How a wait for bytes ended.
enum ReceiveEnd {
    Is(io::Result<usize>),
    /// Another connection wants the permit.
    GivesWay,
}

/// The end of a wait for requests.
pub enum ReceiveOutcome {
    /// Bytes have come.
    Bytes,
    /// The connection is over.
    Over(Farewell),
    /// The connection is over once the client is told that its head is late.
    LateHead(Farewell),
}

/// How a connection is closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// The client expects the close. No bytes of the client are unread, and no answer waits in the
    /// socket.
    Expected,
    /// The server decided to close. The client may be sending, so the server reads its bytes until
    /// the client has seen the answer.
    Ours,
}

/// Where the connection came to and from.
fn visitor_of(stream: &ClientStream, local: &CoreContext) -> Visitor {
    let of_socket =
        stream.with_fd(|fd| Ok::<_, io::Error>((rustix::net::getsockname(fd)?, vermeil_io::peer_addr(fd)?)));
    let (scheme, check) = (stream.scheme(), stream.client_check());
    // A client that has gone gets no access.
    let Ok(Ok((own, peer))) = of_socket else { return Visitor { scheme, check, ..Visitor::UNKNOWN } };
    Visitor { at: local.listener_of(&own), peer: Some(Client::of(peer)), scheme, check }
}

/// The other end of the connection, for the log.
fn other_end(stream: &ClientStream) -> Option<LoggedClient> {
    let addr = stream.with_fd(|fd| vermeil_io::peer_addr(fd).ok()).ok().flatten()?;
    Some(LoggedClient { client: Client::of(addr), default_port: stream.scheme().default_port() })
}

impl ClientFacts {
    /// The log, if there is one, shows `visitor` as the client of the request.
    #[inline]
    pub fn log_request_of(&mut self, visitor: Visitor) {
        self.logged = self.logged.map(|logged| LoggedClient {
            client: visitor.peer.unwrap_or(logged.client),
            default_port: visitor.scheme.default_port(),
        });
    }
}

impl Connection {
    /// The parts that remain when the connection answers nothing more.
    pub(crate) fn into_parts(self) -> (ClientStream, ConnectionPermit) {
        (self.stream, self.permit)
    }

    /// A connection that has had `requests` requests.
    pub fn new(stream: ClientStream, permit: ConnectionPermit, admission: Admission, requests: u32) -> Self {
        let logs = core_context::with(|local| local.records.log.is_on());
        let logged = if logs { other_end(&stream) } else { None };
        Self {
            stream,
            permit,
            admission,
            client: ClientFacts { logged, origin: None, link: None },
            conversation: Conversation::after(requests),
            input: Input::default(),
            output: Vec::new(),
            handed: HandedOver::default(),
            wait: ClientWait::new(),
            farewell: Farewell::Expected,
            under_way: None,
            half_closed: None,
        }
    }

    /// Hands the ready answers to the driver, with `body` behind them.
    pub async fn flush(&mut self, body: Bytes, more: More) -> Result<(), Lost> {
        if self.output.is_empty() && body.is_empty() {
            return Ok(());
        }
        self.drop_first_sent();
        let mut body = body;
        while self.stream.is_secure() && body.len() > ENCRYPTED_AT_ONCE {
            let part = body.split_to(ENCRYPTED_AT_ONCE);
            self.hand_over(part, More::Yes).await?;
        }
        self.hand_over(body, more).await
    }

    async fn hand_over(&mut self, body: Bytes, more: More) -> Result<(), Lost> {
        let output = mem::take(&mut self.output);
        self.sent().await?;
        self.handed.bytes += (output.len() + body.len()) as u64;
        self.stream.send(output, body, more)?;
        self.handed.is_held = true;
        Ok(())
    }

    /// Waits until the kernel has taken all bytes that were handed over.
    pub async fn sent(&mut self) -> Result<(), Lost> {
        if !mem::take(&mut self.handed.is_held) {
            return Ok(());
        }
        let Self { stream, permit, wait: ClientWait { limit, waiting_for, .. }, .. } = self;
        let buffer = with_write_timeout(stream.tcp(), permit, limit, waiting_for, stream.sent()).await?;
        if self.output.capacity() == 0 {
            self.output = buffer;
        }
        Ok(())
    }

    /// Sends the ready answers, and waits until the kernel has taken them.
    pub async fn deliver(&mut self) -> Result<(), Lost> {
        self.flush(Bytes::new(), More::No).await?;
        self.sent().await
    }

    /// Sends up to `count` bytes of `file` from `offset`, and advances `offset`.
    pub async fn sendfile(
        &mut self,
        file: BorrowedFd<'_>,
        offset: &mut u64,
        count: usize,
    ) -> Result<usize, Lost> {
        let Self { stream, permit, wait: ClientWait { limit, waiting_for, .. }, .. } = self;
        let tcp = stream.tcp();
        let sending = tcp.sendfile(file, offset, count);
        let count = with_write_timeout(tcp, permit, limit, waiting_for, sending).await?;
        self.handed.bytes += count as u64;
        Ok(count)
    }

    /// Waits for bytes. Meanwhile another core may take the connection.
    pub async fn receive(&mut self) -> Result<ReceiveOutcome, Lost> {
        self.drop_consumed();
        let waiting_for = self.next_wait();
        if self.half_closed.is_some() {
            if waiting_for == WaitingFor::RestOfHead {
                self.log_begun();
            }
            return Ok(ReceiveOutcome::Over(Farewell::Expected));
        }
        let mut after_rest = None;
        let since_ms = self.wait.quiet_since_ms.filter(|_| waiting_for == self.wait.waiting_for);
        if waiting_for != self.wait.waiting_for || waiting_for == WaitingFor::NextRequest {
            // The time of the first request runs from the start of the connection.
            let goes_on =
                self.wait.waiting_for == WaitingFor::FirstRequest && waiting_for == WaitingFor::RestOfHead;
            self.wait.waiting_for = waiting_for;
            if !goes_on {
                after_rest = self.set_limit(waiting_for);
            }
        }
        let between_requests = matches!(waiting_for, WaitingFor::FirstRequest | WaitingFor::NextRequest);
        let idle = waiting_for.idle_state();
        // Further pieces of a head do not restart the time.
        let since_ms = since_ms.unwrap_or_else(now_ms);
        self.wait.quiet_since_ms = Some(since_ms);
        self.permit.set_idle_since(idle, since_ms);
        let received = loop {
            let (stream, permit, input) = (&mut self.stream, &mut self.permit, &mut self.input.bytes);
            let receiving = poll_fn(|context| {
                permit.follow(idle, since_ms);
                match stream.poll_recv(context, input) {
                    // The bytes that woke the connection may be on their way to this core.
                    Poll::Pending if !stream.tcp().is_here() => Poll::Pending,
                    Poll::Pending if between_requests && permit.is_ending(context) => {
                        Poll::Ready(ReceiveEnd::Is(Ok(0)))
                    }
                    Poll::Pending if permit.gives_way(context) => Poll::Ready(ReceiveEnd::GivesWay),
                    polled => polled.map(ReceiveEnd::Is),
                }
            });
            let received = movable(pin!(self.wait.limit.limit(receiving))).await;
            match (received, after_rest.take()) {
                (Err(_), Some(allowed)) => after_rest = self.rest(allowed, since_ms).await?,
                (Ok(ReceiveEnd::Is(received)), _) => break Ok(received),
                (Ok(ReceiveEnd::GivesWay), _) => break Err(Farewell::Expected),
                (Err(_), _) => break Err(Farewell::Ours),
            }
        };
        self.permit.set_idle(IdleState::No);
        match received {
            Ok(Ok(1..)) => Ok(ReceiveOutcome::Bytes),
            Ok(ended) => {
                if waiting_for == WaitingFor::RestOfHead {
                    self.log_begun();
                }
                ended?;
                Ok(ReceiveOutcome::Over(Farewell::Expected))
            }
            Err(farewell) if waiting_for == WaitingFor::RestOfHead => {
                // Nothing remains unread of a head that gives way, and the permit is wanted now.
                Ok(ReceiveOutcome::LateHead(farewell))
            }
            Err(_) => {
                // The answer before may still be in flight, and has a time limit of its own.
                self.sent().await?;
                // An alert ends TLS between requests (RFC 9112, section 9.8).
                between_requests.then(|| ReceiveOutcome::Over(self.last_farewell())).ok_or(Lost::Late)
            }
        }
    }

    /// How to close the connection when its last answer is sent and no further request is expected.
    /// A client may send an empty line behind its content (RFC 9112, section 2.2). Then a close
    /// would discard the rest of a long answer. Small answers have left the socket already, so they
    /// cost no system call.
    pub fn last_farewell(&self) -> Farewell {
        if self.handed.bytes <= LEFT_BYTES {
            return Farewell::Expected;
        }
        match self.stream.with_fd(vermeil_io::socket_queues) {
            Ok(Ok(queues)) if queues.unread > 0 || queues.unacknowledged > LEFT_BYTES => Farewell::Ours,
            _ => Farewell::Expected,
        }
    }

    /// Counts and logs a request of which the client sent a part before it left.
    fn log_begun(&self) {
        let unread = self.input.unread();
        if core_context::request_line(unread).is_empty() {
            return;
        }
        core_context::with(|local| {
            local.server.count_request();
            local.end_unparsed(self.client.logged, unread, under_way::LEFT, AnswerEnd::Aborted);
        });
    }

    /// The content of a request begins.
    pub(crate) fn begin_content(&mut self) {
        self.wait.end_quiet();
    }

    /// Whether the connection has received bytes that are not processed yet.
    pub(crate) fn has_unread(&self) -> bool {
        !self.input.unread().is_empty()
    }

    /// Appends the next part of the current request's content to `into`. Waits at most `patience`.
    pub(crate) async fn next_content(
        &mut self,
        into: &mut Vec<u8>,
        patience: Duration,
    ) -> Result<ContentStep, Lost> {
        loop {
            let limits = core_context::with(|local| local.server.limits.clone());
            let unread = self.input.unread();
            match self.conversation.next(unread, &limits) {
                ConversationEvent::Body { consumed, data, done } => {
                    into.extend_from_slice(&unread[data]);
                    self.input.consume(consumed);
                    return Ok(if done { ContentStep::Done } else { ContentStep::More });
                }
                ConversationEvent::Reject(rejection) => return Ok(ContentStep::Refused(rejection)),
                ConversationEvent::NeedMore => {}
                ConversationEvent::Request { .. } | ConversationEvent::Closed => {
                    unreachable!("content is read to its end once")
                }
            }
            if self.half_closed.is_some() {
                return Err(Lost::Peer);
            }
            self.drop_consumed();
            // The next wait begins anew.
            self.wait.waiting_for = WaitingFor::Nothing;
            self.wait.limit.set(patience);
            let since_ms = *self.wait.quiet_since_ms.get_or_insert_with(now_ms);
            self.permit.set_idle_since(IdleState::Body, since_ms);
            let (stream, permit, input) = (&mut self.stream, &self.permit, &mut self.input.bytes);
            let receiving = poll_fn(|context| match stream.poll_recv(context, input) {
                Poll::Pending if permit.gives_way(context) => Poll::Ready(ReceiveEnd::GivesWay),
                polled => polled.map(ReceiveEnd::Is),
            });
            let received = self.wait.limit.limit(receiving).await;
            self.permit.set_idle(IdleState::No);
            let count = match received {
                Ok(ReceiveEnd::Is(Ok(0))) => return Err(Lost::Peer),
                Ok(ReceiveEnd::Is(received)) => received?,
                Ok(ReceiveEnd::GivesWay) | Err(_) => return Ok(ContentStep::Late),
            };
            // Less than the minimum rate is no progress.
            self.wait.quiet_bytes += count as u64;
            if self.wait.quiet_bytes >= CONTENT_RATE_MIN {
                self.wait.end_quiet();
            }
        }
    }

    /// Lends the timer of this connection to a caller that waits meanwhile for something other than
    /// the client. Moving an armed timer costs next to nothing.
    pub fn lend_limit(&mut self) -> Sleep {
        mem::replace(&mut self.wait.limit, Sleep::unset())
    }

    /// Takes the timer back. The next wait for the client begins anew.
    pub fn give_back_limit(&mut self, limit: Sleep) {
        self.wait.limit = limit;
        self.wait.waiting_for = WaitingFor::Nothing;
    }

    /// Ready when the client has gone: the client has closed the connection, or vanished. A client
    /// that has closed only its sending side is still there. The connection keeps the bytes that
    /// the client sends meanwhile, up to a bound. Beyond the bound the client is not watched.
    pub fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.half_closed.is_none() && self.input.unread().len() < WATCHED_BYTES_MAX {
            match self.stream.poll_recv(context, &mut self.input.bytes) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0)) => self.half_closed = Some(Box::new(HalfClosed::new())),
                Poll::Ready(Err(_)) => return Poll::Ready(()),
            }
        }
        self.poll_left(context)
    }

    /// Ends the connection after an answer that waited, if the head of the answer says so. A client
    /// may be sending more unless the client itself ends the connection.
    pub fn settle(&mut self, persistence: Persistence) {
        if persistence == Persistence::KeepAlive {
            return;
        }
        let limits = core_context::with(|local| local.server.limits.clone());
        let is_over = matches!(self.conversation.next(b"", &limits), ConversationEvent::Closed);
        if !is_over || self.conversation.requests() >= limits.requests_per_connection {
            self.conversation.close();
            self.farewell = Farewell::Ours;
        }
    }

    fn drop_consumed(&mut self) {
        let Input { bytes, consumed } = &mut self.input;
        if *consumed == bytes.len() {
            // A waiting connection keeps no buffer.
            *bytes = Vec::new();
            if self.output.is_empty() {
                self.output = Vec::new();
            }
        } else {
            bytes.drain(..*consumed);
        }
        *consumed = 0;
    }

    fn next_wait(&self) -> WaitingFor {
        if self.conversation.is_amid_request() {
            if self.conversation.is_amid_body() {
                return WaitingFor::RestOfBody;
            }
            // Empty lines before a request begin no head (RFC 9112, section 2.2).
            if !core_context::request_line(self.input.unread()).is_empty() {
                return WaitingFor::RestOfHead;
            }
        }
        match self.conversation.requests() {
            0 => WaitingFor::FirstRequest,
            _ => WaitingFor::NextRequest,
        }
    }

    /// Sets the allowed time. If the connection will rest, sets the time until then and returns the
    /// remainder.
    fn set_limit(&mut self, waiting_for: WaitingFor) -> Option<Duration> {
        let (timeouts, has_shelf) =
            core_context::with(|local| (local.server.timeouts, local.sockets.shelf.is_some()));
        let rests = self.stream.is_secure() || has_shelf;
        let allowed = match waiting_for {
            WaitingFor::NextRequest if rests => {
                return self.wait_to_park(timeouts.keep_alive);
            }
            WaitingFor::NextRequest => timeouts.keep_alive,
            WaitingFor::RestOfBody => timeouts.body,
            WaitingFor::FirstRequest | WaitingFor::RestOfHead | WaitingFor::Nothing => timeouts.header,
        };
        self.wait.limit.set(allowed);
        None
    }
}
