//! The invariants, checked from outside while a world runs.
//!
//! A [`InvariantChecker`] sees only a world's notes and keeps separate books: the events that wait
//! on each color, the running events, the sleeping cores. Because the checker knows nothing of
//! queues, tokens or policies, a fault there cannot also be a fault here. `world/audit.rs` compares
//! facts that only the world sees: tokens against queues, sums of worth, placements.
//!
//! The names are those of the runtime's list of invariants: I1 exclusion, I3 order within a color,
//! I4 causality, I5 conservation, I6 no lost wake-up, I10 no steal of a running color, I11 no long
//! wait beside a sleeping core (`check/idle_waits.rs`), I13 a sleeping core does not run. "busy" is
//! a rule of the simulator alone: no core runs events for longer than the counted time. I4 follows
//! from the other checks, because each event is posted after its cause. Tested below on invented
//! notes, and by every run of the swarm.

mod idle_waits;

use std::collections::{BTreeMap, VecDeque};

use vermeil_sched::CoreIndex;

use crate::machine::SimMachine;
use crate::options::SimOptions;
use crate::results::Results;
use crate::watch::{Note, Watch};
use crate::workload::CompiledProgram;
use idle_waits::IdleWaits;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant: "I1" to "I20", or "busy".
    pub invariant: &'static str,
    /// Virtual time of the violation.
    pub at_ns: u64,
    /// Description of the violation.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {} ns: {}", self.invariant, self.at_ns, self.what)
    }
}

/// The books about a color.
#[derive(Debug, Default)]
struct ColorBooks {
    /// The events, each with its handler.
    waiting: VecDeque<(u64, u16)>,
    running: Option<(CoreIndex, u64)>,
    /// Start and handler of the running event.
    started: (u64, u16),
    /// An event of the color had a handler whose colors must stay.
    stays: bool,
}

/// Checks the invariants.
#[derive(Debug, Default)]
pub struct InvariantChecker {
    colors: BTreeMap<u64, ColorBooks>,
    cores: BTreeMap<CoreIndex, u64>,
    asleep: BTreeMap<CoreIndex, u64>,
    posted: u64,
    run: u64,
    now_ns: u64,
    idle_waits: Option<IdleWaits>,
    first: Option<Violation>,
    /// Moments so far.
    moments: u64,
    /// The number of moments after which the checker has seen enough.
    moments_max: Option<u64>,
}

impl InvariantChecker {
    /// A checker that also knows which waits the run allows beside a sleeping core (I11).
    pub fn of(machine: &SimMachine, program: &CompiledProgram, options: &SimOptions) -> Self {
        Self { idle_waits: IdleWaits::of(machine, program, options), ..Self::default() }
    }

    /// A checker that ends the run after this number of moments, and then checks no end.
    pub fn within(self, moments_max: u64) -> Self {
        Self { moments_max: Some(moments_max), ..self }
    }

    fn is_cut_short(&self) -> bool {
        self.moments_max.is_some_and(|most| self.moments > most)
    }

    /// The first violation, including the checks at the end of a run. Every posted event must have
    /// run, be running or be queued. A run that was allowed to finish must have finished.
    pub fn verdict(mut self, results: &Results) -> Option<Violation> {
        if self.first.is_some() || self.is_cut_short() {
            return self.first;
        }
        let waiting: u64 = self.colors.values().map(|color| color.waiting.len() as u64).sum();
        let running = self.cores.len() as u64;
        if self.posted != self.run + running + waiting || waiting != results.queued_at_end {
            let what = format!(
                "{} posted, {} run, {running} running, {waiting} waiting, {} said to be queued",
                self.posted, self.run, results.queued_at_end
            );
            self.broken("I5", what);
        }
        if results.stuck > 0 {
            let what = format!("{} events or requests never come to run, and all cores sleep", results.stuck);
            self.broken("I6", what);
        }
        let counted_ns = results.counted_ns;
        if let Some(core) = results.cores.iter().position(|core| core.busy_ns > counted_ns) {
            let busy_ns = results.cores[core].busy_ns;
            self.broken("busy", format!("core {core} was busy for {busy_ns} ns of {counted_ns} ns"));
        }
        if let Some(problem) = &results.audit {
            self.broken(problem.0, problem.1.clone());
        }
        self.first
    }

