//! Whether a color that would wait goes to another core, and whether to wake a sleeping core to
//! steal a color that another core has just queued, or to watch that core.
//!
//! The conditions are `vermeil_sched::Stealing`'s. Leaves out stealing (`steal.rs`) and cores that
//! do not sleep (`shorter_queue.rs`). Tested in `tests/steal.rs`.

use crate::{
    color_meta::{RuntimeHead, RuntimeToken},
    control_state::RuntimeControl,
    shared::{RuntimeShared, SleepingCore},
    utilization::PERIOD_NS,
};
use std::sync::atomic::Ordering;
use vermeil_sched::{CoreIndex, CoreLoad, Distance, HandlerIndex, StealCandidate, Stealing, WATCH_NS};

/// The answer of [`RuntimeShared::hand_over`].
pub(crate) enum HandOver {
    /// The color has a new core.
    Goes,
    /// The color stays. The sleeping core, if the answer needed a look for such a core, serves the
    /// question whether to wake a thief.
    Stays(Option<SleepingCore>),
}

impl RuntimeShared {
    /// Wakes a sleeping core to search for work: `thief`, or if `thief` has woken by itself
    /// meanwhile, the next sleeping neighbour of core `of` that satisfies `fits`. Wakes no core if
    /// a core of the node searches already. `handler`: the handler of the work, if known.
    pub(crate) fn wake_thief(
        &self,
        (of, thief): (CoreIndex, CoreIndex),
        fits: impl Fn(CoreIndex) -> bool,
        handler: Option<HandlerIndex>,
    ) {
        let mut sleeping =
            self.settings.layout.neighbours(of).iter().copied().skip_while(|&core| core != thief);
        let is_done = sleeping.any(|core| {
            self.core(core.0).parking.is_asleep() && fits(core) && self.wake_to_search(core, handler)
        });
        if !is_done {
            self.idle_coordinator(thief).take_back_duty();
        }
    }

    /// Wakes `thief` to search, unless a core of its node searches already. False if the core has
    /// woken by itself, so that it may run its own work first.
    fn wake_to_search(&self, thief: CoreIndex, handler: Option<HandlerIndex>) -> bool {
        let idle_coordinator = self.idle_coordinator(thief);
        if !idle_coordinator.begin_search() {
            return true;
        }
        // Before the call, because the core must know its duty when it wakes.
        idle_coordinator.give_duty(thief.0);
        let wakes = self.core(thief.0).parking.must_wake(|| self.clock.now_ns());
        if wakes {
            self.count_thief(handler);
            self.core(thief.0).unpark();
        } else {
            idle_coordinator.end_search();
        }
        wakes
    }

    /// The nearest neighbour of core `of` that sleeps and satisfies `fits`.
    pub(crate) fn nearest_asleep(
        &self,
        of: CoreIndex,
        fits: impl Fn(CoreIndex) -> bool,
    ) -> Option<CoreIndex> {
        if !self.idle.any_asleep() {
            return None;
        }
        let mut neighbours = self.settings.layout.neighbours(of).iter().copied();
        neighbours.find(|&core| self.core(core.0).parking.is_asleep() && fits(core))
    }

    /// The sleeping core on which a color of core `owner` would end earliest.
    fn best_sleeping_core(&self, color: &RuntimeHead, owner: CoreIndex) -> Option<SleepingCore> {
        if !self.idle.any_asleep() {
            return None;
        }
        let fits = |core: CoreIndex| self.core(core.0).parking.is_asleep() && self.may_go(color, core);
        let published = self.handlers.published(color.meta.handler());
        let move_ns = |distance| self.moves.steal_ns(distance) + published.known_penalty_ns(distance);
        let core = self.settings.layout.best_neighbour(owner, fits, color.worth_ns(), move_ns)?;
        let distance = self.settings.layout.distance(owner, core);
        Some(SleepingCore { core, distance, seen_ns: self.clock.now_ns() })
    }

