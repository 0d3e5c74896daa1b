//! Users with sessions: pages and transitions, embedded objects, think times, paced downloads.
//!
//! `model` is the data, `chain` solves the chain, `builtin` has the shipped models, `toml` reads a
//! model from a file. `user` runs one session after the other, `visit` fetches a page over the
//! user's connections, `check` checks the answers.

mod builtin;
mod chain;
mod check;
mod discover;
mod model;
mod run;
mod template;
mod toml;
mod user;
mod visit;

pub use builtin::Builtin;
pub use discover::manifest;
pub use model::{Check, Embedded, Judge, KeepAlive, Model, ModelError, Page, PageSource};
pub(crate) use run::prepare_sessions;
pub use run::{SessionLoop, SessionPlan, run_sessions};
pub use template::PathTemplate;
