//! Sets up the state of each core, changes the state in a reload, and takes the state down:
//! sockets, caches, logs, background tasks.
//!
//! Every change reaches a core as a task of that core, so no other thread touches the core's state.
//! Leaves out the order of a server's life (`serve.rs`) and the choice of the changes in a reload
//! (`reload.rs`). Tested through the binary.

use crate::{
    accept::{accept, accept_unannounced},
    admission,
    stall_rescue::{self, WatchedListener},
};
use rustix::net::getsockname;
use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};
use vermeil::{CoreIndex, Handle, Source, Task, TaskError, TcpListener, blocking, now_ms, sleep};
use vermeil_accept::{
    admission_control::QUEUE_MAX,
    busy_poll,
    listening::{Listening, SocketKeeper},
};
use vermeil_address::ListenAddr;
use vermeil_files::{CoreCache, Entry};
use vermeil_gateway::{
    cgi, php,
    programs::{self, ProgramConfig, ProgramsShared},
};
use vermeil_io::{begin_no_more, defer_accept, limit_queue, shares_port};
use vermeil_log::{CoreLog, Log, Notices};
use vermeil_ops::affinity_watch::AffinityWatch;
use vermeil_routing::hosts::{CoreHosts, Hosts};
use vermeil_spawn::Channel;
use vermeil_state::{
    core_context::{self, CoreContext, CoreListener},
    server::Server,
};
use vermeil_topology::CpuId;

/// How long a drain keeps a connection without a request, because a request may be in flight. A
/// round trip across an ocean takes up to 250 ms; this is twice that time.
const IDLE_GRACE: Duration = Duration::from_millis(500);

/// How often a draining server looks for idle connections.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// How often a core drops unused entries of its cache, checks that it still runs on its own cpu,
/// and looks at its listeners without being woken.
const TICK: Duration = Duration::from_secs(1);

/// A core could not take its sockets or its state.
pub(crate) struct CoreError {
    /// Index of the core.
    pub(crate) core: u32,
    /// The error of the system.
    pub(crate) source: io::Error,
}

/// A socket for a core, with its configured address.
struct CoreSocket {
    addr: ListenAddr,
    socket: OwnedFd,
    keeper: SocketKeeper,
}

type Sockets = Vec<CoreSocket>;

/// The sockets of each of `cores` cores.
fn by_core(cores: usize, listening: Vec<Listening>) -> Vec<Sockets> {
    let mut sockets: Vec<Sockets> = (0..cores).map(|_| Vec::new()).collect();
    for address in listening {
        for (at, socket) in address.sockets.into_iter().enumerate() {
            let (addr, keeper) = (address.asked, address.keeper);
            sockets[at % cores].push(CoreSocket { addr, socket, keeper });
        }
    }
    sockets
}

/// Duplicates the sockets of all cores, grouped by configured address.
///
/// # Errors
/// Out of descriptors.
pub(crate) fn sockets(handle: &Handle, bound: &[(ListenAddr, ListenAddr)]) -> io::Result<Vec<Listening>> {
    let of_cores = handle.cores().map(|core| {
        handle.spawn_on(&handle.color_on(core), async move {
            core_context::with(|local| -> io::Result<Sockets> {
                let cloned = |CoreListener { addr, listener, keeper, .. }: &CoreListener| {
                    let socket = listener.with_fd(|fd| fd.try_clone_to_owned())??;
                    Ok(CoreSocket { addr: *addr, socket, keeper: *keeper })
                };
                local.sockets.listeners.iter().map(cloned).collect()
            })
        })
    });
    let of_cores: Vec<_> = of_cores.collect();
    let mut of_cores: Vec<Sockets> = of_cores
        .into_iter()
        .map(|task| task.wait().unwrap_or_else(|error: TaskError| Err(io::Error::other(error))))
        .collect::<io::Result<_>>()?;
    let all = bound.iter().map(|&(asked, addr)| {
        let (mut sockets, mut keeper) = (Vec::new(), SocketKeeper::Server);
        // Takes one socket of each core per round, as long as there are any.
        loop {
            let before = sockets.len();
            for of_core in &mut of_cores {
                let found = of_core.iter().position(|of| of.addr == asked);
                let Some(found) = found.map(|at| of_core.remove(at)) else { continue };
                keeper = found.keeper;
                sockets.push(found.socket);
            }
            if sockets.len() == before {
                return Listening { asked, addr, sockets, keeper };
            }
        }
    });
    Ok(all.collect())
}

