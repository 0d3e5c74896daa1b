//! From the tables `[programs]`, `[php]` and `[cgi]` to the options of programs.
//!
//! Leaves out the hosts and paths that run programs; hosts and routes define these. Tested in
//! `tests.rs`.

use super::{
    host_php_table::HostPhpTable,
    keys::{CgiTable, HostCgiTable, PhpTable, ProgramsTable},
    problems::Problems,
    read::{At, FlagOr, narrow},
    surroundings::Surroundings,
    values::{PhpPlace, Size},
};
use std::{ops::Range, path::Path};
use vermeil_settings::{
    Unfit, User,
    cgi::{CgiOptions, Identity, NewPrivileges, Nph, ProgramBounds, ResourceLimits, UserError},
    gateway::{GatewayOptions, GatewayTimeouts, HostSends, SendRoot, Sends},
    php::{PhpOptions, PhpSource, PoolsOptions, kept_of},
};

/// The most children of a pool.
const CHILDREN_MAX: u64 = 10_000;

/// Bounds of a program's address space, in bytes, because no program starts with less than the
/// lower bound.
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;

/// The options for relaying requests to programs.
pub(super) fn gateway(table: &ProgramsTable, sends: Sends, folder: &Path) -> GatewayOptions {
    GatewayOptions {
        sends,
        spool_folder: table.spool_folder.as_ref().map(|path| folder.join(path)),
        spool_bytes: table.spool_bytes.bytes,
        content_bytes: table.body_bytes.bytes,
        timeouts: GatewayTimeouts {
            queue: table.queue_timeout.into(),
            answer: table.timeout.into(),
            ..GatewayTimeouts::default()
        },
        ..GatewayOptions::default()
    }
}

/// The folders from which the programs of all hosts may send files; relative paths begin at
/// `folder`.
pub(super) fn sends(php: &PhpTable, cgi: &CgiTable, folder: &Path, problems: &mut Problems) -> Sends {
    Sends {
        php: send_roots(&php.send, "php.send", folder, problems),
        cgi: send_roots(&cgi.send, "cgi.send", folder, problems),
    }
}

/// The folders from which the programs of a host may send files.
pub(super) fn host_sends(
    php: &FlagOr<HostPhpTable>,
    cgi: Option<&HostCgiTable>,
    folder: &Path,
    problems: &mut Problems,
) -> HostSends {
    // A pool with a user of its own must not read files that other programs may read.
    let php = match php {
        FlagOr::Flag(_) => None,
        FlagOr::Table(table) => Some(send_roots(&table.send, "host.php.send", folder, problems)),
    };
    let cgi = cgi.and_then(|table| table.send.as_ref());
    HostSends { php, cgi: cgi.map(|roots| send_roots(roots, "host.cgi.send", folder, problems)) }
}

fn send_roots(written: &[At<String>], key: &str, folder: &Path, problems: &mut Problems) -> Vec<SendRoot> {
    let root = |At { value, at }: &At<String>| match value.parse::<SendRoot>() {
        Ok(root) => Some(SendRoot { folder: folder.join(root.folder), ..root }),
        Err(why) => {
            problems.push(at, key, format!("\"{value}\": {why}"));
            None
        }
    };
    written.iter().filter_map(root).collect()
}

/// PHP for a server of `cores` cores.
pub(super) fn php(
    table: &PhpTable,
    cores: usize,
    around: &Surroundings,
    problems: &mut Problems,
) -> PhpOptions {
    let At { value, at } = &table.source;
    let source = match value.parse::<PhpPlace>().map(|place| around.resolve_php(place)) {
        Ok(Ok(source)) => source,
        Ok(Err(error)) => {
            problems.push(at, "php.source", error.to_string());
            PhpSource::Own
        }
        Err(error) => {
            problems.push(at, "php.source", error.to_string());
            PhpSource::Own
        }
    };
    let defaults = PhpOptions::new(source, cores);
    let children = table.children.as_ref().map(|At { value, at }| {
        if !(1..=CHILDREN_MAX).contains(value) {
            problems.push(at, "php.children", format!("{value} is not from 1 to {CHILDREN_MAX}"));
        }
        narrow((*value).min(CHILDREN_MAX))
    });
    let children = children.unwrap_or(defaults.children);
    let user = table.user.as_ref().map(|At { value, at }| {
        identity(value, at, "php.user", problems);
        value.clone()
    });
    PhpOptions {
        children,
        kept_max: table.kept_max.map_or_else(|| kept_of(children), narrow),
        queue_max: narrow(table.queue_max),
        requests_per_child: u32::try_from(table.requests_per_child).expect("bounded"),
        user,
        new_privileges: new_privileges(table.no_new_privileges),
        ..defaults
    }
}

