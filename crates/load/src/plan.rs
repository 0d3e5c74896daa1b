//! What a run is to do: the whole of it as data, before anything happens.

use std::sync::Arc;
use std::time::Duration;

use vermeil::IoChoice;

use crate::pace::{Arrivals, Think};
use crate::quality::Quality;
use crate::sets::{Choice, Set};
use crate::url::Url;
use crate::wire::{Request, Reuse};

/// How the users of a run come and wait.
#[derive(Clone, Debug, PartialEq)]
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

/// The parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// All parts together.
    pub fn total(&self) -> Duration {
        self.ramp_up + self.warm_up + self.window + self.ramp_down
    }
}

/// What every run has, whatever its users do.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Where connections go. Empty: where the URLs lead.
    pub sets: Vec<Set>,
    /// How a connection finds its set.
    pub choice: Choice,
    /// Longest time for a request, connecting included.
    pub timeout: Duration,
    /// The parts of the run.
    pub phases: Phases,
    /// Cpus to run on, a core each. Empty: all that the process may use.
    pub cpus: Vec<usize>,
    /// The I/O driver.
    pub io: IoChoice,
    /// What everything random is drawn from.
    pub seed: u64,
}

impl Default for Ground {
    fn default() -> Self {
        Self {
            sets: Vec::new(),
            choice: Choice::default(),
            timeout: Duration::from_secs(10),
            phases: Phases::window(Duration::from_secs(10)),
            cpus: Vec::new(),
            io: IoChoice::Auto,
            seed: 1,
        }
    }
}

/// A run like those of wrk and ab: the same requests, over and over.
#[derive(Clone, Debug)]
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
    /// Requests sent before the first answer is waited for, at least 1.
    pub pipeline: usize,
    /// Which URL each arrival of an open loop is for; in turn without.
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
            pipeline: 1,
            order: None,
            quality: Quality::default(),
            requests_max: None,
        }
    }
}
