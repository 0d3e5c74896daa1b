//! A core without work: it looks around, takes what pays, and sleeps otherwise.
//!
//! The order of steps is the runtime's (its `steal.rs`): one round over the victims, a second look if something has become
//! worth taking meanwhile, a short wait where more is likely to come, and one sleeping core that watches the busy ones. A thief never waits for a lock. Whom to look at
//! comes from the layout and the hints, what to take from [`Stealing::pays`] and the production ready queue, how long the
//! watching core sleeps from [`Stealing::look_again_ns`]; what all that costs comes from the machine.

use vermeil_sched::{CoreIndex, Distance, HAUL_MAX, Hint, LINGER_NS, Order, Stealing, Stolen};

use super::World;
use super::colors::Token;
use super::core::Phase;
use super::sets::Looks;
use crate::watch::{Note, Watch};

/// Between two looks of a core that goes on looking, at least and at most; in between, 64 looks in all.
const SPIN_STEP_NS: (u64, u64) = (1_000, 100_000);
/// What a color costs that is taken under a lock already held, in thousandths of a cache line: its own two lines.
const FURTHER_LINES_MILLI: u64 = 2_000;

impl<W: Watch> World<W> {
    /// Looks for something to steal; what is found is in the core's own queue.
    pub(super) fn search(&mut self, thief: CoreIndex, at_ns: &mut u64) {
        let (began_ns, stealing) = (*at_ns, self.stealing);
        let others_search = std::mem::take(&mut self.is_searching);
        let found =
            self.visit_all(thief, at_ns) || (self.anything_stealable(thief) && self.visit_all(thief, at_ns));
        let state = self.core(thief);
        state.counts.search_ns += *at_ns - began_ns;
        if found {
            state.looked_in_vain = 0;
            self.call_another(thief, at_ns);
        } else {
            if stealing.lingers(state.looked_in_vain) && !others_search {
                state.lingers_until_ns = *at_ns + LINGER_NS;
            }
            state.looked_in_vain = state.looked_in_vain.saturating_add(1);
            state.counts.vain_searches += 1;
        }
    }

    /// Where there was something to steal there may be more: one sleeping core after the other is woken, as long as each
    /// finds something.
    fn call_another(&mut self, by: CoreIndex, at_ns: &mut u64) {
        if self.is_searching || !self.anything_stealable(by) {
            return;
        }
        let thief = self.victims(by).find(|&core| self.is_asleep(core));
        if let Some(thief) = thief {
            self.is_searching = true;
            self.wake(thief, Some(by), at_ns);
        }
    }

    fn anything_stealable(&self, thief: CoreIndex) -> bool {
        self.giving.iter().any(|giver| giver != thief && self.is_victim(thief, giver))
    }

    /// The other cores, nearest first; of an instance per node only its own.
    fn victims(&self, thief: CoreIndex) -> impl Iterator<Item = CoreIndex> {
        let neighbours = self.machine.layout().neighbours(thief).iter().copied();
        neighbours.filter(move |&victim| self.is_victim(thief, victim))
    }

    fn is_victim(&self, thief: CoreIndex, other: CoreIndex) -> bool {
        let layout = self.machine.layout();
        !self.options.instance_per_node || layout.node(other) == layout.node(thief)
    }

    fn visit_all(&mut self, thief: CoreIndex, at_ns: &mut u64) -> bool {
        if self.stealing.prefers_near() {
            return self.visit_nearest(thief, at_ns);
        }
        let busiest = self.victims(thief).max_by_key(|victim| self.stealable[victim.0 as usize]);
        // Finding out which is busiest reads every other core's word once.
        let count = self.machine.layout().neighbours(thief).len();
        *at_ns += self.looks[thief.0 as usize].upto_ns(count);
        busiest.is_some_and(|victim| self.visit(thief, victim, at_ns))
    }

    fn visit_nearest(&mut self, thief: CoreIndex, at_ns: &mut u64) -> bool {
        let count = self.machine.layout().neighbours(thief).len();
        let mut victims = std::mem::take(&mut self.victims);
        if self.stale_ns == 0 {
            // Who has nothing to give is looked at, and no more.
            self.ranks.sort(thief, &self.giving, &mut victims);
        } else {
            // What was said long ago must be looked up.
            victims.clear();
            victims.extend(0..count as u16);
        }
        let mut looked = 0;
        let found = victims.iter().any(|&rank| {
            let (rank, victim) =
                (usize::from(rank), self.machine.layout().neighbours(thief)[usize::from(rank)]);
            let looks = &self.looks[thief.0 as usize];
            *at_ns += looks.upto_ns(rank) - looks.upto_ns(looked);
            looked = rank + 1;
            self.is_victim(thief, victim) && self.visit(thief, victim, at_ns)
        });
        self.victims = victims;
        if !found {
            let looks = &self.looks[thief.0 as usize];
            *at_ns += looks.upto_ns(count) - looks.upto_ns(looked);
        }
        found
    }

