//! The state of the placement of handlers, which a runtime's cores share: the monitor, the
//! controller and the plan.
//!
//! Leaves out the rounds and the moves (`control.rs`). Tested in `tests/control.rs`.

use crate::{color_meta::RuntimeQueue, error::StartError};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};
use vermeil_sched::{
    CoreIndex, HandlerIndex, Layout, Placement, PlanName, Policy,
    control::{AnswerWindow, Controller, Monitor, TrialOptions, controller},
    plan::{Plan, PlanFile, PlanRules},
};

/// No round is due.
pub(crate) const NEVER: u64 = u64::MAX;

/// In place of a unit's number: the handler is no unit.
const NO_UNIT: u32 = u32::MAX;

pub(crate) struct RuntimeControl {
    pub(crate) state: Mutex<ControlState>,
    /// By handler, the handler's unit.
    pub(crate) units: Box<[AtomicU32]>,
    /// The open or last round. Cores answer when they see a raised number.
    pub(crate) round: AtomicU64,
    /// When the next round begins, on the measuring clock.
    pub(crate) due_ns: AtomicU64,
    /// The core that begins the next round.
    pub(crate) at: AtomicU32,
}

/// The work of a controller so far.
#[derive(Default)]
pub(crate) struct ControlReport {
    /// Recent decisions in words, oldest first.
    pub(crate) decisions: Vec<String>,
    /// The current core of each unit.
    pub(crate) handlers: Vec<(String, CoreIndex)>,
    /// Time lost to trials, if the policy bounds that time.
    pub(crate) regret_ns: Option<u64>,
    /// The error of a plan's file.
    pub(crate) unknown: Option<String>,
    /// Colors sent to other cores, and the messages for these moves.
    pub(crate) moves: u64,
    pub(crate) messages: u64,
}

pub(crate) struct ControlState {
    pub(crate) monitor: Monitor,
    pub(crate) controller: Box<dyn Controller>,
    /// The planned place of each unit, including moves that are still under way.
    pub(crate) plan: Plan,
    /// By number.
    pub(crate) units: Vec<ControlUnit>,
    pub(crate) rules: PlanRules,
    /// The plan to keep, if the plan must be computed again for each number of units.
    pub(crate) kept: Option<PlanSource>,
    pub(crate) layout: Layout,
    pub(crate) moves: u64,
    pub(crate) messages: u64,
}

pub(crate) struct ControlUnit {
    pub(crate) color: Arc<RuntimeQueue>,
    pub(crate) name: String,
    /// The first unit of this color: the unit itself, or the earliest unit of its group.
    pub(crate) first: HandlerIndex,
}

pub(crate) enum PlanSource {
    Named(PlanName),
    File(PlanFile),
}

impl RuntimeControl {
    /// The controller of a policy that places handlers.
    pub(crate) fn new(
        policy: &Policy,
        trial: TrialOptions,
        layout: &Layout,
        handlers: usize,
    ) -> Result<Option<Self>, StartError> {
        let Some(controller) = controller(policy, layout, trial) else { return Ok(None) };
        let kept = match policy {
            Policy::Placed(PlanName::File(path)) => Some(PlanSource::File(read_plan(path, layout.cores())?)),
            Policy::Placed(named) => Some(PlanSource::Named(named.clone())),
            _ => None,
        };
        let state = ControlState {
            monitor: Monitor::new(layout.cores()),
            controller,
            plan: Plan::default(),
            units: Vec::new(),
            rules: PlanRules::new(),
            kept,
            layout: layout.clone(),
            moves: 0,
            messages: 0,
        };
        Ok(Some(Self {
            state: Mutex::new(state),
            units: (0..=handlers).map(|_| AtomicU32::new(NO_UNIT)).collect(),
            round: AtomicU64::new(0),
            due_ns: AtomicU64::new(NEVER),
            at: AtomicU32::new(0),
        }))
    }

    /// The unit of a handler, if the handler is a unit.
    #[inline]
    pub(crate) fn unit(&self, handler: HandlerIndex) -> Option<HandlerIndex> {
        let unit = self.units[handler.0 as usize].load(Ordering::Relaxed);
        (unit != NO_UNIT).then_some(HandlerIndex(unit))
    }

    /// Nanoseconds until the round that `core` will begin.
    pub(crate) fn until_round_ns(&self, core: CoreIndex, now_ns: u64) -> Option<u64> {
        let due_ns = self.due_ns.load(Ordering::Relaxed);
        (self.at.load(Ordering::Relaxed) == core.0 && due_ns != NEVER).then(|| due_ns.saturating_sub(now_ns))
    }

