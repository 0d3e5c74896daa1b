//! The programs of a server: their configuration, their state and their life.
//!
//! Reading order: [`ProgramsShared`] (the state of all cores), [`GatewayRequest`] (a request that
//! may be for a program), `setup` (from start to end), `revise` (a new configuration). The modules
//! `php` and `cgi` run the programs, and `calls` turns their results into answers.

mod exposure;
mod request;
mod revise;
mod setup;

pub(crate) use exposure::exposure;
pub(crate) use request::{GatewayRequest, ProgramReason};
pub(crate) use revise::{ReviseError, Revision};
pub(crate) use setup::{ProgramSetup, RunningPrograms, SetupError, has_programs};

use crate::{
    cgi::Cgi,
    gateway::{ErrorSink, SendSites, Spools},
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
pub(crate) struct ProgramsShared {
    pub(crate) spools: Arc<Spools>,
    pub(crate) errors: Arc<ErrorSink>,
    /// The present configuration of programs. Each core has a copy, which a reload replaces
    /// together with the core's hosts.
    program_config: Mutex<ProgramConfig>,
    /// The pools that this server starts itself.
    pub(crate) pools: Pools,
    /// The supervisor of the server's first pool, while that pool is in force.
    pub(crate) supervisor: Mutex<Option<PoolSupervisor>>,
    /// Set at the start, or by the reload that brings the first program.
    cgi: OnceLock<Arc<Cgi>>,
    /// The line to the keeper, if the keeper can read the list of allowed programs again.
    pub(crate) revisions: Option<Mutex<Revisions>>,
    /// The cache of all files.
    pub(crate) store: Arc<FileStore>,
}

impl ProgramsShared {
    /// Programs of a server whose `store` caches its files.
    pub(crate) fn new(
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
pub(crate) struct RunsPrograms {
    pub(crate) pools: Pools,
    pub(crate) supervisor: Option<PoolSupervisor>,
    pub(crate) cgi: Option<Arc<Cgi>>,
    pub(crate) revisions: Option<Mutex<Revisions>>,
}

/// The programs that one configuration asks for.
#[derive(Clone)]
pub(crate) struct ProgramConfig {
    pub(crate) options: GatewayOptions,
    /// The server's PHP.
    pub(crate) php: Option<Arc<Php>>,
    /// The PHP pools of hosts.
    pub(crate) pools: Arc<HashMap<Arc<PoolOptions>, Arc<Php>>>,
    pub(crate) send_sites: SendSites,
}

impl ProgramConfig {
    /// The PHP that serves a host with this setting.
    pub(crate) fn php_of(&self, host: &HostPhp) -> Option<&Arc<Php>> {
        match host {
            HostPhp::Off => None,
            HostPhp::Shared => self.php.as_ref(),
            HostPhp::Own(pool) => self.pools.get(pool),
        }
    }
}

impl ProgramsShared {
    /// CGI, if any host has or had programs.
    pub(crate) fn cgi(&self) -> Option<&Arc<Cgi>> {
        self.cgi.get()
    }

    /// Sets CGI, if there was none.
    pub(crate) fn begin_cgi(&self, cgi: &Arc<Cgi>) {
        self.cgi.get_or_init(|| cgi.clone());
    }

    /// The present configuration of programs.
    pub(crate) fn program_config(&self) -> ProgramConfig {
        self.program_config.lock().expect("nothing panics under this lock").clone()
    }

    /// Replaces the configuration of programs. Returns the old configuration.
    pub(crate) fn set_answering(&self, answering: ProgramConfig) -> ProgramConfig {
        std::mem::replace(&mut self.program_config.lock().expect("nothing panics under this lock"), answering)
    }
}

/// The state of programs on one core.
pub(crate) struct GatewayPrograms {
    pub(crate) shared: Arc<ProgramsShared>,
    /// The configuration of programs that belongs to the core's hosts.
    pub(crate) answering: Arc<ProgramConfig>,
}

/// Makes programs available on this core.
pub(crate) fn install(shared: Arc<ProgramsShared>) {
    let answering = Arc::new(shared.program_config());
    PROGRAMS.set(Some(GatewayPrograms { shared, answering }));
}

/// Runs a closure on the programs of this core. `None` if the server serves files only.
pub(crate) fn with<R>(f: impl FnOnce(&GatewayPrograms) -> R) -> Option<R> {
    PROGRAMS.with_borrow(|programs| programs.as_ref().map(f))
}

/// Replaces the configuration of programs on this core, if there are programs.
pub(crate) fn set_answering(answering: Arc<ProgramConfig>) {
    PROGRAMS.with_borrow_mut(|programs| {
        if let Some(programs) = programs {
            programs.answering = answering;
        }
    });
}
