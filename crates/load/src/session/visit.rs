//! Fetches a page: the page itself, then all embedded objects, over the user's connections in
//! parallel.
//!
//! Connections are opened on demand and kept as in the model. Bytes are received at the model's
//! rate or slower: a connection that is ahead of its rate leaves bytes in the kernel's small
//! buffer, so that the server must wait. Tested through `tests/`.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use vermeil::Sleep;

use super::check::{Expect, Looker};
use super::model::{Check, PageSource};
use super::run::{PageObject, PageScript, PageStep, WAYS};
use crate::fault::{ExchangeFailure, Fault};
use crate::link::{AnswerPace, ConnectionEnding, LoadLink};
use crate::random::Random;
use crate::run::RunContext;
use crate::wire::{Repeats, Reuse, WholeAnswer};

/// A fetched page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Visited {
    /// Bytes of content of the page itself.
    pub(super) content_bytes: u64,
    /// Bytes of content of its objects.
    pub(super) embedded_bytes: u64,
    /// Time from the first to the last byte of the page itself.
    pub(super) receiving: Duration,
}

/// A user's connections.
pub(super) struct UserBrowser {
    script: Arc<PageScript>,
    context: Arc<RunContext>,
    user: usize,
    lanes: Vec<BrowserLane>,
    /// The set of the connection that fetched the last page itself. If an embedded object failed,
    /// the set of the connection of this object.
    set: usize,
}

/// An embedded object without a good answer.
struct FailedObject {
    /// The index of the connection.
    lane: usize,
    failure: ExchangeFailure,
}

/// A connection, or the place for a connection.
struct BrowserLane {
    open: Option<OpenConnection>,
    /// The set of the last connection, kept when the connection ends or cannot be opened.
    set: usize,
    limit: Sleep,
}

struct OpenConnection {
    link: LoadLink,
    /// Number of requests that may still be sent, including the present request.
    left: u32,
}

impl UserBrowser {
    pub(super) fn new(script: Arc<PageScript>, context: Arc<RunContext>, user: usize) -> Self {
        let lanes =
            (0..script.connections).map(|_| BrowserLane { open: None, set: 0, limit: Sleep::unset() });
        Self { lanes: lanes.collect(), script, context, user, set: 0 }
    }

    /// The set of addresses to which the last page counts.
    pub(super) fn set(&self) -> usize {
        self.set
    }

