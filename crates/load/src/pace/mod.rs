//! The start times of requests, users and sessions: think times and arrivals.
//!
//! *Closed*: a fixed number of users. Each user waits for the answer, thinks, and sends the next
//! request (Schroeder, Wierman, Harchol-Balter, "Open Versus Closed", NSDI 2006). *Open*: requests
//! arrive independently of answers. *Partly open*: sessions arrive independently, and each session
//! is a closed loop. Tested in `arrivals` and `think`.

mod arrivals;
mod think;

pub use arrivals::{ArrivalStep, Arrivals, ArrivalsError, Schedule};
pub(crate) use think::parse_time;
pub use think::{Think, ThinkError};
