//! The load injector: simulates users with sessions, not only requests, and checks that its results
//! are trustworthy.
//!
//! The injector is the second application of the runtime. A user is a task on a private color, and
//! thousands of users share a core. A run takes a plan ([`SimplePlan`]) and returns an [`Outcome`].
//! Results of single requests are counted by kind ([`Fault`]) and never returned. The crate never
//! imports the server, because the injector must learn about HTTP from the wire only.

pub mod agents;
pub mod backend;
mod error;
mod fault;
pub mod files;
mod http2;
mod injector;
mod job;
mod limits;
mod link;
pub mod measure;
mod old_records;
pub mod pace;
mod plan;
mod preflight;
mod protocol;
mod quality;
mod random;
mod replay;
pub mod report;
mod run;
mod search;
pub mod session;
mod simple;
mod stream;
mod targets;
mod threshold;
mod tls_sessions;
mod tls_verify;
mod url;
mod verdict;
pub mod wire;

pub use error::LoadError;
pub use fault::Fault;
pub use injector::{LoadInjector, Unwatched};
pub use job::LoadJob;
pub use plan::{CommonOptions, LoadShare, Logged, Loop, Phases, SimplePlan, UNTIL_DONE};
pub use protocol::Protocol;
pub use quality::Quality;
pub use replay::{Replay, replay};
pub use run::{Interval, OpenWaits, Outcome, RunObserver, RunPhase, RunProgress};
pub use search::{SearchOptions, search};
pub use simple::run_simple;
pub use targets::{Set, SetChoice};
pub use threshold::{Threshold, ThresholdError};
pub use tls_verify::{TlsSessions, TlsVerify};
pub use url::{Scheme, Url, UrlError};
pub use verdict::{Gates, ValidityWarning};
