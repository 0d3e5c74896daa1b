//! The load: `vermeil load`, with full or resumed handshakes, and the check of its record.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use vermeil_load::report::Record;

use super::TlsBench;
use super::servers::TlsServer;
use crate::load::steady::record_of;
use crate::load::vermeil_load;
use crate::{BenchError, BenchResult};

/// The least number of resumed handshakes for each full one in a run of resumed handshakes.
const RESUMED_EACH: u64 = 20;

/// Requests of a smoke run, because a short time may end before the first answer.
const REQUESTS_SMOKE: usize = 40;

/// The handshakes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshakes {
    /// One for each kept connection.
    Once,
    /// A full handshake for each request.
    Full,
    /// A resumed session for each request.
    Resumed,
}

/// How much load in a closed loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct TlsLoad {
    /// Name and size.
    pub(super) file: (&'static str, usize),
    pub(super) handshakes: Handshakes,
    pub(super) connections: usize,
    pub(super) duration: Duration,
}

impl TlsLoad {
    /// Loads the server at `address` from the client's cpu.
    ///
    /// # Errors
    /// The load cannot be run, or a request failed, or a handshake was not as asked for. Peers may
    /// answer tickets with full handshakes; Vermeil may not.
    pub(super) fn run(
        &self,
        bench: &TlsBench<'_>,
        server: TlsServer,
        address: SocketAddr,
    ) -> BenchResult<Record> {
        let mut command = vermeil_load(&bench.options.vermeil, bench.cpus.client);
        command.args(["-c", &self.connections.to_string()]);
        if bench.is_full() {
            command.args(["-d", &format!("{}ms", self.duration.as_millis())]);
        } else {
            command.args(["-n", &REQUESTS_SMOKE.to_string()]);
        }
        command.args(match self.handshakes {
            Handshakes::Once => &[][..],
            Handshakes::Full => &["--no-keepalive"],
            Handshakes::Resumed => &["--no-keepalive", "--resume"],
        });
        command.arg("--insecure").arg(url(address, self.file.0));
        let record = record_of(&mut command)?;
        let resumed_each = match (server, bench.is_full()) {
            (TlsServer::Vermeil, true) => RESUMED_EACH,
            (TlsServer::Vermeil, false) => 1,
            _ => 0,
        };
        self.check(&record, resumed_each).map_err(|problem| BenchError::form("vermeil load", problem))?;
        Ok(record)
    }

    /// The reason why the numbers would mean nothing.
    fn check(&self, record: &Record, resumed_each: u64) -> Result<(), String> {
        let (full, resumed) = record.handshakes;
        if record.good == 0 || record.failed > 0 {
            return Err(format!(
                "{} good answers, {} failed: {:?}",
                record.good, record.failed, record.faults
            ));
        }
        if record.content_bytes != record.good * self.file.1 as u64 {
            return Err(format!("{} bytes in {} answers", record.content_bytes, record.good));
        }
        let fits = match self.handshakes {
            Handshakes::Once => resumed == 0,
            Handshakes::Full => resumed == 0 && full >= record.good,
            // The first connections cannot resume, and a smoke run has few others.
            Handshakes::Resumed => full.saturating_mul(resumed_each) <= resumed,
        };
        if fits { Ok(()) } else { Err(format!("{full} full and {resumed} resumed handshakes")) }
    }
}

/// A request's address.
pub(super) fn url(address: SocketAddr, file: &str) -> String {
    format!("https://{address}/{file}")
}

/// How the kernel schedules clients that share cpus with the server. The change needs the right
/// `CAP_SYS_NICE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientPriority {
    /// At once (`SCHED_FIFO`): the measured times are the server's and not waits of the clients.
    Measured,
    /// Behind the others (`SCHED_IDLE`, with the weight 3 beside the server's 1024 for each
    /// thread). A niceness of 19 has the weight 15, so 64 such threads take half of a cpu.
    Leftover,
}

impl ClientPriority {
    /// The arguments of chrt(1).
    pub(super) fn arguments(self) -> [&'static str; 2] {
        match self {
            Self::Measured => ["--fifo", "1"],
            Self::Leftover => ["--idle", "0"],
        }
    }
}

/// A command of the load on `cpu`, with the record on standard output.
pub(super) fn load_with(bench: &TlsBench<'_>, cpu: usize, priority: ClientPriority) -> Command {
    let load = vermeil_load(&bench.options.vermeil, cpu);
    let mut command = Command::new("chrt");
    command.args(priority.arguments()).arg(load.get_program()).args(load.get_args()).arg("--insecure");
    command
}
