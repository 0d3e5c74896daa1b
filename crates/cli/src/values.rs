//! Values that people write on the command line: times, sizes, addresses to listen on.
//!
//! Each reads what it prints, so that a default in a help text can be copied, and refuses what it would have to round.

mod listen;
mod size;
mod span;

pub(crate) use listen::Listen;
pub(crate) use size::{Size, between as size_between};
pub(crate) use span::Span;

use vermeil_topology::{CoreSelection, Error};

/// Reads `--cores`; the message leaves out the option, which clap names already.
pub(crate) fn parse_cores(text: &str) -> Result<CoreSelection, String> {
    text.parse().map_err(|error| match error {
        Error::Cores { problem, .. } => problem,
        other => other.to_string(),
    })
}

/// Splits `2.5m` into `2.5` and `m`.
fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()))
}
