//! A core without work: the core searches, steals a color that pays, or sleeps.
//!
//! The order of steps is the runtime's (`steal.rs` there). The thief makes one round over the
//! victims. It looks a second time if a color has become stealable meanwhile. It spins for a short
//! time where more work is likely. One sleeping core watches the busy cores. A thief never waits
//! for a lock, unless the options say so.
//!
//! The layout and the hints choose the victims. [`Stealing::pays`] and the production ready queue
//! choose the colors. [`Stealing::look_again_ns`] says how long the watching core sleeps. The
//! machine says how long each step takes.

use vermeil_sched::{CoreIndex, CoreLoad, Distance, ReadyOrder, SPIN_NS, StealAmount, Stealing, Stolen};

use super::World;
use super::colors::TokenPlace;
use super::core::CorePhase;
use super::victims::Victims;
use crate::options::PlantedBug;
use crate::watch::{Note, Watch};

/// Least and greatest time between two looks of a spinning core; in between, a spin has 64 looks.
const SPIN_STEP_NS: (u64, u64) = (1_000, 100_000);
/// Cost of each further color that is taken under the same lock, in thousandths of a cache line:
/// the color's two lines. The runtime judges one color for all similar colors, and fetches their
/// lines after it releases the lock. The simulation judges each color, with the same result.
const FURTHER_LINES_MILLI: u64 = 2_000;

impl<W: Watch> World<W> {
    /// Searches for a color to steal. A stolen color goes into the core's own queue.
    pub(super) fn search(&mut self, thief: CoreIndex, at_ns: &mut u64) {
        let (began_ns, stealing) = (*at_ns, self.thieves.stealing);
        let alone = self.idle_coordinator(thief).begin_search();
        self.free_caught(thief, at_ns);
        let found =
            self.visit_all(thief, at_ns) || (self.anything_stealable(thief) && self.visit_all(thief, at_ns));
        self.idle_coordinator(thief).end_search();
        let state = self.core(thief);
        state.counts.search_ns += *at_ns - began_ns;
        if found {
            state.idleness.looked_in_vain = 0;
            self.idle_coordinator(thief).end_duty(thief.0);
            self.call_another(thief, at_ns);
        } else {
            if alone && stealing.spins(state.idleness.looked_in_vain) {
                state.idleness.lingers_until_ns = *at_ns + SPIN_NS;
            }
            state.idleness.looked_in_vain = state.idleness.looked_in_vain.saturating_add(1);
            state.counts.vain_searches += 1;
        }
    }

    /// Wakes another sleeping core if there is a color to steal, or a kept color that no core
    /// watches. So cores wake one after the other while each finds work. Called after a successful
    /// search, and by a core that gives up the duty to watch.
    pub(super) fn call_another(&mut self, by: CoreIndex, at_ns: &mut u64) {
        let planted = self.given.options.planted == Some(PlantedBug::SleepsBesideWork);
        if planted || !self.anything_stealable(by) && !self.anything_unwatched(by) {
            return;
        }
        let thief = self.victims(by).find(|&core| self.is_asleep(core));
        if let Some(thief) = thief {
            self.wake_thief(thief, Some(by), at_ns);
        }
    }

    fn anything_stealable(&self, thief: CoreIndex) -> bool {
        self.shown.giving.iter().any(|giver| giver != thief && self.is_victim(thief, giver))
    }

    /// The other cores, nearest first. With an instance per node, only the cores of the thief's
    /// node.
    fn victims(&self, thief: CoreIndex) -> impl Iterator<Item = CoreIndex> {
        let neighbours = self.given.machine.layout().neighbours(thief).iter().copied();
        neighbours.filter(move |&victim| self.is_victim(thief, victim))
    }

    pub(super) fn is_victim(&self, thief: CoreIndex, other: CoreIndex) -> bool {
        let layout = self.given.machine.layout();
        !self.given.options.instance_per_node || layout.node(other) == layout.node(thief)
    }