    /// Closes all connections.
    pub(super) fn leave(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.open = None);
    }

    /// Fetches page `page` with all embedded objects.
    pub(super) async fn visit(
        &mut self,
        page: usize,
        random: &mut Random,
    ) -> Result<Visited, ExchangeFailure> {
        let (script, context) = (self.script.clone(), self.context.clone());
        let fetch = Fetch { script: &script, context: &context, user: self.user };
        let step = &script.pages[page];
        let own = fetch.page(&mut self.lanes[0], step, random).await;
        // Before the embedded objects, which may open another connection.
        self.set = self.lanes[0].set;
        let own = own?;
        if step.objects.is_empty() {
            return Ok(own);
        }
        match self.embedded(&fetch, step, random).await {
            Ok(embedded_bytes) => Ok(Visited { embedded_bytes, ..own }),
            Err(FailedObject { lane, failure }) => {
                self.set = self.lanes[lane].set;
                Err(failure)
            }
        }
    }

    /// Fetches the embedded objects of a page. Each connection fetches one after the other. Returns
    /// the bytes.
    async fn embedded(
        &mut self,
        fetch: &Fetch<'_>,
        step: &PageStep,
        random: &mut Random,
    ) -> Result<u64, FailedObject> {
        let next = AtomicUsize::new(0);
        let mut waiting: Vec<_> = self
            .lanes
            .iter_mut()
            .map(|lane| Some(Box::pin(fetch.objects(lane, step, &next, random.bits()))))
            .collect();
        let mut bytes = 0;
        poll_fn(|context| {
            for (lane, place) in waiting.iter_mut().enumerate() {
                let Some(future) = place else { continue };
                if let Poll::Ready(result) = Pin::new(future).poll(context) {
                    *place = None;
                    match result {
                        Ok(some) => bytes += some,
                        Err(failure) => return Poll::Ready(Err(FailedObject { lane, failure })),
                    }
                }
            }
            if waiting.iter().all(Option::is_none) { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await?;
        Ok(bytes)
    }
}

/// The context of a fetch.
struct Fetch<'a> {
    script: &'a PageScript,
    context: &'a RunContext,
    user: usize,
}

/// A request in both forms.
enum WantedRequest<'a> {
    /// Prepared.
    Ready([Bytes; 2]),
    /// To be prepared for this path.
    Path(&'a str),
}

impl Fetch<'_> {
    async fn page(
        &self,
        lane: &mut BrowserLane,
        step: &PageStep,
        random: &mut Random,
    ) -> Result<Visited, ExchangeFailure> {
        let bits = random.bits();
        match &step.source {
            PageSource::Path(template) => {
                let path = template.draw(random);
                let expect = match &step.check {
                    Check::Status => Expect::Status,
                    Check::Ends(mark) => Expect::Ends(mark),
                };
                self.one(lane, WantedRequest::Path(&path), &mut Looker::new(expect), bits).await
            }
            PageSource::File(files) => {
                let pick = files.draw(random);
                let path = files.path(pick);
                let mut looker = Looker::new(Expect::File(&path, pick.bytes));
                self.one(lane, WantedRequest::Path(&path), &mut looker, bits).await
            }
        }
    }

    /// Fetches objects of `step` until none is left. `seed` is the seed of the random choices.
    async fn objects(
        &self,
        lane: &mut BrowserLane,
        step: &PageStep,
        next: &AtomicUsize,
        seed: u64,
    ) -> Result<u64, ExchangeFailure> {
        let mut random = Random::new(seed, 0);
        let mut bytes = 0;
        while let Some(object) = step.objects.get(next.fetch_add(1, Ordering::Relaxed)) {
            bytes += self.object(lane, object, &mut random).await?;
        }
        Ok(bytes)
    }

    /// Fetches an embedded object. If the browser has the object and validators are known, the
    /// request is conditional.
    async fn object(
        &self,
        lane: &mut BrowserLane,
        object: &PageObject,
        random: &mut Random,
    ) -> Result<u64, ExchangeFailure> {
        let is_cached = random.unit() < object.cached;
        let known = if object.cached > 0.0 { object.conditional() } else { None };
        let is_known = known.is_some();
        let (requests, is_conditional) = match known {
            Some(conditional) if is_cached => (conditional, true),
            _ => (object.plain.clone(), false),
        };
        let mut looker = Looker::new(match object.bytes {
            Some(bytes) => Expect::File(&object.path, bytes),
            None => Expect::Status,
        });
        // After a conditional request with a full answer, the validators are learned again. For
        // example, a recently written file may have another validator now.
        if object.cached > 0.0 && (is_conditional || !is_known) {
            looker = looker.wanting_validators();
        }
        let visited = self.one(lane, WantedRequest::Ready(requests), &mut looker, random.bits()).await?;
        if let Some(fields) = looker.validators() {
            object.learn(fields);
        }
        Ok(visited.content_bytes)
    }

    /// Sends a request over `lane` and reads the answer.
    async fn one(
        &self,
        lane: &mut BrowserLane,
        wanted: WantedRequest<'_>,
        looker: &mut Looker<'_>,
        bits: u64,
    ) -> Result<Visited, ExchangeFailure> {
        let began = Instant::now();
        let repeats = self.script.request.repeats();
        let mut has_repeated = false;
        let result = loop {
            let result = self.attempt(lane, &wanted, looker, bits).await;
            let Err(failure) = &result else { break result };
            let ending = match &mut lane.open {
                Some(open) => open.link.ending(failure).await,
                None => ConnectionEnding::InRequest,
            };
            match ending {
                ConnectionEnding::BeforeRequest => self.context.ledger.here().reopened += 1,
                ConnectionEnding::Crossing if repeats == Repeats::Once && !has_repeated => {
                    has_repeated = true;
                    let mut tally = self.context.ledger.here();
                    tally.reopened += 1;
                    tally.repeated += 1;
                }
                ConnectionEnding::Crossing | ConnectionEnding::InRequest => break result,
            }
            lane.open = None;
        };
        if let (Err(_), Some(mut open)) = (&result, lane.open.take_if(|_| result.is_err())) {
            let (status, bytes) = open.link.unfinished();
            let mut tally = self.context.ledger.here();
            tally.bytes += bytes;
            if let Some(status) = status {
                tally.status(status);
            }
        }
        let (answer, wire_bytes, receiving) = result?;
        let mut tally = self.context.ledger.here();
        tally.status(answer.status);
        tally.objects += 1;
        tally.object_times.record(began.elapsed());
        tally.content_bytes += answer.content_bytes;
        drop(tally);
        self.context.arrived(self.user, wire_bytes, Duration::ZERO);
        looker.verdict(answer)?;
        Ok(Visited { content_bytes: answer.content_bytes, receiving, embedded_bytes: 0 })
    }

    async fn attempt(
        &self,
        lane: &mut BrowserLane,
        wanted: &WantedRequest<'_>,
        looker: &mut Looker<'_>,
        bits: u64,
    ) -> Result<(WholeAnswer, u64, Duration), ExchangeFailure> {
        let timeout = self.script.timeout;
        let open = match &mut lane.open {
            Some(open) => open,
            place => {
                lane.limit.set(timeout);
                let opening = self.open(&mut lane.set, bits);
                place.insert(lane.limit.limit(opening).await.unwrap_or(Err(Fault::Timeout.into()))?)
            }
        };
        let way = usize::from(open.left <= 1);
        let repeats = self.script.request.repeats();
        let _under = self.context.sets.begin(lane.set);
        match wanted {
            WantedRequest::Ready(requests) => open.link.send(&requests[way], repeats).await?,
            WantedRequest::Path(path) => {
                let request = self.script.request.bytes(&self.script.host, path, WAYS[way]);
                open.link.send(&request, repeats).await?;
            }
        }
        let pace = AnswerPace { rate: self.script.receive_rate, timeout };
        let on_part = |bytes, pause| self.context.arrived(self.user, bytes, pause);
        let is_head = self.script.request.is_head();
        let (answer, wire_bytes, receiving) =
            open.link.answer_paced(is_head, looker, pace, &mut lane.limit, on_part).await?;
        open.link.settle().inspect_err(|_| self.context.answered_whole(answer.status, wire_bytes))?;
        open.left = open.left.saturating_sub(1);
        if (open.left == 0 || answer.reuse == Reuse::Close)
            && let Some(open) = lane.open.take()
        {
            self.context.parting.leave(open.link);
        }
        Ok((answer, wire_bytes, receiving))
    }

    /// Opens a connection with the lifetime of the model. `set` becomes the chosen set, also if the
    /// connection cannot be opened. `bits` are random.
    async fn open(&self, set: &mut usize, bits: u64) -> Result<OpenConnection, ExchangeFailure> {
        let began = Instant::now();
        let (chosen, addr) = self.context.choose(self.user);
        *set = chosen;
        let link = LoadLink::open(addr, &self.context.dial).await?;
        let mut tally = self.context.ledger.here();
        tally.connected(began.elapsed(), link.handshake_kind());
        drop(tally);
        let mut random = Random::new(bits, 1);
        let keep_alive = &self.script.keep_alive;
        let (low, high) = keep_alive.requests;
        let left = match random.unit() < keep_alive.share_of_connections() {
            true if low == u32::MAX => u32::MAX,
            true => low + random.below(u64::from(high - low) + 1) as u32,
            false => 1,
        };
        Ok(OpenConnection { link, left })
    }
}