pub(super) fn new_privileges(are_refused: bool) -> NewPrivileges {
    if are_refused { NewPrivileges::Refused } else { NewPrivileges::Allowed }
}

/// Bounds on the pools of all hosts together.
pub(super) fn php_pools(table: &PhpTable) -> PoolsOptions {
    let program = match table.source.value.parse() {
        Ok(PhpPlace::Program(program)) => Some(program),
        _ => None,
    };
    PoolsOptions { program, running_max: narrow(table.pools_max) }
}

/// The memory bound of a program.
pub(super) fn memory(written: Option<&At<Size>>, key: &str, problems: &mut Problems) -> Option<u64> {
    let At { value, at } = written?;
    if !MEMORY_BYTES.contains(&value.bytes) {
        problems.push(at, key, format!("{value} is not from 1M to 1T"));
    }
    Some(value.bytes)
}

/// Refuses to run programs as the superuser.
fn fit(identity: &Identity, at: &Range<usize>, key: &str, problems: &mut Problems) {
    if let Some(unfit) = Unfit::of(identity) {
        problems.push(at, key, unfit.to_string());
    }
}

/// The ids of a named user of programs.
fn identity(name: &str, at: &Range<usize>, key: &str, problems: &mut Problems) -> Option<Identity> {
    match Identity::of_user(name) {
        Ok(identity) => {
            fit(&identity, at, key, problems);
            Some(identity)
        }
        Err(error) => {
            problems.push(at, key, error.to_string());
            None
        }
    }
}

/// A named user of programs, with ids and an optional group.
pub(super) fn user(named: Option<&At<String>>, key: &str, problems: &mut Problems) -> Option<User> {
    let At { value, at } = named?;
    match value.parse::<User>() {
        Ok(user) => {
            fit(user.identity(), at, key, problems);
            Some(user)
        }
        Err(error) => {
            problems.push(at, key, UserError::to_string(&error));
            None
        }
    }
}

/// Refuses CGI programs with the server's own user, because such a program could access every file
/// and process of the server.
pub(super) fn refuse_server_user(
    server: Option<&User>,
    table: &CgiTable,
    cgi: &CgiOptions,
    hosts: &[(u32, Range<usize>)],
    problems: &mut Problems,
) {
    let Some(server) = server else { return };
    let uid = server.identity().uid;
    let what = || format!("{server} is {}", Unfit::SERVER);
    if let (Some(At { at, .. }), Some(identity)) = (&table.user, &cgi.identity)
        && identity.uid == uid
    {
        problems.push(at, "cgi.user", what());
    }
    for (_, at) in hosts.iter().filter(|(program, _)| *program == uid) {
        problems.push(at, "host.cgi.user", what());
    }
}

/// The user and the bounds of CGI programs.
pub(super) fn cgi(table: &CgiTable, problems: &mut Problems) -> CgiOptions {
    let user = table.user.as_ref();
    let identity = user.and_then(|At { value, at }| identity(value, at, "cgi.user", problems));
    let address_space_bytes = memory(table.memory.as_ref(), "cgi.memory", problems);
    CgiOptions {
        identity,
        limits: ResourceLimits { address_space_bytes, ..ResourceLimits::default() },
        bounds: ProgramBounds {
            running_max: narrow(table.running_max),
            host_running_max: narrow(table.host_running_max),
            host_waiting_max: narrow(table.host_waiting_max),
        },
        time_limit: table.timeout.into(),
        nph: if table.nph { Nph::Allowed } else { Nph::Refused },
        ..CgiOptions::default()
    }
}
