//! One HTTP/2 connection to a server: requests out on streams, answers in.
//!
//! hyper speaks; here is what it says about failures, and which of them cost no request: a server may end a connection
//! (GOAWAY), and what it has not begun then goes over another. Tested in `tests/nginx`.

use std::error::Error as _;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::Executor as _;
use hyper::{Request, Response};
use vermeil::hyper::{ColorExec, CoreTimer};

use crate::fault::Fault;
use crate::stream::{Counted, Dial, Stream};
use crate::wire::{Answer, Reuse};

/// What a server may send ahead on a stream and on a connection. As h2load has it: no bound that a server would feel.
const WINDOW_BYTES: u32 = (1 << 30) - 1;

/// A request that can be sent many times.
pub(crate) type Asked = Request<Full<Bytes>>;

/// A connection.
pub(crate) struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    /// Bytes that have come, frames and all.
    received: Arc<AtomicU64>,
    /// Of those, how many are counted already.
    counted: u64,
    answers: u64,
    was_idle: bool,
}

/// Why a stream has no answer.
enum Unanswered {
    /// The server has not begun with it.
    Unsent,
    Failed(Fault),
}

impl Http2 {
    /// Connects. What the connection does by itself runs on the color of `exec`, which has to be that of the caller.
    pub(crate) async fn open(addr: SocketAddr, dial: &Dial, exec: &ColorExec) -> Result<Self, Fault> {
        let received = Arc::new(AtomicU64::new(0));
        let stream = Stream::open(addr, dial).await?;
        let mut builder = Builder::new(exec.clone());
        builder.timer(CoreTimer);
        builder.initial_stream_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        let made = builder.handshake(Counted::new(stream, received.clone())).await;
        let (sender, connection) = made.map_err(|error| fault(&error))?;
        // What ends the connection is told to its streams.
        exec.execute(async move { drop(connection.await) });
        Ok(Self { sender, received, counted: 0, answers: 0, was_idle: false })
    }

    /// Whether the last exchange failed only because the server had ended a connection that was used before.
    pub(crate) fn was_idle(&self) -> bool {
        self.was_idle
    }

    /// Sends `count` requests at once and tells `each` of their answers with the bytes that came for it. Those that are
    /// answered count as such, whatever becomes of the others.
    pub(crate) async fn exchange(
        &mut self,
        request: &Asked,
        count: u64,
        mut each: impl FnMut(Answer, u64),
    ) -> Result<(), Fault> {
        self.was_idle = false;
        let is_used = self.answers > 0;
        if poll_fn(|context| self.sender.poll_ready(context)).await.is_err() {
            self.was_idle = is_used;
            return Err(Fault::Reset);
        }
        let mut streams: Vec<_> =
            (0..count).map(|_| Some(Box::pin(stream(self.sender.send_request(request.clone()))))).collect();
        let mut worst = Ok(());
        poll_fn(|context| {
            for place in &mut streams {
                let Some(Poll::Ready(result)) = place.as_mut().map(|stream| stream.as_mut().poll(context))
                else {
                    continue;
                };
                *place = None;
                match result {
                    Ok(answer) => {
                        let received = self.received.load(Ordering::Relaxed);
                        each(answer, received - self.counted);
                        self.counted = received;
                        self.answers += 1;
                    }
                    Err(Unanswered::Unsent) if worst.is_ok() => {
                        self.was_idle = self.answers > 0;
                        worst = Err(Fault::Reset);
                    }
                    Err(Unanswered::Unsent) => {}
                    Err(Unanswered::Failed(fault)) => {
                        self.was_idle = false;
                        worst = Err(fault);
                    }
                }
            }
            if streams.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        worst
    }
}

/// One stream, from its request to the last byte of its answer.
async fn stream(
    answer: impl Future<Output = hyper::Result<Response<Incoming>>>,
) -> Result<Answer, Unanswered> {
    let response = answer.await.map_err(|error| unanswered(&error))?;
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let mut content_bytes = 0;
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| Unanswered::Failed(fault(&error)))?;
        content_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(Answer { status, content_bytes, reuse: Reuse::Keep })
}

fn unanswered(error: &hyper::Error) -> Unanswered {
    let is_refused = of_http2(error).is_some_and(|error| {
        let graceful = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        error.is_remote() && (graceful || error.reason() == Some(h2::Reason::REFUSED_STREAM))
    });
    if error.is_canceled() || is_refused { Unanswered::Unsent } else { Unanswered::Failed(fault(error)) }
}

fn of_http2(error: &hyper::Error) -> Option<&h2::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

/// What an error of a connection is: of its socket, the server's own, or something no server may say.
fn fault(error: &hyper::Error) -> Fault {
    if let Some(error) = of_http2(error) {
        return match error.get_io() {
            Some(error) => Fault::of(error),
            None if error.is_remote() => Fault::Reset,
            None => Fault::Malformed,
        };
    }
    match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(error) => Fault::of(error),
        None if error.is_closed() || error.is_canceled() || error.is_incomplete_message() => Fault::Reset,
        None => Fault::Malformed,
    }
}
