//! What comes of a run, as data: the window's counts, the course of the run, what the injector itself used.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::measure::{Tally, Times, supports};

/// The parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Users begin, evenly.
    RampUp,
    /// All users run.
    WarmUp,
    /// What counts.
    Window,
    /// Users go on.
    RampDown,
}

impl Phase {
    /// The name in results that programs read.
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
    /// How long it lasted.
    pub lasts: Duration,
    /// The part of the run it belongs to.
    pub phase: Phase,
    /// Good answers.
    pub good: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Users there at its end: those that had begun, and had not ended.
    pub users: usize,
    /// Response times of good answers: median, 90, 99, 99.9 %, as far as ten answers lie beyond, and the longest.
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

/// How a run stands, for whoever watches it.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Time since the start.
    pub elapsed: Duration,
    /// Time the whole run takes, if nothing ends it before; nothing where it ends when everything is done.
    pub planned: Option<Duration>,
    /// The last interval.
    pub interval: &'a Interval,
    /// What was counted in it.
    pub counted: &'a Tally,
    /// Everything counted in the window so far.
    pub total: &'a Tally,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// What was counted in the window.
    pub total: Tally,
    /// How long the window was.
    pub window: Duration,
    /// How long it was to be.
    pub planned: Duration,
    /// The course of the run, all phases.
    pub intervals: Vec<Interval>,
    /// Cpu time that this process used in the window.
    pub cpu: Duration,
    /// The share, 0 to 1, that each core's thread was busy in the window.
    pub cores_busy: Vec<f64>,
    /// The share, 0 to 1, of this machine's cpu time that the hypervisor gave to others in the window.
    pub stolen: f64,
    /// The share, 0 to 1, of TCP segments of this machine that had to be sent again in the window.
    pub resent: f64,
    /// The network card that was nearest to its speed in the window, and how near, 0 to 1.
    pub card: Option<(String, f64)>,
    /// Users, or connections of a simple run.
    pub users: usize,
    /// Requests whose time had come and that had not ended when the window did.
    pub unfinished: u64,
    /// How long the oldest of these had waited, from its intended start.
    pub oldest: Option<Duration>,
    /// Arrivals of an open loop whose time had come when the window ended, and that nobody was free to begin.
    pub missed: u64,
    /// Whether times count from intended starts that do not wait for answers.
    pub is_open: bool,
    /// Whether the run was to end after so many requests, and all of these have ended.
    pub is_counted: bool,
    /// Whether somebody ended the run early.
    pub interrupted: bool,
    /// Agents that took part, if the load was theirs.
    pub agents: Vec<String>,
    /// Agents that were lost on the way, each with what happened; what they had counted until then is in the counts.
    pub lost: Vec<String>,
    /// How the drivers describe themselves.
    pub io: String,
}

impl Outcome {
    /// Good answers per second.
    pub fn rate(&self) -> f64 {
        self.total.rate(self.window)
    }

    /// Good answers per second of cpu time that the injector used.
    pub fn rate_per_cpu_second(&self) -> f64 {
        self.total.rate(self.cpu)
    }
}
