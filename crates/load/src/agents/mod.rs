//! Several injectors make one load: agents on other machines, and the coordinator that divides the work and adds up.
//!
//! The protocol is lines of JSON over TCP, one `Message` (`wire.rs`) each, described in docs/load.md. An agent does one job after the
//! other, as long as its coordinator is there. What agents count travels as it is counted, interval by interval, histograms
//! as HdrHistogram's compressed V2 form: adding up loses nothing, and what an agent had counted before it was lost is
//! kept. Tested in `tests/agents`, with agents in network namespaces.

mod agent;
mod fleet;
mod merge;
mod wire;

pub use agent::{AgentOptions, Coordinators, serve};
pub use fleet::Fleet;
