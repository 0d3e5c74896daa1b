//! Placement of handlers while the world runs: cores count, one core asks all cores, and a
//! controller answers with moves.
//!
//! The controllers, the monitor's role and the plans are those of `vermeil_sched`; the steps are
//! the runtime's (`control.rs` there). A handler with a color of its own is a *unit*. The core that
//! has the role begins a round. Every core answers between two activations, and the last answer
//! brings the decision. The color of a unit moves when its token is free, so a unit is never on two
//! cores. Tested in `world/tests.rs`.

use vermeil_sched::control::{
    AnswerWindow, Controller, Decision, FIRST_ROUND_NS, Fixed, Monitor, TrialOptions, controller,
};
use vermeil_sched::plan::{Move, Plan};
use vermeil_sched::{CoreIndex, HandlerIndex, Placement, Policy, RunSample};

use super::World;
use super::clock::Moment;
use super::colors::{NONE, TokenPlace};
use super::core::CorePhase;
use crate::machine::SimMachine;
use crate::options::SimOptions;
use crate::results::Results;
use crate::watch::{Note, Watch};
use crate::workload::CompiledProgram;

/// Cost of an answer: a core copies its counters, which takes some lines for each handler. Guess.
const ANSWER_NS: u64 = 2_000;

/// Counts of a core since the core's last answer.
#[derive(Debug, Default)]
pub(crate) struct SimCounting {
    window: AnswerWindow,
    /// Missed lines of the core when an event was last counted.
    missed_lines: u64,
}

/// The controller and its round.
#[derive(Debug)]
pub(crate) struct SimControl {
    controller: Box<dyn Controller>,
    monitor: Monitor,
    /// By handler, the unit of the handler.
    units: Vec<Option<HandlerIndex>>,
    /// By unit, the handler.
    handlers: Vec<u16>,
    /// The cores of all units, including moves that were asked for and are not yet done.
    pub(crate) plan: Plan,
    round: u64,
}

impl SimControl {
    /// The controller of a policy that places handlers, if it has units to place.
    pub(crate) fn new(machine: &SimMachine, program: &CompiledProgram, options: &SimOptions) -> Option<Self> {
        if options.ideal {
            return None;
        }
        let handlers = program.units(&options.policy);
        if handlers.is_empty() {
            return None;
        }
        let layout = machine.layout();
        let controller: Box<dyn Controller> = match &options.policy {
            Policy::Placed(name) => {
                let named = || Plan::named(name, handlers.len(), layout);
                let plan = options.plan.clone().or_else(named);
                // A run without the plan would look like a run of the plan.
                let plan = plan.expect("the caller reads the plan of placed:FILE");
                Box::new(Fixed::new(choose_from_lists(&plan)))
            }
            policy => {
                let dwell_ns = options.control_ns.unwrap_or(TrialOptions::default().dwell_ns);
                controller(policy, layout, TrialOptions { dwell_ns, ..TrialOptions::default() })?
            }
        };
        let mut units = vec![None; program.handlers.len()];
        let mut plan = Plan::default();
        for (unit, &handler) in handlers.iter().enumerate() {
            let unit = HandlerIndex(unit as u32);
            units[usize::from(handler)] = Some(unit);
            let core = controller.begin(unit).unwrap_or(CoreIndex(unit.0 % layout.cores() as u32));
            plan.put(unit, Placement::Core(core));
        }
        Some(Self { controller, monitor: Monitor::new(layout.cores()), units, handlers, plan, round: 0 })
    }

    /// The core that a handler is placed on, if the handler is a unit.
    pub(crate) fn core_of(&self, handler: u16) -> Option<CoreIndex> {
        self.plan.core_of(self.units[usize::from(handler)]?)
    }

    /// Whether a handler is a unit.
    pub(crate) fn is_unit(&self, handler: u16) -> bool {
        self.units[usize::from(handler)].is_some()
    }

    /// Puts the decisions, and the losses of trials, into the results.
    pub(crate) fn tell(&self, results: &mut Results) {
        let handler = |unit: HandlerIndex| HandlerIndex(self.handlers[unit.0 as usize].into());
        let named = |moved: &Move| Move { handler: handler(moved.handler), ..*moved };
        let decision = |decision: &Decision| Decision {
            moves: decision.moves.iter().map(named).collect(),
            ..decision.clone()
        };
        let log = self.controller.decisions();
        results.decisions = log.iter().map(decision).collect();
        results.decided = log.total();
        results.regret_ns = self.controller.regret_ns();
    }
}

/// The plan with a single core in place of each list of cores: units with the same list take turns,
/// as in the runtime.
fn choose_from_lists(plan: &Plan) -> Plan {
    let choose = |(unit, placement): (HandlerIndex, &Placement)| match placement {
        Placement::Cores(cores) => {
            let turn = unit.0 as usize % cores.len().max(1);
            cores.iter().nth(turn).map_or(Placement::Any, Placement::Core)
        }
        Placement::Any | Placement::Core(_) => placement.clone(),
    };
    Plan::new(plan.iter().map(choose).collect())
}

impl<W: Watch> World<W> {
    /// Puts the first round on the clock.
    pub(super) fn begin_control(&mut self) {
        if self.placing.control.is_some() {
            self.time.clock.at(FIRST_ROUND_NS, Moment::Control);
        }
    }

