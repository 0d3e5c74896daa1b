//! What balancers in front of this server are told: how much it has to do, and whether it is about to end.
//!
//! One thread measures twice a second and answers HAProxy's agent checks; cores write the same into answers as a load
//! report, if asked to. Reading order: [`BalancerOptions`], `LoadBoard` (what was measured, for everybody), `weight` (what
//! follows for a balancer), `measuring` (what a server has to do), `agent` (the thread), `orca` (the report in answers).
//! Of several instances each measures itself, and the supervisor adds up and answers (`supervise/sum.rs`). Whether the
//! server is ready is in `server.rs`. Tested beside the files, and with a real HAProxy (`crates/cli/tests/e2e/balancers.rs`).

mod agent;
mod measuring;
mod orca;
mod weight;

pub(crate) use agent::{Agent, Observed, Told, bind};
pub(crate) use measuring::{Measuring, Subject};
pub(crate) use weight::LEAST;

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
};

/// What balancers are told, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BalancerOptions {
    /// Where HAProxy's agent checks are answered.
    pub agent: Vec<SocketAddr>,
    /// How answers report the load.
    pub load_report: LoadReport,
}

impl BalancerOptions {
    /// Whether anybody wants to know.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.agent.is_empty() || self.load_report != LoadReport::Off
    }
}

/// A field of every answer, `endpoint-load-metrics`, in one of the forms of ORCA (Open Request Cost Aggregation; Envoy and
/// gRPC read it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadReport {
    /// None.
    #[default]
    Off,
    /// `TEXT cpu_utilization=0.31,…`
    Text,
    /// `JSON {"cpu_utilization":0.31,…}`
    Json,
}

/// What was measured last. Written by one thread, read by all; Relaxed, since each number stands for itself.
#[derive(Debug)]
pub(crate) struct LoadBoard {
    cpu_per_mille: AtomicU32,
    pending_per_mille: AtomicU32,
    requests_per_s: AtomicU32,
    weight: AtomicU32,
}

/// One measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// The part of its time that a core ran or waited for its cpu, of all cores on average; or how much of the cpu time that
    /// it is given is used up, if that is more.
    pub(crate) cpu: f64,
    /// The same, or how many of PHP's children are asked for, as a part of all, if that is more; above 1 if requests wait.
    pub(crate) pending: f64,
    pub(crate) requests_per_s: f64,
}

impl Default for LoadBoard {
    /// Nobody has looked: there is nothing to do.
    fn default() -> Self {
        let [cpu_per_mille, pending_per_mille, requests_per_s] = [0; 3].map(AtomicU32::new);
        Self { cpu_per_mille, pending_per_mille, requests_per_s, weight: AtomicU32::new(100) }
    }
}

impl LoadBoard {
    fn set(&self, load: Load, weight: u32) {
        let per_mille = |part: f64| (part * 1000.0).round().clamp(0.0, 1e9) as u32;
        self.cpu_per_mille.store(per_mille(load.cpu), Ordering::Relaxed);
        self.pending_per_mille.store(per_mille(load.pending), Ordering::Relaxed);
        self.requests_per_s.store(load.requests_per_s.round().clamp(0.0, 4e9) as u32, Ordering::Relaxed);
        self.weight.store(weight, Ordering::Relaxed);
    }

    fn load(&self) -> Load {
        let part = |word: &AtomicU32| f64::from(word.load(Ordering::Relaxed)) / 1000.0;
        Load {
            cpu: part(&self.cpu_per_mille),
            pending: part(&self.pending_per_mille),
            requests_per_s: self.requests_per_s.load(Ordering::Relaxed).into(),
        }
    }

    /// In hundredths of what the balancer gives.
    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// A line for the head of an answer, with its end; nothing if there is none.
    pub(crate) fn line(&self, report: LoadReport) -> Vec<u8> {
        orca::line(report, self.load())
    }
}
