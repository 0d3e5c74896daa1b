//! The options of the access log.
//!
//! Leaves out which host has which log (`hosts/`).

use super::format::{LogFormat, LogFormats};
use super::rotation::Rotation;
use super::target::LogTarget;
use std::path::Path;

/// Log files of hosts that are open at once, by default: half of the descriptors that a process has
/// without a raised limit (1024) stay free.
pub const HOST_FILES_OPEN_MAX: usize = 256;

/// The log of a host that differs from the common log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLog<'t> {
    /// Nothing is recorded.
    Off,
    /// A file, with at most [`FILE_BYTES_MAX`](super::FILE_BYTES_MAX) bytes of path.
    File(&'t Path),
}

/// The options of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The log of all requests that no host records.
    pub target: LogTarget,
    /// The form of the lines.
    pub format: LogFormats,
    /// The rotation of all files of logs.
    pub rotation: Option<Rotation>,
    /// Whether a host has a log of its own.
    pub hosts_have_files: bool,
    /// Log files of hosts that are open at once, if the limit of descriptors allows
    /// ([`host_files_open_max_within`](Self::host_files_open_max_within)).
    pub host_files_open_max: usize,
}

impl LogOptions {
    /// Standard output in the combined format.
    pub fn new(target: LogTarget) -> Self {
        Self { target, ..Self::default() }
    }

    /// The file of the common log.
    pub fn file(&self) -> Option<&Path> {
        match &self.target {
            LogTarget::File(path) => Some(path),
            LogTarget::Off | LogTarget::Stdout | LogTarget::Syslog(_) | LogTarget::Journald(_) => None,
        }
    }

    /// Log files of hosts that are open at once in a process with a limit of `descriptors`: a
    /// quarter of the limit at most, because connections and files need the rest.
    pub fn host_files_open_max_within(&self, descriptors: u64) -> usize {
        self.host_files_open_max.min(usize::try_from(descriptors / 4).unwrap_or(usize::MAX))
    }
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            target: LogTarget::Stdout,
            format: LogFormats { common: LogFormat::Combined, of_hosts: LogFormat::Combined },
            rotation: None,
            hosts_have_files: false,
            host_files_open_max: HOST_FILES_OPEN_MAX,
        }
    }
}
