//! Answers that wait: for a file, a folder, a program, or the client.
//!
//! Start with [`answer`], which takes a deferred answer from event to event, until the client has
//! the answer. `deferred` has the events, `calls` the requests for programs, and `try_files` and
//! `alias` the look-ups of other paths.
//!
//! [`vermeil_answer`] chooses each answer, and [`vermeil_connection`] sends it. This crate must
//! never accept a connection, or know the loop over requests.

mod alias;
mod calls;
mod deferred;
mod try_files;

pub use deferred::answer;
