//! Stealing: which core an idle core asks, which colors the core takes, and how the core sleeps
//! without missing work.
//!
//! The conditions are `vermeil_sched::Stealing`'s; this file carries them out. A thief never waits
//! for a lock: the thief skips a victim whose queue is in use. Leaves out running the stolen
//! colors. The hand-over of tokens is the queue's `migration.rs`. Tested in `tests/steal.rs`.

use crate::{
    color_meta::{ColorMeta, RuntimeHead, RuntimeToken, steal_class},
    core::Core,
    core_load::QueueLoad,
    counters::add,
};
use std::{
    cell::Cell,
    ops::ControlFlow,
    sync::atomic::{Ordering, fence},
    time::Duration,
};
use vermeil_queue::StealBatchFill;
use vermeil_sched::{
    CoreIndex, CoreLoad, Distance, HandlerIndex, Ready, SPIN_NS, StealAmount, StealKey, Stealing, Stolen,
    WATCH_NS,
};

/// Pause instructions between two looks of a spinning core. A pause takes 10 cycles, from Skylake
/// on 140 cycles (Intel's optimization manual), so the looks are 30 ns to 400 ns apart. Meanwhile
/// the other cores use their cache lines, which a transfer of 40 ns would take from them.
const SPIN_PAUSES: usize = 8;

/// Sleeps in a row that a core gives up because a color to steal was queued. More than one, because
/// a search skips a queue whose lock is in use.
const GIVEN_UP_SLEEPS_MAX: u8 = 3;

impl Core {
    /// Searches for a color to steal; returns whether a color was stolen.
    pub(crate) fn search(&self) -> bool {
        if !self.shared.idle.something_moves() {
            return false;
        }
        self.idle.called.set(false);
        let mine = self.mine();
        add(&mine.counters.steal.searches, 1);
        let idle_coordinator = self.shared.idle_coordinator(self.index);
        let alone = idle_coordinator.begin_search();
        self.free_caught();
        let found = self.visit_all() || alone && self.spin();
        idle_coordinator.end_search();
        // A color that became worth a steal during the search woke no core, because this core was
        // searching: look once more.
        let found = found || self.anything_stealable() && self.visit_all();
        if found {
            // The stolen color may run for long.
            self.end_duty();
            self.call_another();
        }
        self.idle.searched(found);
        found
    }

    /// Spins while more work is likely to come soon; returns whether work came, stolen or posted to
    /// this core.
    fn spin(&self) -> bool {
        let (shared, mine) = (&self.shared, self.mine());
        if !shared.settings.stealing.spins(self.idle.failed_searches.get()) {
            return false;
        }
        if self.has_unsubmitted() {
            self.look();
        }
        mine.load_cell.idle();
        let until_ns = shared.clock.now_ns() + SPIN_NS;
        while shared.clock.now_ns() < until_ns && !shared.end.is_stopping() {
            for _ in 0..SPIN_PAUSES {
                std::hint::spin_loop();
            }
            if !mine.ready.is_empty() || self.anything_stealable() && self.visit_all() {
                return true;
            }
        }
        false
    }

    /// A victim with colors to steal may have more. So each successful thief wakes another sleeping
    /// core, and also a core to watch if this core did that before.
    fn call_another(&self) {
        if let Some(thief) = self.shared.nearest_asleep(self.index, |_| true)
            && (self.anything_stealable() || self.anything_unwatched())
        {
            self.shared.wake_thief((self.index, thief), |_| true, None);
        }
    }

    /// The core runs work now. Returns whether the core had the duty to watch the busy cores.
    fn end_duty(&self) -> bool {
        self.idle.slept.take() && self.shared.idle_coordinator(self.index).end_duty(self.index.0)
    }

    /// The core runs work of its own, although it may have the duty to watch the busy cores: wakes
    /// another core if there is anything to watch.
    pub(crate) fn pass_duty_on(&self) {
        if self.end_duty() {
            self.call_another();
        }
    }

    fn anything_stealable(&self) -> bool {
        let others = self.shared.cores.iter().enumerate().filter(|(at, _)| *at != self.index.0 as usize);
        others.into_iter().any(|(_, core)| QueueLoad(core.ready.len()).stealable() > 0)
    }

