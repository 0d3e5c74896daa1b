//! How clap reads values that people write; the values themselves are the server's, since the configuration has them too.

pub(crate) use vermeil_server::config::values::{Listen, Size, Span, size_between};

use vermeil_topology::{CoreSelection, Error};

/// Reads `--cores`; the message leaves out the option, which clap names already.
pub(crate) fn parse_cores(text: &str) -> Result<CoreSelection, String> {
    text.parse().map_err(|error| match error {
        Error::Cores { problem, .. } => problem,
        other => other.to_string(),
    })
}
