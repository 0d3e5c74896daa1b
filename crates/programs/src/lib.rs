//! Programs on the runtime: what its examples run and its bench measures.
//!
//! Each is a real program in one file, written as a user of the runtime would write it, on the public API of `vermeil`
//! alone. The examples (`crates/runtime/examples`) give each a command line; `vermeil-bench` runs them under every policy
//! and gives their work ([`kernel`]) to other runtimes. Each says how many events it ran, how long they took and a
//! checksum of what they made, which is the same under every policy, on every number of cores and on every runtime.
//!
//! Never knows how it is measured.

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

pub use outcome::{Outcome, Tally};

/// The page about the runtime, whose code must run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/runtime.md")]
pub struct Page;
