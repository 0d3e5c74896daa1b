//! The steps of a start, each tried without its effect: for `vermeil check` only, because a server
//! takes these steps itself.
//!
//! The first steps need the rights of the process that starts a server. The later steps have the
//! rights of the user that the server becomes, so a thread becomes that user and looks. Tested
//! through the binary (`crates/e2e/tests/e2e/starts.rs`).

use crate::folders::folder_trouble;
use rustix::io::Errno;
use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};
use vermeil_accept::listen;
use vermeil_config::ServeOptions;
use vermeil_files::try_folder;
use vermeil_gateway::{RunDirs, Spools, cgi, php, programs::has_programs, send_roots};
use vermeil_io::output::{NameInFolder, Output};
use vermeil_log::{LogMaker, look_at_file};
use vermeil_ops::privileges::{self, When};
use vermeil_routing::hosts::HostId;
use vermeil_settings::ControlTarget;

/// The reasons why a start with `options` would fail, besides the conditions that every server
/// looks at.
pub(crate) fn obstacles(options: &ServeOptions) -> Vec<String> {
    let mut found = before_change(options);
    // Without the right to become the user, which is a condition, the later steps are unknown.
    let changes = options.user.as_ref().filter(|user| !user.is_ours());
    match changes {
        None => found.extend(after_change(options, LogMaker::Server)),
        Some(user) if privileges::refuse_without_rights(user).is_ok() => {
            // As for a start, a server that keeps rights for programs chooses before the change.
            let spool = (privileges::when(options) == When::AfterPrograms && has_programs(options))
                .then(|| Spools::folder(&options.gateway));
            let looked = privileges::look_as(user, || {
                let programs = if spool.is_none() { of_programs(options) } else { Vec::new() };
                let later = after_change(options, LogMaker::Superuser);
                later.into_iter().chain(spool.as_deref().and_then(of_spool)).chain(programs).collect()
            });
            found.extend(looked.unwrap_or_else(|error| vec![error.to_string()]));
        }
        Some(_) => {}
    }
    if changes.is_none() || privileges::when(options) == When::AfterPrograms {
        found.extend(of_programs(options));
    }
    found
}

/// The steps of the user that starts the server.
fn before_change(options: &ServeOptions) -> Vec<String> {
    let listeners = options.listen.iter().filter_map(|addr| addr.tcp());
    let addrs = listen::obstacles(listeners.chain(options.balancers.agent.iter().copied()));
    let unix = options.listen.iter().filter_map(|addr| addr.unix());
    let unix = unix.filter_map(|addr| of_folder("listen on the unix socket", addr.path()));
    let control = match &options.control {
        ControlTarget::Path(path) => of_folder("make the control socket", path),
        ControlTarget::Default | ControlTarget::Off => None,
    };
    let log = privileges::owner(options).and(options.log.file()).and_then(|path| of_new_log(options, path));
    addrs.iter().map(ToString::to_string).chain(unix).chain(control).chain(log).collect()
}

/// The reason why this thread may not make a file or a socket at `path`. Other reasons are
/// conditions.
fn of_folder(what: &str, path: &Path) -> Option<String> {
    let error = NameInFolder::find(path).and_then(|name| name.may_change()).err()?;
    let is_denied = error.raw_os_error().is_some_and(|code| {
        [Errno::ACCESS, Errno::PERM, Errno::ROFS].map(Errno::raw_os_error).contains(&code)
    });
    let folder = path.parent().unwrap_or(path).display();
    is_denied.then(|| {
        format!(
            "cannot {what} {}: no right to write in {folder}: {error}; name another place, or start as another user",
            path.display()
        )
    })
}

/// The reason why the superuser cannot make the log for the user of the server.
fn of_new_log(options: &ServeOptions, path: &Path) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let name = NameInFolder::find(path).ok()?;
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => of_folder("make the access log", path),
        // The reader of a FIFO would notice that it is opened.
        Ok(found) if found.is_file() => {
            let opened = Output::append().owned_by(privileges::owner(options)).open_found(&name);
            opened.err().map(|error| format!("cannot write the access log {}: {error}", path.display()))
        }
        _ => None,
    }
}

/// The steps of the user that the server stays.
fn after_change(options: &ServeOptions, maker: LogMaker) -> Vec<String> {
    let hosts = &options.hosts;
    let default = hosts.host(hosts.default_host()).root.map(Path::to_owned);
    let sent = send_roots(&options.gateway, hosts).map(|root| root.folder.clone());
    let folders: Vec<PathBuf> = default.into_iter().chain(sent.filter(|_| has_programs(options))).collect();
    let unread = folders.iter().filter(|folder| folder_trouble(folder).is_none());
    let unread = unread.filter_map(|folder| Some(try_folder(folder).err()?.to_string()));
    // A log in a missing folder is a condition.
    let log = look_at_file(&options.log, maker).err().filter(|_| {
        options.log.file().is_some_and(|path| path.parent().is_none_or(|folder| !is_missing(folder)))
    });
    let chosen = (has_programs(options) && privileges::when(options) == When::BeforePrograms)
        .then(|| Spools::folder(&options.gateway));
    unread.chain(log.map(|error| error.to_string())).chain(chosen.as_deref().and_then(of_spool)).collect()
}

/// The folders of hosts that the server's user may not enter, besides the default host's, whose
/// folder the start needs.
pub(crate) fn forbidden_roots(options: &ServeOptions) -> HashMap<HostId, String> {
    let hosts = &options.hosts;
    let look = || {
        let others = hosts.iter().filter(|id| *id != hosts.default_host());
        let forbidden = others.filter_map(|id| {
            let root = hosts.host(id).root?;
            let error = try_folder(root).err()?;
            (error.kind() == io::ErrorKind::PermissionDenied).then_some((id, root))
        });
        forbidden.collect::<Vec<_>>()
    };
    let other = options.user.as_ref().filter(|user| !user.is_ours());
    let user = other.map_or_else(|| "this user".to_owned(), |user| format!("user {user}"));
    let found = match other {
        None => look(),
        // Without the right to become the user, a condition says so.
        Some(other) => privileges::look_as(other, look).unwrap_or_default(),
    };
    let said = found.into_iter().map(|(id, root)| {
        let root = root.display();
        (id, format!("cannot serve {root}: {user} may not enter it, so clients get 403; run chgrp and chmod"))
    });
    said.collect()
}

fn is_missing(folder: &Path) -> bool {
    fs::metadata(folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The reason why no request body can be kept in `folder`.
pub(crate) fn of_spool(folder: &Path) -> Option<String> {
    let error = Spools::try_out(folder).err()?;
    Some(format!(
        "cannot keep request bodies in {}: {error}; name another folder by spool_folder in [programs]",
        folder.display()
    ))
}

/// The reasons why this thread may not start the programs, as the keeper of the spawner judges
/// them.
fn of_programs(options: &ServeOptions) -> Vec<String> {
    let dirs = RunDirs::planned();
    let of_php = match php::profiles(options, &dirs) {
        Ok(profiles) => profiles,
        Err(error) => return vec![error.to_string()],
    };
    let of_cgi = cgi::profiles(&options.cgi, &options.hosts);
    // A missing folder has a line of its own, and so has a user that nothing names.
    let judged =
        of_cgi.filter(|profile| profile.identity.is_some() && folder_trouble(&profile.root).is_none());
    let judged = of_php.into_iter().chain(judged);
    judged.filter_map(|profile| Some(vermeil_spawn::judge(&profile).err()?.to_string())).collect()
}
