//! Prepares the spawner's profiles: the folders with programs, and the users of the programs.
//!
//! Each folder with programs gets a profile before the server listens. On a reload the keeper reads
//! the configuration itself (`programs/revise.rs`), and the server looks up the profiles in the
//! keeper's list, because the server must not decide which programs may be started. A site is added
//! before hosts use the site, and removed after the last host is gone. Leaves out starting the
//! spawner (`programs/setup.rs`). Tested through the binary (`crates/e2e/tests/e2e/host_cgi.rs`).

use super::{Cgi, CgiOptions, CgiSite, SiteKey, find::SiteFolder};
use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs::File,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};
use thiserror::Error;
use vermeil_config::ServeOptions;
use vermeil_routing::{
    hosts::{Action, Hosts},
    turns::{HostNumber, HostTurns},
};
use vermeil_spawn::{DefineError, NewPrivileges, Preparation, Profile, ProfileId, Rereading};

/// Folders with programs, by their keys.
pub(crate) type ProgramSites = HashMap<SiteKey, Arc<CgiSite>>;

/// Programs cannot be run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CgiError {
    /// The server may not run the programs.
    #[error(transparent)]
    Define(#[from] DefineError),
    /// A folder or `/dev/null`.
    #[error("cannot open {path} for CGI: {source}")]
    Open {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Whether any host has programs.
pub(crate) fn is_wanted(options: &ServeOptions) -> bool {
    !sites_of(&options.hosts).is_empty()
}

/// The profiles of the programs of `hosts`: the user and the confinement, a profile per site.
pub fn profiles(of_all: &CgiOptions, hosts: &Hosts) -> impl Iterator<Item = Profile> {
    sites_of(hosts).into_iter().map(|key| profile(of_all, &key))
}

/// CGI as prepared by the keeper, before the spawner starts.
pub(crate) struct PreparedCgi {
    options: CgiOptions,
    sites: ProgramSites,
    null: File,
}

/// Defines the profiles of all programs.
///
/// # Errors
/// The programs cannot run as configured.
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
    /// Makes the state that all cores share.
    pub(crate) fn share(self) -> Arc<Cgi> {
        let Self { options, sites, null } = self;
        Arc::new(Cgi {
            turns: HostTurns::new(options.bounds),
            numbers: AtomicUsize::new(sites.len()),
            requests: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            times: Mutex::default(),
            sites: RwLock::new(sites),
            options,
            null,
        })
    }
}

impl Cgi {
    /// For a server that started without programs. Has no sites yet.
    pub fn first(options: &CgiOptions) -> Result<Arc<Self>, CgiError> {
        let null = open(Path::new("/dev/null"))?;
        Ok(PreparedCgi { options: options.clone(), sites: ProgramSites::new(), null }.share())
    }

    /// The sites of a new configuration. The server does not use the new sites yet.
    ///
    /// # Errors
    /// A site cannot be provided. Nothing has changed.
    pub fn revise(&self, hosts: &Hosts, rereading: &mut Rereading<'_>) -> Result<ProgramSites, CgiError> {
        let keys = sites_of(hosts);
        let (mut sites, new): (ProgramSites, Vec<SiteKey>) = {
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

    /// Adds these sites.
    pub fn add(&self, sites: &ProgramSites) {
        let mut present = self.sites.write().expect("nothing panics under this lock");
        present.extend(sites.iter().map(|(key, site)| (key.clone(), site.clone())));
    }

    /// Removes all other sites.
    pub fn keep_only(&self, sites: ProgramSites) {
        *self.sites.write().expect("nothing panics under this lock") = sites;
    }
}

/// The sites of `hosts`. A folder appears once for each set of options.
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

/// The profile of a site's programs: user and confinement.
fn profile(of_all: &CgiOptions, (root, programs): &SiteKey) -> Profile {
    let path = Path::new(OsStr::from_bytes(root));
    let programs = programs.clone().unwrap_or_default();
    let user = programs.user.as_ref().map(|user| user.identity().clone());
    let new_privileges = match programs.new_privileges {
        NewPrivileges::Allowed => NewPrivileges::Allowed,
        NewPrivileges::Refused => of_all.new_privileges,
    };
    let confinement = programs.confinement.clone().map(|mut confinement| {
        // Without read access the program could not be executed.
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
    let folder = SiteFolder::new(open(Path::new(OsStr::from_bytes(root)))?);
    let programs = programs.clone().unwrap_or_default();
    Ok(Arc::new(CgiSite { root: root.clone(), folder, profile, number, programs }))
}

fn open(path: &Path) -> Result<File, CgiError> {
    File::open(path).map_err(|source| CgiError::Open { path: path.to_owned(), source })
}