    fn broken(&mut self, invariant: &'static str, what: String) {
        let at_ns = self.now_ns;
        self.first.get_or_insert(Violation { invariant, at_ns, what });
    }

    fn posted(&mut self, event: u64, color: u64, handler: u16, core: CoreIndex) {
        let known = self.colors.entry(color).or_default();
        known.waiting.push_back((event, handler));
        let Some(idle) = &mut self.idle_waits else { return };
        known.stays |= !idle.may_move(handler);
        if known.waiting.len() == 1 && known.running.is_none() && !known.stays {
            idle.waits(color, handler, core, self.now_ns);
        }
    }

    fn started(&mut self, core: CoreIndex, event: u64, color: u64) {
        if let Some(other) = self.cores.insert(core, event) {
            self.broken("I1", format!("{core} begins event {event} while it runs {other}"));
        }
        if self.asleep.contains_key(&core) {
            self.broken("I13", format!("{core} sleeps and begins event {event}"));
        }
        let now_ns = self.now_ns;
        if let Some(what) = self.idle_waits.as_mut().and_then(|idle| idle.begins(color, core, now_ns)) {
            self.broken("I11", what);
        }
        let known = self.colors.entry(color).or_default();
        let first = known.waiting.pop_front();
        known.started = (now_ns, first.map_or(0, |(_, handler)| handler));
        let first = first.map(|(event, _)| event);
        let running = known.running.replace((core, event));
        if let Some((there, other)) = running {
            self.broken("I1", format!("color {color} runs event {other} on {there} and {event} on {core}"));
        }
        if first != Some(event) {
            self.broken("I3", format!("color {color} runs event {event}, and its first is {first:?}"));
        }
    }

    fn finished(&mut self, core: CoreIndex, event: u64, color: u64) {
        self.run += 1;
        self.cores.remove(&core);
        let Some(known) = self.colors.get_mut(&color) else { return };
        let running = known.running.take();
        if let Some(idle) = &mut self.idle_waits {
            let (started_ns, handler) = known.started;
            let seen_ns = idle.ran(core, handler, started_ns, self.now_ns);
            if let Some(&(_, next)) = known.waiting.front()
                && !known.stays
            {
                idle.waits(color, next, core, seen_ns);
            }
        }
        // Finished colors are not kept, because a run makes many short-lived colors.
        if known.waiting.is_empty() {
            self.colors.remove(&color);
        }
        if running != Some((core, event)) {
            self.broken("I1", format!("event {event} ends on {core}, and color {color} runs {running:?}"));
        }
    }

    fn stole(&mut self, thief: CoreIndex, victim: CoreIndex, color: u64) {
        let running = self.colors.get(&color).and_then(|known| known.running);
        if thief == victim || running.is_some() {
            let what = format!("{thief} steals color {color} from {victim} while it runs: {running:?}");
            self.broken("I10", what);
        }
        self.moved(color, thief);
    }

    fn moved(&mut self, color: u64, to: CoreIndex) {
        if let Some(idle) = &mut self.idle_waits {
            idle.moves(color, to);
        }
    }
}

