//! Placement of handlers: cores count the runs of their handlers, a monitor asks all cores, and a
//! controller answers with moves.
//!
//! A handler whose events go to a single color, its own or its group's, is a *unit*. Units are
//! numbered in the order of registration. Controllers know only the numbers and two rules: a unit
//! stands where its color may live, and the units of a group stand together. A handler that follows
//! another handler is no unit.
//!
//! The role of the monitor rotates among the cores. A round is a number: the monitor raises the
//! number and wakes all cores. Each core compares the number before every activation, answers and
//! continues, so no answer waits behind events. Grouped messages carry out the moves
//! (`redistribute.rs`). Only the holder of the unit's token moves the unit, so a unit is never on
//! two cores.
//!
//! `control.md` argues the words that cores read without a lock. The decisions are
//! `vermeil_sched::control`'s. Tested in `tests/control.rs`.

use crate::{
    Color,
    core::Core,
    error::StartError,
    shared::{RuntimeShared, add},
};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};
use vermeil_queue::Cores;
use vermeil_sched::{
    CoreIndex, Distance, HandlerIndex, Layout, Placement, PlanName, Policy, RunSample,
    control::{
        Adaptive, AnswerWindow, Candidates, Controller, Envelope, Fixed, Monitor, MonitorAnswer, MoveMessage,
        Redistribution, Trial, TrialOptions,
    },
    plan::{Move, Plan, PlanFile, PlanRules},
};

/// No round is due.
const NEVER: u64 = u64::MAX;

/// Delay of the first round after the registration of a unit, in nanoseconds, because further units
/// usually follow at once.
const FIRST_ROUND_NS: u64 = 2_000_000;

/// In place of a unit's number: the handler is no unit.
const NO_UNIT: u32 = u32::MAX;

