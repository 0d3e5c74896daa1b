//! One HTTP/2 connection to a server: sends requests on streams and reads the answers.
//!
//! The h2 crate speaks the protocol. Only the user's task polls h2, so no other task, channel or
//! wake-up stands between an answer and its reader. This file maps h2's errors to faults. Some
//! errors cost no request: a server may end a connection (GOAWAY), and the requests that the server
//! has not begun go over another connection. Tested in `tests/nginx` and `tests/planted`.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use rustls::HandshakeKind;

use crate::fault::{ExchangeFailure, Fault, StopReason};
use crate::stream::{CountedStream, Dial, LoadStream};
use crate::wire::{Http2Request, Reuse, WholeAnswer};

/// Flow-control window of a stream and of a connection. As in h2load: too large to slow down a
/// server.
const WINDOW_BYTES: u32 = (1 << 30) - 1;
/// Streams before the server has said how many it allows. With more, a server would refuse the
/// streams beyond its limit, although the injector keeps to every known limit. Costs a connection
/// with several requests at a time one round trip.
const STREAMS_BEFORE_SETTINGS: usize = 1;
/// Maximum size of the head of an answer, as over HTTP/1.1.
const HEAD_BYTES_MAX: u32 = 64 * 1024;

/// A connection.
pub(crate) struct Http2 {
    sender: SendRequest<Bytes>,
    connection: Connection<CountedStream, Bytes>,
    /// How the TLS handshake ended; `None` over plain TCP.
    handshake_kind: Option<HandshakeKind>,
    /// Whether the connection has ended.
    has_ended: bool,
    /// Received bytes, frame headers included.
    received: Arc<AtomicU64>,
    /// The part of `received` that is already counted.
    counted: u64,
    answers: u64,
    /// Whether a request of the present exchange has been sent.
    has_sent: bool,
    /// The status of a cut answer.
    cut_status: Option<u16>,
    /// The open streams; kept to reuse the allocation.
    streams: Vec<Http2Exchange>,
}

/// A stream, from the request to the last byte of the answer.
enum Http2Exchange {
    /// No part of the answer has come.
    Asked(ResponseFuture),
    /// The head has come.
    Answered { status: u16, content_bytes: u64, body: RecvStream },
}

/// The reason why a stream has no answer.
enum Unanswered {
    /// The server has not begun the request.
    Unsent,
    Failed(ExchangeFailure),
}

impl Http2 {
    /// Connects.
    pub(crate) async fn open(addr: SocketAddr, dial: &Dial) -> Result<Self, ExchangeFailure> {
        let received = Arc::new(AtomicU64::new(0));
        let (stream, _) = LoadStream::open(addr, dial).await?;
        let handshake_kind = stream.handshake_kind();
        let mut builder = Builder::new();
        builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        builder.enable_push(false).max_header_list_size(HEAD_BYTES_MAX);
        builder.initial_max_send_streams(STREAMS_BEFORE_SETTINGS);
        let made = builder.handshake(CountedStream::new(stream, received.clone())).await;
        let (sender, connection) = made.map_err(|error| failure(&error))?;
        Ok(Self {
            sender,
            connection,
            handshake_kind,
            has_ended: false,
            received,
            counted: 0,
            answers: 0,
            has_sent: false,
            cut_status: None,
            streams: Vec::new(),
        })
    }

    /// How the TLS handshake ended; `None` over plain TCP.
    pub(crate) fn handshake_kind(&self) -> Option<HandshakeKind> {
        self.handshake_kind
    }

    /// The status of a cut answer, and the received bytes that are not counted yet.
    pub(crate) fn unfinished(&mut self) -> (Option<u16>, u64) {
        (self.cut_status.take(), self.uncounted())
    }

    /// The received bytes that are not counted yet. From now on these bytes are counted.
    fn uncounted(&mut self) -> u64 {
        let received = self.received.load(Ordering::Relaxed);
        received - std::mem::replace(&mut self.counted, received)
    }

    /// Sends `count` requests, as many at once as the server allows. Calls `each` with every answer
    /// and bytes that are not counted yet, and `on_part` with the bytes of incomplete answers. A
    /// complete answer counts, even if other requests fail.
    pub(crate) async fn exchange(
        &mut self,
        asked: &Http2Request,
        count: u64,
        mut each: impl FnMut(WholeAnswer, u64),
        mut on_part: impl FnMut(u64),
    ) -> Result<(), StopReason> {
        (self.has_sent, self.cut_status) = (false, None);
        self.streams.clear();
        let (mut unsent, mut result) = (count, Ok(()));
        poll_fn(|context| {
            // Receives before it sends, because answers free streams. Then polls the connection
            // again to send the new requests.
            loop {
                self.poll_connection(context);
                self.poll_streams(&mut each, &mut result);
                if self.send(asked, &mut unsent, &mut result) == 0 {
                    break;
                }
            }
            if self.streams.is_empty() && unsent == 0 {
                return Poll::Ready(());
            }
            let bytes = self.uncounted();
            if bytes > 0 {
                on_part(bytes);
            }
            Poll::Pending
        })
        .await;
        result.map_err(|why| match why {
            Unanswered::Failed(failure) => StopReason::Failed(failure),
            // The connection has not answered anything. Otherwise the user would repeat the request
            // forever.
            Unanswered::Unsent if self.answers == 0 => StopReason::Failed(Fault::Reset.into()),
            Unanswered::Unsent => StopReason::Announced,
        })
    }

