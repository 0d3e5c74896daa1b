//! Results: one record that everything is printed from, and its forms.
//!
//! The record is what is kept (JSON); text, tables and pages are made of it, so that a result from last month, or from
//! another machine, can be shown beside a new one.

mod html;
mod plot;
mod record;
mod tables;
mod text;

pub use html::html;
#[cfg(test)]
pub(crate) use record::tests::sample;
pub use record::{
    Course, Injector, Judged, Part, QualityResult, Quantiles, Record, SearchResult, Subject, TrialResult,
};
pub use tables::{csv, open_metrics};
pub use text::summary;
