//! The unmet conditions of a start: those that `vermeil serve` refuses too, and those that only
//! `vermeil check` finds.
//!
//! Tested through the binary.

use crate::{certificates, descriptors, folders::folder_trouble, start};
use rustix::{
    fs::{Access, access},
    io::Errno,
    process::geteuid,
};
use std::{collections::HashSet, io, path::Path, sync::Arc};
use vermeil_accept::listen::unix;
use vermeil_address::{ListenAddr, UNIX_PATH_BYTES_MAX, UnixAddr, too_long_path};
use vermeil_config::{PlacedKey, ServeOptions};
use vermeil_gateway::{
    ParentFolder, PrivateWorkspace, Spools, cgi, php,
    programs::{exposure, has_programs},
    send_roots,
};
use vermeil_io::output::NameInFolder;
use vermeil_log::LogTarget;
use vermeil_ops::{
    control_socket,
    privileges::{self, When},
};
use vermeil_routing::hosts::HostId;
use vermeil_settings::{ControlTarget, gateway::SendRoot};
use vermeil_tls::{CertificateStore, PlainFiles, Tickets};

/// The reasons why a server with `options` would not start, a line each. `tell` adds the place of a
/// key to a reason.
pub(crate) fn refusals(options: &ServeOptions, tell: &dyn Fn(PlacedKey, String) -> String) -> Vec<String> {
    let hosts = &options.hosts;
    let with_programs: HashSet<_> = cgi::profiles(&options.cgi, hosts).map(|profile| profile.root).collect();
    let is_needed = |id: &HostId| {
        *id == hosts.default_host() || hosts.host(*id).root.is_some_and(|root| with_programs.contains(root))
    };
    let mut looked_at = HashSet::new();
    let roots = hosts.iter().filter(is_needed).filter_map(|id| {
        let root = hosts.host(id).root.filter(|root| looked_at.insert(root.to_path_buf()))?;
        let why = folder_trouble(root)?;
        let told =
            format!("cannot serve {}: {why}; make a folder there, or name another as root", root.display());
        Some(tell(PlacedKey::Root(id), told))
    });
    let of_send_root = |root: &SendRoot| {
        let why = folder_trouble(&root.folder)?;
        Some(format!(
            "cannot have files of {} sent: {why}; make a folder there, or take it out of send",
            root.folder.display()
        ))
    };
    let sends = send_roots(&options.gateway, hosts).filter_map(of_send_root);
    let php = php::look_for(options).err().map(|error| error.to_string());
    let reader = certificate_reader(options);
    let certificates = certificates::of_others(hosts, |host| reader.check(host));
    let certificates = certificates.into_iter().map(|(key, why)| tell(key, why));
    let all = roots
        .chain(sends)
        .chain(php)
        .chain(told_conditions(options, tell))
        .chain(certificates)
        .chain(start::obstacles(options));
    let mut seen = HashSet::new();
    // A folder that two users lack is one reason.
    all.filter(|reason| seen.insert(reason.clone())).collect()
}

/// The unmet conditions of the machine that would prevent the start of a server with `options`, a
/// line each. `vermeil check` and `vermeil serve` both call this function, so `serve` never refuses
/// a configuration that `check` accepts.
pub fn conditions(options: &ServeOptions) -> Vec<String> {
    told_conditions(options, &|_, why| why)
}

