//! A file server that encrypts its replies, in the manner of SFS: heavy events beside cheap events.
//!
//! A client names a session and requests blocks of a large file. The server seals each block
//! (ChaCha20-Poly1305, RFC 8439) and sends the block. Accepting, reading and writing are cheap and
//! run on the color of the connection. Sealing takes a hundred times as long and runs on a second
//! color of the connection. So sealing can be stolen while the connection continues to read, and
//! the replies keep their order, because a color keeps its order.
//!
//! The protocol, all numbers little-endian: a client sends a session (8 bytes) once, then requests
//! of block number and length (4 bytes each), any number without waiting. A reply is the length of
//! the rest (4 bytes), the sealed block, and the tag (16 bytes); the nonce is session and reply
//! number. The key is a constant, because this is an example.

use crate::{
    ProgramOutcome,
    net::{ClosedLoop, Readiness, Socket, SocketWait, listeners},
};
use chacha20poly1305::{AeadInOut, ChaCha20Poly1305, KeyInit, Nonce};
use std::{
    collections::VecDeque,
    io::{self, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, OnceLock},
    time::Duration,
};
use vermeil::{Color, Colored, Handle, Handler, Spec};

/// Size of the file in bytes: more than a core's private cache.
const FILE_BYTES: usize = 8 << 20;
/// Maximum size of a block in bytes; a longer request ends the connection. Bounds the memory of a
/// request.
const BLOCK_BYTES_MAX: u32 = 1 << 20;
/// Maximum number of replies of a connection that are being sealed or wait to be sent. Further
/// requests wait: those of one receive in memory, all others in the socket.
const REPLIES_MAX: usize = 32;
/// Bytes received at once: some hundred requests.
const RECV_BYTES: usize = 1 << 10;
/// Connections accepted in one event, because existing connections must be served in between. As in
/// the web server.
const ACCEPTS_IN_A_ROW: usize = 16;

const SESSION_BYTES: usize = 8;
const REQUEST_BYTES: usize = 8;
const LENGTH_BYTES: usize = 4;
const TAG_BYTES: usize = 16;

/// The load, when the program measures itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct EncryptingSize {
    /// Clients, each with a connection.
    #[arg(long, default_value_t = 16)]
    pub clients: u32,
    /// Rounds of each client: requests sent together, whose replies are awaited together.
    #[arg(long, default_value_t = 100)]
    pub rounds: u32,
    /// Requests of a round.
    #[arg(long, default_value_t = 8)]
    pub requests: u32,
    /// Bytes of a block.
    #[arg(long, default_value_t = 32 << 10)]
    pub block_bytes: u32,
    /// Threads that make the requests.
    #[arg(long, default_value_t = 1)]
    pub threads: u32,
}

/// A block of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    number: u32,
    bytes: u32,
}

/// What all connections share.
struct EncryptingServer {
    handle: Handle,
    vault: Vault,
    steps: OnceLock<EncryptingHandlers>,
}

/// The file, and the cipher.
struct Vault {
    file: Vec<u8>,
    cipher: ChaCha20Poly1305,
}

/// The handlers.
struct EncryptingHandlers {
    accept: Handler<Arc<EncryptingListener>>,
    read: Handler<Arc<EncryptingConnection>>,
    seal: Handler<Seal>,
    write: Handler<SealedBlock>,
}

struct EncryptingListener {
    socket: Socket,
    color: Color,
}

struct EncryptingConnection {
    socket: Socket,
    color: Color,
    /// The color that seals this connection's blocks.
    sealing: Color,
    state: Colored<EncryptingState>,
}

#[derive(Default)]
struct EncryptingState {
    received: Vec<u8>,
    session: Option<[u8; SESSION_BYTES]>,
    requests: u32,
    /// Requests whose replies are not yet written.
    unanswered: usize,
    /// Replies to write, and the number of written bytes of the first reply.
    replies: VecDeque<Vec<u8>>,
    written: usize,
    /// The event for which the socket is watched.
    watched: Option<SocketWait>,
    over: bool,
}

