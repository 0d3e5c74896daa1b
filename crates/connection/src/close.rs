//! Ending a connection so that the client can still read its last answer.
//!
//! If a socket is closed with unread bytes in it, the kernel resets the connection, and a reset may
//! overtake the answer (RFC 9112 §9.6). So the server closes the sending side first. Then the
//! server reads and drops the client's bytes until the client closes, for a bounded time and number
//! of bytes. The time begins anew as long as the client takes the answer. Tested through the binary
//! (`crates/e2e/tests/e2e/closing.rs`).

use crate::{client_stream::ClientStream, connection::Connection};
use std::{future::poll_fn, io, mem, task::Poll, time::Duration};
use vermeil::{BackOff, BackOffBounds, Sleep, now_ms};
use vermeil_state::connections::IdleState;

/// How long the client may continue to send. nginx's `lingering_timeout` is 5 s. An answer crosses
/// the earth in less than 1 s.
const LINGER: Duration = Duration::from_secs(2);

/// Bytes that the client may send meanwhile: the bytes in flight at 1 Gbit/s and a round trip of 32
/// ms.
const LINGER_BYTES_MAX: usize = 4 << 20;

/// Pauses between two looks whether the client has acknowledged the sent bytes. The first pause is
/// a round trip in the same town, and the longest bounds the cost of a slow client.
const LOOK_PAUSES: BackOffBounds =
    BackOffBounds::doubling(Duration::from_millis(2), Duration::from_millis(100));

/// Waits until the client has closed, or a bound is reached. A client that still takes the answer
/// has more time.
pub async fn linger(connection: Connection) {
    let (mut stream, permit) = connection.into_parts();
    if stream.shutdown_write().is_err() {
        return;
    }
    permit.set_idle(IdleState::Closing);
    let mut limit = Sleep::unset();
    limit.set(LINGER);
    let (mut buffer, mut dropped, mut left) = (Vec::new(), 0, u64::MAX);
    while dropped < LINGER_BYTES_MAX {
        let receiving = poll_fn(|context| match stream.poll_recv_unread(context, &mut buffer) {
            Poll::Pending if permit.gives_way(context) => Poll::Ready(io::Result::Ok(0)),
            polled => polled,
        });
        match limit.limit(receiving).await {
            Ok(Ok(count @ 1..)) => dropped += count,
            Err(_) if takes_more(&stream, &mut left) => limit.set(LINGER),
            _ => return,
        }
        buffer.clear();
    }
}

/// Resets the connection once the client has acknowledged the sent bytes, because a reset discards
/// bytes that wait. The reset tells the client that its answer is incomplete.
pub async fn reset(connection: Connection) {
    let (stream, permit) = connection.into_parts();
    permit.set_idle(IdleState::Closing);
    let (mut limit, mut pauses) = (Sleep::unset(), BackOff::new(&LOOK_PAUSES));
    let (mut left, mut since_ms) = (u64::MAX, now_ms());
    while now_ms() - since_ms < LINGER.as_millis() as u64 {
        match stream.with_fd(vermeil_io::socket_queues) {
            Ok(Ok(queues)) if queues.unacknowledged > 0 => {
                if queues.unacknowledged < mem::replace(&mut left, queues.unacknowledged) {
                    since_ms = now_ms();
                }
            }
            _ => break,
        }
        limit.set(pauses.advance());
        let giving_way = poll_fn(|context| match permit.gives_way(context) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        if limit.limit(giving_way).await.is_ok() {
            break;
        }
    }
    // A socket whose driver is gone is closed already.
    let _ = stream.with_fd(vermeil_io::reset_when_closed);
}

/// Whether the client has taken bytes since the last look, which found `left` bytes, and there are
/// more to take.
fn takes_more(stream: &ClientStream, left: &mut u64) -> bool {
    let Ok(Ok(queues)) = stream.with_fd(vermeil_io::socket_queues) else { return false };
    let before = mem::replace(left, queues.unacknowledged);
    (1..before).contains(&queues.unacknowledged)
}
