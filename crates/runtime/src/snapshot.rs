//! The public counters of a runtime, and the places of handlers.
//!
//! Each counter has a single writer, its core, except the counters of other threads
//! (`move_counters.rs`); a snapshot adds the counters up. Leaves out the observation of events
//! (`observed.rs`, `times.rs`).

use crate::{
    control_state::{ControlReport, RuntimeControl},
    core_load::QueueLoad,
    handle::Handle,
    handler::HandlerSnapshot,
    handlers::HandlerCounters,
    times::{HandlerTimes, ObservedTimes},
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
    /// The current counters. Each counter is exact, but the counters are not from the same instant.
    pub fn snapshot(&self) -> Snapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let cores = self.shared.cores.iter().map(|core| CoreSnapshot {
            cpu: core.facts.cpu,
            io: core.facts.io.get().cloned().unwrap_or_default(),
            ready_colors: QueueLoad(core.ready.len()).waiting() as usize,
            queued_events: core.queued.len(),
            activations: get(&core.counters.activations),
            events: get(&core.counters.events),
            panics: get(&core.counters.panics),
            polls: get(&core.counters.io.polls),
            parks: get(&core.counters.io.parks),
            completions: get(&core.counters.io.completions),
            driver_errors: get(&core.counters.io.driver_errors),
            steals: get(&core.counters.steal.steals),
            stolen_ns: get(&core.counters.steal.stolen_ns),
            steal_ns: get(&core.counters.steal.steal_ns),
            explored_ns: get(&core.counters.steal.explored_ns),
            searches: get(&core.counters.steal.searches),
            thieves_woken: get(&core.counters.steal.thieves_woken),
            wakes: get(&core.counters.wakes),
            moves: get(&core.counters.moves),
            rounds: get(&core.counters.rounds),
            times: sum_times(core.records.times.iter()),
        });
        Snapshot {
            tasks: self.shared.tasks_alive(),
            cores: cores.collect(),
            handlers: self.handler_snapshots(),
        }
    }

    /// The latest decisions of the policy about handlers (at most 256 decisions, oldest first), and
    /// the place of each handler with a color of its own.
    pub fn placements(&self) -> Placements {
        let report = self.shared.control.as_ref().map(RuntimeControl::report);
        let ControlReport { decisions, handlers, regret_ns, unknown, moves, messages } =
            report.unwrap_or_default();
        let perf_counters = self.shared.cores.iter().find_map(|core| core.facts.perf_counters.get()).cloned();
        let explored_ns = self.shared.cores.iter().map(|core| &core.counters.steal.explored_ns);
        Placements {
            handlers,
            decisions,
            regret: regret_ns.map(Duration::from_nanos),
            explored: Duration::from_nanos(explored_ns.map(|ns| ns.load(Ordering::Relaxed)).sum()),
            unknown,
            perf_counters,
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
                    let rows = self.shared.cores.iter().map(|core| &core.records.handlers);
                    let all = rows.chain([&self.shared.handlers.outside]);
                    all.map(|row| of(&row[index]).load(Ordering::Relaxed)).sum()
                };
                HandlerSnapshot {
                    name: name.clone(),
                    runs: sum(|c| &c.runs),
                    panics: sum(|c| &c.panics),
                    steals: sum(|c| &c.steals),
                    moves: sum(|c| &c.moves),
                    wakes: sum(|c| &c.wakes),
                    times: sum_times(self.shared.cores.iter().map(|core| &core.records.times[index])),
                }
            })
            .collect()
    }
}

fn sum_times<'a>(times: impl Iterator<Item = &'a OnceLock<Box<HandlerTimes>>>) -> ObservedTimes {
    let mut sum = ObservedTimes::default();
    times.filter_map(OnceLock::get).for_each(|times| times.add_to(&mut sum));
    sum
}

/// The places of handlers, with the decisions that led to these places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placements {
    /// Handlers with a color of their own or their group's, by name, in order of registration.
    pub handlers: Vec<(String, CoreIndex)>,
    /// Decisions in words, oldest first. A color that moved to its caller, or was stolen, is not a
    /// decision of the policy's controller. Such moves are only counted ([`HandlerSnapshot`]),
    /// because there may be thousands a second.
    pub decisions: Vec<String>,
    /// Time that trials of plans have lost so far, for the whole machine and as measured: at most
    /// two percent, and 20 ms at once. `None` under policies without this bound. The value excludes
    /// steals made to learn ([`explored`](Self::explored)). The value also excludes moves that were
    /// expected to pay and did not, for example a steal, or a color that moved to its caller,
    /// because the policy learns from these moves.
    pub regret: Option<Duration>,
    /// The expected loss of all cores' steals that were made to learn
    /// ([`CoreSnapshot::explored_ns`]). The unit is time of a single core.
    pub explored: Duration,
    /// The problem of a plan from a file: the first named handler that does not exist (yet), or
    /// that must not run on the named core.
    pub unknown: Option<String>,
    /// The quantity that is counted beside the time for decisions, or the reason why none is:
    /// `cache misses: not measurable here (no such event on this machine)`. `None` if the policy
    /// does not place handlers by observation, and before the first round of observation.
    pub perf_counters: Option<String>,
    /// Colors of handlers that the policy sent to another core since the start.
    pub moves: u64,
    /// The messages for these moves: one for each core that gave colors, and one for each pair of a
    /// giving and a receiving core with waiting colors, for any number of handlers.
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
    /// Handler events posted and not yet run, including events that wait for room.
    pub queued_events: usize,
    /// Activations of a color.
    pub activations: u64,
    /// Events run.
    pub events: u64,
    /// Events that panicked, and panics of wakers and of owners of sent bodies between two events.
    pub panics: u64,
    /// Checks for I/O without waiting.
    pub polls: u64,
    /// Waits for I/O, timers or a wake-up.
    pub parks: u64,
    /// I/O completions received.
    pub completions: u64,
    /// Turns in which the driver failed as a whole.
    pub driver_errors: u64,
    /// Colors that this core stole from others.
    pub steals: u64,
    /// The expected time of the stolen colors' queued events, in nanoseconds. Equal colors of a
    /// steal count as one.
    pub stolen_ns: u64,
    /// The duration of the successful steals, in nanoseconds.
    pub steal_ns: u64,
    /// The expected loss of the steals that were made to learn, in nanoseconds: the learned penalty
    /// and time, which forbade the steals. At most half a percent of the time that was measured for
    /// handlers, and 100 us at once.
    pub explored_ns: u64,
    /// Searches for a color to steal, successful or not.
    pub searches: u64,
    /// Sleeping cores that this core woke to steal from a busy one.
    pub thieves_woken: u64,
    /// Sleeping cores that this core woke for events that it had queued there.
    pub wakes: u64,
    /// Colors that this core has sent to another core, or called to itself: for a plan, for
    /// [`Handle::when`], on posting, or because the colors follow a handler.
    pub moves: u64,
    /// Rounds of observation this core has answered.
    pub rounds: u64,
    /// Times of the observed events of all handlers on this core.
    pub times: ObservedTimes,
}
