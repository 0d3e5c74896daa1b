//! The options of a run: policy, seed and faults.
//!
//! Owns the options and their defaults.

use vermeil_sched::Policy;
use vermeil_sched::plan::Plan;

/// A run's options.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The policy that moves colors.
    pub policy: Policy,
    /// The seed of all random draws.
    pub seed: u64,
    /// Length of the run in nanoseconds of virtual time, instead of the workload's length.
    pub run_ns: Option<u64>,
    /// The ideal schedule, against which others are measured: one queue for all cores, first come
    /// first served, with warm caches and no overheads.
    pub ideal: bool,
    /// Maximum number of events of a color in a row. Default: the scheduler's
    /// ([`vermeil_sched::TurnLimits`]), or 1 under policies that place handlers, as in the source
    /// documents. `libasync` always runs 1, because its queues hold events and not colors.
    pub batch_events: Option<usize>,
    /// How long a core without work spins before the core sleeps, in nanoseconds.
    pub spin_ns: u64,
    /// Whether handlers' annotated costs are known. `mely` needs annotations; elsewhere they are
    /// priors. Default: only under `mely`.
    pub annotated: Option<bool>,
    /// The plan of `placed:FILE`. The caller reads the file, because this crate opens no files.
    pub plan: Option<Plan>,
    /// A thief waits for a taken lock, as in the source documents' runtimes. This project's thieves
    /// do not wait.
    pub waits_for_locks: bool,
    /// An instance of the program per node: colors that are made on a node stay there, under any
    /// policy.
    pub instance_per_node: bool,
    /// A thief leaves a color that holds half of the victim's waiting events or more, as in the
    /// source documents' runtimes.
    pub leaves_half: bool,
    /// An empty color returns to the core for which it was made. So do runtimes that hash colors to
    /// cores, where a steal redirects queued events and their successors only. Default: an empty
    /// color stays on the core of its last run.
    pub colors_return: bool,
    /// Time between two rounds of the placement controller, in nanoseconds. Default: the
    /// controller's.
    pub control_ns: Option<u64>,
    /// Time after the end in which pending requests are still answered and clients send none, in
    /// nanoseconds. 0: the run stops at the end.
    pub drain_ns: u64,
    /// Steps between two audits of the invariants that only the world itself can check. Audits are
    /// slow.
    pub audit_every: Option<u32>,
    /// The injected faults.
    pub faults: Vec<InjectedFault>,
    /// A bug of the scheduler that the run plants, so that a test can show that the checks notice
    /// the bug.
    pub planted: Option<PlantedBug>,
}

impl SimOptions {
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
            planted: None,
        }
    }

    /// The ideal schedule.
    pub fn ideal() -> Self {
        Self { ideal: true, ..Self::new(Policy::None) }
    }
}

/// A bug of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A sleeping core neither gets a color that waits elsewhere, nor is woken for the color, nor
    /// watches other cores.
    SleepsBesideWork,
}

/// An injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// Wake-ups take longer.
    LateWakes {
        /// Factor of the wake-up time.
        times: u32,
    },
    /// Sleeping cores wake without a reason.
    SpuriousWakes {
        /// Mean time between two such wake-ups on the whole machine.
        every_us: u32,
    },
    /// A core becomes slower, and the scheduler is not told.
    SlowCore {
        /// The core, modulo the number of cores.
        core: u32,
        /// When the fault begins.
        at_us: u32,
        /// Speed in percent of full speed.
        percent: u32,
    },
    /// A core does nothing for a while, because its thread has lost the cpu.
    Pause {
        /// The core, modulo the number of cores.
        core: u32,
        /// When the pause begins.
        at_us: u32,
        /// Length of the pause.
        for_us: u32,
    },
    /// A core is removed; its waiting colors go to the next core.
    RemoveCore {
        /// The core, modulo the number of cores. The last core stays.
        core: u32,
        /// When the core is removed.
        at_us: u32,
    },
    /// Some runs take longer than their handler's cycles.
    Outliers {
        /// Number of such runs in 1,000.
        permille: u32,
        /// Factor of the cycles.
        times: u32,
    },
    /// Cores read outdated hints.
    StaleHints {
        /// Greatest age of a hint.
        by_us: u32,
    },
}
