//! The parts of access control that know no requests: files of users, checks of passwords, rates,
//! counts.
//!
//! `htpasswd` reads the files, `passwords` remembers right passwords for a while and bounds the
//! checks, `rate` counts requests per client in bounded memory, `keyed_counts` counts what goes on
//! at the same time. Leaves out which host and route has which rules (`hosts/guard.rs`) and the
//! answers to refused requests (`answer/gate.rs`). Tested beside each file.

mod htpasswd;
mod keyed_counts;
mod passwords;
mod rate;

pub use htpasswd::{HtpasswdError, UserFile, UsersError};
pub use keyed_counts::{KeyedCount, KeyedCounts};
pub use passwords::{PasswordCheck, Passwords};
pub use rate::{BUCKETS, ClientKey, ProgressLimit, RateLimit};
pub use rate::{RateDecision, RateTable};
