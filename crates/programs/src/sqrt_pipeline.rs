//! A pipeline that only computes: sixteen handlers, each taking 10,000 square roots of every event.
//!
//! The first benchmark of Genevès' thesis. Nothing is shared and nothing is large, so all
//! placements that use every core are alike. The program therefore measures the balance of work and
//! the cost of the runtime.

use crate::{
    OutcomeTally, ProgramOutcome,
    kernel::{square_roots, square_roots_cost},
    pipeline::Pipeline,
};
use std::sync::Arc;
use vermeil::Handle;

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct SqrtPipelineSize {
    /// Handlers in the row.
    #[arg(long, default_value_t = 16)]
    pub stages: usize,
    /// Square roots that each handler takes of each event.
    #[arg(long, default_value_t = 10_000)]
    pub roots: u32,
    /// Events that go through, all posted at the start.
    #[arg(long, default_value_t = 4_000)]
    pub events: u32,
}

/// Runs the program.
///
/// # Panics
/// When a core has no room for the events.
pub fn run(handle: &Handle, size: SqrtPipelineSize) -> ProgramOutcome {
    let tally = Arc::new(OutcomeTally::new(size.events.into()));
    let work = move |_, number: &mut f64| *number = square_roots(size.roots, *number);
    let end = {
        let tally = tally.clone();
        move |_: &Pipeline<f64>, number: f64| tally.add(number.to_bits())
    };
    let pipeline = Pipeline::new(handle, "roots", size.stages, square_roots_cost(size.roots), work, end);
    for event in 0..size.events {
        pipeline.start(first(event)).expect("fewer events than a core's bound");
    }
    tally.wait(u64::from(size.events) * size.stages as u64)
}

fn first(event: u32) -> f64 {
    f64::from(event) + 0.5
}

/// The checksum of a run, computed by the calling thread alone.
pub fn checksum(size: SqrtPipelineSize) -> u64 {
    let one = |event| (0..size.stages).fold(first(event), |number, _| square_roots(size.roots, number));
    (0..size.events).map(|event| one(event).to_bits()).fold(0, u64::wrapping_add)
}
