//! A recording as it ran, without simulation: tables of handlers and cores, and a timeline.
//!
//! Leaves out the form of a recording ([`vermeil_sched::recording`]). Tested in `report/tests.rs`.

use std::collections::BTreeMap;

use vermeil_sched::recording::{RecordedEvent, Recording};
use vermeil_sched::{CoreIndex, SchedError};

use super::table::Table;
use super::timeline::{Doing, Timeline};
use super::{cell, thousands, time};
use crate::SimError;
use crate::histogram::SimHistogram;

/// Handlers with a color of their own in a picture. Further handlers share the last color.
const SHOWN_MAX: usize = 11;

/// The longest name in a picture.
const NAME_CHARS: usize = 27;

/// The name of all further handlers.
const OTHERS: &str = "others";

/// A recorded run.
#[derive(Clone, Debug)]
pub struct RecordedRun {
    recording: Recording,
    /// The error in the last line, if the file is cut off there.
    cut: Option<SchedError>,
}

/// The counts of a handler.
#[derive(Default)]
struct RecordedHandler {
    run: SimHistogram,
    wait: SimHistogram,
    /// Events from another core.
    foreign: u64,
}

impl RecordedRun {
    /// The run of a file. The last line may be cut off.
    ///
    /// # Errors
    /// The text is not a recording, or the recording is empty.
    pub fn parse(text: &str) -> Result<Self, SimError> {
        let (recording, cut) = Recording::parse_until_cut(text)?;
        match cut {
            Some(cut) if recording.events.is_empty() => Err(cut.into()),
            None if recording.events.is_empty() => Err(SimError::Empty),
            cut => Ok(Self { recording, cut }),
        }
    }

    /// The start of the first event.
    fn first_ns(&self) -> u64 {
        self.recording.events[0].start_ns
    }

    /// From the start of the first event to the end of the last.
    fn length_ns(&self) -> u64 {
        let last_ns = self.recording.events.iter().map(|event| event.start_ns + event.run_ns).max();
        last_ns.unwrap_or_default() - self.first_ns()
    }

    /// The other core that an event came from: the core where its color ran before, else the core
    /// of the event that posted it.
    fn origin(&self, event: &RecordedEvent) -> Option<u32> {
        let poster = event.by.map(|by| self.recording.events[by as usize].core);
        event.moved_from.or(poster).filter(|&core| core != event.core)
    }

    /// The tables.
    pub fn to_text(&self) -> String {
        let header = &self.recording.header;
        let cut = match &self.cut {
            Some(cut) => format!("INCOMPLETE: {cut}; the events above that line are shown\n"),
            None => String::new(),
        };
        format!(
            "{cut}{} events in {}, policy {}, after {} that were not kept\n\n{}\n{}\n\
             foreign: events whose color ran on another core before, or that an event on another core posted; \
             run: the time of an event; wait: from posting to start.\n",
            thousands(self.recording.events.len() as u64),
            time(self.length_ns()),
            header.policy,
            thousands(header.lost),
            self.cores(),
            self.handlers()
        )
    }

    fn cores(&self) -> Table {
        let mut table = Table::new(&["core", "cpu", "busy", "events", "foreign"]);
        for (core, cpu) in self.recording.header.cpus.iter().enumerate() {
            let own = || self.recording.events.iter().filter(|event| event.core as usize == core);
            let busy_ns: u64 = own().map(|event| event.run_ns).sum();
            table.row([
                core.to_string(),
                cpu.to_string(),
                format!("{:.1} %", 100.0 * busy_ns as f64 / self.length_ns().max(1) as f64),
                thousands(own().count() as u64),
                thousands(own().filter(|event| self.origin(event).is_some()).count() as u64),
            ]);
        }
        table
    }

    fn handlers(&self) -> Table {
        let mut all: BTreeMap<&str, RecordedHandler> = BTreeMap::new();
        for event in &self.recording.events {
            let handler = all.entry(&event.handler).or_default();
            handler.run.add(event.run_ns);
            handler.wait.add(event.start_ns.saturating_sub(event.posted_ns));
            handler.foreign += u64::from(self.origin(event).is_some());
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|(_, handler)| std::cmp::Reverse(handler.run.mean_ns() * handler.run.count()));
        let mut table =
            Table::new(&["handler", "events", "foreign", "run p50", "p99", "max", "wait p50", "p99", "max"]);
        for (name, RecordedHandler { run, wait, foreign }) in all {
            let times = |times: &SimHistogram| {
                [times.permille_ns(500), times.permille_ns(990), times.max_ns()]
                    .map(|ns| cell(Some(ns), time))
            };
            let counts = [name.to_owned(), thousands(run.count()), thousands(foreign)];
            table.row(counts.into_iter().chain(times(&run)).chain(times(&wait)));
        }
        table
    }

    /// The events from `from_ns` behind the start of the first event, for `lasts_ns`, and the names
    /// of the handlers for a picture.
    pub fn timeline(&self, from_ns: u64, lasts_ns: u64) -> (Timeline, Vec<String>) {
        let from_ns = self.first_ns() + from_ns;
        let to_ns = from_ns + lasts_ns;
        let is_seen =
            |event: &&RecordedEvent| event.start_ns + event.run_ns >= from_ns && event.start_ns <= to_ns;
        let mut handlers: BTreeMap<&str, u64> = BTreeMap::new();
        for event in self.recording.events.iter().filter(is_seen) {
            *handlers.entry(&event.handler).or_default() += event.run_ns;
        }
        let mut handlers: Vec<(&str, u64)> = handlers.into_iter().collect();
        handlers.sort_by_key(|(_, run_ns)| std::cmp::Reverse(*run_ns));
        let places: BTreeMap<&str, usize> =
            handlers.iter().enumerate().map(|(at, (name, _))| (*name, at.min(SHOWN_MAX))).collect();
        let mut timeline = Timeline::new(self.recording.header.cpus.len(), from_ns, to_ns)
            .with_steal_name("from another core");
        for (at, event) in self.recording.events.iter().enumerate().filter(|(_, event)| is_seen(event)) {
            let handler = places[event.handler.as_str()] as u16;
            let doing = Doing::Handler { handler, color: event.color, event: at as u64 };
            timeline.ran(CoreIndex(event.core), event.start_ns, event.start_ns + event.run_ns, doing);
            if let Some(victim) = self.origin(event) {
                timeline.came(CoreIndex(event.core), event.start_ns, CoreIndex(victim));
            }
        }
        let named = handlers.iter().take(SHOWN_MAX).map(|(name, _)| short(name));
        let others = (handlers.len() > SHOWN_MAX).then(|| OTHERS.to_owned());
        (timeline, named.chain(others).collect())
    }
}

/// A name that fits into a picture: the end of its path.
fn short(name: &str) -> String {
    let path = name.strip_prefix("task ").unwrap_or(name);
    let mut parts = path.rsplit("::");
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if short.chars().count() + part.chars().count() + 2 > NAME_CHARS {
            break;
        }
        short = format!("{part}::{short}");
    }
    short
}
