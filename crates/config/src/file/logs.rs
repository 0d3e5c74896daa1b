//! The options that the keys of log files result in, and the logs of hosts.
//!
//! Leaves out the keys `log` and `log_format` of the server (`keys.rs`). Tested through the binary
//! (`crates/e2e/tests/e2e/log_rotation.rs`, `host_logs.rs`).

use super::{
    keys::Document,
    log_files_table::LogFilesTable,
    problems::Problems,
    read::{At, narrow},
};
use std::{
    collections::HashSet,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::Duration,
};
use vermeil_log::{
    FILE_BYTES_MAX, HostLog, LogFormat, LogFormats, LogOptions, LogTarget, ROTATION_GAP, Rotation,
};
use vermeil_routing::hosts::{HostId, Hosts, HostsBuilder};

/// The common log, and the options of all log files.
pub(super) fn options(
    document: &Document,
    folder: &Path,
    hosts: Option<&Hosts>,
    problems: &mut Problems,
) -> LogOptions {
    let target = match &document.log {
        LogTarget::File(path) => LogTarget::File(folder.join(path)),
        other => other.clone(),
    };
    let hosts_have_files = hosts.is_some_and(|hosts| hosts.log_files().next().is_some());
    let rotation = rotation(&document.log_files.value, problems);
    let options = LogOptions {
        target,
        format: LogFormats {
            common: document.log_format.clone().unwrap_or_else(|| default_format(hosts)),
            of_hosts: document.log_format.clone().unwrap_or_default(),
        },
        rotation,
        hosts_have_files,
        host_files_open_max: narrow(document.log_files.value.open_max),
    };
    if rotation.is_some() && hosts.is_some() && options.file().is_none() && !hosts_have_files {
        let what = format!(
            "no log is a file, because log = \"{}\"; name a file, or leave the rotation out",
            options.target
        );
        problems.push(&document.log_files.at, "log_files", what);
    }
    options
}

fn default_format(hosts: Option<&Hosts>) -> LogFormat {
    match hosts {
        Some(hosts) if hosts.iter().len() > 1 => LogFormat::VhostCombined,
        _ => LogFormat::Combined,
    }
}

fn rotation(table: &LogFilesTable, problems: &mut Problems) -> Option<Rotation> {
    let LogFilesTable { rotate_bytes, rotate_every, kept, .. } = table;
    if let Some(At { value, at }) = rotate_every
        && Duration::from(*value) < ROTATION_GAP
    {
        let what = format!("{value} is too short, because a file is rotated every 2s at most");
        problems.push(at, "log_files.rotate_every", what);
    }
    if rotate_bytes.is_none() && rotate_every.is_none() {
        if !kept.at.is_empty() {
            let what = "nothing is rotated; write rotate_bytes or rotate_every too";
            problems.push(&kept.at, "log_files.kept", what);
        }
        return None;
    }
    Some(Rotation {
        bytes: rotate_bytes.map(|size| size.bytes),
        every: rotate_every.as_ref().map(|every| every.value.into()),
        kept: u32::try_from(kept.value).expect("bounded"),
    })
}

/// The logs of hosts, taken one by one.
#[derive(Default)]
pub(super) struct HostLogKeys {
    /// The file of each log, with the place of the first mention.
    files: Vec<At<PathBuf>>,
}

impl HostLogKeys {
    /// Takes the log of a host.
    pub(super) fn add(
        &mut self,
        id: HostId,
        log: Option<&At<LogTarget>>,
        folder: &Path,
        builder: &mut HostsBuilder,
        problems: &mut Problems,
    ) {
        let Some(At { value, at }) = log else { return };
        match value {
            LogTarget::Off => builder.set_log(id, HostLog::Off),
            LogTarget::File(path) => {
                let path = folder.join(path);
                if path.as_os_str().len() > FILE_BYTES_MAX {
                    let what = format!("a path of more than {FILE_BYTES_MAX} bytes; choose a shorter one");
                    problems.push(at, "host.log", what);
                }
                builder.set_log(id, HostLog::File(&path));
                self.files.push(At { value: path, at: at.clone() });
            }
            LogTarget::Stdout | LogTarget::Syslog(_) | LogTarget::Journald(_) => {
                let what = format!(
                    "\"{value}\": the log of a host is a file, or \"off\"; leave the key out for the log of the server"
                );
                problems.push(at, "host.log", what);
            }
        }
    }

    /// Refuses names of rotated files, because a rotation would mix two logs.
    pub(super) fn refuse_rotated_names(self, options: &LogOptions, problems: &mut Problems) {
        let Some(rotation) = options.rotation else { return };
        let logs: HashSet<&Path> = self.files.iter().map(|file| &*file.value).chain(options.file()).collect();
        for At { value, at } in &self.files {
            let Some((log, number)) = rotated_name(value) else { continue };
            if number <= rotation.kept && logs.contains(&*log) {
                let what = format!(
                    "{} is the name of a rotated file of {}; choose another name",
                    value.display(),
                    log.display()
                );
                problems.push(at, "host.log", what);
            }
        }
    }
}

/// The log and the number of a path such as `access.log.1`.
fn rotated_name(path: &Path) -> Option<(PathBuf, u32)> {
    let name = path.file_name()?.as_bytes();
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    let number = std::str::from_utf8(&name[dot + 1..]).ok()?.parse().ok()?;
    Some((path.with_file_name(std::ffi::OsStr::from_bytes(&name[..dot])), number))
}
