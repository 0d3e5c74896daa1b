//! What a runtime tells of itself: counters, and where handlers stand.
//!
//! Counters have one writer, their core, but for what threads that are no cores do (`rare.rs`); a snapshot adds them up. Leaves out what is observed of events (`observed.rs`, `times.rs`).

use crate::{
    control::{Control, Report},
    handle::Handle,
    handler::{HandlerCounters, HandlerSnapshot},
    hints::Gauge,
    times::{ObservedTimes, Times},
};
use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use vermeil_sched::CoreIndex;

impl Handle {
    /// Counters as they are now; each is exact, together they are not of one instant.
    pub fn snapshot(&self) -> Snapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let cores = self.shared.cores.iter().map(|core| CoreSnapshot {
            cpu: core.cpu,
            io: core.io.get().cloned().unwrap_or_default(),
            ready_colors: Gauge(core.ready.len()).waiting() as usize,
            queued_events: core.queued.len(),
            activations: get(&core.counters.activations),
            events: get(&core.counters.events),
            panics: get(&core.counters.panics),
            polls: get(&core.counters.polls),
            parks: get(&core.counters.parks),
            completions: get(&core.counters.completions),
            driver_errors: get(&core.counters.driver_errors),
            steals: get(&core.counters.steals),
            stolen_ns: get(&core.counters.stolen_ns),
            steal_ns: get(&core.counters.steal_ns),
            explored_ns: get(&core.counters.explored_ns),
            searches: get(&core.counters.searches),
            thieves_woken: get(&core.counters.thieves_woken),
            wakes: get(&core.counters.wakes),
            moves: get(&core.counters.moves),
            rounds: get(&core.counters.rounds),
            times: sum_times(core.times.iter()),
        });
        Snapshot {
            tasks: self.shared.tasks_alive(),
            cores: cores.collect(),
            handlers: self.handler_snapshots(),
        }
    }

    /// What the policy has decided about handlers lately (at most 256 decisions, oldest first) and where each handler
    /// with a color of its own stands.
    pub fn placements(&self) -> Placements {
        let report = self.shared.control.as_ref().map(Control::report);
        let Report { decisions, handlers, regret_ns, unknown, moves, messages } = report.unwrap_or_default();
        let witness = self.shared.cores.iter().find_map(|core| core.witness.get()).cloned();
        let explored_ns = self.shared.cores.iter().map(|core| &core.counters.explored_ns);
        Placements {
            handlers,
            decisions,
            regret: regret_ns.map(Duration::from_nanos),
            explored: Duration::from_nanos(explored_ns.map(|ns| ns.load(Ordering::Relaxed)).sum()),
            unknown,
            witness,
            moves,
            messages,
        }
    }

    fn handler_snapshots(&self) -> Vec<HandlerSnapshot> {
        let names = self.shared.handlers.names();
        names
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let sum = |of: fn(&HandlerCounters) -> &AtomicU64| {
                    let rows = self.shared.cores.iter().map(|core| &core.handlers);
                    let all = rows.chain([&self.shared.outside]);
                    all.map(|row| of(&row[index]).load(Ordering::Relaxed)).sum()
                };
                HandlerSnapshot {
                    name: name.clone(),
                    runs: sum(|c| &c.runs),
                    panics: sum(|c| &c.panics),
                    steals: sum(|c| &c.steals),
                    moves: sum(|c| &c.moves),
                    wakes: sum(|c| &c.wakes),
                    times: sum_times(self.shared.cores.iter().map(|core| &core.times[index])),
                }
            })
            .collect()
    }
}

fn sum_times<'a>(times: impl Iterator<Item = &'a OnceLock<Box<Times>>>) -> ObservedTimes {
    let mut sum = ObservedTimes::default();
    times.filter_map(OnceLock::get).for_each(|times| times.add_to(&mut sum));
    sum
}

/// Where handlers stand, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placements {
    /// Handlers with a color of their own or their group's, by name, in order of registration.
    pub handlers: Vec<(String, CoreIndex)>,
    /// Decisions in words, oldest first. Colors that came to who called them, or were stolen, are no decisions of the policy's controller: there
    /// may be thousands a second, so they are counted ([`HandlerSnapshot`]).
    pub decisions: Vec<String>,
    /// Time that trials of plans have lost so far, of the whole machine and as measured: at most two percent, and 20 ms at once.
    /// None under policies that do not bound it. Neither what steals lost that were made to learn is in it ([`explored`](Self::explored))
    /// nor what was made because it was expected to pay and did not: a steal, a color that came to who called it. Those are learned from.
    pub regret: Option<Duration>,
    /// What the steals of all cores that were made to learn were expected to lose ([`CoreSnapshot::explored_ns`]). It is time
    /// of single cores.
    pub explored: Duration,
    /// What is wrong with a plan that came from a file: the first handler that it names and that is not there, or not yet, or may
    /// not stand there.
    pub unknown: Option<String>,
    /// What is counted beside the time to decide on, or why it is not: `cache misses: not measurable here (no such event on this
    /// machine)`. None where handlers are not placed by what they do, and before the first round of observation.
    pub witness: Option<String>,
    /// Colors of handlers that were sent to another core since the start.
    pub moves: u64,
    /// The messages it took: one for each core that gave and one for each that took from it what waited there, however many handlers
    /// went together.
    pub messages: u64,
}

/// The runtime's counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Tasks that have not ended.
    pub tasks: usize,
    /// One entry per core, in order.
    pub cores: Vec<CoreSnapshot>,
    /// One entry per handler, in order of registration.
    pub handlers: Vec<HandlerSnapshot>,
}

/// One core's counters. Counts are since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreSnapshot {
    /// Cpu the core is pinned to, or would be.
    pub cpu: usize,
    /// The driver's description of itself.
    pub io: String,
    /// Colors waiting in the ready queue.
    pub ready_colors: usize,
    /// Handler events posted and not yet run, and those that wait for room.
    pub queued_events: usize,
    /// Times a color was taken up.
    pub activations: u64,
    /// Events run.
    pub events: u64,
    /// Events that panicked.
    pub panics: u64,
    /// Looks at I/O without waiting.
    pub polls: u64,
    /// Waits for I/O, timers or a wake-up.
    pub parks: u64,
    /// I/O completions taken in.
    pub completions: u64,
    /// Turns in which the driver failed as a whole.
    pub driver_errors: u64,
    /// Colors this core took from others.
    pub steals: u64,
    /// What the stolen colors' queued events were expected to take, in nanoseconds; of colors that are alike, as one of them.
    pub stolen_ns: u64,
    /// What the successful steals themselves took, in nanoseconds.
    pub steal_ns: u64,
    /// What the steals that were made to learn were expected to lose, in nanoseconds: the penalty and the time that had been learned, which
    /// forbade them. At most half a percent of the time that handlers were timed for, and 100 us at once.
    pub explored_ns: u64,
    /// Looks around for something to steal, successful or not.
    pub searches: u64,
    /// Sleeping cores that this core woke to steal from a busy one.
    pub thieves_woken: u64,
    /// Sleeping cores that this core woke for what it had queued there.
    pub wakes: u64,
    /// Colors that this core has sent to another one, or called to itself: for a plan, for [`Handle::when`], as it posted to them, or
    /// since they follow a handler.
    pub moves: u64,
    /// Rounds of observation this core has answered.
    pub rounds: u64,
    /// Of the events of all handlers that ran here and were observed.
    pub times: ObservedTimes,
}
