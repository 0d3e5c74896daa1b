//! The state of a core of the server: the core's part of the file cache, its end of the log, its
//! clock, its connections.
//!
//! Tasks of the core reach this state through a thread-local, for the length of a closure that does
//! not wait. So no lock guards the state. Leaves out the state that all cores share (`server.rs`).

use crate::{
    connections::{Connections, IdleState},
    counts::{AnswerEnd, RequestCounts, RequestStart},
    server::Server,
};
use rustix::net::SocketAddrAny;
use std::{
    cell::RefCell,
    future::poll_fn,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use vermeil::{CoreIndex, Handle, Sleep, Task, TcpListener, now_ms, yield_now};
use vermeil_accept::{
    admission_control::AdmissionController,
    balance::{Accepted, IdleConnectionPool},
    busy_poll::CorePolling,
    listening::SocketKeeper,
};
use vermeil_address::ListenAddr;
use vermeil_exchange::{CoreHeadParts, PasswordUse, RequestName, Sent};
use vermeil_files::CoreCache;
use vermeil_http::{FieldLines, Request, basic::BasicCredentials};
use vermeil_log::{AnswerTime, CoreLog, HostLog, LogRecord, LoggedClient};
use vermeil_routing::{
    clients::Visit,
    hosts::{CoreHosts, HostId, Hosts},
};

thread_local! {
    static LOCAL: RefCell<Option<CoreContext>> = const { RefCell::new(None) };
}

/// The state of one core.
pub struct CoreContext {
    /// The state that all cores share.
    pub server: Arc<Server>,
    /// The hosts, with the folders that this core has open.
    pub hosts: CoreHosts,
    /// The core's part of the file cache.
    pub cache: CoreCache,
    /// Whether programs may answer requests.
    pub has_programs: bool,
    /// The records of ended requests.
    pub records: RequestRecords,
    /// The connections of the core.
    pub connections: Connections,
    /// Admission control of the core.
    pub door: AdmissionController,
    /// Whether the core polls its network card.
    pub polling: CorePolling,
    /// The parts of heads that the core makes.
    pub heads: CoreHeadParts,
    /// The sockets that serve no request.
    pub sockets: CoreSockets,
    /// Tasks that run until the core has drained.
    pub background: Vec<Task<()>>,
}

/// The core's records of ended requests.
pub struct RequestRecords {
    /// The core's end of the access log.
    pub log: CoreLog,
    /// The counts of answers.
    pub counts: RequestCounts,
    /// Waits for the log's first unflushed record.
    flusher: Option<Waker>,
}

/// A request that has ended.
pub struct EndedRequest<'a> {
    /// The client, if there is a log.
    pub peer: Option<LoggedClient>,
    /// The request's bytes, or the bytes that came instead of a request.
    pub received: &'a [u8],
    /// The request. `None` if the bytes are no request.
    pub request: Option<&'a Request<'a>>,
    /// The start of the request.
    pub start: RequestStart,
    /// The part of the answer that was sent.
    pub sent: Sent,
    /// Whether the answer reached its end.
    pub end: AnswerEnd,
    /// The request's name in notices and the time of the program, if a program was asked.
    pub program: Option<ProgramPart>,
    /// Whether the log shows the name that the client sent with a password.
    pub password: PasswordUse,
}

/// The part of a program in an answer.
#[derive(Clone, Copy)]
pub struct ProgramPart {
    /// The name of the request in notices.
    pub name: RequestName,
    /// The time of the program, in nanoseconds.
    pub took_ns: u64,
}

/// The sockets of a core that serve no request.
#[derive(Default)]
pub struct CoreSockets {
    /// The sockets that the core accepts from.
    pub listeners: Vec<CoreListener>,
    /// The listeners from which the core accepts no more, because their connections go on.
    closed: Vec<ClosedListener>,
    /// Accepting tasks that have not ended.
    pub accepting: usize,
    /// Connections that wait for their next request. `None` if no other core looks there.
    pub shelf: Option<Arc<IdleConnectionPool>>,
}

/// A socket that this core accepts from.
pub struct CoreListener {
    /// The address as configured, perhaps with port 0.
    pub addr: ListenAddr,
    /// The kernel's name of the socket, which its connections have too.
    pub bound: SocketAddrAny,
    /// The socket.
    pub listener: Arc<TcpListener>,
    /// The process that opened the socket.
    pub keeper: SocketKeeper,
    /// Whether no other core accepts from the same socket. All cores share a unix socket, and a
    /// socket of the service manager.
    pub is_own: bool,
}

