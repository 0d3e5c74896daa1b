//! A recorded run of the real runtime, for a replay on another machine.
//!
//! In a replay, an event from outside comes at the recorded time. An event that another event
//! posted comes when that event has run, however long the run takes in the replay. Colors are made
//! in the order of their numbers, which is the recorded order. Owns the index. The format is
//! [`vermeil_sched::recording`]'s. Leaves out the recorded cores of events. Tested in
//! `workload/tests.rs`.

use vermeil_sched::{ClassIndex, recording::Recording};

use super::compile::{Coloring, CompiledProgram, SimHandler};
use super::ranges;
use crate::SimError;

/// A recorded run, indexed.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub(crate) events: Vec<TraceEvent>,
    /// Children of each event: `children[first[i]..first[i + 1]]`.
    first: Vec<u32>,
    children: Vec<u32>,
    pub(crate) colors: u32,
    /// By handler, the mean time of the handler's events, in place of an author's annotation.
    mean_ns: Vec<u64>,
}

/// One event of a [`Trace`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceEvent {
    pub(crate) handler: u16,
    pub(crate) color: u32,
    pub(crate) posted_ns: u64,
    pub(crate) run_ns: u64,
    pub(crate) is_root: bool,
}

impl Trace {
    /// The events that this event posted.
    pub(crate) fn children(&self, event: u32) -> &[u32] {
        let (from, to) = (self.first[event as usize], self.first[event as usize + 1]);
        &self.children[from as usize..to as usize]
    }

    /// The mean time of a handler's events.
    pub(crate) fn mean_ns(&self, handler: usize) -> u64 {
        self.mean_ns[handler]
    }
}

impl CompiledProgram {
    /// A program that replays a recording. `working_set_bytes`: bytes that each event of a color
    /// touches, because recordings do not contain touches; 0 for none.
    ///
    /// # Errors
    /// The text is not a recording, or the recording is empty.
    pub fn from_trace(name: &str, text: &str, working_set_bytes: u64) -> Result<Self, SimError> {
        let recording = Recording::parse(text)?;
        if recording.events.is_empty() {
            return Err(SimError::Empty);
        }
        Self::from_recording(name, &recording, working_set_bytes)
    }

    /// As [`CompiledProgram::from_trace`], for a parsed recording.
    ///
    /// # Errors
    /// The recording has more handlers than a program, or the working set is above 4 GiB.
    pub fn from_recording(
        name: &str,
        recording: &Recording,
        working_set_bytes: u64,
    ) -> Result<Self, SimError> {
        ranges::check_recording(name, recording, working_set_bytes)?;
        Ok(Self::replay(name, recording, working_set_bytes))
    }

    fn replay(name: &str, recording: &Recording, working_set_bytes: u64) -> Self {
        let events = &recording.events;
        let mut handlers: Vec<&str> = Vec::new();
        let mut colors: Vec<u64> = events.iter().map(|event| event.color).collect();
        colors.sort_unstable();
        colors.dedup();
        let mut trace = Trace { colors: colors.len() as u32, ..Trace::default() };
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut kids: Vec<Vec<u32>> = vec![Vec::new(); events.len()];
        // The replay begins with the first event, because a server's recording may start long
        // before.
        let first_ns = events.iter().map(|event| event.posted_ns).min().unwrap_or(0);
        for (index, event) in events.iter().enumerate() {
            let handler = handlers.iter().position(|&known| known == event.handler).unwrap_or_else(|| {
                handlers.push(&event.handler);
                runs.push((0, 0));
                handlers.len() - 1
            });
            runs[handler] = (runs[handler].0 + 1, runs[handler].1 + event.run_ns);
            let color = colors.partition_point(|&number| number < event.color) as u32;
            if let Some(by) = event.by {
                kids[by as usize].push(index as u32);
            }
            let (posted_ns, is_root) = (event.posted_ns - first_ns, event.by.is_none());
            trace.events.push(TraceEvent {
                handler: handler as u16,
                color,
                posted_ns,
                run_ns: event.run_ns,
                is_root,
            });
        }
        trace.mean_ns = runs.into_iter().map(|(count, sum_ns)| sum_ns / count.max(1)).collect();
        for list in kids {
            trace.first.push(trace.children.len() as u32);
            trace.children.extend(list);
        }
        trace.first.push(trace.children.len() as u32);
        let lost = match recording.header.lost {
            0 => String::new(),
            lost => format!("; {lost} more are not in the recording"),
        };
        let handler = |name: &&str| recorded_handler(name, working_set_bytes);
        Self {
            name: name.to_owned(),
            about: format!("{} recorded events of {} colors{lost}", events.len(), colors.len()),
            run_ns: 0,
            warm_up_ns: 0,
            objects: super::compile::trace_objects(trace.colors, working_set_bytes),
            handlers: handlers.iter().map(handler).collect(),
            classes: Vec::new(),
            sources: Vec::new(),
            shifts: Vec::new(),
            trace: Some(trace),
        }
    }
}

fn recorded_handler(name: &str, working_set_bytes: u64) -> SimHandler {
    SimHandler {
        name: name.to_owned(),
        cycles: 0,
        spread_percent: 0,
        tail_permille: 0,
        tail_times: 1,
        code_bytes: 0,
        coloring: Coloring::Trace,
        follows: None,
        class: ClassIndex::default(),
        gather: None,
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
