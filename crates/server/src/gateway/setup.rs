//! Programs from the start of a server to its end: prepared while the process is small and has all its rights, started
//! when it has given them up, ended with it.

use super::{Answering, RunsPrograms, Shared, Workspace, revise::reviser, sendfile::SendSites};
use crate::{
    cgi::{self, Cgi, CgiError},
    files::{SiteError, Store},
    log::Notices,
    options::ServeOptions,
    php::{self, Php, PhpError, PhpOptions, PhpSource, Pools, Prepared, Supervisor, Wanted},
    sandbox::Rights,
};
use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, atomic::AtomicU64},
};
use thiserror::Error;
use vermeil_spawn::{Channel, Keeper, Preparation, ProfileId, Revisions};

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
    /// The pools that hosts have for themselves.
    pools: Vec<(Wanted, ProfileId)>,
    /// By which pools are started, those that a reload may bring included.
    pools_channel: Option<Channel>,
    cgi: Option<Arc<Cgi>>,
    /// By which a reload may bring programs.
    revisions: Option<Revisions>,
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
        let folder = Workspace::parent();
        let workspace =
            Workspace::create(&folder, server).map_err(|source| SetupError::Workspace { folder, source })?;
        let php = options.php.clone();
        let own_php = php.as_ref().filter(|php| php.is_ours());
        let reviser = reviser(options, workspace.grounds());
        let is_revisable = reviser.is_some();
        // Pools of hosts are asked for by a file only.
        if own_php.is_none() && !cgi::is_wanted(options) && !is_revisable {
            let (own, pools, pools_channel, cgi, revisions) = (None, Vec::new(), None, None, None);
            let (channels, keeper) = (Vec::new(), None);
            return Ok(Self { php, own, pools, pools_channel, cgi, revisions, channels, keeper, workspace });
        }
        let mut preparation = match reviser {
            Some(reviser) => vermeil_spawn::start_revisable(reviser)?,
            None => vermeil_spawn::start()?,
        };
        let (content_bytes, grounds) = (options.gateway.content_bytes, workspace.grounds());
        let own =
            own_php.map(|php| php::prepare(php, content_bytes, grounds, &mut preparation)).transpose()?;
        let pools = if is_revisable {
            Self::prepare_pools(options, &workspace, &mut preparation)?
        } else {
            Vec::new()
        };
        let has_cgi = cgi::is_wanted(options);
        let cgi = has_cgi.then(|| cgi::prepare(options, &mut preparation)).transpose()?;
        let of_cgi = if has_cgi || is_revisable { options.cpus.len() } else { 0 };
        let wanted = of_cgi + usize::from(own.is_some()) + usize::from(is_revisable);
        let (keeper, mut channels) = preparation.serve(wanted)?;
        let mut channel = || channels.pop().expect("as many as were asked for");
        let own = own.map(|prepared| (prepared, channel()));
        let pools_channel = is_revisable.then(&mut channel);
        let revisions = is_revisable.then(|| keeper.revisions()).transpose();
        let revisions = revisions.map_err(SetupError::Revisions)?;
        let (cgi, keeper) = (cgi.map(cgi::PreparedCgi::share), Some(keeper));
        Ok(Self { php, own, pools, pools_channel, cgi, revisions, channels, keeper, workspace })
    }

    fn prepare_pools(
        options: &ServeOptions,
        workspace: &Workspace,
        preparation: &mut Preparation,
    ) -> Result<Vec<(Wanted, ProfileId)>, SetupError> {
        let grounds = workspace.grounds();
        let folder = workspace.path().to_owned();
        php::make_folders(grounds).map_err(|source| SetupError::Workspace { folder, source })?;
        let prepared = php::wanted_by_hosts(options, grounds)?.into_iter().map(|wanted| {
            wanted.make_home()?;
            let profile = preparation.define(&wanted.profile(grounds)).map_err(PhpError::from)?;
            Ok((wanted, profile))
        });
        prepared.collect()
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
        let connect_port = self.rights().connect_port;
        let Self { php, own, pools, pools_channel, cgi, revisions, channels, keeper, workspace } = self;
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
        let grounds = workspace.grounds().clone();
        let of_hosts = Pools::new(grounds, pools_channel, cores, notices.clone(), connect_port)
            .map_err(|source| PhpError::Files { path: "the pools of hosts".into(), source })?;
        let begun = of_hosts.begin(pools, options.php_pools.running_max)?;
        let send_sites = SendSites::open(&options.gateway, &options.hosts, &SendSites::default(), store)?;
        let (options, revisions) = (options.gateway.clone(), revisions.map(Mutex::new));
        let answering = Answering { options, php, pools: begun.of_hosts, send_sites };
        let running = RunsPrograms { pools: of_hosts, supervisor, cgi, revisions };
        let spool = workspace.grounds().spool();
        let shared = Shared::new(spool, store, notices.clone(), answering, running);
        Ok(RunningPrograms { shared, channels, keeper, workspace })
    }
}

/// Programs that run.
pub(crate) struct RunningPrograms {
    pub(crate) shared: Arc<Shared>,
    /// Of CGI, for the cores to take.
    pub(crate) channels: Vec<Channel>,
    keeper: Option<Keeper>,
    workspace: Workspace,
}

impl RunningPrograms {
    /// What they did, in words, for the end.
    pub(crate) fn describe(&self) -> Option<String> {
        let Answering { php, pools, .. } = self.shared.answering();
        let present = php.iter().chain(pools.values()).map(|php| php.snapshot());
        let all: Vec<_> = present.chain(self.shared.pools.past()).collect();
        let mut sum = *all.first()?;
        for counts in &all[1..] {
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
        let Self { shared, channels: _, keeper, workspace } = self;
        drop(shared.supervisor.lock().expect("nothing panics under this lock").take());
        shared.pools.stop();
        if let Some(keeper) = keeper {
            keeper.stop();
        }
        drop(workspace);
    }
}