/// A listener that a reload or a drain has closed.
#[derive(PartialEq, Eq)]
struct ClosedListener {
    /// As [`CoreListener::addr`].
    addr: ListenAddr,
    /// As [`CoreListener::bound`].
    bound: SocketAddrAny,
}

impl CoreSockets {
    /// Removes the listeners whose configured addresses `ends` names. The caller closes them. Their
    /// connections still find their listener.
    pub fn remove_listeners(&mut self, ends: impl Fn(&ListenAddr) -> bool) -> Vec<CoreListener> {
        let removed: Vec<_> = self.listeners.extract_if(.., |listener| ends(&listener.addr)).collect();
        for CoreListener { addr, bound, .. } in &removed {
            let closed = ClosedListener { addr: *addr, bound: bound.clone() };
            if !self.closed.contains(&closed) {
                self.closed.push(closed);
            }
        }
        removed
    }

    /// The configured address of the first listener, open or closed, whose own name fits.
    fn addr_of(&self, is_of: impl Fn(&SocketAddrAny) -> bool) -> Option<ListenAddr> {
        let open = self.listeners.iter().map(|listener| (listener.addr, &listener.bound));
        let closed = self.closed.iter().map(|listener| (listener.addr, &listener.bound));
        open.chain(closed).find(|(_, bound)| is_of(bound)).map(|(addr, _)| addr)
    }
}

/// Makes this thread a core of `server`.
pub fn install(server: Arc<Server>, hosts: CoreHosts, cache: CoreCache, log: CoreLog) {
    let local = CoreContext {
        door: AdmissionController::new(server.wait_max),
        polling: CorePolling::default(),
        server,
        hosts,
        cache,
        has_programs: false,
        records: RequestRecords { log, counts: RequestCounts::default(), flusher: None },
        connections: Connections::default(),
        heads: CoreHeadParts::default(),
        sockets: CoreSockets::default(),
        background: Vec::new(),
    };
    LOCAL.set(Some(local));
}

/// Runs a closure on the state of this core.
///
/// # Panics
/// On a thread that is not a core of a server, and when called from within the closure. Both are
/// bugs of this crate.
pub fn with<R>(f: impl FnOnce(&mut CoreContext) -> R) -> R {
    LOCAL.with_borrow_mut(|local| f(local.as_mut().expect("runs on a core of the server")))
}

/// Like [`with`], for destructors, which may run when the core has gone.
pub fn try_with<R>(f: impl FnOnce(&mut CoreContext) -> R) -> Option<R> {
    LOCAL.try_with(|cell| cell.try_borrow_mut().ok()?.as_mut().map(f)).ok().flatten()
}

impl CoreContext {
    /// Counts a request that has ended, and writes its line of the access log, if there is a log.
    #[inline]
    pub fn end_request(&mut self, ended: EndedRequest<'_>) {
        let EndedRequest { peer, received, request, start, sent, end, program, password } = ended;
        let duration_ns = self.records.counts.count(self.hosts.hosts(), start, sent, end);
        self.server.count_body(sent.body_bytes);
        let Some(peer) = peer else { return };
        let file = match host_log(self.hosts.hosts(), self.records.counts.host_of(start), request) {
            None => None,
            Some(HostLog::File(path)) => Some(path),
            Some(HostLog::Off) => return,
        };
        let seconds = self.heads.clock.date(now_ms()).seconds();
        let [host, referer, user_agent] = match request {
            Some(request) => [request.host, request.referer, request.user_agent],
            None => refused_fields(received),
        };
        let credentials = match request {
            Some(request) if password == PasswordUse::Asked => BasicCredentials::of(request),
            _ => None,
        };
        let request_id = match program {
            Some(program) => program.name.0,
            None if self.records.log.has_request_id() => self.heads.boundary(),
            None => 0,
        };
        let record = LogRecord {
            peer,
            unix_seconds: seconds.unsigned_abs(),
            host,
            user: credentials.as_ref().map(BasicCredentials::user),
            request_line: request_line(received),
            status: sent.status,
            body_bytes: sent.body_bytes,
            referer,
            user_agent,
            request_id,
            time: AnswerTime { duration_ns, program_ns: program.map(|program| program.took_ns) },
            is_aborted: end == AnswerEnd::Aborted,
        };
        self.records.log.record(&record, file);
        if let Some(flusher) = self.records.flusher.take() {
            flusher.wake();
        }
    }

