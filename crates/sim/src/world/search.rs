//! A core without work: it looks around, takes a color if that pays, and sleeps otherwise.
//!
//! Whom to look at comes from the layout and the hints, what to take from [`vermeil_sched::Stealing::pays`] and the
//! production ready queue, how long a watching core sleeps from [`vermeil_sched::Stealing::look_again_ns`]. What looking
//! and taking cost comes from the machine.

use vermeil_sched::{CoreIndex, Order, Stealing, Stolen};

use super::World;
use super::colors::Token;
use super::core::Phase;
use crate::watch::{Note, Watch};

/// Between two looks of a core that goes on looking.
const SPIN_STEP_NS: u64 = 1_000;
/// When a watching core looks again at cores that are busy and have nothing to take yet: the patience that
/// [`Stealing::look_again_ns`] gives a color at a usual cost of a steal (16 times 3 us).
const WATCH_NS: u64 = 50_000;

impl<W: Watch> World<W> {
    /// Nothing is queued here.
    pub(super) fn look(&mut self, core: CoreIndex, mut at_ns: u64) {
        if !self.stealing.is_on() || self.core(core).is_gone {
            return self.park(core, at_ns);
        }
        self.set_searching(core, true, at_ns);
        let began_ns = at_ns;
        let found = self.search(core, &mut at_ns);
        let state = self.core(core);
        state.counts.search_ns += at_ns - began_ns;
        if found {
            return self.next(core, at_ns);
        }
        state.counts.vain_searches += 1;
        if at_ns < state.searching_since_ns + self.options.spin_ns {
            return self.go_on(core, at_ns + SPIN_STEP_NS);
        }
        self.set_searching(core, false, at_ns);
        self.park(core, at_ns);
    }

    /// Counts cores that search: while one does, nobody else is woken to.
    pub(super) fn set_searching(&mut self, core: CoreIndex, searching: bool, at_ns: u64) {
        let state = self.core(core);
        if state.is_searching == searching {
            return;
        }
        state.is_searching = searching;
        if searching {
            state.searching_since_ns = at_ns;
            self.searchers += 1;
        } else {
            self.searchers -= 1;
        }
    }

    /// Asks the others, nearest first or busiest first, and takes from the first that has something worth it.
    fn search(&mut self, thief: CoreIndex, at_ns: &mut u64) -> bool {
        let layout = self.machine.layout();
        let mut victims = layout.neighbours(thief).to_vec();
        if self.options.policy.keeps_nodes_apart() {
            victims.retain(|&victim| layout.node(victim) == layout.node(thief));
        }
        if !self.stealing.prefers_near() {
            victims.sort_by_key(|victim| std::cmp::Reverse(self.cores[victim.0 as usize].ready.len()));
        }
        for victim in victims {
            let distance = self.machine.layout().distance(thief, victim);
            *at_ns += self.machine.costs.search_ns + self.machine.costs.lines_ns(1_000, distance);
            let hint = self.hint_of(victim, *at_ns);
            if hint.stealable > 0 && self.rob(thief, victim, at_ns) {
                return true;
            }
        }
        false
    }

    /// Takes what is worth it from one victim.
    fn rob(&mut self, thief: CoreIndex, victim: CoreIndex, at_ns: &mut u64) -> bool {
        let began_ns = *at_ns;
        let distance = self.machine.layout().distance(thief, victim);
        let costs = &self.machine.costs;
        let held_ns = match self.stealing.order() {
            Order::Colors => costs.lines_ns(costs.steal_lines_milli, distance),
            Order::Events => {
                let scanned = self.cores[victim.0 as usize].entries as u64;
                costs.lines_ns(costs.steal_lines_milli + scanned * costs.scan_lines_milli, distance)
            }
        };
        self.lock(thief, victim, held_ns, at_ns);
        let Some((color, entries)) = self.take_from(thief, victim, *at_ns) else { return false };
        let mut taken = vec![(color, entries)];
        let backlog = |core: CoreIndex| self.cores[core.0 as usize].hint().backlog_ns();
        let amount_ns = self.stealing.amount_ns(backlog(victim), backlog(thief));
        let mut took_ns = self.colors.color(color).expected_ns;
        while took_ns < amount_ns {
            let Some((color, entries)) = self.take_from(thief, victim, *at_ns) else { break };
            *at_ns += self.machine.costs.lines_ns(self.machine.costs.steal_lines_milli, distance);
            took_ns += self.colors.color(color).expected_ns;
            taken.push((color, entries));
        }
        self.steal_costs.observe(distance, (*at_ns - began_ns) / taken.len() as u64);
        for (color, entries) in taken {
            self.receive(thief, victim, color, entries, began_ns, *at_ns);
        }
        true
    }

