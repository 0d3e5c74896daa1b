//! The servers of the search, on one cpu with their PHP.

use super::CHILDREN;
use crate::BenchResult;
use crate::machine::BenchCpus;
use crate::network::{BenchNetwork, Spread};
use crate::options::BenchOptions;
use crate::peers::fpm::{self, FPM};
use crate::peers::process::PeerProcess;
use crate::peers::{FastcgiPool, PeerSetting, nginx, vermeil};
use crate::site::BenchSite;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindmaxServer {
    /// Vermeil with its PHP pool.
    Vermeil,
    /// nginx with php-fpm.
    Nginx,
}

/// A running server with all its processes.
pub(super) struct FindmaxRunning {
    pub(super) url: String,
    /// In the order of stopping.
    processes: Vec<PeerProcess>,
}

impl FindmaxRunning {
    pub(super) fn stop(self) -> BenchResult<()> {
        self.processes.into_iter().try_for_each(PeerProcess::stop)
    }
}

impl FindmaxServer {
    /// Every server, in the order of the tables.
    pub const ALL: [Self; 2] = [Self::Vermeil, Self::Nginx];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vermeil => "vermeil-php",
            Self::Nginx => "nginx-php-fpm",
        }
    }

    /// Required programs and their Debian packages.
    pub(super) fn needs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Vermeil => &[FPM],
            Self::Nginx => &[("nginx", "nginx"), FPM],
        }
    }

    pub(super) fn start(
        self,
        options: &BenchOptions,
        site: &BenchSite,
        cpus: BenchCpus,
    ) -> BenchResult<FindmaxRunning> {
        let (network, address) = (&BenchNetwork::Loopback, BenchNetwork::Loopback.free_address()?);
        let (root, state) = (site.root(), site.state_folder(self.name())?);
        let setting = PeerSetting { network, address, cpu: cpus.server, root: &root, state: &state };
        let processes = match self {
            Self::Vermeil => {
                let mut command = vermeil::command(setting, &options.vermeil, vermeil::VermeilIo::Epoll);
                command.args(["--php", "--php-children", &CHILDREN.to_string()]);
                // The same queue length as the other server's pool.
                command.args(["--php-queue", &fpm::QUEUE.to_string()]);
                vec![PeerProcess::start(self.name(), command, &state)?]
            }
            Self::Nginx => {
                let pool = site.state_folder("php-fpm")?;
                let fpm = fpm::start(network, cpus.server, &pool, CHILDREN)?;
                let socket = fpm::socket(&pool);
                let pool = FastcgiPool { socket: &socket, children: CHILDREN, spread: Spread::OneCpu };
                let nginx = nginx::php_command(setting, pool, 0)?;
                vec![PeerProcess::start(self.name(), nginx, &state)?, fpm]
            }
        };
        processes[0].wait_until_listening(network, address)?;
        Ok(FindmaxRunning { url: format!("http://{address}/"), processes })
    }
}
