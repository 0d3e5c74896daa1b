//! A recorded run of the real runtime, to be run again on another machine.
//!
//! One event per line, as a JSON object: `{"handler":"read","color":17,"start_ns":1200,"run_ns":3400,"by":5}`. `by` is the
//! line (from 0) of the event that posted this one, left out for what came from outside. Events stand in the order of
//! their starts. In a replay, what came from outside comes when it started; what was posted comes when its poster has run,
//! however long that takes there. Owns the format. Tested in `workload/tests.rs`.

use serde::{Deserialize, Serialize};

use super::compile::{Coloring, Handler, Program};
use crate::Error;

/// One recorded event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceEvent {
    /// The handler's name.
    pub handler: String,
    /// The color's number.
    pub color: u64,
    /// When it started, in nanoseconds from the start of the recording.
    pub start_ns: u64,
    /// How long it ran.
    pub run_ns: u64,
    /// The line of the event that posted it, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<u32>,
}

/// A recorded run, indexed.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub(crate) events: Vec<Recorded>,
    /// Children of each event: `children[first[i]..first[i + 1]]`.
    first: Vec<u32>,
    children: Vec<u32>,
    pub(crate) colors: u32,
}

/// One event of a [`Trace`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    pub(crate) handler: u16,
    pub(crate) color: u32,
    pub(crate) start_ns: u64,
    pub(crate) run_ns: u64,
    pub(crate) is_root: bool,
}

impl Trace {
    /// The events that this one posted.
    pub(crate) fn children(&self, event: u32) -> &[u32] {
        let (from, to) = (self.first[event as usize], self.first[event as usize + 1]);
        &self.children[from as usize..to as usize]
    }
}

impl Program {
    /// A program that does what a recording did. `working_set_bytes`: what each color is taken to touch in every event,
    /// since recordings do not tell; 0 for nothing.
    ///
    /// # Errors
    /// A line is not as described, or a poster comes after what it posted.
    pub fn from_trace(name: &str, text: &str, working_set_bytes: u64) -> Result<Self, Error> {
        let mut events = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let event: TraceEvent = serde_json::from_str(line)
                .map_err(|error| Error::Trace { line: index + 1, problem: error.to_string() })?;
            if event.by.is_some_and(|by| by as usize >= events.len()) {
                let problem = "was posted by an event that comes later; sort by start".to_owned();
                return Err(Error::Trace { line: index + 1, problem });
            }
            events.push(event);
        }
        if events.is_empty() {
            return Err(Error::Trace { line: 1, problem: "the recording is empty".to_owned() });
        }
        Ok(Self::of_events(name, &events, working_set_bytes))
    }

    fn of_events(name: &str, events: &[TraceEvent], working_set_bytes: u64) -> Self {
        let mut handlers: Vec<&str> = Vec::new();
        let mut colors = std::collections::BTreeMap::new();
        let mut trace = Trace::default();
        let mut kids: Vec<Vec<u32>> = vec![Vec::new(); events.len()];
        for (index, event) in events.iter().enumerate() {
            let handler = handlers.iter().position(|&known| known == event.handler).unwrap_or_else(|| {
                handlers.push(&event.handler);
                handlers.len() - 1
            });
            let count = colors.len() as u32;
            let color = *colors.entry(event.color).or_insert(count);
            if let Some(by) = event.by {
                kids[by as usize].push(index as u32);
            }
            let (start_ns, run_ns, is_root) = (event.start_ns, event.run_ns, event.by.is_none());
            trace.events.push(Recorded { handler: handler as u16, color, start_ns, run_ns, is_root });
        }
        trace.colors = colors.len() as u32;
        for list in kids {
            trace.first.push(trace.children.len() as u32);
            trace.children.extend(list);
        }
        trace.first.push(trace.children.len() as u32);
        let handler = |name: &&str| recorded_handler(name, working_set_bytes);
        Self {
            name: name.to_owned(),
            about: format!("{} recorded events of {} colors", events.len(), colors.len()),
            run_ns: 0,
            warm_up_ns: 0,
            objects: super::compile::trace_objects(trace.colors, working_set_bytes),
            handlers: handlers.iter().map(handler).collect(),
            sources: Vec::new(),
            shifts: Vec::new(),
            trace: Some(trace),
        }
    }
}

fn recorded_handler(name: &str, working_set_bytes: u64) -> Handler {
    Handler {
        name: name.to_owned(),
        cycles: 0,
        spread_percent: 0,
        tail_permille: 0,
        tail_times: 1,
        code_bytes: 0,
        coloring: Coloring::Trace,
        placed_whole: false,
        touches: super::compile::trace_touches(working_set_bytes),
        next: Vec::new(),
        weights: 0,
        also: Vec::new(),
        reply: false,
        annotated_cycles: 0,
        annotated_penalty: 1,
        polls: None,
    }
}
