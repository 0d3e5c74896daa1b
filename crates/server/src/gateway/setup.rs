//! Programs from the start of a server to its end: prepared while the process is small and has all its rights, started
//! when it has given them up, ended with it.

use super::{Shared, Workspace};
use crate::{
    cgi::{self, Cgi, CgiError},
    files::{SiteError, Store},
    log::Notices,
    options::ServeOptions,
    php::{self, Php, PhpError, PhpOptions, PhpSource, Prepared, Supervisor},
    sandbox::Rights,
};
use std::{
    io,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
};
use thiserror::Error;
use vermeil_spawn::{Channel, Keeper};

/// Programs could not be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The private folder.
    #[error("cannot make a private folder in {folder}: {source}; name another with TMPDIR")]
    Workspace {
        /// Where.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The spawner.
    #[error(transparent)]
    Spawner(#[from] vermeil_spawn::StartError),
    /// CGI.
    #[error(transparent)]
    Cgi(#[from] CgiError),
    /// PHP.
    #[error(transparent)]
    Php(#[from] PhpError),
    /// A folder that files may be sent from.
    #[error(transparent)]
    SendRoot(#[from] SiteError),
}

/// Programs, prepared.
pub(crate) struct Setup {
    php: Option<PhpOptions>,
    own: Option<Own>,
    cgi: Option<Arc<Cgi>>,
    /// Of CGI, one for each core.
    channels: Vec<Channel>,
    /// Of the spawner, if there is one.
    keeper: Option<Keeper>,
    workspace: Workspace,
}

struct Own {
    prepared: Prepared,
    channel: Channel,
}

impl Setup {
    /// Prepares what `options` ask for, if they ask for programs. To be called before the process has other threads.
    pub(crate) fn prepare(options: &ServeOptions) -> Result<Option<Self>, SetupError> {
        let has_cgi = cgi::is_wanted(options);
        let php = options.php.clone();
        if php.is_none() && !has_cgi {
            return Ok(None);
        }
        let folder = Workspace::parent();
        let workspace =
            Workspace::create(&folder).map_err(|source| SetupError::Workspace { folder, source })?;
        let own_php =
            php.as_ref().filter(|php| !matches!(php.source, PhpSource::Unix(_) | PhpSource::Tcp(_)));
        if own_php.is_none() && !has_cgi {
            return Ok(Some(Self {
                php,
                own: None,
                cgi: None,
                channels: Vec::new(),
                keeper: None,
                workspace,
            }));
        }
        let mut preparation = vermeil_spawn::start()?;
        let content_bytes = options.gateway.content_bytes;
        let prepared =
            own_php.map(|php| php::prepare(php, content_bytes, &workspace, &mut preparation)).transpose()?;
        let cgi = has_cgi.then(|| cgi::prepare(options, &mut preparation)).transpose()?;
        let of_cgi = if has_cgi { options.cpus.len() } else { 0 };
        let (keeper, mut channels) = preparation.serve(of_cgi + usize::from(prepared.is_some()))?;
        let own = prepared.map(|prepared| {
            let channel = channels.pop().expect("one more was asked for");
            Own { prepared, channel }
        });
        Ok(Some(Self { php, own, cgi, channels, keeper: Some(keeper), workspace }))
    }

    /// What must not be given up.
    pub(crate) fn rights(&self) -> Rights<'_> {
        let connect_port = match self.php.as_ref().map(|php| &php.source) {
            Some(PhpSource::Tcp(addr)) => Some(addr.port()),
            _ => None,
        };
        Rights { workspace: Some(self.workspace.path()), connect_port }
    }

    /// Starts them, and waits until they can be used.
    pub(crate) fn start(
        self,
        options: &ServeOptions,
        store: &Arc<Store>,
        notices: &Arc<Notices>,
    ) -> Result<RunningPrograms, SetupError> {
        let Self { php, own, cgi, channels, keeper, workspace } = self;
        let cores = options.cpus.len();
        let (php, supervisor) = match (php, own) {
            (None, _) => (None, None),
            (Some(php), None) => (Some(Php::of_others(&php, cores)), None),
            (Some(php), Some(Own { prepared, channel })) => {
                let restarts = Arc::new(AtomicU64::new(0));
                let php = Php::own(&php, &prepared, restarts.clone(), cores);
                let supervisor = Supervisor::start(prepared, channel, notices, restarts)?;
                (Some(php), Some(supervisor))
            }
        };
        let spool = workspace.spool();
        let shared = Shared::new(options.gateway.clone(), spool, store, notices.clone(), php, cgi)?;
        Ok(RunningPrograms { shared, channels, supervisor, keeper, workspace })
    }
}

/// Programs that run.
pub(crate) struct RunningPrograms {
    pub(crate) shared: Arc<Shared>,
    /// Of CGI, for the cores to take.
    pub(crate) channels: Vec<Channel>,
    supervisor: Option<Supervisor>,
    keeper: Option<Keeper>,
    workspace: Workspace,
}

impl RunningPrograms {
    /// What they did, in words, for the end.
    pub(crate) fn describe(&self) -> Option<String> {
        let counts = self.shared.php.as_ref()?.snapshot();
        Some(format!(
            "php: {} requests, {} refused, {} given up, {} repeated, {} failed; the pool was started again {} times",
            counts.requests, counts.refused, counts.given_up, counts.retried, counts.failed, counts.restarts
        ))
    }

    /// Ends them: nobody starts anything again, then everything that runs, then what it left behind.
    pub(crate) fn stop(self) {
        let Self { shared: _, channels: _, supervisor, keeper, workspace } = self;
        drop(supervisor);
        if let Some(keeper) = keeper {
            keeper.stop();
        }
        drop(workspace);
    }
}
