//! The settings of the server's parts: plain values with units, defaults and bounds.
//!
//! Knows none of the parts, so hosts, the configuration and every part can hold settings. The
//! configuration (`vermeil-config`) has the whole of them. Must never know the parts, read a
//! configuration file, or open anything.

mod balance;
mod balancers;
mod busy_poll;
mod cache_memory;
pub mod cgi;
pub mod compression;
mod control;
pub mod gateway;
mod move_policy;
pub mod php;
pub mod php_ini;
mod placement;
pub mod rights;
mod take_over;
pub mod tls;
mod user;

pub use balance::Balance;
pub use balancers::{BalancerOptions, LoadReport};
pub use busy_poll::BusyPoll;
pub use cache_memory::CacheMemory;
pub use control::ControlTarget;
pub use move_policy::MovePolicy;
pub use placement::RequestedPlacement;
pub use take_over::TakeOver;
pub use user::{Unfit, User};
