//! The outcome of a run, as data: the counts of the window, the course of the run, and the
//! injector's resources.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::waits::OpenWaits;
use crate::measure::{Tally, Times, supports};

/// The phases of a run, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    /// Users begin, evenly.
    RampUp,
    /// All users run.
    WarmUp,
    /// The counted phase.
    Window,
    /// Users continue.
    RampDown,
}

impl RunPhase {
    /// The name in machine-readable results.
    pub fn name(self) -> &'static str {
        match self {
            Self::RampUp => "ramp_up",
            Self::WarmUp => "warm_up",
            Self::Window => "window",
            Self::RampDown => "ramp_down",
        }
    }
}

/// A short part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// From the start of the run to the beginning of the interval.
    pub begins: Duration,
    /// Length of the interval.
    pub lasts: Duration,
    /// The phase of the interval.
    pub phase: RunPhase,
    /// Good answers.
    pub good: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Users at the end of the interval: users that had begun and had not ended.
    pub users: usize,
    /// Response times of good answers: median, 90, 99, 99.9 %, each if ten answers lie above, and
    /// the longest.
    pub percentiles: [Option<Duration>; 5],
}

impl Interval {
    /// The percentiles of an interval; the last is the longest time.
    pub const PERCENTS: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 100.0];

    pub(crate) fn percentiles_of(times: &Times) -> [Option<Duration>; 5] {
        Self::PERCENTS.map(|percent| {
            let is_known = if percent < 100.0 { supports(times.count(), percent) } else { times.count() > 0 };
            is_known.then(|| times.percentile(percent))
        })
    }

    /// Good answers per second.
    pub fn rate(&self) -> f64 {
        if self.lasts.is_zero() { 0.0 } else { self.good as f64 / self.lasts.as_secs_f64() }
    }
}

/// The progress of a run, for the watcher.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress<'a> {
    /// Time since the start.
    pub elapsed: Duration,
    /// Planned length of the whole run; `None` if the run ends when everything is done.
    pub planned: Option<Duration>,
    /// The last interval.
    pub interval: &'a Interval,
    /// The counts of the last interval.
    pub counted: &'a Tally,
    /// The counts of the window so far.
    pub total: &'a Tally,
}

/// The outcome of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The counts of the window.
    pub total: Tally,
    /// The actual length of the window.
    pub window: Duration,
    /// The planned length of the window.
    pub planned: Duration,
    /// The course of the run, all phases.
    pub intervals: Vec<Interval>,
    /// Cpu time of this process in the window.
    pub cpu: Duration,
    /// The busy share, 0 to 1, of each core's thread in the window.
    pub cores_busy: Vec<f64>,
    /// The share, 0 to 1, of the time of the injector's cpus that the hypervisor gave to other
    /// machines in the window.
    pub stolen: f64,
    /// The share, 0 to 1, of this machine's TCP segments that were retransmitted in the window.
    pub resent: f64,
    /// The network card with the highest share of its speed in the window, and that share, 0 to 1.
    pub card: Option<(String, f64)>,
    /// Number of users, or of connections of a simple run.
    pub users: usize,
    /// The time from the planned start to the start of the users, if the start was planned and
    /// passed before.
    pub began_late: Duration,
    /// Requests that were due and had not ended at the end of the window.
    pub unfinished: u64,
    /// The waits for the unfinished requests; `None` if no user waited.
    pub waits: Option<OpenWaits>,
    /// Arrivals of an open loop that were due at the end of the window, and for which no user was
    /// free.
    pub missed: u64,
    /// Whether times count from intended starts that do not depend on answers.
    pub is_open: bool,
    /// Whether the run had a maximum number of requests, and all have ended.
    pub is_counted: bool,
    /// Whether the user ended the run early.
    pub interrupted: bool,
    /// The agents that made the load, if any.
    pub agents: Vec<String>,
    /// Lost agents, each with the reason. Their counts until the loss are included.
    pub lost: Vec<String>,
    /// The drivers' description.
    pub io: String,
}

impl Outcome {
    /// Good answers per second.
    pub fn rate(&self) -> f64 {
        self.total.rate(self.window)
    }

    /// Good answers per second of the injector's cpu time.
    pub fn rate_per_cpu_second(&self) -> f64 {
        self.total.rate(self.cpu)
    }
}
