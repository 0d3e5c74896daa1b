//! One exchange of a simple run: a batch of requests and their answers, counted.
//!
//! Over HTTP/1.1 answers come in the order of the requests, over HTTP/2 in any. Tested through the servers of `tests/`, and with
//! nginx in `tests/nginx`.

use std::time::Instant;

use bytes::Bytes;

use super::{Batches, Scheme};
use crate::fault::{Failure, Fault};
use crate::http2::Http2;
use crate::link::Link;
use crate::measure::part;
use crate::run::Field;
use crate::wire::{Answer, Discard, Reuse};

/// A connection and what is spoken on it.
pub(super) enum Spoken {
    Http1(Link),
    Http2(Box<Http2>),
}

impl Spoken {
    /// Whether the server ended an idle connection: it was used before, and nothing came for this request.
    pub(super) fn was_idle(&self) -> bool {
        match self {
            Self::Http1(link) => link.was_idle(),
            Self::Http2(link) => link.was_idle(),
        }
    }
}

/// The moments of a batch of requests.
#[derive(Clone, Copy)]
pub(super) struct Begin {
    /// When it was to begin.
    pub(super) intended: Instant,
    /// When it did.
    pub(super) actual: Instant,
}

/// What an exchange needs to know.
pub(super) struct Lane<'a> {
    pub(super) field: &'a Field,
    pub(super) scheme: &'a Scheme,
    pub(super) user: usize,
}

impl Lane<'_> {
    /// Sends the `left` requests for URL `url` and reads their answers; what fails leaves the number of unanswered ones in
    /// `left`.
    pub(super) async fn exchange(
        &self,
        place: &mut Option<(Spoken, usize)>,
        url: usize,
        begin: Begin,
        left: &mut u64,
    ) -> Result<(), Failure> {
        let (spoken, set) = match place {
            Some(open) => open,
            None => place.insert(self.connect().await?),
        };
        let _under = self.field.sets.begin(*set);
        let reuse = match (spoken, &self.scheme.batches) {
            (Spoken::Http1(link), Batches::Http1(batches)) => {
                let all = &batches[url];
                if *left == self.scheme.pipeline {
                    self.one_by_one(link, all, begin, left, *set).await?
                } else {
                    let one = all.len() / self.scheme.pipeline as usize;
                    self.one_by_one(link, &all.slice(..one * *left as usize), begin, left, *set).await?
                }
            }
            (Spoken::Http2(link), Batches::Http2(requests)) => {
                let count = *left;
                let each = |answer: Answer, wire_bytes| {
                    *left -= 1;
                    self.count(answer.status, answer.content_bytes, wire_bytes, begin, *set);
                };
                link.exchange(&requests[url], count, each).await?;
                Reuse::Keep
            }
            _ => unreachable!("connections speak what requests are made for"),
        };
        if (reuse == Reuse::Close || self.scheme.reuse == Reuse::Close)
            && let Some((Spoken::Http1(mut link), _)) = place.take()
        {
            link.closed_by_peer().await;
        }
        Ok(())
    }

    /// Sends `bytes`, reads `left` answers in their order; gives what becomes of the connection.
    async fn one_by_one(
        &self,
        link: &mut Link,
        bytes: &Bytes,
        begin: Begin,
        left: &mut u64,
        set: usize,
    ) -> Result<Reuse, Failure> {
        link.send(bytes).await?;
        let mut reuse = Reuse::Keep;
        while *left > 0 {
            let (answer, wire_bytes) = link.answer(self.scheme.is_head, &mut Discard).await?;
            if *left == 1 {
                link.settle()?;
            }
            *left -= 1;
            self.count(answer.status, answer.content_bytes, wire_bytes, begin, set);
            reuse = answer.reuse;
            if reuse == Reuse::Close && *left > 0 {
                return Err(Fault::Reset.into());
            }
        }
        Ok(reuse)
    }

    async fn connect(&self) -> Result<(Spoken, usize), Failure> {
        let began = Instant::now();
        let (set, addr) = self.field.choose(self.user);
        let spoken = match &self.scheme.batches {
            Batches::Http1(_) => Spoken::Http1(Link::open(addr, &self.field.dial).await?),
            Batches::Http2(_) => Spoken::Http2(Box::new(Http2::open(addr, &self.field.dial).await?)),
        };
        let mut tally = self.field.ledger.here();
        tally.connections += 1;
        tally.connect.record(began.elapsed());
        Ok((spoken, set))
    }

    fn count(&self, status: u16, content_bytes: u64, wire_bytes: u64, begin: Begin, set: usize) {
        let now = Instant::now();
        let response = now - begin.intended;
        let is_good = (200..400).contains(&status);
        let within = self.scheme.quality.of_time(response).map(|holds| u64::from(holds && is_good));
        let mut tally = self.field.ledger.here();
        tally.status(status);
        tally.bytes += wire_bytes;
        tally.content_bytes += content_bytes;
        if is_good {
            tally.good += 1;
            tally.within = [tally.within[0] + within[0], tally.within[1] + within[1]];
        } else {
            tally.fault(Fault::Status);
        }
        tally.response.record(response);
        if self.scheme.is_open {
            tally.service.record(now - begin.actual);
        }
        if self.field.sets.len() > 1 {
            let part = part(&mut tally.sets, set);
            *(if is_good { &mut part.good } else { &mut part.failed }) += 1;
            part.within = [part.within[0] + within[0], part.within[1] + within[1]];
            part.bytes += content_bytes;
            part.response.record(response);
        }
    }
}
