//! What would keep a server from starting, as far as that can be seen without starting it: for `vermeil check`.
//!
//! Looks at the file system, and at who this process is; opens, binds and starts nothing. Who checks is not who starts the server, as a
//! rule, and a service manager makes folders for it: what depends on that is a doubt and no refusal.

use super::plan::folder_trouble;
use crate::{
    ServeOptions, cgi,
    control::ControlTarget,
    gateway::{SendRoot, send_roots},
    log::LogTarget,
    php,
    privileges::{self, When},
};
use rustix::process::geteuid;
use std::{collections::BTreeSet, path::Path};

/// Why a server that is asked for `options` would not start, a line each.
pub(super) fn refusals(options: &ServeOptions) -> Vec<String> {
    let hosts = &options.hosts;
    let default = hosts.host(hosts.default_host()).root.map(Path::to_owned);
    let with_programs = cgi::profiles(&options.cgi, hosts).map(|profile| profile.root);
    let roots: BTreeSet<_> = default.into_iter().chain(with_programs).collect();
    let of_root = |root: &Path| {
        let why = folder_trouble(root)?;
        Some(format!("cannot serve {}: {why}; make it, or name another as root", root.display()))
    };
    let of_send_root = |root: &SendRoot| {
        let why = folder_trouble(&root.folder)?;
        Some(format!(
            "cannot have files of {} sent: {why}; make it, or take it out of send",
            root.folder.display()
        ))
    };
    let sends = send_roots(&options.gateway, hosts).filter_map(of_send_root);
    let php = php::look_for(options).err().map(|error| error.to_string());
    let exposed = privileges::exposure(options);
    roots.iter().filter_map(|root| of_root(root)).chain(sends).chain(php).chain(exposed).collect()
}

/// What may keep it from starting, a line each.
pub(super) fn doubts(options: &ServeOptions) -> Vec<String> {
    let log = match &options.log {
        LogTarget::File(path) if path.is_dir() => {
            Some(format!("cannot write the access log {}: it is a folder; name a file in it", path.display()))
        }
        LogTarget::File(path) => place_trouble("write the access log", path),
        LogTarget::Stdout | LogTarget::Off => None,
    };
    let control = match &options.control {
        ControlTarget::Path(path) => place_trouble("make the control socket", path),
        ControlTarget::Default | ControlTarget::Off => None,
    };
    log.into_iter().chain(control).chain(superuser(options)).collect()
}

/// Why nothing can be made at `path`.
fn place_trouble(what: &str, path: &Path) -> Option<String> {
    let folder = path.parent()?;
    let why = folder_trouble(folder)?;
    Some(format!(
        "cannot {what} {}: {}: {why}; make it, or name another place",
        path.display(),
        folder.display()
    ))
}

/// Whether a server that the superuser starts, as this process may be, would have to run programs as the superuser.
fn superuser(options: &ServeOptions) -> Option<String> {
    let is_given_up = options.user.as_ref().is_some_and(|user| user.identity().uid != 0)
        && privileges::when(options) == When::BeforePrograms;
    if is_given_up || !geteuid().is_root() {
        return None;
    }
    let mut profiles = cgi::profiles(&options.cgi, &options.hosts);
    let root = profiles.find(|profile| profile.identity.is_none())?.root;
    Some(format!(
        "started by the superuser, as this command is, a server does not run programs of {} as themselves: name a user for them, by user \
         in [cgi] or [host.cgi]",
        root.display()
    ))
}
