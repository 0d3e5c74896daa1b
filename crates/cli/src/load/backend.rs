//! `vermeil load backend`: answers the dynamic pages of the support site.

use super::LoadIo;
use crate::values::parse_cores;
use crate::{Exit, print};
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::net::SocketAddr;
use vermeil_load::{
    backend::{Backend, BackendOptions},
    pace::Think,
};
use vermeil_topology::CoreSelection;

/// Be the back end of dynamic pages, until SIGTERM or SIGINT.
///
/// Answers GET /COMMAND?NAME=VALUE with a line "0 ok" and records that depend only on command and
/// arguments. The back end must never limit a run, so give the back end a cpu that neither server
/// nor injector uses.
#[derive(Debug, Args)]
pub(super) struct BackendArgs {
    /// The address to listen on; port 0 takes any free port
    #[arg(long, short, value_name = "ADDR:PORT", default_value = "127.0.0.1:8089")]
    listen: SocketAddr,

    /// The cpus to run on: all, a number, or a list
    #[arg(long, value_name = "LIST|N|all", default_value_t = CoreSelection::Count(1), value_parser = parse_cores)]
    cores: CoreSelection,

    /// The kernel interface for input and output
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    io: LoadIo,

    /// The delay of every answer: 2ms, exp:2ms, uniform:1ms:3ms, lognormal:2ms:1
    #[arg(long, value_name = "TIMES", default_value = "0")]
    delay: Think,
}

impl BackendArgs {
    /// Answers until told to stop.
    pub(super) fn run(self) -> Exit {
        let chosen = vermeil_config::Surroundings::here()
            .and_then(|around| self.cores.resolve(&around.machine, &around.allowed));
        let cpus = match chosen {
            Ok(cpus) => cpus.into_iter().map(|cpu| cpu.0 as usize).collect(),
            Err(error) => return print::failure(&error, Exit::Usage),
        };
        let options =
            BackendOptions { addr: self.listen, cpus, io: self.io.choice(), delay: self.delay, seed: 1 };
        let mut signals = match Signals::new([SIGINT, SIGTERM]) {
            Ok(signals) => signals,
            Err(error) => return print::failure(&error, Exit::CannotStart),
        };
        let backend = match Backend::start(&options) {
            Ok(backend) => backend,
            Err(error) => return print::failure(&error, Exit::CannotStart),
        };
        // The port is optional information for the caller, so a failed write is ignored.
        let _unread = writeln!(std::io::stderr(), "vermeil: back end at {}", backend.addr());
        signals.forever().next();
        let answers = backend.answers();
        backend.stop();
        print::result(&format!("{answers} answers\n"))
    }
}
