//! The world: virtual cores that run the production scheduler on a simulated machine.
//!
//! The simulation has one thread and one clock. A step of a core matches a step of the runtime's
//! core between two checks of the queues. Decisions come from `vermeil_sched`, costs from the
//! machine, and handler times from the memory system. This module owns the state and the loop. The
//! steps: `step.rs` (an event and the next), `execute.rs` (a handler's time), `ready.rs` (posting,
//! tokens, wake-ups), `search.rs` (stealing and sleep), `lifo_slot.rs` (colors that follow the
//! running color), `arrive.rs` (requests), `accept.rs` (the core that accepts a connection),
//! `faults.rs`. `check.rs` checks the invariants from outside; `world/tests.rs` checks determinism
//! and accounts.

mod accept;
mod arrive;
mod audit;
mod clock;
mod colors;
mod control;
mod core;
mod costs;
mod execute;
mod faults;
mod idle;
mod lifo_slot;
mod lock;
mod ready;
mod requests;
mod search;
mod sets;
mod step;
#[cfg(test)]
mod tests;
mod victims;

use std::collections::VecDeque;
use std::sync::Arc;

use vermeil_queue::IdleCoordinator;
use vermeil_sched::{CoreIndex, CoreLoad, CostHint, Policy, Ready, Stealing, Stolen, Turn, TurnLimits};

use crate::machine::{PS_PER_NS, SimMachine};
use crate::memory::{Memory, ObjectId};
use crate::options::SimOptions;
use crate::random::{RandomStream, StreamPurpose};
use crate::results::{CoreCounts, Results};
use crate::watch::Watch;
use crate::workload::{CompiledProgram, ObjectLife};
use accept::AcceptChoice;
use clock::{EventClock, Moment};
use colors::{NONE, SimColors};
use control::{SimControl, SimCounting};
use core::{CorePhase, SimCore};
use costs::SimCosts;
use lock::SimLock;
use requests::{NetworkQueue, SimClient, SimRequests};
use sets::SimCoreSet;
use victims::Victims;

/// Runs a program on a machine.
pub fn simulate(machine: &SimMachine, program: &CompiledProgram, options: &SimOptions) -> Results {
    simulate_watched(machine, program, options, ()).0
}

/// As [`simulate`], with a watcher that sees every step. Returns the watcher.
pub fn simulate_watched<W: Watch>(
    machine: &SimMachine,
    program: &CompiledProgram,
    options: &SimOptions,
    watch: W,
) -> (Results, W) {
    let mut world = World::new(machine, program, options, watch);
    world.run();
    world.into_results()
}

/// Arrivals that wait for a polling handler.
#[derive(Clone, Debug, Default)]
struct Polled {
    waiting: VecDeque<u32>,
    is_posted: bool,
    /// Events posted so far to look for arrivals.
    looks: u32,
}

/// The inputs of a simulation.
struct SimInputs {
    machine: Arc<SimMachine>,
    program: CompiledProgram,
    options: SimOptions,
}

/// The only clock, and the progress of the loop.
struct SimTime {
    clock: EventClock,
    now_ns: u64,
    end_ns: u64,
    steps: u64,
    /// The start of the counted part.
    counts_from_ns: u64,
}

impl SimTime {
    /// The start of a run of this length; 0 for no end.
    fn new(cores: usize, run_ns: u64) -> Self {
        let end_ns = if run_ns == 0 { u64::MAX } else { run_ns };
        Self { clock: EventClock::new(cores), now_ns: 0, end_ns, steps: 0, counts_from_ns: 0 }
    }
}

/// The state of the cores that other cores see. Stored apart from the cores because every search
/// reads the hint of every victim.
struct SimShown {
    /// By core, the core's published hint.
    loads: Vec<CoreLoad>,
    /// The lock of each core's queue, which thieves try.
    locks: Vec<SimLock>,
    /// Cores with colors that a thief may take.
    giving: SimCoreSet,
    /// Cores that sleep.
    asleep: SimCoreSet,
    /// Cores that run an event.
    busy: SimCoreSet,
    /// Cores that keep a color out of their queues.
    keeping: SimCoreSet,
    everyone: SimCoreSet,
}

impl SimShown {
    fn new(cores: usize) -> Self {
        Self {
            loads: vec![CoreLoad::default(); cores],
            locks: vec![SimLock::default(); cores],
            giving: SimCoreSet::none(cores),
            asleep: SimCoreSet::all(cores),
            busy: SimCoreSet::none(cores),
            keeping: SimCoreSet::none(cores),
            everyone: SimCoreSet::all(cores),
        }
    }
}

