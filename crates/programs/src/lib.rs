//! Programs on the runtime: run by the examples and measured by the bench.
//!
//! Each is a real program in one file, in the style of a user of the runtime, on the public API of
//! `vermeil` alone. The examples (`crates/runtime/examples`) give each program a command line.
//! `vermeil-bench` runs the programs under every policy and gives their work ([`kernel`]) to other
//! runtimes. Each program reports the number of events, the time and a checksum of the results. The
//! checksum is the same under every policy, on every number of cores and on every runtime.
//!
//! Never knows the measurement.

pub mod encrypting_server;
pub mod image_pipeline;
pub mod image_server;
pub mod keyed_stream;
pub mod mixed_jobs;
pub mod sqrt_pipeline;
pub mod web_handlers;

pub mod kernel;
pub mod net;
pub mod pipeline;

pub mod cli;
pub mod record;

mod outcome;

#[cfg(test)]
mod tests;

pub use outcome::{OutcomeTally, ProgramOutcome};

/// The page about the runtime, whose code must run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/runtime.md")]
pub struct DocPage;

/// The page about writing a server, whose code must run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/write-a-server.md")]
pub struct ServerPage;
