//! Posting events, putting tokens into ready queues, and waking cores for new work.
//!
//! Every access to another core's queue has a cost: the lock with its cache line and its wait, the
//! color's lines, the wake-up call. The scheduler decides whether to wake a core.

use std::cmp::Reverse;

use vermeil_sched::{
    BatchWait, ClassIndex, CoreIndex, CoreLoad, Distance, HandlerIndex, Leader, Placement, QueuedClass,
    ReadyOrder, StealCandidate, Stealing,
};

use super::World;
use super::clock::Moment;
use super::colors::{NONE, TokenPlace};
use super::core::CorePhase;
use crate::options::PlantedBug;
use crate::watch::{Note, Watch};

/// No core posts and pays: a timer posts, because a wait or the time for gathering has ended.
const NOBODY: Option<CoreIndex> = None;

impl<W: Watch> World<W> {
    /// Posts a prepared event to the event's color. The core `by` pays; a post by a device costs
    /// nothing.
    pub(super) fn post(&mut self, event: u32, by: Option<CoreIndex>, at_ns: &mut u64) {
        let posted = *self.colors.event(event);
        self.colors.push(event, *at_ns, self.placing.costs.worth_ns(posted.handler), by);
        if self.colors.color(posted.color).token == TokenPlace::Absent {
            self.follow_leader(posted.color, by);
            self.settle(posted.color);
        }
        let color = self.colors.color(posted.color);
        let (target, token, number) = (color.core, color.token, color.number);
        let sequence = self.colors.event(event).sequence;
        self.output.watch.note(Note::Posted {
            at_ns: *at_ns,
            event: sequence,
            color: number,
            handler: posted.handler,
            core: target,
        });
        if let (Some(by), false) = (by, self.given.options.ideal) {
            let distance = self.given.machine.layout().distance(by, target);
            *at_ns += self.given.machine.costs.post_ns + self.move_line(by, distance);
        }
        if self.thieves.stealing.order() == ReadyOrder::Events {
            self.enqueue(target, number, 1, by, at_ns);
        }
        match token {
            TokenPlace::Absent => {
                self.bring_to_poster(posted.color, by, *at_ns);
                match self.given.program.handlers[usize::from(posted.handler)].gather {
                    Some(gather) if !self.given.options.ideal => {
                        self.wait_for_batch(posted.color, gather, by, at_ns)
                    }
                    _ => self.woken(posted.color, by, at_ns),
                }
            }
            TokenPlace::WaitingForBatch => {
                let gather = self.given.program.handlers[usize::from(posted.handler)].gather;
                let len = self.colors.color(posted.color).len as usize;
                if gather.is_none_or(|gather| gather.is_enough(len))
                    && self.core(target).queue.ready.take_batch_wait(number).is_some()
                {
                    self.push_token(posted.color, by, at_ns);
                }
            }
            TokenPlace::Ready => {
                self.core(target).queue.waiting_events += 1;
                self.reclass(posted.color, by, at_ns);
            }
            TokenPlace::Next | TokenPlace::Running => {}
        }
    }

    /// Moves an empty color to the core of its leader, if it has a leader.
    fn follow_leader(&mut self, color: u32, by: Option<CoreIndex>) {
        let ran_on = |handler: HandlerIndex| self.placing.ran_on[handler.0 as usize];
        let follower = self.colors.color(color);
        let from = follower.core;
        let leader = follower.leader.and_then(|leader| leader.core(by, ran_on));
        let may_go = |there: &CoreIndex| *there != from && follower.placement.allows(*there);
        if let Some(there) = leader.filter(may_go) {
            self.colors.color_mut(color).core = there;
            self.note_moved(color, from, there);
        }
    }