    /// Wakes a sleeping core to steal `color`, which waits on `owner`, if the steal pays. `asleep`:
    /// the sleeping core, if a look has just found the core.
    pub(crate) fn consider_thief(&self, color: &RuntimeHead, owner: u32, asleep: Option<SleepingCore>) {
        let owner = CoreIndex(owner);
        if self.idle_coordinator(owner).is_searching() {
            return;
        }
        let asleep = asleep.or_else(|| self.best_sleeping_core(color, owner));
        let Some(SleepingCore { core: thief, distance, seen_ns: now_ns }) = asleep else { return };
        let load = self.core_load(owner);
        let candidate = self.candidate(color, &load, thief, now_ns);
        let (steal_ns, wake_ns) = (self.moves.steal_ns(distance), self.moves.wake_ns());
        let wakes = self.settings.stealing.wakes(&candidate, &load, steal_ns, wake_ns);
        if wakes || self.needs_watcher((owner, &load), thief, now_ns) {
            let fits = |core| self.may_go(color, core);
            self.wake_thief((owner, thief), fits, Some(color.meta.handler()));
        }
    }

    /// Wakes a sleeping core to search, because core `owner` got a token while that core went to
    /// sleep. The thief judges the color itself.
    #[cold]
    pub(crate) fn call_late_thief(&self, owner: CoreIndex) {
        if self.core_load(owner).stealable > 0
            && !self.idle_coordinator(owner).is_searching()
            && let Some(thief) = self.nearest_asleep(owner, |_| true)
        {
            self.wake_thief((owner, thief), |_| true, None);
        }
    }

    /// Gives `token`, whose color is about to wait on a busy core, to a sleeping core, if that
    /// pays. While no core sleeps, or if the color has never run, gives it to a core with less
    /// waiting work. `gives_way`: the poster's own color must stay on its core, and the new color
    /// would hold it up.
    pub(crate) fn hand_over(&self, token: &RuntimeToken, gives_way: bool) -> HandOver {
        let color = token.color();
        if self.settings.stealing != Stealing::Learned {
            return HandOver::Stays(None);
        }
        if !color.meta.has_run() && self.begin_elsewhere(token, gives_way) {
            return HandOver::Goes;
        }
        if !self.idle.any_asleep() {
            // Before all else, because most colors are short.
            let least_ns = self.moves.steal_ns(Distance::L2);
            return match self.settings.stealing.repays_busy_move(color.worth_ns(), least_ns) {
                true => self.move_to_shorter_queue(token),
                false => HandOver::Stays(None),
            };
        }
        if !self.is_free(color) {
            return HandOver::Stays(None);
        }
        let owner = CoreIndex(color.core());
        let sleeps = self.core(owner.0).parking.is_asleep();
        if sleeps && !self.settings.layout.is_slow(owner) {
            return HandOver::Stays(None);
        }
        let load = self.core_load(owner);
        // Before the search for a sleeping core and the clock, because most colors are short.
        if !self.settings.stealing.may_hand_over(color.worth_ns(), &load, self.moves.wake_ns()) {
            return HandOver::Stays(None);
        }
        let Some(asleep) = self.best_sleeping_core(color, owner) else {
            return if sleeps { HandOver::Stays(None) } else { self.move_to_shorter_queue(token) };
        };
        let SleepingCore { core: idle, distance, seen_ns: now_ns } = asleep;
        let wait_ns = load.last_wait_ns(now_ns);
        let candidate = StealCandidate { wait_ns, ..self.candidate(color, &load, idle, now_ns) };
        let costs_ns = (self.moves.steal_ns(distance), self.moves.wake_ns());
        let stealing = self.settings.stealing;
        let goes = stealing.hurries(&candidate, costs_ns)
            || !sleeps && stealing.hands_over(&candidate, &load, gives_way, costs_ns);
        if !goes {
            return HandOver::Stays(Some(asleep));
        }
        self.give(token, idle, now_ns)
    }

    /// Whether the scheduler, and no plan or placement, chooses the core of `color`.
    pub(crate) fn is_free(&self, color: &RuntimeHead) -> bool {
        let unit = |control: &RuntimeControl| control.unit(color.meta.handler());
        color.meta.may_move() && !color.is_migrating() && self.control.as_ref().and_then(unit).is_none()
    }

    /// Gives `token`, which is not queued yet, to core `to`.
    pub(crate) fn give(&self, token: &RuntimeToken, to: CoreIndex, now_ns: u64) -> HandOver {
        let color = token.color();
        self.notes_that_moves(color);
        self.note_moved(color, to, now_ns);
        self.count_move(color.meta.handler());
        token.move_to(to.0);
        HandOver::Goes
    }

