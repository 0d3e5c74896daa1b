//! The plan of a run: all parameters as data, before the run begins.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use vermeil::IoChoice;

use crate::error::LoadError;
use crate::pace::{Arrivals, Think};
use crate::protocol::Protocol;
use crate::quality::Quality;
use crate::targets::{Set, SetChoice};
use crate::tls_verify::{TlsSessions, TlsVerify};
use crate::url::Url;
use crate::wire::{LoadRequest, Reuse};

/// The arrival of requests in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Loop {
    /// A fixed number of users. Each user sends after the last answer and the think time.
    Closed {
        /// The think times.
        think: Think,
    },
    /// Requests arrive independently of answers. A request without a free connection waits, and the
    /// wait counts.
    Open {
        /// The arrival times.
        arrivals: Arrivals,
    },
}

/// A window that only the number of requests, or the end of a log, ends: the longest run.
pub const UNTIL_DONE: Duration = Duration::from_secs(24 * 3600);

/// The phases of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// Users begin evenly over this time. Not counted.
    pub ramp_up: Duration,
    /// All users run. Not counted.
    pub warm_up: Duration,
    /// The counted phase.
    pub window: Duration,
    /// Users continue, so that the end of the window is like the middle. Not counted.
    pub ramp_down: Duration,
}

impl Phases {
    /// Only a window.
    pub fn window(window: Duration) -> Self {
        let none = Duration::ZERO;
        Self { ramp_up: none, warm_up: none, window, ramp_down: none }
    }

    /// All phases together; `None` if the window ends when everything is done.
    pub fn total(&self) -> Option<Duration> {
        let whole = self.ramp_up + self.warm_up + self.window + self.ramp_down;
        (self.window != UNTIL_DONE).then_some(whole)
    }
}

/// The parameters that every run has, whatever the kind of users.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommonOptions {
    /// The addresses of connections. Empty: the addresses of the URLs.
    pub sets: Vec<Set>,
    /// The choice of a set for a connection.
    pub choice: SetChoice,
    /// Longest time for a request, including the connect.
    pub timeout: Duration,
    /// The parts of the run.
    pub phases: Phases,
    /// The trusted certificates over TLS.
    pub tls_verify: TlsVerify,
    /// The handshakes over TLS.
    #[serde(default)]
    pub tls_sessions: TlsSessions,
    /// The cpus of the run, a core each. Empty: all cpus that the process may use. Set by each
    /// machine.
    #[serde(skip)]
    pub cpus: Vec<usize>,
    /// The I/O driver. Set by each machine.
    #[serde(skip, default = "io_auto")]
    pub io: IoChoice,
    /// When users begin. `None`: at once.
    #[serde(skip)]
    pub begins: Option<Instant>,
    /// The part of the load that this run makes.
    pub share: LoadShare,
    /// The seed of all random numbers.
    pub seed: u64,
}

fn io_auto() -> IoChoice {
    IoChoice::Auto
}

/// A part of a load that several injectors share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadShare {
    /// The index of the part, from 0.
    pub index: usize,
    /// The number of parts.
    pub of: usize,
    /// Number of users in earlier parts. Users of all parts are numbered in a row, so that each has
    /// different random numbers.
    pub first_user: usize,
}

impl Default for LoadShare {
    fn default() -> Self {
        Self { index: 0, of: 1, first_user: 0 }
    }
}

impl LoadShare {
    /// The share of part `index` of `of` parts in `whole`. All shares together are `whole`.
    pub(crate) fn part(whole: u64, index: usize, of: usize) -> u64 {
        let up_to = |parts: usize| (u128::from(whole) * parts as u128 / of.max(1) as u128) as u64;
        up_to(index + 1) - up_to(index)
    }
}

impl Default for CommonOptions {
    fn default() -> Self {
        Self {
            sets: Vec::new(),
            choice: SetChoice::default(),
            timeout: Duration::from_secs(10),
            phases: Phases::window(Duration::from_secs(10)),
            tls_verify: TlsVerify::System,
            tls_sessions: TlsSessions::Full,
            cpus: Vec::new(),
            io: IoChoice::Auto,
            begins: None,
            share: LoadShare::default(),
            seed: 1,
        }
    }
}

impl CommonOptions {
    /// The sets of addresses for a run against `url`.
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
    /// The target as sent, including bytes beyond ASCII.
    pub target: Vec<u8>,
    /// Whether the version was HTTP/1.0.
    pub is_old: bool,
    /// The status of an error answer, which is then expected again.
    pub status: Option<u16>,
}

impl Logged {
    /// The request line with the line end.
    pub(crate) fn line(&self) -> Vec<u8> {
        let version: &[u8] = if self.is_old { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" };
        [self.method.as_bytes(), b" ", &self.target, version].concat()
    }
}

/// A run like the runs of wrk and ab: the same requests, over and over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SimplePlan {
    /// The common parameters.
    pub common: CommonOptions,
    /// The URLs. A user requests the URLs in turn. At least one, all with the same scheme.
    pub urls: Vec<Url>,
    /// The request.
    pub request: LoadRequest,
    /// Number of connections; in an open loop also the maximum number of requests under way.
    pub connections: usize,
    /// The arrival of requests.
    pub pace: Loop,
    /// Whether a connection carries more than one request.
    pub reuse: Reuse,
    /// The protocol.
    pub protocol: Protocol,
    /// Requests sent before the first answer is awaited, at least 1. Over HTTP/2 each request has a
    /// stream.
    pub pipeline: usize,
    /// The distinct requests of an access log, in place of `urls`. The first of `urls` is then the
    /// server.
    pub logged: Option<Vec<Logged>>,
    /// The index of the URL or the log's request for each arrival of an open loop. `None`: in turn.
    pub order: Option<Arc<[u32]>>,
    /// The meaning of good and tolerable.
    pub quality: Quality,
    /// Ends the run after this number of requests, if that is before the end of the window.
    pub requests_max: Option<u64>,
}

impl SimplePlan {
    /// The default run against one URL: 64 connections (as in the benches of servers), ten seconds,
    /// closed loop, no think time.
    pub fn new(url: Url) -> Self {
        Self {
            common: CommonOptions::default(),
            urls: vec![url],
            request: LoadRequest::default(),
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