    /// Moves a color whose core sleeps to the core that has just posted to it, if that pays. A
    /// color that a plan has placed stays.
    fn bring_to_poster(&mut self, color: u32, by: Option<CoreIndex>, at_ns: u64) {
        let Some(here) = by.filter(|_| self.thieves.stealing == Stealing::Learned) else { return };
        let posted = self.colors.color(color);
        let (home, may_go) = (posted.core, !posted.is_fixed());
        let awake = self.core(home).phase == CorePhase::Awake;
        let stays = self.given.options.ideal || here == home || awake;
        if stays || !may_go || self.wanted_core(color).is_some() {
            return;
        }
        let candidate = self.candidate(color, self.core_load_of(here, at_ns).wait_ns(at_ns), here, at_ns);
        if self.thieves.stealing.moves_to_poster(&candidate, self.placing.costs.moves.wake_ns()) {
            self.colors.color_mut(color).core = here;
            self.note_handed_over(color, home, here);
        }
    }

    /// Keeps the token of a color that was empty until enough events have gathered.
    fn wait_for_batch(&mut self, color: u32, gather: BatchWait, by: Option<CoreIndex>, at_ns: &mut u64) {
        let batch_waits = self.colors.color_mut(color);
        batch_waits.token = TokenPlace::WaitingForBatch;
        let (core, number) = (batch_waits.core, batch_waits.number);
        if let Some(by) = by {
            self.lock(by, core, 0, at_ns);
        }
        let due_ns = *at_ns + gather.within_ns;
        self.core(core).queue.ready.wait_for_batch(number, color, due_ns);
        self.time.clock.at(due_ns, Moment::Batched { core: core.0 });
        // The core must not sleep past the time at which the gathering ends.
        self.wake(core, by, at_ns);
    }

    /// Queues the colors whose gathering time has passed.
    pub(super) fn queue_batched(&mut self, core: CoreIndex) {
        let mut at_ns = self.time.now_ns;
        while let Some(color) = self.core(core).queue.ready.take_batched(at_ns) {
            self.push_token(color, NOBODY, &mut at_ns);
        }
    }

    /// Adds entries to a queue that holds events.
    fn enqueue(
        &mut self,
        core: CoreIndex,
        number: u64,
        entries: usize,
        by: Option<CoreIndex>,
        at_ns: &mut u64,
    ) {
        // A removed core may still run its last event.
        let core = self.next_there(core);
        if let Some(by) = by {
            self.lock(by, core, 0, at_ns);
        }
        let state = self.core(core);
        state.queue.ready.post(number, entries);
        state.queue.entries += entries;
        self.gauge(core);
        if by != Some(core) {
            self.wake(core, by, at_ns);
        }
    }

    /// Puts the token of a color with events into the ready queue of the color's core, and wakes a
    /// core for the color.
    pub(super) fn push_token(&mut self, color: u32, by: Option<CoreIndex>, at_ns: &mut u64) {
        self.colors.color_mut(color).token = TokenPlace::Ready;
        if self.given.options.ideal {
            self.thieves.central.push_back(color);
            if let Some(idle) = self.best_idle() {
                self.core(idle).phase = CorePhase::Awake;
                self.shown.asleep.remove(idle);
                self.go_on(idle, *at_ns);
            }
            return;
        }
        self.settle(color);
        self.offer(color, by, at_ns);
        let target = self.queue_token(color, by, at_ns);
        self.tell_someone(color, target, by, at_ns);
    }

    /// The sleeping core that the ideal schedule wakes: a core without a busy hardware thread
    /// beside, then the fastest.
    fn best_idle(&self) -> Option<CoreIndex> {
        let there = self.shown.asleep.iter().filter(|core| self.cores[core.0 as usize].is_there());
        there.min_by_key(|&CoreIndex(core)| {
            let described = &self.given.machine.cores[core as usize];
            let is_beside = described.sibling.is_some_and(|sibling| !self.shown.asleep.contains(sibling));
            (is_beside, Reverse(described.speed_percent), core)
        })
    }

