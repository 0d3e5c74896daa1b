//! `vermeil load agent`: makes the part of the load that a coordinator assigns.

use super::LoadIo;
use crate::values::parse_cores;
use crate::{Exit, print};
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use vermeil_load::agents::{AgentOptions, Coordinators, serve};
use vermeil_topology::CoreSelection;

/// Make a part of the load of `vermeil load --agents`, until SIGTERM or SIGINT.
///
/// Waits for a coordinator, starts at the coordinator's command, and reports the counts. An agent
/// serves one coordinator at a time. Every process that can reach LISTEN can make this machine load
/// any server, so listen at an address that only the coordinator can reach.
#[derive(Debug, Args)]
pub(super) struct AgentArgs {
    /// The address for the coordinator; port 0 takes any free port
    #[arg(long, short, value_name = "ADDR:PORT", default_value = "127.0.0.1:8088")]
    listen: SocketAddr,

    /// The cpus to run on: all, a number, or a list
    #[arg(long, value_name = "LIST|N|all", default_value_t = CoreSelection::All, value_parser = parse_cores)]
    cores: CoreSelection,

    /// The kernel interface for input and output
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    io: LoadIo,

    /// End when the first coordinator is done or lost, for example in a cluster job
    ///
    /// Default: the agent waits for the next coordinator.
    #[arg(long)]
    once: bool,
}

impl AgentArgs {
    /// Runs the commands of coordinators.
    pub(super) fn run(self) -> Exit {
        let chosen = vermeil_config::Surroundings::here()
            .and_then(|around| self.cores.resolve(&around.machine, &around.allowed));
        let cpus = match chosen {
            Ok(cpus) => cpus.into_iter().map(|cpu| cpu.0 as usize).collect(),
            Err(error) => return print::failure(&error, Exit::Usage),
        };
        let coordinators = if self.once { Coordinators::One } else { Coordinators::Any };
        let options = AgentOptions { cpus, io: self.io.choice(), coordinators };
        let bound =
            TcpListener::bind(self.listen).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (addr, listener) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                return print::failure(&format!("--listen {}: {error}", self.listen), Exit::CannotStart);
            }
        };
        // The first process of a container has no default for signals: without handlers the kernel
        // would ignore the signals.
        match Signals::new([SIGINT, SIGTERM]) {
            Ok(mut signals) => drop(std::thread::spawn(move || {
                signals.forever().next();
                std::process::exit(i32::from(Exit::Clean as u8))
            })),
            Err(error) => return print::failure(&error, Exit::CannotStart),
        }
        let tell = |line: &str| {
            // The message is optional information for the caller, so a failed write is ignored.
            let _unread = writeln!(std::io::stderr(), "vermeil: {line}");
        };
        tell(&format!("load agent at {addr}"));
        match serve(&listener, &options, tell) {
            Ok(()) => Exit::Clean,
            Err(error) => print::failure(&error, Exit::CannotStart),
        }
    }
}
