//! The life of programs: prepared while the process has one thread and all its privileges, started
//! after the process has dropped privileges, and stopped with the server.

use super::{ProgramConfig, ProgramsShared, RunsPrograms, revise::reviser};
use crate::{
    cgi::{self, Cgi, CgiError},
    parts::{ParentFolder, PrivateWorkspace, RunDirs, SendSites, Spools},
    php::{self, Php, PhpError, PoolSpec, PoolSupervisor, Pools, PreparedPool},
};
use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};
use thiserror::Error;
use vermeil_config::ServeOptions;
use vermeil_files::{FileStore, SiteError};
use vermeil_log::Notices;
use vermeil_ops::{
    privileges::{self, When},
    sandbox::Rights,
};
use vermeil_settings::php::PhpOptions;
use vermeil_spawn::{Channel, Preparation, ProfileId, Remover, Revisions, SpawnSupervisorHandle};

/// Programs could not be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The private folder.
    #[error(
        "cannot make a private folder in {folder}: {source}; name another with the environment variable {variable}"
    )]
    Workspace {
        /// The folder.
        folder: PathBuf,
        /// The environment variable that names the folder.
        variable: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The folder for request bodies.
    #[error(
        "cannot keep request bodies in {folder}: {source}; name another folder by spool_folder in [programs]"
    )]
    Spool {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The spawner.
    #[error(transparent)]
    Spawner(#[from] vermeil_spawn::ProcessStartError),
    /// The line for changing the list of allowed programs.
    #[error("cannot keep a line to the spawner's keeper: {0}; raise the limit of open files?")]
    Revisions(io::Error),
    /// CGI.
    #[error(transparent)]
    Cgi(#[from] CgiError),
    /// PHP.
    #[error(transparent)]
    Php(#[from] PhpError),
    /// A folder for sending files.
    #[error(transparent)]
    SendRoot(#[from] SiteError),
}

/// Prepared programs.
pub struct ProgramSetup {
    php: Option<PhpOptions>,
    own: Option<(PreparedPool, Channel)>,
    /// The pools of single hosts.
    pools: Vec<(PoolSpec, ProfileId)>,
    /// The channel that starts pools, including pools that a reload brings.
    pools_channel: Option<Channel>,
    cgi: Option<Arc<Cgi>>,
    /// The line by which a reload may bring programs.
    revisions: Option<Revisions>,
    /// The channels of CGI, one per core.
    channels: Vec<Channel>,
    /// The keeper of the spawner, if there is one.
    keeper: Option<SpawnSupervisorHandle>,
    workspace: PrivateWorkspace,
    run_dirs: RunDirs,
    spool: PathBuf,
}

/// The private folder of a server, made by [`ProgramSetup::make_room`].
pub struct PrivateFolder(Option<PrivateWorkspace>);

impl ProgramSetup {
    /// Makes the private folder for `options`, owned by the server's user. Call this function
    /// before the process drops the superuser's privileges, because only the superuser may write in
    /// the folder of a service.
    ///
    /// # Errors
    /// The folder cannot be made, and programs need it.
    pub fn make_room(options: &ServeOptions) -> Result<PrivateFolder, SetupError> {
        if !has_programs(options) && options.file.is_none() {
            return Ok(PrivateFolder(None));
        }
        let ParentFolder { folder, variable } = PrivateWorkspace::parent();
        let made = PrivateWorkspace::create(&folder, privileges::owner(options)).and_then(|workspace| {
            if privileges::when(options) == When::BeforePrograms {
                workspace.give_away()?;
            }
            Ok(workspace)
        });
        match made {
            Ok(workspace) => Ok(PrivateFolder(Some(workspace))),
            Err(source) if has_programs(options) => Err(SetupError::Workspace { folder, variable, source }),
            // Only programs of a later reload would need the folder.
            Err(_) => Ok(PrivateFolder(None)),
        }
    }

    /// Prepares the programs of `options`, and a spawner for programs that a reload may bring. Call
    /// this function while the process has one thread.
    pub fn prepare(options: &ServeOptions, room: PrivateFolder) -> Result<Option<Self>, SetupError> {
        let Some(workspace) = room.0 else { return Ok(None) };
        match Self::prepare_now(options, workspace) {
            // Only programs of a later reload would need the spawner.
            Err(_) if !has_programs(options) => Ok(None),
            prepared => prepared.map(Some),
        }
    }

    fn prepare_now(options: &ServeOptions, workspace: PrivateWorkspace) -> Result<Self, SetupError> {
        let run_dirs = workspace.run_dirs();
        let spool = Spools::folder(&options.gateway);
        let php = options.php.clone();
        let own_php = php.as_ref().filter(|php| php.is_ours());
        let reviser = reviser(options, &run_dirs);
        let is_revisable = reviser.is_some();
        // Only a configuration file can ask for pools of hosts.
        if own_php.is_none() && !cgi::is_wanted(options) && !is_revisable {
            let (own, pools, pools_channel, cgi, revisions) = (None, Vec::new(), None, None, None);
            let (channels, keeper) = (Vec::new(), None);
            return Ok(Self {
                php,
                own,
                pools,
                pools_channel,
                cgi,
                revisions,
                channels,
                keeper,
                workspace,
                run_dirs,
                spool,
            });
        }
        let mut preparation = match reviser {
            Some(reviser) => vermeil_spawn::start_revisable(reviser)?,
            None => vermeil_spawn::start()?,
        };
        let content_bytes = options.gateway.content_bytes;
        let own =
            own_php.map(|php| php::prepare(php, content_bytes, &run_dirs, &mut preparation)).transpose()?;
        let pools = if is_revisable {
            Self::prepare_pools(options, &run_dirs, &mut preparation)?
        } else {
            Vec::new()
        };
        workspace.give_away().map_err(|source| {
            let ParentFolder { folder, variable } = PrivateWorkspace::parent();
            SetupError::Workspace { folder, variable, source }
        })?;
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
        Ok(Self {
            php,
            own,
            pools,
            pools_channel,
            cgi,
            revisions,
            channels,
            keeper,
            workspace,
            run_dirs,
            spool,
        })
    }

    fn prepare_pools(
        options: &ServeOptions,
        run_dirs: &RunDirs,
        preparation: &mut Preparation,
    ) -> Result<Vec<(PoolSpec, ProfileId)>, SetupError> {
        let prepared = php::wanted_by_hosts(options, run_dirs)?.into_iter().map(|wanted| {
            let profile = preparation.define(&wanted.profile(run_dirs)).map_err(PhpError::from)?;
            Ok((wanted, profile))
        });
        prepared.collect()
    }

    /// The access that the sandbox must keep.
    pub fn rights(&self) -> Rights<'_> {
        let connect_port = self.php.as_ref().and_then(|php| php.source.port());
        Rights { workspace: Some(self.workspace.path()), spool: Some(&self.spool), connect_port }
    }

    /// From now on another process removes the private folder.
    pub fn remove_by(&mut self, remover: Remover) {
        self.workspace.remove_by(remover);
    }

    /// The process id of the keeper, if there is one.
    pub fn keeper(&self) -> Option<u32> {
        self.keeper.as_ref().map(SpawnSupervisorHandle::pid)
    }

    /// Starts the programs, and waits until they are usable.
    pub fn start(
        self,
        options: &ServeOptions,
        store: &Arc<FileStore>,
        notices: &Arc<Notices>,
    ) -> Result<RunningPrograms, SetupError> {
        let connect_port = self.rights().connect_port;
        let Self {
            php,
            own,
            pools,
            pools_channel,
            cgi,
            revisions,
            channels,
            keeper,
            workspace,
            run_dirs,
            spool,
        } = self;
        // Tested as the user that the server is now.
        Spools::try_out(&spool).map_err(|source| SetupError::Spool { folder: spool.clone(), source })?;
        let cores = options.cpus.len();
        let (php, supervisor) = match (php, own) {
            (None, _) => (None, None),
            (Some(php), None) => (Some(Php::of_others(&php, cores, php::FIRST)), None),
            (Some(php), Some((prepared, channel))) => {
                let php = Php::own(&php, &prepared, cores);
                let supervisor = PoolSupervisor::start(prepared, channel, notices, &php)?;
                (Some(php), Some(supervisor))
            }
        };
        let of_hosts = Pools::new(run_dirs, pools_channel, cores, notices.clone(), connect_port)
            .map_err(|source| PhpError::Files { path: "the pools of hosts".into(), source })?;
        let begun = of_hosts.begin(pools, options.php_pools.running_max)?;
        let send_sites = SendSites::open(&options.gateway, &options.hosts, &SendSites::default(), store)?;
        let (options, revisions) = (options.gateway.clone(), revisions.map(Mutex::new));
        let answering = ProgramConfig { options, php, pools: begun.of_hosts, send_sites };
        let running = RunsPrograms { pools: of_hosts, supervisor, cgi, revisions };
        let shared = ProgramsShared::new(spool, store, notices.clone(), answering, running);
        Ok(RunningPrograms { shared, channels, keeper, workspace })
    }
}

/// Whether `options` ask for programs now.
pub fn has_programs(options: &ServeOptions) -> bool {
    options.php.is_some() || cgi::is_wanted(options) || options.hosts.pools().next().is_some()
}

/// Running programs.
pub struct RunningPrograms {
    /// The state of all cores.
    pub shared: Arc<ProgramsShared>,
    /// The channels of CGI, which the cores take.
    pub channels: Vec<Channel>,
    keeper: Option<SpawnSupervisorHandle>,
    workspace: PrivateWorkspace,
}

impl RunningPrograms {
    /// A summary of the programs' work, logged at the end.
    pub fn describe(&self) -> Option<String> {
        let ProgramConfig { php, pools, .. } = self.shared.program_config();
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

    /// Stops all programs in this order: first the supervisor, so no program restarts; then the
    /// running programs; then their files.
    pub fn stop(self) {
        let Self { shared, channels: _, keeper, workspace } = self;
        drop(shared.supervisor.lock().expect("nothing panics under this lock").take());
        shared.pools.stop();
        if let Some(keeper) = keeper {
            keeper.stop();
        }
        drop(workspace);
    }
}