/// The same, with the places of the keys that `tell` knows.
fn told_conditions(options: &ServeOptions, tell: &dyn Fn(PlacedKey, String) -> String) -> Vec<String> {
    let log = match &options.log.target {
        LogTarget::File(path) if path.is_dir() => {
            Some(format!("cannot write the access log {}: it is a folder; name a file in it", path.display()))
        }
        LogTarget::File(path) => place_trouble("write the access log", path),
        LogTarget::Stdout | LogTarget::Syslog(_) | LogTarget::Journald(_) | LogTarget::Off => None,
    };
    let control = match &options.control {
        ControlTarget::Path(path) if path.as_os_str().len() > UNIX_PATH_BYTES_MAX => {
            Some(format!("cannot make the control socket: {}; name another place", too_long_path(path)))
        }
        ControlTarget::Path(path) => place_trouble("make the control socket", path).or_else(|| {
            let name = NameInFolder::find(path).ok()?;
            control_socket::refuse_other_file(&name).err().map(|error| error.to_string())
        }),
        ControlTarget::Default | ControlTarget::Off => None,
    };
    let rooms = room_troubles(options);
    let reader = certificate_reader(options);
    let certificates = certificates::of_first(&options.hosts, |host| reader.check(host));
    let certificates = certificates.into_iter().map(|(key, why)| tell(key, why));
    let sockets = options.listen.iter().filter_map(ListenAddr::unix).filter_map(socket_trouble);
    let user = options.user.as_ref().and_then(|user| privileges::refuse_without_rights(user).err());
    log.into_iter()
        .chain(control)
        .chain(user.map(|error| error.to_string()))
        .chain(descriptors::shortage(options))
        .chain(sockets)
        .chain(superuser(options))
        .chain(exposure(options))
        .chain(rooms)
        .chain(certificates)
        .collect()
}

/// Reads certificates with the rights of this process.
fn certificate_reader(options: &ServeOptions) -> CertificateStore {
    CertificateStore::new(options.tls.policy, Arc::new(Tickets::random()), Box::new(PlainFiles))
}

/// The reason why no unix socket can listen there. A server that already listens there is no
/// reason, because the configuration may be its own.
fn socket_trouble(addr: UnixAddr) -> Option<String> {
    place_trouble("listen on the unix socket", addr.path()).or_else(|| {
        let why = unix::obstacle(&NameInFolder::find(addr.path()).ok()?)?;
        Some(format!("cannot listen on {addr}: {why}"))
    })
}

/// The reason why no file can be created at `path`: its folder is missing, or another user could
/// have planted a link there.
fn place_trouble(what: &str, path: &Path) -> Option<String> {
    let error = match NameInFolder::find(path) {
        // An instance may lack the right to look, which its supervisor had. `start` reports it.
        Err(error) if error.raw_os_error() != Some(Errno::ACCESS.raw_os_error()) => error,
        _ => return None,
    };
    let why = match error.kind() {
        io::ErrorKind::NotFound => "there is no such folder; make it, or name another place".to_owned(),
        // A link or another entry that the superuser must not follow; the error has the cure.
        _ => error.to_string(),
    };
    let folder = path.parent().unwrap_or(path).display();
    Some(format!("cannot {what} {}: {folder}: {why}", path.display()))
}

/// The reason why programs lack space: the private folder, or the folder for request bodies.
fn room_troubles(options: &ServeOptions) -> Vec<String> {
    if !has_programs(options) {
        return Vec::new();
    }
    let ParentFolder { folder, variable } = PrivateWorkspace::parent();
    let mut troubles = Vec::new();
    if let Err(errno) = access(&folder, Access::WRITE_OK | Access::EXEC_OK) {
        troubles.push(format!(
            "cannot make a private folder in {}: {}; name another with the environment variable {variable}",
            folder.display(),
            io::Error::from(errno)
        ));
    }
    let spool = Spools::folder(&options.gateway);
    troubles.extend(start::of_spool(&spool));
    troubles
}

/// The problem of a server that would run programs as the superuser, because the superuser starts
/// the server.
fn superuser(options: &ServeOptions) -> Option<String> {
    let is_given_up = options.user.as_ref().is_some_and(|user| user.identity().uid != 0)
        && privileges::when(options) == When::BeforePrograms;
    if is_given_up || !geteuid().is_root() {
        return None;
    }
    let mut profiles = cgi::profiles(&options.cgi, &options.hosts);
    let root = profiles.find(|profile| profile.identity.is_none())?.root;
    Some(format!(
        "cannot run CGI programs of {} as the superuser; name another user with --cgi-user NAME, or user in [cgi] or \
         [host.cgi]",
        root.display()
    ))
}
