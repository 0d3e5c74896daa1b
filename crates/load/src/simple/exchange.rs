//! One exchange of a simple run: a batch of requests and the answers, with counts.
//!
//! Over HTTP/1.1 the answers come in the order of the requests, over HTTP/2 in any order. Tested
//! through the servers of `tests/`, and with nginx in `tests/nginx`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rustls::HandshakeKind;

use super::{BatchProperties, Batches, SimpleScheme};
use crate::fault::{ExchangeFailure, Fault, StopReason};
use crate::http2::Http2;
use crate::link::{ConnectionEnding, LoadLink};
use crate::measure::part;
use crate::run::RunContext;
use crate::wire::{Discard, Reuse, WholeAnswer};

/// A connection of either protocol.
pub(super) enum Spoken {
    Http1(LoadLink),
    Http2(Box<Http2>),
}

impl Spoken {
    /// How the TLS handshake ended; `None` over plain TCP.
    fn handshake_kind(&self) -> Option<HandshakeKind> {
        match self {
            Self::Http1(link) => link.handshake_kind(),
            Self::Http2(link) => link.handshake_kind(),
        }
    }

    /// Status of the incomplete answer, and its received bytes that are not counted yet.
    pub(super) fn unfinished(&mut self) -> (Option<u16>, u64) {
        match self {
            Self::Http1(link) => link.unfinished(),
            Self::Http2(link) => link.unfinished(),
        }
    }
}

/// The connection of a user, or the place for the connection.
#[derive(Default)]
pub(super) struct SimpleLane {
    pub(super) open: Option<Spoken>,
    /// The set of the last connection, kept when the connection ends or cannot be opened.
    pub(super) set: usize,
}

/// The times of a batch of requests.
#[derive(Clone, Copy)]
pub(super) struct Begin {
    /// The intended start.
    pub(super) intended: Instant,
    /// The actual start.
    pub(super) actual: Instant,
}

/// The context of an exchange.
pub(super) struct LaneExchange<'a> {
    pub(super) context: &'a RunContext,
    pub(super) scheme: &'a SimpleScheme,
    pub(super) user: usize,
}

impl LaneExchange<'_> {
    /// Sends the `left` requests of batch `batch` and reads the answers. `left` becomes the number
    /// of requests without an answer.
    pub(super) async fn exchange(
        &self,
        lane: &mut SimpleLane,
        batch: usize,
        begin: Begin,
        left: &mut u64,
    ) -> Result<(), StopReason> {
        let spoken = match &mut lane.open {
            Some(open) => open,
            place => place.insert(self.connect(&mut lane.set).await?),
        };
        let set = lane.set;
        let _under = self.context.sets.begin(set);
        let asked = self.scheme.asked[batch];
        let reuse = match (spoken, &self.scheme.batches) {
            (Spoken::Http1(link), Batches::Http1(batches)) => {
                let all = &batches[batch];
                let one = all.len() / self.scheme.pipeline as usize;
                let bytes = match *left == self.scheme.pipeline {
                    true => all.clone(),
                    false => all.slice(..one * *left as usize),
                };
                match self.one_by_one(link, &bytes, asked, begin, left, set).await {
                    Ok(reuse) => reuse,
                    Err(failure) => {
                        return Err(match link.ending(&failure).await {
                            ConnectionEnding::BeforeRequest => StopReason::Idle,
                            ConnectionEnding::Crossing => StopReason::Crossing,
                            ConnectionEnding::InRequest => StopReason::Failed(failure),
                        });
                    }
                }
            }
            (Spoken::Http2(link), Batches::Http2(requests)) => {
                let count = *left;
                let each = |answer: WholeAnswer, wire_bytes| {
                    *left -= 1;
                    self.count(asked, answer.status, answer.content_bytes, wire_bytes, begin, set);
                };
                let on_part = |bytes| self.context.arrived(self.user, bytes, Duration::ZERO);
                link.exchange(&requests[batch], count, each, on_part).await?;
                Reuse::Keep
            }
            _ => unreachable!("connections speak what requests are made for"),
        };
        if (reuse == Reuse::Close || self.scheme.reuse == Reuse::Close)
            && let Some(Spoken::Http1(link)) = lane.open.take()
        {
            self.context.parting.leave(link);
        }
        if *left > 0 { Err(StopReason::Announced) } else { Ok(()) }
    }

    /// Sends `bytes` and reads `left` answers in order, or up to an answer that closes the
    /// connection. Returns whether the connection can carry more requests.
    async fn one_by_one(
        &self,
        link: &mut LoadLink,
        bytes: &Bytes,
        asked: BatchProperties,
        begin: Begin,
        left: &mut u64,
        set: usize,
    ) -> Result<Reuse, ExchangeFailure> {
        link.send(bytes, asked.repeats).await?;
        let mut reuse = Reuse::Keep;
        while *left > 0 && reuse == Reuse::Keep {
            let on_part = |bytes| self.context.arrived(self.user, bytes, Duration::ZERO);
            let (answer, wire_bytes) = link.answer(asked.is_head, &mut Discard, on_part).await?;
            if *left == 1 || answer.reuse == Reuse::Close {
                link.settle().inspect_err(|_| self.context.answered_whole(answer.status, wire_bytes))?;
            }
            *left -= 1;
            self.count(asked, answer.status, answer.content_bytes, wire_bytes, begin, set);
            reuse = answer.reuse;
        }
        Ok(reuse)
    }

    /// Connects. `set` becomes the chosen set, also if no connection is made.
    async fn connect(&self, set: &mut usize) -> Result<Spoken, ExchangeFailure> {
        let began = Instant::now();
        let (chosen, addr) = self.context.choose(self.user);
        *set = chosen;
        let spoken = match &self.scheme.batches {
            Batches::Http1(_) => Spoken::Http1(LoadLink::open(addr, &self.context.dial).await?),
            Batches::Http2(_) => Spoken::Http2(Box::new(Http2::open(addr, &self.context.dial).await?)),
        };
        let mut tally = self.context.ledger.here();
        tally.connected(began.elapsed(), spoken.handshake_kind());
        Ok(spoken)
    }

    fn count(
        &self,
        asked: BatchProperties,
        status: u16,
        content_bytes: u64,
        wire_bytes: u64,
        begin: Begin,
        set: usize,
    ) {
        let now = Instant::now();
        self.context.waits.answered(self.user, now.saturating_duration_since(self.context.epoch));
        let response = now - begin.intended;
        let is_good = (200..400).contains(&status) || asked.logged == Some(status);
        let within = self.scheme.quality.of_time(response).map(|holds| u64::from(holds && is_good));
        let mut tally = self.context.ledger.here();
        tally.status(status);
        tally.bytes += wire_bytes;
        tally.content_bytes += content_bytes;
        if is_good {
            tally.good += 1;
            tally.within = [tally.within[0] + within[0], tally.within[1] + within[1]];
            tally.response.record(response);
            if self.scheme.is_open {
                tally.service.record(now - begin.actual);
            }
        } else {
            tally.fault(Fault::Status);
            tally.failed_response.record(response);
        }
        if self.context.sets.len() > 1 {
            let part = part(&mut tally.sets, set);
            *(if is_good { &mut part.good } else { &mut part.failed }) += 1;
            part.within = [part.within[0] + within[0], part.within[1] + within[1]];
            part.bytes += content_bytes;
            if is_good {
                part.response.record(response);
            }
        }
    }
}