    /// Waits for `future`, and meanwhile answers the connection's control frames.
    pub(crate) async fn attend<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let output = future.as_mut().poll(context);
            if output.is_pending() {
                self.poll_connection(context);
            }
            output
        })
        .await
    }

    /// Receives arrived frames and sends pending frames.
    fn poll_connection(&mut self, context: &mut Context<'_>) {
        // If the connection ends, h2 reports the reason to the streams.
        self.has_ended = self.has_ended || Pin::new(&mut self.connection).poll(context).is_ready();
    }

    /// Sends as many of the `unsent` requests as the server allows now, and returns their number.
    /// If the connection can send no more, no request stays unsent.
    fn send(&mut self, asked: &Http2Request, unsent: &mut u64, result: &mut Result<(), Unanswered>) -> usize {
        let before = self.streams.len();
        while *unsent > 0 {
            // The readiness changes only while the connection is polled. The caller polls the
            // connection next.
            let begun = match self.sender.poll_ready(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending if !self.has_ended => break,
                Poll::Pending => Err(Unanswered::Unsent),
                Poll::Ready(ready) => {
                    ready.map_err(|error| unanswered(&error)).and_then(|()| self.begin(asked))
                }
            };
            match begun {
                Ok(exchange) => {
                    self.has_sent = true;
                    self.streams.push(exchange);
                }
                Err(why) => {
                    let is_idle = self.has_ended && !self.has_sent;
                    keep_worse(if is_idle { Unanswered::Unsent } else { why }, result);
                    *unsent = 0;
                    break;
                }
            }
            *unsent -= 1;
        }
        self.streams.len() - before
    }

    fn begin(&mut self, asked: &Http2Request) -> Result<Http2Exchange, Unanswered> {
        let is_bare = asked.content.is_empty();
        let sent = self.sender.send_request(asked.head.clone(), is_bare).and_then(|(answer, mut body)| {
            if !is_bare {
                body.send_data(asked.content.clone(), true)?;
            }
            Ok(Http2Exchange::Asked(answer))
        });
        sent.map_err(|error| unanswered(&error))
    }

    fn poll_streams(&mut self, each: &mut impl FnMut(WholeAnswer, u64), result: &mut Result<(), Unanswered>) {
        let mut at = 0;
        while let Some(exchange) = self.streams.get_mut(at) {
            let answer = match exchange.poll() {
                Poll::Pending if !self.has_ended => {
                    at += 1;
                    continue;
                }
                Poll::Pending => Err(Unanswered::Failed(Fault::Reset.into())),
                Poll::Ready(answer) => answer,
            };
            let exchange = self.streams.swap_remove(at);
            match answer {
                Ok(answer) => {
                    each(answer, self.uncounted());
                    self.answers += 1;
                }
                Err(Unanswered::Failed(failure)) => {
                    let failure = match exchange {
                        Http2Exchange::Answered { status, .. } => {
                            self.cut_status = Some(status);
                            if failure.fault == Fault::Reset { Fault::Cut.into() } else { failure }
                        }
                        Http2Exchange::Asked(_) => failure,
                    };
                    keep_worse(Unanswered::Failed(failure), result);
                }
                Err(why) => keep_worse(why, result),
            }
        }
    }
}

/// Records a request without an answer. The worst failure is the `result` of the exchange.
fn keep_worse(why: Unanswered, result: &mut Result<(), Unanswered>) {
    if result.is_ok() || matches!(why, Unanswered::Failed(_)) {
        *result = Err(why);
    }
}

impl Http2Exchange {
    /// Receives the arrived parts of the answer. A part arrives only while the connection is
    /// polled, so this poll needs no waker.
    fn poll(&mut self) -> Poll<Result<WholeAnswer, Unanswered>> {
        let context = &mut Context::from_waker(Waker::noop());
        loop {
            match self {
                Self::Asked(response) => {
                    let response =
                        ready!(Pin::new(response).poll(context)).map_err(|error| unanswered(&error))?;
                    let status = response.status().as_u16();
                    *self = Self::Answered { status, content_bytes: 0, body: response.into_body() };
                }
                Self::Answered { status, content_bytes, body } => {
                    let Some(data) = ready!(body.poll_data(context)) else {
                        let (status, content_bytes) = (*status, *content_bytes);
                        return Poll::Ready(Ok(WholeAnswer { status, content_bytes, reuse: Reuse::Keep }));
                    };
                    let data = data.map_err(|error| Unanswered::Failed(failure(&error)))?;
                    *content_bytes += data.len() as u64;
                    // The released capacity lets the server send more. h2 sends the window update
                    // when half of the window is used.
                    let released = body.flow_control().release_capacity(data.len());
                    released.map_err(|error| Unanswered::Failed(failure(&error)))?;
                }
            }
        }
    }
}

fn unanswered(error: &h2::Error) -> Unanswered {
    let graceful = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    let is_unsent = error.is_remote() && (graceful || error.reason() == Some(Reason::REFUSED_STREAM));
    if is_unsent { Unanswered::Unsent } else { Unanswered::Failed(failure(error)) }
}

/// The fault for an error of a connection: an error of the socket, of the server, or a protocol
/// violation.
fn failure(error: &h2::Error) -> ExchangeFailure {
    match error.get_io() {
        Some(error) => Fault::of(error).into(),
        None if error.is_remote() => Fault::Reset.into(),
        None => {
            ExchangeFailure { fault: Fault::Malformed, malformed: Some(format!("HTTP/2: {error}").into()) }
        }
    }
}
