//! Results: one record, and the formats that are printed from the record.
//!
//! The record (JSON) is stored. Text, tables and pages are made from the record, so that a result
//! from last month or another machine can stand beside a new result.

mod html;
mod plot;
mod record;
mod tables;
mod text;

pub use crate::{
    quality::QualityResult,
    search::{SearchResult, TrialResult},
};
pub use html::html;
#[cfg(test)]
pub(crate) use record::tests::sample;
pub use record::{CourseInterval, InjectorRecord, Judged, Quantiles, Record, RecordPart, RecordSubject};
pub use tables::{csv, open_metrics};
pub use text::summary;
