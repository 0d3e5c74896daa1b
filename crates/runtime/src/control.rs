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
    control_state::{ControlState, ControlUnit, NEVER, RuntimeControl},
    core::Core,
    counters::add,
    shared::RuntimeShared,
};
use std::sync::atomic::Ordering;
use vermeil_queue::Cores;
use vermeil_sched::{
    CoreIndex, Distance, HandlerIndex, Placement, RunSample,
    control::{Envelope, FIRST_ROUND_NS, MonitorAnswer, MoveMessage, Redistribution},
    plan::{Move, Plan},
};

impl RuntimeControl {
    /// Registers a handler whose events go to a single color: its own, or a group's.
    pub(crate) fn register(&self, shared: &RuntimeShared, handler: HandlerIndex, name: &str, color: &Color) {
        let Some(place) = color.queue.meta.placement() else { return };
        // Posting to another runtime's color is an error that the post reports.
        if !std::ptr::eq(shared, &*color.shared) {
            return;
        }
        let mut state = self.state.lock().expect("nothing panics under this lock");
        let unit = state.add(name, &color.queue, place.clone());
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
        let ControlState { monitor, plan, .. } = &mut *state;
        let Some(seen) = monitor.answer(core, round, answer, plan) else { return };
        let moves = state.controller.round(now_ns, &seen);
        state.carry_out(shared, &moves);
        let next = state.controller.next_round_ns().map_or(NEVER, |ns| now_ns.saturating_add(ns));
        let at = state.monitor.at();
        self.at.store(at.0, Ordering::Relaxed);
        self.due_ns.store(next, Ordering::Relaxed);
        // The next monitor may sleep without knowledge of its role.
        if at != core && next != NEVER && shared.core(at.0).parking.may_miss_change() {
            shared.core(at.0).unpark();
        }
    }

    #[cfg(test)]
    pub(crate) fn carry_out(&self, shared: &RuntimeShared, moves: &[Move]) {
        self.state.lock().expect("nothing panics under this lock").carry_out(shared, moves);
    }
}

impl ControlState {
    fn carry_out(&mut self, shared: &RuntimeShared, moves: &[Move]) {
        let (mut standing, mut due) = (Plan::default(), Vec::new());
        for step in moves {
            let Some(ControlUnit { color, first, .. }) = self.units.get(step.handler.0 as usize) else {
                continue;
            };
            // The color's placement overrides the controller.
            if !color.meta.allows(step.to) {
                continue;
            }
            self.plan.apply(&[*step]);
            if *first == step.handler {
                // The wish precedes the read of the core: a color that begins or ends an activation
                // meanwhile then moves by itself.
                shared.migrate_to(color, step.to.0 as u16);
                standing.put(step.handler, Placement::Core(CoreIndex(color.core())));
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

impl Core {
    /// Begins a round that is due, and answers an open round.
    #[inline]
    pub(crate) fn attend_control(&self) {
        let Some(control) = &self.shared.control else { return };
        let round = control.round.load(Ordering::Acquire);
        if round != self.measures.counting.borrow().window.answered()
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
        let mut counting = self.measures.counting.borrow_mut();
        if counting.window.answered() == round {
            return;
        }
        let missed =
            self.measures.perf_counters.missed_since_round(self.shared.settings.noting.counted, |how| {
                assert!(self.mine().facts.perf_counters.set(how).is_ok(), "it is tried once");
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
            self.measures.counting.borrow_mut().window.ran(unit, sample);
        }
    }

    /// A counted run of a handler has missed `lines` cache lines.
    pub(crate) fn count_misses(&self, handler: HandlerIndex, cold: Option<Distance>, lines: u64) {
        let Some(control) = &self.shared.control else { return };
        if let Some(unit) = control.unit(handler) {
            self.measures.counting.borrow_mut().window.run_missed(unit, cold, lines);
        }
    }

    /// An event of a handler is posted.
    #[inline]
    pub(crate) fn count_post(&self, handler: HandlerIndex) {
        let Some(control) = &self.shared.control else { return };
        if let Some(unit) = control.unit(handler) {
            let mut counting = self.measures.counting.borrow_mut();
            let from = counting.running;
            counting.window.posted(from, unit);
        }
    }

    /// An event of a handler begins to run.
    #[inline]
    pub(crate) fn note_running(&self, handler: HandlerIndex) {
        if let Some(control) = &self.shared.control {
            self.measures.counting.borrow_mut().running = control.unit(handler);
        }
    }

    /// The core was parked for `ns` nanoseconds.
    pub(crate) fn count_idle(&self, ns: u64) {
        if self.shared.control.is_some() {
            self.measures.counting.borrow_mut().window.idled(ns);
        }
    }
}