/// Gives each core sockets, a part of the cache and an end of the log. No core accepts before every
/// core has its descriptors, because waiting clients could take all descriptors that are left.
pub(crate) fn open(
    handle: &Handle,
    server: &Arc<Server>,
    hosts: &Arc<Hosts>,
    programs: Option<(&Arc<ProgramsShared>, Vec<Channel>)>,
    notices: &Arc<Notices>,
    log: &Log,
    listening: Vec<Listening>,
) -> Result<(), CoreError> {
    let watched =
        server.balancing.open_shelves().and_then(|()| WatchedListener::of(&server.balancing, &listening));
    let watched = watched.map_err(|source| CoreError { core: 0, source })?;
    let (programs, channels) =
        programs.map_or((None, Vec::new()), |(shared, channels)| (Some(shared), channels));
    let mut channels = channels.into_iter();
    for core in handle.cores() {
        let failed = |source| CoreError { core: core.0, source };
        let changes = server.sites.store().notify_fd();
        let changes = changes.map(|fd| fd.try_clone_to_owned()).transpose().map_err(failed)?;
        let hosts = CoreHosts::new(hosts.clone(), server.sites.clone());
        let (server, log, spawner) = (server.clone(), log.core(), handle.clone());
        let programs = programs.map(|shared| {
            let (channel, notices) = (channels.next(), notices.clone());
            CorePrograms { shared: shared.clone(), channel, notices }
        });
        // The state is installed before the core can accept any connection that uses it.
        let opened = handle.spawn_on(&handle.color_on(core), async move {
            let cache = CoreCache::new(server.sites.store().clone());
            core_context::install(server, hosts, cache, log);
            open_core(&spawner, core, programs, changes)
        });
        opened.wait().expect("opening a core does not panic").map_err(failed)?;
    }
    for (core, sockets) in handle.cores().zip(by_core(handle.cores().len(), listening)) {
        let spawner = handle.clone();
        let listens = handle.spawn_on(&handle.color_on(core), async move {
            sockets.into_iter().try_for_each(|socket| listen(&spawner, core, socket))
        });
        let listens = listens.wait().expect("listening does not panic");
        listens.map_err(|source| CoreError { core: core.0, source })?;
    }
    stall_rescue::watch(handle, watched).map_err(|source| CoreError { core: 0, source })
}

/// The parts from which a core gets its programs.
struct CorePrograms {
    shared: Arc<ProgramsShared>,
    /// The core's own channel to the spawner, if there is CGI.
    channel: Option<Channel>,
    notices: Arc<Notices>,
}

fn open_core(
    handle: &Handle,
    core: CoreIndex,
    programs: Option<CorePrograms>,
    changes: Option<OwnedFd>,
) -> io::Result<()> {
    let mut background: Vec<Task<()>> = Vec::new();
    if let Some(shelf) = core_context::with(|local| local.server.balancing.shelf(core.0 as usize)) {
        background.push(handle.spawn_on(&handle.color_on(core), stall_rescue::keep(shelf.clone())?));
        core_context::with(|local| local.sockets.shelf = Some(shelf));
    }
    if let Some(changes) = changes {
        background.push(handle.spawn_on(&handle.color_on(core), take_changes(Source::new(changes)?)));
    }
    background.push(handle.spawn_on(&handle.color_on(core), tick(handle.clone(), core)));
    background.push(handle.spawn_on(&handle.color_on(core), flush_log()));
    background.push(handle.spawn_on(&handle.color_on(core), judge(core)));
    if let Some(CorePrograms { shared, channel, notices }) = programs {
        if let Some(channel) = channel {
            let watch = cgi::watch(Source::new(cgi::install(channel, notices)?)?);
            background.push(handle.spawn_on(&handle.color_on(core), watch));
        }
        programs::install(shared);
        core_context::with(|local| local.has_programs = true);
        background.push(handle.spawn_on(&handle.color_on(core), php::watch(core.0 as usize)));
    }
    core_context::with(|local| local.background = background);
    Ok(())
}