/// A block to seal.
struct Seal {
    connection: Arc<EncryptingConnection>,
    nonce: Nonce,
    block: Block,
}

/// A sealed block to write.
struct SealedBlock {
    connection: Arc<EncryptingConnection>,
    sealed: Vec<u8>,
}

/// Serves at `addr` until the runtime stops; returns the address, with the port in place of 0.
///
/// # Errors
/// When the address cannot be listened at.
pub fn serve(handle: &Handle, addr: SocketAddr) -> io::Result<SocketAddr> {
    let server =
        Arc::new(EncryptingServer { handle: handle.clone(), vault: Vault::new(), steps: OnceLock::new() });
    assert!(server.steps.set(EncryptingHandlers::new(&server)).is_ok(), "set once");
    let (addr, sockets) = listeners(handle, addr)?;
    for (core, socket) in handle.cores().zip(sockets) {
        let socket = Socket::new(socket, Readiness::start(handle, core)?);
        let listener = Arc::new(EncryptingListener { socket, color: handle.color_on(core) });
        let (accept, ready) = (server.steps().accept, listener.clone());
        listener.socket.watch(move || post(accept, &ready.color, ready.clone()))?;
    }
    Ok(addr)
}

/// Posts an event. Connections and [`REPLIES_MAX`] bound the number of these events far below the
/// bound of a core.
fn post<E: Send + 'static>(handler: Handler<E>, color: &Color, event: E) {
    handler.post(color, event).unwrap_or_else(|full| panic!("{full}"));
}

impl EncryptingHandlers {
    fn new(server: &Arc<EncryptingServer>) -> Self {
        fn step<E: Send + 'static>(
            server: &Arc<EncryptingServer>,
            spec: Spec,
            run: fn(&EncryptingServer, E),
        ) -> Handler<E> {
            let inside = server.clone();
            server.handle.handler(spec, move |event| run(&inside, event))
        }
        // The author's estimates: a system call or two, and some 30 KB at half a gigabyte a second.
        let costs = |name, us| Spec::new(name).cost(Duration::from_micros(us));
        Self {
            accept: step(server, costs("accept", 10), EncryptingServer::accept),
            read: step(server, costs("read", 5), EncryptingServer::read),
            seal: step(server, costs("seal", 60), EncryptingServer::seal),
            write: step(server, costs("write", 15), EncryptingServer::write),
        }
    }
}

impl EncryptingServer {
    fn steps(&self) -> &EncryptingHandlers {
        self.steps.get().expect("set before the first connection")
    }

    fn accept(&self, listener: Arc<EncryptingListener>) {
        for _ in 0..ACCEPTS_IN_A_ROW {
            // A failed connection is no reason to refuse others; the readiness is signalled again.
            let Ok(socket) = listener.socket.accept() else { break };
            let (color, sealing) = (self.handle.color(), self.handle.color());
            let state = Colored::new(color.id(), EncryptingState::default());
            let connection = Arc::new(EncryptingConnection { socket, color, sealing, state });
            let (read, ready) = (self.steps().read, connection.clone());
            if connection.socket.watch(move || post(read, &ready.color, ready.clone())).is_err() {
                connection.socket.forget();
            }
        }
        listener.socket.wait(SocketWait::Input).expect("a listener can be waited for");
    }

    /// The socket is ready: writes waiting replies, receives requests and passes the requests on to
    /// be sealed.
    fn read(&self, connection: Arc<EncryptingConnection>) {
        let requests = connection.with(|state| {
            state.watched = None;
            connection.send(state)?;
            connection.receive(state)
        });
        self.pass_on(&connection, requests);
    }

    fn pass_on(&self, connection: &Arc<EncryptingConnection>, requests: Vec<(Nonce, Block)>) {
        for (nonce, block) in requests {
            let seal = Seal { connection: connection.clone(), nonce, block };
            post(self.steps().seal, &connection.sealing, seal);
        }
    }

    /// The heavy step.
    fn seal(&self, Seal { connection, nonce, block }: Seal) {
        let sealed = self.vault.seal(&nonce, block);
        let color = connection.color.clone();
        post(self.steps().write, &color, SealedBlock { connection, sealed });
    }