    /// What a thief's looks at its neighbours take.
    pub(super) fn looks(&self, thief: CoreIndex) -> Looks {
        let groups = self.machine.layout().groups(thief).map(|(distance, group)| {
            let each_ns = if self.is_victim(thief, group[0]) { self.look_ns(distance) } else { 0 };
            (group.len(), each_ns)
        });
        Looks::new(groups)
    }

    fn look_ns(&self, distance: Distance) -> u64 {
        self.machine.costs.search_ns + self.machine.costs.lines_ns(1_000, distance)
    }

    /// Takes what pays from one victim; whether anything did.
    fn visit(&mut self, thief: CoreIndex, victim: CoreIndex, at_ns: &mut u64) -> bool {
        let distance = self.machine.layout().distance(thief, victim);
        if self.stealing.prefers_near() {
            *at_ns += self.look_ns(distance);
        }
        let began_ns = *at_ns;
        let hint = self.hint_of(victim, began_ns);
        let steal_ns = self.learned.steal_ns(thief, distance);
        if !self.stealing.may_pay(&hint, began_ns, steal_ns) {
            return false;
        }
        let is_busy = self.cores[victim.0 as usize].lock.free_ns > began_ns;
        if is_busy && !self.options.waits_for_locks {
            *at_ns += self.move_lines(thief, 1_000, distance);
            return false;
        }
        let haul = self.take(thief, victim, (distance, steal_ns), &hint, at_ns);
        if haul.is_empty() {
            return false;
        }
        let colors = haul.len() as u64;
        self.lock(thief, thief, 0, at_ns);
        for Stolen { token: color, entries } in haul {
            self.receive(thief, victim, color, entries, began_ns, *at_ns);
        }
        self.gauge(thief);
        let took_ns = *at_ns - began_ns;
        let counts = &mut self.core(thief).counts;
        counts.steals += colors;
        counts.steal_ns += took_ns;
        self.learned.moves(thief).observe(distance, took_ns / colors);
        true
    }

    /// Takes the victim's best colors that pay, as many as are due, under one lock.
    fn take(
        &mut self,
        thief: CoreIndex,
        victim: CoreIndex,
        (distance, steal_ns): (Distance, u64),
        hint: &Hint,
        at_ns: &mut u64,
    ) -> Vec<Stolen<u32>> {
        let began_ns = *at_ns;
        let scanned = self.cores[victim.0 as usize].entries as u64;
        let (mut haul, mut worth_ns) = (Vec::new(), 0u64);
        while haul.len() < HAUL_MAX
            && let Some(stolen) = self.take_from(thief, victim, (distance, steal_ns), hint, began_ns)
        {
            self.core(victim).entries -= stolen.entries;
            worth_ns += self.colors.color(stolen.token).worth_ns;
            haul.push(stolen);
            if worth_ns >= self.stealing.amount_ns(hint.backlog_ns(), worth_ns) {
                break;
            }
        }
        if !haul.is_empty() {
            self.gauge(victim);
        }
        let costs = &self.machine.costs;
        let looked =
            if self.stealing.order() == Order::Events { scanned * costs.scan_lines_milli } else { 1_000 };
        let moved = match haul.len() as u64 {
            0 => 0,
            colors => costs.steal_lines_milli + (colors - 1) * FURTHER_LINES_MILLI,
        };
        let held_ns = self.move_lines(thief, looked + moved, distance);
        self.lock(thief, victim, held_ns, at_ns);
        haul
    }

