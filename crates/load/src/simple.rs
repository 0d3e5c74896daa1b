//! The users of a simple run: each user repeats the same requests on a connection.
//!
//! `exchange` is a request and its answer, over HTTP/1.1 or HTTP/2. Pages, sessions and pacing are
//! in `session`. Tested through the servers of `tests/`.

mod exchange;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use vermeil::{BackOff, BackOffBounds, Handle, Sleep};

use self::exchange::{Begin, LaneExchange, SimpleLane, Spoken};
use crate::error::LoadError;
use crate::fault::{ExchangeFailure, Fault, StopReason};
use crate::measure::part;
use crate::pace::{Arrivals, Think};
use crate::quality::Quality;
use crate::random::Random;
use crate::run::{Outcome, PreparedRun, RunContext, RunObserver, Supply, Waits, until};
use crate::stream::Dial;
use crate::tls_verify::Tls;
use crate::url::Url;
use crate::wire::{Http2Request, LoadRequest, Repeats, Reuse};
use crate::{
    plan::{Logged, Loop, SimplePlan},
    protocol::Protocol,
};

/// Pauses after a failed connection. The first pause lets a user ask a refusing server a hundred
/// times per second at most. The longest pause bounds the time in which the user misses a recovery.
const RETRY_PAUSES: BackOffBounds =
    BackOffBounds::doubling(Duration::from_millis(10), Duration::from_secs(1));

/// Runs `plan` to the end; `watch` may end the run early.
///
/// # Errors
/// The run cannot begin. Failed requests are counted in the [`Outcome`].
pub fn run_simple(plan: &SimplePlan, watch: &mut dyn RunObserver) -> Result<Outcome, LoadError> {
    prepare_simple(plan)?.run(watch)
}

/// Prepares `plan`, and checks whether the run can begin.
pub(crate) fn prepare_simple(plan: &SimplePlan) -> Result<PreparedRun, LoadError> {
    let users = Users::new(plan)?;
    PreparedRun::new(&plan.common, &plan.urls[0], Box::new(users))
}

/// Creates the users, and holds their shared parameters.
struct Users {
    scheme: Arc<SimpleScheme>,
    connections: usize,
    arrivals: Option<Arrivals>,
    requests_max: Option<u64>,
    ramp_up: Duration,
    protocol: Protocol,
    tls: Option<Tls>,
}

/// The behavior of every user.
struct SimpleScheme {
    /// Requests for each URL, or for each distinct line of a log.
    batches: Batches,
    /// For each batch, the parameters for reading its answers.
    asked: Vec<BatchProperties>,
    pipeline: u64,
    reuse: Reuse,
    think: Think,
    is_open: bool,
    /// For each arrival of a recorded log, the index of its batch.
    order: Option<Arc<[u32]>>,
    quality: Quality,
}

/// The properties of a batch's requests that the reader of the answers needs.
#[derive(Clone, Copy, Debug)]
struct BatchProperties {
    is_head: bool,
    repeats: Repeats,
    /// The logged status, which counts as good if the server repeats it.
    logged: Option<u16>,
}

/// Requests, a batch for each URL.
enum Batches {
    /// Pipelined requests as consecutive bytes.
    Http1(Vec<Bytes>),
    /// A single request, to be sent on several streams.
    Http2(Vec<Http2Request>),
}

impl Batches {
    fn new(plan: &SimplePlan, host: &str) -> Result<Self, LoadError> {
        if let Some(logged) = &plan.logged {
            return Self::of_log(plan, logged, host);
        }
        let bytes = |target: &str| plan.request.bytes(host, target, plan.reuse).repeat(plan.pipeline).into();
        Ok(match plan.protocol {
            Protocol::Http1 => Self::Http1(plan.urls.iter().map(|url| bytes(&url.target)).collect()),
            Protocol::Http2 => {
                Self::Http2(plan.urls.iter().map(|url| plan.request.http2(url)).collect::<Result<_, _>>()?)
            }
        })
    }

