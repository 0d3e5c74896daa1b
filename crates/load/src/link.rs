//! One HTTP/1.1 connection to a server: sends requests and reads the answers.
//!
//! Received bytes go through one buffer per core and are parsed at once. A connection keeps only
//! incomplete bytes, so thousands of thinking users hold no memory for received bytes. Leaves out
//! TLS (`stream`), time limits, and the reaction to faults (`user`). Tested through the servers of
//! `tests/`.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustls::HandshakeKind;
use vermeil::Sleep;

use crate::fault::{ExchangeFailure, Fault};
use crate::stream::{Dial, LoadStream, RECV_BUFFER_BYTES};
use crate::wire::{AnswerReader, AnswerSink, InputProgress, LastHead, MalformedAnswer, Repeats, WholeAnswer};

/// Maximum number of receives in a row before the core runs other users. One driver buffer of
/// 16 KiB each is 1 MiB. Measured: 0.2 to 0.4 ms of cpu time, with a file of 64 MiB over loopback.
const READS_MAX: u32 = 64;

thread_local! {
    static DESK: RefCell<Desk> = RefCell::new(Desk {
        // With room for a whole receive, so that the driver receives into this buffer without a
        // copy.
        arrived: Vec::with_capacity(RECV_BUFFER_BYTES as usize),
        seen: LastHead::default(),
    });
}

/// The read buffers of a core, shared by the core's connections.
struct Desk {
    /// The bytes of the last receive.
    arrived: Vec<u8>,
    seen: LastHead,
}

/// Time beyond a round trip within which a reset may arrive. A server that closes with an unread
/// request resets the connection, and the server's thread may have to wait for a cpu first.
/// The wait is longer than a time slice of another thread (2.8 ms on eight cpus or more, Linux
/// 6.18) and than a tick (4 ms at 250 Hz).
const RESET_LATE: Duration = Duration::from_millis(5);

/// The moment of a connection's end, in relation to the unanswered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnding {
    /// Before the request was sent: the server closed an idle connection.
    BeforeRequest,
    /// While the request was on its way: the end and the request crossed each other.
    Crossing,
    /// Later, or on a connection without an earlier answer: the server had the request.
    InRequest,
}

/// The speed at which the client reads an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerPace {
    /// Bytes per second. `None`: as fast as the bytes arrive.
    pub(crate) rate: Option<u64>,
    /// Longest wait for the next bytes.
    pub(crate) timeout: Duration,
}

impl AnswerPace {
    /// The time from the first bytes at which `received` bytes are due. The bytes of a twentieth of
    /// a second are free, so that a late end of a sleep does not lower the rate.
    fn ahead(self, received: u64, rate: u64) -> Duration {
        let counted = received.saturating_sub(rate / 20);
        Duration::from_secs_f64(counted as f64 / rate.max(1) as f64)
    }
}

/// A connection.
pub(crate) struct LoadLink {
    stream: LoadStream,
    reader: AnswerReader,
    /// Received bytes that are not parsed: an incomplete head, or answers without a request.
    pending: Vec<u8>,
    /// Number of answers.
    answers: u32,
    /// Received bytes of the present answer.
    received: u64,
    /// The part of `received` and `pending` that is already counted.
    counted: u64,
    /// Whether any byte has come since the last request was sent.
    heard: bool,
    /// When the last request was sent; `None` if the connection ended before.
    sent_at: Option<Instant>,
    /// Duration of the TCP handshake: a round trip, or a little more.
    round_trip: Duration,
    /// Whether the connection ended in order (FIN), not by a reset.
    ended_in_order: bool,
}

impl LoadLink {
    /// Connects.
    pub(crate) async fn open(addr: std::net::SocketAddr, dial: &Dial) -> Result<Self, ExchangeFailure> {
        let (stream, round_trip) = LoadStream::open(addr, dial).await?;
        Ok(Self {
            stream,
            reader: AnswerReader::default(),
            pending: Vec::new(),
            answers: 0,
            received: 0,
            counted: 0,
            heard: false,
            sent_at: None,
            round_trip,
            ended_in_order: false,
        })
    }

    /// How the TLS handshake ended; `None` over plain TCP.
    pub(crate) fn handshake_kind(&self) -> Option<HandshakeKind> {
        self.stream.handshake_kind()
    }

