//! What the spawner is told before it starts: which folders have programs, and who those run as.
//!
//! Each folder that has programs gets a profile of its own. Folders that a reload adds get none: who programs may run as
//! is said before the server listens to anybody. Leaves out starting the spawner (`gateway/setup.rs`).

use super::{
    Cgi, CgiSite, absolute,
    turns::{HostNumber, Turns},
};
use crate::{
    hosts::{Action, Hosts},
    options::ServeOptions,
};
use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::File,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};
use thiserror::Error;
use vermeil_spawn::{DefineError, Preparation, Profile};

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
    !roots(&options.hosts).is_empty()
}

/// Says to the keeper what programs there will be.
///
/// # Errors
/// When they cannot be run as they should.
pub(crate) fn prepare(options: &ServeOptions, preparation: &mut Preparation) -> Result<Arc<Cgi>, CgiError> {
    let mut sites = HashMap::new();
    for (number, root) in roots(&options.hosts).into_iter().enumerate() {
        let site = site(preparation, &options.cgi, HostNumber(number), root)?;
        sites.insert(site.root.clone(), site);
    }
    let null = open(Path::new("/dev/null"))?;
    Ok(Arc::new(Cgi { options: options.cgi.clone(), turns: Turns::new(options.cgi.bounds), sites, null }))
}

/// The folders that have programs, each once.
fn roots(hosts: &Hosts) -> Vec<Box<[u8]>> {
    let has_programs = |id| {
        let host = hosts.host(id);
        host.rules
            .routes
            .iter()
            .any(|route| matches!(route.action, Action::Cgi))
            .then_some(host.root)
            .flatten()
    };
    let mut roots: Vec<_> = hosts.iter().filter_map(has_programs).map(absolute).collect();
    roots.sort_unstable();
    roots.dedup();
    roots
}

fn site(
    preparation: &mut Preparation,
    options: &super::CgiOptions,
    number: HostNumber,
    root: Box<[u8]>,
) -> Result<CgiSite, CgiError> {
    let path = Path::new(OsStr::from_bytes(&root));
    let profile = Profile {
        identity: options.identity.clone(),
        limits: options.limits,
        new_privileges: options.new_privileges,
        confinement: options.confinement.clone(),
        umask: options.umask,
        ..Profile::new(path)
    };
    let profile = preparation.define(&profile)?;
    let folder = Arc::new(open(path)?);
    Ok(CgiSite { root, folder, profile, number })
}

fn open(path: &Path) -> Result<File, CgiError> {
    File::open(path).map_err(|source| CgiError::Open { path: path.to_owned(), source })
}
