//! What one server has to do, as its agent measures it: what its cores have run and waited, and what PHP is asked for.
//!
//! Leaves out who is told (`agent.rs`, `orca.rs`) and what weight follows (`weight.rs`). Tested through the binary
//! (`crates/cli/tests/e2e/balancers.rs`).

use super::{
    Load, LoadBoard,
    agent::{Observed, Told},
    weight::Weight,
};
use crate::{php::Php, server::Server, status::core_times};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Whom it is about.
pub(crate) struct Subject {
    /// Any of its configurations: what is asked of it outlives them.
    pub(crate) server: Arc<Server>,
    pub(crate) php: Option<Arc<Php>>,
}

/// One server, looked at.
pub(crate) struct Measuring {
    subject: Subject,
    weight: Weight,
    looked: Instant,
    /// What the cores had run and waited for by then, and requests answered.
    before: (Duration, u64),
}

impl Measuring {
    pub(crate) fn new(subject: Subject) -> Self {
        let before = (worked(), subject.server.totals().requests);
        Self { subject, weight: Weight::default(), looked: Instant::now(), before }
    }

    fn board(&self) -> &LoadBoard {
        &self.subject.server.load
    }

    /// Requests that PHP has or that wait for it, as a part of its children.
    fn php_asked_for(&self) -> f64 {
        let Some(php) = &self.subject.php else { return 0.0 };
        let pool = php.snapshot();
        (pool.busy + pool.queue) as f64 / pool.connections_max as f64
    }
}

impl Observed for Measuring {
    fn look(&mut self) {
        let lasted = self.looked.elapsed().as_secs_f64();
        let now = (worked(), self.subject.server.totals().requests);
        let cores = self.subject.server.cores().max(1) as f64;
        let cpu = now.0.saturating_sub(self.before.0).as_secs_f64() / lasted / cores;
        let load = Load {
            cpu: cpu.min(1.0),
            pending: cpu.min(1.0).max(self.php_asked_for()),
            requests_per_s: now.1.saturating_sub(self.before.1) as f64 / lasted,
        };
        (self.looked, self.before) = (Instant::now(), now);
        let weight = self.weight.follow(load.pending);
        self.board().set(load, weight);
    }

    fn told(&self) -> Told {
        match self.subject.server.is_leaving() {
            true => Told::Drain,
            false => Told::Weight(self.board().weight()),
        }
    }
}

/// What all cores have run, or waited for their cpus, since the start.
fn worked() -> Duration {
    core_times().values().map(|time| time.ran + time.waited).sum()
}
