//! One HTTP/2 connection to a server: requests out on streams, answers in.
//!
//! h2 speaks, polled by the task of the user alone: no other task, no channel and no wake-up stand between an answer and
//! whoever waits for it. Here is what its errors say about failures, and which of them cost no request: a server may end a
//! connection (GOAWAY), and what it has not begun then goes over another. Tested in `tests/nginx`.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};

use crate::fault::{Failure, Fault, Stopped};
use crate::stream::{Counted, Dial, Stream};
use crate::wire::{Answer, Asked, Reuse};

/// What a server may send ahead on a stream and on a connection. As h2load has it: no bound that a server would feel.
const WINDOW_BYTES: u32 = (1 << 30) - 1;
/// Longest head of an answer, as over HTTP/1.1.
const HEAD_BYTES_MAX: u32 = 64 * 1024;

/// A connection.
pub(crate) struct Http2 {
    sender: SendRequest<Bytes>,
    connection: Connection<Counted, Bytes>,
    /// Whether the connection has come to its end.
    has_ended: bool,
    /// Bytes that have come, frames and all.
    received: Arc<AtomicU64>,
    /// Of those, how many are counted already.
    counted: u64,
    answers: u64,
    /// Whether a request of the present exchange has been sent.
    has_sent: bool,
    /// The status of an answer that was cut.
    cut_status: Option<u16>,
    /// The streams under way; kept for its memory.
    streams: Vec<Exchange>,
}

/// A stream, from its request to the last byte of its answer.
enum Exchange {
    /// Nothing has come.
    Asked(ResponseFuture),
    /// The head has come.
    Answered { status: u16, content_bytes: u64, body: RecvStream },
}

/// Why a stream has no answer.
enum Unanswered {
    /// The server has not begun with it.
    Unsent,
    Failed(Failure),
}

impl Http2 {
    /// Connects.
    pub(crate) async fn open(addr: SocketAddr, dial: &Dial) -> Result<Self, Failure> {
        let received = Arc::new(AtomicU64::new(0));
        let (stream, _) = Stream::open(addr, dial).await?;
        let mut builder = Builder::new();
        builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        builder.enable_push(false).max_header_list_size(HEAD_BYTES_MAX);
        let made = builder.handshake(Counted::new(stream, received.clone())).await;
        let (sender, connection) = made.map_err(|error| failure(&error))?;
        Ok(Self {
            sender,
            connection,
            has_ended: false,
            received,
            counted: 0,
            answers: 0,
            has_sent: false,
            cut_status: None,
            streams: Vec::new(),
        })
    }

    /// The status of an answer that was cut, and the bytes that came and belong to no whole answer.
    pub(crate) fn unfinished(&mut self) -> (Option<u16>, u64) {
        let received = self.received.load(Ordering::Relaxed);
        (self.cut_status.take(), received - std::mem::replace(&mut self.counted, received))
    }

    /// Sends `count` requests, as many at once as the server allows, and tells `each` of their answers with the bytes that
    /// came for it. Those that are answered count as such, whatever becomes of the others.
    pub(crate) async fn exchange(
        &mut self,
        asked: &Asked,
        count: u64,
        mut each: impl FnMut(Answer, u64),
    ) -> Result<(), Stopped> {
        (self.has_sent, self.cut_status) = (false, None);
        self.streams.clear();
        let (mut unsent, mut result) = (count, Ok(()));
        poll_fn(|context| {
            // What the server has said meanwhile comes before what it is asked; then what it is asked has to leave.
            loop {
                self.poll_connection(context);
                self.poll_streams(&mut each, &mut result);
                if self.send(asked, &mut unsent, &mut result) == 0 {
                    break;
                }
            }
            if self.streams.is_empty() && unsent == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        result
    }

    /// Waits for `future`, and meanwhile answers what the server asks of the connection.
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

    /// Takes what has come, and sends what is to be sent.
    fn poll_connection(&mut self, context: &mut Context<'_>) {
        // What ends the connection is told to its streams.
        self.has_ended = self.has_ended || Pin::new(&mut self.connection).poll(context).is_ready();
    }

    /// Sends as many of the `unsent` requests as the server allows now; gives their number. None are left unsent where none
    /// can be.
    fn send(&mut self, asked: &Asked, unsent: &mut u64, result: &mut Result<(), Stopped>) -> usize {
        let before = self.streams.len();
        while *unsent > 0 {
            // Readiness changes only while the connection is polled, which whoever sends does next.
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
                    self.fail(if is_idle { Unanswered::Unsent } else { why }, result);
                    *unsent = 0;
                    break;
                }
            }
            *unsent -= 1;
        }
        self.streams.len() - before
    }

    fn begin(&mut self, asked: &Asked) -> Result<Exchange, Unanswered> {
        let is_bare = asked.content.is_empty();
        let sent = self.sender.send_request(asked.head.clone(), is_bare).and_then(|(answer, mut body)| {
            if !is_bare {
                body.send_data(asked.content.clone(), true)?;
            }
            Ok(Exchange::Asked(answer))
        });
        sent.map_err(|error| unanswered(&error))
    }

    fn poll_streams(&mut self, each: &mut impl FnMut(Answer, u64), result: &mut Result<(), Stopped>) {
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
                    let received = self.received.load(Ordering::Relaxed);
                    each(answer, received - self.counted);
                    self.counted = received;
                    self.answers += 1;
                }
                Err(Unanswered::Failed(failure)) => {
                    let failure = match exchange {
                        Exchange::Answered { status, .. } => {
                            self.cut_status = Some(status);
                            if failure.fault == Fault::Reset { Fault::Cut.into() } else { failure }
                        }
                        Exchange::Asked(_) => failure,
                    };
                    self.fail(Unanswered::Failed(failure), result);
                }
                Err(why) => self.fail(why, result),
            }
        }
    }

    /// A request has no answer: the worst that happens to any of them is the `result` of all. What a fresh connection does
    /// not begin has failed, or it would be sent for ever.
    fn fail(&mut self, why: Unanswered, result: &mut Result<(), Stopped>) {
        match why {
            Unanswered::Unsent if result.is_ok() => {
                let is_fresh = self.answers == 0;
                *result =
                    Err(if is_fresh { Stopped::Failed(Fault::Reset.into()) } else { Stopped::Announced });
            }
            Unanswered::Unsent => {}
            Unanswered::Failed(failure) => *result = Err(Stopped::Failed(failure)),
        }
    }
}

impl Exchange {
    /// Takes what has come for it. Nothing comes but while the connection is polled, so it wakes nobody.
    fn poll(&mut self) -> Poll<Result<Answer, Unanswered>> {
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
                        return Poll::Ready(Ok(Answer { status, content_bytes, reuse: Reuse::Keep }));
                    };
                    let data = data.map_err(|error| Unanswered::Failed(failure(&error)))?;
                    *content_bytes += data.len() as u64;
                    // So that the server may send more; h2 tells it when half of the window is used.
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

/// What an error of a connection is: of its socket, the server's own, or something no server may say.
fn failure(error: &h2::Error) -> Failure {
    match error.get_io() {
        Some(error) => Fault::of(error).into(),
        None if error.is_remote() => Fault::Reset.into(),
        None => Failure { fault: Fault::Malformed, malformed: Some(format!("HTTP/2: {error}").into()) },
    }
}
