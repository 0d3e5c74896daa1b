//! The status of a server, for people and for programs.
//!
//! Reading order: [`ServerStatus`] (the values), `text` (the form for people), `metrics` (the form
//! for monitors). The server collects the values (`crates/server/src/status.rs`). The page
//! `docs/status.md` is generated from the records. Tested through the binary
//! (`crates/e2e/tests/e2e/status.rs`).

mod imbalance;
mod metrics;
pub mod process;
pub mod records;
mod text;

pub use imbalance::imbalance;
pub use records::{
    AnswersStatus, CacheStatus, CgiStatus, CoreStatus, DurationCount, HostAnswers, HostsStatus,
    InstanceStatus, LogStatus, MemoryStatus, NoticeStatus, PhpStatus, ServerStatus, StatusCount,
    reference_page,
};
pub use text::cores_in_words;

impl ServerStatus {
    /// The status as JSON, on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("records are JSON") + "\n"
    }
}
