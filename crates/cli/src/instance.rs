//! `vermeil instance`: the supervisor starts this command once for each instance, followed by the
//! supervisor's own arguments. Not for people.
//!
//! Leaves out serving. Tested through the binary (`tests/e2e/instances.rs`).

use crate::{Cli, Command, Exit, print};
use clap::Args;
use std::ffi::OsString;
use std::iter::once;
use vermeil_server::Assigned;

/// Serve as an instance, for the supervisor at the other end of standard input.
#[derive(Debug, Args)]
pub(crate) struct InstanceArgs {
    /// The arguments of the supervisor
    ///
    /// Default: none.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl InstanceArgs {
    /// Serves until told to stop.
    pub(crate) fn run(self) -> Exit {
        let assigned = match Assigned::receive() {
            Ok(assigned) => assigned,
            Err(error) => {
                let words =
                    format!("only a supervisor starts instances ({error}); see `vermeil serve --instances`");
                return print::failure(&words, Exit::Usage);
            }
        };
        match crate::parse(once(OsString::from("vermeil")).chain(self.arguments)) {
            Ok(Cli { command: Command::Serve(args) }) => args.run_assigned(assigned),
            _ => print::failure(&"an instance only serves", Exit::Usage),
        }
    }
}
