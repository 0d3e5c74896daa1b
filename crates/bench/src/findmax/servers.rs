//! The servers of the search, on one cpu with their PHP.

use super::CHILDREN;
use crate::Result;
use crate::machine::Cpus;
use crate::network::{Network, Spread};
use crate::options::Options;
use crate::peers::fpm::{self, FPM};
use crate::peers::process::Process;
use crate::peers::{Pool, Setting, nginx, vermeil};
use crate::site::Site;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Vermeil with its PHP pool.
    Vermeil,
    /// nginx with php-fpm.
    Nginx,
}

/// A running server with all its processes.
pub(super) struct Running {
    pub(super) url: String,
    /// In the order of stopping.
    processes: Vec<Process>,
}

impl Running {
    pub(super) fn stop(self) -> Result<()> {
        self.processes.into_iter().try_for_each(Process::stop)
    }
}

impl Server {
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

    pub(super) fn start(self, options: &Options, site: &Site, cpus: Cpus) -> Result<Running> {
        let (network, address) = (&Network::Loopback, Network::Loopback.free_address()?);
        let (root, state) = (site.root(), site.state_folder(self.name())?);
        let setting = Setting { network, address, cpu: cpus.server, root: &root, state: &state };
        let processes = match self {
            Self::Vermeil => {
                let mut command = vermeil::command(setting, &options.vermeil, vermeil::Io::Epoll);
                command.args(["--php", "--php-children", &CHILDREN.to_string()]);
                // The same queue length as the other server's pool.
                command.args(["--php-queue", &fpm::QUEUE.to_string()]);
                vec![Process::start(self.name(), command, &state)?]
            }
            Self::Nginx => {
                let pool = site.state_folder("php-fpm")?;
                let fpm = fpm::start(network, cpus.server, &pool, CHILDREN)?;
                let socket = fpm::socket(&pool);
                let pool = Pool { socket: &socket, children: CHILDREN, spread: Spread::OneCpu };
                let nginx = nginx::php_command(setting, pool, 0)?;
                vec![Process::start(self.name(), nginx, &state)?, fpm]
            }
        };
        processes[0].wait_until_listening(network, address)?;
        Ok(Running { url: format!("http://{address}/"), processes })
    }
}
