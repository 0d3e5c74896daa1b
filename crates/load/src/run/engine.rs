//! Starts the cores and the users of a run, keeps the time, and collects the counts.
//!
//! The calling thread waits and collects. Everything else happens on the cores. Leaves out the
//! behavior of users (`Supply`). Tested through `tests/`.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use vermeil::{DriverOptions, Handle, Observe, Policy, Runtime};

use super::context::RunContext;
use super::outcome::{Interval, Outcome, RunPhase, RunProgress};
use super::parting::Parting;
use super::pulse::{CpuNs, pulse};
use super::readings::Readings;
use super::waits::Waits;
use crate::error::LoadError;
use crate::measure::{Ledger, Tally};
use crate::pace::{Arrivals, Schedule};
use crate::stream::{Dial, RECV_BUFFER_BYTES};
use crate::targets::Sets;
use crate::{
    plan::{CommonOptions, LoadShare, Phases},
    protocol::Protocol,
};

/// A watcher of a run. The engine calls the watcher about once per interval; the watcher may end
/// the run.
pub trait RunObserver {
    /// Receives the progress of the run.
    fn see(&mut self, progress: RunProgress<'_>) -> ControlFlow<()>;
}

impl<F: FnMut(RunProgress<'_>) -> ControlFlow<()>> RunObserver for F {
    fn see(&mut self, progress: RunProgress<'_>) -> ControlFlow<()> {
        self(progress)
    }
}

/// A source of users for a run.
pub(crate) trait Supply {
    /// The number of users.
    fn users(&self) -> usize;
    /// Spawns all users. Each user calls [`RunContext::user_begins`] before the spawn.
    fn spawn(&self, handle: &Handle, context: &Arc<RunContext>);
    /// The arrivals of requests or sessions, in an open loop.
    fn arrivals(&self) -> Option<&Arrivals>;
    /// The number of requests after which the run ends.
    fn requests_max(&self) -> Option<u64>;
    /// Maximum number of open sockets.
    fn sockets_max(&self) -> u64;
    /// The parameters for opening connections.
    fn dial(&self) -> Dial;
    /// The waits of the users for pages, if the run tracks these waits.
    fn waits(&self) -> Waits {
        Waits::default()
    }
    /// The protocol of the connections.
    fn protocol(&self) -> Protocol {
        Protocol::Http1
    }
}

/// Maximum number of intervals of a run, and the bounds of an interval's length. A report's page is
/// some hundred points wide, and a progress line that moves twice a second looks alive.
const INTERVALS: u32 = 200;
const INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));

/// The least number of users for each part of the arrivals. An arrival waits while all users of the
/// part are busy, even if other users are free. Among so many users some are nearly always free,
/// and a part for each core saves the cores a common lock.
const GROUP_USERS: usize = 64;

/// Receive buffers of a core.
const RECV_BUFFERS: u16 = 512;

/// A running run.
pub(super) struct Engine<'a> {
    common: &'a CommonOptions,
    runtime: Runtime,
    context: Arc<RunContext>,
    /// The cpu of each core.
    cpus: Vec<usize>,
    cpu_ns: CpuNs,
    users: usize,
    is_open: bool,
    /// The time from the planned start to the spawn of the first user.
    began_late: Duration,
}

impl<'a> Engine<'a> {
    /// Starts the cores and the users. Connections that part may use `spare_descriptors`.
    pub(super) fn start(
        common: &'a CommonOptions,
        supply: &dyn Supply,
        spare_descriptors: u64,
    ) -> Result<Self, LoadError> {
        let io = DriverOptions {
            choice: common.io,
            recv_buffers: RECV_BUFFERS,
            recv_buffer_bytes: RECV_BUFFER_BYTES,
            ..DriverOptions::default()
        };
        // Users stay on the cores of their connections, so a policy has nothing to move and nothing
        // to learn.
        let mut builder = Runtime::builder().io(io).policy(Policy::None).observe(Observe::Off);
        if !common.cpus.is_empty() {
            builder = builder.cpus(common.cpus.iter().copied());
        }
        let runtime = builder.build()?;
        let handle = runtime.handle();
        let cores = handle.cores().len();
        let schedules: Vec<Schedule> = supply.arrivals().map_or_else(Vec::new, |arrivals| {
            let LoadShare { index, of, .. } = common.share;
            // This injector has every `of`-th arrival. The groups of its users take these arrivals
            // in turn.
            let groups = (supply.users() / GROUP_USERS).clamp(1, cores);
            let schedule = |group| arrivals.schedule(index + of * group, of * groups, common.seed);
            (0..groups).map(schedule).collect()
        });
        let is_open = !schedules.is_empty();
        let sets = Sets::new(common.sets.clone(), common.choice, common.share.first_user);
        let tickets = supply.requests_max();
        let ledger = Ledger::new(cores);
        let context = Arc::new(RunContext::new(
            ledger,
            sets,
            schedules,
            tickets,
            common,
            (supply.dial(), supply.waits()),
            Parting::new(cores, spare_descriptors),
        ));
        let cpu_ns: CpuNs = (0..cores).map(|_| AtomicU64::new(0)).collect();
        for core in handle.cores() {
            let beat = pulse(context.clone(), core.0 as usize, cpu_ns.clone());
            drop(handle.spawn_on(&handle.color_on(core), beat));
        }
        // Before the spawn of many users, which takes its time. A ramp-up begins most users later.
        let began_late = common.begins.map_or(Duration::ZERO, |begins| begins.elapsed());
        supply.spawn(&handle, &context);
        let cpus = handle.cores().map(|core| handle.cpu(core)).collect();
        Ok(Self { common, runtime, context, cpus, cpu_ns, users: supply.users(), is_open, began_late })
    }

