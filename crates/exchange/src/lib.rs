//! One request and its answer, as terms.
//!
//! Connections, answers and programs share these terms, so none of them needs to import another.
//! [`AnswerHead`] has the parts of a request that decide the head of its answer, [`Sent`] the part
//! of the answer that the log records, and [`Lost`] the reason for an early end. [`CoreHeadParts`]
//! has the fields of a head that a core makes. [`DurationCounts`] counts how long answers took.
//! Must never know a connection or choose an answer.

mod core_heads;
mod durations;
mod terms;

pub use core_heads::{CoreClock, CoreHeadParts};
pub use durations::{DurationCounts, ProgramTimes, nanoseconds};
pub use terms::{
    AnswerHead, COPY_BYTES_MAX, ClientCheck, ContentStep, Lost, PassedCheck, PassedChecks, PasswordUse,
    RequestName, Sent, StrictTransport, Visitor,
};
