//! One step of a core: the running event ends, the next begins.
//!
//! The production [`vermeil_sched::Turn`] decides the next action. This file executes the action
//! and charges the time.

use vermeil_sched::{
    CoreIndex, HandlerIndex, LifoSlotRule, ReadyOrder, RunAfter, RunSample, Stealing, TURN_NS, TurnStep,
    TurnView,
};

use super::colors::{NONE, SimEvent, TokenPlace};
use super::core::{CorePhase, RunningEvent};
use super::execute::RunTime;
use super::{Polled, World};
use crate::fixed;
use crate::random::{self, StreamPurpose};
use crate::watch::{Note, Watch};
use crate::workload::NextHandler;

/// Cost of timing an event: a timestamp (20 to 40 cycles on x86-64) and an update of a mean.
/// [`vermeil_sched::Sampler`] assumes 50 ns for two timestamps.
const TIMING_NS: u64 = 25;

impl<W: Watch> World<W> {
    /// Continues a core whose moment has come.
    pub(super) fn step(&mut self, core: CoreIndex) {
        let now_ns = self.time.now_ns;
        let state = self.core(core);
        if now_ns < state.faults.paused_until_ns {
            let until_ns = state.faults.paused_until_ns;
            return self.go_on(core, until_ns);
        }
        let mut at_ns = now_ns + std::mem::take(&mut state.idleness.debt_ns);
        if let CorePhase::Parked { asleep_ns } = state.phase {
            self.unpark(core, asleep_ns, at_ns);
        }
        if self.core(core).idleness.woken {
            self.core(core).idleness.woken = false;
            // A core that was woken as a thief, and has work now, does not search. Other cores may
            // search instead.
            let has_work = self.core(core).queue.ready.has_work();
            if has_work {
                self.idle_coordinator(core).end_search();
                if self.idle_coordinator(core).end_duty(core.0) {
                    self.call_another(core, &mut at_ns);
                }
            }
        }
        if let Some(running) = self.core(core).running.take() {
            self.shown.busy.remove(core);
            self.finish(core, &running, &mut at_ns);
            if self.goes_on_with(core, running.color, &mut at_ns) {
                return;
            }
        }
        self.next(core, at_ns);
    }

    /// Decides the next action of a core without an event.
    pub(super) fn next(&mut self, core: CoreIndex, mut at_ns: u64) {
        loop {
            self.attend_control(core, &mut at_ns);
            if self.given.options.ideal {
                return match self.thieves.central.pop_front() {
                    Some(color) => self.activate(core, color, 1, at_ns),
                    None => self.park(core, at_ns),
                };
            }
            let state = self.core(core);
            let seen = TurnView { ready: usize::from(state.queue.ready.has_work()), stopping: false };
            match state.pace.turn.next(seen) {
                TurnStep::Run { batch, .. } => {
                    self.lock(core, core, 0, &mut at_ns);
                    if let Some(color) = self.core(core).queue.ready.pop_at(at_ns) {
                        self.gauge(core);
                        self.took_token(core, color);
                        return self.activate(core, color, batch, at_ns);
                    }
                }
                TurnStep::Poll => {
                    self.look(core, &mut at_ns);
                    self.core(core).pace.turn.polled();
                }
                TurnStep::Search => {
                    if self.core(core).is_there() {
                        self.search(core, &mut at_ns);
                    }
                    self.core(core).pace.turn.searched();
                }
                TurnStep::Park | TurnStep::Stop => return self.sleep(core, at_ns),
            }
        }
    }

    /// Polls I/O without waiting.
    fn look(&mut self, core: CoreIndex, at_ns: &mut u64) {
        *at_ns += self.given.machine.costs.syscall_ns;
        self.core(core).pace.looked_ns = *at_ns;
    }

    /// A token has left the core's queue. In a queue of events, one entry has left too.
    pub(super) fn took_token(&mut self, core: CoreIndex, color: u32) {
        let by_event = self.thieves.stealing.order() == ReadyOrder::Events;
        let events = u64::from(self.colors.color(color).len);
        let state = self.core(core);
        state.queue.waiting_events -= events;
        state.queue.entries -= usize::from(by_event);
    }

