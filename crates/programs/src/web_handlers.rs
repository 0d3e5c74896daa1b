//! A web server of static files written handler by handler, like the server of Mely's measurements.
//!
//! accept, read, parse, look up, open, write, close: each step of a request is an event, on the
//! color of the connection. Handlers make non-blocking system calls, so any core can serve a
//! connection, and a stolen color takes the connection along. Small files are held in memory from
//! the start. Longer or new files are opened on request, on the blocking pool, because a disk may
//! be slow.
//!
//! The server answers GET without a body and keeps connections alive; for production use `vermeil
//! serve`.

use crate::{
    ProgramOutcome,
    net::{ClosedLoop, Readiness, Socket, SocketWait, listeners, read_http},
};
use std::{
    collections::HashMap,
    fs,
    io::{self, ErrorKind, Write},
    net::SocketAddr,
    path::{Component, Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};
use vermeil::{Color, Colored, Handle, Handler, Spec, blocking};

/// Bytes received at once: most requests are shorter.
const RECV_BYTES: usize = 4 << 10;
/// Maximum size of a request's head in bytes; a longer head ends the connection. Browsers send far
/// less.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Header lines of a request; more end the connection.
const HEADERS_MAX: usize = 64;
/// Files up to this size are held in memory. A guess: pages and small pictures.
const HELD_BYTES_MAX: u64 = 64 << 10;
/// Connections accepted in one event, because existing connections must be served in between. As in
/// the web server.
const ACCEPTS_IN_A_ROW: usize = 16;

/// The load, when the program measures itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct WebHandlersSize {
    /// Connections, kept alive.
    #[arg(long, default_value_t = 64)]
    pub connections: u32,
    /// Requests on each connection.
    #[arg(long, default_value_t = 1_000)]
    pub requests: u32,
    /// Threads that make the requests.
    #[arg(long, default_value_t = 1)]
    pub clients: u32,
    /// Bytes of the requested file.
    #[arg(long, default_value_t = 1 << 10)]
    pub file_bytes: usize,
}

/// What all connections share.
struct WebSite {
    handle: Handle,
    root: PathBuf,
    held: HashMap<PathBuf, Arc<[u8]>>,
    steps: OnceLock<WebHandlers>,
}

/// The handlers.
struct WebHandlers {
    accept: Handler<Arc<WebListener>>,
    read: HandlerStep,
    parse: HandlerStep,
    look_up: HandlerStep,
    open: HandlerStep,
    write: HandlerStep,
    close: HandlerStep,
}

type HandlerStep = Handler<Arc<WebConnection>>;

struct WebListener {
    socket: Socket,
    color: Color,
}

struct WebConnection {
    socket: Socket,
    color: Color,
    state: Colored<WebState>,
}

#[derive(Default)]
struct WebState {
    received: Vec<u8>,
    /// Path of the current request, below the root.
    path: PathBuf,
    keep_alive: bool,
    /// The answer being sent, and the number of sent bytes.
    sending: Option<(Arc<[u8]>, usize)>,
}

/// The step after a step.
enum NextStep {
    Read,
    Parse,
    LookUp,
    Open,
    Write,
    Close,
    Wait(SocketWait),
    /// Nothing: the connection has ended, or another task continues the connection.
    Nothing,
}

/// Serves the files below `root` at `addr` until the runtime stops; returns the address, with the
/// port in place of 0.
///
/// # Errors
/// When the folder cannot be read, or the address cannot be listened at.
pub fn serve(handle: &Handle, root: &Path, addr: SocketAddr) -> io::Result<SocketAddr> {
    let root = root.canonicalize()?;
    let mut held = HashMap::new();
    hold(&root, &root, &mut held)?;
    let site = Arc::new(WebSite { handle: handle.clone(), root, held, steps: OnceLock::new() });
    assert!(site.steps.set(WebHandlers::new(&site)).is_ok(), "set once");
    let (addr, sockets) = listeners(handle, addr)?;
    for (core, socket) in handle.cores().zip(sockets) {
        let socket = Socket::new(socket, Readiness::start(handle, core)?);
        let listener = Arc::new(WebListener { socket, color: handle.color_on(core) });
        let (accept, ready) = (site.steps().accept, listener.clone());
        let post = move || accept.post(&ready.color, ready.clone()).unwrap_or_else(|full| panic!("{full}"));
        listener.socket.watch(post)?;
    }
    Ok(addr)
}