    /// Gives a color that is about to wait on a busy core to a sleeping core, or if no core sleeps
    /// to a core with less waiting work, if that pays. Returns whether the color has a new core.
    pub(super) fn offer(&mut self, color: u32, by: Option<CoreIndex>, at_ns: &mut u64) -> bool {
        let offered = self.colors.color(color);
        let owner = offered.core;
        if self.thieves.stealing != Stealing::Learned
            || offered.is_fixed()
            || self.wanted_core(color).is_some()
            || self.given.options.planted == Some(PlantedBug::SleepsBesideWork)
        {
            return false;
        }
        let sleeps = self.core(owner).phase != CorePhase::Awake;
        if sleeps && !self.given.machine.layout().is_slow(owner) {
            return false;
        }
        if by == Some(owner) && self.begin_elsewhere(color, owner, at_ns) {
            return true;
        }
        let Some(idle) = self.best_asleep(owner, color) else {
            return !sleeps && self.offer_to_busy_core(color, by, at_ns);
        };
        let at_ns = *at_ns;
        let load = self.core_load_of(owner, at_ns);
        let distance = self.given.machine.layout().distance(owner, idle);
        let candidate = self.candidate(color, load.last_wait_ns(at_ns), idle, at_ns);
        let gives_way = by == Some(owner) && self.gives_way(owner, color, at_ns);
        let costs_ns = (self.placing.costs.moves.steal_ns(distance), self.placing.costs.moves.wake_ns());
        let stealing = self.thieves.stealing;
        let goes = stealing.hurries(&candidate, costs_ns)
            || !sleeps && stealing.hands_over(&candidate, &load, gives_way, costs_ns);
        if goes {
            self.give(color, idle, at_ns);
        }
        goes
    }

    /// Gives a color that is about to wait to a core with less waiting work, if that pays. The
    /// color's core asks one other core if it queues the color itself, and pays for the look at the
    /// other core's hint.
    fn offer_to_busy_core(&mut self, color: u32, by: Option<CoreIndex>, at_ns: &mut u64) -> bool {
        let (owner, queued_ns) = (self.colors.color(color).core, self.colors.color(color).worth_ns);
        if by.is_some_and(|by| by != owner) {
            return false;
        }
        let layout = self.given.machine.layout();
        let order = &mut self.cores[owner.0 as usize].queue.ask_order;
        let Some(other) = order.next(layout.neighbours(owner)) else { return false };
        let distance = layout.distance(owner, other);
        let steal_ns = self.placing.costs.moves.steal_ns(distance);
        let (stealing, load) = (self.thieves.stealing, self.core_load_of(owner, *at_ns));
        if !stealing.may_move_to_shorter_queue(queued_ns, &load, steal_ns)
            || !self.may_run(color, other)
            || !self.cores[other.0 as usize].is_there()
        {
            return false;
        }
        if let Some(by) = by {
            *at_ns += self.move_line(by, distance);
        }
        let candidate = self.candidate(color, load.last_wait_ns(*at_ns), other, *at_ns);
        let loads = (&load, &self.core_load_of(other, *at_ns));
        let goes = stealing.moves_to_shorter_queue(&candidate, loads, *at_ns, steal_ns);
        if goes {
            self.give(color, other, *at_ns);
        }
        goes
    }

    /// Sends a color that has never run, and that its maker's core `owner` is about to queue, to a
    /// core with less waiting work, if that pays. The maker pays for the look at the other core's
    /// hint.
    fn begin_elsewhere(&mut self, color: u32, owner: CoreIndex, at_ns: &mut u64) -> bool {
        let (made, load) = (self.colors.color(color), self.core_load_of(owner, *at_ns));
        let (has_run, queued_ns) = (made.last.is_some(), made.worth_ns);
        let gives_way = self.gives_way(owner, color, *at_ns);
        if has_run || load.waiting == 0 && !gives_way {
            return false;
        }
        let (layout, stealing) = (self.given.machine.layout(), self.thieves.stealing);
        let order = &mut self.cores[owner.0 as usize].queue.ask_order;
        let Some(other) = order.next(layout.node_neighbours(owner)) else { return false };
        let distance = layout.distance(owner, other);
        let steal_ns = self.placing.costs.moves.steal_ns(distance);
        let awake = self.cores[other.0 as usize].phase == CorePhase::Awake;
        if !awake || !stealing.may_begin_elsewhere(queued_ns, steal_ns) || !self.may_run(color, other) {
            return false;
        }
        *at_ns += self.move_line(owner, distance);
        let candidate = self.candidate(color, load.last_wait_ns(*at_ns), other, *at_ns);
        let there = self.core_load_of(other, *at_ns);
        let goes = stealing.begins_elsewhere(&candidate, &there, gives_way, (*at_ns, steal_ns));
        if goes {
            // No time of a move, because the color is nowhere yet, so the next move need not wait.
            self.colors.color_mut(color).core = other;
            self.note_handed_over(color, owner, other);
        }
        goes
    }

