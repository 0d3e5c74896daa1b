//! The users of a simple run: one connection each, the same requests over and over.
//!
//! Leaves out pages, sessions and pacing (`session`). Tested through the servers of `tests/`.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use vermeil::{Handle, Sleep};

use crate::error::LoadError;
use crate::fault::Fault;
use crate::link::Link;
use crate::measure::part;
use crate::pace::{Arrivals, Think};
use crate::plan::{Loop, SimplePlan};
use crate::quality::Quality;
use crate::random::Random;
use crate::run::{Engine, Field, Outcome, Supply, Watch, until};
use crate::sets::Set;
use crate::wire::{Discard, Reuse};

/// Pause after a connection failed, and after as many in a row as it takes. A guess: a refusing server is asked a hundred
/// times a second and user at first.
const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Runs `plan` to its end; `watch` may end it before.
///
/// # Errors
/// When it cannot begin. What happens to requests is in the [`Outcome`].
pub fn run_simple(plan: &SimplePlan, watch: &mut dyn Watch) -> Result<Outcome, LoadError> {
    let supply = Users::new(plan)?;
    let sets = match plan.ground.sets.is_empty() {
        true => vec![Set { name: plan.urls[0].authority(), addrs: vec![plan.urls[0].resolve()?] }],
        false => plan.ground.sets.clone(),
    };
    Ok(Engine::start(&plan.ground, sets, &supply)?.finish(watch))
}

/// The users to be, and what they have in common.
struct Users {
    scheme: Arc<Scheme>,
    connections: usize,
    arrivals: Option<Arrivals>,
    requests_max: Option<u64>,
    ramp_up: Duration,
}

/// What every user does.
struct Scheme {
    /// Requests as bytes, one batch for each URL.
    batches: Vec<Bytes>,
    is_head: bool,
    pipeline: u64,
    reuse: Reuse,
    think: Think,
    is_open: bool,
    /// Which batch each arrival is for, if that was recorded.
    order: Option<Arc<[u32]>>,
    quality: Quality,
}

impl Users {
    fn new(plan: &SimplePlan) -> Result<Self, LoadError> {
        let wrong = |why: &str| Err(LoadError::Plan(why.to_owned()));
        let Some(first) = plan.urls.first() else { return wrong("no URL to load") };
        if plan
            .urls
            .iter()
            .any(|url| (url.scheme, &url.host, url.port) != (first.scheme, &first.host, first.port))
        {
            return wrong("URLs of one run share scheme, host and port: give other addresses with --address");
        }
        if first.scheme == crate::url::Scheme::Https {
            return wrong("https is not spoken: load the server over http");
        }
        if plan.connections == 0 || plan.pipeline == 0 {
            return wrong("at least one connection and one request at a time are needed");
        }
        if plan.reuse == Reuse::Close && plan.pipeline > 1 {
            return wrong("requests can only be pipelined on connections that are kept");
        }
        let request = |target: &str| plan.request.bytes(&first.authority(), target, plan.reuse);
        let batches = plan.urls.iter().map(|url| request(&url.target).repeat(plan.pipeline).into()).collect();
        let (think, arrivals) = match &plan.pace {
            Loop::Closed { think } => (*think, None),
            Loop::Open { arrivals } => (Think::NONE, Some(arrivals.clone())),
        };
        let scheme = Scheme {
            batches,
            is_head: plan.request.is_head(),
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
            ramp_up: plan.ground.phases.ramp_up,
        })
    }
}

impl Supply for Users {
    fn spawn(&self, handle: &Handle, field: &Arc<Field>) -> usize {
        let cores: Vec<_> = handle.cores().collect();
        for index in 0..self.connections {
            field.user_begins();
            let begins = field.epoch + self.ramp_up.mul_f64(index as f64 / self.connections as f64);
            let user = User {
                scheme: self.scheme.clone(),
                field: field.clone(),
                index,
                link: None,
                limit: Sleep::unset(),
                random: Random::new(field.seed, index as u64),
                next_url: index % self.scheme.batches.len(),
            };
            drop(handle.spawn_on(&handle.color_on(cores[index % cores.len()]), user.live(begins)));
        }
        self.connections
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
}

struct User {
    scheme: Arc<Scheme>,
    field: Arc<Field>,
    index: usize,
    /// The connection and its set.
    link: Option<(Link, usize)>,
    limit: Sleep,
    random: Random,
    next_url: usize,
}

impl Drop for User {
    fn drop(&mut self) {
        self.field.user_ends();
    }
}

/// The moments of a batch of requests.
#[derive(Clone, Copy)]
struct Begin {
    /// When it was to begin.
    intended: Instant,
    /// When it did.
    actual: Instant,
}

impl User {
    async fn live(mut self, begins: Instant) {
        until(begins).await;
        let mut pause = RETRY.0;
        let mut last_end = Instant::now();
        while let Some(begin) = self.next_begin(last_end).await {
            let count = self.field.tickets(self.scheme.pipeline);
            if count == 0 {
                return;
            }
            self.field.ledger.here().begun += count;
            let result = self.batch(begin, count).await;
            last_end = Instant::now();
            match result {
                Ok(()) => pause = RETRY.0,
                Err((fault, left)) => {
                    self.fail(fault, left);
                    if matches!(fault, Fault::Refused | Fault::Unreachable | Fault::Local | Fault::Tls) {
                        vermeil::sleep(pause).await;
                        pause = (2 * pause).min(RETRY.1);
                    }
                }
            }
        }
    }

