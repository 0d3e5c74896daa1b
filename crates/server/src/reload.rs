//! Another configuration for a server that runs: built aside, refused as a whole or swapped in as a whole.
//!
//! Everything that can fail is done before anything is changed: the file is read, addresses are opened, the default host's
//! folder is, and the log. Then each core changes between two of its events. No connection is closed: those that are open
//! get the new limits and hosts with their next request. What cannot change while the server runs is said, and stays.
//! Tested through the binary (`crates/cli/tests/e2e/reload.rs`).

use crate::{
    balance::Balancing,
    config::{self, ConfigError, Surroundings},
    control::{Overseer, StatusForm},
    cores::{self, Change, CoreError, NewLog},
    files::{SiteError, StoreOptions},
    gateway::{ReviseError, Revision, Shared},
    handover::{Handing, Inherited},
    hosts::Folder,
    listen::{ListenError, Listening, listen_on},
    log::{Log, LogCounts, LogError, Notices},
    options::{ServeOptions, keys_that_differ},
    serve::{
        broker::{Broker, NewAddress},
        connections_that_fit,
    },
    server::Server,
    signals,
    status::{self, Answered, Life, Sources, Status},
    voice::say,
};
use bytes::Bytes;
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use vermeil::Handle;
use vermeil_io::CacheOnly;
use vermeil_topology::CpuId;

/// How old a status may be that is served as a page. Guess: whoever watches looks once a second at most.
const PAGE_AGE_MAX: Duration = Duration::from_secs(1);

