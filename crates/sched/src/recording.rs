//! The form of a recording: the events that ran, their cores and times, and the events that posted
//! them.
//!
//! A runtime writes a recording and a simulator reads the recording: lines of JSON, a header and
//! then one line for each event, in the order of start times. Leaves out the source of the events
//! (the runtime's rings) and the use of the recording. The page `docs/runtime.md` describes the
//! form for people. Tested in `recording/tests.rs`.

use std::{collections::HashMap, fmt::Write as _};

use serde::{Deserialize, Serialize};

use crate::SchedError;

#[cfg(test)]
mod tests;

/// The version of the form. Only this version is written and read.
pub const VERSION: u32 = 1;

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The origin of the recording.
    pub header: RecordingHeader,
    /// In the order of start times.
    pub events: Vec<RecordedEvent>,
}

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordingHeader {
    /// The version of the form, [`VERSION`].
    pub recording: u32,
    /// The policy that moved colors, by name.
    pub policy: String,
    /// The cpu of each core, by core index.
    pub cpus: Vec<u32>,
    /// Events that ran and are not in the recording, because later events overwrote them.
    pub lost: u64,
}

/// An event that ran: a line of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedEvent {
    /// The handler's name; polls of tasks are `task` and the function that the task's future comes
    /// from.
    pub handler: String,
    /// The color's number: events with the same number never overlapped.
    pub color: u64,
    /// Index of the core on which the event ran.
    pub core: u32,
    /// The time of posting, in nanoseconds since an origin that all times of a recording share.
    pub posted_ns: u64,
    /// The start of the run.
    pub start_ns: u64,
    /// The duration of the run.
    pub run_ns: u64,
    /// The event that posted this event, as a position in the recording, counted from 0 without the
    /// header. None for external events (from a socket, a timer, a thread that is no core) and if
    /// the poster is not in the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<u32>,
    /// Index of the core on which the color ran before, if that was another core: the color was
    /// stolen, or moved by a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<u32>,
}

/// Names an event while a recording is assembled: the event's core and number there.
pub type EventName = (u32, u32);

impl Recording {
    /// Assembles a recording from the name of each event, the name of its poster and its data, in
    /// any order: sorts by start, and resolves [`RecordedEvent::by`]. A poster that is missing, or
    /// did not start earlier, becomes none.
    pub fn assemble(
        header: RecordingHeader,
        mut events: Vec<(EventName, Option<EventName>, RecordedEvent)>,
    ) -> Self {
        events.sort_by_key(|(name, _, event)| (event.start_ns, *name));
        let names = events.iter().enumerate().map(|(at, (name, ..))| (*name, at as u32));
        let places: HashMap<EventName, u32> = names.collect();
        let placed = events.into_iter().enumerate().map(|(at, (_, poster, event))| {
            let by = poster.and_then(|poster| places.get(&poster).copied());
            RecordedEvent { by: by.filter(|by| (*by as usize) < at), ..event }
        });
        Self { header, events: placed.collect() }
    }

    /// Both recordings in one: the cores of `other` follow the own cores. The times of both must
    /// have the same origin, as those of all runtimes of a process have.
    pub fn beside(self, other: Self) -> Self {
        let (cores, colors) = (self.header.cpus.len() as u32, self.events.iter().map(|event| event.color));
        let first_color = colors.max().map_or(0, |color| color + 1);
        let header = RecordingHeader {
            cpus: self.header.cpus.iter().chain(&other.header.cpus).copied().collect(),
            lost: self.header.lost + other.header.lost,
            ..self.header
        };
        let of_other = other.events.into_iter().map(|event| RecordedEvent {
            core: event.core + cores,
            color: event.color + first_color,
            moved_from: event.moved_from.map(|core| core + cores),
            ..event
        });
        let named = |recording: u32, (at, event): (u32, RecordedEvent)| {
            ((recording, at), event.by.map(|by| (recording, by)), event)
        };
        let own = (0..).zip(self.events).map(|event| named(0, event));
        Self::assemble(header, own.chain((0..).zip(of_other).map(|event| named(1, event))).collect())
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

    /// Reads the output of [`to_text`](Self::to_text). Empty lines are skipped.
    ///
    /// # Errors
    /// [`SchedError::Recording`] when a line is malformed, an event starts before the previous
    /// event, or a poster is not above its event.
    pub fn parse(text: &str) -> Result<Self, SchedError> {
        let (recording, cut) = Self::parse_until_cut(text)?;
        cut.map_or(Ok(recording), Err)
    }

    /// Reads a recording whose last line may be cut off, as a full disk or a copy in progress
    /// leaves behind. Returns the events above that line, and the error in the line.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), for every line that ends.
    pub fn parse_until_cut(text: &str) -> Result<(Self, Option<SchedError>), SchedError> {
        let end = text.as_bytes().as_ptr_range().end;
        let is_cut = |line: &str| line.as_bytes().as_ptr_range().end == end;
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let wrong = |line: usize, problem: String| SchedError::Recording { line: line + 1, problem };
        let (first, header) = lines.next().ok_or_else(|| wrong(0, "there is no header".to_owned()))?;
        let header: RecordingHeader = serde_json::from_str(header)
            .map_err(|error| wrong(first, format!("the header: {}", cause(&error))))?;
        if header.recording != VERSION {
            let problem = format!("version {} is not known, only {VERSION}", header.recording);
            return Err(wrong(first, problem));
        }
        let mut events: Vec<RecordedEvent> = Vec::new();
        for (at, line) in lines {
            let event = match serde_json::from_str::<RecordedEvent>(line) {
                Ok(event) => event,
                Err(error) if error.is_eof() && is_cut(line) => {
                    return Ok((Self { header, events }, Some(wrong(at, cause(&error)))));
                }
                Err(error) => return Err(wrong(at, cause(&error))),
            };
            event.check(&header, &events).map_err(|problem| wrong(at, problem.to_owned()))?;
            events.push(event);
        }
        Ok((Self { header, events }, None))
    }
}

/// The cause of an error in a line, without the line of the parser, which is always the first.
fn cause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((cause, _)) => format!("{cause} at column {}", error.column()),
        None => text,
    }
}

impl RecordedEvent {
    /// Whether the event may follow the events `above`.
    fn check(&self, header: &RecordingHeader, above: &[Self]) -> Result<(), &'static str> {
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
