//! The parts of access control that know no requests: files of users, checks of passwords, rates.
//!
//! `htpasswd` reads the files, `passwords` remembers right passwords for a while and bounds the
//! checks, `rate` counts requests per client in bounded memory. Leaves out which host and route has
//! which rules (`hosts/guard.rs`) and the answers to refused requests (`answer/gate.rs`). Tested
//! beside each file.

mod htpasswd;
mod passwords;
mod rate;

pub use htpasswd::{HtpasswdError, UserFile, UsersError};
pub use passwords::{PasswordCheck, Passwords};
pub use rate::{BUCKETS, RateKey, RateLimit};
pub use rate::{RateDecision, RateTable};