    /// Waits until the run or the watcher ends the run.
    pub(super) fn finish(self, watch: &mut dyn RunObserver) -> Outcome {
        let phases = self.common.phases;
        wait_until(self.context.epoch, &self.context);
        let mut course = RunCourse::new(&self.context, &phases);
        let readings = || Readings::take(&self.cpu_ns, &self.cpus);
        let mut used = (readings(), readings());
        let (mut ended, mut missed, mut waits) = (ControlFlow::Continue(()), 0, None);
        for (phase, lasts) in [
            (RunPhase::RampUp, phases.ramp_up),
            (RunPhase::WarmUp, phases.warm_up),
            (RunPhase::Window, phases.window),
            (RunPhase::RampDown, phases.ramp_down),
        ] {
            if ended.is_break() || lasts.is_zero() {
                continue;
            }
            if phase == RunPhase::Window {
                used.0 = readings();
            }
            ended = course.pass(phase, lasts, watch);
            if phase == RunPhase::Window {
                used.1 = readings();
                let now = Instant::now();
                missed = self.context.missed(now);
                waits = self.context.waits.open(now.saturating_duration_since(self.context.epoch));
            }
        }
        self.context.stop();
        let io = self.runtime.handle().snapshot().cores.first().map(|core| core.io.clone());
        let outcome = Outcome {
            unfinished: course.begun.saturating_sub(course.ended),
            waits,
            missed,
            is_counted: self.context.is_done(),
            total: course.total,
            window: course.window,
            planned: phases.window,
            intervals: course.intervals,
            cpu: used.1.process.saturating_sub(used.0.process),
            cores_busy: used.1.busy_since(&used.0),
            stolen: used.1.stolen_since(&used.0),
            resent: used.1.resent_since(&used.0),
            card: used.1.card_since(&used.0),
            users: self.users,
            began_late: self.began_late,
            is_open: self.is_open,
            interrupted: course.interrupted,
            agents: Vec::new(),
            lost: Vec::new(),
            io: io.unwrap_or_default(),
        };
        drop(self.runtime);
        outcome
    }
}

/// Waits until `at`, or until the end of the run.
fn wait_until(at: Instant, context: &RunContext) {
    while let Some(left) = at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        && !context.is_over()
    {
        std::thread::park_timeout(left);
    }
}

/// The results of a run so far.
struct RunCourse<'a> {
    context: &'a RunContext,
    began: Instant,
    /// The end of the last interval.
    collected: Instant,
    planned: Option<Duration>,
    interval: Duration,
    total: Tally,
    /// The counts of the last interval; kept to reuse the memory.
    last: Tally,
    window: Duration,
    intervals: Vec<Interval>,
    /// Requests begun and ended, in all phases up to the end of the window.
    begun: u64,
    ended: u64,
    interrupted: bool,
}

impl<'a> RunCourse<'a> {
    fn new(context: &'a RunContext, phases: &Phases) -> Self {
        let planned = phases.total();
        Self {
            context,
            began: context.epoch,
            collected: context.epoch,
            planned,
            interval: planned
                .map_or(INTERVAL.1, |planned| (planned / INTERVALS).clamp(INTERVAL.0, INTERVAL.1)),
            total: Tally::default(),
            last: Tally::default(),
            window: Duration::ZERO,
            intervals: Vec::new(),
            begun: 0,
            ended: 0,
            interrupted: false,
        }
    }

    /// Collects until the end of the phase or the run, or until the watcher ends the run.
    fn pass(&mut self, phase: RunPhase, lasts: Duration, watch: &mut dyn RunObserver) -> ControlFlow<()> {
        // Not now, because requests since then count in this phase.
        let phase_began = self.collected;
        let phase_ends = phase_began + lasts;
        loop {
            let begins = self.collected;
            // If the rest of the phase is shorter than half an interval, this interval includes the
            // rest, because a rate over a short moment is meaningless.
            let next = begins + self.interval;
            let ends = if phase_ends < next + self.interval / 2 { phase_ends } else { next };
            wait_until(ends, self.context);
            // Checked before the collection, because the last users may count and end meanwhile.
            let over = self.context.is_over();
            self.context.ledger.collect(&mut self.last);
            let now = Instant::now();
            if phase == RunPhase::Window && now >= phase_ends {
                self.last.overdue = self.context.waits.overdue(now - self.context.epoch);
            }
            self.add(phase, begins, now);
            if phase == RunPhase::Window {
                self.window = now - phase_began;
            }
            self.collected = now;
            let interval = self.intervals.last().expect("just added");
            let elapsed = now - self.began;
            let progress = RunProgress {
                elapsed,
                planned: self.planned,
                interval,
                counted: &self.last,
                total: &self.total,
            };
            if watch.see(progress).is_break() {
                self.interrupted = true;
                return ControlFlow::Break(());
            }
            if over {
                return ControlFlow::Break(());
            }
            if now >= phase_ends {
                return ControlFlow::Continue(());
            }
        }
    }

    /// Adds the last interval to the run.
    fn add(&mut self, phase: RunPhase, begins: Instant, now: Instant) {
        let tally = &self.last;
        self.intervals.push(Interval {
            begins: begins - self.began,
            lasts: now - begins,
            phase,
            good: tally.good,
            failed: tally.failed(),
            bytes: tally.bytes,
            users: self.context.users_there(),
            percentiles: Interval::percentiles_of(&tally.response),
        });
        if phase != RunPhase::RampDown {
            self.begun += tally.begun;
            self.ended += tally.ended();
        }
        if phase == RunPhase::Window {
            self.total.merge(tally);
        }
    }
}
