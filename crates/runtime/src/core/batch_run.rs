//! Taking up a color and running some of its events: how many, which are timed, and whether the
//! color continues.
//!
//! Leaves out learning (`vermeil_sched::Learner`) and the definition of an event. Tested with the
//! loop.

use super::Core;
use crate::{
    color_meta::{ColorMeta, RuntimeHead, RuntimeToken},
    counters::{IDLE, add},
    handlers::Begins,
};
use std::{cell::Cell, ops::ControlFlow, sync::atomic::Ordering};
use vermeil_io::StackMark;
use vermeil_queue::{BatchCounts, BatchRun, Label};
use vermeil_sched::{CoreIndex, HandlerIndex, Learner, LifoSlotRule, RunAfter, RunSample, Stealing, TURN_NS};

/// The time since the core's last look at its sockets after which a color in the background ends
/// the turn, because input for other colors may have come. A look costs some microseconds.
const BACKGROUND_TURN_NS: u64 = 50_000;

/// The time since the core's last look at its sockets after which a long color or a color in the
/// background waits for another look, because input for other colors may have come.
const LOOK_BEFORE_LONG_NS: u64 = 20_000;

/// The measurement of an activation.
#[derive(Clone, Copy)]
struct Timing {
    /// Whether each event is timed.
    events: bool,
    /// Expected duration of the activation.
    expected_ns: u64,
}

impl Core {
    /// Takes up the next color. `None`, with the turn expired, if the next color is long or in the
    /// background, and the core's last look at its sockets was a while ago, or operations of this
    /// turn are not submitted: an answer among them would wait until the color has run. `left`: the
    /// events that remain of the turn.
    fn next_color(&self, left: usize) -> Option<RuntimeToken> {
        let spent_ns = self.times.spent_ns.take();
        if !self.shared.settings.divides {
            let has_run = left < self.shared.settings.turn.turn_events;
            let looks = has_run && (self.clock.is_turn_over(LOOK_BEFORE_LONG_NS) || self.has_unsubmitted());
            return self.mine().ready.with(|ready| {
                ready.charge(spent_ns);
                if looks && ready.is_long_next(|| self.shared.clock.now_ns()) {
                    self.run.expired.set(true);
                    return None;
                }
                ready.pop_with(|| self.shared.clock.now_ns())
            });
        }
        let now_ns = self.shared.clock.now_ns();
        self.mine().ready.with(|ready| {
            ready.charge(spent_ns);
            ready.pop_at(now_ns)
        })
    }

    /// Takes up the next color, and its successors, for at most `batch` events, or as many of
    /// `left` as the color's handler says. Returns the number of events that ran.
    pub(super) fn run_colors(&self, batch: usize, left: usize) -> usize {
        let (mut next, mut all) = (self.next_color(left), 0);
        let runs = &self.mine().counters.runs;
        runs.begin();
        while let Some(token) = next {
            all += self.run_color(token, batch - all, left - all);
            if all >= batch || self.run.expired.get() {
                self.close_lifo_slot();
            }
            next = self.take_lifo_slot();
        }
        runs.end();
        self.run.runs_fixed_color.set(false);
        self.mine().counters.running.store(IDLE, Ordering::Relaxed);
        self.publish_time();
        self.attend_waiters();
        all
    }

    /// Publishes how long the taken color and its successors delayed the colors in the queue.
    fn publish_time(&self) {
        if let Some(took_ns) = self.times.take_held_back() {
            self.mine().load_cell.took(took_ns);
        }
    }