    fn visit_all(&mut self, thief: CoreIndex, at_ns: &mut u64) -> bool {
        if self.thieves.stealing.prefers_near() {
            return self.visit_nearest(thief, at_ns);
        }
        let busiest = self.victims(thief).max_by_key(|victim| self.shown.loads[victim.0 as usize].stealable);
        // The thief reads the hint of every other core once, to find the busiest.
        *at_ns += self.thieves.victims[thief.0 as usize].all_ns;
        let Some(victim) = busiest else { return false };
        let distance = self.given.machine.layout().distance(thief, victim);
        let steal_ns = self.placing.costs.learner(thief).steal_ns(distance);
        self.tries(thief, victim, (distance, steal_ns), at_ns)
            && self.visit(thief, victim, (distance, steal_ns), at_ns)
    }

    fn visit_nearest(&mut self, thief: CoreIndex, at_ns: &mut u64) -> bool {
        // Taken out of the world, because a visit changes the world.
        let victims = std::mem::take(&mut self.thieves.victims[thief.0 as usize]);
        let found = self.visit_in_order(thief, &victims, at_ns);
        self.thieves.victims[thief.0 as usize] = victims;
        found
    }

    fn visit_in_order(&mut self, thief: CoreIndex, victims: &Victims, at_ns: &mut u64) -> bool {
        let mut looked_ns = 0;
        for run in victims.runs() {
            // A core without stealable colors costs the thief a look and the simulation nothing.
            // With stale hints, the simulation must look up every hint.
            let mut members = run.members(if self.faults.stale_ns == 0 {
                &self.shown.giving
            } else {
                &self.shown.everyone
            });
            if members == 0 {
                continue;
            }
            let steal_ns = self.placing.costs.learner(thief).steal_ns(run.distance);
            while let Some((victim, upto_ns)) = run.next(&mut members) {
                *at_ns += upto_ns - std::mem::replace(&mut looked_ns, upto_ns);
                if self.tries(thief, victim, (run.distance, steal_ns), at_ns)
                    && self.visit(thief, victim, (run.distance, steal_ns), at_ns)
                {
                    return true;
                }
            }
        }
        *at_ns += victims.all_ns - looked_ns;
        false
    }

    /// The hint of another core at the end of that core's last step, or an older hint.
    fn seen(&self, victim: CoreIndex, at_ns: u64) -> CoreLoad {
        if self.faults.stale_ns == 0 {
            self.shown.loads[victim.0 as usize]
        } else {
            self.core_load_of(victim, at_ns)
        }
    }

    /// Whether the victim's hint promises a color and the victim's lock is free. A thief does not
    /// wait for a taken lock, unless the options say so.
    fn tries(
        &mut self,
        thief: CoreIndex,
        victim: CoreIndex,
        (distance, steal_ns): (Distance, u64),
        at_ns: &mut u64,
    ) -> bool {
        if !self.is_victim(thief, victim)
            || !self.thieves.stealing.may_pay(&self.seen(victim, *at_ns), *at_ns, steal_ns)
        {
            return false;
        }
        let is_taken =
            self.shown.locks[victim.0 as usize].is_taken(*at_ns) && !self.given.options.waits_for_locks;
        if is_taken {
            *at_ns += self.move_line(thief, distance);
        }
        !is_taken
    }

    /// The victims of a thief, with the time of each look.
    pub(super) fn victims_of(&self, thief: CoreIndex) -> Victims {
        let costs = &self.given.machine.costs;
        Victims::new(self.given.machine.layout(), thief, |victim, distance| {
            let is_victim = self.is_victim(thief, victim);
            if is_victim { costs.search_ns + costs.lines_ns(1_000, distance) } else { 0 }
        })
    }

