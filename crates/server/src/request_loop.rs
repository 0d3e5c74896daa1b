//! The loop of one connection: receive, answer every received request, send, repeat.
//!
//! ```text
//! Idle ──bytes──▶ AnswerHead ──complete──▶ answered ──▶ Idle      (a pipeline is sent at once)
//!                                       │  slow: file to send, miss that blocks (`deferred`)
//!                                       └─ last: sent, closed so that the client reads it
//!                                       (`close.rs`)
//! ```
//!
//! The hot path from a request's bytes to its answer's bytes is the one synchronous function
//! `consume`, which waits nowhere. Leaves out receiving and sending (`crates/connection`). Tested
//! through the binary on both drivers (`crates/e2e/tests`).

use bytes::Bytes;
use vermeil::More;
use vermeil_accept::admission_control::Admission;
use vermeil_answer::{
    answer::{self, Answer, Slow},
    pages::{busy, page, refuse, unparsed_head},
};
use vermeil_connection::{
    client_stream::ClientStream,
    close,
    connection::{ClientOrigin, Connection, Farewell, ReceiveOutcome},
};
use vermeil_exchange::{AnswerHead, Lost, Visitor};
use vermeil_http::{ConnectionLimits, ConversationEvent, Request, Status, response::Persistence};
use vermeil_log::LoggedClient;
use vermeil_state::{
    core_context::{self, ConnectionPermit, CoreContext, EndedRequest},
    counts::AnswerEnd,
};

/// Bytes of ready answers after which they are sent although more requests wait. The first receive
/// window of a TCP connection has 64 KiB, so more has to wait for the client's acknowledgement
/// anyway.
const OUTPUT_FLUSH_BYTES: usize = 64 * 1024;

/// The next step after `consume`.
enum AfterConsume {
    /// All received requests are answered: send the answers, then receive.
    Receive,
    /// Send the ready answers, with this body behind them, then continue.
    Send(Bytes),
    /// An answer that has to wait.
    Slow(Box<Slow>),
    /// Send the ready answers and close.
    Close(Farewell),
}

/// The state of a connection before its service.
#[derive(Default)]
pub(crate) struct ConnectionStart {
    /// Requests that the connection has had.
    pub(crate) requests: u32,
    /// Received bytes.
    pub(crate) input: Vec<u8>,
    /// The client, if a proxy has announced it.
    pub(crate) origin: Option<Box<ClientOrigin>>,
}

/// Serves one connection to its end. Call this function on the core of the connection. The future
/// holds no copy of the arguments, because an idle connection has to be small.
pub(crate) fn serve(
    stream: ClientStream,
    permit: ConnectionPermit,
    admission: Admission,
    start: ConnectionStart,
) -> impl Future<Output = ()> + Send + 'static {
    let mut connection = Connection::new(stream, permit, admission, start.requests);
    connection.input = start.input.into();
    connection.set_origin(start.origin);
    async move {
        let ended = run(&mut connection).await;
        connection.permit.end();
        match ended {
            Ok(Farewell::Expected) => connection.stream.say_end(),
            Err(Lost::Peer | Lost::Late) => {}
            Ok(Farewell::Ours) => Box::pin(close::linger(connection)).await,
            // The client counts the bytes and sees that some are missing.
            Err(Lost::Cut) => {}
            Err(Lost::CutWithoutLength) => Box::pin(close::reset(connection)).await,
        }
    }
}

async fn run(connection: &mut Connection) -> Result<Farewell, Lost> {
    if connection.client.origin.is_none()
        && connection.is_announced()
        && !Box::pin(connection.read_announcement()).await?
    {
        return Ok(Farewell::Expected);
    }
    loop {
        match consume(connection) {
            AfterConsume::Receive => {
                connection.flush(Bytes::new(), More::No).await?;
                let over = match connection.receive().await? {
                    ReceiveOutcome::Bytes => None,
                    ReceiveOutcome::Over(farewell) => Some(farewell),
                    ReceiveOutcome::LateHead(farewell) => {
                        refuse_late_head(connection);
                        Some(farewell)
                    }
                };
                if let Some(farewell) = over {
                    connection.flush(Bytes::new(), More::No).await?;
                    connection.sent().await?;
                    return Ok(farewell);
                }
                // As a rule the answer is sent already, and `sent` returns a buffer for the
                // next answer.
                connection.sent().await?;
            }
            AfterConsume::Send(body) => connection.flush(body, More::No).await?,
            AfterConsume::Slow(slow) => Box::pin(vermeil_deferred::answer(connection, *slow)).await?,
            AfterConsume::Close(farewell) => {
                connection.flush(Bytes::new(), More::No).await?;
                connection.sent().await?;
                return Ok(match farewell {
                    Farewell::Expected => connection.last_farewell(),
                    Farewell::Ours => farewell,
                });
            }
        }
    }
}

/// Answers, counts and logs a request whose head is late.
fn refuse_late_head(connection: &mut Connection) {
    let Connection { output, input, client, .. } = connection;
    core_context::with(|local| {
        local.server.count_request();
        let sent = page(local, Status::RequestTimeout, b"", unparsed_head(input.unread()), output);
        local.end_unparsed(client.logged, input.unread(), sent, AnswerEnd::Complete);
    });
}