    /// Ends a request of which the server knows only the first bytes.
    pub fn end_unparsed(&mut self, peer: Option<LoggedClient>, received: &[u8], sent: Sent, end: AnswerEnd) {
        let start = self.records.counts.start_now();
        let password = PasswordUse::NotAsked;
        self.end_request(EndedRequest {
            peer,
            received,
            request: None,
            start,
            sent,
            end,
            program: None,
            password,
        });
    }

    /// The configured address of the listener that accepted a connection whose own end the kernel
    /// names `own`. If this core never had that listener, the address of TCP itself.
    pub fn listener_of(&self, own: &SocketAddrAny) -> Option<ListenAddr> {
        let Ok(own) = SocketAddr::try_from(own.clone()) else {
            return self.sockets.addr_of(|bound| bound == own);
        };
        let own = SocketAddr::new(own.ip().to_canonical(), own.port());
        let is_of = |bound: SocketAddr| {
            bound.port() == own.port()
                && (bound.ip() == own.ip() || bound.ip().is_unspecified() && bound.is_ipv4() == own.is_ipv4())
        };
        let found = self.sockets.addr_of(|bound| SocketAddr::try_from(bound.clone()).is_ok_and(is_of));
        found.or(Some(own.into()))
    }
}

/// The log of the host that answered, if that is not the common log. A request that began before a
/// reload has the log of the host that would answer now.
#[inline]
fn host_log<'h>(
    hosts: &'h Hosts,
    answered: Option<HostId>,
    request: Option<&Request<'_>>,
) -> Option<HostLog<'h>> {
    if !hosts.have_logs() {
        return None;
    }
    hosts.log(answered.or_else(|| hosts.find(request?.host))?)
}

/// `Host`, `Referer` and `User-Agent` of a refused request or of input that is no request, as far
/// as received.
#[cold]
fn refused_fields(received: &[u8]) -> [Option<&[u8]>; 3] {
    let first = |known: &[u8]| {
        let mut lines = FieldLines::of_refused(received);
        lines.find(|(name, _)| name.eq_ignore_ascii_case(known)).map(|(_, value)| value)
    };
    [&b"host"[..], b"referer", b"user-agent"].map(first)
}

/// The first line of the received bytes.
pub fn request_line(received: &[u8]) -> &[u8] {
    let start = received.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(received.len());
    let line = &received[start..];
    &line[..line.iter().position(|byte| b"\r\n".contains(byte)).unwrap_or(line.len())]
}

/// Waits until the log has an unflushed record. Returns the time when its flush is due, on the
/// core's clock.
pub async fn log_due_ms() -> u64 {
    poll_fn(|context| {
        with(|local| match local.records.log.due_ms() {
            Some(due_ms) => Poll::Ready(due_ms),
            None => {
                local.records.flusher = Some(context.waker().clone());
                Poll::Pending
            }
        })
    })
    .await
}

/// A connection's place among those its core may hold. Dropping the place makes room for another
/// connection.
pub struct ConnectionPermit {
    /// The core that holds the place.
    core: CoreIndex,
    number: usize,
    /// Set if client addresses have a bound of connections.
    visit: Option<Visit>,
    /// Whether the connection came to its own end, instead of ending with the runtime.
    ended: bool,
}

impl ConnectionPermit {
    /// Takes a place of the running core for a new connection.
    pub fn take(visit: Option<Visit>) -> Self {
        let number = with(|local| local.connections.insert());
        Self { core: here(), number, visit, ended: false }
    }

    /// Changes to a place of the running core, if the connection has moved there while its client
    /// made no progress since `since_ms` in the state `idle`. The place there may be beyond the
    /// bound of connections, until one of that core's connections ends.
    #[inline]
    pub fn follow(&mut self, idle: IdleState, since_ms: u64) {
        if self.core != here() {
            self.change_core(idle, since_ms);
        }
    }

    #[cold]
    fn change_core(&mut self, idle: IdleState, since_ms: u64) {
        let number = with(|local| {
            local.server.balancing.count(here().0 as usize, Accepted::Moved);
            // The core before may have told the connection to end already.
            let is_draining = local.server.is_draining();
            local.connections.insert_moved(idle, since_ms, is_draining)
        });
        give_back(self.core, self.number);
        (self.core, self.number) = (here(), number);
    }