/// Why a reload was refused. The server goes on as before.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    /// There is nothing to load.
    #[error("it was started from a command line; only a server with --config FILE can be reloaded")]
    NoFile,
    /// It is about to end.
    #[error("it is stopping")]
    Stopping,
    /// Another process is taking over, with what there is.
    #[error("another process is taking over; have that one read the configuration")]
    HandingOver,
    /// Its programs cannot be had as it says.
    #[error(transparent)]
    Programs(#[from] ReviseError),
    /// An instance refuses it, or cannot be asked.
    #[error("{0}")]
    Instance(String),
    /// The file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The machine.
    #[error(transparent)]
    Machine(#[from] vermeil_topology::Error),
    /// A new address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A new address, which another process opens.
    #[error("{0}")]
    Broker(io::Error),
    /// The folder of the default host.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The new log.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A server that runs, for whoever watches over it: the thread of the signals and that of the control socket.
pub(crate) struct Running {
    handle: Handle,
    notices: Arc<Notices>,
    programs: Option<Arc<Shared>>,
    broker: Broker,
    since: Instant,
    /// What the cores have said last.
    answered: Answered,
    present: Mutex<Present>,
    /// The status that was served last, and when it was made.
    page: Mutex<Option<(Instant, Status)>>,
}

/// What [`Running`] is made of.
pub(crate) struct Started {
    pub(crate) handle: Handle,
    pub(crate) options: ServeOptions,
    pub(crate) server: Arc<Server>,
    pub(crate) log: Log,
    pub(crate) notices: Arc<Notices>,
    pub(crate) programs: Option<Arc<Shared>>,
    pub(crate) bound: Vec<(SocketAddr, SocketAddr)>,
    /// Sockets for agent checks, to be handed over.
    pub(crate) agent: Vec<Listening>,
    pub(crate) broker: Broker,
}

/// What is served at present.
struct Present {
    options: ServeOptions,
    server: Arc<Server>,
    /// Nothing once it was closed.
    log: Option<Log>,
    /// What became of the records of logs that another configuration has ended.
    past_log: LogCounts,
    /// Addresses as they were asked for and as they are bound.
    bound: Vec<(SocketAddr, SocketAddr)>,
    /// How often another configuration was taken.
    reloads: u64,
    agent: Vec<Listening>,
    /// Whether another process is taking over.
    is_handing_over: bool,
}

impl Present {
    /// What became of all records, with those of the present log.
    fn log_counts(&self, present: LogCounts) -> LogCounts {
        let LogCounts { written, dropped } = self.past_log;
        LogCounts { written: written + present.written, dropped: dropped + present.dropped }
    }
}

impl Running {
    pub(crate) fn new(started: Started) -> Self {
        let Started { handle, options, server, log, notices, programs, bound, agent, broker } = started;
        let present = Present {
            options,
            server,
            log: Some(log),
            past_log: LogCounts::default(),
            bound,
            reloads: 0,
            agent,
            is_handing_over: false,
        };
        Self {
            handle,
            notices,
            programs,
            broker,
            since: Instant::now(),
            answered: Answered::default(),
            present: Mutex::new(present),
            page: Mutex::default(),
        }
    }

    /// The same for a page: of a second ago at most, so that asking for it often costs nothing. Nothing while another asks.
    pub(crate) fn status_for_page(&self, form: StatusForm) -> Option<Bytes> {
        let mut kept = self.page.try_lock().ok()?;
        if kept.as_ref().is_none_or(|(made, _)| made.elapsed() > PAGE_AGE_MAX) {
            *kept = Some((Instant::now(), self.status()));
        }
        let (_, status) = kept.as_ref()?;
        Some(match form {
            StatusForm::Text => status.to_string().into(),
            StatusForm::Json => status.to_json().into(),
        })
    }

    fn present(&self) -> std::sync::MutexGuard<'_, Present> {
        self.present.lock().expect("nothing panics under this lock")
    }

    /// What all cores share at present.
    pub(crate) fn server(&self) -> Arc<Server> {
        self.present().server.clone()
    }

    /// The driver of its cores.
    pub(crate) fn io(&self) -> String {
        self.handle.snapshot().cores.first().map(|core| core.io.clone()).unwrap_or_default()
    }

    /// The file of the configuration, if it is from one.
    pub(crate) fn file(&self) -> Option<std::path::PathBuf> {
        self.present().options.file.clone()
    }

    /// Opens the log's file anew.
    pub(crate) fn reopen_log(&self) {
        if let Some(log) = &self.present().log {
            log.reopen();
        }
    }

    /// Closes the log; to be called when no core writes to it any more. What became of its records.
    pub(crate) fn close_log(&self) -> LogCounts {
        let log = self.present().log.take();
        let counts = log.map(Log::close).unwrap_or_default();
        self.present().log_counts(counts)
    }

    /// Takes the configuration from its file again; what it came to, in lines, which are also said.
    ///
    /// # Errors
    /// Why it was refused, which is said too; nothing has changed then.
    pub(crate) fn reload_and_say(&self) -> Result<Vec<String>, ReloadError> {
        let result = self.reload_file();
        match &result {
            Ok(said) => said.iter().for_each(|line| say(format_args!("{line}"))),
            // Whoever asked may not have known; nobody else need be told.
            Err(ReloadError::NoFile) => {}
            Err(why) => {
                say(format_args!("the configuration stays as it is, because the new one is refused:\n{why}"));
            }
        }
        result
    }

    fn reload_file(&self) -> Result<Vec<String>, ReloadError> {
        let mut present = self.present();
        let file = present.options.file.clone().ok_or(ReloadError::NoFile)?;
        if present.server.is_draining() || present.log.is_none() {
            return Err(ReloadError::Stopping);
        }
        if present.is_handing_over {
            return Err(ReloadError::HandingOver);
        }
        let options = config::load(&file, &Surroundings::here()?.of_running(&present.options))?;
        let added = self.listen_on_added(&present, &options)?;
        let prepared = self.prepare(&present, options, added)?;
        Ok(self.take(&mut present, prepared))
    }

    /// Has the broker open the addresses that `new` has and this server has not.
    fn listen_on_added(&self, present: &Present, new: &ServeOptions) -> Result<Vec<Listening>, ReloadError> {
        let old = &present.options.listen;
        let added = added(old, new);
        let opened = self.broker.listen(added, old.iter().map(SocketAddr::port).collect());
        let opened = opened.map_err(ReloadError::Broker)?;
        let take_charge = |NewAddress { listening, group }: NewAddress| {
            if let Some(group) = group {
                present.server.balancing.take_charge_by(listening.addr, group, &listening.sockets);
            }
            listening
        };
        Ok(opened.into_iter().map(take_charge).collect())
    }

    /// As the first half of a reload, for what others have read and opened.
    ///
    /// # Errors
    /// Why it is refused; nothing has changed.
    pub(crate) fn prepare_given(
        &self,
        options: ServeOptions,
        added: Vec<Listening>,
    ) -> Result<Prepared, ReloadError> {
        let present = self.present();
        if present.server.is_draining() || present.log.is_none() {
            return Err(ReloadError::Stopping);
        }
        self.prepare(&present, options, added)
    }

    /// The second half; what there is to say.
    pub(crate) fn take_given(&self, prepared: Prepared) -> Vec<String> {
        self.take(&mut self.present(), prepared)
    }

    /// Does all that can fail.
    fn prepare(
        &self,
        present: &Present,
        options: ServeOptions,
        added: Vec<Listening>,
    ) -> Result<Prepared, ReloadError> {
        let sites = &present.server.sites;
        if let Some(folder) = Folder::of(&options.hosts, options.hosts.default_host()) {
            sites.open(&folder, CacheOnly::No)?;
        }
        let old = &present.options;
        let log = match options.log == old.log {
            true => None,
            false => {
                let (opener, cores) = (self.broker.opener(), old.cpus.len());
                Some(Log::start_by(opener, &options.log, cores, self.notices.clone())?)
            }
        };
        let hosts = &options.hosts;
        let programs = match &self.programs {
            Some(programs) => Some(programs.revise(old, &options)?),
            // Without what runs them, programs would be sent as files.
            None if hosts.have_php() || hosts.have_cgi() => return Err(ReviseError::NoSpawner.into()),
            None => None,
        };
        Ok(Prepared { options, added, log, programs })
    }

    fn take(&self, present: &mut Present, prepared: Prepared) -> Vec<String> {
        let Prepared { mut options, added, log, programs: mut revision } = prepared;
        let programs = self.programs.as_ref();
        if programs.is_some_and(|programs| programs.cgi().is_none()) && options.hosts.have_cgi() {
            // Nothing has looked at what was said before.
            present.options.cgi.clone_from(&options.cgi);
        }
        let fixed = keep_what_is_fixed(&present.options, &mut options);
        let connections_max = connections_that_fit(&options);
        let server = Arc::new(present.server.with(&options, connections_max));
        let gone = |addr: &&SocketAddr| !options.listen.contains(addr);
        let removed: Vec<_> = present.options.listen.iter().filter(gone).copied().collect();
        let mut said = vec![format!("reloaded: {}", options.hosts.describe())];
        said.extend(added.iter().map(|listening| format!("listening on {} too", listening.addr)));
        said.extend(removed.iter().map(|addr| format!("no longer listening on {addr}")));
        if !fixed.is_empty() {
            said.push(format!("only a restart changes {}", fixed.join(", ")));
        }
        let new_log = match &log {
            None => NewLog::Same,
            Some(log) => NewLog::Other(self.handle.cores().map(|_| log.core()).collect()),
        };
        present.bound.retain(|(asked, _)| !removed.contains(asked));
        present.bound.extend(added.iter().map(|listening| (listening.asked, listening.addr)));
        let hosts = options.hosts.clone();
        let answering = programs.zip(revision.as_mut()).map(|(programs, new)| programs.begin(new));
        let change =
            Change { server: server.clone(), hosts: hosts.clone(), answering, added, removed, log: new_log };
        if let Err(CoreError { core, source }) = cores::change(&self.handle, change) {
            said.push(format!("core {core} could not take all of it: {source}"));
        }
        server.sites.keep_only(&hosts);
        if let Some((programs, revision)) = programs.zip(revision) {
            programs.end_old(revision);
        }
        match log {
            None => self.reopen(present),
            Some(log) => {
                let old = present.log.replace(log);
                present.past_log = present.log_counts(old.map(Log::close).unwrap_or_default());
            }
        }
        (present.options, present.server) = (options, server);
        present.reloads += 1;
        said
    }

    /// A reload is also the moment for a rotated log.
    fn reopen(&self, present: &Present) {
        if let Some(log) = &present.log {
            log.reopen();
        }
    }
}

/// Opens the addresses that `new` has and `old` has not.
///
/// # Errors
/// One of them cannot be listened on; none is.
pub(crate) fn listen_on_added(
    old: &[SocketAddr],
    new: &ServeOptions,
    cpus: &[CpuId],
    balancing: &Balancing,
) -> Result<Vec<Listening>, ListenError> {
    let added = added(old, new);
    let ours: Vec<u16> = old.iter().map(SocketAddr::port).collect();
    listen_on(&added, cpus, balancing, &ours, &mut Inherited::default())
}

fn added(old: &[SocketAddr], new: &ServeOptions) -> Vec<SocketAddr> {
    new.listen.iter().filter(|addr| !old.contains(addr)).copied().collect()
}

/// What a reload needs, all of it at hand.
pub(crate) struct Prepared {
    options: ServeOptions,
    added: Vec<Listening>,
    log: Option<Log>,
    programs: Option<Revision>,
}

impl Overseer for Running {
    /// Takes a fifth of a second, in which no reload begins.
    fn status(&self) -> Status {
        let present = self.present();
        status::collect(&Sources {
            handle: &self.handle,
            options: &present.options,
            server: &present.server,
            log: present.log_counts(present.log.as_ref().map(Log::counts).unwrap_or_default()),
            notices: &self.notices,
            programs: self.programs.as_deref(),
            answered: &self.answered,
            life: Life {
                since: self.since,
                reloads: present.reloads,
                listening: present.bound.iter().map(|(_, bound)| *bound).collect(),
            },
        })
    }

    fn reload(&self) -> Result<Vec<String>, String> {
        self.reload_and_say().map_err(|why| why.to_string())
    }

    fn hand_over(&self) -> Result<Handing, String> {
        let mut present = self.present();
        if present.server.is_draining() {
            return Err(ReloadError::Stopping.to_string());
        }
        let listening = cores::sockets(&self.handle, &present.bound).map_err(|error| error.to_string())?;
        let agent: io::Result<_> = present.agent.iter().map(Listening::try_clone).collect();
        let agent = agent.map_err(|error| error.to_string())?;
        present.is_handing_over = true;
        Ok(Handing { listening, agent })
    }

    fn keep(&self, pid: u32) {
        self.present().is_handing_over = false;
        say_kept(pid);
    }

    fn let_go(&self, pid: u32) {
        let mut present = self.present();
        present.agent.clear();
        present.server.balancing.let_go();
        present.server.hand_over();
        signals::stop_for(pid);
    }
}

/// Says that a process did not come to serve.
pub(crate) fn say_kept(pid: u32) {
    say(format_args!("process {pid}, which was to take over, has not come to serve: going on as before"));
}

/// Keeps in `new` what cannot change while the server runs; gives the keys that asked for a change of it.
fn keep_what_is_fixed(old: &ServeOptions, new: &mut ServeOptions) -> Vec<&'static str> {
    let layout = keys_that_differ(&old.instances, &new.instances);
    let changed = [
        ("control", old.control != new.control),
        ("user", old.user != new.user),
        ("balance", old.balance != new.balance),
        ("io", old.io != new.io),
        ("agent", old.balancers.agent != new.balancers.agent),
        ("cache", StoreOptions { pages: new.store.pages, ..old.store.clone() } != new.store),
        ("memory", old.store.pages != new.store.pages),
        ("hosts.open_max", old.sites_open_max != new.sites_open_max),
        ("cgi", old.cgi != new.cgi && new.hosts.have_cgi()),
    ];
    new.control.clone_from(&old.control);
    new.placement.clone_from(&old.placement);
    new.cpus.clone_from(&old.cpus);
    new.instances.clone_from(&old.instances);
    new.user.clone_from(&old.user);
    new.balance = old.balance;
    new.io = old.io;
    new.balancers.agent.clone_from(&old.balancers.agent);
    new.store.clone_from(&old.store);
    new.sites_open_max = old.sites_open_max;
    new.cgi.clone_from(&old.cgi);
    let others = changed.into_iter().filter_map(|(key, changed)| changed.then_some(key));
    layout.into_iter().chain(others).collect()
}
