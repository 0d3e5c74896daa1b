//! What was recorded of a run: which event ran when and where, and which one had posted it.
//!
//! Owns the form in which a runtime writes a recording and a simulator reads it: lines of JSON, a header and then one
//! line for each event, in the order of their starts. Leaves out where the events come from (the runtime's rings) and what
//! is made of them. The page `docs/runtime.md` describes the form for people. Tested in `recording/tests.rs`.

use std::{collections::HashMap, fmt::Write as _};

use serde::{Deserialize, Serialize};

use crate::Error;

#[cfg(test)]
mod tests;

/// The version of the form that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// What it is a recording of.
    pub header: Header,
    /// In the order of their starts.
    pub events: Vec<Recorded>,
}

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of the form, [`VERSION`].
    pub recording: u32,
    /// The policy that moved colors, by name.
    pub policy: String,
    /// The cpu of each core, by core index.
    pub cpus: Vec<u32>,
    /// Events that ran and are not in the recording, because later ones took their place.
    pub lost: u64,
}

/// One event that ran: a line of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The handler's name; polls of tasks are `task` and the function that the task's future comes from.
    pub handler: String,
    /// The color's number: events with the same one never overlapped.
    pub color: u64,
    /// Index of the core it ran on.
    pub core: u32,
    /// When it was posted, in nanoseconds since a moment that all times of a recording share.
    pub posted_ns: u64,
    /// When it began to run.
    pub start_ns: u64,
    /// How long it ran.
    pub run_ns: u64,
    /// The event that posted it, as a position in the recording, counted from 0 without the header. None for what came
    /// from outside (a socket, a timer, a thread that is no core) and where the poster is not in the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<u32>,
    /// Index of the core its color ran on before, if that was another: it was stolen from there, or moved by a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<u32>,
}

/// Names an event while a recording is put together: the core it ran on and its number there.
pub type EventName = (u32, u32);

impl Recording {
    /// Puts a recording together from each event's name, its poster's name and itself, in any order: sorts by start, and
    /// settles [`Recorded::by`]. A poster that is not among them, or did not start before what it posted, is none.
    pub fn assemble(header: Header, mut events: Vec<(EventName, Option<EventName>, Recorded)>) -> Self {
        events.sort_by_key(|(name, _, event)| (event.start_ns, *name));
        let names = events.iter().enumerate().map(|(at, (name, ..))| (*name, at as u32));
        let places: HashMap<EventName, u32> = names.collect();
        let placed = events.into_iter().enumerate().map(|(at, (_, poster, event))| {
            let by = poster.and_then(|poster| places.get(&poster).copied());
            Recorded { by: by.filter(|by| (*by as usize) < at), ..event }
        });
        Self { header, events: placed.collect() }
    }

    /// The recording as text.
    pub fn to_text(&self) -> String {
        let json = |line: Result<String, serde_json::Error>| line.expect("numbers and names are JSON");
        let mut text = json(serde_json::to_string(&self.header)) + "\n";
        for event in &self.events {
            let _infallible = writeln!(text, "{}", json(serde_json::to_string(event)));
        }
        text
    }

    /// Reads what [`to_text`](Self::to_text) wrote. Empty lines are passed over.
    ///
    /// # Errors
    /// [`Error::Recording`] when a line is not as described, an event starts before the one above it, or a poster does not
    /// stand above what it posted.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let wrong = |line: usize, problem: String| Error::Recording { line: line + 1, problem };
        let (first, header) = lines.next().ok_or_else(|| wrong(0, "there is no header".to_owned()))?;
        let header: Header =
            serde_json::from_str(header).map_err(|error| wrong(first, format!("the header: {error}")))?;
        if header.recording != VERSION {
            let problem = format!("version {} is not known, only {VERSION}", header.recording);
            return Err(wrong(first, problem));
        }
        let mut events: Vec<Recorded> = Vec::new();
        for (at, line) in lines {
            let event: Recorded = serde_json::from_str(line).map_err(|error| wrong(at, error.to_string()))?;
            event.check(&header, &events).map_err(|problem| wrong(at, problem.to_owned()))?;
            events.push(event);
        }
        Ok(Self { header, events })
    }
}

impl Recorded {
    /// Whether it may stand under the events `above` it.
    fn check(&self, header: &Header, above: &[Self]) -> Result<(), &'static str> {
        let is_core = |core: u32| (core as usize) < header.cpus.len();
        if !is_core(self.core) || !self.moved_from.is_none_or(is_core) {
            return Err("there is no such core in the header");
        }
        if above.last().is_some_and(|last| last.start_ns > self.start_ns) {
            return Err("starts before the event above it");
        }
        if self.by.is_some_and(|by| by as usize >= above.len()) {
            return Err("was posted by an event that does not stand above it");
        }
        Ok(())
    }
}
