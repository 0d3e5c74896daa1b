//! A flood of handshakes: clients that begin handshakes and compute nothing.
//!
//! Each client opens a connection, sends the first message of a real client, waits for the first
//! bytes of the answer, and resets the connection. The server pays for a key exchange and a
//! signature, and the client for neither, so the server is the limit and not the clients.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::injector::ClientPriority;
use crate::{BenchError, BenchResult};

/// Clients of a flood.
pub(super) const FLOOD_CLIENTS: usize = 64;

/// How long a client waits for the server.
const PATIENCE: Duration = Duration::from_secs(5);

/// The length of the header of a record (RFC 8446, section 5.1).
const HEADER_BYTES: usize = 5;

/// A running flood, stopped when dropped.
pub(super) struct HandshakeFlood {
    began: Instant,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<FloodCount>>,
}

/// The results of a flood.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FloodCount {
    /// Connections that got an answer.
    pub(super) answered: u64,
    /// Connections that the server refused or cut, or that got no answer in time.
    pub(super) refused: u64,
    /// Time of the flood.
    pub(super) lasted: Duration,
}

impl HandshakeFlood {
    /// Starts the clients.
    ///
    /// # Errors
    /// openssl sends no first message, or chrt may not change the priority.
    pub(super) fn begin(server: SocketAddr, clients: usize) -> BenchResult<Self> {
        let hello: Arc<[u8]> = client_hello()?.into();
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        // The clients inherit the priority of the thread that starts them.
        let starts = thread::spawn(move || {
            use_leftover_time()?;
            let client = |_| {
                let (hello, stop) = (hello.clone(), stops.clone());
                thread::spawn(move || flood(server, &hello, &stop))
            };
            Ok((0..clients).map(client).collect())
        });
        let clients = starts.join().expect("the start of the flood does not panic")?;
        Ok(Self { began: Instant::now(), stop, clients })
    }

    /// Stops the clients.
    pub(super) fn end(mut self) -> FloodCount {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = FloodCount { lasted: self.began.elapsed(), ..FloodCount::default() };
        for client in self.clients.drain(..) {
            let count = client.join().expect("a client of the flood does not panic");
            all.answered += count.answered;
            all.refused += count.refused;
        }
        all
    }
}

impl Drop for HandshakeFlood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Gives the calling thread the [priority](ClientPriority::Leftover) of the flood.
fn use_leftover_time() -> BenchResult<()> {
    let [class, priority] = ClientPriority::Leftover.arguments();
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut command = Command::new("chrt");
    command.args([class, "--pid", priority, &thread]);
    let status = command.status().map_err(BenchError::thing("run", "chrt"))?;
    if status.success() { Ok(()) } else { Err(BenchError::form("chrt", status)) }
}

/// One client until `stop`.
fn flood(server: SocketAddr, hello: &[u8], stop: &AtomicBool) -> FloodCount {
    let mut count = FloodCount::default();
    let mut answer = vec![0; 4096];
    while !stop.load(Ordering::Relaxed) {
        match begin_handshake(server, hello, &mut answer) {
            Ok(()) => count.answered += 1,
            Err(_) => count.refused += 1,
        }
    }
    count
}

/// Begins a handshake, and resets the connection when the answer begins.
fn begin_handshake(server: SocketAddr, hello: &[u8], answer: &mut [u8]) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    // A reset leaves no connection in TIME_WAIT, of which a flood would leave too many.
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(hello)?;
    match stream.read(answer)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// The first message of openssl's client.
fn client_hello() -> BenchResult<Vec<u8>> {
    let step = |problem: &'static str| BenchError::thing("get", problem);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(step("a port"))?;
    let address = listener.local_addr().map_err(step("a port"))?;
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &address.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut client = command.spawn().map_err(BenchError::thing("run", "openssl"))?;
    let hello = receive_record(&listener);
    // The client may have ended by itself.
    let _ = client.kill();
    let _ = client.wait();
    hello.map_err(step("the first message of openssl"))
}

/// The first record of the next connection.
fn receive_record(listener: &TcpListener) -> std::io::Result<Vec<u8>> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut record = vec![0; HEADER_BYTES];
    stream.read_exact(&mut record)?;
    let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
    record.resize(HEADER_BYTES + length, 0);
    stream.read_exact(&mut record[HEADER_BYTES..])?;
    Ok(record)
}