/// The search of idle cores for colors of other cores.
struct SimThieves {
    stealing: Stealing,
    /// The colors that a visit takes, kept to reuse the allocation.
    steal_batch: Vec<Stolen<u32>>,
    /// By core, the victims of the core as a thief.
    victims: Vec<Victims>,
    /// By node.
    idle_coordinators: Vec<IdleCoordinator>,
    /// The only queue of the ideal schedule.
    central: VecDeque<u32>,
}

/// Clients, sources and requests.
struct SimArrivals {
    requests: SimRequests,
    clients: Vec<SimClient>,
    /// First client of each source.
    first_client: Vec<u32>,
    /// Network queues of each source.
    queues: Vec<Vec<NetworkQueue>>,
    accepting: AcceptChoice,
    polled: Vec<Polled>,
    /// By source, the part of a nanosecond that the last gap between requests left.
    rest_ps: Vec<u64>,
    /// Present rate of all open sources, in percent of their described rates.
    rate_percent: u32,
    /// Events, deliveries and requests yet to come. A workload that ends does so when this count is
    /// 0.
    outstanding: u64,
}

/// The costs and places of handlers.
struct SimPlacing {
    costs: SimCosts,
    /// The controller that places handlers, under policies that do so.
    control: Option<SimControl>,
    /// Counts of each core for the controller.
    counting: Vec<SimCounting>,
    /// By handler, the core of the handler's last run.
    ran_on: Vec<Option<CoreIndex>>,
    /// Present cycles of each handler, in percent of its described cycles.
    cycles_percent: Vec<u32>,
}

/// The objects in memory that handlers touch, and the colors that belong to objects.
struct SimObjects {
    /// Nodes that have cores.
    active_nodes: Vec<u16>,
    code: Vec<ObjectId>,
    /// By kind of object and instance.
    shared: Vec<Vec<Option<ObjectId>>>,
    instance_colors: Vec<Vec<u32>>,
    handler_colors: Vec<u32>,
    serial_color: u32,
}

/// The effects of faults on all cores.
struct SimFaults {
    wake_times: u32,
    stale_ns: u64,
    outliers: Option<(u32, u32)>,
}

/// The products of a simulation.
struct SimOutput<W> {
    results: Results,
    watch: W,
}

/// The state of a simulation.
struct World<W> {
    given: SimInputs,
    memory: Memory,
    time: SimTime,
    cores: Vec<SimCore>,
    shown: SimShown,
    thieves: SimThieves,
    colors: SimColors,
    arrivals: SimArrivals,
    placing: SimPlacing,
    objects: SimObjects,
    faults: SimFaults,
    output: SimOutput<W>,
}

impl<W: Watch> World<W> {
    fn new(machine: &SimMachine, program: &CompiledProgram, options: &SimOptions, watch: W) -> Self {
        let stealing = if options.ideal { Stealing::Never } else { options.policy.stealing() };
        let limits = TurnLimits { batch_events: batch_events(options), ..TurnLimits::default() };
        let core = |index: CoreIndex| {
            let speed = machine.cores[index.0 as usize].speed_percent;
            let ready = Ready::divided(stealing.order(), &program.classes);
            SimCore::new(index, ready, Turn::new(limits, stealing), speed)
        };
        let shared = Arc::new(machine.clone());
        let mut memory = Memory::new(shared.clone());
        let code = program.handlers.iter().enumerate();
        let code = code.map(|(index, handler)| {
            memory.allocate(handler.code_bytes.max(1), (index % machine.nodes) as u16, u32::MAX)
        });
        let code = code.collect();
        let cores = machine.cores();
        let mut world = Self {
            time: SimTime::new(cores, options.run_ns.unwrap_or(program.run_ns)),
            cores: machine.layout().indices().map(core).collect(),
            shown: SimShown::new(cores),
            thieves: SimThieves {
                stealing,
                steal_batch: Vec::new(),
                victims: Vec::new(),
                idle_coordinators: (0..machine.layout().nodes())
                    .map(|_| IdleCoordinator::default())
                    .collect(),
                central: VecDeque::new(),
            },
            colors: SimColors::default(),
            arrivals: SimArrivals {
                requests: SimRequests::default(),
                clients: Vec::new(),
                first_client: Vec::new(),
                queues: Vec::new(),
                accepting: AcceptChoice::new(machine),
                polled: vec![Polled::default(); program.sources.len()],
                rest_ps: vec![0; program.sources.len()],
                rate_percent: 100,
                outstanding: 0,
            },
            placing: SimPlacing {
                costs: SimCosts::new(stealing, cores, &cost_hints(machine, program, options)),
                control: SimControl::new(machine, program, options),
                counting: (0..cores).map(|_| SimCounting::default()).collect(),
                ran_on: vec![None; program.handlers.len()],
                cycles_percent: vec![100; program.handlers.len()],
            },
            objects: SimObjects {
                active_nodes: active_nodes(machine),
                code,
                shared: program.objects.iter().map(|kind| vec![None; instances(kind, machine)]).collect(),
                instance_colors: vec![Vec::new(); program.objects.len()],
                handler_colors: vec![NONE; program.handlers.len()],
                serial_color: NONE,
            },
            faults: SimFaults { wake_times: 1, stale_ns: 0, outliers: None },
            output: SimOutput { results: Results::new(machine, program, options), watch },
            memory,
            given: SimInputs { machine: shared, program: program.clone(), options: options.clone() },
        };
        world.begin();
        world
    }

