//! How a program is run: policy, seed, and what goes wrong.
//!
//! Owns the knobs and their defaults.

use vermeil_sched::Policy;
use vermeil_sched::plan::Plan;

/// A run's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// What moves colors.
    pub policy: Policy,
    /// What all random draws come from.
    pub seed: u64,
    /// Instead of the workload's own length, in nanoseconds of virtual time.
    pub run_ns: Option<u64>,
    /// No scheduler at all but one queue for all cores, first come first served, with everything warm and nothing costing
    /// anything: the ideal that others are measured against.
    pub ideal: bool,
    /// Events of one color in a row; default: the scheduler's own ([`vermeil_sched::TurnLimits`]), or 1 under policies that
    /// place handlers, as in the source document.
    pub batch_events: Option<usize>,
    /// How long a core without work goes on looking before it sleeps, in nanoseconds.
    pub spin_ns: u64,
    /// Whether handlers' annotated costs are known: `mely` needs them, and they are priors elsewhere. Default: to `mely` only.
    pub annotated: Option<bool>,
    /// The plan of `placed:FILE`, read by whoever may open files.
    pub plan: Option<Plan>,
    /// A thief waits for a lock that is taken, as the documents' runtimes did; this project's passes on.
    pub waits_for_locks: bool,
    /// One instance of the program on each node: what is made on a node stays there, under any policy.
    pub instance_per_node: bool,
    /// A thief leaves a color that holds half of the victim's waiting events or more, as the documents' runtimes did.
    pub leaves_half: bool,
    /// A color that has become empty belongs again to the core it was made for, as where colors are hashed to cores and a steal
    /// redirects only what is queued and what follows from it. Default: it stays where it ran last.
    pub colors_return: bool,
    /// How often the placement controller looks, in nanoseconds; default: its own.
    pub control_ns: Option<u64>,
    /// After the end nobody asks any more, and what was asked has so long to be answered, in nanoseconds; 0: no time at all.
    pub drain_ns: u64,
    /// Steps between two audits of what cannot be seen from outside; slow.
    pub audit_every: Option<u32>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

impl Options {
    /// A plain run of this policy.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            seed: 1,
            run_ns: None,
            ideal: false,
            batch_events: None,
            spin_ns: 0,
            annotated: None,
            plan: None,
            waits_for_locks: false,
            instance_per_node: false,
            leaves_half: false,
            colors_return: false,
            control_ns: None,
            drain_ns: 0,
            audit_every: None,
            faults: Vec::new(),
        }
    }

    /// The ideal schedule.
    pub fn ideal() -> Self {
        Self { ideal: true, ..Self::new(Policy::None) }
    }
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Wake-ups take so many times as long.
    LateWakes {
        /// How many.
        times: u32,
    },
    /// Sleeping cores wake for nothing, so often.
    SpuriousWakes {
        /// Mean time between two of them on the whole machine.
        every_us: u32,
    },
    /// From some time on a core runs at so many percent of its speed, and nobody is told.
    SlowCore {
        /// Which, modulo the number of cores.
        core: u32,
        /// From when.
        at_us: u32,
        /// How fast.
        percent: u32,
    },
    /// A core does nothing for a while: its thread has lost the cpu.
    Pause {
        /// Which, modulo the number of cores.
        core: u32,
        /// From when.
        at_us: u32,
        /// How long.
        for_us: u32,
    },
    /// A core is taken away; what waits for it goes to the next one.
    RemoveCore {
        /// Which, modulo the number of cores; the last one stays.
        core: u32,
        /// When.
        at_us: u32,
    },
    /// Some runs take so many times what their handler says.
    Outliers {
        /// How many in 1,000 runs.
        permille: u32,
        /// How many times as long.
        times: u32,
    },
    /// What cores publish about themselves is read so late.
    StaleHints {
        /// At most.
        by_us: u32,
    },
}