    /// Moves a color that is about to be queued to another core.
    fn give(&mut self, color: u32, to: CoreIndex, at_ns: u64) {
        let given = self.colors.color_mut(color);
        let owner = std::mem::replace(&mut given.core, to);
        given.moved_ns = Some(at_ns);
        self.note_handed_over(color, owner, to);
    }

    /// Whether a core runs a color that must stay there, whose next event would wait behind
    /// `color`.
    pub(super) fn gives_way(&self, core: CoreIndex, color: u32, at_ns: u64) -> bool {
        let state = &self.cores[core.0 as usize];
        let (running, queued_ns) = (state.activation.color, self.colors.color(color).worth_ns);
        running != NONE
            && self.colors.color(running).is_fixed()
            && self.thieves.stealing.gives_way(queued_ns, &state.pace.fixed, at_ns)
    }

    /// Returns a color with more events to the queue after a run. Wakes no core, except a new core
    /// of the color.
    pub(super) fn requeue(&mut self, color: u32, core: CoreIndex, at_ns: &mut u64) {
        if self.given.options.ideal {
            return self.push_token(color, Some(core), at_ns);
        }
        if self.given.machine.layout().is_slow(core) {
            self.offer(color, Some(core), at_ns);
        }
        let target = self.queue_token(color, Some(core), at_ns);
        if target != core {
            self.wake(target, Some(core), at_ns);
        }
    }

    /// Puts a token into the ready queue of the color's core and returns the core.
    pub(super) fn queue_token(&mut self, color: u32, by: Option<CoreIndex>, at_ns: &mut u64) -> CoreIndex {
        self.colors.color_mut(color).token = TokenPlace::Ready;
        self.settle(color);
        let target = self.colors.color(color).core;
        if let Some(by) = by {
            self.lock(by, target, 0, at_ns);
        }
        let (number, class) = (self.colors.color(color).number, self.class_of(color));
        let of = self.queue_class(color);
        let slot = self.core(target).queue.ready.push_in(number, color, class, of, *at_ns);
        self.gauge(target);
        self.core(target).queue.waiting_events += u64::from(self.colors.color(color).len);
        self.colors.color_mut(color).slot = slot;
        target
    }

    /// The part of the ready queue for a color with events: the class of the handler whose event
    /// was posted last, or without classes, if costs are learned, the long or the short colors.
    pub(super) fn queue_class(&self, color: u32) -> ClassIndex {
        if self.given.program.classes.is_empty() {
            let learns = self.thieves.stealing == Stealing::Learned;
            return ClassIndex::by_length(learns && self.colors.color(color).length.is_long());
        }
        self.given.program.handlers[usize::from(self.colors.last_handler(color))].class
    }

    /// Moves a color to the core that its handler is placed on. If that core has been removed, the
    /// next core gets the color.
    fn settle(&mut self, color: u32) {
        let core = self.colors.color(color).core;
        let wanted = self.wanted_core(color).unwrap_or(core);
        let there = self.next_there(wanted);
        if there == core {
            return;
        }
        self.colors.color_mut(color).core = there;
        self.note_moved(color, core, there);
    }

