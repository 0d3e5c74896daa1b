//! Users with sessions: pages and the ways between them, embedded objects, think times, paced downloads.
//!
//! `model` is the table, `chain` solves it, `builtin` has those that are shipped, `toml` reads one's own; `user` lives one
//! session after the other, `visit` fetches a page over the user's connections, `check` looks at what comes.

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
pub use model::{Check, Embedded, Judge, KeepAlive, Model, ModelError, Page, Source};
pub(crate) use run::check_sessions;
pub use run::{SessionLoop, SessionPlan, run_sessions};
pub use template::Template;