    /// The victim's best color that pays.
    fn take_from(
        &mut self,
        thief: CoreIndex,
        victim: CoreIndex,
        (distance, steal_ns): (Distance, u64),
        owner: &Hint,
        at_ns: u64,
    ) -> Option<Stolen<u32>> {
        let stealing: Stealing = self.stealing;
        let victims_events = self.cores[victim.0 as usize].waiting_events;
        // The cores are taken out of the world so that their queue may ask the world about its colors.
        let mut cores = std::mem::take(&mut self.cores);
        let stolen = cores[victim.0 as usize].ready.steal(|&color| {
            let candidate = self.candidate(color, owner, distance, at_ns);
            self.may_run(color, thief)
                && self.leaves_enough(color, victims_events)
                && (stealing.pays(&candidate, steal_ns)
                    || self.learned.exploration(thief).due(stealing, &candidate, steal_ns))
        });
        self.cores = cores;
        let stolen = stolen?;
        self.core(victim).waiting_events -= u64::from(self.colors.color(stolen.token).len);
        Some(stolen)
    }

    /// The documents' thieves leave a color that holds half of the victim's events: taking it would only move the load.
    fn leaves_enough(&self, color: u32, victims_events: u64) -> bool {
        !self.options.leaves_half || 2 * u64::from(self.colors.color(color).len) < victims_events
    }

    /// A stolen color is the thief's from now on.
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
        debug_assert_eq!(taken.token, Token::Ready);
        taken.core = thief;
        taken.moved_ns = Some(began_ns);
        taken.stolen = taken.len;
        let (number, len) = (taken.number, u64::from(taken.len));
        let (class, of) = (self.class_of(color), self.handlers_class(color));
        let state = self.core(thief);
        state.ready.post(number, entries);
        state.entries += entries;
        let slot = state.ready.push_in(number, color, class, of, until_ns);
        state.waiting_events += len;
        self.colors.color_mut(color).slot = slot;
        let note = Note::Stole { at_ns: began_ns, until_ns, thief, victim, color: number };
        self.watch.note(note);
    }

    /// Nothing is queued and nothing was found: the core sleeps, unless it is to go on looking.
    pub(super) fn sleep(&mut self, core: CoreIndex, at_ns: u64) {
        let spin_ns = self.options.spin_ns;
        let state = self.core(core);
        state.turn.polled();
        let since_ns = *state.idle_since_ns.get_or_insert(at_ns);
        if self.stealing.is_on() && at_ns < since_ns + spin_ns && self.core(core).is_there() {
            let step_ns = (spin_ns / 64).clamp(SPIN_STEP_NS.0, SPIN_STEP_NS.1);
            return self.go_on(core, at_ns + step_ns);
        }
        let state = self.core(core);
        if at_ns < state.lingers_until_ns {
            let is_there = state.is_there();
            // Work of its own that comes meanwhile ends the search.
            state.woken = is_there;
            self.is_searching = is_there;
            if is_there {
                return self.go_on(core, at_ns + SPIN_STEP_NS.0);
            }
        }
        self.park(core, at_ns);
    }

    /// Goes to sleep; one core watches while others are busy.
    pub(super) fn park(&mut self, core: CoreIndex, at_ns: u64) {
        let park_ns = if self.options.ideal { 0 } else { self.machine.costs.park_ns };
        let asleep_ns = at_ns + park_ns;
        let state = self.core(core);
        state.phase = Phase::Parked { asleep_ns };
        state.turn_number = state.turn_number.wrapping_add(1);
        state.counts.parks += 1;
        self.asleep.insert(core);
        self.watch.note(Note::Parked { at_ns, core });
        self.watch_over(core, asleep_ns);
    }

    /// The core becomes the sentinel if there is none and somebody is busy.
    fn watch_over(&mut self, core: CoreIndex, asleep_ns: u64) {
        if self.stealing != Stealing::Learned || self.sentinel.is_some() || self.core(core).is_gone {
            return;
        }
        let looked = self.core(core).looked_in_vain;
        let due_ns = |busy: CoreIndex| {
            let hint = self.hint_of(busy, asleep_ns);
            let steal_ns = self.learned.steal_ns(core, self.machine.layout().distance(busy, core));
            self.stealing.look_again_ns(&hint, asleep_ns, steal_ns, looked)
        };
        let others = |other: &CoreIndex| *other != core;
        let soonest = match self.stale_ns {
            // Nothing is due where nothing runs.
            0 => self.busy.iter().filter(others).filter_map(due_ns).min(),
            // Unless that is old news.
            _ => self.machine.layout().indices().filter(others).filter_map(due_ns).min(),
        };
        if let Some(due_ns) = soonest {
            self.sentinel = Some(core);
            self.go_on(core, asleep_ns + due_ns);
        }
    }
}
