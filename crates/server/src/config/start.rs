//! What would keep a server from starting, as far as that can be seen without starting it: for `vermeil check`.
//!
//! Looks at the file system, and at who this process is; opens, binds and starts nothing.

use super::plan::folder_trouble;
use crate::{
    ServeOptions, cgi,
    control::ControlTarget,
    log::LogTarget,
    php,
    privileges::{self, When},
};
use rustix::process::geteuid;
use std::path::Path;
use vermeil_spawn::Profile;

/// Why a server that is asked for `options` would not start, a line each.
pub(super) fn refusals(options: &ServeOptions) -> Vec<String> {
    let hosts = &options.hosts;
    let root = hosts.host(hosts.default_host()).root;
    let root =
        root.and_then(|root| Some(format!("cannot serve {}: {}", root.display(), folder_trouble(root)?)));
    let log = match &options.log {
        LogTarget::File(path) => place_trouble("write the access log", path),
        LogTarget::Stdout | LogTarget::Off => None,
    };
    let control = match &options.control {
        ControlTarget::Path(path) => place_trouble("make the control socket", path),
        ControlTarget::Default | ControlTarget::Off => None,
    };
    let php = php::look_for(options).err().map(|error| error.to_string());
    root.into_iter().chain(log).chain(control).chain(php).chain(of_cgi(options)).collect()
}

/// Why nothing can be made at `path`.
fn place_trouble(what: &str, path: &Path) -> Option<String> {
    let folder = path.parent()?;
    folder_trouble(folder).map(|why| format!("cannot {what} {}: {}: {why}", path.display(), folder.display()))
}

/// What the spawner would say of CGI programs. Asked by another than the superuser it says nothing of the server's rights: who checks
/// is not who starts it, as a rule.
fn of_cgi(options: &ServeOptions) -> impl Iterator<Item = String> {
    let server = options.user.as_ref().filter(|_| privileges::when(options) == When::BeforePrograms);
    let of_server = move |profile: Profile| match server {
        Some(user) if profile.identity.is_none() => {
            Profile { identity: Some(user.identity().clone()), ..profile }
        }
        _ => profile,
    };
    let profiles = geteuid().is_root().then(|| cgi::profiles(&options.cgi, &options.hosts));
    let judge = move |profile| vermeil_spawn::judge(&of_server(profile)).err();
    profiles.into_iter().flatten().filter_map(judge).map(|error| error.to_string())
}