    /// Begins a round: asks every core, and wakes sleeping cores to answer.
    pub(super) fn begin_round(&mut self) {
        let Some(control) = &mut self.placing.control else { return };
        let Some(round) = control.monitor.begin() else { return };
        control.round = round;
        for index in 0..self.cores.len() {
            let core = CoreIndex(index as u32);
            if self.core(core).faults.is_gone {
                // A removed core runs no more events, so its answer comes at once.
                let at_ns = self.time.now_ns;
                self.answer_round(core, at_ns);
            } else if self.core(core).phase != CorePhase::Awake {
                let mut at_ns = self.time.now_ns;
                self.wake(core, None, &mut at_ns);
            }
        }
    }

    /// Between two activations a core answers the open round.
    pub(super) fn attend_control(&mut self, core: CoreIndex, at_ns: &mut u64) {
        let open = self.placing.control.as_ref().is_some_and(|control| {
            control.monitor.is_open()
                && self.placing.counting[core.0 as usize].window.answered() != control.round
        });
        if open {
            *at_ns += ANSWER_NS;
            self.answer_round(core, *at_ns);
        }
    }

    fn answer_round(&mut self, core: CoreIndex, at_ns: u64) {
        let queued = self.core(core).queue.ready.len() as u64;
        let Some(control) = &mut self.placing.control else { return };
        let window = &mut self.placing.counting[core.0 as usize].window;
        let answer = window.answer(control.round, at_ns, queued);
        let Some(seen) = control.monitor.answer(core, control.round, answer, &control.plan) else { return };
        let moves = control.controller.round(at_ns, &seen);
        control.plan.apply(&moves);
        if let Some(next_ns) = control.controller.next_round_ns() {
            self.time.clock.at(at_ns + next_ns, Moment::Control);
        }
        for Move { handler: unit, to } in moves {
            self.relocate(unit, to, at_ns);
        }
    }

    /// Moves the color of a unit to another core: at once if the color waits, else when the token
    /// is free.
    fn relocate(&mut self, unit: HandlerIndex, to: CoreIndex, at_ns: u64) {
        let control = self.placing.control.as_ref().expect("it has decided");
        let Some(&handler) = control.handlers.get(unit.0 as usize) else { return };
        let color = self.objects.handler_colors[usize::from(handler)];
        if color == NONE || self.colors.color(color).token != TokenPlace::Ready {
            return;
        }
        let (from, slot, number) = {
            let waiting = self.colors.color(color);
            (waiting.core, waiting.slot, waiting.number)
        };
        if from == to || self.core(from).queue.ready.remove(slot, number).is_none() {
            return;
        }
        self.gauge(from);
        let events = u64::from(self.colors.color(color).len);
        self.core(from).queue.waiting_events -= events;
        let mut at_ns = at_ns;
        self.push_token(color, Some(from), &mut at_ns);
    }

    /// The core that a color is placed on, if the color's handler is a unit.
    pub(super) fn wanted_core(&self, color: u32) -> Option<CoreIndex> {
        let control = self.placing.control.as_ref()?;
        control.core_of(self.colors.first(color)?.handler)
    }

    /// Counts a run of a unit's event.
    pub(super) fn count_run(&mut self, core: CoreIndex, handler: u16, sample: Option<RunSample>) {
        let Some(control) = &self.placing.control else { return };
        let Some(unit) = control.units[usize::from(handler)] else { return };
        let missed = self.memory.traffic()[core.0 as usize].missed_lines;
        let counting = &mut self.placing.counting[core.0 as usize];
        let lines = missed.saturating_sub(std::mem::replace(&mut counting.missed_lines, missed));
        counting.window.ran(unit, sample);
        counting.window.missed(lines);
    }

    /// Counts the posting of a unit's event, by a unit or from outside.
    pub(super) fn count_post(&mut self, by: Option<(CoreIndex, u16)>, handler: u16) {
        let Some(control) = &self.placing.control else { return };
        let Some(unit) = control.units[usize::from(handler)] else { return };
        let from = by.and_then(|(_, poster)| control.units[usize::from(poster)]);
        let core = by.map_or(0, |(core, _)| core.0 as usize);
        self.placing.counting[core].window.posted(from, unit);
    }

    /// Counts time that the core slept.
    pub(super) fn count_idle(&mut self, core: CoreIndex, ns: u64) {
        if self.placing.control.is_some() {
            self.placing.counting[core.0 as usize].window.idled(ns);
        }
    }

    /// Records that a color has moved because of a placement, a leader or a removed core.
    pub(super) fn note_moved(&mut self, color: u32, from: CoreIndex, to: CoreIndex) {
        self.output.results.moves += 1;
        self.tell_moved(color, from, to);
    }

    /// Records that a core has handed a color over to another core, or has called the color to
    /// itself.
    pub(super) fn note_handed_over(&mut self, color: u32, from: CoreIndex, to: CoreIndex) {
        self.output.results.handed_over += 1;
        self.tell_moved(color, from, to);
    }

    fn tell_moved(&mut self, color: u32, from: CoreIndex, to: CoreIndex) {
        let number = self.colors.color(color).number;
        let note = Note::Moved { at_ns: self.time.now_ns, from, to, color: number };
        self.output.watch.note(note);
    }
}
