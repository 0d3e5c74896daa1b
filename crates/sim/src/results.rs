//! The results of a run: counts and times, from which reports are made.
//!
//! Owns the numbers of the counted part of a run, and the trace hash of the whole run. Leaves out
//! the presentation (`report.rs`).

use vermeil_sched::CoreIndex;
use vermeil_sched::control::Decision;

use crate::histogram::SimHistogram;
use crate::machine::SimMachine;
use crate::memory::{CoreTraffic, Memory};
use crate::options::SimOptions;
use crate::random;
use crate::workload::CompiledProgram;

/// Counts of a core since counting began. Times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct CoreCounts {
    /// Events run.
    pub events: u64,
    /// Time in handlers, within the counted part: a run may begin before and end after.
    pub busy_ns: u64,
    /// The part of `busy_ns` that is base cycles, without waits for memory.
    pub base_ns: u64,
    /// Time in searches, successful or not.
    pub search_ns: u64,
    /// Time spent waiting for locks.
    pub lock_ns: u64,
    /// Time asleep, and in the wake-up after a sleep.
    pub idle_ns: u64,
    /// Colors taken from other cores.
    pub steals: u64,
    /// Time of the successful visits, including the locks; a part of `search_ns`.
    pub steal_ns: u64,
    /// Run time of the events that were queued when their color was stolen.
    pub stolen_work_ns: u64,
    /// Searches that found no work.
    pub vain_searches: u64,
    /// Number of times the core went to sleep.
    pub parks: u64,
    /// Number of times the core woke another core.
    pub wakes: u64,
    /// Events that ran on another core than the color's last event.
    pub cold_runs: u64,
    /// Cache lines of queues, locks and colors that came from outside the core's caches, in
    /// thousandths.
    pub runtime_lines_milli: u64,
}

/// The results of one handler.
#[derive(Clone, Debug, Default)]
pub struct HandlerCounts {
    /// Number of runs.
    pub runs: u64,
    /// Time of the runs.
    pub run_ns: u64,
    /// Runs of a color that came from another core.
    pub cold_runs: u64,
    /// Time of the cold runs.
    pub cold_ns: u64,
}

