//! Reload: another configuration for a running server, prepared aside, then refused as a whole or
//! swapped in as a whole.
//!
//! Settings that cannot change while the server runs are restored first. Every step that can fail
//! comes before any change: reading the file, opening addresses, the default host's folder and the
//! log. Unix sockets get their paths last. Then each core changes between two of its events. No
//! connection is closed, because open connections get the new limits and hosts with their next
//! request. The server logs the settings that only a restart changes. Tested through the binary
//! (`crates/e2e/tests/e2e/reload.rs`).

use crate::{
    cores::{self, CoreChanges, CoreError, NewLog},
    idle_cores::IdleCores,
    kept_page::KeptPage,
    status::{self, CoreAnswers, Sources, StatusLife},
};
use bytes::Bytes;
use std::{
    collections::HashSet,
    io,
    path::Path,
    sync::{Arc, Mutex},
    time::Instant,
};
use vermeil::Handle;
use vermeil_accept::listening::Listening;
use vermeil_address::ListenAddr;
use vermeil_check::connections_that_fit;
use vermeil_config::{CgiSettings, ServeOptions, Surroundings, keep_what_is_fixed};
use vermeil_gateway::programs::{ProgramsShared, ReviseError, Revision};
use vermeil_io::CacheOnly;
use vermeil_log::{Log, LogCounts, Notices, operator_log::log_line};
use vermeil_ops::{
    broker::{Broker, BrokerNames, NewAddress},
    control::Overseer,
    control_client::StatusForm,
    handover::Handing,
    reload::{ReloadError, added, refuse_mode_of_passed, say_kept},
    signals,
    status::ServerStatus,
};
use vermeil_routing::hosts::Folder;
use vermeil_state::{
    server::{Server, StatusPage},
    tls::{ServerTls, TlsCores},
};
use vermeil_tls::Tickets;

/// A running server, as the threads of the signals and of the control socket see it.
pub(crate) struct RunningServer {
    handle: Handle,
    idle: IdleCores,
    notices: Arc<Notices>,
    programs: Option<Arc<ProgramsShared>>,
    broker: Broker,
    /// The session tickets of TLS.
    tickets: Arc<Tickets>,
    since: Instant,
    /// The last answers of the cores.
    answered: CoreAnswers,
    present: Mutex<Present>,
    page: KeptPage<ServerStatus>,
}

/// The parts of [`RunningServer`].
pub(crate) struct StartedParts {
    pub(crate) handle: Handle,
    pub(crate) idle: IdleCores,
    pub(crate) options: ServeOptions,
    pub(crate) server: Arc<Server>,
    pub(crate) log: Log,
    pub(crate) notices: Arc<Notices>,
    pub(crate) programs: Option<Arc<ProgramsShared>>,
    pub(crate) bound: Vec<(ListenAddr, ListenAddr)>,
    /// Sockets for agent checks, kept for a takeover.
    pub(crate) agent: Vec<Listening>,
    pub(crate) broker: Broker,
    pub(crate) tickets: Arc<Tickets>,
}

/// The present configuration and its state.
struct Present {
    options: ServeOptions,
    server: Arc<Server>,
    /// `None` once the log was closed.
    log: Option<Log>,
    /// The counts of logs that an earlier configuration used.
    past_log: LogCounts,
    /// Addresses as configured and as bound.
    bound: Vec<(ListenAddr, ListenAddr)>,
    /// Number of reloads that were accepted.
    reloads: u64,
    agent: Vec<Listening>,
    /// Whether another process is taking over.
    is_handing_over: bool,
}

impl Present {
    /// The counts of all records, including those of the present log.
    fn log_counts(&self, present: LogCounts) -> LogCounts {
        let LogCounts { written, dropped } = self.past_log;
        LogCounts { written: written + present.written, dropped: dropped + present.dropped }
    }
}

