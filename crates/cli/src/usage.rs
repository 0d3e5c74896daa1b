//! Errors in a command line that parses: the option, its value, and the cure.
//!
//! Leaves out errors that clap itself finds. Tested in `serve/tests.rs` and `topo/tests.rs`,
//! message by message.

use crate::Exit;
use crate::values::{Listen, Size};
use std::io;
use std::path::PathBuf;
use vermeil_config::{AddressError, ConfigError};
use vermeil_settings::{Unfit, cgi::UserError};

/// Why a command line cannot be carried out on this machine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("--listen {listen}: {source}")]
    Address { listen: Listen, source: AddressError },
    #[error("--listen-tls {listen}: {source}")]
    TlsAddress { listen: Listen, source: AddressError },
    #[error("--listen-tls {listen}: another listener has this address; choose another for HTTPS")]
    TlsAddressTaken { listen: Listen },
    #[error(
        "--tls-key: there are {certificates} certificates and {keys} keys; give a key for each certificate, in the same order"
    )]
    TlsKeys { certificates: usize, keys: usize },
    #[error("--agent {listen}: {source}")]
    Agent { listen: Listen, source: AddressError },
    #[error("--php: {source}")]
    Php { source: AddressError },
    #[error("{inner} {inner_size}: more than {outer} {outer_size} allows; raise {outer} or lower {inner}")]
    Contradiction { inner: &'static str, inner_size: Size, outer: &'static str, outer_size: Size },
    #[error("--from {}: cannot read it: {source}; export a machine with `lstopo --of xml FILE.xml`", path.display())]
    MachineFile { path: PathBuf, source: io::Error },
    #[error("--cgi-user: {0}")]
    CgiUser(#[source] UserError),
    #[error("{option}: {why}")]
    Superuser { option: &'static str, why: Unfit },
    #[error("--trace: records one instance and there are {instances}; add --instances one")]
    TraceOfSeveral { instances: usize },
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Machine(#[from] vermeil_topology::TopologyError),
}

impl UsageError {
    /// The exit code: an error of the command line, or a missing resource.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Address { .. }
            | Self::TlsAddress { .. }
            | Self::Agent { .. }
            | Self::Php { .. }
            | Self::MachineFile { .. } => Exit::CannotStart,
            Self::Machine(vermeil_topology::TopologyError::Sysfs { .. }) => Exit::CannotStart,
            Self::Config(error) if error.is_unreadable() => Exit::CannotStart,
            Self::CgiUser(_)
            | Self::Superuser { .. }
            | Self::TlsAddressTaken { .. }
            | Self::TlsKeys { .. }
            | Self::Config(_)
            | Self::Contradiction { .. }
            | Self::Machine(_)
            | Self::TraceOfSeveral { .. } => Exit::Usage,
        }
    }
}
