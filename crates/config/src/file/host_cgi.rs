//! From the tables `[host.cgi]` to the user and the bounds of the programs of a host.
//!
//! Leaves out the defaults for all hosts (`programs.rs`), which apply to missing keys. Tested in
//! `tests.rs`.

use super::{
    keys::{CgroupTable, HostCgiTable, LandlockTable},
    programs::{memory, user},
    read::At,
    resolve::Problems,
};
use std::{
    ops::Range,
    path::{Component, Path, PathBuf},
    time::Duration,
};
use vermeil_settings::cgi::{Cgroup, Confinement, HostPrograms, NewPrivileges, ResourceLimits};

/// Variables that describe the request (RFC 3875 §4.1, and common additions of servers), except
/// those that begin with an entry of [`RESERVED_STARTS`].
const RESERVED: [&str; 9] = [
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
];
const RESERVED_STARTS: [&str; 6] = ["HTTP_", "REMOTE_", "REQUEST_", "SCRIPT_", "SERVER_", "UNIQUE_ID"];

/// The options in `table`; relative paths begin at `folder`.
pub(super) fn host_cgi(table: &HostCgiTable, folder: &Path, problems: &mut Problems) -> HostPrograms {
    let limits = ResourceLimits {
        address_space_bytes: memory(table.memory.as_ref(), "host.cgi.memory", problems),
        // The kernel counts whole seconds.
        cpu_seconds: table.cpu_time.map(|time| Duration::from(time).as_secs_f64().ceil() as u64),
        file_bytes: table.file_bytes.map(|size| size.bytes),
        descriptors: table.descriptors,
        processes: table.processes,
        core_bytes: None,
    };
    let below = |path: &PathBuf| folder.join(path);
    HostPrograms {
        user: user(table.user.as_ref(), "host.cgi.user", problems),
        directory: table.directory.as_ref().and_then(|at| directory(at, problems)),
        environment: table.environment.iter().filter_map(|at| variable(at, problems)).collect(),
        limits,
        cgroup: table.cgroup.as_ref().map(|table| cgroup(table, problems)),
        new_privileges: match table.no_new_privileges {
            true => NewPrivileges::Refused,
            false => NewPrivileges::Allowed,
        },
        confinement: table.landlock.as_ref().map(|LandlockTable { read, write }| Confinement {
            // The default covers several systems, and no system has all of these paths.
            read: read.iter().map(below).filter(|path| path.exists()).collect(),
            write: write.iter().map(below).collect(),
        }),
        time_limit: table.timeout.map(Duration::from),
    }
}

/// The cgroup of a host, with its place in the file.
pub(super) fn cgroup_of<'h>(
    table: Option<&'h HostCgiTable>,
    programs: Option<&'h HostPrograms>,
) -> Option<(&'h Range<usize>, &'h Cgroup)> {
    Some((&table?.cgroup.as_ref()?.folder.at, programs?.cgroup.as_ref()?))
}

/// A folder below the host's; empty for the host's folder itself.
fn directory(At { value, at }: &At<PathBuf>, problems: &mut Problems) -> Option<PathBuf> {
    let names = value.components().filter(|part| *part != Component::CurDir);
    if names.clone().any(|part| !matches!(part, Component::Normal(_))) {
        let what = "write a folder below the host's, such as \"data\", or \".\" for that itself";
        problems.push(at, "host.cgi.directory", what);
        return None;
    }
    Some(names.collect())
}

fn variable(At { value, at }: &At<String>, problems: &mut Problems) -> Option<(String, String)> {
    let mut wrong = |what: &str| problems.push(at, "host.cgi.environment", format!("\"{value}\": {what}"));
    let Some((name, text)) = value.split_once('=') else {
        wrong("write a name and a value, such as \"LANG=C.UTF-8\"");
        return None;
    };
    if let Some(what) = unfit_variable(name) {
        wrong(what);
        return None;
    }
    if text.contains('\0') {
        wrong("a value has no zero bytes; leave them out");
        return None;
    }
    Some((name.to_owned(), text.to_owned()))
}

/// Why no operator can choose the variable `name`; `None` for a name that fits.
pub(super) fn unfit_variable(name: &str) -> Option<&'static str> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = name.bytes().all(is_of_name) && name.starts_with(|first: char| !first.is_ascii_digit());
    if !is_name {
        return Some("a name has letters, digits and underscores, and no digit at its start");
    }
    let is_reserved = RESERVED.contains(&name) || RESERVED_STARTS.iter().any(|start| name.starts_with(start));
    is_reserved.then_some("this variable tells a program about its request; choose another name")
}

fn cgroup(table: &CgroupTable, problems: &mut Problems) -> Cgroup {
    let At { value: folder, at } = &table.folder;
    if !folder.is_absolute() {
        problems.push(
            at,
            "host.cgi.cgroup.folder",
            "write its path from the root, such as \"/sys/fs/cgroup/vermeil/example\"",
        );
    }
    Cgroup {
        folder: folder.clone(),
        memory_bytes: memory(table.memory.as_ref(), "host.cgi.cgroup.memory", problems),
        cpu_thousandths: table.cpu_percent.map(|percent| u32::try_from(percent * 10).expect("bounded")),
        processes: table.processes,
    }
}