/// Accepts from `socket` on this core from now on.
fn listen(handle: &Handle, core: CoreIndex, socket: CoreSocket) -> io::Result<()> {
    let CoreSocket { addr, socket, keeper } = socket;
    // An inherited socket may have a shorter queue than this server uses, or may not listen yet.
    limit_queue(socket.as_fd(), QUEUE_MAX)?;
    if addr.tcp().is_some() {
        // Bench `accept`: a connection for each request takes 11.1 us instead of 18.9 us of the
        // server, and 10.6 instead of 15.3 us with epoll.
        defer_accept(socket.as_fd())?;
    }
    let bound = getsockname(&socket)?;
    // Cores share a passed socket, also if it shares its port with sockets of others.
    let is_own = keeper == SocketKeeper::Server && addr.tcp().is_some() && shares_port(socket.as_fd());
    let listener = Arc::new(TcpListener::new(socket)?);
    core_context::with(|local| {
        let listener = listener.clone();
        local.sockets.listeners.push(CoreListener { addr, bound, listener, keeper, is_own });
        local.sockets.accepting += 1;
    });
    drop(handle.spawn_on(&handle.color_on(core), accept(handle.clone(), core, addr, listener)));
    Ok(())
}

async fn take_changes(changes: Source) {
    while changes.readable().await.is_ok() {
        core_context::with(|local| local.cache.store().clone()).handle_events();
    }
}

async fn tick(handle: Handle, core: CoreIndex) {
    let mut whereabouts = AffinityWatch::here(core.0, CpuId(handle.cpu(core) as u32));
    loop {
        whereabouts.look();
        sleep(TICK).await;
        let unused = core_context::with(|local| {
            local.hosts.tick();
            local.heads.load_line = local.server.load_line();
            local.cache.tick(now_ms())
        });
        if !unused.is_empty() {
            // Not awaited here, because a close may wait for the server of a network disk.
            drop(handle.spawn_on(&handle.color_on(core), close(unused)));
        }
        accept_unannounced(&handle, core).await;
    }
}

/// Closes the files of `unused` on a thread that may wait. Without room at the threads, this core
/// closes the files.
async fn close(unused: Vec<Arc<Entry>>) {
    let _ = blocking(move || drop(unused)).await;
}

/// Judges the load of a core, moment by moment.
async fn judge(core: CoreIndex) {
    let mut before_ms = now_ms();
    loop {
        sleep(admission::moment()).await;
        let now_ms = now_ms();
        let elapsed = Duration::from_millis((now_ms - before_ms).max(1));
        before_ms = now_ms;
        core_context::with(|local| {
            admission::judge(local, elapsed);
            let CoreContext { server, polling, .. } = local;
            let requests = server.requests_of(core.0 as usize);
            busy_poll::judge(core, polling, server.busy_poll, elapsed, requests, &server.notices);
            show_programs(core, local);
        });
    }
}

/// Publishes how long requests wait for the pool that all hosts share. The pools of single hosts
/// predict nothing about the next request.
fn show_programs(core: CoreIndex, local: &CoreContext) {
    let Some(board) = local.server.balancing.board() else { return };
    let waiting_ns = programs::with(|programs| {
        programs.answering.php.as_ref().map_or(0, |php| php.snapshot().waiting_ns())
    });
    board.core(core.0 as usize).show_programs(waiting_ns.unwrap_or_default());
}

async fn flush_log() {
    loop {
        let due_ms = core_context::log_due_ms().await;
        sleep(Duration::from_millis(due_ms.saturating_sub(now_ms()))).await;
        core_context::with(|local| local.records.log.flush_if_due(now_ms()));
    }
}

/// The changes that a reload makes on every core.
pub(crate) struct CoreChanges {
    pub(crate) server: Arc<Server>,
    pub(crate) hosts: Arc<Hosts>,
    /// The handler of programs, if any program can run.
    pub(crate) program_config: Option<ProgramConfig>,
    /// Addresses to listen on from now on.
    pub(crate) added: Vec<Listening>,
    /// Addresses to close, as configured.
    pub(crate) removed: Vec<ListenAddr>,
    pub(crate) log: NewLog,
}

/// Whether a reload changes the target of the log.
pub(crate) enum NewLog {
    Same,
    /// With an end for each core.
    Other(Vec<CoreLog>),
}

