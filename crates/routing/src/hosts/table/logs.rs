//! The access logs of hosts.
//!
//! A host has the common log, no log, or a file. Leaves out the writing (`vermeil-log`). Tested
//! through the binary (`crates/e2e/tests/e2e/host_logs.rs`).

use super::{HostId, Hosts, HostsBuilder, HostsText};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};
use vermeil_log::HostLog;

/// The log of a host.
#[derive(Clone, Copy, Debug)]
pub(super) enum RecordedLog {
    Common,
    Off,
    File(HostsText),
}

impl Hosts {
    /// Whether a host has a log of its own, or none.
    #[inline]
    pub fn have_logs(&self) -> bool {
        self.needs.logs
    }

    /// The log of a host; `None` for the common log.
    #[inline]
    pub fn log(&self, id: HostId) -> Option<HostLog<'_>> {
        match self.hosts[id.0 as usize].log {
            RecordedLog::Common => None,
            RecordedLog::Off => Some(HostLog::Off),
            RecordedLog::File(path) => Some(HostLog::File(Path::new(OsStr::from_bytes(self.bytes(path))))),
        }
    }

    /// The log files of hosts. Two hosts may have the same file.
    pub fn log_files(&self) -> impl Iterator<Item = &Path> {
        let hosts = self.iter().take(if self.have_logs() { usize::MAX } else { 0 });
        hosts.filter_map(|id| match self.log(id) {
            Some(HostLog::File(path)) => Some(path),
            Some(HostLog::Off) | None => None,
        })
    }
}

impl HostsBuilder {
    /// Gives `host` a log of its own, or none.
    pub fn set_log(&mut self, host: HostId, log: HostLog<'_>) {
        self.hosts.needs.logs = true;
        self.hosts.hosts[host.index()].log = match log {
            HostLog::Off => RecordedLog::Off,
            HostLog::File(path) => RecordedLog::File(self.store(path.as_os_str().as_bytes())),
        };
    }
}