impl RunningServer {
    pub(crate) fn new(started: StartedParts) -> Self {
        let StartedParts {
            handle,
            idle,
            options,
            server,
            log,
            notices,
            programs,
            bound,
            agent,
            broker,
            tickets,
        } = started;
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
            idle,
            notices,
            programs,
            broker,
            tickets,
            since: Instant::now(),
            answered: CoreAnswers::default(),
            present: Mutex::new(present),
            page: KeptPage::default(),
        }
    }

    /// Ends the cores in idle time, once the serving cores have stopped.
    pub(crate) fn end_idle(&self) -> Option<Handle> {
        self.idle.end()
    }

    fn present(&self) -> std::sync::MutexGuard<'_, Present> {
        self.present.lock().expect("nothing panics under this lock")
    }

    /// The state that all cores share at present.
    pub(crate) fn server(&self) -> Arc<Server> {
        self.present().server.clone()
    }

    /// The driver of the cores.
    pub(crate) fn io(&self) -> String {
        self.handle.snapshot().cores.first().map(|core| core.io.clone()).unwrap_or_default()
    }

    /// The configuration file, if there is one.
    pub(crate) fn file(&self) -> Option<std::path::PathBuf> {
        self.present().options.file.clone()
    }

    /// Opens the log's file anew.
    pub(crate) fn reopen_log(&self) {
        if let Some(log) = &self.present().log {
            log.reopen();
        }
    }

    /// Closes the log and returns the counts of its records. Call this function when no core writes
    /// to the log any more.
    pub(crate) fn close_log(&self) -> LogCounts {
        let log = self.present().log.take();
        let counts = log.map(Log::close).unwrap_or_default();
        self.present().log_counts(counts)
    }

    /// Reads the configuration from its file again. Returns the resulting lines, which are also
    /// logged.
    ///
    /// # Errors
    /// Why the configuration was refused, which is also logged. Nothing has changed then.
    pub(crate) fn reload_and_say(&self) -> Result<Vec<String>, ReloadError> {
        let result = self.reload_file();
        match &result {
            Ok(said) => said.iter().for_each(|line| log_line(format_args!("{line}"))),
            // The error goes only to the caller, which may not have known that there is no file.
            Err(ReloadError::NoFile) => {}
            Err(why) => {
                log_line(format_args!(
                    "the configuration stays as it is, because the new one is refused:\n{why}"
                ));
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
        let options = vermeil_config::load(&file, &Surroundings::here()?.of_running(&present.options))?;
        refuse_mode_of_passed(&present.bound, &options)?;
        let new = self.keep_fixed(&present, options);
        self.check(&present, &new.options)?;
        let (added, names) = self.listen_on_added(&present, &new.options)?;
        let prepared = self.prepare(&present, new, added)?;
        // Last, because a unix socket with another mode takes the place of the former one.
        names.publish().map_err(ReloadError::Broker)?;
        Ok(self.take(&mut present, prepared))
    }

    /// Asks the broker to open the addresses that `new` adds.
    fn listen_on_added(
        &self,
        present: &Present,
        new: &ServeOptions,
    ) -> Result<(Vec<Listening>, BrokerNames), ReloadError> {
        let ours = present.bound.iter().map(|(_, bound)| *bound).collect();
        let opened = self.broker.listen(added(&present.bound, new), ours);
        let (opened, names) = opened.map_err(ReloadError::Broker)?;
        let take_charge = |NewAddress { listening, group }: NewAddress| {
            if let (Some(group), ListenAddr::Tcp(addr)) = (group, listening.addr) {
                present.server.balancing.take_charge_by(addr, group, &listening.sockets);
            }
            listening
        };
        Ok((opened.into_iter().map(take_charge).collect(), names))
    }

    /// The first half of a reload, for a configuration and sockets that another process has read
    /// and opened.
    ///
    /// # Errors
    /// Why the configuration is refused. Nothing has changed.
    pub(crate) fn prepare_given(
        &self,
        options: ServeOptions,
        added: Vec<Listening>,
    ) -> Result<PreparedReload, ReloadError> {
        let present = self.present();
        if present.server.is_draining() || present.log.is_none() {
            return Err(ReloadError::Stopping);
        }
        let new = self.keep_fixed(&present, options);
        self.check(&present, &new.options)?;
        self.prepare(&present, new, added)
    }

    /// The second half of a reload. Returns the lines to log.
    pub(crate) fn take_given(&self, mut prepared: PreparedReload) -> Vec<String> {
        let mut present = self.present();
        if present.server.is_draining() {
            // The order to stop came between the halves, and no core would close these sockets.
            prepared.added.clear();
        }
        self.take(&mut present, prepared)
    }

    /// Restores the settings that cannot change while the server runs, so that the checks and the
    /// programs see the settings that will be in force.
    fn keep_fixed(&self, present: &Present, mut options: ServeOptions) -> NewOptions {
        let cgi = match self.programs.as_ref().and_then(|programs| programs.cgi()) {
            Some(_) => CgiSettings::Fixed,
            None => CgiSettings::Open,
        };
        let fixed = keep_what_is_fixed(&present.options, &mut options, cgi);
        NewOptions { options, fixed }
    }

    /// Checks what can be checked without a change.
    fn check(&self, present: &Present, options: &ServeOptions) -> Result<(), ReloadError> {
        let sites = &present.server.sites;
        if let Some(folder) = Folder::of(&options.hosts, options.hosts.default_host()) {
            sites.open(&folder, CacheOnly::No).map_err(|why| ReloadError::Part(Box::new(why)))?;
        }
        let troubles = self.certificate_troubles(present.server.tls.as_ref(), options);
        if !troubles.is_empty() {
            return Err(ReloadError::Certificates(troubles.join("\n")));
        }
        Ok(())
    }

    /// Takes the other steps that can fail.
    fn prepare(
        &self,
        present: &Present,
        new: NewOptions,
        added: Vec<Listening>,
    ) -> Result<PreparedReload, ReloadError> {
        let (old, options) = (&present.options, &new.options);
        let log = match options.log == old.log {
            true => None,
            false => {
                let (access, cores) = (self.broker.log_access(), old.cpus.len());
                Some(Log::start_by(access, &options.log, cores, self.notices.clone())?)
            }
        };
        let hosts = &options.hosts;
        let explained = |why: ReviseError| of_programs(why.explained(&new.fixed));
        let programs = match &self.programs {
            Some(programs) => Some(programs.revise(old, options).map_err(explained)?),
            // Without a spawner, the server would send programs as files.
            None if hosts.have_php() || hosts.have_cgi() => return Err(of_programs(ReviseError::NoSpawner)),
            None => None,
        };
        if log.is_some() || have_new_logs(old, options) {
            // The file may change again before a host writes the first line.
            self.broker.learn();
        }
        Ok(PreparedReload { new, added, log, programs })
    }

    /// The reasons why HTTPS of a new configuration cannot be served, a line each.
    fn certificate_troubles(&self, before: Option<&Arc<ServerTls>>, options: &ServeOptions) -> Vec<String> {
        let certificates = match before {
            Some(tls) => tls.certificates().clone(),
            None if options.tls.listen.is_empty() => return Vec::new(),
            // Without the workers of handshakes, whose handler lives as long as the runtime.
            None => ServerTls::certificates_of(&options.tls, self.tickets.clone()),
        };
        vermeil_check::troubles_of_first(&options.hosts, |host| certificates.check(host))
    }

    fn take(&self, present: &mut Present, prepared: PreparedReload) -> Vec<String> {
        let PreparedReload { new, added, log, programs: mut revision } = prepared;
        let NewOptions { options, fixed } = new;
        let programs = self.programs.as_ref();
        let connections_max = connections_that_fit(&options);
        let cores = TlsCores { serving: &self.handle, idle: self.idle.wanted(&options) };
        let tls = ServerTls::of_reload(present.server.tls.as_ref(), &options, &self.tickets, cores);
        let server = Arc::new(present.server.with(&options, connections_max, tls));
        let gone = |addr: &&ListenAddr| !options.listen.contains(addr);
        let removed: Vec<_> = present.options.listen.iter().filter(gone).copied().collect();
        let mut said = vec![format!("reloaded: {}", options.hosts.describe())];
        said.extend(options.left_out.iter().map(|problem| format!("warning: {problem} (left out)")));
        let is_anew = |one: &ListenAddr, others: &[ListenAddr]| others.iter().any(|other| other.is_at(one));
        let asked: Vec<_> = added.iter().map(|listening| listening.asked).collect();
        said.extend(added.iter().map(|Listening { asked, addr, .. }| match asked.unix() {
            Some(unix) if is_anew(asked, &removed) => {
                format!("listening on {unix} anew, with mode {:04o}", unix.mode())
            }
            _ => format!("listening on {addr} too"),
        }));
        let gone = removed.iter().filter(|addr| !is_anew(addr, &asked));
        said.extend(gone.map(|addr| format!("no longer listening on {addr}")));
        if !fixed.is_empty() {
            said.push(format!("only a restart changes {}", fixed.join(", ")));
        }
        let new_log = match &log {
            None => NewLog::Same,
            Some(log) => NewLog::Other(self.handle.cores().map(|_| log.core()).collect()),
        };
        // Before the cores look at their queues for the last time, so that no connection comes
        // later.
        let (stays, ends): (Vec<_>, Vec<_>) =
            present.bound.drain(..).partition(|(asked, _)| !removed.contains(asked));
        present.bound = stays;
        self.remove_files(&ends);
        present.bound.extend(added.iter().map(|listening| (listening.asked, listening.addr)));
        let hosts = options.hosts.clone();
        let program_config = programs.zip(revision.as_mut()).map(|(programs, new)| programs.begin(new));
        let change = CoreChanges {
            server: server.clone(),
            hosts: hosts.clone(),
            program_config,
            added,
            removed,
            log: new_log,
        };
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

    /// Removes the files of unix sockets on which the server listens no longer.
    fn remove_files(&self, bound: &[(ListenAddr, ListenAddr)]) {
        bound.iter().filter_map(|(_, bound)| bound.unix()).for_each(|addr| self.broker.remove_socket(addr));
    }

    /// Removes the files of all unix sockets, because the server ends, unless another process is
    /// taking over.
    pub(crate) fn remove_all_files(&self) {
        let present = self.present();
        if !present.is_handing_over {
            self.remove_files(&present.bound);
        }
    }

    /// A reload is also the moment for a rotated log.
    fn reopen(&self, present: &Present) {
        if let Some(log) = &present.log {
            log.reopen();
        }
    }
}

impl StatusPage for RunningServer {
    /// The status for a page, at most a second old, so that frequent requests cost nothing.
    fn status_for_page(&self, form: StatusForm) -> Option<Bytes> {
        self.page.get(
            || self.status(),
            |status| match form {
                StatusForm::Text => status.to_string().into(),
                StatusForm::Json => status.to_json().into(),
                StatusForm::Metrics => status.to_metrics().into(),
            },
        )
    }
}

/// The options of a reload, after the settings that cannot change were restored.
struct NewOptions {
    options: ServeOptions,
    /// The keys whose change is ignored.
    fixed: Vec<&'static str>,
}

/// Everything that a reload needs.
pub(crate) struct PreparedReload {
    new: NewOptions,
    added: Vec<Listening>,
    log: Option<Log>,
    programs: Option<Revision>,
}

/// Whether a host of `new` has a log file that no host of `old` has.
fn have_new_logs(old: &ServeOptions, new: &ServeOptions) -> bool {
    let known: HashSet<&Path> = old.hosts.log_files().collect();
    new.hosts.log_files().any(|path| !known.contains(path))
}

/// The refusal by the programs.
fn of_programs(why: ReviseError) -> ReloadError {
    ReloadError::Part(Box::new(why))
}

impl Overseer for RunningServer {
    /// Takes a fifth of a second, in which no reload begins.
    fn status(&self) -> ServerStatus {
        let present = self.present();
        status::collect(&Sources {
            handle: &self.handle,
            options: &present.options,
            server: &present.server,
            log: present.log_counts(present.log.as_ref().map(Log::counts).unwrap_or_default()),
            notices: &self.notices,
            programs: self.programs.as_deref(),
            answered: &self.answered,
            life: StatusLife {
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
        Ok(Handing { listening, agent, tickets: self.tickets.secret() })
    }

    fn keep(&self, pid: u32) {
        self.present().is_handing_over = false;
        say_kept(pid);
        if self.server().is_draining() {
            // The files stayed for the process that was to take over.
            self.remove_all_files();
        }
    }

    fn let_go(&self, pid: u32) {
        let mut present = self.present();
        present.agent.clear();
        present.server.balancing.let_go();
        present.server.hand_over();
        signals::stop_for(pid);
    }
}