    /// Runs at most `batch` events of a color, or as many of `left` as its handler says. Returns
    /// the number.
    fn run_color(&self, mut token: RuntimeToken, batch: usize, left: usize) -> usize {
        let mine = self.mine();
        // For profilers, which find the color in a copy of this stack.
        let mut mark = StackMark::new(token.color().id().0.get());
        mark.set();
        let handler = token.color().meta.handler();
        let batch = self.shared.handlers.batch(handler, batch, left);
        let batch = self.shared.settings.batch(batch);
        let time_ns = self.shared.handlers.batch_ns(handler);
        let until_ns = time_ns.map(|time_ns| self.shared.clock.now_ns().saturating_add(time_ns));
        self.times.take_up(token.color().id());
        let (mut all, mut stays_since_ns) = (0, None);
        loop {
            self.run.yields.set(false);
            let (worth_ns, queued) = (token.color().worth_ns(), token.color().len());
            let at_once = self.shared.settings.stealing.batch(batch - all, worth_ns, queued);
            let turn_ns = if token.color().meta.is_background() { BACKGROUND_TURN_NS } else { TURN_NS };
            let (ran, next) = self.run_batch(token, at_once, until_ns);
            self.times.charge();
            if self.clock.is_turn_over(turn_ns) {
                self.run.expired.set(true);
            }
            add(&mine.counters.activations, 1);
            add(&mine.counters.events, ran.events as u64);
            if ran.panics > 0 {
                add(&mine.counters.panics, ran.panics as u64);
            }
            all += ran.events;
            if !matches!(next, BatchRun::Empty) {
                // The color has events of its own, so the woken color is queued, as if the
                // succession had never begun.
                self.close_lifo_slot();
            }
            if let Some(handler) = self.run.needs_permit.take()
                && let BatchRun::Again(token) = next
            {
                self.shared.wait_for_permit(handler, token);
                return all;
            }
            match next {
                BatchRun::Again(again)
                    if all < batch
                        && self.goes_on(&again, &mut stays_since_ns)
                        && !self.is_over(until_ns) =>
                {
                    token = again;
                }
                BatchRun::Again(again) => {
                    // A plan may want the color elsewhere from now on, and no core knows about the
                    // color yet. Events that the color posted to itself may also be worth a steal,
                    // or a move to a faster core.
                    if self.shared.settings.layout.is_slow(self.index) {
                        let _ = self.shared.hand_over(&again, false);
                    }
                    self.shared.schedule(again, 0);
                    return all;
                }
                BatchRun::Empty => return all,
                BatchRun::Held(held) => {
                    self.acquired(held);
                    return all;
                }
            }
        }
    }

    /// Whether the color's time limit `until_ns` has passed.
    #[inline]
    fn is_over(&self, until_ns: Option<u64>) -> bool {
        until_ns.is_some_and(|until_ns| self.shared.clock.now_ns() >= until_ns)
    }

    /// Whether a color that has just run continues without being queued. Conditions: no plan wants
    /// the color elsewhere, and either no other color waits here or the color stays nevertheless.
    /// An expired turn ends the run, unless the color stays although others wait: then the core
    /// looks at its sockets first.
    fn goes_on(&self, token: &RuntimeToken, stays_since_ns: &mut Option<u64>) -> bool {
        if token.color().is_migrating() || self.shared.settings.scatters {
            return false;
        }
        if self.mine().ready.is_empty() {
            // The color delays no other color.
            self.publish_time();
            return !self.run.expired.get();
        }
        let stays = self.extends_batch(token, stays_since_ns);
        if stays && self.run.expired.take() {
            self.attend_batch_waits(false);
            self.look();
        }
        stays
    }

    /// Whether a color that has just run stays although others wait: the loss from leaving is worth
    /// the delay, or the loss is to be measured. `since_ns`: the time when the color would first
    /// have left.
    fn extends_batch(&self, token: &RuntimeToken, since_ns: &mut Option<u64>) -> bool {
        let shared = &*self.shared;
        // If classes divide the time, if a task yields, or after a color in the background, the
        // other colors run.
        let gives_way = self.run.yields.get() || token.color().meta.is_background();
        if shared.settings.stealing != Stealing::Learned || shared.settings.divides || gives_way {
            return false;
        }
        let handler = token.color().meta.handler();
        let stay_ns = shared.handlers.published(handler).extension_ns();
        if stay_ns == 0 {
            let tries = self.times.timed.get() && {
                let waiting = shared.core_load(self.index).waiting as usize;
                self.measures.learner.borrow_mut().tries_extension(handler, waiting)
            };
            self.times.times_next.set(tries);
            return tries;
        }
        let now_ns = shared.clock.now_ns();
        now_ns.saturating_sub(*since_ns.get_or_insert(now_ns)) < stay_ns
    }