    /// A core gets the right to run a color, for at most `batch` events.
    pub(super) fn activate(&mut self, core: CoreIndex, color: u32, batch: usize, at_ns: u64) {
        let by_event = self.thieves.stealing.order() == ReadyOrder::Events;
        let taken = self.colors.color_mut(color);
        taken.token = TokenPlace::Running;
        taken.core = core;
        let number = taken.number;
        let (is_fixed, queued) = (taken.is_fixed(), taken.len as usize);
        let state = self.core(core);
        state.idleness.idle_since_ns = None;
        if is_fixed {
            state.pace.fixed.observe(queued, at_ns);
        }
        // An entry of a queue of events stands for one event.
        state.activation.batch_left = if by_event { 1 } else { batch };
        let last = std::mem::replace(&mut state.history.color_number, number);
        state.history.after = if last == number { RunAfter::Own } else { RunAfter::Others };
        state.activation.stays_since_ns = None;
        self.begin_activation(core, color, at_ns);
    }

    /// Begins to run the events that a color has queued by now.
    fn begin_activation(&mut self, core: CoreIndex, color: u32, mut at_ns: u64) {
        let taken = self.colors.color(color);
        let (expected_ns, last, queued) = (taken.worth_ns, taken.last, taken.len as usize);
        let is_cold = last.is_some_and(|last| last != core);
        let observes = self.thieves.stealing.is_on() || self.placing.control.is_some();
        let (stealing, opens) =
            (self.thieves.stealing, !self.given.options.ideal && self.given.program.classes.is_empty());
        let is_sampled = observes && self.placing.costs.learner_mut(core).times(expected_ns);
        let state = self.core(core);
        let tries = std::mem::take(&mut state.activation.times_next);
        state.activation.is_timed = is_sampled || observes && (is_cold || tries);
        at_ns += if state.activation.is_timed { TIMING_NS } else { 0 };
        state.activation.started_ns = at_ns;
        state.activation.expected_ns = expected_ns;
        if opens {
            state.slot.rule = LifoSlotRule::begin(stealing, expected_ns);
        }
        let batch = stealing.batch(state.activation.batch_left, expected_ns, queued);
        state.activation.queued_left = queued.min(batch);
        self.start(core, color, at_ns);
    }

    /// Begins the first event of a color.
    fn start(&mut self, core: CoreIndex, color: u32, mut at_ns: u64) {
        let event = self.colors.pop(color).expect("a color with a token has an event");
        self.core(core).activation.color = color;
        let ran = self.colors.color_mut(color);
        let last = ran.last.replace(core);
        let cold =
            last.filter(|&last| last != core).map(|last| self.given.machine.layout().distance(core, last));
        if !self.given.options.ideal {
            at_ns += self.given.machine.costs.dispatch_ns;
            if let Some(distance) = cold {
                // The two lines of the color and the line of the event.
                at_ns += self.move_lines(core, 3_000, distance);
            }
        }
        let found = self.find_arrivals(event);
        let RunTime { run_ns, base_ns } = self.execute(core, event, found, at_ns);
        let posted = *self.colors.event(event);
        self.time.steps += 1;
        self.placing.ran_on[usize::from(posted.handler)] = Some(core);
        let number = self.colors.color(color).number;
        let (started_ns, ends_ns) = (at_ns, at_ns + run_ns);
        let note =
            Note::Started { at_ns, core, event: posted.sequence, color: number, handler: posted.handler };
        self.output.watch.note(note);
        self.output.results.fold(at_ns, core, posted.sequence);
        self.output.results.waits.add(at_ns.saturating_sub(posted.posted_ns));
        let state = self.core(core);
        state.counts.cold_runs += u64::from(cold.is_some());
        state.running = Some(RunningEvent { event, color, started_ns, ends_ns, base_ns, cold, found });
        self.shown.busy.insert(core);
        self.go_on(core, ends_ns);
    }

    /// Requests that a polling handler finds.
    fn find_arrivals(&mut self, event: u32) -> u32 {
        let handler = &self.given.program.handlers[usize::from(self.colors.event(event).handler)];
        let Some(source) = handler.polls else { return 0 };
        let batch = self.given.program.sources[usize::from(source)].poll.map_or(1, |poll| poll.batch);
        (self.arrivals.polled[usize::from(source)].waiting.len() as u32).min(batch)
    }

