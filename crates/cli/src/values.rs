//! Parsers of clap for values; the types belong to the server, because the configuration has the
//! same values.

pub(crate) use vermeil_config::values::{Listen, PhpPlace, Size, Span, size_between};

use vermeil_topology::{CoreSelection, TopologyError};

/// Reads `--cores`; the message leaves out the option, which clap names already.
pub(crate) fn parse_cores(text: &str) -> Result<CoreSelection, String> {
    text.parse().map_err(|error| match error {
        TopologyError::Cores { problem, .. } => problem,
        other => other.to_string(),
    })
}