    /// Updates the worth class of a queued color whose worth has grown.
    fn reclass(&mut self, color: u32, by: Option<CoreIndex>, at_ns: &mut u64) {
        if self.given.options.ideal
            || self.thieves.stealing.order() == ReadyOrder::Events
            || !self.thieves.stealing.is_on()
        {
            return;
        }
        let waiting = self.colors.color(color);
        let (slot, number, target, worth_ns) = (waiting.slot, waiting.number, waiting.core, waiting.worth_ns);
        let class = QueuedClass::of(worth_ns);
        let marked = waiting.class_for_thieves(class);
        let was = QueuedClass::of(worth_ns - self.colors.last_cost_ns(color));
        if was == class || waiting.is_fixed() {
            return;
        }
        if let Some(by) = by {
            self.lock(by, target, 0, at_ns);
        }
        self.core(target).queue.ready.reclass(slot, number, marked);
        self.gauge(target);
        self.consider_thief(color, target, by, at_ns);
    }

    /// The worth class of a color for thieves; `None` if the color must stay.
    pub(super) fn class_of(&self, color: u32) -> Option<QueuedClass> {
        let color = self.colors.color(color);
        let class = self.thieves.stealing.class(color.worth_ns).filter(|_| !color.is_fixed());
        color.class_for_thieves(class)
    }

    /// Wakes the color's core if that core sleeps, else a thief if that pays.
    fn tell_someone(&mut self, color: u32, target: CoreIndex, by: Option<CoreIndex>, at_ns: &mut u64) {
        if self.core(target).phase != CorePhase::Awake {
            self.wake(target, by, at_ns);
        } else if self.thieves.stealing.is_on() {
            self.consider_thief(color, target, by, at_ns);
        }
    }

    /// Wakes a sleeping core to steal a color that waits on `owner`, if that pays, or to watch
    /// `owner`.
    fn consider_thief(&mut self, color: u32, owner: CoreIndex, by: Option<CoreIndex>, at_ns: &mut u64) {
        if self.idle_coordinator(owner).is_searching()
            || self.given.options.planted == Some(PlantedBug::SleepsBesideWork)
        {
            return;
        }
        let Some(thief) = self.best_asleep(owner, color) else { return };
        let load = self.core_load_of(owner, *at_ns);
        let distance = self.given.machine.layout().distance(owner, thief);
        let candidate = self.candidate(color, load.wait_ns(*at_ns), thief, *at_ns);
        let (steal_ns, wake_ns) =
            (self.placing.costs.moves.steal_ns(distance), self.placing.costs.moves.wake_ns());
        let wakes = self.thieves.stealing.wakes(&candidate, &load, steal_ns, wake_ns);
        if wakes || self.needs_watcher((owner, &load), thief, *at_ns) {
            self.wake_thief(thief, by, at_ns);
        }
    }

    /// Wakes a sleeping core to watch a core that keeps a color, if no core watches yet.
    pub(super) fn consider_watch(&mut self, owner: CoreIndex, at_ns: &mut u64) {
        let mut neighbours = self.given.machine.layout().neighbours(owner).iter().copied();
        let Some(watcher) = neighbours.find(|&core| self.is_asleep(core)) else { return };
        let load = self.core_load_of(owner, *at_ns);
        if self.needs_watcher((owner, &load), watcher, *at_ns) {
            self.wake_thief(watcher, Some(owner), at_ns);
        }
    }

    /// The sleeping core on which a color of core `target` would end earliest.
    fn best_asleep(&self, target: CoreIndex, color: u32) -> Option<CoreIndex> {
        if self.shown.asleep.is_empty() {
            return None;
        }
        let fits = |core| self.is_asleep(core) && self.may_run(color, core);
        let handler = self.colors.last_handler(color);
        let (moves, published) = (&self.placing.costs.moves, self.placing.costs.published(handler));
        let move_ns = |distance| moves.steal_ns(distance) + published.known_penalty_ns(distance);
        let run_ns = self.colors.color(color).worth_ns;
        self.given.machine.layout().best_neighbour(target, fits, run_ns, move_ns)
    }

    /// Whether a core sleeps that the machine still has.
    pub(super) fn is_asleep(&self, core: CoreIndex) -> bool {
        self.shown.asleep.contains(core) && self.cores[core.0 as usize].is_there()
    }

