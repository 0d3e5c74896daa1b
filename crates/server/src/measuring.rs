//! The load of a server, as the agent measures the load: the time that the cores have run and
//! waited, the used part of bounded cpu time, and the demand for PHP.
//!
//! A thread whose cgroup has used up its cpu time does not run, and the kernel does not count the
//! thread as waiting. A server at the bound would therefore look half idle. So the agent also
//! measures how much of a bound of cpu time was used. The share of the kernel's periods in which
//! the bound was reached says less, because bursts use up most periods of a server that has time
//! left (bench `balancers`). Leaves out the receivers and the resulting weight
//! ([`vermeil_ops::balancers`]). Tested through the binary (`crates/e2e/tests/e2e/balancers.rs`).

use rustix::time::{ClockId, clock_gettime};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use vermeil_gateway::programs::ProgramsShared;
use vermeil_ops::{
    balancers::{BalancerAnswer, Observed, Weight},
    status::process::core_times,
};
use vermeil_state::{
    load_board::{LoadBoard, LoadMeasurement},
    server::Server,
};
use vermeil_topology::CpuQuota;

/// The server that is measured.
pub(crate) struct MeasuredServer {
    /// Any configuration of the server, because the measured state outlives each configuration.
    pub(crate) server: Arc<Server>,
    pub(crate) programs: Option<Arc<ProgramsShared>>,
}

/// The measurement of a server.
pub(crate) struct Measuring {
    subject: MeasuredServer,
    weight: Weight,
    looked: Instant,
    /// Time that the cores had run and waited by the last measurement, and the requests answered by
    /// then.
    before: (Duration, u64),
    bound: Option<CpuBound>,
}

/// The bound of this process's cpu time.
struct CpuBound {
    quota: CpuQuota,
    /// Cpu time used by the last measurement.
    before: Duration,
}

impl CpuBound {
    fn here() -> Option<Self> {
        let quota = CpuQuota::of_this_process(Path::new("/"))?;
        Some(Self { before: used(&quota), quota })
    }

    /// The part of the bound that was used since the last measurement. The value exceeds 1 if the
    /// kernel notices late that the bound was reached, and is smaller by that amount the next time.
    fn used(&mut self, lasted_s: f64) -> f64 {
        let now = used(&self.quota);
        let before = std::mem::replace(&mut self.before, now);
        now.saturating_sub(before).as_secs_f64() / lasted_s / self.quota.cpus
    }
}

impl Measuring {
    pub(crate) fn new(subject: MeasuredServer) -> Self {
        let before = (worked(), subject.server.totals().requests);
        let bound = CpuBound::here();
        Self { subject, weight: Weight::default(), looked: Instant::now(), before, bound }
    }

    fn board(&self) -> &LoadBoard {
        self.subject.server.load()
    }

    /// Requests that PHP has or that wait for PHP, as a part of the number of children.
    fn php_asked_for(&self) -> f64 {
        let programs = self.subject.programs.as_ref();
        let Some(php) = programs.and_then(|programs| programs.program_config().php) else { return 0.0 };
        let pool = php.snapshot();
        (pool.busy + pool.queue) as f64 / pool.connections_max as f64
    }
}

impl Observed for Measuring {
    fn look(&mut self) {
        let lasted = self.looked.elapsed().as_secs_f64();
        let now = (worked(), self.subject.server.totals().requests);
        let cores = self.subject.server.cores().max(1) as f64;
        let worked = now.0.saturating_sub(self.before.0).as_secs_f64() / lasted / cores;
        let cpu = self.bound.as_mut().map_or(0.0, |bound| bound.used(lasted)).max(worked);
        let php = self.php_asked_for();
        let load = LoadMeasurement {
            cpu: cpu.min(1.0),
            pending: cpu.min(1.0).max(php),
            requests_per_s: now.1.saturating_sub(self.before.1) as f64 / lasted,
        };
        (self.looked, self.before) = (Instant::now(), now);
        let weight = self.weight.follow(cpu.max(php.min(1.0)));
        self.board().set(load, weight);
    }

    fn told(&self) -> BalancerAnswer {
        let server = &self.subject.server;
        match server.is_leaving() && !server.is_handed_over() {
            true => BalancerAnswer::Drain,
            // The balancer means the server that has taken over, too.
            false => BalancerAnswer::Weight(self.board().weight()),
        }
    }
}

/// The cpu time used by all processes under the bound. If the kernel does not report that, the cpu
/// time of this process.
fn used(quota: &CpuQuota) -> Duration {
    let of_process = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).ok();
    quota.used().or_else(of_process).unwrap_or_default()
}

/// The time that all cores have run, or waited for their cpus, since the start.
fn worked() -> Duration {
    core_times().values().map(|time| time.ran + time.waited).sum()
}
