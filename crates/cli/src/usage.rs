//! What is wrong with a command line that parses: the option, its value, and the cure.
//!
//! Leaves out what clap finds by itself. Tested in `serve/tests.rs` and `topo/tests.rs`, message by message.

use crate::Exit;
use crate::values::{Listen, Size};
use std::io;
use std::path::PathBuf;

/// Why a command line cannot be carried out on this machine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsageError {
    #[error(
        "--listen {listen}: the name cannot be resolved: {source}; write an address such as 127.0.0.1:8080"
    )]
    Name { listen: Listen, source: io::Error },
    #[error("--listen {listen}: the name has no address; write an address such as 127.0.0.1:8080")]
    NoAddress { listen: Listen },
    #[error("{inner} {inner_size}: more than {outer} {outer_size} allows; raise {outer} or lower {inner}")]
    Contradiction { inner: &'static str, inner_size: Size, outer: &'static str, outer_size: Size },
    #[error("--from {}: cannot read it: {source}; export a machine with `lstopo --of xml FILE.xml`", path.display())]
    MachineFile { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Machine(#[from] vermeil_topology::Error),
}

impl UsageError {
    /// Whether the command line is to blame or what it found.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Name { .. } | Self::NoAddress { .. } | Self::MachineFile { .. } => Exit::CannotStart,
            Self::Machine(vermeil_topology::Error::Sysfs { .. }) => Exit::CannotStart,
            Self::Contradiction { .. } | Self::Machine(_) => Exit::Usage,
        }
    }
}