    fn write(&self, SealedBlock { connection, sealed }: SealedBlock) {
        let requests = connection.with(|state| {
            state.replies.push_back(sealed);
            connection.send(state)?;
            // A sent reply makes room for a request that was received before.
            state.requests()
        });
        self.pass_on(&connection, requests);
    }
}

impl EncryptingConnection {
    /// Runs a step and then waits for the event that the next step needs; a failed step ends the
    /// connection.
    fn with<R: Default>(&self, step: impl FnOnce(&mut EncryptingState) -> io::Result<R>) -> R {
        self.state.with(|state| {
            if state.over {
                return R::default();
            }
            let done = step(state).and_then(|result| self.watch_for_next(state).map(|()| result));
            done.unwrap_or_else(|_| {
                state.over = true;
                self.socket.forget();
                R::default()
            })
        })
    }

    fn watch_for_next(&self, state: &mut EncryptingState) -> io::Result<()> {
        let next = match state.replies.is_empty() {
            false => SocketWait::Output,
            true if state.unanswered < REPLIES_MAX => SocketWait::Input,
            true => return Ok(()),
        };
        if state.watched != Some(next) {
            self.socket.wait(next)?;
            state.watched = Some(next);
        }
        Ok(())
    }

    /// Writes replies until the socket is full.
    fn send(&self, state: &mut EncryptingState) -> io::Result<()> {
        while let Some(reply) = state.replies.front() {
            match self.socket.send(&reply[state.written..]) {
                Ok(bytes) => state.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if state.written == reply.len() {
                state.replies.pop_front();
                state.unanswered -= 1;
                state.written = 0;
            }
        }
        Ok(())
    }

    /// Receives once, unless received requests wait; returns the requests to answer now.
    fn receive(&self, state: &mut EncryptingState) -> io::Result<Vec<(Nonce, Block)>> {
        let waiting = state.requests()?;
        if !waiting.is_empty() || state.unanswered >= REPLIES_MAX {
            return Ok(waiting);
        }
        match self.socket.recv(&mut state.received, RECV_BYTES) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        state.requests()
    }
}

impl EncryptingState {
    /// Takes complete requests, up to [`REPLIES_MAX`] unanswered requests.
    fn requests(&mut self) -> io::Result<Vec<(Nonce, Block)>> {
        if self.session.is_none() && self.received.len() >= SESSION_BYTES {
            self.session = self.received.drain(..SESSION_BYTES).collect::<Vec<_>>().try_into().ok();
        }
        let Some(session) = self.session else { return Ok(Vec::new()) };
        let mut requests = Vec::new();
        let room = REPLIES_MAX.saturating_sub(self.unanswered);
        let taken_bytes = (self.received.len() / REQUEST_BYTES).min(room) * REQUEST_BYTES;
        for request in self.received.drain(..taken_bytes).as_slice().chunks_exact(REQUEST_BYTES) {
            let (number, bytes) = request.split_at(4);
            let number = u32::from_le_bytes(number.try_into().expect("four bytes"));
            let bytes = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
            if !(1..=BLOCK_BYTES_MAX).contains(&bytes) {
                return Err(io::Error::new(ErrorKind::InvalidData, "a block of no possible length"));
            }
            requests.push((nonce(session, self.requests), Block { number, bytes }));
            self.requests += 1;
        }
        self.unanswered += requests.len();
        Ok(requests)
    }
}

fn nonce(session: [u8; SESSION_BYTES], reply: u32) -> Nonce {
    let mut nonce = Nonce::default();
    nonce[..SESSION_BYTES].copy_from_slice(&session);
    nonce[SESSION_BYTES..].copy_from_slice(&reply.to_le_bytes());
    nonce
}

impl Vault {
    fn new() -> Self {
        let file = (0..FILE_BYTES).map(|at| (at ^ (at >> 8)) as u8).collect();
        Self { file, cipher: ChaCha20Poly1305::new(&[7; 32].into()) }
    }

    fn block(&self, block: Block) -> &[u8] {
        let bytes = block.bytes as usize;
        let places = self.file.len() / bytes;
        &self.file[block.number as usize % places * bytes..][..bytes]
    }