    /// The victim's best color that pays.
    fn take_from(&mut self, thief: CoreIndex, victim: CoreIndex, at_ns: u64) -> Option<(u32, usize)> {
        let owner = self.hint_of(victim, at_ns);
        let distance = self.machine.layout().distance(thief, victim);
        let steal_ns = self.steal_costs.estimate_ns(distance);
        let stealing: Stealing = self.stealing;
        // The queue is taken out of the world so that it may ask the world about its colors.
        let order = stealing.order();
        let mut ready = std::mem::replace(&mut self.core(victim).ready, vermeil_sched::Ready::new(order));
        let stolen = ready.steal(|&color| {
            self.may_run(color, thief)
                && stealing.pays(&self.candidate(color, thief, &owner, at_ns), steal_ns)
        });
        self.core(victim).ready = ready;
        let Stolen { token, entries } = stolen?;
        self.core(victim).entries -= entries;
        Some((token, entries))
    }

    /// A stolen color is the thief's from now on.
    fn receive(
        &mut self,
        thief: CoreIndex,
        victim: CoreIndex,
        color: u32,
        entries: usize,
        began_ns: u64,
        at_ns: u64,
    ) {
        let taken = self.colors.color_mut(color);
        debug_assert_eq!(taken.token, Token::Ready);
        taken.core = thief;
        taken.moved_ns = Some(at_ns);
        taken.stolen = taken.len;
        let number = taken.number;
        let class = self.class_of(color);
        let took_ns = at_ns - began_ns;
        let state = self.core(thief);
        state.ready.post(number, entries);
        state.entries += entries;
        let slot = state.ready.push(number, color, class);
        state.counts.steals += 1;
        state.counts.steal_ns += took_ns;
        state.counts.steal_times.add(took_ns);
        self.colors.color_mut(color).slot = slot;
        let note = Note::Stole { at_ns: began_ns, until_ns: at_ns, thief, victim, color: number };
        self.watch.note(note);
    }

    /// Goes to sleep; one core of a node watches while others are busy.
    pub(super) fn park(&mut self, core: CoreIndex, at_ns: u64) {
        let park_ns = if self.options.ideal { 0 } else { self.machine.costs.park_ns };
        let asleep_ns = at_ns + park_ns;
        let state = self.core(core);
        state.phase = Phase::Parked { asleep_ns };
        state.turn_number = state.turn_number.wrapping_add(1);
        state.counts.parks += 1;
        self.watch.note(Note::Parked { at_ns, core });
        if self.stealing == Stealing::Learned && !self.core(core).is_gone {
            self.watch_over(core, asleep_ns);
        }
    }

    /// The core becomes its node's sentinel if there is none and somebody is busy.
    fn watch_over(&mut self, core: CoreIndex, asleep_ns: u64) {
        let node = usize::from(self.machine.cores[core.0 as usize].node);
        if self.sentinels[node] {
            return;
        }
        let layout = self.machine.layout();
        let mut soonest: Option<u64> = None;
        for other in layout.neighbours(core) {
            let hint = self.cores[other.0 as usize].hint();
            let steal_ns = self.steal_costs.estimate_ns(layout.distance(core, *other));
            let busy = hint.running_since_ns.map(|_| WATCH_NS);
            let due = self.stealing.look_again_ns(&hint, asleep_ns, steal_ns).or(busy);
            soonest = due.into_iter().chain(soonest).min();
        }
        if let Some(due_ns) = soonest {
            self.sentinels[node] = true;
            self.core(core).is_sentinel = true;
            self.go_on(core, asleep_ns + due_ns);
        }
    }

    /// Something waits behind a busy core although it pays nobody to take it: if nobody watches, the nearest sleeper does
    /// from now on.
    pub(super) fn arm_sentinel(&mut self, busy: CoreIndex, at_ns: u64) {
        if self.stealing != Stealing::Learned {
            return;
        }
        let layout = self.machine.layout();
        let near = layout.neighbours(busy).iter().copied().find(|&core| {
            let state = &self.cores[core.0 as usize];
            matches!(state.phase, Phase::Parked { .. }) && state.is_there()
        });
        if let Some(core) = near {
            self.watch_over(core, at_ns);
        }
    }
}
