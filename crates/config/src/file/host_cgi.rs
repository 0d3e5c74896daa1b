//! From the tables `[host.cgi]` to the user and the bounds of the programs of a host.
//!
//! Leaves out the defaults for all hosts (`programs.rs`), which apply to missing keys. Tested in
//! `tests.rs`.

use super::{
    environment::variables,
    keys::{CgroupTable, HostCgiTable, LandlockTable},
    problems::Problems,
    programs::{memory, user},
    read::At,
};
use std::{
    ops::Range,
    path::{Component, Path, PathBuf},
    time::Duration,
};
use vermeil_settings::cgi::{Cgroup, Confinement, HostPrograms, NewPrivileges, ResourceLimits};

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
        environment: variables(&table.environment, "host.cgi.environment", &[], problems),
        limits,
        cgroup: table.cgroup.as_ref().map(|table| cgroup(table, problems)),
        new_privileges: match table.no_new_privileges {
            true => NewPrivileges::Refused,
            false => NewPrivileges::Allowed,
        },
        confinement: table.landlock.as_ref().map(|LandlockTable { read, write }| Confinement {
            // Also missing paths: the server and the keeper read the same configuration with other
            // rights, and must find the same profile.
            read: read.iter().map(below).collect(),
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