    /// Ends an event: records the measured costs and posts the successors.
    fn finish(&mut self, core: CoreIndex, running: &RunningEvent, at_ns: &mut u64) {
        let event = *self.colors.event(running.event);
        let run_ns = running.ends_ns - running.started_ns;
        let color = self.colors.color_mut(running.color);
        let was_stolen = color.stolen > 0;
        color.stolen = color.stolen.saturating_sub(1);
        let number = color.number;
        self.output.watch.note(Note::Finished {
            at_ns: running.ends_ns,
            core,
            event: event.sequence,
            color: number,
        });
        let state = self.core(core);
        state.counts.events += 1;
        state.counts.stolen_work_ns += if was_stolen { run_ns } else { 0 };
        state.pace.turn.ran(1);
        state.activation.batch_left -= 1;
        state.activation.queued_left -= 1;
        self.count_time(core, running);
        self.count_work(core, run_ns);
        self.output.results.ran(event.handler, run_ns, running.cold.is_some());
        self.learn(core, event.handler, running, run_ns, at_ns);
        self.follow(core, running, at_ns);
        self.colors.discard(running.event);
        self.arrivals.outstanding -= 1;
    }

    /// Counts the time of a run, up to now and without the part in the warm-up.
    pub(super) fn count_time(&mut self, core: CoreIndex, running: &RunningEvent) {
        let until_ns = running.ends_ns.min(self.time.now_ns);
        let part_ns = until_ns.saturating_sub(running.started_ns.max(self.time.counts_from_ns));
        let base_ns = fixed::share(running.base_ns, part_ns, running.ends_ns - running.started_ns);
        let counts = &mut self.core(core).counts;
        counts.busy_ns += part_ns;
        counts.base_ns += base_ns;
    }

    /// Learns costs as the runtime does: from timed activations only.
    fn learn(&mut self, core: CoreIndex, handler: u16, running: &RunningEvent, run_ns: u64, at_ns: &mut u64) {
        // The farther of two distances counts: the color's last core, and the core that posted the
        // event.
        let handed = self.colors.event(running.event).by.filter(|&by| by != core);
        let handed = handed.map(|by| self.given.machine.layout().distance(by, core));
        let sample = RunSample { run_ns, cold: running.cold.max(handed), interrupted: false };
        let state = self.core(core);
        let (timed, after) =
            (state.activation.is_timed, std::mem::replace(&mut state.history.after, RunAfter::Own));
        if timed {
            *at_ns += TIMING_NS;
            self.placing.costs.observe(core, handler, sample, after);
            let length = &mut self.colors.color_mut(running.color).length;
            *length = length.after(run_ns);
        }
        self.count_run(core, handler, timed.then_some(sample));
    }

    /// Posts the successors of an event, and answers the request.
    fn follow(&mut self, core: CoreIndex, running: &RunningEvent, at_ns: &mut u64) {
        let event = *self.colors.event(running.event);
        let handler = usize::from(event.handler);
        if let Some(source) = self.given.program.handlers[handler].polls {
            return self.hand_over(core, source, running, at_ns);
        }
        if self.given.program.trace.is_some() {
            return self.follow_recording(core, event.step, at_ns);
        }
        if self.given.program.handlers[handler].reply {
            self.answer(event.request, *at_ns);
        }
        if let Some(next) = self.choose_next(handler, event.request, event.step) {
            self.go_to(core, &event, next, event.step.wrapping_add(1), at_ns);
        }
        for index in 0..self.given.program.handlers[handler].also.len() {
            let next = self.given.program.handlers[handler].also[index];
            // Another key for each event, because events with equal keys draw equal numbers.
            let step = random::mix(u64::from(event.step) << 32 | (index as u64 + 1)) as u32;
            self.go_to(core, &event, next, step, at_ns);
        }
        self.event_of_request_ended(event.request);
    }

    fn choose_next(&self, handler: usize, request: u32, step: u32) -> Option<NextHandler> {
        let handler = &self.given.program.handlers[handler];
        match handler.next.as_slice() {
            [] => None,
            [only] => Some(*only),
            several => {
                let drawn = self.arrivals.requests.get(request).draw(
                    self.given.options.seed,
                    StreamPurpose::Branch,
                    u64::from(step),
                );
                let mut left = random::scale(drawn, handler.weights.max(1));
                several.iter().copied().find(|next| match left.checked_sub(u64::from(next.weight)) {
                    Some(rest) => {
                        left = rest;
                        false
                    }
                    None => true,
                })
            }
        }
    }

    /// Posts a successor of event `by`, with the key `step`.
    fn go_to(&mut self, core: CoreIndex, by: &SimEvent, next: NextHandler, step: u32, at_ns: &mut u64) {
        let (request, by_handler) = (by.request, by.handler);
        let color = self.color_for(next.handler, request, Some(core));
        let event = self.colors.prepare(next.handler, color, request, step);
        self.arrivals.outstanding += 1;
        if request != NONE {
            self.arrivals.requests.get_mut(request).live += 1;
        }
        self.count_post(Some((core, by_handler)), next.handler);
        match next.after_ns {
            0 => self.post(event, Some(core), at_ns),
            after_ns => self.time.clock.at(*at_ns + after_ns, super::Moment::Deliver { event }),
        }
    }