    /// Whether a color may move to this core.
    pub(super) fn may_run(&self, color: u32, core: CoreIndex) -> bool {
        let color = self.colors.color(color);
        let apart = self.given.options.policy.keeps_apart(self.given.machine.layout(), color.core, core);
        !apart && color.placement.allows(core)
    }

    /// A color with an expected wait, from the view of core `to`, which may take the color.
    pub(super) fn candidate(&self, color: u32, wait_ns: u64, to: CoreIndex, at_ns: u64) -> StealCandidate {
        let (waiting, layout) = (self.colors.color(color), self.given.machine.layout());
        let distance = layout.distance(waiting.core, to);
        let published = self.placing.costs.published(self.colors.last_handler(color));
        StealCandidate {
            queued_ns: waiting.worth_ns,
            wait_ns,
            penalty_ns: published.penalty_ns(distance),
            known_penalty_ns: published.known_penalty_ns(distance),
            slower_ns: layout.slower_ns(waiting.worth_ns, waiting.core, to),
            since_move_ns: waiting.moved_ns.map_or(u64::MAX, |moved| at_ns.saturating_sub(moved)),
        }
    }

    /// The hint of a core: the present hint, or with stale hints an older one.
    pub(super) fn core_load_of(&self, core: CoreIndex, at_ns: u64) -> CoreLoad {
        let state = &self.cores[core.0 as usize];
        if self.faults.stale_ns == 0 {
            return state.core_load();
        }
        if at_ns >= state.hint.published.get().0 + self.faults.stale_ns {
            state.hint.published.set((at_ns, state.core_load()));
        }
        state.hint.published.get().1
    }

    /// Wakes a sleeping core.
    pub(super) fn wake(&mut self, core: CoreIndex, by: Option<CoreIndex>, at_ns: &mut u64) {
        let CorePhase::Parked { asleep_ns } = self.core(core).phase else { return };
        // A core on its way to sleep notices the call when it gets there, without the latency of a
        // wake-up.
        let late_ns = if *at_ns < asleep_ns { asleep_ns - *at_ns } else { self.wake_ns(core) };
        let called_ns = *at_ns;
        if let Some(by) = by {
            *at_ns += self.given.machine.costs.wake_call_ns;
            self.core(by).counts.wakes += 1;
        }
        let resumes_ns = *at_ns + late_ns;
        self.placing.costs.woke(core, resumes_ns - called_ns);
        self.unpark(core, asleep_ns, resumes_ns);
        self.go_on(core, resumes_ns);
    }

    /// Makes a core awake from this time on.
    pub(super) fn unpark(&mut self, core: CoreIndex, asleep_ns: u64, at_ns: u64) {
        let state = self.core(core);
        state.phase = CorePhase::Awake;
        state.idleness.woken = true;
        state.pace.looked_ns = at_ns;
        self.shown.asleep.remove(core);
        let state = self.core(core);
        state.counts.idle_ns += at_ns.saturating_sub(asleep_ns);
        self.count_idle(core, at_ns.saturating_sub(asleep_ns));
        self.idle_coordinator(core).end_watch(core.0);
        self.output.watch.note(Note::Unparked { at_ns, core });
    }

    /// Takes the lock of a core's queue. The time includes the lock's cache line, the wait for the
    /// holder, and `hold_ns` beyond the usual time.
    pub(super) fn lock(&mut self, by: CoreIndex, of: CoreIndex, hold_ns: u64, at_ns: &mut u64) {
        if self.given.options.ideal {
            return;
        }
        let (costs, layout) = (&self.given.machine.costs, self.given.machine.layout());
        let mut distance = Distance::Same;
        let held_ns = |before: Option<CoreIndex>| {
            distance = layout.distance(by, before.unwrap_or(of));
            costs.line_ns(distance) + costs.lock_ns + hold_ns
        };
        let lock = &mut self.shown.locks[of.0 as usize];
        let (from_ns, until_ns) = lock.take(by, (self.time.now_ns, *at_ns), held_ns);
        self.move_line(by, distance);
        self.core(by).counts.lock_ns += from_ns - *at_ns;
        *at_ns = until_ns;
    }

