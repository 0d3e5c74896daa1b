//! Programs from the start of a server to its end: prepared while the process is small and has all its rights, started
//! when it has given them up, ended with it.

use super::{Shared, Workspace};
use crate::{
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
    /// PHP.
    #[error(transparent)]
    Php(#[from] PhpError),
    /// A folder that files may be sent from.
    #[error(transparent)]
    SendRoot(#[from] SiteError),
}

/// Programs, prepared.
pub(crate) struct Setup {
    php: PhpOptions,
    own: Option<Own>,
    workspace: Workspace,
}

struct Own {
    prepared: Prepared,
    channel: Channel,
    keeper: Keeper,
}

impl Setup {
    /// Prepares what `options` ask for, if they ask for programs. To be called before the process has other threads.
    pub(crate) fn prepare(options: &ServeOptions) -> Result<Option<Self>, SetupError> {
        let Some(php) = options.php.clone() else { return Ok(None) };
        let folder = Workspace::parent();
        let workspace =
            Workspace::create(&folder).map_err(|source| SetupError::Workspace { folder, source })?;
        let own = match php.source {
            PhpSource::Own | PhpSource::Program(_) => {
                let mut preparation = vermeil_spawn::start()?;
                let content_bytes = options.gateway.content_bytes;
                let prepared = php::prepare(&php, content_bytes, &workspace, &mut preparation)?;
                let (keeper, mut channels) = preparation.serve(1)?;
                let channel = channels.pop().expect("one was asked for");
                Some(Own { prepared, channel, keeper })
            }
            PhpSource::Unix(_) | PhpSource::Tcp(_) => None,
        };
        Ok(Some(Self { php, own, workspace }))
    }

    /// What must not be given up.
    pub(crate) fn rights(&self) -> Rights<'_> {
        let connect_port = match self.php.source {
            PhpSource::Tcp(addr) => Some(addr.port()),
            PhpSource::Own | PhpSource::Program(_) | PhpSource::Unix(_) => None,
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
        let Self { php, own, workspace } = self;
        let cores = options.cpus.len();
        let (php, supervisor, keeper) = match own {
            None => (Php::of_others(&php, cores), None, None),
            Some(Own { prepared, channel, keeper }) => {
                let restarts = Arc::new(AtomicU64::new(0));
                let php = Php::own(&php, &prepared, restarts.clone(), cores);
                let supervisor = Supervisor::start(prepared, channel, notices, restarts)?;
                (php, Some(supervisor), Some(keeper))
            }
        };
        let spool = workspace.spool();
        let shared = Shared::new(options.gateway.clone(), spool, store, notices.clone(), Some(php))?;
        Ok(RunningPrograms { shared, supervisor, keeper, workspace })
    }
}

/// Programs that run.
pub(crate) struct RunningPrograms {
    pub(crate) shared: Arc<Shared>,
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
        let Self { shared: _, supervisor, keeper, workspace } = self;
        drop(supervisor);
        if let Some(keeper) = keeper {
            keeper.stop();
        }
        drop(workspace);
    }
}
