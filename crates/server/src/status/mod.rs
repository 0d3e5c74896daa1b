//! What a server is doing, has done and holds: for people and for programs.
//!
//! Reading order: [`Status`] (what there is to know), `collect` (from whom), `text` (for people). Every core is asked by
//! message and given a second; one that does not answer is shown as that. Whoever adds a part of the server adds a record
//! here and fills it in `collect`. The page `docs/status.md` is generated from the records. Tested through the binary
//! (`crates/cli/tests/e2e/status.rs`).

mod collect;
mod imbalance;
mod process;
mod records;
mod text;

pub(crate) use collect::collect;
pub(crate) use imbalance::imbalance;
pub(crate) use process::core_times;
pub use records::{
    CacheStatus, CgiStatus, CoreStatus, HostsStatus, InstanceStatus, LogStatus, MemoryStatus, NoticeStatus,
    PhpStatus, Status, reference_page,
};
pub(crate) use text::cores_in_words;

pub(crate) use collect::{Answered, Life, Sources};

impl Status {
    /// As JSON, on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("records are JSON") + "\n"
    }
}
