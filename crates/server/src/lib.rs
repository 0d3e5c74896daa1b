//! The web server: start, cores, accepting, the loop over requests.
//!
//! Start with [`serve()`]. The path of a request is `accept` → `request_loop` →
//! [`vermeil_answer`] (representation, conditions, ranges) → [`vermeil_files`] (finds the path)
//! → back. [`vermeil_connection`] receives and sends. An answer that has to wait goes through
//! [`vermeil_deferred`]. The state of a core, and the state that all cores share, is in
//! [`vermeil_state`]. This crate must never schedule, because the runtime does.
//!
//! Programs answer in [`vermeil_gateway`], over a trait that a connection implements. The modules
//! form layers, and no two modules import each other: `serve` knows all. With several
//! instances, [`vermeil_instances`] has the supervisor.

mod accept;
mod admission;
mod cores;

#[cfg(feature = "fuzz")]
pub mod fuzz;
mod handshake;
mod idle_cores;
mod kept_page;
mod measuring;
mod obeying;
mod reload;
mod request_loop;
mod serve;
mod stall_rescue;
mod status;
mod trace;

pub use serve::{ServeError, serve, serve_assigned, supervise};
pub use vermeil::IoChoice;
pub use vermeil_instances::{Assigned, InstanceProgram};
pub use vermeil_ops::opening::ServerEnded;
pub use vermeil_ops::privileges::PrivilegeError;