    /// The moment at which the connection of a failed request ended. An orderly end (FIN) followed
    /// by a reset shows that the server's socket was closed before the request arrived. Without a
    /// reset, the server's system had accepted the request. A reset alone shows less: within about
    /// a round trip, the reset counts as one that crossed the request.
    pub(crate) async fn ending(&mut self, failure: &ExchangeFailure) -> ConnectionEnding {
        if failure.fault != Fault::Reset || self.heard || self.answers == 0 {
            return ConnectionEnding::InRequest;
        }
        let Some(sent_at) = self.sent_at else { return ConnectionEnding::BeforeRequest };
        let elapsed = sent_at.elapsed();
        let is_crossing = if self.ended_in_order {
            // If there is a reset, the reset arrives a round trip after the request was sent.
            if let Some(left) = (2 * self.round_trip).checked_sub(elapsed) {
                vermeil::sleep(left).await;
            }
            self.stream.is_broken().await
        } else {
            elapsed < self.round_trip + RESET_LATE
        };
        if is_crossing { ConnectionEnding::Crossing } else { ConnectionEnding::InRequest }
    }

    /// Status of the incomplete answer, and its received bytes that are not counted yet.
    pub(crate) fn unfinished(&mut self) -> (Option<u16>, u64) {
        (self.reader.status_under_way(), self.uncounted())
    }

    /// The received bytes that are not counted yet. From now on these bytes are counted.
    fn uncounted(&mut self) -> u64 {
        let received = self.received + self.pending.len() as u64;
        received - std::mem::replace(&mut self.counted, received)
    }

    /// The bytes of a complete answer that are not counted yet.
    fn complete(&mut self) -> u64 {
        self.answers += 1;
        let received = std::mem::take(&mut self.received);
        let uncounted = received.saturating_sub(self.counted);
        // Pending bytes of the next answer may be counted already.
        self.counted = self.counted.saturating_sub(received);
        uncounted
    }

    /// Sends `request`. The caller may wait for an answer at once. If the server has closed the
    /// connection meanwhile, nothing is sent.
    pub(crate) async fn send(&mut self, request: &Bytes, repeats: Repeats) -> Result<(), ExchangeFailure> {
        (self.heard, self.sent_at, self.ended_in_order) = (false, None, false);
        if self.answers > 0 {
            if repeats == Repeats::Never {
                // The driver reports the end of a connection once per turn. A request that must not
                // be repeated waits for this turn.
                vermeil::yield_turn().await;
            }
            self.stream.move_here().await?;
            self.look()?;
        }
        self.stream.send(request).await?;
        self.sent_at = Some(Instant::now());
        Ok(())
    }

