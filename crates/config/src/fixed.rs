//! The settings that cannot change while a server runs.
//!
//! A reload restores these settings in the new options before any check, so each check and each
//! program sees the settings that will be in force. Tested in `file/tests/running.rs` and through
//! the binary (`crates/e2e/tests/e2e/reload.rs`).

use crate::options::{ServeOptions, keys_that_differ};
use vermeil_files::StoreOptions;

/// Whether `[cgi]` may still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgiSettings {
    /// No host has had CGI programs yet.
    Open,
    /// A host has, or had, CGI programs.
    Fixed,
}

impl CgiSettings {
    /// Those of a server whose first options are `options`.
    pub fn of(options: &ServeOptions) -> Self {
        if options.hosts.have_cgi() { Self::Fixed } else { Self::Open }
    }
}

/// Restores in `new` the settings of `old` that cannot change while the server runs. Returns the
/// keys whose change is ignored.
pub fn keep_what_is_fixed(old: &ServeOptions, new: &mut ServeOptions, cgi: CgiSettings) -> Vec<&'static str> {
    let layout = keys_that_differ(&old.instances, &new.instances);
    let has_other_cgi = cgi == CgiSettings::Fixed && old.cgi != new.cgi && new.hosts.have_cgi();
    let changed = [
        ("control", old.control != new.control),
        ("user", old.user != new.user),
        ("balance", old.balance != new.balance),
        ("io", old.io != new.io),
        ("policy", old.policy != new.policy),
        ("agent", old.balancers.agent != new.balancers.agent),
        ("cache", StoreOptions { pages: new.store.pages, ..old.store.clone() } != new.store),
        ("memory", old.store.pages != new.store.pages),
        ("hosts.open_max", old.sites_open_max != new.sites_open_max),
        ("cgi", has_other_cgi),
        ("programs.spool_folder", old.gateway.spool_folder != new.gateway.spool_folder),
        ("programs.spool_bytes", old.gateway.spool_bytes != new.gateway.spool_bytes),
    ];
    new.control.clone_from(&old.control);
    new.placement.clone_from(&old.placement);
    new.cpus.clone_from(&old.cpus);
    new.instances.clone_from(&old.instances);
    new.user.clone_from(&old.user);
    new.balance = old.balance;
    new.io = old.io;
    new.policy = old.policy;
    new.balancers.agent.clone_from(&old.balancers.agent);
    new.store.clone_from(&old.store);
    new.sites_open_max = old.sites_open_max;
    if cgi == CgiSettings::Fixed {
        new.cgi.clone_from(&old.cgi);
    }
    new.gateway.spool_folder.clone_from(&old.gateway.spool_folder);
    new.gateway.spool_bytes = old.gateway.spool_bytes;
    let others = changed.into_iter().filter_map(|(key, changed)| changed.then_some(key));
    layout.into_iter().chain(others).collect()
}
