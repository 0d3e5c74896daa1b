//! Values on the command line and in the configuration: times, sizes, addresses to listen on.
//!
//! Each type reads its own output, so users can copy a default from a help text. Each type refuses
//! values that would be rounded.

mod listen;
mod mode;
mod place;
mod size;
mod span;

pub use listen::{Listen, ListenSyntaxError};
pub use mode::{FileMode, FileModeError};
pub use place::{PhpPlace, PhpPlaceError};
pub use size::{Size, SizeError, between as size_between};
pub use span::{Span, SpanError};

/// Splits `2.5m` into `2.5` and `m`.
fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()))
}