/// Changes every core, and returns when all cores have changed. Connections and requests in flight
/// continue.
///
/// # Errors
/// The first core that failed, with its error. Everything else has been changed.
pub(crate) fn change(handle: &Handle, change: CoreChanges) -> Result<(), CoreError> {
    let CoreChanges { server, hosts, program_config, added, removed, log } = change;
    let watched = WatchedListener::of(&server.balancing, &added);
    let cores = handle.cores();
    let mut logs: Vec<Option<CoreLog>> = match log {
        NewLog::Same => cores.map(|_| None).collect(),
        NewLog::Other(ends) => ends.into_iter().map(Some).collect(),
    };
    let tasks: Vec<_> = handle
        .cores()
        .zip(by_core(logs.len(), added))
        .zip(logs.drain(..))
        .map(|((core, sockets), log)| {
            let (server, hosts, removed) = (server.clone(), hosts.clone(), removed.clone());
            // Each core counts the users of its own reference.
            let program_config = program_config.clone().map(Arc::new);
            let spawner = handle.clone();
            let task = handle.spawn_on(&handle.color_on(core), async move {
                let old_log = change_core(server, hosts, program_config, &removed, log);
                (old_log, sockets.into_iter().try_for_each(|socket| listen(&spawner, core, socket)))
            });
            (core, task)
        })
        .collect();
    let (mut result, mut old_logs) = (Ok(()), Vec::new());
    for (core, task) in tasks {
        let failed = |error: TaskError| (None, Err(io::Error::other(error)));
        let (old_log, outcome) = task.wait().unwrap_or_else(failed);
        old_logs.extend(old_log);
        if let Err(source) = outcome {
            result = Err(CoreError { core: core.0, source });
        }
    }
    // On this thread, because the end of a log may wait, and a core serves meanwhile.
    CoreLog::end_all(old_logs);
    let watching = watched.and_then(|watched| stall_rescue::watch(handle, watched));
    result.and(watching.map_err(|source| CoreError { core: 0, source }))
}

/// Changes this core. Returns the end of the log that `log` replaces.
fn change_core(
    server: Arc<Server>,
    hosts: Arc<Hosts>,
    program_config: Option<Arc<ProgramConfig>>,
    removed: &[ListenAddr],
    log: Option<CoreLog>,
) -> Option<CoreLog> {
    stall_rescue::stop_some(removed);
    if let Some(program_config) = program_config {
        programs::set_answering(program_config);
    }
    core_context::with(|local| {
        local.door.set_wait_max(server.wait_max);
        local.server = server;
        local.hosts.set_hosts(hosts);
        local.records.counts.change_hosts();
        let old_log = log.map(|log| std::mem::replace(&mut local.records.log, log));
        let closed = local.sockets.remove_listeners(|addr| removed.contains(addr));
        for CoreListener { listener, is_own, .. } in closed {
            // The core serves the connections that the kernel has accepted already. New clients
            // meet any other server that listens on this address. If the kernel refuses this step,
            // connections that come in the moment between are reset. A unix socket has lost its
            // path already, and the service manager keeps its own sockets.
            if is_own {
                let _ = listener.with_fd(begin_no_more);
            }
            listener.close();
        }
        // The bound may have changed.
        local.connections.wake_waiting();
        old_log
    })
}

/// Stops accepting on every core and ends its idle connections. Busy connections end with their
/// answers.
pub(crate) fn drain(handle: &Handle) {
    for core in handle.cores() {
        drop(handle.spawn_on(&handle.color_on(core), drain_core()));
    }
}

async fn drain_core() {
    stall_rescue::stop();
    let closed = core_context::with(|local| local.sockets.remove_listeners(|_| true));
    for CoreListener { listener, .. } in closed {
        // Another server may take this socket over, and must find the queue at its full length.
        let _ = listener.with_fd(|fd| limit_queue(fd, QUEUE_MAX));
        // The core serves the connections that the kernel has accepted already.
        listener.close();
    }
    sleep(IDLE_GRACE).await;
    let has_ended = |local: &mut CoreContext| {
        let left = local.connections.end_idle() + local.sockets.accepting;
        local.server.note_drained(left == 0)
    };
    while !core_context::with(has_ended) {
        sleep(DRAIN_LOOK).await;
    }
    for task in core_context::with(|local| std::mem::take(&mut local.background)) {
        task.cancel();
    }
}
