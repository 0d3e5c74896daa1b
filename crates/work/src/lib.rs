//! Long work that must not hold up requests, as events that any core may run.
//!
//! [`any_core`] runs steps on idle cores, [`compress`] compresses contents in such steps and keeps
//! the results. Handshakes of TLS are such steps too, and belong to the server. Must never know
//! requests or connections.

pub mod any_core;
pub mod compress;