    /// Puts the first moments on the clock.
    fn begin(&mut self) {
        self.thieves.victims =
            self.given.machine.layout().indices().map(|core| self.victims_of(core)).collect();
        self.begin_sources();
        for (index, shift) in self.given.program.shifts.clone().into_iter().enumerate() {
            self.time.clock.at(shift.at_ns, Moment::Shift { index: index as u32 });
        }
        self.begin_faults();
        self.begin_control();
        match self.given.program.warm_up_ns {
            0 => self.begin_counting(),
            warm_up_ns => self.time.clock.at(warm_up_ns, Moment::Count),
        }
    }

    fn begin_counting(&mut self) {
        self.time.counts_from_ns = self.time.now_ns;
        self.output.results.begin(self.time.now_ns, self.colors.queued());
        self.memory.forget_counts();
        for core in &mut self.cores {
            core.counts = CoreCounts::default();
            if let CorePhase::Parked { asleep_ns } = &mut core.phase {
                *asleep_ns = (*asleep_ns).max(self.time.now_ns);
            }
        }
    }

    /// Executes moment after moment until the end.
    fn run(&mut self) {
        while let Some((at_ns, moment)) = self.time.clock.next() {
            let is_over = at_ns > self.time.end_ns && !self.drains_until(at_ns);
            if is_over || self.output.watch.has_enough() {
                break;
            }
            self.time.now_ns = at_ns;
            match moment {
                Moment::Step { core } => {
                    self.step(core);
                    self.publish(core);
                    self.audit_if_due();
                }
                Moment::Ask { client } => self.ask(client),
                Moment::Send { source } => self.send(source),
                Moment::Deliver { event } => self.deliver(event),
                Moment::Batched { core } => self.queue_batched(CoreIndex(core)),
                Moment::Shift { index } => self.shift(index),
                Moment::Fault { index } => self.fault(index),
                Moment::Control => self.begin_round(),
                Moment::Count => self.begin_counting(),
            }
            if self.arrivals.outstanding == 0 {
                break;
            }
        }
        let over = self.time.end_ns != u64::MAX && self.arrivals.outstanding > 0;
        if self.given.options.drain_ns > 0 || self.time.end_ns == u64::MAX {
            self.output.results.stuck = self.arrivals.outstanding;
        } else if over {
            self.time.now_ns = self.time.end_ns;
        }
    }

    /// Whether `at_ns` is within the time after the end in which pending requests are still
    /// answered.
    fn drains_until(&mut self, at_ns: u64) -> bool {
        at_ns <= self.time.end_ns.saturating_add(self.given.options.drain_ns)
    }

    /// Whether clients and sources have stopped sending requests.
    fn is_draining(&self) -> bool {
        self.time.now_ns > self.time.end_ns
    }

    fn shift(&mut self, index: u32) {
        let shift = self.given.program.shifts[index as usize];
        match (shift.handler, shift.cycles_percent) {
            (Some(handler), Some(percent)) => self.placing.cycles_percent[usize::from(handler)] = percent,
            (None, Some(percent)) => self.placing.cycles_percent.fill(percent),
            (_, None) => {}
        }
        self.arrivals.rate_percent = shift.rate_percent.unwrap_or(self.arrivals.rate_percent);
    }

