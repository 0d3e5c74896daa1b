//! The programs of a server: their configuration, their state and their life.
//!
//! Reading order: [`ProgramsShared`] (the state of all cores), [`GatewayRequest`] (a request that
//! may be for a program), `setup` (from start to end), `revise` (a new configuration). The modules
//! `php` and `cgi` run the programs, and the server turns their results into answers.

mod exposure;
mod request;
mod revise;
mod setup;

pub use exposure::exposure;
pub use request::{GatewayRequest, ProgramReason};
pub use revise::{ReviseError, Revision};
pub use setup::{ProgramSetup, RunningPrograms, SetupError, has_programs};

use crate::{
    cgi::Cgi,
    parts::{ErrorSink, SendSites, Spools},
    php::{Php, PoolSupervisor, Pools},
};
use std::{
    cell::RefCell,
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
};
use vermeil_files::FileStore;
use vermeil_log::Notices;
use vermeil_routing::hosts::HostPhp;
use vermeil_settings::{gateway::GatewayOptions, php::PoolOptions};
use vermeil_spawn::Revisions;

thread_local! {
    static PROGRAMS: RefCell<Option<GatewayPrograms>> = const { RefCell::new(None) };
}

/// The state of programs that all cores share.
pub struct ProgramsShared {
    /// The files of long contents.
    pub spools: Arc<Spools>,
    /// The destination of the programs' error output.
    pub errors: Arc<ErrorSink>,
    /// The present configuration of programs. Each core has a copy, which a reload replaces
    /// together with the core's hosts.
    program_config: Mutex<ProgramConfig>,
    /// The pools that this server starts itself.
    pub pools: Pools,
    /// The supervisor of the server's first pool, while that pool is in force.
    pub supervisor: Mutex<Option<PoolSupervisor>>,
    /// Set at the start, or by the reload that brings the first program.
    cgi: OnceLock<Arc<Cgi>>,
    /// The line to the keeper, if the keeper can read the list of allowed programs again.
    pub revisions: Option<Mutex<Revisions>>,
    /// The cache of all files.
    pub store: Arc<FileStore>,
}

impl ProgramsShared {
    /// Programs of a server whose `store` caches its files.
    pub(super) fn new(
        spool_folder: PathBuf,
        store: &Arc<FileStore>,
        notices: Arc<Notices>,
        answering: ProgramConfig,
        running: RunsPrograms,
    ) -> Arc<Self> {
        let RunsPrograms { pools, supervisor, cgi, revisions } = running;
        Arc::new(Self {
            spools: Spools::new(spool_folder, answering.options.spool_bytes),
            errors: ErrorSink::new(notices),
            store: store.clone(),
            program_config: Mutex::new(answering),
            pools,
            supervisor: Mutex::new(supervisor),
            cgi: cgi.map(OnceLock::from).unwrap_or_default(),
            revisions,
        })
    }
}

/// The parts that run programs, from the server's start to the server's end.
pub(super) struct RunsPrograms {
    pub(super) pools: Pools,
    pub(super) supervisor: Option<PoolSupervisor>,
    pub(super) cgi: Option<Arc<Cgi>>,
    pub(super) revisions: Option<Mutex<Revisions>>,
}

/// The programs that one configuration asks for.
#[derive(Clone)]
pub struct ProgramConfig {
    /// The options for all programs.
    pub options: GatewayOptions,
    /// The server's PHP.
    pub php: Option<Arc<Php>>,
    /// The PHP pools of hosts.
    pub pools: Arc<HashMap<Arc<PoolOptions>, Arc<Php>>>,
    /// The folders of files that programs may name.
    pub send_sites: SendSites,
}

impl ProgramConfig {
    /// The PHP that serves a host with this setting.
    pub fn php_of(&self, host: &HostPhp) -> Option<&Arc<Php>> {
        match host {
            HostPhp::Off => None,
            HostPhp::Shared => self.php.as_ref(),
            HostPhp::Own(pool) => self.pools.get(pool),
        }
    }
}

impl ProgramsShared {
    /// CGI, if any host has or had programs.
    pub fn cgi(&self) -> Option<&Arc<Cgi>> {
        self.cgi.get()
    }

    /// Sets CGI, if there was none.
    pub fn begin_cgi(&self, cgi: &Arc<Cgi>) {
        self.cgi.get_or_init(|| cgi.clone());
    }

    /// The present configuration of programs.
    pub fn program_config(&self) -> ProgramConfig {
        self.program_config.lock().expect("nothing panics under this lock").clone()
    }

    /// Replaces the configuration of programs. Returns the old configuration.
    pub fn set_answering(&self, answering: ProgramConfig) -> ProgramConfig {
        std::mem::replace(&mut self.program_config.lock().expect("nothing panics under this lock"), answering)
    }
}

/// The state of programs on one core.
pub struct GatewayPrograms {
    /// The state of all cores.
    pub shared: Arc<ProgramsShared>,
    /// The configuration of programs that belongs to the core's hosts.
    pub answering: Arc<ProgramConfig>,
}

/// Makes programs available on this core.
pub fn install(shared: Arc<ProgramsShared>) {
    let answering = Arc::new(shared.program_config());
    PROGRAMS.set(Some(GatewayPrograms { shared, answering }));
}

/// Runs a closure on the programs of this core. `None` if the server serves files only.
pub fn with<R>(f: impl FnOnce(&GatewayPrograms) -> R) -> Option<R> {
    PROGRAMS.with_borrow(|programs| programs.as_ref().map(f))
}

/// Replaces the configuration of programs on this core, if there are programs.
pub fn set_answering(answering: Arc<ProgramConfig>) {
    PROGRAMS.with_borrow_mut(|programs| {
        if let Some(programs) = programs {
            programs.answering = answering;
        }
    });
}