impl WebHandlers {
    fn new(site: &Arc<WebSite>) -> Self {
        // The author's estimates: steps with a system call take microseconds, the others hundreds
        // of nanoseconds.
        let step = |name: &str, cost_ns, run: fn(&Arc<WebSite>, &Arc<WebConnection>) -> NextStep| {
            let spec = Spec::new(name).cost(Duration::from_nanos(cost_ns));
            let site = site.clone();
            site.handle.clone().handler(spec, move |connection: Arc<WebConnection>| {
                let next = run(&site, &connection);
                site.go_on(connection, next);
            })
        };
        let accepting = site.clone();
        Self {
            accept: site.handle.handler("accept", move |listener| accepting.accept(listener)),
            read: step("read", 1500, |_, connection| connection.read()),
            parse: step("parse", 500, |_, connection| connection.parse()),
            look_up: step("look-up", 200, WebSite::look_up),
            open: step("open", 1000, WebSite::open),
            write: step("write", 5000, |_, connection| connection.write()),
            close: step("close", 1000, |_, connection| {
                connection.socket.forget();
                NextStep::Nothing
            }),
        }
    }
}

impl WebSite {
    fn steps(&self) -> &WebHandlers {
        self.steps.get().expect("set before the first connection")
    }

    fn go_on(&self, connection: Arc<WebConnection>, next: NextStep) {
        let steps = self.steps();
        let step = match next {
            NextStep::Read => steps.read,
            NextStep::Parse => steps.parse,
            NextStep::LookUp => steps.look_up,
            NextStep::Open => steps.open,
            NextStep::Write => steps.write,
            NextStep::Close => steps.close,
            NextStep::Wait(wait) if connection.socket.wait(wait).is_ok() => return,
            NextStep::Wait(_) => steps.close,
            NextStep::Nothing => return,
        };
        post(step, &connection);
    }

    /// Accepts a few connections; each is notified at its first request.
    fn accept(self: &Arc<Self>, listener: Arc<WebListener>) {
        for _ in 0..ACCEPTS_IN_A_ROW {
            // A failed connection is no reason to refuse others. When descriptors run out, the
            // server accepts again at the next readiness.
            let Ok(socket) = listener.socket.accept() else { break };
            let color = self.handle.color();
            let state = Colored::new(color.id(), WebState::default());
            let connection = Arc::new(WebConnection { socket, color, state });
            let (read, ready) = (self.steps().read, connection.clone());
            if connection.socket.watch(move || post(read, &ready)).is_err() {
                connection.socket.forget();
            }
        }
        listener.socket.wait(SocketWait::Input).expect("a listener can be waited for");
    }

    fn look_up(self: &Arc<Self>, connection: &Arc<WebConnection>) -> NextStep {
        connection.state.with(|state| match self.held.get(&state.path) {
            Some(answer) => state.send(answer.clone()),
            None => NextStep::Open,
        })
    }

    /// Reads a file on the blocking pool; a task on the connection's color continues.
    fn open(self: &Arc<Self>, connection: &Arc<WebConnection>) -> NextStep {
        let (site, connection) = (self.clone(), connection.clone());
        let color = connection.color.clone();
        self.handle.spawn_on(&color, async move {
            let path = site.root.join(connection.state.with(|state| state.path.clone()));
            let root = site.root.clone();
            let answer = match blocking(move || read_below(&root, &path)).await {
                Ok(Ok(body)) => ok(&body),
                Ok(Err(_)) => refusal("404 Not Found"),
                Err(_) => refusal("503 Service Unavailable"),
            };
            let next = connection.state.with(|state| state.send(answer));
            site.go_on(connection, next);
        });
        NextStep::Nothing
    }
}

fn post(step: HandlerStep, connection: &Arc<WebConnection>) {
    step.post(&connection.color, connection.clone()).unwrap_or_else(|full| panic!("{full}"));
}

impl WebConnection {
    /// Receives; also the first step after a wait for the socket.
    fn read(&self) -> NextStep {
        self.state.with(|state| {
            if state.sending.is_some() {
                return NextStep::Write;
            }
            match self.socket.recv(&mut state.received, RECV_BYTES) {
                Ok(0) => NextStep::Close,
                Ok(_) => NextStep::Parse,
                Err(error) if error.kind() == ErrorKind::WouldBlock => NextStep::Wait(SocketWait::Input),
                Err(_) => NextStep::Close,
            }
        })
    }