    /// When the next batch begins; nothing when the run is over.
    async fn next_begin(&mut self, last_end: Instant) -> Option<Begin> {
        if !self.field.goes_on() {
            return None;
        }
        let intended = if self.scheme.is_open {
            let (index, intended) = self.field.arrival()?;
            if let Some(order) = &self.scheme.order {
                self.next_url = *order.get(index)? as usize;
            }
            intended
        } else if self.scheme.think.is_none() {
            return Some(Begin { intended: last_end, actual: last_end });
        } else {
            last_end + self.scheme.think.draw(&mut self.random)
        };
        let late = until(intended).await;
        self.field.ledger.here().late.record(late);
        let actual = intended + late;
        // In a closed loop the request's time begins when it is sent; how late that was is told apart.
        let intended = if self.scheme.is_open { intended } else { actual };
        self.field.goes_on().then_some(Begin { intended, actual })
    }

    fn fail(&mut self, fault: Fault, count: u64) {
        let set = self.link.take().map_or(0, |(_, set)| set);
        let mut tally = self.field.ledger.here();
        (0..count).for_each(|_| tally.fault(fault));
        if self.field.sets.len() > 1 {
            part(&mut tally.sets, set).failed += count;
        }
    }

    /// Sends `count` requests and reads their answers; else why not, and how many are unanswered.
    async fn batch(&mut self, begin: Begin, count: u64) -> Result<(), (Fault, u64)> {
        let batch = &self.scheme.batches[self.next_url];
        let bytes = if count == self.scheme.pipeline {
            batch.clone()
        } else {
            batch.slice(..batch.len() / self.scheme.pipeline as usize * count as usize)
        };
        self.next_url = (self.next_url + 1) % self.scheme.batches.len();
        self.limit.set(self.field.timeout);
        let mut left = count;
        let Self { field, scheme, link, limit, index, .. } = self;
        let exchange = async {
            let lane = Lane { field, scheme, user: *index };
            loop {
                match lane.exchange(link, &bytes, begin, &mut left).await {
                    // Nothing was lost: the server closed an idle connection, and the request goes over another.
                    Err(Fault::Reset) if link.as_ref().is_some_and(|(link, _)| link.was_idle()) => {
                        *link = None;
                        field.ledger.here().reopened += 1;
                    }
                    result => return result,
                }
            }
        };
        let result = limited(limit, exchange).await;
        result.map_err(|fault| (fault, left))
    }
}

async fn limited<T>(limit: &mut Sleep, future: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    limit.limit(future).await.unwrap_or(Err(Fault::Timeout))
}

/// What an exchange needs to know.
struct Lane<'a> {
    field: &'a Field,
    scheme: &'a Scheme,
    user: usize,
}

impl Lane<'_> {
    async fn exchange(
        &self,
        place: &mut Option<(Link, usize)>,
        bytes: &Bytes,
        begin: Begin,
        left: &mut u64,
    ) -> Result<(), Fault> {
        let (link, set) = match place {
            Some(open) => open,
            None => place.insert(self.connect().await?),
        };
        let _under = self.field.sets.begin(*set);
        link.send(bytes).await?;
        let mut reuse = Reuse::Keep;
        while *left > 0 {
            let (answer, wire_bytes) = link.answer(self.scheme.is_head, &mut Discard).await?;
            if *left == 1 {
                link.settle()?;
            }
            *left -= 1;
            self.count(answer.status, answer.content_bytes, wire_bytes, begin, *set);
            reuse = answer.reuse;
            if reuse == Reuse::Close && *left > 0 {
                return Err(Fault::Reset);
            }
        }
        if (reuse == Reuse::Close || self.scheme.reuse == Reuse::Close)
            && let Some((mut link, _)) = place.take()
        {
            link.closed_by_peer().await;
        }
        Ok(())
    }

    async fn connect(&self) -> Result<(Link, usize), Fault> {
        let began = Instant::now();
        let (set, addr) = self.field.choose(self.user);
        let link = Link::open(addr, &self.field.connect).await?;
        let mut tally = self.field.ledger.here();
        tally.connections += 1;
        tally.connect.record(began.elapsed());
        Ok((link, set))
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
