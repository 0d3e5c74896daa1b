//! What the spawner is told before it starts: which folders have programs, and who those run as.
//!
//! Each folder that has programs gets a profile of its own. Folders that a reload adds get none: who programs may run as
//! is said before the server listens to anybody. Leaves out starting the spawner (`gateway/setup.rs`).

use super::{
    Cgi, CgiSite, SiteKey, absolute,
    turns::{HostNumber, Turns},
};
use crate::{
    hosts::{Action, Hosts},
    options::ServeOptions,
};
use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs::File,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};
use thiserror::Error;
use vermeil_spawn::{DefineError, NewPrivileges, Preparation, Profile};

/// Programs cannot be run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CgiError {
    /// It may not run them.
    #[error(transparent)]
    Define(#[from] DefineError),
    /// A folder or `/dev/null`.
    #[error("cannot open {path} for CGI: {source}")]
    Open {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Whether any host has programs.
pub(crate) fn is_wanted(options: &ServeOptions) -> bool {
    !sites_of(&options.hosts).is_empty()
}

/// Says to the keeper what programs there will be.
///
/// # Errors
/// When they cannot be run as they should.
pub(crate) fn prepare(options: &ServeOptions, preparation: &mut Preparation) -> Result<Arc<Cgi>, CgiError> {
    let mut sites = HashMap::new();
    for (number, key) in sites_of(&options.hosts).into_iter().enumerate() {
        let site = site(preparation, &options.cgi, HostNumber(number), &key)?;
        sites.insert(key, site);
    }
    let null = open(Path::new("/dev/null"))?;
    Ok(Arc::new(Cgi { options: options.cgi.clone(), turns: Turns::new(options.cgi.bounds), sites, null }))
}

/// The folders that have programs, each once for every way to run them.
fn sites_of(hosts: &Hosts) -> HashSet<SiteKey> {
    let has_programs = |id| {
        let host = hosts.host(id);
        host.rules
            .routes
            .iter()
            .any(|route| matches!(route.action, Action::Cgi))
            .then_some(host.root)
            .flatten()
            .map(|root| (absolute(root), host.rules.cgi.clone()))
    };
    hosts.iter().filter_map(has_programs).collect()
}

fn site(
    preparation: &mut Preparation,
    options: &super::CgiOptions,
    number: HostNumber,
    (root, programs): &SiteKey,
) -> Result<CgiSite, CgiError> {
    let path = Path::new(OsStr::from_bytes(root));
    let programs = programs.clone().unwrap_or_default();
    let user = programs.user.as_ref().map(|user| user.identity().clone());
    let new_privileges = match programs.new_privileges {
        NewPrivileges::Allowed => NewPrivileges::Allowed,
        NewPrivileges::Refused => options.new_privileges,
    };
    let confinement = programs.confinement.clone().map(|mut confinement| {
        // Or it could not even be executed.
        confinement.read.push(path.to_owned());
        confinement
    });
    let profile = Profile {
        identity: user.or_else(|| options.identity.clone()),
        limits: programs.limits.or(options.limits),
        cgroup: programs.cgroup.clone(),
        new_privileges,
        confinement: confinement.or_else(|| options.confinement.clone()),
        umask: options.umask,
        ..Profile::new(path)
    };
    let profile = preparation.define(&profile)?;
    let folder = Arc::new(open(path)?);
    Ok(CgiSite { root: root.clone(), folder, profile, number, programs })
}

fn open(path: &Path) -> Result<File, CgiError> {
    File::open(path).map_err(|source| CgiError::Open { path: path.to_owned(), source })
}
