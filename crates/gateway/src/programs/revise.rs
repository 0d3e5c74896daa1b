//! Prepares the programs of a new configuration for a running server, so that the server can refuse
//! the configuration as a whole. Then puts the programs into service.
//!
//! The server cannot decide which programs may be started. The keeper reads the configuration
//! itself (`reviser`), and the server finds its programs in the keeper's list. Leaves out reading
//! and swapping the rest. Tested through the binary
//! (`crates/e2e/tests/e2e/host_cgi.rs`, `php/reload.rs`).

use super::{ProgramConfig, ProgramsShared, exposure};
use crate::{
    cgi::{self, Cgi, CgiError},
    parts::{RunDirs, SendSites},
    php::{self, PhpError, Revised},
};
use std::{path::PathBuf, sync::Arc};
use vermeil_config::{GivenParts, ServeOptions, Surroundings};
use vermeil_files::SiteError;
use vermeil_settings::gateway::GatewayOptions;
use vermeil_spawn::{DefineError, Reviser};

/// The programs of a new configuration cannot be provided.
#[derive(Debug, thiserror::Error)]
pub enum ReviseError {
    /// There is no spawner to start the programs.
    #[error("the new configuration has programs, and there is no spawner to start them; restart the server")]
    NoSpawner,
    /// Programs would have access to more than is allowed.
    #[error("{0}")]
    Exposed(String),
    /// CGI.
    #[error(transparent)]
    Cgi(#[from] CgiError),
    /// PHP.
    #[error(transparent)]
    Php(#[from] PhpError),
    /// New CGI programs, while the file has another `[cgi]` than the server.
    #[error(
        "cannot use the new programs of {root}: [cgi] is not as it was when the first host got programs, and only a \
         restart changes [cgi]; restart the server, or write the former [cgi] again"
    )]
    OtherCgi {
        /// The folder of the programs.
        root: PathBuf,
    },
    /// A folder for sending files.
    #[error(transparent)]
    SendRoot(#[from] SiteError),
}

impl ReviseError {
    /// The same, with the reason if the keeper has read another `[cgi]` than the server keeps.
    /// `fixed` are the keys whose change the server ignores.
    pub fn explained(self, fixed: &[&str]) -> Self {
        match self {
            Self::Cgi(CgiError::Define(DefineError::Unlisted { root })) if fixed.contains(&"cgi") => {
                Self::OtherCgi { root }
            }
            other => other,
        }
    }
}

/// Returns the function by which the keeper reads the list of allowed programs again. `None` for a
/// server without a configuration file. The part of `[cgi]` that concerns all hosts stays as at the
/// start, if there were programs then. Otherwise the part is as in the file, because the keeper
/// does not hear which reload the server accepts.
pub(super) fn reviser(options: &ServeOptions, run_dirs: &RunDirs) -> Option<Reviser> {
    let file = options.file.clone()?;
    let of_all = cgi::is_wanted(options).then(|| options.cgi.clone());
    let run_dirs = run_dirs.clone();
    // The keeper may run only on its instance's cpus and decides nothing about cpus.
    let given = GivenParts::Instances(options.instances.clone());
    Some(Box::new(move || {
        let around = Surroundings::here().map_err(|error| error.to_string())?;
        let around = Surroundings { given: given.clone(), ..around };
        let options = vermeil_config::load(&file, &around).map_err(|error| error.to_string())?;
        let of_php = php::profiles(&options, &run_dirs).map_err(|error| error.to_string())?;
        let of_all = of_all.as_ref().unwrap_or(&options.cgi);
        Ok(cgi::profiles(of_all, &options.hosts).chain(of_php).collect())
    }))
}

/// The prepared programs of a new configuration. No core uses them yet.
pub struct Revision {
    options: GatewayOptions,
    send_sites: SendSites,
    php: Revised,
    /// CGI, with its sites.
    cgi: Option<(Arc<Cgi>, cgi::ProgramSites)>,
}

impl ProgramsShared {
    /// Prepares the programs that `new` asks for, for a server that runs with `old`.
    ///
    /// # Errors
    /// A program cannot be provided. Nothing has changed.
    pub fn revise(&self, old: &ServeOptions, new: &ServeOptions) -> Result<Revision, ReviseError> {
        let revisions = self.revisions.as_ref().ok_or(ReviseError::NoSpawner)?;
        if let Some(why) = exposure(new) {
            return Err(ReviseError::Exposed(why));
        }
        let before = self.program_config().send_sites;
        let send_sites = SendSites::open(&new.gateway, &new.hosts, &before, &self.store)?;
        let mut revisions = revisions.lock().expect("nothing panics under this lock");
        let mut rereading = revisions.rereading();
        let cgi = match self.cgi() {
            Some(cgi) => Some(cgi.clone()),
            None => new.hosts.have_cgi().then(|| Cgi::first(&new.cgi)).transpose()?,
        };
        let cgi = cgi.map(|cgi| cgi.revise(&new.hosts, &mut rereading).map(|sites| (cgi, sites)));
        let cgi = cgi.transpose()?;
        let php = self.program_config().php;
        let php = self.pools.revise(old, php.as_ref(), new, &mut rereading)?;
        Ok(Revision { options: new.gateway.clone(), send_sites, php, cgi })
    }

    /// Makes the new programs available. Returns the configuration that each core is to use.
    pub fn begin(&self, revision: &mut Revision) -> ProgramConfig {
        if let Some((cgi, sites)) = &revision.cgi {
            cgi.add(sites);
            self.begin_cgi(cgi);
        }
        self.pools.take(&mut revision.php);
        revision.answering()
    }

    /// Releases the parts that only the old configuration used, because no core uses the old
    /// configuration any more.
    pub fn end_old(&self, revision: Revision) {
        let before = self.set_answering(revision.answering());
        let Revision { php, cgi, .. } = revision;
        if let Some((cgi, sites)) = cgi {
            cgi.keep_only(sites);
        }
        self.pools.retire_others(&php);
        let goes_on = |old: &Arc<php::Php>| php.php.as_ref().is_some_and(|new| Arc::ptr_eq(old, new));
        let supervisor = &mut *self.supervisor.lock().expect("nothing panics under this lock");
        if let Some(old) = before.php.filter(|old| !goes_on(old)) {
            match supervisor.take() {
                Some(supervisor) => self.pools.retire_first(supervisor, old),
                None => self.pools.retire_external(old),
            }
        }
    }
}

impl Revision {
    fn answering(&self) -> ProgramConfig {
        let Revised { php, of_hosts, .. } = &self.php;
        ProgramConfig {
            options: self.options.clone(),
            php: php.clone(),
            pools: of_hosts.clone(),
            send_sites: self.send_sites.clone(),
        }
    }
}