/// The load of the counted part: requests that came, and events that waited before.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadCounts {
    /// Requests of sources that do not wait for answers: open sources and bursts.
    pub asked: u64,
    /// Answers to requests of such sources, including requests of the warm-up.
    pub answered: u64,
    /// Events that waited when counting began.
    pub waiting_at_start: u64,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Results {
    /// The policy's name, or "ideal".
    pub policy: String,
    /// The machine's name.
    pub machine: String,
    /// The workload's name.
    pub workload: String,
    /// The seed.
    pub seed: u64,
    /// Mixed from the start of every event: equal runs have equal hashes.
    pub hash: u64,
    /// Length of the counted part.
    pub counted_ns: u64,
    /// Whether the program answers requests.
    pub answers: bool,
    /// Requests answered in the counted part.
    pub answered: u64,
    /// Requests asked, and events that waited.
    pub load: LoadCounts,
    /// Time from a request to its answer.
    pub latency: SimHistogram,
    /// The same by node of the core that accepted the connection.
    pub latency_by_node: Vec<SimHistogram>,
    /// Time from the posting of an event to its start.
    pub waits: SimHistogram,
    /// By core.
    pub cores: Vec<CoreCounts>,
    /// By handler, in the workload's order.
    pub handlers: Vec<HandlerCounts>,
    /// Memory traffic by core.
    pub traffic: Vec<CoreTraffic>,
    /// Use of links in thousandths of their bandwidth: by link and direction.
    pub link_use_milli: Vec<u64>,
    /// Use of each node's memory.
    pub memory_use_milli: Vec<u64>,
    /// Use of each outermost cache's port, if the port has a bound.
    pub port_use_milli: Vec<u64>,
    /// Use of the fullest window (17 us) of any link.
    pub link_peak_milli: u64,
    /// Bytes to and from memory.
    pub memory_bytes: u64,
    /// Bytes that network cards sent.
    pub sent_bytes: u64,
    /// Colors moved by placements, to a leader, or from a removed core.
    pub moves: u64,
    /// Colors that a core gave to another core before they waited, or called to itself with a post.
    pub handed_over: u64,
    /// The latest decisions of the placement controller, oldest first; handlers in the workload's
    /// order.
    pub decisions: Vec<Decision>,
    /// Number of decisions in the whole run.
    pub decided: u64,
    /// Time of the whole machine that trials of plans have lost in the whole run, if the controller
    /// bounds this loss.
    pub regret_ns: Option<u64>,
    /// Events begun in the whole run.
    pub steps: u64,
    /// Moments of the whole run: arrivals, steps of cores, faults.
    pub moments: u64,
    /// Events posted in the whole run.
    pub posted: u64,
    /// Events that had not run at the end.
    pub queued_at_end: u64,
    /// Requests that had not ended.
    pub requests_live_at_end: usize,
    /// Most colors at once.
    pub colors_at_most: usize,
    /// Events and requests that never ran, in a run that was to finish.
    pub stuck: u64,
    /// The first finding of an audit: the invariant and a description.
    pub audit: Option<(&'static str, String)>,
    began_ns: u64,
    sent: Vec<u64>,
}

impl Results {
    pub(crate) fn new(machine: &SimMachine, program: &CompiledProgram, options: &SimOptions) -> Self {
        Self {
            policy: if options.ideal { "ideal".to_owned() } else { options.policy.to_string() },
            machine: machine.name().to_owned(),
            workload: program.name().to_owned(),
            seed: options.seed,
            hash: options.seed,
            counted_ns: 0,
            answers: program.answers(),
            answered: 0,
            load: LoadCounts::default(),
            latency: SimHistogram::default(),
            latency_by_node: vec![SimHistogram::default(); machine.nodes()],
            cores: Vec::new(),
            waits: SimHistogram::default(),
            handlers: vec![HandlerCounts::default(); program.handlers.len()],
            traffic: Vec::new(),
            link_use_milli: Vec::new(),
            memory_use_milli: Vec::new(),
            port_use_milli: Vec::new(),
            link_peak_milli: 0,
            memory_bytes: 0,
            sent_bytes: 0,
            moves: 0,
            handed_over: 0,
            decisions: Vec::new(),
            decided: 0,
            regret_ns: None,
            steps: 0,
            moments: 0,
            posted: 0,
            queued_at_end: 0,
            requests_live_at_end: 0,
            colors_at_most: 0,
            stuck: 0,
            audit: None,
            began_ns: 0,
            sent: vec![0; program.sources.len()],
        }
    }

    /// Begins the counted part, while `waiting` events wait. Drops the counts of the warm-up.
    pub(crate) fn begin(&mut self, now_ns: u64, waiting: u64) {
        self.began_ns = now_ns;
        self.answered = 0;
        self.load = LoadCounts { waiting_at_start: waiting, ..LoadCounts::default() };
        self.latency = SimHistogram::default();
        self.latency_by_node.fill(SimHistogram::default());
        self.waits = SimHistogram::default();
        self.handlers.fill(HandlerCounts::default());
        self.moves = 0;
        self.handed_over = 0;
        self.sent_bytes = 0;
    }

    pub(crate) fn end(&mut self, now_ns: u64, steps: u64, memory: &Memory) {
        self.counted_ns = (now_ns - self.began_ns).max(1);
        self.steps = steps;
        let usage = memory.usage_milli(self.counted_ns * crate::machine::PS_PER_NS);
        self.link_use_milli = usage.links;
        self.memory_use_milli = usage.memories;
        self.port_use_milli = usage.ports;
        self.link_peak_milli = usage.link_peak;
        self.memory_bytes = usage.carried_bytes;
        self.traffic = memory.traffic().to_vec();
    }

    /// Mixes the start of an event into the hash.
    pub(crate) fn fold(&mut self, at_ns: u64, core: CoreIndex, event: u64) {
        self.hash = random::mix(self.hash ^ at_ns ^ u64::from(core.0) << 48 ^ event.rotate_left(24));
    }

    pub(crate) fn ran(&mut self, handler: u16, run_ns: u64, cold: bool) {
        let counts = &mut self.handlers[usize::from(handler)];
        counts.runs += 1;
        counts.run_ns += run_ns;
        counts.cold_runs += u64::from(cold);
        counts.cold_ns += if cold { run_ns } else { 0 };
    }

    /// Counts an answer. `is_open`: the request's source does not wait for answers.
    pub(crate) fn answered(&mut self, node: usize, took_ns: u64, is_open: bool) {
        self.answered += 1;
        self.load.answered += u64::from(is_open);
        self.latency.add(took_ns);
        self.latency_by_node[node].add(took_ns);
    }

    pub(crate) fn sent(&mut self, source: usize, count: u64) {
        self.sent[source] += count;
        self.load.asked += count;
    }

    pub(crate) fn sent_by(&self, source: usize) -> u64 {
        self.sent[source]
    }

    /// Requests answered per second. Sources that do not wait for answers count at most the
    /// requests that came in the counted part, because a backlog of the warm-up is no merit.
    pub fn per_second(&self) -> f64 {
        let of_warm_up = self.load.answered.saturating_sub(self.load.asked);
        (self.answered - of_warm_up) as f64 * 1e9 / self.counted_ns as f64
    }

    /// Growth of the waiting events in the counted part, in percent of the events that ran; `None`
    /// without events.
    pub fn backlog_percent(&self) -> Option<f64> {
        let grown = self.queued_at_end as f64 - self.load.waiting_at_start as f64;
        (self.events() > 0).then(|| 100.0 * grown / self.events() as f64)
    }

    /// Events run in the counted part.
    pub fn events(&self) -> u64 {
        self.cores.iter().map(|core| core.events).sum()
    }

    /// Events run per second.
    pub fn events_per_second(&self) -> f64 {
        self.events() as f64 * 1e9 / self.counted_ns as f64
    }

    /// The sum of a count over all cores.
    pub fn sum(&self, of: impl Fn(&CoreCounts) -> u64) -> u64 {
        self.cores.iter().map(of).sum()
    }

    /// The memory traffic of all cores.
    pub fn all_traffic(&self) -> CoreTraffic {
        let mut all = CoreTraffic::default();
        self.traffic.iter().for_each(|traffic| all.add(traffic));
        all
    }

    /// Share of the cores' time in which handlers ran, 0 to 1.
    pub fn busy(&self) -> f64 {
        self.sum(|core| core.busy_ns) as f64 / (self.counted_ns as f64 * self.cores.len() as f64)
    }
}
