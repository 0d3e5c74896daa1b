//! What a run is to do: the whole of it as data, before anything happens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use vermeil::IoChoice;

use crate::error::LoadError;
use crate::pace::{Arrivals, Think};
use crate::quality::Quality;
use crate::sets::{Choice, Set};
use crate::trust::Trust;
use crate::url::Url;
use crate::wire::{Request, Reuse};

/// What is spoken over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2: agreed on in the handshake over TLS (ALPN), known beforehand over plain TCP.
    Http2,
}

impl Protocol {
    /// What ALPN calls it (RFC 7301 §6, RFC 9113 §3.2).
    pub(crate) fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

/// How the users of a run come and wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Loop {
    /// So many users, each sends when it has its answer and has thought.
    Closed {
        /// How long they think.
        think: Think,
    },
    /// Requests come when they come; a request that finds no free connection waits, and its waiting counts.
    Open {
        /// When they come.
        arrivals: Arrivals,
    },
}

/// A window that only the number of requests, or the end of a record, ends: as long as a run may take.
pub const UNTIL_DONE: Duration = Duration::from_secs(24 * 3600);

/// The parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// Users begin evenly over this time. Nothing is counted.
    pub ramp_up: Duration,
    /// All users run. Nothing is counted.
    pub warm_up: Duration,
    /// What counts.
    pub window: Duration,
    /// Users go on, so that the end of the window is like its middle. Nothing is counted.
    pub ramp_down: Duration,
}

impl Phases {
    /// Only a window.
    pub fn window(window: Duration) -> Self {
        let none = Duration::ZERO;
        Self { ramp_up: none, warm_up: none, window, ramp_down: none }
    }

    /// All parts together; nothing where the window ends when everything is done.
    pub fn total(&self) -> Option<Duration> {
        let whole = self.ramp_up + self.warm_up + self.window + self.ramp_down;
        (self.window != UNTIL_DONE).then_some(whole)
    }
}

/// What every run has, whatever its users do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ground {
    /// Where connections go. Empty: where the URLs lead.
    pub sets: Vec<Set>,
    /// How a connection finds its set.
    pub choice: Choice,
    /// Longest time for a request, connecting included.
    pub timeout: Duration,
    /// The parts of the run.
    pub phases: Phases,
    /// Whose certificates are believed over TLS.
    pub trust: Trust,
    /// Cpus to run on, a core each. Empty: all that the process may use. A matter of each machine.
    #[serde(skip)]
    pub cpus: Vec<usize>,
    /// The I/O driver; a matter of each machine, too.
    #[serde(skip, default = "io_auto")]
    pub io: IoChoice,
    /// When users begin; at once without.
    #[serde(skip)]
    pub begins: Option<Instant>,
    /// Which part of the load this is.
    pub share: Share,
    /// What everything random is drawn from.
    pub seed: u64,
}

fn io_auto() -> IoChoice {
    IoChoice::Auto
}

/// A part of a load that several injectors make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Which part, from 0.
    pub index: usize,
    /// Of how many.
    pub of: usize,
    /// Users of the parts before it: users count on, so that each has random numbers of its own.
    pub first_user: usize,
}

impl Default for Share {
    fn default() -> Self {
        Self { index: 0, of: 1, first_user: 0 }
    }
}

impl Share {
    /// What part `index` of `of` has of `whole`; all parts together have it all.
    pub(crate) fn part(whole: u64, index: usize, of: usize) -> u64 {
        let up_to = |parts: usize| (u128::from(whole) * parts as u128 / of.max(1) as u128) as u64;
        up_to(index + 1) - up_to(index)
    }
}

impl Default for Ground {
    fn default() -> Self {
        Self {
            sets: Vec::new(),
            choice: Choice::default(),
            timeout: Duration::from_secs(10),
            phases: Phases::window(Duration::from_secs(10)),
            trust: Trust::System,
            cpus: Vec::new(),
            io: IoChoice::Auto,
            begins: None,
            share: Share::default(),
            seed: 1,
        }
    }
}

impl Ground {
    /// The sets of addresses of a run against `url`.
    pub(crate) fn sets_of(&self, url: &Url) -> Result<Vec<Set>, LoadError> {
        Ok(match self.sets.is_empty() {
            true => vec![Set { name: url.authority(), addrs: vec![url.resolve()?] }],
            false => self.sets.clone(),
        })
    }
}

/// A request of an access log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Logged {
    /// The method.
    pub method: String,
    /// The target as it was sent; bytes beyond ASCII, too.
    pub target: Vec<u8>,
    /// Whether the version was HTTP/1.0.
    pub is_old: bool,
    /// The status of the answer, where that was an error: it is expected again.
    pub status: Option<u16>,
}

impl Logged {
    /// The request line, with its end.
    pub(crate) fn line(&self) -> Vec<u8> {
        let version: &[u8] = if self.is_old { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" };
        [self.method.as_bytes(), b" ", &self.target, version].concat()
    }
}

/// A run like those of wrk and ab: the same requests, over and over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SimplePlan {
    /// What every run has.
    pub ground: Ground,
    /// Where to; a user asks for them in turn. At least one, all with one scheme.
    pub urls: Vec<Url>,
    /// What to ask for.
    pub request: Request,
    /// Connections; in an open loop the most requests under way.
    pub connections: usize,
    /// How they wait.
    pub pace: Loop,
    /// Whether a connection carries more than one request.
    pub reuse: Reuse,
    /// What is spoken.
    pub protocol: Protocol,
    /// Requests sent before the first answer is waited for, at least 1. Over HTTP/2 each has a stream.
    pub pipeline: usize,
    /// The different requests of an access log, in place of `urls`, whose first is the server.
    pub logged: Option<Vec<Logged>>,
    /// Which URL, or which request of a log, each arrival of an open loop is for; in turn without.
    pub order: Option<Arc<[u32]>>,
    /// What good and tolerable mean.
    pub quality: Quality,
    /// End after so many requests, should that come before the end of the window.
    pub requests_max: Option<u64>,
}

impl SimplePlan {
    /// The default run against one URL: 64 connections (as many as the benches of servers use), ten seconds, closed loop,
    /// no thinking.
    pub fn new(url: Url) -> Self {
        Self {
            ground: Ground::default(),
            urls: vec![url],
            request: Request::default(),
            connections: 64,
            pace: Loop::Closed { think: Think::NONE },
            reuse: Reuse::Keep,
            protocol: Protocol::Http1,
            pipeline: 1,
            logged: None,
            order: None,
            quality: Quality::default(),
            requests_max: None,
        }
    }
}
