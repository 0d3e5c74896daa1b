//! When requests, users and sessions begin: think times and arrivals.
//!
//! *Closed*: so many users, each waits for its answer, then thinks (Schroeder, Wierman, Harchol-Balter, "Open Versus
//! Closed", NSDI 2006). *Open*: requests arrive when they arrive. *Partly open*: sessions arrive, each is closed inside.

mod arrivals;
mod think;

pub use arrivals::{Arrivals, ArrivalsError, Schedule, Step};
pub(crate) use think::time;
pub use think::{Think, ThinkError};