    /// Checks for an end of the connection, without waiting.
    fn look(&mut self) -> Result<(), ExchangeFailure> {
        let mut early = Vec::new();
        match self.stream.try_recv(&mut early) {
            Ok(None) => Ok(()),
            // Some servers answer 408 on an idle connection (RFC 9110 section 15.5.9), and close
            // the connection.
            Ok(Some(count)) if count == 0 || early.starts_with(b"HTTP/1.1 408") => Err(Fault::Reset.into()),
            Ok(Some(_)) => {
                self.heard = true;
                Err(ExchangeFailure::malformed(MalformedAnswer::Unasked, &early))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads an answer. Calls `on_part` with the bytes of each part of an incomplete answer.
    /// Returns the answer and its other bytes on the wire.
    pub(crate) async fn answer(
        &mut self,
        is_head: bool,
        sink: &mut impl AnswerSink,
        mut on_part: impl FnMut(u64),
    ) -> Result<(WholeAnswer, u64), ExchangeFailure> {
        let mut fresh = false;
        let answer = poll_fn(|context| {
            let polled = self.poll_answer(context, is_head, sink, &mut fresh);
            if polled.is_pending() {
                let bytes = self.uncounted();
                if bytes > 0 {
                    on_part(bytes);
                }
            }
            polled
        })
        .await?;
        Ok((answer, self.complete()))
    }

    fn poll_answer(
        &mut self,
        context: &mut Context<'_>,
        is_head: bool,
        sink: &mut impl AnswerSink,
        fresh: &mut bool,
    ) -> Poll<Result<WholeAnswer, ExchangeFailure>> {
        for _ in 0..READS_MAX {
            if let Some(answer) = ready!(self.poll_part(context, is_head, sink, *fresh))? {
                return Poll::Ready(Ok(answer));
            }
            *fresh = true;
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads an answer at the speed of `pace` or slower. Calls `on_part` with the bytes of a part
    /// and the pause before the next read. Returns the answer, its other bytes on the wire, and the
    /// time from the first bytes to the last.
    pub(crate) async fn answer_paced(
        &mut self,
        is_head: bool,
        sink: &mut impl AnswerSink,
        pace: AnswerPace,
        limit: &mut Sleep,
        mut on_part: impl FnMut(u64, Duration),
    ) -> Result<(WholeAnswer, u64, Duration), ExchangeFailure> {
        let mut first = None;
        let mut fresh = false;
        loop {
            limit.set(pace.timeout);
            let part = poll_fn(|context| self.poll_part(context, is_head, sink, fresh));
            let part = limit.limit(part).await.unwrap_or(Err(Fault::Timeout.into()))?;
            fresh = true;
            let began = *first.get_or_insert_with(Instant::now);
            let due = pace.rate.map(|rate| began + pace.ahead(self.received, rate));
            let ahead = due.and_then(|due| due.checked_duration_since(Instant::now())).unwrap_or_default();
            if part.is_none() || !ahead.is_zero() {
                on_part(self.uncounted(), ahead);
            }
            match (ahead, &part) {
                (Duration::ZERO, Some(_)) => {}
                (Duration::ZERO, None) => vermeil::yield_now().await,
                _ => vermeil::sleep(ahead).await,
            }
            if let Some(answer) = part {
                return Ok((answer, self.complete(), began.elapsed()));
            }
        }
    }

    /// Parses the pending bytes, or the next received bytes. With `fresh`, receives before it
    /// parses pending bytes.
    fn poll_part(
        &mut self,
        context: &mut Context<'_>,
        is_head: bool,
        sink: &mut impl AnswerSink,
        fresh: bool,
    ) -> Poll<Result<Option<WholeAnswer>, ExchangeFailure>> {
        DESK.with_borrow_mut(|Desk { arrived, seen }| {
            if self.pending.is_empty() {
                arrived.clear();
                match ready!(self.stream.poll_recv(context, arrived)) {
                    Ok(0) => return Poll::Ready(self.closed()),
                    Ok(_) => {}
                    Err(error) => return Poll::Ready(Err(self.lost(error.into()))),
                }
                self.heard = true;
                let read = read(&mut self.reader, arrived, is_head, sink, seen);
                let read = read.inspect_err(|_| self.received += arrived.len() as u64)?;
                self.received += read.consumed as u64;
                if read.consumed < arrived.len() {
                    self.pending.extend_from_slice(&arrived[read.consumed..]);
                }
                return Poll::Ready(Ok(read.answer));
            }
            if fresh {
                match ready!(self.stream.poll_recv(context, &mut self.pending)) {
                    Ok(0) => return Poll::Ready(Err(Fault::Cut.into())),
                    Ok(_) => {}
                    Err(error) => return Poll::Ready(Err(self.lost(error.into()))),
                }
            }
            let read = read(&mut self.reader, &self.pending, is_head, sink, seen)?;
            self.received += read.consumed as u64;
            if read.consumed == self.pending.len() {
                self.pending = Vec::new();
            } else {
                self.pending.drain(..read.consumed);
            }
            Poll::Ready(Ok(read.answer))
        })
    }

    fn closed(&mut self) -> Result<Option<WholeAnswer>, ExchangeFailure> {
        self.ended_in_order = true;
        match self.reader.close() {
            Ok(Some(answer)) => Ok(Some(answer)),
            Ok(None) => Err(self.lost(Fault::Reset.into())),
            Err(malformed) => Err(ExchangeFailure::malformed(malformed, &[])),
        }
    }

    /// A connection that ends within an answer has cut the answer.
    fn lost(&self, failure: ExchangeFailure) -> ExchangeFailure {
        let is_inside = self.received > 0 || !self.pending.is_empty();
        if failure.fault == Fault::Reset && is_inside { Fault::Cut.into() } else { failure }
    }

    /// Checks that no bytes without a request have come.
    pub(crate) fn settle(&self) -> Result<(), ExchangeFailure> {
        if self.pending.is_empty() {
            Ok(())
        } else {
            Err(ExchangeFailure::malformed(MalformedAnswer::Unasked, &self.pending))
        }
    }

    /// Whether the server has closed the connection, as far as known without waiting.
    pub(crate) fn is_closed_by_peer(&mut self) -> bool {
        match self.stream.try_recv(&mut Vec::new()) {
            Ok(count) => count == Some(0),
            // The stream is on its way from another core.
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

/// Parses `bytes`. A violation becomes a failure with a description.
fn read<S: AnswerSink>(
    reader: &mut AnswerReader,
    bytes: &[u8],
    is_head: bool,
    sink: &mut S,
    seen: &mut LastHead,
) -> Result<InputProgress, ExchangeFailure> {
    let read = reader.read(bytes, is_head, sink, seen);
    read.map_err(|malformed| ExchangeFailure::malformed(malformed, &bytes[reader.stopped_at()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_due_at_their_rate_and_the_first_are_free() {
        let pace = AnswerPace { rate: Some(100_000), timeout: Duration::MAX };
        assert_eq!(pace.ahead(5_000, 100_000), Duration::ZERO);
        assert_eq!(pace.ahead(105_000, 100_000), Duration::from_secs(1));
        // A rate 1 % above or below still separates a good server from a bad server over a small
        // download.
        assert!(pace.ahead(104_858, 100_000) < Duration::from_secs(1));
    }
}