    fn follow_recording(&mut self, core: CoreIndex, recorded: u32, at_ns: &mut u64) {
        let trace = self.given.program.trace.as_ref().expect("only recordings come here");
        let children: Vec<u32> = trace.children(recorded).to_vec();
        for child in children {
            let event = self.prepare_recorded(child);
            self.post(event, Some(core), at_ns);
        }
    }

    /// A polling handler passes on the requests that it found. It is posted again if more requests
    /// have come.
    fn hand_over(&mut self, core: CoreIndex, source: u16, running: &RunningEvent, at_ns: &mut u64) {
        let polled: &mut Polled = &mut self.arrivals.polled[usize::from(source)];
        let found: Vec<u32> = polled.waiting.drain(..running.found as usize).collect();
        polled.is_posted = !polled.waiting.is_empty();
        let again = polled.is_posted;
        for request in found {
            self.enter(request, Some(core), at_ns);
        }
        if again {
            self.post_poll(source, Some(core), at_ns);
        }
    }

    /// Whether the color runs on. Otherwise the color's token is queued again or ends.
    fn goes_on_with(&mut self, core: CoreIndex, color: u32, at_ns: &mut u64) -> bool {
        let state = self.core(core);
        if state.activation.queued_left > 0 {
            self.start(core, color, *at_ns);
            return true;
        }
        state.observe_activation(*at_ns);
        state.queue.ready.charge(at_ns.saturating_sub(state.activation.started_ns));
        state.pace.expired |= at_ns.saturating_sub(state.pace.looked_ns) > TURN_NS;
        let left = state.activation.batch_left;
        let more = self.colors.color(color).len > 0;
        let state = self.core(core);
        if more || left == 0 || state.pace.expired || !state.is_there() {
            self.close_lifo_slot(core, at_ns);
        }
        if more && left > 0 && self.goes_straight_on(core, color, at_ns) {
            self.begin_activation(core, color, *at_ns);
            return true;
        }
        self.core(core).activation.color = NONE;
        if std::mem::take(&mut self.core(core).pace.expired) {
            self.core(core).pace.turn.expire();
        }
        if more {
            self.requeue(color, core, at_ns);
        } else {
            let returns = self.given.options.colors_return;
            let empty = self.colors.color_mut(color);
            empty.token = TokenPlace::Absent;
            empty.core = if returns { empty.home } else { empty.core };
            self.colors.end_if_unused(color);
        }
        if let Some(next) = self.take_lifo_slot(core) {
            self.activate(core, next, left, *at_ns);
            return true;
        }
        self.core(core).publish_time();
        false
    }

    /// Whether a color with more events goes on without a wait in the queue, as in the runtime. The
    /// answer is yes if no other color waits, or if the color stays nevertheless.
    fn goes_straight_on(&mut self, core: CoreIndex, color: u32, at_ns: &mut u64) -> bool {
        if self.must_leave(color, core) {
            return false;
        }
        let state = self.core(core);
        if !state.queue.ready.has_work() {
            state.publish_time();
            return !state.pace.expired;
        }
        let stays = self.extends_batch(core, color, *at_ns);
        if stays && std::mem::take(&mut self.core(core).pace.expired) {
            self.look(core, at_ns);
        }
        stays
    }

    /// Whether a color with more events stays although other colors wait: because a return to cold
    /// caches is expensive, or for a measurement.
    fn extends_batch(&mut self, core: CoreIndex, color: u32, at_ns: u64) -> bool {
        if self.thieves.stealing != Stealing::Learned || !self.given.program.classes.is_empty() {
            return false;
        }
        let handler = self.colors.last_handler(color);
        let stay_ns = self.placing.costs.published(handler).extension_ns();
        if stay_ns == 0 {
            let waiting = self.cores[core.0 as usize].queue.ready.waiting();
            let learner = self.placing.costs.learner_mut(core);
            let tries = self.cores[core.0 as usize].activation.is_timed
                && learner.tries_extension(HandlerIndex(handler.into()), waiting);
            self.core(core).activation.times_next = tries;
            return tries;
        }
        at_ns - *self.core(core).activation.stays_since_ns.get_or_insert(at_ns) < stay_ns
    }
}
