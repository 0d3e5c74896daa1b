//! Placement of handlers: cores count what their handlers do, one of them asks all, a controller answers with moves.
//!
//! A handler with a color of its own is a *unit*; units are numbered as they are registered, and controllers know nothing else.
//! The monitor's role goes round the cores. A round is a number: the monitor raises it and wakes everybody; each core compares
//! it before every activation, answers and goes on, so that no answer waits behind events. A move is carried out by whoever
//! holds the unit's token, so that a unit is never on two cores.
//!
//! Decisions are `vermeil_sched::control`'s. Tested in `tests/control.rs`.

use crate::{
    Color,
    core::Core,
    error::StartError,
    shared::{Shared, add},
};
use std::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};
use vermeil_sched::{
    CoreIndex, Distance, HandlerIndex, Layout, Placement, PlanName, Policy, Sample,
    control::{
        Adaptive, Answer, Candidates, Controller, Decision, Fixed, Monitor, Trial, TrialOptions, Window,
    },
    plan::{Move, Plan, PlanFile, Rules},
};

/// No round is due.
const NEVER: u64 = u64::MAX;

/// How long after a unit was registered the first round is held, in nanoseconds: others usually follow at once.
const FIRST_ROUND_NS: u64 = 2_000_000;

/// What is not a unit.
const NO_UNIT: u32 = u32::MAX;

pub(crate) struct Control {
    state: Mutex<State>,
    /// By handler, its unit.
    units: Box<[AtomicU32]>,
    /// The open or last round; cores answer when they see it raised.
    round: AtomicU64,
    /// When the next round is to begin, on the measuring clock.
    due_ns: AtomicU64,
    /// The core that begins it.
    at: AtomicU32,
}

/// What a controller has done.
#[derive(Default)]
pub(crate) struct Report {
    /// Lately, oldest first.
    pub(crate) decisions: Vec<Decision>,
    /// Where the units stand.
    pub(crate) handlers: Vec<(String, CoreIndex)>,
    /// Time lost to trials, where that is bounded.
    pub(crate) regret_ns: Option<u64>,
    /// What a plan's file names that is not there.
    pub(crate) unknown: Option<String>,
}

struct State {
    monitor: Monitor,
    controller: Box<dyn Controller>,
    /// Where units stand as far as moves were asked for.
    plan: Plan,
    /// Units, by number: their colors and names.
    placed: Vec<(Color, String)>,
    /// The plan to be kept, if it is one that has to be made anew for each number of units.
    kept: Option<Kept>,
    layout: Layout,
}

enum Kept {
    Named(PlanName),
    File(PlanFile),
}

impl Control {
    /// The controller of a policy that places handlers.
    pub(crate) fn new(policy: &Policy, layout: &Layout, handlers: usize) -> Result<Option<Self>, StartError> {
        let mut kept = None;
        let controller: Box<dyn Controller> = match policy {
            Policy::None | Policy::Libasync | Policy::Mely | Policy::NCopy => return Ok(None),
            Policy::Placed(name) => {
                kept = Some(match name {
                    PlanName::File(path) => Kept::File(read_plan(path, layout.cores())?),
                    named => Kept::Named(named.clone()),
                });
                Box::new(Fixed::default())
            }
            Policy::Trial => Box::new(Trial::new(Candidates::Named(layout.clone()), TrialOptions::default())),
            Policy::Adaptive => Box::new(Adaptive::new(layout.clone(), Rules::new())),
        };
        let state = State {
            monitor: Monitor::new(layout.cores()),
            controller,
            plan: Plan::default(),
            placed: Vec::new(),
            kept,
            layout: layout.clone(),
        };
        Ok(Some(Self {
            state: Mutex::new(state),
            units: (0..=handlers).map(|_| AtomicU32::new(NO_UNIT)).collect(),
            round: AtomicU64::new(0),
            due_ns: AtomicU64::new(NEVER),
            at: AtomicU32::new(0),
        }))
    }

    /// The unit of a handler, if it has a color of its own.
    #[inline]
    pub(crate) fn unit(&self, handler: HandlerIndex) -> Option<HandlerIndex> {
        let unit = self.units[handler.0 as usize].load(Ordering::Relaxed);
        (unit != NO_UNIT).then_some(HandlerIndex(unit))
    }

    /// A handler with a color of its own was registered.
    pub(crate) fn register(&self, shared: &Shared, handler: HandlerIndex, name: &str, color: &Color) {
        let mut state = self.state.lock().expect("nothing panics under this lock");
        let unit = HandlerIndex(state.placed.len() as u32);
        state.placed.push((color.clone(), name.to_owned()));
        let begin = state.controller.begin(unit).unwrap_or(color.core());
        state.plan.put(unit, Placement::Core(begin));
        shared.relocate(color, begin);
        self.units[handler.0 as usize].store(unit.0, Ordering::Relaxed);
        if let Some(plan) = state.plan_to_keep() {
            let moves = state.plan.moves_to(&plan);
            state.carry_out(shared, &moves);
        } else {
            self.due_ns.store(shared.clock.now_ns() + FIRST_ROUND_NS, Ordering::Relaxed);
            // Whoever has the role may sleep without a timer.
            shared.core(self.at.load(Ordering::Relaxed)).unpark();
        }
    }

    /// Nanoseconds until the round that `core` is to begin.
    pub(crate) fn until_round_ns(&self, core: CoreIndex, now_ns: u64) -> Option<u64> {
        let due_ns = self.due_ns.load(Ordering::Relaxed);
        (self.at.load(Ordering::Relaxed) == core.0 && due_ns != NEVER).then(|| due_ns.saturating_sub(now_ns))
    }