    /// Counts the connection for another client than the other end.
    pub fn count_for(&mut self, visit: Option<Visit>) {
        self.visit = visit;
    }

    /// The connection has come to its end.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Sets whether the connection waits for its client alone.
    pub fn set_idle(&self, idle: IdleState) {
        with(|local| local.connections.set_idle(self.number, idle, now_ms()));
    }

    /// The same for a state in which the client has made no progress since `since_ms`.
    pub fn set_idle_since(&self, idle: IdleState, since_ms: u64) {
        with(|local| local.connections.set_idle(self.number, idle, since_ms));
    }

    /// Notes that the client has made progress in that state.
    pub fn progress(&self) {
        with(|local| local.connections.progress(self.number, now_ms()));
    }

    /// Whether another connection wants this place. For the waiting task of the connection.
    pub fn gives_way(&self, context: &Context<'_>) -> bool {
        with(|local| local.connections.gives_way(self.number, context.waker()))
    }

    /// Whether the connection should end, because the client is owed nothing. For the waiting task
    /// of the connection.
    pub fn is_ending(&self, context: &Context<'_>) -> bool {
        with(|local| local.connections.is_ending(self.number, context.waker()))
    }
}

/// The running core.
fn here() -> CoreIndex {
    vermeil::core_index().expect("runs on a core of the server")
}

/// Gives the place `number` of another core back.
fn give_back(core: CoreIndex, number: usize) {
    let Some(handle) = Handle::try_current() else { return };
    drop(handle.spawn_on(&handle.color_on(core), async move {
        with(|local| local.connections.remove(number));
    }));
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let here = vermeil::core_index();
        try_with(|local| {
            if here == Some(self.core) {
                local.connections.remove(self.number);
            }
            if !self.ended {
                local.server.count_unfinished();
            }
        });
        // A task that is cancelled has not followed its color yet.
        if here != Some(self.core) {
            give_back(self.core, self.number);
        }
    }
}

/// How often a full core looks for a connection that may give way: half of the shortest time that a
/// state must last (`connections.rs`).
const LOOK: Duration = Duration::from_millis(50);

/// Whether the core may hold another connection.
fn has_vacancy() -> bool {
    with(|local| local.connections.count() < local.server.connections_max)
}

/// Whether the core could hold another connection, perhaps in place of a connection that gives way
/// now.
pub async fn makes_room() -> bool {
    if has_vacancy() {
        return true;
    }
    if !with(|local| local.connections.end_one(now_ms())) {
        return false;
    }
    yield_now().await;
    has_vacancy()
}

/// Waits until the core could hold another connection, perhaps in place of a connection that gives
/// way.
pub async fn prospect() {
    room(
        |connections, now_ms| {
            if connections.has_idle(now_ms) { ConnectionRoom::Now } else { ConnectionRoom::None }
        },
    )
    .await;
}

/// Waits until the core may hold another connection, and tells a connection to give way.
pub async fn vacancy() {
    room(
        |connections, now_ms| {
            if connections.end_one(now_ms) { ConnectionRoom::Soon } else { ConnectionRoom::None }
        },
    )
    .await;
}

/// Whether a full core has room for another connection.
enum ConnectionRoom {
    Now,
    /// A connection was told to end.
    Soon,
    None,
}

/// Waits until the core has a vacancy, or `make` finds room.
async fn room(make: impl Fn(&mut Connections, u64) -> ConnectionRoom) {
    if has_vacancy() {
        return;
    }
    let mut limit = Sleep::unset();
    loop {
        let looked = poll_fn(|context| {
            with(|local| {
                if local.connections.count() < local.server.connections_max {
                    return Poll::Ready(());
                }
                match make(&mut local.connections, now_ms()) {
                    ConnectionRoom::Now => return Poll::Ready(()),
                    ConnectionRoom::Soon => {}
                    ConnectionRoom::None => local.server.say_full(),
                }
                local.connections.wait(context.waker());
                Poll::Pending
            })
        });
        // A half-received request becomes old enough without waking any task.
        limit.set(LOOK);
        if limit.limit(looked).await.is_ok() {
            return;
        }
    }
}
