//! Collects the status of a server.
//!
//! The server asks every core by message and waits for one second. The status marks a core that
//! does not answer. A new part of the server adds a record in `crates/ops/src/status/records.rs`
//! and fills the record in `collect`. Tested through the binary
//! (`crates/cli/tests/e2e/status.rs`).

mod collect;
mod shown_hosts;

pub(crate) use collect::{CoreAnswers, Sources, StatusLife, collect};
