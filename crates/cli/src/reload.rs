//! `vermeil reload`: makes a running server read its configuration again.
//!
//! Leaves out the reload itself, which belongs to the server crate. Tested through the binary
//! (`tests/e2e/status.rs`).

use crate::{Exit, print};
use clap::{Args, ValueHint};
use std::path::PathBuf;
use vermeil_server::control::{Reloaded, ask_reload};

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &["vermeil reload", "vermeil reload --control /run/vermeil/web.sock"];

/// Have a server that runs read its configuration again.
///
/// The new configuration is built aside. If anything in it is wrong it is refused, said here and by the server, and the old
/// one stays; else it takes its place, and no connection is closed for it. SIGHUP does the same.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES))]
pub(crate) struct ReloadArgs {
    /// The server's control socket
    ///
    /// Default: that of the only server of this user that runs here.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    control: Option<PathBuf>,
}

impl ReloadArgs {
    /// Asks.
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
