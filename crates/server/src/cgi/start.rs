//! What the spawner is told: which folders have programs, and who those run as.
//!
//! Each folder that has programs gets a profile of its own, before the server listens to anybody. For a reload the keeper
//! reads the configuration itself (`gateway/revise.rs`), and the server finds its profiles among what was read: it cannot say
//! what may be started. Sites are added before the hosts that have them are served, and forgotten after the last has
//! gone. Leaves out starting the spawner (`gateway/setup.rs`). Tested through the binary
//! (`crates/cli/tests/e2e/host_cgi.rs`).

use super::{
    Cgi, CgiOptions, CgiSite, SiteKey,
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
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};
use thiserror::Error;
use vermeil_spawn::{DefineError, NewPrivileges, Preparation, Profile, ProfileId, Rereading};

/// Folders with programs, by what tells them apart.
pub(crate) type Sites = HashMap<SiteKey, Arc<CgiSite>>;

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

/// Who the programs of `hosts` run as, and within what, once for each way to run them.
pub(crate) fn profiles(of_all: &CgiOptions, hosts: &Hosts) -> impl Iterator<Item = Profile> {
    sites_of(hosts).into_iter().map(|key| profile(of_all, &key))
}

/// What was said to the keeper of CGI, before there is a spawner.
pub(crate) struct PreparedCgi {
    options: CgiOptions,
    sites: Sites,
    null: File,
}

/// Says to the keeper what programs there will be.
///
/// # Errors
/// When they cannot be run as they should.
pub(crate) fn prepare(
    options: &ServeOptions,
    preparation: &mut Preparation,
) -> Result<PreparedCgi, CgiError> {
    let mut sites = HashMap::new();
    for (number, key) in sites_of(&options.hosts).into_iter().enumerate() {
        let profile = preparation.define(&profile(&options.cgi, &key))?;
        let site = site(&key, profile, HostNumber(number))?;
        sites.insert(key, site);
    }
    Ok(PreparedCgi { options: options.cgi.clone(), sites, null: open(Path::new("/dev/null"))? })
}

impl PreparedCgi {
    /// As all cores share it.
    pub(crate) fn share(self) -> Arc<Cgi> {
        let Self { options, sites, null } = self;
        Arc::new(Cgi {
            turns: Turns::new(options.bounds),
            numbers: AtomicUsize::new(sites.len()),
            requests: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            sites: RwLock::new(sites),
            options,
            null,
        })
    }
}

impl Cgi {
    /// For a server that had no programs when it started: without sites yet.
    ///
    /// # Errors
    /// `/dev/null` cannot be opened.
    pub(crate) fn first(options: &CgiOptions) -> Result<Arc<Self>, CgiError> {
        let null = open(Path::new("/dev/null"))?;
        Ok(PreparedCgi { options: options.clone(), sites: Sites::new(), null }.share())
    }

    /// The sites of a new configuration, none of which is served yet.
    ///
    /// # Errors
    /// One of them cannot be had. Nothing has changed.
    pub(crate) fn revise(&self, hosts: &Hosts, rereading: &mut Rereading<'_>) -> Result<Sites, CgiError> {
        let keys = sites_of(hosts);
        let (mut sites, new): (Sites, Vec<SiteKey>) = {
            let present = self.sites.read().expect("nothing panics under this lock");
            let (known, new): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| present.contains_key(key));
            (known.into_iter().map(|key| (key.clone(), present[&key].clone())).collect(), new)
        };
        for key in new {
            let profile = rereading.find(&profile(&self.options, &key))?;
            let number = HostNumber(self.numbers.fetch_add(1, Ordering::Relaxed));
            let site = site(&key, profile, number)?;
            sites.insert(key, site);
        }
        Ok(sites)
    }

    /// Serves these sites too.
    pub(crate) fn add(&self, sites: &Sites) {
        let mut present = self.sites.write().expect("nothing panics under this lock");
        present.extend(sites.iter().map(|(key, site)| (key.clone(), site.clone())));
    }

    /// Forgets all other sites.
    pub(crate) fn keep_only(&self, sites: Sites) {
        *self.sites.write().expect("nothing panics under this lock") = sites;
    }
}

/// The folders that have programs, each once for every way to run them.
fn sites_of(hosts: &Hosts) -> HashSet<SiteKey> {
    let has_programs = |id| {
        let host = hosts.host(id);
        host.rules
            .routes
            .iter()
            .any(|route| matches!(route.action, Action::Cgi))
            .then(|| host.document_root())
            .flatten()
            .map(|root| (root.into(), host.rules.cgi.clone()))
    };
    hosts.iter().filter_map(has_programs).collect()
}

/// Who the programs of a site run as, and within what.
fn profile(of_all: &CgiOptions, (root, programs): &SiteKey) -> Profile {
    let path = Path::new(OsStr::from_bytes(root));
    let programs = programs.clone().unwrap_or_default();
    let user = programs.user.as_ref().map(|user| user.identity().clone());
    let new_privileges = match programs.new_privileges {
        NewPrivileges::Allowed => NewPrivileges::Allowed,
        NewPrivileges::Refused => of_all.new_privileges,
    };
    let confinement = programs.confinement.clone().map(|mut confinement| {
        // Or it could not even be executed.
        confinement.read.push(path.to_owned());
        confinement
    });
    Profile {
        identity: user.or_else(|| of_all.identity.clone()),
        limits: programs.limits.or(of_all.limits),
        cgroup: programs.cgroup.clone(),
        new_privileges,
        confinement: confinement.or_else(|| of_all.confinement.clone()),
        umask: of_all.umask,
        ..Profile::new(path)
    }
}

fn site(
    (root, programs): &SiteKey,
    profile: ProfileId,
    number: HostNumber,
) -> Result<Arc<CgiSite>, CgiError> {
    let folder = Arc::new(open(Path::new(OsStr::from_bytes(root)))?);
    let programs = programs.clone().unwrap_or_default();
    Ok(Arc::new(CgiSite { root: root.clone(), folder, profile, number, programs }))
}

fn open(path: &Path) -> Result<File, CgiError> {
    File::open(path).map_err(|source| CgiError::Open { path: path.to_owned(), source })
}