    #[cfg(test)]
    pub(crate) fn set_controller(&self, controller: Box<dyn Controller>) {
        self.state.lock().expect("nothing panics under this lock").controller = controller;
    }

    /// The report for [`Handle::placements`](crate::Handle::placements).
    pub(crate) fn report(&self) -> ControlReport {
        let state = self.state.lock().expect("nothing panics under this lock");
        let name =
            |unit: HandlerIndex| state.units.get(unit.0 as usize).map_or("?", |unit| &unit.name).to_owned();
        let decisions = state.controller.decisions().iter();
        ControlReport {
            decisions: decisions.map(|decision| decision.told(name)).collect(),
            handlers: state
                .units
                .iter()
                .map(|unit| (unit.name.clone(), CoreIndex(unit.color.core())))
                .collect(),
            regret_ns: state.controller.regret_ns(),
            unknown: state.unknown(),
            moves: state.moves,
            messages: state.messages,
        }
    }

    /// Drops the colors, because a color keeps the runtime alive.
    pub(crate) fn clear(&self) {
        self.state.lock().expect("nothing panics under this lock").units.clear();
    }
}

impl ControlState {
    /// Adds the next unit. Its color lives at `place`, and may belong to a known group.
    pub(crate) fn add(&mut self, name: &str, color: &Arc<RuntimeQueue>, place: Placement) -> HandlerIndex {
        let unit = HandlerIndex(self.units.len() as u32);
        let known = self.units.iter().find(|known| known.color.id() == color.id());
        let first = known.map_or(unit, |known| known.first);
        self.rule(|rules| rules.only(unit, place));
        if first != unit {
            self.rule(|rules| rules.together([first, unit]));
            self.plan.put(unit, self.plan.of(first).clone());
        }
        self.units.push(ControlUnit { color: color.clone(), name: name.to_owned(), first });
        unit
    }

    fn rule(&mut self, change: impl FnOnce(PlanRules) -> PlanRules) {
        self.rules = change(std::mem::take(&mut self.rules));
        self.controller.set_rules(self.rules.clone());
    }

    pub(crate) fn unknown(&self) -> Option<String> {
        let Some(PlanSource::File(file)) = &self.kept else { return None };
        let names: Vec<_> = self.units.iter().map(|unit| unit.name.as_str()).collect();
        file.check(&names, &self.rules, &self.layout).err().map(|error| error.to_string())
    }

    pub(crate) fn plan_to_keep(&self) -> Option<Plan> {
        match self.kept.as_ref()? {
            PlanSource::Named(name) => self.rules.named(name, self.units.len(), &self.layout),
            PlanSource::File(file) => Some(self.plan_of(file)),
        }
    }

    /// The plan of a file: a group moves to the core of its first named handler, and handlers
    /// without a name in the file stay.
    fn plan_of(&self, file: &PlanFile) -> Plan {
        let mut plan = self.plan.clone();
        let mut decided = BTreeMap::new();
        for ControlUnit { name, first, .. } in &self.units {
            if let Some(named) = file.get(name) {
                decided.entry(*first).or_insert(named);
            }
        }
        for (unit, ControlUnit { first, .. }) in self.units.iter().enumerate() {
            if let Some(core) = decided.get(first).and_then(|named| self.choose(*first, named)) {
                plan.put(HandlerIndex(unit as u32), Placement::Core(core));
            }
        }
        self.rules.fitted(&plan, &self.layout)
    }

    /// Chooses from the cores that a file names: units with the same list take turns.
    fn choose(&self, unit: HandlerIndex, named: &Placement) -> Option<CoreIndex> {
        match named {
            Placement::Any => None,
            Placement::Core(core) => Some(*core),
            Placement::Cores(cores) => {
                let allowed: Vec<_> = cores.iter().filter(|&core| self.rules.allows(unit, core)).collect();
                let cores = if allowed.is_empty() { cores.iter().collect() } else { allowed };
                cores.get(unit.0 as usize % cores.len().max(1)).copied()
            }
        }
    }
}

fn read_plan(path: &std::path::Path, cores: usize) -> Result<PlanFile, StartError> {
    let refused = |reason: String| StartError::Plan { path: path.to_owned(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    PlanFile::parse(&text, cores).map_err(|error| refused(error.to_string()))
}

/// The counts of a core since its last answer, and the unit that posts there now.
#[derive(Default)]
pub(crate) struct CoreCounting {
    pub(crate) window: AnswerWindow,
    /// The running unit.
    pub(crate) running: Option<HandlerIndex>,
}
