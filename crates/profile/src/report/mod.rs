//! Reports of one recording: text, JSON, folded stacks, pprof, Firefox profiler, one HTML file.
//!
//! Each form is a pure function of a profile, so that tests compare text.

mod callers;
mod colors;
mod counters;
mod firefox;
mod flame;
mod folded;
mod html;
mod json;
mod pprof;
mod ratios;
mod text;
mod waiting;

pub(crate) use callers::program;
pub use callers::{Callers, callers_of};
pub use counters::{CounterRate, csv, rates};
pub use firefox::firefox;
#[cfg(test)]
pub(crate) use flame::tests as flame_tests;
pub(crate) use flame::{FlameNode, SCRIPT as FLAME_SCRIPT, STYLE as FLAME_STYLE};
pub use folded::folded;
pub use html::html;
pub(crate) use html::{STYLE as PAGE_STYLE, escaped};
pub use json::json;
pub use pprof::pprof;
pub use ratios::{CounterRatio, RatioForm, ratios};
pub(crate) use ratios::{IPC, NOT_COUNTED, PATH};
pub use text::{TextOptions, text};