    /// Runs a color, publishes the expected duration, learns the costs of the events and records
    /// the observed events. No event but the first begins after `until_ns`.
    fn run_batch(
        &self,
        token: RuntimeToken,
        batch: usize,
        until_ns: Option<u64>,
    ) -> (BatchCounts, BatchRun<ColorMeta>) {
        let (mine, shared) = (self.mine(), &*self.shared);
        let came_from = token.color().meta.runs_on(self.index);
        self.run.begin_batch(token.color());
        let queued = token.color().len();
        let timing = self.timing(token.color(), came_from);
        self.times.timed.set(timing.events);
        if !shared.settings.divides {
            self.run.lifo_slot_rule.set(LifoSlotRule::begin(shared.settings.stealing, timing.expected_ns));
        }
        let began_ns = self.begin_ns(timing);
        self.run.note_pace(queued, began_ns);
        if shared.settings.stealing.is_on() && mine.load_cell.begin(began_ns, timing.expected_ns) {
            self.watch_queued();
        }
        let came_from = Cell::new(came_from);
        let (span, has_permit) = (Cell::new(None), Cell::new(false));
        let before = |color: &RuntimeHead, label: Label| {
            let handler = HandlerIndex(label.handler().into());
            match shared.handlers.begins_on(handler, self.index, color) {
                Begins::Freely => {}
                Begins::WithPermit => has_permit.set(true),
                Begins::NotYet => {
                    self.run.needs_permit.set(Some(handler));
                    // The color has not run here yet.
                    came_from.take().map(|from| color.meta.runs_on(from));
                    return ControlFlow::Break(());
                }
            }
            mine.counters.running.store(handler.0 + 1, Ordering::Relaxed);
            self.run.begin_event();
            span.set(shared.span(self.index, color.id(), label));
            if label.posted() != 0 {
                let start_ns = if timing.events { self.clock.measured_ns() } else { shared.clock.now_ns() };
                self.note_wait(label, start_ns);
            }
            ControlFlow::Continue(())
        };
        let ran = token.run_watched(batch, before, |color, label| {
            span.set(None);
            self.run.end_event(color);
            let handler = HandlerIndex(label.handler().into());
            if has_permit.take() {
                shared.return_permit(handler);
            }
            if timing.events {
                self.timed(color, label, came_from.take());
            } else {
                self.count_run(handler, None);
            }
            self.after(handler);
            if self.is_over(until_ns) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if !timing.events && (!shared.settings.stealing.is_on() || shared.settings.divides) {
            self.clock.measure(&shared.clock);
        }
        let took_ns = self.clock.measured_ns().saturating_sub(began_ns);
        self.times.took_ns.set(took_ns);
        self.times.hold_back(if timing.events { took_ns } else { timing.expected_ns }, timing.events);
        ran
    }

    /// The time at which a batch begins. Reads the clock only if the batch needs a current time.
    fn begin_ns(&self, timing: Timing) -> u64 {
        let shared = &*self.shared;
        if timing.events || shared.settings.divides {
            self.clock.measure(&shared.clock);
        }
        if timing.events && self.learns() && self.measures.perf_counters.begin(self.clock.measured_ns()) {
            self.clock.measure(&shared.clock);
        }
        self.clock.measured_ns()
    }

    /// Whether the events of the next activation are timed, for learning or for observation.
    fn timing(&self, color: &RuntimeHead, came_from: Option<CoreIndex>) -> Timing {
        let (stealing, noting) = (self.shared.settings.stealing.is_on(), self.shared.settings.noting);
        let tries = self.times.times_next.take();
        let learns = self.learns();
        // Without stealing, colors have no worth, so the next activation is expected to take as
        // long as the last.
        let expected_ns = if stealing { color.worth_ns() } else { self.times.took_ns.get() };
        let sampled = (learns || noting.is_on()) && self.measures.learner.borrow_mut().times(expected_ns);
        // A long color is timed until an event is short again, because its class depends on that. A
        // color in the background is timed, because the others then run for as long.
        let is_told = learns && (came_from.is_some() || color.meta.waits_behind());
        let events = sampled || noting.is_complete() || is_told || tries;
        Timing { events, expected_ns }
    }

    /// Whether this core runs a color that must stay here, whose next events would wait behind a
    /// new color of `worth_ns`.
    pub(crate) fn gives_way(&self, worth_ns: u64) -> bool {
        let (stealing, pace) = (self.shared.settings.stealing, self.run.fixed_pace.get());
        self.run.runs_fixed_color.get() && stealing.gives_way(worth_ns, &pace, self.clock.measured_ns())
    }

    /// Whether measured runs are used for stealing or placement.
    fn learns(&self) -> bool {
        self.shared.settings.stealing.is_on() || self.shared.control.is_some()
    }

    /// A timed event has run; its run began at the last reading of the clock.
    fn timed(&self, color: &RuntimeHead, label: Label, came_from: Option<CoreIndex>) {
        let shared = &*self.shared;
        let handler = HandlerIndex(label.handler().into());
        let start_ns = self.clock.measured_ns();
        let now_ns = self.clock.measure(&shared.clock);
        // Cold by the color's state or by the event's data, whichever came from farther away.
        let moved = came_from.map(|from| shared.settings.layout.distance(from, self.index));
        let cold = moved.max(shared.distance_from(label.from(), self.index));
        let mut sample = RunSample { run_ns: now_ns.saturating_sub(start_ns), cold, interrupted: false };
        let after = self.times.after.replace(RunAfter::Own);
        if self.learns() && !self.run.take_asks_for_socket() {
            let misses = self.measures.perf_counters.missed();
            let mut learner = self.measures.learner.borrow_mut();
            let expected_ns = learner.expects_ns(handler);
            let (interrupted, asked) =
                self.measures.perf_counters.is_interrupted(now_ns, sample.run_ns, expected_ns);
            sample.interrupted = interrupted;
            if !interrupted && shared.settings.stealing == Stealing::Learned {
                color.meta.has_run_for(sample.run_ns);
            }
            self.learn(&mut learner, handler, sample, after);
            self.count_run(handler, Some(sample));
            if let Some(lines) = misses
                && !sample.interrupted
            {
                learner.observe_misses(handler, cold, lines);
                self.count_misses(handler, cold, lines);
            }
            if asked || misses.is_some() {
                // The time of reading the counter does not belong to the next run.
                self.clock.measure(&shared.clock);
            }
        } else {
            self.count_run(handler, None);
            // The next run of the activation begins.
            let _ = self.measures.perf_counters.missed();
        }
        self.note_run(color.id(), label, start_ns, sample, came_from);
    }

    /// The running event has got a socket that it asked core `from` for at `asked_ns`. The wait is
    /// a part of the penalty of a move, because a color with a socket waits after each move.
    pub(crate) fn observe_socket_move(&self, from: CoreIndex, asked_ns: u64) {
        let (shared, running) = (&*self.shared, self.mine().counters.running.load(Ordering::Relaxed));
        let (true, Some(handler)) = (self.learns(), running.checked_sub(1)) else { return };
        let (handler, now_ns) = (HandlerIndex(handler), shared.clock.now_ns());
        if from == self.index || from.0 as usize >= shared.cores.len() {
            return;
        }
        let mut learner = self.measures.learner.borrow_mut();
        let warm_ns = learner.expects_ns(handler);
        if warm_ns == 0 {
            // Before any warm run the wait would count as the cost.
            return;
        }
        let cold = Some(shared.settings.layout.distance(from, self.index));
        let run_ns = warm_ns.saturating_add(now_ns.saturating_sub(asked_ns));
        let sample = RunSample { run_ns, cold, interrupted: false };
        self.learn(&mut learner, handler, sample, RunAfter::Others);
    }

    fn learn(&self, learner: &mut Learner, handler: HandlerIndex, sample: RunSample, after: RunAfter) {
        let handlers = &self.shared.handlers;
        learner.register(handler, |handler| handlers.cost_hint(handler));
        learner.observe(handler, sample, after, handlers.published(handler));
    }

    /// Bookkeeping after every event.
    #[inline]
    fn after(&self, handler: HandlerIndex) {
        add(&self.mine().records.handlers[handler.0 as usize].runs, 1);
    }
}
