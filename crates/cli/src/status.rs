//! `vermeil status`: the present work of a running server.
//!
//! Leaves out the query and the output format, which belong to the server crate. Tested through the
//! binary (`tests/e2e/status.rs`).

use crate::{Exit, print};
use clap::{Args, ValueHint};
use std::path::PathBuf;
use vermeil_ops::control_client::{StatusForm, ask_status};

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &[
    "vermeil status",
    "vermeil status --json",
    "vermeil status --metrics",
    "vermeil status --control /run/vermeil/web.sock",
];

/// Show the state of a running server: cores and their load, connections, requests, caches, memory,
/// logs, pools.
///
/// The query uses the server's control socket, which only the user that started the server and the
/// superuser can open. The command takes a fifth of a second, because the load of the cores is
/// measured for that time.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES))]
pub(crate) struct StatusArgs {
    /// The server's control socket
    ///
    /// Default: the socket of the only server that this user runs here.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    control: Option<PathBuf>,

    /// Write JSON
    ///
    /// The fields are in docs/status.md. Default: text for people.
    #[arg(long)]
    json: bool,

    /// Write metrics, in the OpenMetrics text format
    ///
    /// The metrics are in docs/metrics.md. Default: text for people.
    #[arg(long, conflicts_with = "json")]
    metrics: bool,
}

impl StatusArgs {
    /// Sends the query.
    pub(crate) fn run(self) -> Exit {
        let form = match self {
            Self { json: true, .. } => StatusForm::Json,
            Self { metrics: true, .. } => StatusForm::Metrics,
            Self { .. } => StatusForm::Text,
        };
        match ask_status(self.control.as_deref(), form) {
            Ok(status) => print::result(&status),
            Err(error) => print::failure(&error, Exit::CannotStart),
        }
    }
}
