//! The folders of included hosts that a start needs: of the default host, of hosts with CGI
//! programs, and of files that programs have sent.
//!
//! With `skip_unfit_includes` a missing folder is a problem of the included file, so the other
//! sites start. A folder of the main file is left to the start, which refuses. Tested in
//! `tests/include.rs`.

use super::{
    places::{HostPlaces, KeyPlaces},
    problems::Problem,
    sources::ConfigText,
};
use std::{fs, io, path::Path};
use vermeil_routing::hosts::{Action, HostId, Hosts};
use vermeil_settings::gateway::HostSends;

/// The missing folders, a problem each.
pub(super) fn missing(hosts: &Hosts, keys: &KeyPlaces, text: &ConfigText) -> Vec<Problem> {
    let of_root = |id: HostId| {
        let places = included(id, keys, text)?;
        let root = hosts.host(id).root?;
        let at = places.root.clone().unwrap_or(places.at..places.at);
        let why = trouble(root)?;
        let what =
            format!("cannot serve {}: {why}; make a folder there, or name another as root", root.display());
        Some(Problem { at, key: "host.root".to_owned(), what })
    };
    let runs_programs =
        |id: &HostId| hosts.host(*id).rules.routes.iter().any(|route| route.action == Action::Cgi);
    let of_default = of_root(hosts.default_host());
    // Without the default host, the first host with a folder takes its place.
    let first = of_default.iter().flat_map(|_| hosts.iter().map_while(of_root));
    let with_programs = hosts.iter().filter(runs_programs).filter_map(of_root);
    let sends = hosts.iter().flat_map(|id| of_sends(id, hosts, keys, text));
    of_default.iter().cloned().chain(first).chain(with_programs).chain(sends).collect()
}

fn of_sends(id: HostId, hosts: &Hosts, keys: &KeyPlaces, text: &ConfigText) -> Vec<Problem> {
    let HostSends { php, cgi } = &hosts.host(id).rules.sends;
    let of = |key: &'static str, folder: &Path| {
        let at = included(id, keys, text)?.at;
        let why = trouble(folder)?;
        let folder = folder.display();
        let what =
            format!("cannot have files of {folder} sent: {why}; make a folder there, or take it out of send");
        Some(Problem { at: at..at, key: key.to_owned(), what })
    };
    let php = php.iter().flatten().filter_map(|root| of("host.php.send", &root.folder));
    php.chain(cgi.iter().flatten().filter_map(|root| of("host.cgi.send", &root.folder))).collect()
}

/// The places of a host of an included file.
fn included<'k>(id: HostId, keys: &'k KeyPlaces, text: &ConfigText) -> Option<&'k HostPlaces> {
    let places = keys.hosts.get(id.index())?;
    text.source(places.at).file.map(|_| places)
}

/// The reason why `folder` is no folder; `None` if this process cannot see the folder.
fn trouble(folder: &Path) -> Option<&'static str> {
    match fs::metadata(folder) {
        Ok(found) if !found.is_dir() => Some("it is no folder"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("there is no such folder"),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Some("there is no such folder"),
        _ => None,
    }
}