    /// Moves one of the runtime's cache lines to a core over this distance, and returns the time.
    /// The line is counted unless a shared cache has it.
    pub(super) fn move_line(&mut self, core: CoreIndex, distance: Distance) -> u64 {
        if distance > Distance::L3 {
            self.core(core).counts.runtime_lines_milli += 1_000;
        }
        self.given.machine.costs.line_ns(distance)
    }

    /// As [`Self::move_line`], for `lines_milli` thousandths of a line.
    pub(super) fn move_lines(&mut self, core: CoreIndex, lines_milli: u64, distance: Distance) -> u64 {
        if distance > Distance::L3 {
            self.core(core).counts.runtime_lines_milli += lines_milli;
        }
        self.given.machine.costs.lines_ns(lines_milli, distance)
    }

    /// Posts an event after its wait has ended.
    pub(super) fn deliver(&mut self, event: u32) {
        let mut at_ns = self.time.now_ns;
        self.post(event, NOBODY, &mut at_ns);
    }

    /// Whether a color must leave this core, because its handler is placed on another core.
    pub(super) fn must_leave(&self, color: u32, core: CoreIndex) -> bool {
        self.wanted_core(color).is_some_and(|wanted| wanted != core)
    }

    /// The color of an event of this handler.
    pub(super) fn color_for(&mut self, handler: u16, request: u32, by: Option<CoreIndex>) -> u32 {
        use crate::workload::Coloring;
        let described = &self.given.program.handlers[usize::from(handler)];
        let placed = self.placing.control.as_ref().is_some_and(|control| control.is_unit(handler));
        let leader = described.follows;
        match if placed { Coloring::Handler } else { described.coloring } {
            Coloring::Handler => {
                if self.objects.handler_colors[usize::from(handler)] == NONE {
                    let core = self.placing.control.as_ref().and_then(|control| control.core_of(handler));
                    self.objects.handler_colors[usize::from(handler)] = self.make_follower(core, leader, by);
                }
                self.objects.handler_colors[usize::from(handler)]
            }
            Coloring::Serial => {
                if self.objects.serial_color == NONE {
                    self.objects.serial_color = self.make_color(None, Placement::Any, by);
                }
                self.objects.serial_color
            }
            Coloring::Event => {
                let color = self.make_follower(None, leader, by);
                // Only this event uses the color, so the color ends with the event.
                self.colors.color_mut(color).users = 0;
                color
            }
            Coloring::Request => self.request_color(request, by),
            Coloring::Client => self.client_color(request, by),
            Coloring::Queue => self.queue_color(request),
            Coloring::Object(object) => self.instance_color(object, request, by),
            Coloring::Trace => unreachable!("recorded events bring their color"),
        }
    }

    fn make_follower(
        &mut self,
        core: Option<CoreIndex>,
        leader: Option<Leader>,
        by: Option<CoreIndex>,
    ) -> u32 {
        let color = self.make_color(core, Placement::Any, by);
        self.colors.color_mut(color).leader = leader;
        color
    }

    /// Makes a color on `core`, or else on the core that the policy chooses.
    pub(super) fn make_color(
        &mut self,
        core: Option<CoreIndex>,
        placement: Placement,
        by: Option<CoreIndex>,
    ) -> u32 {
        let placement = match by {
            Some(maker) if self.given.options.instance_per_node && placement == Placement::Any => {
                let layout = self.given.machine.layout();
                let own = layout.indices().filter(|&core| layout.node(core) == layout.node(maker));
                Placement::Cores(std::sync::Arc::new(own.collect()))
            }
            _ => placement,
        };
        let (policy, cores) = (&self.given.options.policy, self.cores.len());
        let place = |made: u64| core.unwrap_or_else(|| policy.place(|| made, &placement, by, cores));
        self.colors.make(place, placement.clone())
    }
}