    fn parse(&self) -> NextStep {
        self.state.with(|state| {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut request = httparse::Request::new(&mut headers);
            match request.parse(&state.received) {
                Ok(httparse::Status::Complete(bytes)) => {
                    let path = path_of(&request);
                    state.keep_alive = path.is_some() && keeps_alive(&request);
                    state.received.drain(..bytes);
                    match path {
                        Some(path) => state.path = path,
                        None => return state.send(refusal("400 Bad Request")),
                    }
                    NextStep::LookUp
                }
                Ok(httparse::Status::Partial) if state.received.len() <= HEAD_BYTES_MAX => NextStep::Read,
                Ok(httparse::Status::Partial) | Err(_) => NextStep::Close,
            }
        })
    }

    fn write(&self) -> NextStep {
        self.state.with(|state| {
            let Some((answer, sent)) = &mut state.sending else { return NextStep::Read };
            match self.socket.send(&answer[*sent..]) {
                Ok(bytes) => *sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return NextStep::Wait(SocketWait::Output);
                }
                Err(_) => return NextStep::Close,
            }
            if *sent < answer.len() {
                return NextStep::Write;
            }
            state.sending = None;
            match state.keep_alive {
                true if state.received.is_empty() => NextStep::Wait(SocketWait::Input),
                true => NextStep::Parse,
                false => NextStep::Close,
            }
        })
    }
}

impl WebState {
    fn send(&mut self, answer: Arc<[u8]>) -> NextStep {
        self.sending = Some((answer, 0));
        NextStep::Write
    }
}

/// The requested file of a GET without a body, below the root.
fn path_of(request: &httparse::Request<'_, '_>) -> Option<PathBuf> {
    let has_body = |header: &httparse::Header<'_>| {
        ["content-length", "transfer-encoding"].iter().any(|name| header.name.eq_ignore_ascii_case(name))
    };
    if request.method != Some("GET") || request.headers.iter().any(has_body) {
        return None;
    }
    let path = request.path?.split('?').next()?.strip_prefix('/')?;
    let mut file = PathBuf::from(path);
    if path.is_empty() || path.ends_with('/') {
        file.push("index.html");
    }
    file.components().all(|part| matches!(part, Component::Normal(_))).then_some(file)
}

fn keeps_alive(request: &httparse::Request<'_, '_>) -> bool {
    let closes = |header: &httparse::Header<'_>| {
        header.name.eq_ignore_ascii_case("connection") && header.value.eq_ignore_ascii_case(b"close")
    };
    request.version == Some(1) && !request.headers.iter().any(closes)
}

fn ok(body: &[u8]) -> Arc<[u8]> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat().into()
}

fn refusal(status: &str) -> Arc<[u8]> {
    let length = status.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{status}").into_bytes().into()
}

/// The file's content, if the path is a file below `root` after following links.
fn read_below(root: &Path, path: &Path) -> io::Result<Vec<u8>> {
    let path = path.canonicalize()?;
    if path.starts_with(root) { fs::read(path) } else { Err(ErrorKind::NotFound.into()) }
}

/// Loads the small files below `folder` into memory; links are opened on request.
fn hold(root: &Path, folder: &Path, held: &mut HashMap<PathBuf, Arc<[u8]>>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (path, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        if metadata.is_dir() {
            hold(root, &path, held)?;
        } else if metadata.is_file() && metadata.len() <= HELD_BYTES_MAX {
            let below = path.strip_prefix(root).expect("found below it").to_owned();
            held.insert(below, ok(&fs::read(path)?));
        }
    }
    Ok(())
}

/// Serves a file and requests the file until every client has all answers; the checksum covers all
/// bodies.
///
/// # Errors
/// When a socket fails, or an answer is not the file.
pub fn run(handle: &Handle, size: WebHandlersSize) -> io::Result<ProgramOutcome> {
    let folder = tempfile::tempdir()?;
    let body = body(size);
    fs::write(folder.path().join("file"), &body)?;
    let addr = serve(handle, folder.path(), SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let load =
        ClosedLoop { addr, connections: size.connections, requests: size.requests, threads: size.clients };
    load.run(
        |_, _, to| to.write_all(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n"),
        |_, _, from| Ok(sum(&read_http(from)?)),
    )
}

/// The checksum of a run.
pub fn checksum(size: WebHandlersSize) -> u64 {
    sum(&body(size)).wrapping_mul(u64::from(size.connections) * u64::from(size.requests))
}

fn body(size: WebHandlersSize) -> Vec<u8> {
    (0..size.file_bytes).map(|index| b'a' + (index % 26) as u8).collect()
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte)).sum()
}