    /// Whether the core, which has announced its sleep, searches again instead: a color was queued
    /// after the search, by a thread that may have seen no sleeping core. Only under policies
    /// without a watcher, which would find the color. At most a few times in a row, because other
    /// cores may keep colors that this core must not take.
    pub(crate) fn misses_color(&self) -> bool {
        let stealing = self.shared.settings.stealing;
        if !stealing.is_on() || stealing == Stealing::Learned {
            return false;
        }
        // The poster queues the token, releases the queue's lock and reads the number of sleeping
        // cores. This core has counted itself and reads the queues. The release is an exchange, and
        // on x86 a full fence; elsewhere the poster may in rare cases read the older number.
        fence(Ordering::SeqCst);
        let given_up = self.idle.given_up_sleeps.get();
        let misses = given_up < GIVEN_UP_SLEEPS_MAX && self.anything_stealable();
        self.idle.given_up_sleeps.set(if misses { given_up + 1 } else { 0 });
        misses
    }

    fn visit_all(&self) -> bool {
        if self.shared.settings.stealing.prefers_near() {
            let victims = self.shared.settings.layout.neighbours(self.index);
            victims.iter().any(|victim| self.visit(*victim))
        } else {
            let busiest = self
                .shared
                .settings
                .layout
                .neighbours(self.index)
                .iter()
                .max_by_key(|victim| QueueLoad(self.shared.core(victim.0).ready.len()).stealable());
            busiest.is_some_and(|victim| self.visit(*victim))
        }
    }

    /// Steals the colors that pay from a victim; returns whether any color was stolen.
    fn visit(&self, victim: CoreIndex) -> bool {
        let load = self.shared.core_load(victim);
        if load.stealable == 0 {
            return false;
        }
        let start_ns = self.shared.clock.now_ns();
        let distance = self.shared.settings.layout.distance(victim, self.index);
        let steal_ns = self.measures.learner.borrow().steal_ns(distance);
        if !self.shared.settings.stealing.may_pay(&load, start_ns, steal_ns) {
            return false;
        }
        let (colors, worth_ns) = self.take(victim, &load, (distance, steal_ns), start_ns);
        if colors == 0 {
            return false;
        }
        let (shared, mine) = (&self.shared, self.mine());
        let took_ns = shared.clock.now_ns().saturating_sub(start_ns);
        let mut learner = self.measures.learner.borrow_mut();
        learner.stole(distance, took_ns / colors, &shared.moves);
        mine.counters.steal.explored_ns.store(learner.explored_ns(), Ordering::Relaxed);
        add(&mine.counters.steal.stolen_ns, worth_ns);
        add(&mine.counters.steal.steal_ns, took_ns);
        true
    }

