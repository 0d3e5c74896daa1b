//! Programs that write their whole answer themselves (RFC 3875 §5). The answer goes to the client
//! unchanged.
//!
//! Only the program knows where such an answer ends, so the connection closes after the answer.
//! This feature is off by default, because such a program can write anything in the server's name.
//! Tested through the binary (`crates/e2e/tests/e2e/cgi.rs`).

use crate::parts::{Broken, ErrorLines, Failure, GatewayClient, ProgramReader, Relayed, ResponseBuffer};
use bytes::Bytes;
use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};
use vermeil::{More, Sleep};
use vermeil_exchange::{Lost, Sent};
use vermeil_http::{gateway::BadHead, response::Persistence};

/// The prefix of such programs' names.
const PREFIX: &[u8] = b"nph-";

/// Bytes of the answer that are searched for its status: `HTTP/1.1 200`.
const STATUS_LINE_BYTES: usize = 12;

/// Whether the path `script` names such a program.
pub(super) fn is_one(script: &[u8]) -> bool {
    script.rsplit(|&byte| byte == b'/').next().is_some_and(|name| name.starts_with(PREFIX))
}

/// Sends all output of the program to the client.
pub(super) async fn relay(
    connection: &mut impl GatewayClient,
    reader: &mut impl ProgramReader,
    errors: &mut ErrorLines,
    patience: Duration,
) -> Result<Relayed, Broken> {
    let (mut start, mut body_bytes) = (Vec::with_capacity(STATUS_LINE_BYTES), 0);
    let sent = |start: &[u8], body_bytes| Sent { status: status(start), body_bytes };
    loop {
        let mut piece = ResponseBuffer::default();
        let was_silent = body_bytes == 0;
        let broken = |failure, body_bytes| Broken {
            failure,
            was_silent,
            sent: (!was_silent).then(|| sent(&start, body_bytes)),
        };
        match read(connection, reader, errors, &mut piece, patience).await {
            Ok(()) if piece.len() > 0 => {}
            Ok(()) if was_silent => return Err(broken(BadHead::Truncated.into(), 0)),
            Ok(()) => break,
            Err(failure) => return Err(broken(failure, body_bytes)),
        }
        body_bytes += piece.len() as u64;
        let missing = STATUS_LINE_BYTES.saturating_sub(start.len()).min(piece.len());
        start.extend_from_slice(&piece.as_slice()[..missing]);
        connection.output().extend_from_slice(piece.as_slice());
        connection.note(sent(&start, body_bytes));
        if let Err(lost) = connection.flush(Bytes::new(), More::No).await {
            return Err(Broken {
                failure: lost.into(),
                was_silent: false,
                sent: Some(sent(&start, body_bytes)),
            });
        }
    }
    let sent = sent(&start, body_bytes);
    Ok(Relayed::Sent { sent, rest: Bytes::new(), persistence: Persistence::Close })
}

/// Waits for output until the timeout expires or the client goes. Appends nothing at the end of the
/// output.
async fn read(
    connection: &mut impl GatewayClient,
    reader: &mut impl ProgramReader,
    errors: &mut ErrorLines,
    piece: &mut ResponseBuffer,
    patience: Duration,
) -> Result<(), Failure> {
    let mut reading = pin!(reader.read(piece, errors));
    let watched = poll_fn(|context| {
        if let Poll::Ready(read) = reading.as_mut().poll(context) {
            return Poll::Ready(read.map(drop).map_err(Failure::from));
        }
        connection.poll_gone(context).map(|()| Err(Failure::Client(Lost::Peer)))
    });
    let mut limit = Sleep::unset();
    limit.set(patience);
    limit.limit(watched).await.unwrap_or(Err(Failure::Silent(patience)))
}

/// The status of an answer, for the log. 200 if the answer has no status line.
fn status(start: &[u8]) -> u16 {
    let code = start.get(9..12).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    code.filter(|code| start.starts_with(b"HTTP/1.") && (100..600).contains(code)).unwrap_or(200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_statuses() {
        assert!(is_one(b"/cgi-bin/nph-x") && !is_one(b"/nph-bin/x") && !is_one(b"/x-nph-"));
        assert_eq!(
            [&b"HTTP/1.1 404"[..], b"HTTP/1.0 304", b"hello", b"HTTP/1.1 xyz"].map(status),
            [404, 304, 200, 200]
        );
    }
}