/// Answers the received requests, until an answer has to wait.
fn consume(connection: &mut Connection) -> AfterConsume {
    core_context::with(|local| {
        // A copy of a few words, because a reference count of the shared server would write to
        // a cache line of all cores.
        let limits = local.server.limits.clone();
        let began_ns = local.records.counts.now_ns();
        connection.learn_client(local);
        loop {
            if connection.output.len() >= OUTPUT_FLUSH_BYTES {
                return AfterConsume::Send(Bytes::new());
            }
            if let Some(next) = consume_one(connection, local, &limits, began_ns) {
                return next;
            }
        }
    })
}

/// Takes the next event of the input, which was there at `began_ns`. Returns `None` if `consume`
/// should simply take another event.
#[inline]
fn consume_one(
    connection: &mut Connection,
    local: &mut CoreContext,
    limits: &ConnectionLimits,
    began_ns: u64,
) -> Option<AfterConsume> {
    connection.forget_client();
    let unread = connection.input.unread();
    let answered = connection.conversation.is_amid_body();
    match connection.conversation.next(unread, limits) {
        ConversationEvent::NeedMore => Some(AfterConsume::Receive),
        ConversationEvent::Body { consumed, .. } => {
            connection.input.consume(consumed);
            None
        }
        ConversationEvent::Request { request, consumed } => {
            connection.wait.end_quiet();
            local.server.count_request();
            local.records.counts.begin();
            let refused = connection.admission != Admission::Serve;
            if !refused && connection.conversation.requests() == 1 {
                local.door.begin_request();
            }
            let visitor = match local.hosts.hosts().ask_for_visitor() {
                true => ClientOrigin::of_request(
                    &mut connection.client.origin,
                    &connection.stream,
                    &request,
                    local,
                ),
                false => Visitor { scheme: connection.stream.scheme(), ..Visitor::UNKNOWN },
            };
            connection.client.log_request_of(visitor);
            let mut head = AnswerHead::of(&request, visitor, refused || local.server.is_draining());
            let bytes = &unread[..consumed];
            let answered = match connection.admission {
                Admission::Serve => answer::answer(local, &request, &mut head, &mut connection.output),
                _ => Answer::Ready(busy(local, head, &mut connection.output)),
            };
            let is_slow = matches!(answered, Answer::Slow(_));
            let next =
                next_after(local, connection.client.logged, (&request, bytes, began_ns), head, answered);
            let last = connection.conversation.requests() >= limits.requests_per_connection;
            // After an answer that waits `settle` decides, because a program reads the content.
            let goes_on = request.keep_alive || request.expect_continue || last;
            if !is_slow && head.persistence == Persistence::Close && goes_on {
                // The client would continue, or would send its content after 100 Continue.
                connection.conversation.close();
                connection.farewell = Farewell::Ours;
            }
            connection.input.consume(consumed);
            next
        }
        // The client would take a second answer for the answer to a request that it has not
        // sent yet.
        ConversationEvent::Reject(_) if answered => Some(AfterConsume::Close(Farewell::Ours)),
        ConversationEvent::Reject(rejection) => {
            // The rejected request counts, because it gets an answer and a line in the log.
            local.server.count_request();
            answer::say_limit(local, rejection, unread);
            let sent = refuse(local, rejection, unread, &mut connection.output);
            local.end_unparsed(connection.client.logged, unread, sent, AnswerEnd::Complete);
            Some(AfterConsume::Close(Farewell::Ours))
        }
        ConversationEvent::Closed if connection.input.unread().is_empty() => {
            Some(AfterConsume::Close(connection.farewell))
        }
        ConversationEvent::Closed => Some(AfterConsume::Close(Farewell::Ours)),
    }
}

/// The step after `answered`, the answer to `request`, whose head is `bytes` and was there at
/// `began_ns`.
#[inline]
fn next_after(
    local: &mut CoreContext,
    peer: Option<LoggedClient>,
    (request, bytes, began_ns): (&Request<'_>, &[u8], u64),
    head: AnswerHead,
    answered: Answer,
) -> Option<AfterConsume> {
    let start = local.records.counts.start(began_ns);
    let ended = |sent| EndedRequest {
        peer,
        received: bytes,
        request: Some(request),
        start,
        sent,
        end: AnswerEnd::Complete,
        program: None,
        password: head.password,
    };
    match answered {
        Answer::Ready(sent) => {
            local.end_request(ended(sent));
            None
        }
        Answer::Body(sent, body) => {
            local.end_request(ended(sent));
            Some(AfterConsume::Send(body))
        }
        Answer::Slow(what) => Some(AfterConsume::Slow(Box::new(Slow::new(local, what, bytes, head, start)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An idle connection is this future, a task, a color, a timer and a driver's stream: 2 KB all
    /// together. The future holds the record of a request that began, because a request must reach
    /// the log however it ends.
    #[test]
    fn a_waiting_connection_is_small() {
        fn size<F: Future>(
            _: impl Fn(ClientStream, ConnectionPermit, Admission, ConnectionStart) -> F,
        ) -> usize {
            size_of::<F>()
        }
        assert!(size(serve) <= 896, "{} bytes", size(serve));
    }
}
