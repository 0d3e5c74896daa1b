//! The status of a server, for people and for programs.
//!
//! Reading order: [`ServerStatus`] (the values), `collect` (their sources), `text` (the form for
//! people), `metrics` (the form for monitors). The server asks every core by message and waits for
//! one second. The status marks a core that does not answer. A new part of the server adds a record
//! here and fills it in `collect`. The page `docs/status.md` is generated from the records. Tested
//! through the binary
//! (`crates/cli/tests/e2e/status.rs`).

mod collect;
mod imbalance;
mod metrics;
mod process;
mod records;
mod shown_hosts;
mod text;

pub(crate) use collect::collect;
pub(crate) use imbalance::imbalance;
pub(crate) use process::core_times;
pub use records::{
    AnswersStatus, CacheStatus, CgiStatus, CoreStatus, DurationCount, HostAnswers, HostsStatus,
    InstanceStatus, LogStatus, MemoryStatus, NoticeStatus, PhpStatus, ServerStatus, StatusCount,
    reference_page,
};
pub(crate) use text::cores_in_words;

pub(crate) use collect::{CoreAnswers, Sources, StatusLife};

impl ServerStatus {
    /// The status as JSON, on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("records are JSON") + "\n"
    }
}