    /// Takes the colors that pay from a victim whose hint promises some. Returns whether there was
    /// any.
    fn visit(
        &mut self,
        thief: CoreIndex,
        victim: CoreIndex,
        (distance, steal_ns): (Distance, u64),
        at_ns: &mut u64,
    ) -> bool {
        let began_ns = *at_ns;
        let load = self.seen(victim, began_ns);
        self.take(thief, victim, (distance, steal_ns), &load, at_ns);
        if self.thieves.steal_batch.is_empty() {
            return false;
        }
        let colors = self.thieves.steal_batch.len() as u64;
        self.lock(thief, thief, 0, at_ns);
        let mut steal_batch = std::mem::take(&mut self.thieves.steal_batch);
        for Stolen { token: color, entries, .. } in steal_batch.drain(..) {
            self.receive(thief, victim, color, entries, began_ns, *at_ns);
        }
        self.thieves.steal_batch = steal_batch;
        self.gauge(thief);
        let took_ns = *at_ns - began_ns;
        let counts = &mut self.core(thief).counts;
        counts.steals += colors;
        counts.steal_ns += took_ns;
        self.placing.costs.stole(thief, distance, took_ns / colors);
        true
    }

    /// Takes the victim's best colors that pay, up to the amount that is due, under one lock, into
    /// the steal batch.
    fn take(
        &mut self,
        thief: CoreIndex,
        victim: CoreIndex,
        (distance, steal_ns): (Distance, u64),
        load: &CoreLoad,
        at_ns: &mut u64,
    ) {
        let began_ns = *at_ns;
        let scanned = self.cores[victim.0 as usize].queue.entries as u64;
        let wait_ns = load.wait_ns(began_ns);
        let mut amount = StealAmount::new(self.thieves.stealing, load.backlog_ns());
        while let Some(stolen) = self.take_from(thief, victim, (distance, steal_ns), wait_ns, began_ns) {
            self.core(victim).queue.entries -= stolen.entries;
            let is_enough = amount.add(self.colors.color(stolen.token).worth_ns);
            self.thieves.steal_batch.push(stolen);
            if is_enough {
                break;
            }
        }
        if !self.thieves.steal_batch.is_empty() {
            self.gauge(victim);
        }
        let costs = &self.given.machine.costs;
        let looked = if self.thieves.stealing.order() == ReadyOrder::Events {
            scanned * costs.scan_lines_milli
        } else {
            1_000
        };
        let moved = match self.thieves.steal_batch.len() as u64 {
            0 => 0,
            colors => costs.steal_lines_milli + (colors - 1) * FURTHER_LINES_MILLI,
        };
        let held_ns = self.move_lines(thief, looked + moved, distance);
        self.lock(thief, victim, held_ns, at_ns);
    }

    /// Takes the victim's best color that pays.
    fn take_from(
        &mut self,
        thief: CoreIndex,
        victim: CoreIndex,
        (distance, steal_ns): (Distance, u64),
        wait_ns: u64,
        at_ns: u64,
    ) -> Option<Stolen<u32>> {
        let stealing: Stealing = self.thieves.stealing;
        let victims_events = self.cores[victim.0 as usize].queue.waiting_events;
        let pace = Some(self.cores[thief.0 as usize].pace.fixed).filter(|_| !self.shown.asleep.is_empty());
        // The cores are taken out of the world, because the queue asks the world about its colors.
        let mut cores = std::mem::take(&mut self.cores);
        let stolen = cores[victim.0 as usize].queue.ready.steal(|&color| {
            let candidate = self.candidate(color, wait_ns, thief, at_ns);
            self.may_run(color, thief)
                && !pace.is_some_and(|pace| stealing.leaves_to_others(&candidate, &pace, at_ns))
                && self.leaves_enough(color, victims_events)
                && (stealing.pays(&candidate, steal_ns)
                    || self.placing.costs.learner_mut(thief).explores(
                        &candidate,
                        (distance, steal_ns),
                        at_ns,
                    ))
        });
        self.cores = cores;
        let stolen = stolen?;
        self.core(victim).queue.waiting_events -= u64::from(self.colors.color(stolen.token).len);
        Some(stolen)
    }

    /// Thieves of the source documents leave a color that holds half of the victim's events,
    /// because that steal would only move the load.
    fn leaves_enough(&self, color: u32, victims_events: u64) -> bool {
        !self.given.options.leaves_half || 2 * u64::from(self.colors.color(color).len) < victims_events
    }