    /// A whole reply.
    fn seal(&self, nonce: &Nonce, block: Block) -> Vec<u8> {
        let block = self.block(block);
        let mut reply = Vec::with_capacity(LENGTH_BYTES + block.len() + TAG_BYTES);
        let length = u32::try_from(block.len() + TAG_BYTES).expect("blocks are bounded");
        reply.extend_from_slice(&length.to_le_bytes());
        reply.extend_from_slice(block);
        let tag = self
            .cipher
            .encrypt_inout_detached(nonce, b"", (&mut reply[LENGTH_BYTES..]).into())
            .expect("a block is far shorter than the cipher's bound of 256 GB");
        reply.extend_from_slice(&tag);
        reply
    }
}

/// Serves and requests until every client has all replies; the checksum covers all tags.
///
/// # Errors
/// When a socket fails, or a reply has a wrong length.
pub fn run(handle: &Handle, size: EncryptingSize) -> io::Result<ProgramOutcome> {
    let addr = serve(handle, SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let load = ClosedLoop { addr, connections: size.clients, requests: size.rounds, threads: size.threads };
    let outcome = load.run(
        |client, round, to| ask(size, client, round, to),
        |_, _, from| (0..size.requests).map(|_| read_reply(size, from)).sum(),
    )?;
    Ok(ProgramOutcome { events: outcome.events * u64::from(size.requests), ..outcome })
}

fn session(client: u32) -> [u8; SESSION_BYTES] {
    u64::from(client).to_le_bytes()
}

/// The number of a client's block.
fn block_number(client: u32, request: u32) -> u32 {
    client.wrapping_mul(17).wrapping_add(request)
}

fn ask(size: EncryptingSize, client: u32, round: u32, to: &mut TcpStream) -> io::Result<()> {
    let mut bytes = Vec::new();
    if round == 0 {
        bytes.extend_from_slice(&session(client));
    }
    for request in round * size.requests..(round + 1) * size.requests {
        bytes.extend_from_slice(&block_number(client, request).to_le_bytes());
        bytes.extend_from_slice(&size.block_bytes.to_le_bytes());
    }
    to.write_all(&bytes)
}

fn read_reply(size: EncryptingSize, from: &mut BufReader<TcpStream>) -> io::Result<u64> {
    let mut reply = vec![0; LENGTH_BYTES + size.block_bytes as usize + TAG_BYTES];
    from.read_exact(&mut reply)?;
    Ok(tag_sum(&reply))
}

/// The contribution of a reply to the checksum: a part of the tag, which depends on every byte of
/// the block and on the nonce.
fn tag_sum(reply: &[u8]) -> u64 {
    let part = reply.last_chunk().expect("a reply has a tag");
    u32::from_le_bytes(*part).into()
}

/// The checksum of a run, computed by the calling thread alone.
pub fn checksum(size: EncryptingSize) -> u64 {
    let vault = Vault::new();
    let replies = size.rounds * size.requests;
    let one = |client, request| {
        let block = Block { number: block_number(client, request), bytes: size.block_bytes };
        tag_sum(&vault.seal(&nonce(session(client), request), block))
    };
    (0..size.clients)
        .flat_map(|client| (0..replies).map(move |request| (client, request)))
        .map(|(c, r)| one(c, r))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: one receive passed on four times as many requests.
    #[test]
    fn requests_beyond_bound_wait() {
        let request = [1u8, 0, 0, 0, 1, 0, 0, 0];
        let mut state = EncryptingState {
            received: request.repeat(REPLIES_MAX + 3),
            session: Some([0; SESSION_BYTES]),
            ..EncryptingState::default()
        };
        let mut taken = || state.requests().expect("valid requests").len();
        assert_eq!([taken(), taken()], [REPLIES_MAX, 0]);
        state.unanswered -= 2;
        assert_eq!(state.requests().expect("valid requests").len(), 2);
        assert_eq!((state.received.len(), state.unanswered), (REQUEST_BYTES, REPLIES_MAX));
    }
}