    /// The requests of a log. Only methods with a body get the plan's content.
    fn of_log(plan: &SimplePlan, logged: &[Logged], host: &str) -> Result<Self, LoadError> {
        let request = |logged: &Logged| -> Result<LoadRequest, LoadError> {
            let request = plan.request.clone().method(&logged.method)?;
            Ok(if request.has_content_by_method() { request } else { request.content(Bytes::new()) })
        };
        Ok(match plan.protocol {
            Protocol::Http1 => {
                let bytes = |line: &Logged| Ok(request(line)?.line_and_rest(&line.line(), host, plan.reuse));
                Self::Http1(logged.iter().map(bytes).collect::<Result<_, LoadError>>()?)
            }
            Protocol::Http2 => {
                let asked = |line: &Logged| {
                    let target = String::from_utf8_lossy(&line.target).into_owned();
                    Ok(request(line)?.http2(&Url { target, ..plan.urls[0].clone() })?)
                };
                Self::Http2(logged.iter().map(asked).collect::<Result<_, LoadError>>()?)
            }
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::Http1(batches) => batches.len(),
            Self::Http2(requests) => requests.len(),
        }
    }
}

impl Users {
    fn new(plan: &SimplePlan) -> Result<Self, LoadError> {
        let wrong = |why: &str| Err(LoadError::Plan(why.to_owned()));
        let Some(first) = plan.urls.first() else { return wrong("no URL to load") };
        if plan.logged.is_some() && plan.pipeline > 1 {
            return wrong("the requests of a log come one by one: leave --pipeline out");
        }
        if plan
            .urls
            .iter()
            .any(|url| (url.scheme, &url.host, url.port) != (first.scheme, &first.host, first.port))
        {
            return wrong("URLs of one run share scheme, host and port: give other addresses with --address");
        }
        if plan.connections == 0 || plan.pipeline == 0 {
            return wrong("at least one connection and one request at a time are needed");
        }
        if plan.reuse == Reuse::Close && plan.pipeline > 1 && plan.protocol == Protocol::Http1 {
            return wrong("requests can only be pipelined on connections that are kept");
        }
        if plan.pipeline > 1 && matches!(plan.pace, Loop::Open { .. }) {
            return wrong("each arrival of an open loop is one request: leave --pipeline out");
        }
        let batches = Batches::new(plan, &first.authority())?;
        let (think, arrivals) = match &plan.pace {
            Loop::Closed { think } => (*think, None),
            Loop::Open { arrivals } => (Think::NONE, Some(arrivals.clone())),
        };
        let asked = match &plan.logged {
            None => {
                let (is_head, repeats) = (plan.request.is_head(), plan.request.repeats());
                vec![BatchProperties { is_head, repeats, logged: None }; batches.len()]
            }
            Some(logged) => {
                let asking = |line: &Logged| BatchProperties {
                    is_head: line.method == "HEAD",
                    repeats: Repeats::of(&line.method),
                    logged: line.status,
                };
                logged.iter().map(asking).collect()
            }
        };
        let scheme = SimpleScheme {
            batches,
            asked,
            pipeline: plan.pipeline as u64,
            reuse: plan.reuse,
            think,
            is_open: arrivals.is_some(),
            order: plan.order.clone(),
            quality: plan.quality.clone(),
        };
        Ok(Self {
            scheme: Arc::new(scheme),
            connections: plan.connections,
            arrivals,
            requests_max: plan.requests_max,
            ramp_up: plan.common.phases.ramp_up,
            protocol: plan.protocol,
            tls: Tls::new(first, &plan.common.tls_verify, plan.common.tls_sessions, plan.protocol)?,
        })
    }
}

impl Supply for Users {
    fn users(&self) -> usize {
        self.connections
    }

    fn spawn(&self, handle: &Handle, context: &Arc<RunContext>) {
        let cores: Vec<_> = handle.cores().collect();
        for index in 0..self.connections {
            context.user_begins();
            let begins = context.epoch + self.ramp_up.mul_f64(index as f64 / self.connections as f64);
            let color = handle.color_on(cores[index % cores.len()]);
            let user = SimpleUser {
                scheme: self.scheme.clone(),
                context: context.clone(),
                index,
                lane: SimpleLane::default(),
                limit: Sleep::unset(),
                random: Random::new(context.seed, (context.first_user + index) as u64),
                next_url: (context.first_user + index) % self.scheme.batches.len(),
            };
            drop(handle.spawn_on(&color, user.live(begins)));
        }
    }

    fn arrivals(&self) -> Option<&Arrivals> {
        self.arrivals.as_ref()
    }

    fn requests_max(&self) -> Option<u64> {
        self.requests_max
    }

    fn sockets_max(&self) -> u64 {
        self.connections as u64
    }