impl Watch for InvariantChecker {
    fn has_enough(&mut self) -> bool {
        self.moments += 1;
        self.first.is_some() || self.is_cut_short()
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Posted { at_ns, event, color, handler, core } => {
                self.now_ns = at_ns;
                self.posted += 1;
                if event != self.posted {
                    self.broken("I5", format!("event {event} is posted as number {}", self.posted));
                }
                self.posted(event, color, handler, core);
            }
            Note::Started { at_ns, core, event, color, .. } => {
                self.now_ns = at_ns;
                self.started(core, event, color);
            }
            Note::Finished { at_ns, core, event, color } => {
                self.now_ns = at_ns;
                self.finished(core, event, color);
            }
            Note::Stole { at_ns, thief, victim, color, .. } => {
                self.now_ns = at_ns;
                self.stole(thief, victim, color);
            }
            Note::Moved { color, to, .. } => self.moved(color, to),
            Note::Parked { at_ns, core } => {
                if self.asleep.insert(core, at_ns).is_some() {
                    self.broken("I13", format!("{core} goes to sleep twice"));
                }
                if let Some(idle) = &mut self.idle_waits {
                    idle.sleeps(core, at_ns);
                }
            }
            Note::Unparked { at_ns, core } => {
                self.asleep.remove(&core);
                let finding = self.idle_waits.as_mut().and_then(|idle| idle.wakes(core, at_ns));
                if let Some(what) = finding {
                    self.broken("I11", what);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SimOptions;
    use crate::{machine, workload};

    const CORE: CoreIndex = CoreIndex(0);

    fn results() -> Results {
        let machine = machine::profile("xeon5100-2x2").unwrap();
        let program = workload::workload("web").unwrap();
        Results::new(&machine, &program, &SimOptions::ideal())
    }

    fn posted(event: u64, color: u64) -> Note {
        Note::Posted { at_ns: event, event, color, handler: 0, core: CORE }
    }

    fn started(core: CoreIndex, event: u64, color: u64) -> Note {
        Note::Started { at_ns: 10, core, event, color, handler: 0 }
    }

    fn finished(core: CoreIndex, event: u64, color: u64) -> Note {
        Note::Finished { at_ns: 20, core, event, color }
    }

    fn broken(notes: &[Note]) -> Option<&'static str> {
        let mut checker = InvariantChecker::default();
        notes.iter().for_each(|&note| checker.note(note));
        checker.verdict(&results()).map(|violation| violation.invariant)
    }

    #[test]
    fn an_orderly_run_breaks_nothing() {
        let orderly = [posted(1, 5), posted(2, 5), started(CORE, 1, 5), finished(CORE, 1, 5)];
        let rest = [started(CORE, 2, 5), finished(CORE, 2, 5)];
        assert_eq!(broken(&[&orderly[..], &rest].concat()), None);
    }

    #[test]
    fn each_rule_is_noticed() {
        let two = [posted(1, 5), posted(2, 5)];
        let with = |more: &[Note]| broken(&[&two[..], more].concat());
        assert_eq!(with(&[started(CORE, 2, 5)]), Some("I3"));
        assert_eq!(with(&[started(CORE, 1, 5), started(CoreIndex(1), 2, 5)]), Some("I1"));
        assert_eq!(with(&[started(CORE, 1, 5), finished(CoreIndex(1), 1, 5)]), Some("I1"));
        assert_eq!(with(&[Note::Parked { at_ns: 3, core: CORE }, started(CORE, 1, 5)]), Some("I13"));
        let steal = Note::Stole { at_ns: 5, until_ns: 6, thief: CoreIndex(1), victim: CORE, color: 5 };
        assert_eq!(with(&[started(CORE, 1, 5), steal]), Some("I10"));
        assert_eq!(with(&[]), Some("I5"), "two wait, and the results say none do");
        let mut stuck = results();
        stuck.stuck = 1;
        assert_eq!(InvariantChecker::default().verdict(&stuck).unwrap().invariant, "I6");
        let mut busy = results();
        busy.counted_ns = 10;
        busy.cores = vec![crate::CoreCounts { busy_ns: 11, ..Default::default() }];
        assert_eq!(InvariantChecker::default().verdict(&busy).unwrap().invariant, "busy");
    }
}