pub(crate) struct RuntimeControl {
    state: Mutex<ControlState>,
    /// By handler, the handler's unit.
    units: Box<[AtomicU32]>,
    /// The open or last round. Cores answer when they see a raised number.
    round: AtomicU64,
    /// When the next round begins, on the measuring clock.
    due_ns: AtomicU64,
    /// The core that begins the next round.
    at: AtomicU32,
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

struct ControlState {
    monitor: Monitor,
    controller: Box<dyn Controller>,
    /// The planned place of each unit, including moves that are still under way.
    plan: Plan,
    /// By number.
    units: Vec<ControlUnit>,
    rules: PlanRules,
    /// The plan to keep, if the plan must be computed again for each number of units.
    kept: Option<PlanSource>,
    layout: Layout,
    moves: u64,
    messages: u64,
}

struct ControlUnit {
    color: Color,
    name: String,
    /// The first unit of this color: the unit itself, or the earliest unit of its group.
    first: HandlerIndex,
}

enum PlanSource {
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
        let mut kept = None;
        let controller: Box<dyn Controller> = match policy {
            Policy::None | Policy::Libasync | Policy::Mely | Policy::NCopy | Policy::PerNode => {
                return Ok(None);
            }
            Policy::Placed(name) => {
                kept = Some(match name {
                    PlanName::File(path) => PlanSource::File(read_plan(path, layout.cores())?),
                    named => PlanSource::Named(named.clone()),
                });
                Box::new(Fixed::default())
            }
            Policy::Trial => Box::new(Trial::new(Candidates::Named(layout.clone()), trial)),
            Policy::Adaptive => Box::new(Adaptive::new(layout.clone(), PlanRules::new())),
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

    /// Registers a handler whose events go to a single color: its own, or a group's.
    pub(crate) fn register(&self, shared: &RuntimeShared, handler: HandlerIndex, name: &str, color: &Color) {
        let Some(place) = color.queue.meta.placement() else { return };
        // Posting to another runtime's color is an error that the post reports.
        if !std::ptr::eq(shared, &*color.shared) {
            return;
        }
        let mut state = self.state.lock().expect("nothing panics under this lock");
        let unit = state.add(name, color, place.clone());
        if state.units[unit.0 as usize].first == unit {
            let begin = state.controller.begin(unit).unwrap_or(color.core());
            state.plan.put(unit, Placement::Core(begin));
            shared.relocate(color, begin);
        }
        self.units[handler.0 as usize].store(unit.0, Ordering::Relaxed);
        if let Some(plan) = state.plan_to_keep() {
            let moves = state.plan.moves_to(&plan);
            state.carry_out(shared, &moves);
        } else if !place.is_fixed() {
            self.due_ns.store(shared.clock.now_ns() + FIRST_ROUND_NS, Ordering::Relaxed);
            // The monitor may sleep without a timer.
            shared.core(self.at.load(Ordering::Relaxed)).unpark();
        }
    }

    /// Nanoseconds until the round that `core` will begin.
    pub(crate) fn until_round_ns(&self, core: CoreIndex, now_ns: u64) -> Option<u64> {
        let due_ns = self.due_ns.load(Ordering::Relaxed);
        (self.at.load(Ordering::Relaxed) == core.0 && due_ns != NEVER).then(|| due_ns.saturating_sub(now_ns))
    }

    /// Begins a round if one is due on `core`.
    fn begin_if_due(&self, shared: &RuntimeShared, core: CoreIndex, now_ns: u64) {
        if self.until_round_ns(core, now_ns) != Some(0) {
            return;
        }
        let mut state = self.state.lock().expect("nothing panics under this lock");
        self.due_ns.store(NEVER, Ordering::Relaxed);
        if let Some(round) = state.monitor.begin() {
            self.round.store(round, Ordering::Release);
            drop(state);
            shared.unpark_all();
        }
    }

    fn take_answer(
        &self,
        shared: &RuntimeShared,
        core: CoreIndex,
        round: u64,
        answer: MonitorAnswer,
        now_ns: u64,
    ) {
        let mut state = self.state.lock().expect("nothing panics under this lock");
        state.note_bound();
        let ControlState { monitor, plan, .. } = &mut *state;
        let Some(seen) = monitor.answer(core, round, answer, plan) else { return };
        let moves = state.controller.round(now_ns, &seen);
        state.carry_out(shared, &moves);
        let next = state.controller.next_round_ns().map_or(NEVER, |ns| now_ns.saturating_add(ns));
        let at = state.monitor.at();
        self.at.store(at.0, Ordering::Relaxed);
        self.due_ns.store(next, Ordering::Relaxed);
        // The next monitor may sleep without knowledge of its role.
        if at != core && next != NEVER && shared.core(at.0).parking.is_asleep() {
            shared.core(at.0).unpark();
        }
    }

    #[cfg(test)]
    pub(crate) fn carry_out(&self, shared: &RuntimeShared, moves: &[Move]) {
        self.state.lock().expect("nothing panics under this lock").carry_out(shared, moves);
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
            handlers: state.units.iter().map(|unit| (unit.name.clone(), unit.color.core())).collect(),
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
    fn add(&mut self, name: &str, color: &Color, place: Placement) -> HandlerIndex {
        let unit = HandlerIndex(self.units.len() as u32);
        let known = self.units.iter().find(|known| known.color.id() == color.id());
        let first = known.map_or(unit, |known| known.first);
        self.rule(|rules| rules.only(unit, place));
        if first != unit {
            self.rule(|rules| rules.together([first, unit]));
            self.plan.put(unit, self.plan.of(first).clone());
        }
        self.units.push(ControlUnit { color: color.clone(), name: name.to_owned(), first });
        self.note_bound();
        unit
    }

    fn rule(&mut self, change: impl FnOnce(PlanRules) -> PlanRules) {
        self.rules = change(std::mem::take(&mut self.rules));
        self.controller.set_rules(self.rules.clone());
    }

    /// A unit that has opened a socket stays with the socket.
    fn note_bound(&mut self) {
        for at in 0..self.units.len() {
            let (unit, color) = (HandlerIndex(at as u32), &self.units[at].color);
            if color.queue.meta.is_bound() && self.rules.leaves_choice(unit, &self.layout) {
                let here = Placement::Core(color.core());
                self.plan.put(unit, here.clone());
                self.rule(|rules| rules.only(unit, here));
            }
        }
    }

    fn unknown(&self) -> Option<String> {
        let Some(PlanSource::File(file)) = &self.kept else { return None };
        let names: Vec<_> = self.units.iter().map(|unit| unit.name.as_str()).collect();
        file.check(&names, &self.rules, &self.layout).err().map(|error| error.to_string())
    }

    fn plan_to_keep(&self) -> Option<Plan> {
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

    fn carry_out(&mut self, shared: &RuntimeShared, moves: &[Move]) {
        let (mut standing, mut due) = (Plan::default(), Vec::new());
        for step in moves {
            let Some(ControlUnit { color, first, .. }) = self.units.get(step.handler.0 as usize) else {
                continue;
            };
            // The color may have opened a socket since the rules were made, and the color's
            // placement overrides the controller.
            if color.queue.meta.is_bound() || !color.queue.meta.allows(step.to) {
                continue;
            }
            self.plan.apply(&[*step]);
            if *first == step.handler {
                // The wish precedes the read of the core: a color that begins or ends an activation
                // meanwhile then moves by itself.
                shared.migrate_to(&color.queue, step.to.0 as u16);
                standing.put(step.handler, Placement::Core(color.core()));
                due.push(*step);
            }
        }
        for Envelope { to: donor, message } in
            Redistribution::Mixed.messages(&standing, &due, self.layout.cores())
        {
            let MoveMessage::Give(given) = message else { unreachable!("every color is on some core") };
            self.moves += given.len() as u64;
            let colors = given.iter().map(|(unit, _)| &self.units[unit.0 as usize].color);
            let taken = shared.donate(donor, colors);
            self.messages += 1 + taken.len() as u64;
            taken.into_iter().for_each(|(receiver, tokens)| shared.receive(receiver, tokens));
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

impl Core {
    /// Begins a round that is due, and answers an open round.
    #[inline]
    pub(crate) fn attend_control(&self) {
        let Some(control) = &self.shared.control else { return };
        let round = control.round.load(Ordering::Acquire);
        if round != self.counting.borrow().window.answered()
            || control.due_ns.load(Ordering::Relaxed) != NEVER
        {
            self.answer_control(control);
        }
    }

    #[cold]
    fn answer_control(&self, control: &RuntimeControl) {
        let now_ns = self.shared.clock.now_ns();
        control.begin_if_due(&self.shared, self.index, now_ns);
        let round = control.round.load(Ordering::Acquire);
        let mut counting = self.counting.borrow_mut();
        if counting.window.answered() == round {
            return;
        }
        let missed = self.perf_counters.missed_since_round(self.shared.noting.counted, |how| {
            assert!(self.mine().perf_counters.set(how).is_ok(), "it is tried once");
        });
        if let Some(lines) = missed {
            counting.window.missed(lines);
        }
        let answer = counting.window.answer(round, now_ns, self.mine().ready.len() as u32 as u64);
        drop(counting);
        add(&self.mine().counters.rounds, 1);
        control.take_answer(&self.shared, self.index, round, answer, now_ns);
    }

    /// An event of a handler has run.
    #[inline]
    pub(crate) fn count_run(&self, handler: HandlerIndex, sample: Option<RunSample>) {
        let Some(control) = &self.shared.control else { return };
        if let Some(unit) = control.unit(handler) {
            self.counting.borrow_mut().window.ran(unit, sample);
        }
    }

    /// A counted run of a handler has missed `lines` cache lines.
    pub(crate) fn count_misses(&self, handler: HandlerIndex, cold: Option<Distance>, lines: u64) {
        let Some(control) = &self.shared.control else { return };
        if let Some(unit) = control.unit(handler) {
            self.counting.borrow_mut().window.run_missed(unit, cold, lines);
        }
    }

    /// An event of a handler is posted.
    #[inline]
    pub(crate) fn count_post(&self, handler: HandlerIndex) {
        let Some(control) = &self.shared.control else { return };
        if let Some(unit) = control.unit(handler) {
            let mut counting = self.counting.borrow_mut();
            let from = counting.running;
            counting.window.posted(from, unit);
        }
    }

    /// An event of a handler begins to run.
    #[inline]
    pub(crate) fn note_running(&self, handler: HandlerIndex) {
        if let Some(control) = &self.shared.control {
            self.counting.borrow_mut().running = control.unit(handler);
        }
    }

    /// The core was parked for `ns` nanoseconds.
    pub(crate) fn count_idle(&self, ns: u64) {
        if self.shared.control.is_some() {
            self.counting.borrow_mut().window.idled(ns);
        }
    }
}