    /// A color moves to core `to`.
    pub(crate) fn note_moved(&self, color: &RuntimeHead, to: CoreIndex, now_ns: u64) {
        color.meta.moved_ns.store(now_ns, Ordering::Relaxed);
        if color.meta.stays() {
            self.core(to.0).load_cell.utilization.took(now_ns);
        }
    }

    /// Gives a token with a single entry to another core if that pays, and makes the color ready.
    pub(crate) fn hand_over_or_schedule(&self, token: RuntimeToken) {
        let asleep = match self.hand_over(&token, false) {
            HandOver::Goes => None,
            HandOver::Stays(asleep) => asleep,
        };
        self.schedule_beside(token, 1, asleep);
    }

    /// Wakes a sleeping core to watch `owner`, unless a core watches already. `owner` keeps a token
    /// that thieves do not see, or began to run with colors in its queue.
    pub(crate) fn consider_watch(&self, owner: CoreIndex) {
        if !self.idle_coordinator(owner).is_watched()
            && let Some(watcher) = self.nearest_asleep(owner, |_| true)
            && self.needs_watcher((owner, &self.core_load(owner)), watcher, self.clock.now_ns())
        {
            self.wake_thief((owner, watcher), |_| true, None);
        }
    }

    /// Whether `watcher` must be woken to watch `owner`: a color that is not yet worth a steal
    /// waits behind a running event, and no core would notice a long wait. At most one call per
    /// watch and node, while the called core has the duty to watch.
    fn needs_watcher(&self, (owner, load): (CoreIndex, &CoreLoad), watcher: CoreIndex, now_ns: u64) -> bool {
        self.settings.stealing == Stealing::Learned
            && load.running_since_ns.is_some()
            && !self.is_watched(owner, watcher)
            && self.idle_coordinator(watcher).calls_watcher(now_ns, WATCH_NS)
    }

    /// Whether a core watches `owner`: a core of its node, or else a core of the node of `by`,
    /// because watchers also watch nodes without a watcher.
    pub(crate) fn is_watched(&self, owner: CoreIndex, by: CoreIndex) -> bool {
        self.idle_coordinator(owner).is_watched() || self.idle_coordinator(by).is_watched()
    }

    /// Whether `color` may move to `core`.
    pub(crate) fn may_go(&self, color: &RuntimeHead, core: CoreIndex) -> bool {
        !self.settings.keeps_apart(CoreIndex(color.core()), core)
            && color.meta.may_move()
            && color.meta.allows(core)
            && (!color.meta.stays() || self.is_much_less_busy(core, color))
    }

    /// Whether `core` has so much less work than the core of `color` that the color's task, which
    /// would rather stay, moves.
    fn is_much_less_busy(&self, core: CoreIndex, color: &RuntimeHead) -> bool {
        let (thief, owner) = (self.core(core.0), self.core(color.core()));
        self.settings.stealing != Stealing::Learned
            || thief.load_cell.utilization.may_take_from(
                &owner.load_cell.utilization,
                thief.parking.is_asleep(),
                self.clock.now_ns(),
            )
    }

    /// The view of `color` for core `to`, when the color's core has the hint `owner`.
    pub(crate) fn candidate(
        &self,
        color: &RuntimeHead,
        owner: &CoreLoad,
        to: CoreIndex,
        now_ns: u64,
    ) -> StealCandidate {
        let from = CoreIndex(color.core());
        let distance = self.settings.layout.distance(from, to);
        let moved_ns = color.meta.moved_ns.load(Ordering::Relaxed);
        let published = self.handlers.published(color.meta.handler());
        let (queued_ns, wait_ns) = (color.worth_ns(), owner.wait_ns(now_ns));
        // A task that stays moves for its next requests too. They would wait as long as the
        // difference between the loads of both cores lasts, which `may_go` asks for.
        let lasts_ns = if color.meta.stays() { PERIOD_NS } else { 0 };
        StealCandidate {
            queued_ns: queued_ns.max(lasts_ns),
            wait_ns: wait_ns.max(lasts_ns),
            penalty_ns: published.penalty_ns(distance),
            known_penalty_ns: published.known_penalty_ns(distance),
            slower_ns: self.settings.layout.slower_ns(queued_ns, from, to),
            since_move_ns: if moved_ns == 0 { u64::MAX } else { now_ns.saturating_sub(moved_ns) },
        }
    }
}