    /// Steals the best colors of `victim` that pay, up to the due amount, unless another thread
    /// uses the queue. Returns their number and worth.
    fn take(
        &self,
        victim: CoreIndex,
        load: &CoreLoad,
        (distance, steal_ns): (Distance, u64),
        now_ns: u64,
    ) -> (u64, u64) {
        let mut learner = self.measures.learner.borrow_mut();
        let shared = &*self.shared;
        // A color that is stolen only to learn is not typical of other colors.
        let explores = Cell::new(false);
        let others_sleep = shared.idle.any_asleep();
        let (stealing, pace) = (shared.settings.stealing, self.run.fixed_pace.get());
        let mut pays = |token: &RuntimeToken| {
            let color = token.color();
            let candidate = shared.candidate(color, load, self.index, now_ns);
            let pays = stealing.pays(&candidate, steal_ns);
            explores.set(!pays);
            shared.may_go(color, self.index)
                && !(others_sleep && stealing.leaves_to_others(&candidate, &pace, now_ns))
                && (pays || learner.explores(&candidate, (distance, steal_ns), now_ns))
        };
        let mut amount = StealAmount::new(stealing, load.backlog_ns());
        let mut choose = |ready: &mut Ready<RuntimeToken>, taking: &mut StealBatchFill<'_, ColorMeta>| {
            let mut add = |token, entries, each_ns| {
                taking.add(token, entries);
                amount.add(each_ns)
            };
            while let Some(Stolen { token, entries, key: like }) = ready.steal(&mut pays) {
                // Posts since the queueing may have changed the color.
                let color = token.color();
                let is_typical = !explores.get() && like.map(StealKey::steal_class) == steal_class(color);
                let (like, each_ns) = (like.filter(|_| is_typical), color.worth_ns());
                // The effect of such a move shows before the next (`utilization.rs`).
                let stays = color.meta.stays();
                let mut is_enough = add(token, entries, each_ns) || stays;
                if let Some(like) = like
                    && !is_enough
                {
                    ready.steal_class(like, |token| {
                        is_enough = add(token, 0, each_ns);
                        if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    });
                }
                if is_enough {
                    break;
                }
            }
        };
        // Most colors of a batch have the same handler and are counted together.
        let (mut last, mut alike) = (HandlerIndex(0), 0);
        let moved = |color: &RuntimeHead| {
            shared.note_moved(color, self.index, now_ns);
            let before = std::mem::replace(&mut last, color.meta.handler());
            if before != last {
                self.count_steals(before, std::mem::take(&mut alike));
            }
            alike += 1;
        };
        let colors = self.idle.steal_batch.borrow_mut().steal(shared, victim.0, &mut choose, moved);
        self.count_steals(last, alike);
        (colors as u64, amount.worth_ns())
    }

    /// The core runs a color, and ran none before: once after each look at I/O. Wakes a core to
    /// watch the colors that were queued meanwhile. Their posters called no watcher, because no
    /// event ran that the colors could wait behind.
    #[cold]
    pub(crate) fn watch_queued(&self) {
        if self.shared.settings.stealing != Stealing::Learned {
            return;
        }
        // This core has published that it runs a color, and reads its queue and the sleeping cores.
        // A poster queues its token, releases the queue's lock (as in `misses_color`) and reads
        // whether this core runs a color. A core that goes to sleep announces its sleep, executes a
        // fence and reads the same.
        fence(Ordering::SeqCst);
        let ready = &self.mine().ready;
        // Tasks that stay are left out. On a server at half load, a call for each look that found
        // two connections cost a tenth of the cpu time of a request, and such tasks hardly move.
        if QueueLoad(ready.len()).stealable() > 0 && ready.with(|ready| ready.has_free()) {
            self.shared.consider_watch(self.index);
        }
    }

    /// How long this core may sleep before it must look at the busy cores. The core becomes its
    /// node's watcher, unless another core watches or there is nothing to watch.
    pub(crate) fn watch_timeout(&self) -> Option<Duration> {
        let shared = &self.shared;
        let moves = shared.settings.stealing == Stealing::Learned && shared.idle.something_moves();
        let idle_coordinator = shared.idle_coordinator(self.index);
        if !moves || idle_coordinator.is_watched() {
            return None;
        }
        let now_ns = shared.clock.now_ns();
        let learner = self.measures.learner.borrow();
        // Includes cores of nodes without a watcher.
        let is_mine = |busy: &&CoreIndex| !shared.idle_coordinator(**busy).is_watched();
        let looks = shared.settings.layout.neighbours(self.index).iter().filter(is_mine).filter_map(|busy| {
            let steal_ns = learner.steal_ns(shared.settings.layout.distance(*busy, self.index));
            shared.settings.stealing.look_again_ns(
                &shared.core_load(*busy),
                now_ns,
                steal_ns,
                self.idle.failed_searches.get(),
            )
        });
        // A called core watches once, even if no event runs any more or yet, because another call
        // would come only later.
        let called_ns = idle_coordinator.since_call(now_ns);
        let next_ns =
            looks.min().or_else(|| WATCH_NS.checked_sub(called_ns).filter(|&left_ns| left_ns > 0))?;
        idle_coordinator.begin_watch(self.index.0).then_some(Duration::from_nanos(next_ns))
    }

    /// The core is awake, so another core may watch.
    pub(crate) fn end_watch(&self) {
        self.shared.idle_coordinator(self.index).end_watch(self.index.0);
    }
}
