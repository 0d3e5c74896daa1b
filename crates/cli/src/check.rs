//! `vermeil check`: reads a configuration and prints the resulting settings, or all errors.
//!
//! Leaves out reading the configuration (`crates/config`) and finding errors (`crates/check`).
//! Tested through the binary (`tests/e2e/config.rs`).

use crate::usage::UsageError;
use crate::{Exit, print};
use clap::{Args, ValueHint};
use std::path::PathBuf;
use vermeil_check::ServePlan;
use vermeil_config::Surroundings;
use vermeil_ops::privileges;

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &[
    "vermeil check",
    "vermeil check /etc/vermeil/vermeil.toml",
    "vermeil check --explain http://example.org/blog/2026/hello",
];

/// Read a configuration and show its settings, or all its errors.
///
/// Changes nothing, and binds each address only for a moment. Standard error has each error with
/// file, line, column, key and cure. This includes errors that would keep a server from starting on
/// this machine if this user started the server. Possible and future problems are reported there
/// as warnings, not as errors.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES))]
pub(crate) struct CheckArgs {
    /// The configuration file
    ///
    /// The same as --config FILE. Default: the value of --config.
    #[arg(value_name = "FILE", conflicts_with = "config", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// The configuration file
    #[arg(long, short, value_name = "FILE", default_value = vermeil_config::FILE_NAME, value_hint = ValueHint::FilePath)]
    config: PathBuf,

    /// Say which host, route and file a GET request for this URL gets, and why
    ///
    /// The request has no fields beside the host, and its client is unknown. A path instead of a
    /// URL asks the default host. Default: the configuration is checked only.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    explain: Option<String>,

    /// Print the JSON Schema of the configuration
    ///
    /// Editors complete and check keys with the schema: write it to a file, and name that file in
    /// the first line of the configuration, as `#:schema vermeil.schema.json`. Default: no schema.
    #[arg(long, conflicts_with_all = ["file", "config", "explain"])]
    schema: bool,
}

impl CheckArgs {
    /// Checks.
    pub(crate) fn run(self) -> Exit {
        if self.schema {
            return print::result(vermeil_config::json_schema().trim_end());
        }
        let file = self.file.unwrap_or(self.config);
        let around = Surroundings::here().map_err(UsageError::from);
        let (options, places) =
            match around.and_then(|around| Ok(vermeil_config::load_with_places(&file, &around)?)) {
                Ok(loaded) => loaded,
                Err(error) => return print::failure(&error, error.exit()),
            };
        if let Some(url) = &self.explain {
            return match vermeil_check::explain(&options, url) {
                Ok(lines) => print::result(&lines),
                Err(error) => print::failure(&error, Exit::Usage),
            };
        }
        let plan = ServePlan::new(&options).with_places(&places);
        let of_superuser = privileges::superuser_warning(&options).map(str::to_owned);
        for warning in plan.warnings().into_iter().chain(of_superuser) {
            print::failure(&format_args!("warning: {warning}"), Exit::Clean);
        }
        let refusals = plan.refusals();
        if !refusals.is_empty() {
            for refusal in refusals {
                print::failure(&refusal, Exit::CannotStart);
            }
            return Exit::CannotStart;
        }
        print::result(&format!("{}: fine\n{plan}", file.display()))
    }
}
