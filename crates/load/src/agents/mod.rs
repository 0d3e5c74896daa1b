//! Several injectors make one load: agents on other machines, and a coordinator that divides the
//! work and merges results.
//!
//! The protocol is lines of JSON over TCP, one `Message` (`wire.rs`) each, described in
//! docs/load.md. An agent runs the coordinator's jobs one after the other until the coordinator
//! disconnects. Agents report counts after each interval, with histograms as HdrHistogram's
//! compressed V2 form. Therefore merging loses nothing, and the counts of a lost agent are kept.
//! Tested in `tests/agents`, with agents in network namespaces.

mod agent;
mod fleet;
mod merge;
mod wire;

pub use agent::{AgentOptions, Coordinators, serve};
pub use fleet::Fleet;
