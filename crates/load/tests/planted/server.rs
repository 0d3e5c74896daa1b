//! A server whose test chooses the action for each request: an answer or a fault.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A request as received by the server.
pub(crate) struct SeenByServer {
    /// The index among all requests, from 0.
    pub(crate) index: usize,
    /// The index on the connection, from 0.
    pub(crate) on_connection: usize,
    /// Request line and fields.
    pub(crate) head: String,
    /// The content.
    pub(crate) content: Vec<u8>,
}

/// The action for a request.
pub(crate) enum Act {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Send these bytes and close.
    SendAndClose(Vec<u8>),
    /// Wait, then send.
    Delay(Duration, Vec<u8>),
    /// Wait, then close without an answer.
    CloseAfter(Duration),
    /// Send these bytes, send FIN, and read until the peer closes.
    SendAndLinger(Vec<u8>),
    /// Wait, then close with a reset.
    ResetAfter(Duration),
    /// Close with a reset.
    Reset,
    /// Send these bytes, then a few bytes every few milliseconds, until the peer closes.
    Stream(Vec<u8>),
    /// Send nothing more.
    Silence,
}

/// A running server; ends on drop.
pub(crate) struct PlantedServer {
    addr: SocketAddr,
    stopping: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// An answer with this status and content.
pub(crate) fn answer(status: u16, content: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{content}", content.len()).into_bytes()
}

impl PlantedServer {
    /// A server on a free port.
    pub(crate) fn start(act: impl Fn(&SeenByServer) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let addr = listener.local_addr().expect("bound");
        let (stopping, accepted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (act, count) = (Arc::new(act), Arc::new(AtomicUsize::new(0)));
        let (stops, accepts, requests) = (stopping.clone(), accepted.clone(), count.clone());
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stops.load(Ordering::Acquire) {
                    return;
                }
                accepts.fetch_add(1, Ordering::Relaxed);
                let (act, count) = (act.clone(), count.clone());
                let stream = stream.expect("accept");
                thread::spawn(move || converse(&stream, &*act, &count));
            }
        });
        Self { addr, stopping, accepted, requests, thread: Some(thread) }
    }

    /// The address.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Requests received.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Connections accepted.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for PlantedServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        let _wake = TcpStream::connect(self.addr);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server failed");
        }
    }
}

/// Serves a connection until the end. The peer decides how the connection ends.
fn converse(stream: &TcpStream, act: &dyn Fn(&SeenByServer) -> Act, count: &AtomicUsize) {
    stream.set_nodelay(true).expect("nodelay");
    let mut reader = BufReader::new(stream);
    for on_connection in 0.. {
        let Some((head, content)) = request(&mut reader) else { return };
        let index = count.fetch_add(1, Ordering::Relaxed);
        let mut stream = stream;
        let sent = match act(&SeenByServer { index, on_connection, head, content }) {
            Act::Send(bytes) => stream.write_all(&bytes),
            Act::SendAndClose(bytes) => {
                let _gone = stream.write_all(&bytes);
                return;
            }
            Act::Delay(time, bytes) => {
                thread::sleep(time);
                stream.write_all(&bytes)
            }
            Act::CloseAfter(time) => {
                thread::sleep(time);
                return;
            }
            Act::SendAndLinger(bytes) => {
                let _gone = stream.write_all(&bytes);
                let _gone = stream.shutdown(std::net::Shutdown::Write);
                let _rest = std::io::copy(&mut reader, &mut std::io::sink());
                return;
            }
            Act::ResetAfter(time) => {
                thread::sleep(time);
                let linger = Some(Duration::ZERO);
                rustix::net::sockopt::set_socket_linger(stream.as_fd(), linger).expect("linger");
                return;
            }
            Act::Reset => {
                let linger = Some(Duration::ZERO);
                rustix::net::sockopt::set_socket_linger(stream.as_fd(), linger).expect("linger");
                return;
            }
            Act::Stream(bytes) => {
                let mut sent = stream.write_all(&bytes);
                while sent.is_ok() {
                    thread::sleep(Duration::from_millis(5));
                    sent = stream.write_all(b"xxxx");
                }
                sent
            }
            Act::Silence => Ok(()),
        };
        if sent.is_err() {
            return;
        }
    }
}

fn request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = |line: &str| line.strip_prefix("Content-Length: ")?.parse().ok();
    let mut content = vec![0; head.lines().find_map(length).unwrap_or(0)];
    reader.read_exact(&mut content).ok()?;
    Some((head, content))
}