    /// Gives a stolen color to the thief.
    fn receive(
        &mut self,
        thief: CoreIndex,
        victim: CoreIndex,
        color: u32,
        entries: usize,
        began_ns: u64,
        until_ns: u64,
    ) {
        let taken = self.colors.color_mut(color);
        debug_assert_eq!(taken.token, TokenPlace::Ready);
        taken.core = thief;
        taken.moved_ns = Some(began_ns);
        taken.stolen = taken.len;
        let (number, len) = (taken.number, u64::from(taken.len));
        let (class, of) = (self.class_of(color), self.queue_class(color));
        let state = self.core(thief);
        state.queue.ready.post(number, entries);
        state.queue.entries += entries;
        let slot = state.queue.ready.push_in(number, color, class, of, until_ns);
        state.queue.waiting_events += len;
        self.colors.color_mut(color).slot = slot;
        let note = Note::Stole { at_ns: began_ns, until_ns, thief, victim, color: number };
        self.output.watch.note(note);
    }

    /// Puts a core to sleep that found no work, unless the core still spins or lingers.
    pub(super) fn sleep(&mut self, core: CoreIndex, at_ns: u64) {
        let spin_ns = self.given.options.spin_ns;
        let state = self.core(core);
        state.pace.turn.polled();
        let since_ns = *state.idleness.idle_since_ns.get_or_insert(at_ns);
        if self.thieves.stealing.is_on() && at_ns < since_ns + spin_ns && self.core(core).is_there() {
            let step_ns = (spin_ns / 64).clamp(SPIN_STEP_NS.0, SPIN_STEP_NS.1);
            return self.go_on(core, at_ns + step_ns);
        }
        let state = self.core(core);
        if at_ns < state.idleness.lingers_until_ns {
            let is_there = state.is_there();
            // New work in the core's own queue ends the search.
            state.idleness.woken = is_there;
            if is_there {
                self.idle_coordinator(core).begin_search();
                return self.go_on(core, at_ns + SPIN_STEP_NS.0);
            }
            self.idle_coordinator(core).end_search();
        }
        self.park(core, at_ns);
    }

    /// Puts a core to sleep. The core may become the watcher.
    pub(super) fn park(&mut self, core: CoreIndex, at_ns: u64) {
        let park_ns = if self.given.options.ideal { 0 } else { self.given.machine.costs.park_ns };
        let asleep_ns = at_ns + park_ns;
        let state = self.core(core);
        state.phase = CorePhase::Parked { asleep_ns };
        state.counts.parks += 1;
        self.time.clock.rest(core);
        self.shown.asleep.insert(core);
        self.output.watch.note(Note::Parked { at_ns, core });
        self.watch_over(core, asleep_ns);
    }

    /// Makes the core its node's watcher if the node has no watcher and a core is busy.
    fn watch_over(&mut self, core: CoreIndex, asleep_ns: u64) {
        let is_watched = self.idle_coordinator(core).is_watched();
        if self.thieves.stealing != Stealing::Learned
            || is_watched
            || self.given.options.planted.is_some()
            || self.core(core).faults.is_gone
        {
            return;
        }
        let looked = self.core(core).idleness.looked_in_vain;
        let due_ns = |busy: CoreIndex| {
            let load = self.core_load_of(busy, asleep_ns);
            let steal_ns =
                self.placing.costs.learner(core).steal_ns(self.given.machine.layout().distance(busy, core));
            self.thieves.stealing.look_again_ns(&load, asleep_ns, steal_ns, looked)
        };
        // Also watches nodes without a watcher.
        let others = |other: &CoreIndex| *other != core && !self.idle_coordinator(*other).is_watched();
        let soonest = match self.faults.stale_ns {
            // Without a running core, nothing is due.
            0 => self.shown.busy.iter().filter(others).filter_map(due_ns).min(),
            // Stale hints may show a core as busy that is not, so every hint is read.
            _ => self.given.machine.layout().indices().filter(others).filter_map(due_ns).min(),
        };
        // A core that was called watches once, even if no other core runs, because no core is
        // called again so soon.
        if let Some(due_ns) = soonest.or(self.called_for_ns(core, asleep_ns)) {
            self.idle_coordinator(core).begin_watch(core.0);
            self.go_on(core, asleep_ns + due_ns);
        }
    }
}
