//! Refuses a connection that has waited for too long, with as little work as possible.
//!
//! Nearly always its whole request is there. The core reads the request, answers 503 and closes in
//! a few system calls, without a task and without the driver. Closing loses no answer, because
//! nothing is unread and nothing will come. Any other connection is served like all connections,
//! which waits for the rest (`request_loop.rs`, `close.rs`). Tested below, and by `cargo xtask
//! bench overload`.

use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::os::fd::{AsFd as _, OwnedFd};
use vermeil_address::Client;
use vermeil_answer::pages::{RETRY_AFTER, busy, finish};
use vermeil_exchange::{AnswerHead, PasswordUse, Sent};
use vermeil_files::SERVER;
use vermeil_http::{
    ConnectionLimits, Conversation, ConversationEvent, Method, Request, Status,
    response::{HeadWriter, PageContent},
};
use vermeil_log::LoggedClient;
use vermeil_state::{
    core_context::{self, CoreContext, EndedRequest},
    counts::AnswerEnd,
};

/// The longest request that is refused in this way, because the core reads the request into a page
/// of its stack. A longer request is answered by the slower way.
const REQUEST_BYTES_MAX: usize = 4096;

/// Bytes that are read and dropped before the close: the first receive window of a TCP connection.
/// A client that sends more may lose the answer to a reset.
const DROPPED_BYTES_MAX: usize = 64 * 1024;

/// Answers 503 and closes. Returns the connection if that is not possible at once.
pub(super) fn refuse(socket: OwnedFd) -> Option<OwnedFd> {
    let mut buffer = [0; REQUEST_BYTES_MAX];
    let peeked = recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT | RecvFlags::PEEK);
    let Ok((count @ 1.., _)) = peeked else { return Some(socket) };
    let limits = core_context::with(|local| local.server.limits.clone());
    let received = &buffer[..count];
    let Some(request) = only_request(received, &limits) else { return Some(socket) };
    let answer = answer(&socket, received, &request);
    // Peeking has left the request in the socket. An error at this point is the client's problem.
    let _ = recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT);
    let _ = send(&socket, &answer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    None
}

/// Answers 503, also before a request has come, and closes. A request that has begun is counted and
/// logged.
pub(super) fn refuse_silent(socket: OwnedFd) {
    let mut buffer = [0; REQUEST_BYTES_MAX];
    let mut count = receive(&socket, &mut buffer);
    let answer = core_context::with(|local| {
        let received = &buffer[..count];
        if !core_context::request_line(received).is_empty() {
            local.server.count_request();
            let sent = Sent { status: Status::ServiceUnavailable.code(), body_bytes: 0 };
            let peer = logged(local, &socket);
            local.end_unparsed(peer, received, sent, AnswerEnd::Complete);
        }
        let mut answer = Vec::new();
        // Without content, because the request may be HEAD.
        let _ = HeadWriter::new(&mut answer, Status::ServiceUnavailable)
            .lines(SERVER)
            .lines(RETRY_AFTER)
            .content_length(0);
        finish(local, AnswerHead::UNKNOWN, &mut answer);
        answer
    });
    // Closing with unread bytes would reset the connection.
    let mut dropped = count;
    while count == buffer.len() && dropped < DROPPED_BYTES_MAX {
        count = receive(&socket, &mut buffer);
        dropped += count;
    }
    let _ = send(&socket, &answer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    let _ = shutdown(&socket, Shutdown::Write);
}

/// Reads the bytes that are there. Returns their number; 0 also after an error, which is the
/// client's problem.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> usize {
    recv(socket, buffer, RecvFlags::DONTWAIT).map_or(0, |(count, _)| count)
}

/// The client of `socket` in the log, if there is a log.
fn logged(local: &CoreContext, socket: &OwnedFd) -> Option<LoggedClient> {
    let peer = local.records.log.is_on().then(|| vermeil_io::peer_addr(socket.as_fd()).ok()).flatten();
    peer.map(|addr| LoggedClient { client: Client::of(addr), default_port: 80 })
}

/// The request in `received`, if no other bytes follow the request.
fn only_request<'a>(received: &'a [u8], limits: &ConnectionLimits) -> Option<Request<'a>> {
    let mut conversation = Conversation::new();
    match conversation.next(received, limits) {
        ConversationEvent::Request { request, consumed }
            if consumed == received.len() && !conversation.is_amid_request() =>
        {
            Some(request)
        }
        _ => None,
    }
}

fn answer(socket: &OwnedFd, received: &[u8], request: &Request<'_>) -> Vec<u8> {
    core_context::with(|local| {
        let content = if request.method == Method::Head { PageContent::Omitted } else { PageContent::Sent };
        let head = AnswerHead { version: request.version, content, ..AnswerHead::UNKNOWN };
        let mut answer = Vec::new();
        local.server.count_request();
        let sent = busy(local, head, &mut answer);
        let peer = logged(local, socket);
        local.end_request(EndedRequest {
            peer,
            received,
            request: Some(request),
            start: local.records.counts.start_now(),
            sent,
            end: AnswerEnd::Complete,
            program: None,
            password: PasswordUse::NotAsked,
        });
        answer
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_requests_that_nothing_follows() {
        let limits = ConnectionLimits::default();
        let is_one = |received: &[u8]| only_request(received, &limits).is_some();
        assert!(is_one(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(is_one(b"HEAD / HTTP/1.0\r\n\r\n"));
        assert!(!is_one(b"GET / HTTP/1.1\r\nHost: a\r\n"), "the rest may be on its way");
        assert!(!is_one(b"GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n"), "two");
        assert!(!is_one(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"), "content is to come");
        assert!(!is_one(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"));
        assert!(!is_one(b"gibberish\r\n\r\n"));
    }
}
