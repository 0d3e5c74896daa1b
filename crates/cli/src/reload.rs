//! `vermeil reload`: makes a running server read its configuration again.
//!
//! Leaves out the reload itself, which belongs to the server crate. Tested through the binary
//! (`tests/e2e/status.rs`).

use crate::{Exit, print};
use clap::{Args, ValueHint};
use std::path::PathBuf;
use vermeil_ops::control_client::{Reloaded, ask_reload};

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &["vermeil reload", "vermeil reload --control /run/vermeil/web.sock"];

/// Make a running server read its configuration again.
///
/// The server builds the new configuration beside the old configuration. If the new configuration
/// has an error, the server keeps the old configuration, and both this command and the server
/// report the error. Otherwise the new configuration replaces the old, and no connection is closed.
/// SIGHUP has the same effect.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES))]
pub(crate) struct ReloadArgs {
    /// The server's control socket
    ///
    /// Default: the socket of the only server that this user runs here.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    control: Option<PathBuf>,
}

impl ReloadArgs {
    /// Sends the request.
    pub(crate) fn run(self) -> Exit {
        match ask_reload(self.control.as_deref()) {
            Ok(Reloaded::Taken(said)) => print::result(&(said + "\n")),
            Ok(Reloaded::Refused(why)) => {
                print::failure(&format_args!("refused, and the old configuration stays:\n{why}"), Exit::Usage)
            }
            Err(error) => print::failure(&error, Exit::CannotStart),
        }
    }
}
