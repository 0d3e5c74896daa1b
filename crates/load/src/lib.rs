//! The load injector: users, not just requests, and an answer that can be trusted.
//!
//! It is the runtime's second application: a user is a task on a color of its own, thousands of them share a core. A run is
//! a plan ([`SimplePlan`]) and ends in an [`Outcome`]; what happens to single requests is counted by kind ([`Fault`]), never
//! returned. Never imports the server: what it finds out about HTTP it finds out on the wire.

pub mod agents;
pub mod backend;
mod before;
mod error;
mod fault;
pub mod files;
mod http2;
mod job;
mod limits;
mod link;
pub mod measure;
pub mod pace;
mod plan;
mod quality;
mod random;
mod replay;
pub mod report;
mod run;
mod search;
pub mod session;
mod sets;
mod simple;
mod stream;
mod threshold;
mod trust;
mod url;
mod verdict;
pub mod wire;

pub use error::LoadError;
pub use fault::Fault;
pub use job::{Injector, Job, Unwatched};
pub use plan::{Ground, Logged, Loop, Phases, Protocol, Share, SimplePlan, UNTIL_DONE};
pub use quality::Quality;
pub use replay::{Replay, replay};
pub use run::{Interval, Outcome, Phase, Progress, Watch};
pub use search::{SearchOptions, search};
pub use sets::{Choice, Set};
pub use simple::run_simple;
pub use threshold::{Threshold, ThresholdError};
pub use trust::Trust;
pub use url::{Scheme, Url, UrlError};
pub use verdict::{Doubt, Gates};