    /// Begins a round if one is due on `core`.
    fn begin_if_due(&self, shared: &Shared, core: CoreIndex, now_ns: u64) {
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

    fn take_answer(&self, shared: &Shared, core: CoreIndex, round: u64, answer: Answer, now_ns: u64) {
        let mut state = self.state.lock().expect("nothing panics under this lock");
        let State { monitor, plan, .. } = &mut *state;
        let Some(seen) = monitor.answer(core, round, answer, plan) else { return };
        let moves = state.controller.round(now_ns, &seen);
        state.carry_out(shared, &moves);
        let next = state.controller.next_round_ns().map_or(NEVER, |ns| now_ns.saturating_add(ns));
        let at = state.monitor.at();
        self.at.store(at.0, Ordering::Relaxed);
        self.due_ns.store(next, Ordering::Relaxed);
        // It may sleep without knowing of its role.
        if at != core && next != NEVER && shared.core(at.0).parking.is_asleep() {
            shared.core(at.0).unpark();
        }
    }

    /// What there is to say.
    pub(crate) fn report(&self) -> Report {
        let state = self.state.lock().expect("nothing panics under this lock");
        Report {
            decisions: state.controller.decisions().iter().cloned().collect(),
            handlers: state.placed.iter().map(|(color, name)| (name.clone(), color.core())).collect(),
            regret_ns: state.controller.regret_ns(),
            unknown: state.unknown(),
        }
    }

    /// Lets go of the colors, which hold the runtime.
    pub(crate) fn clear(&self) {
        self.state.lock().expect("nothing panics under this lock").placed.clear();
    }
}

impl State {
    fn unknown(&self) -> Option<String> {
        let Some(Kept::File(file)) = &self.kept else { return None };
        let names: Vec<_> = self.placed.iter().map(|(_, name)| name.as_str()).collect();
        file.resolve(&names).err().map(|error| error.to_string())
    }

    fn plan_to_keep(&self) -> Option<Plan> {
        match self.kept.as_ref()? {
            Kept::Named(name) => Plan::named(name, self.placed.len(), &self.layout),
            Kept::File(file) => {
                let mut plan = Plan::default();
                for (unit, (_, name)) in self.placed.iter().enumerate() {
                    let placement = match file.get(name) {
                        // One of them: those that name the same cores take turns.
                        Some(Placement::Cores(cores)) => {
                            let core = cores.iter().nth(unit % cores.len().max(1));
                            core.map_or(Placement::Any, Placement::Core)
                        }
                        named => named.cloned().unwrap_or_default(),
                    };
                    plan.put(HandlerIndex(unit as u32), placement);
                }
                Some(plan)
            }
        }
    }

    /// But for what has opened a socket and stays with it.
    fn carry_out(&mut self, shared: &Shared, moves: &[Move]) {
        for step in moves {
            match self.placed.get(step.handler.0 as usize) {
                Some((color, _)) if color.queue.about.is_bound() => continue,
                Some((color, _)) => shared.relocate(color, step.to),
                None => {}
            }
            self.plan.apply(&[*step]);
        }
    }
}

fn read_plan(path: &std::path::Path, cores: usize) -> Result<PlanFile, StartError> {
    let refused = |reason: String| StartError::Plan { path: path.to_owned(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    PlanFile::parse(&text, cores).map_err(|error| refused(error.to_string()))
}

/// What one core has counted since it last answered, and who posts there.
#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) window: Window,
    /// The unit that runs.
    pub(crate) running: Option<HandlerIndex>,
}

impl Core {
    /// Begins a round that is due and answers one that is open.
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
    fn answer_control(&self, control: &Control) {
        let now_ns = self.shared.clock.now_ns();
        control.begin_if_due(&self.shared, self.index, now_ns);
        let round = control.round.load(Ordering::Acquire);
        let mut counting = self.counting.borrow_mut();
        if counting.window.answered() == round {
            return;
        }
        let missed = self.witness.missed_since_round(self.shared.noting.counted, |how| {
            assert!(self.mine().witness.set(how).is_ok(), "it is tried once");
        });
        if let Some(lines) = missed {
            counting.window.missed(lines);
        }
        let answer = counting.window.answer(round, now_ns, self.mine().ready.len() as u32 as u64);
        drop(counting);
        add(&self.mine().counters.rounds, 1);
        control.take_answer(&self.shared, self.index, round, answer, now_ns);
    }

    /// A handler's event has run.
    #[inline]
    pub(crate) fn count_run(&self, handler: HandlerIndex, sample: Option<Sample>) {
        let Some(control) = &self.shared.control else { return };
        if let Some(unit) = control.unit(handler) {
            self.counting.borrow_mut().window.ran(unit, sample);
        }
    }

    /// A run of a handler that was counted has missed so many cache lines.
    pub(crate) fn count_misses(&self, handler: HandlerIndex, cold: Option<Distance>, lines: u64) {
        let Some(control) = &self.shared.control else { return };
        if let Some(unit) = control.unit(handler) {
            self.counting.borrow_mut().window.run_missed(unit, cold, lines);
        }
    }

    /// A handler's event is posted.
    #[inline]
    pub(crate) fn count_post(&self, handler: HandlerIndex) {
        let Some(control) = &self.shared.control else { return };
        if let Some(unit) = control.unit(handler) {
            let mut counting = self.counting.borrow_mut();
            let from = counting.running;
            counting.window.posted(from, unit);
        }
    }

    /// A handler's event begins to run.
    #[inline]
    pub(crate) fn note_running(&self, handler: HandlerIndex) {
        if let Some(control) = &self.shared.control {
            self.counting.borrow_mut().running = control.unit(handler);
        }
    }

    /// The core was parked for so long.
    pub(crate) fn count_idle(&self, ns: u64) {
        if self.shared.control.is_some() {
            self.counting.borrow_mut().window.idled(ns);
        }
    }
}