    /// Continues the core at this time, and drops the core's other plans.
    fn go_on(&mut self, core: CoreIndex, at_ns: u64) {
        self.time.clock.step_at(at_ns, core);
    }

    /// Updates the published hint after a change of the core's ready queue.
    fn gauge(&mut self, core: CoreIndex) {
        let (load, ready) =
            (&mut self.shown.loads[core.0 as usize], &self.cores[core.0 as usize].queue.ready);
        (load.waiting, load.stealable) = SimCore::queued(ready);
        match load.stealable {
            0 => self.shown.giving.remove(core),
            _ => self.shown.giving.insert(core),
        }
    }

    /// Publishes the core's present hint.
    fn publish(&mut self, core: CoreIndex) {
        let at = core.0 as usize;
        self.shown.loads[at] = self.cores[at].core_load();
    }

    fn core(&mut self, core: CoreIndex) -> &mut SimCore {
        &mut self.cores[core.0 as usize]
    }

    /// The time of this wake-up, drawn at random.
    fn wake_ns(&mut self, core: CoreIndex) -> u64 {
        let costs = &self.given.machine.costs;
        let wakes = &mut self.cores[core.0 as usize].idleness.wakes;
        *wakes += 1;
        let mut stream =
            RandomStream::new(self.given.options.seed, StreamPurpose::Wake, u64::from(core.0) << 32 | *wakes);
        let usual = if stream.chance(costs.wake_tail_permille) {
            costs.wake_tail_ns
        } else {
            // Half to one and a half times the median.
            costs.wake_median_ns / 2 + stream.below(costs.wake_median_ns.max(1))
        };
        usual * u64::from(self.faults.wake_times)
    }

    fn into_results(mut self) -> (Results, W) {
        self.output.watch.ended(self.time.now_ns);
        for index in 0..self.cores.len() {
            if let Some(running) = self.cores[index].running {
                self.count_time(CoreIndex(index as u32), &running);
            }
        }
        for core in &mut self.cores {
            if let CorePhase::Parked { asleep_ns } = core.phase {
                core.counts.idle_ns += self.time.now_ns.saturating_sub(asleep_ns);
            }
        }
        let mut results = self.output.results;
        results.end(self.time.now_ns, self.time.steps, &self.memory);
        results.cores = self.cores.into_iter().map(|core| core.counts).collect();
        if let Some(control) = &self.placing.control {
            control.tell(&mut results);
        }
        results.queued_at_end = self.colors.queued();
        results.posted = self.colors.posted();
        results.moments = self.time.clock.happened();
        results.colors_at_most = self.colors.len();
        results.requests_live_at_end = self.arrivals.requests.live();
        (results, self.output.watch)
    }
}

fn active_nodes(machine: &SimMachine) -> Vec<u16> {
    let mut nodes: Vec<u16> = machine.cores.iter().map(|core| core.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// The authors' annotations of handlers, if the policy knows annotations.
fn cost_hints(machine: &SimMachine, program: &CompiledProgram, options: &SimOptions) -> Vec<CostHint> {
    let known = options.annotated.unwrap_or(options.policy == Policy::Mely);
    let cost_hint = |(index, handler): (usize, &crate::workload::SimHandler)| {
        let cost_ns = match &program.trace {
            Some(trace) => trace.mean_ns(index),
            None => machine.cycles_ps(handler.annotated_cycles) / PS_PER_NS,
        };
        let cost_ns = cost_ns.clamp(1, u64::from(u32::MAX)) as u32;
        if known { CostHint { cost_ns, penalty: handler.annotated_penalty } } else { CostHint::default() }
    };
    program.handlers.iter().enumerate().map(cost_hint).collect()
}

/// Events of one color in a row. Where every event has a queue entry of its own, the number is 1.
/// Where handlers are placed, the number is 1 unless the options give another.
fn batch_events(options: &SimOptions) -> usize {
    match options.policy {
        Policy::Libasync => 1,
        Policy::Placed(_) | Policy::Trial => options.batch_events.unwrap_or(1),
        _ => options.batch_events.unwrap_or(TurnLimits::default().batch_events),
    }
}

fn instances(kind: &crate::workload::ObjectKind, machine: &SimMachine) -> usize {
    match kind.life {
        ObjectLife::Shared => kind.count as usize,
        ObjectLife::Node => machine.nodes,
        ObjectLife::Core => machine.cores.len(),
        ObjectLife::Request | ObjectLife::Client => 0,
    }
}
