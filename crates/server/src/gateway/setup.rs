//! Programs from the start of a server to its end: prepared while the process is small and has all its rights, started
//! when it has given them up, ended with it.

use super::{Answering, Shared, Workspace};
use crate::{
    cgi::{self, Cgi, CgiError},
    files::{SiteError, Store},
    log::Notices,
    options::ServeOptions,
    php::{self, Php, PhpError, PhpOptions, PhpSource, Pools, Prepared, PreparedPools, Supervisor},
    sandbox::Rights,
};
use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, atomic::AtomicU64},
};
use thiserror::Error;
use vermeil_spawn::{Channel, Keeper, Revisions};

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
    /// The way to change what programs there may be.
    #[error("cannot keep a line to the spawner's keeper: {0}; raise the limit of open files?")]
    Revisions(io::Error),
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
    own: Option<(Prepared, Channel)>,
    pools: Option<(PreparedPools, Channel)>,
    cgi: Option<Arc<Cgi>>,
    /// By which a reload may bring programs.
    revisions: Option<Arc<Mutex<Revisions>>>,
    /// Of CGI, one for each core.
    channels: Vec<Channel>,
    /// Of the spawner, if there is one.
    keeper: Option<Keeper>,
    workspace: Workspace,
}

impl Setup {
    /// Prepares what `options` ask for, and a spawner for the programs that a reload may bring. To be called before the
    /// process has other threads; `server` is who it will be then, if that is another.
    pub(crate) fn prepare(
        options: &ServeOptions,
        server: Option<(u32, u32)>,
    ) -> Result<Option<Self>, SetupError> {
        let has_any =
            options.php.is_some() || cgi::is_wanted(options) || options.hosts.pools().next().is_some();
        if has_any {
            return Self::prepare_now(options, server).map(Some);
        }
        // What nobody may ever ask for keeps no server from starting.
        Ok(options.file.as_ref().and_then(|_| Self::prepare_now(options, server).ok()))
    }

    fn prepare_now(options: &ServeOptions, server: Option<(u32, u32)>) -> Result<Self, SetupError> {
        let has_cgi = cgi::is_wanted(options);
        let has_pools = options.hosts.pools().next().is_some();
        let php = options.php.clone();
        let folder = Workspace::parent();
        let workspace =
            Workspace::create(&folder, server).map_err(|source| SetupError::Workspace { folder, source })?;
        let own_php =
            php.as_ref().filter(|php| !matches!(php.source, PhpSource::Unix(_) | PhpSource::Tcp(_)));
        let reviser = cgi::reviser(options);
        let may_have_cgi = has_cgi || reviser.is_some();
        if own_php.is_none() && !may_have_cgi && !has_pools {
            let (own, pools, cgi, revisions, channels, keeper) = (None, None, None, None, Vec::new(), None);
            return Ok(Self { php, own, pools, cgi, revisions, channels, keeper, workspace });
        }
        let mut preparation = match reviser {
            Some(reviser) => vermeil_spawn::start_revisable(reviser)?,
            None => vermeil_spawn::start()?,
        };
        let content_bytes = options.gateway.content_bytes;
        let own =
            own_php.map(|php| php::prepare(php, content_bytes, &workspace, &mut preparation)).transpose()?;
        let pools = has_pools.then(|| {
            let pools = options.hosts.pools();
            php::prepare_pools(pools, &options.php_pools, content_bytes, &workspace, &mut preparation)
        });
        let pools = pools.transpose()?;
        let cgi = has_cgi.then(|| cgi::prepare(options, &mut preparation)).transpose()?;
        let of_cgi = if may_have_cgi { options.cpus.len() } else { 0 };
        let wanted = of_cgi + usize::from(own.is_some()) + usize::from(pools.is_some());
        let (keeper, mut channels) = preparation.serve(wanted)?;
        let mut channel = || channels.pop().expect("as many as were asked for");
        let own = own.map(|prepared| (prepared, channel()));
        let pools = pools.map(|prepared| (prepared, channel()));
        let revisions = keeper.revisions().map_err(SetupError::Revisions)?;
        let revisions = may_have_cgi.then(|| Arc::new(Mutex::new(revisions)));
        let cgi = cgi.zip(revisions.clone()).map(|(prepared, revisions)| prepared.share(revisions));
        Ok(Self { php, own, pools, cgi, revisions, channels, keeper: Some(keeper), workspace })
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
        let Self { php, own, pools, cgi, revisions, channels, keeper, workspace } = self;
        let cores = options.cpus.len();
        let (php, supervisor) = match (php, own) {
            (None, _) => (None, None),
            (Some(php), None) => (Some(Php::of_others(&php, cores)), None),
            (Some(php), Some((prepared, channel))) => {
                let restarts = Arc::new(AtomicU64::new(0));
                let php = Php::own(&php, &prepared, restarts.clone(), cores);
                let supervisor = Supervisor::start(prepared, channel, notices, restarts)?;
                (Some(php), Some(supervisor))
            }
        };
        let pools = pools.map(|(prepared, channel)| Pools::start(prepared, channel, cores, notices));
        let pools = pools.transpose()?;
        let by_options = pools.as_ref().map(Pools::by_options).unwrap_or_default();
        let answering = Answering { php, pools: by_options, cgi, revisions };
        let spool = workspace.spool();
        let shared = Shared::new(options.gateway.clone(), spool, store, notices.clone(), answering)?;
        Ok(RunningPrograms { shared, channels, supervisor, pools, keeper, workspace })
    }
}

/// Programs that run.
pub(crate) struct RunningPrograms {
    pub(crate) shared: Arc<Shared>,
    /// Of CGI, for the cores to take.
    pub(crate) channels: Vec<Channel>,
    supervisor: Option<Supervisor>,
    pools: Option<Pools>,
    keeper: Option<Keeper>,
    workspace: Workspace,
}

impl RunningPrograms {
    /// What they did, in words, for the end.
    pub(crate) fn describe(&self) -> Option<String> {
        let all: Vec<_> = self.shared.php.iter().chain(self.shared.pools.values()).collect();
        let mut sum = all.first()?.snapshot();
        for counts in all[1..].iter().map(|php| php.snapshot()) {
            sum.requests += counts.requests;
            sum.refused += counts.refused;
            sum.given_up += counts.given_up;
            sum.retried += counts.retried;
            sum.failed += counts.failed;
            sum.restarts += counts.restarts;
        }
        let pool = if all.len() == 1 { "the pool was" } else { "pools were" };
        Some(format!(
            "php: {} requests, {} refused, {} given up, {} repeated, {} failed; {pool} started again {} times",
            sum.requests, sum.refused, sum.given_up, sum.retried, sum.failed, sum.restarts
        ))
    }

    /// Ends them: nobody starts anything again, then everything that runs, then what it left behind.
    pub(crate) fn stop(self) {
        let Self { shared: _, channels: _, supervisor, pools, keeper, workspace } = self;
        drop((supervisor, pools));
        if let Some(keeper) = keeper {
            keeper.stop();
        }
        drop(workspace);
    }
}