    fn dial(&self) -> Dial {
        Dial { tls: self.tls.clone(), ..Dial::default() }
    }

    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn waits(&self) -> Waits {
        let quality = &self.scheme.quality;
        Waits::new(self.connections, [quality.good, quality.tolerable])
    }
}

struct SimpleUser {
    scheme: Arc<SimpleScheme>,
    context: Arc<RunContext>,
    index: usize,
    lane: SimpleLane,
    limit: Sleep,
    random: Random,
    next_url: usize,
}

impl Drop for SimpleUser {
    fn drop(&mut self) {
        self.context.user_ends();
    }
}

impl SimpleUser {
    async fn live(mut self, begins: Instant) {
        until(begins).await;
        self.context.user_is_there();
        let mut pauses = BackOff::new(&RETRY_PAUSES);
        let mut last_end = Instant::now();
        while let Some((begin, count)) = self.next_begin(last_end).await {
            self.context.ledger.here().begun += count;
            let since = begin.intended.saturating_duration_since(self.context.epoch);
            self.context.waits.begin(self.index, since, count);
            let result = self.batch(begin, count).await;
            self.context.waits.end(self.index);
            last_end = Instant::now();
            if let Err((failure, left)) = &result {
                self.fail(failure, *left, last_end - begin.intended);
            }
            self.context.have_ended(count);
            match result.map_err(|(failure, _)| failure.fault) {
                Ok(()) => pauses.reset(),
                Err(Fault::Refused | Fault::Unreachable | Fault::Local | Fault::Tls) => {
                    vermeil::sleep(pauses.advance()).await;
                    // The pause is the injector's own, so the pause is no part of a response time.
                    last_end = Instant::now();
                }
                Err(_) => {}
            }
        }
    }

    /// The start of the next batch and its number of requests; `None` if the run is over.
    async fn next_begin(&mut self, last_end: Instant) -> Option<(Begin, u64)> {
        if !self.context.goes_on() {
            return None;
        }
        let intended = if self.scheme.is_open {
            let (index, intended) = self.context.arrival(self.index)?;
            if let Some(order) = &self.scheme.order {
                self.next_url = *order.get(index)? as usize;
            }
            intended
        } else if self.scheme.think.is_none() {
            let count = self.context.tickets(self.scheme.pipeline)?;
            return Some((Begin { intended: last_end, actual: last_end }, count));
        } else {
            last_end + self.scheme.think.draw(&mut self.random)
        };
        let late = match &mut self.lane.open {
            Some(Spoken::Http2(link)) => link.attend(until(intended)).await,
            _ => until(intended).await,
        };
        if !self.context.goes_on() {
            return None;
        }
        let count = self.context.tickets(self.scheme.pipeline)?;
        self.context.ledger.here().late.record(late);
        let actual = intended + late;
        // In a closed loop the latency of a request begins at its sending; the delay is recorded
        // separately.
        let intended = if self.scheme.is_open { intended } else { actual };
        Some((Begin { intended, actual }, count))
    }

    fn fail(&mut self, failure: &ExchangeFailure, count: u64, took: Duration) {
        let open = self.lane.open.take();
        let (status, bytes) = open.map_or((None, 0), |mut spoken| spoken.unfinished());
        let mut tally = self.context.ledger.here();
        tally.failure(failure, count, took);
        tally.bytes += bytes;
        if let Some(status) = status {
            tally.status(status);
        }
        if self.context.sets.len() > 1 {
            part(&mut tally.sets, self.lane.set).failed += count;
        }
    }

    /// Sends `count` requests and reads the answers. The error holds the reason and the number of
    /// unanswered requests.
    async fn batch(&mut self, begin: Begin, count: u64) -> Result<(), (ExchangeFailure, u64)> {
        let batch = self.next_url;
        self.next_url = (batch + 1) % self.scheme.batches.len();
        self.limit.set(self.context.timeout);
        let mut left = count;
        let Self { context, scheme, lane, limit, index, .. } = self;
        let exchange = async {
            let exchanges = LaneExchange { context, scheme, user: *index };
            let repeats = scheme.asked[batch].repeats;
            let speaks_http2 = matches!(scheme.batches, Batches::Http2(_));
            let mut has_repeated = false;
            loop {
                let before = left;
                match exchanges.exchange(lane, batch, begin, &mut left).await {
                    Ok(()) => return Ok(()),
                    Err(StopReason::Failed(failure)) => return Err(failure),
                    // Nothing was sent.
                    Err(StopReason::Idle) => context.ledger.here().reopened += 1,
                    // The server may have begun these requests, so repeat them only once, and only
                    // if idempotent.
                    Err(StopReason::Crossing) if repeats == Repeats::Once && !has_repeated => {
                        has_repeated = true;
                        let mut tally = context.ledger.here();
                        tally.reopened += 1;
                        tally.repeated += left;
                    }
                    // In HTTP/2 the server guarantees that it did not begin the requests (RFC 9113
                    // section 8.7). In HTTP/1.1 only the method decides.
                    Err(StopReason::Announced) if speaks_http2 || repeats == Repeats::Once => {
                        let mut tally = context.ledger.here();
                        // The server closed an idle connection, so the connection counts as
                        // reopened.
                        if left == before { tally.reopened += 1 } else { tally.deferred += left }
                    }
                    Err(StopReason::Crossing | StopReason::Announced) => return Err(Fault::Reset.into()),
                }
                lane.open = None;
            }
        };
        let result = limit.limit(exchange).await.unwrap_or(Err(Fault::Timeout.into()));
        result.map_err(|failure| (failure, left))
    }
}
