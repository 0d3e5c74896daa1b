//! Serves the back end: a listening socket per core, a task per connection, an answer after a
//! random delay.
//!
//! Tested here, over sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use vermeil::{DriverOptions, Handle, IoChoice, More, Runtime, TcpListener, TcpStream};
use vermeil_http::{ConnectionLimits, Conversation, ConversationEvent};

use super::records;
use crate::error::LoadError;
use crate::pace::Think;
use crate::random::Random;

/// Length of the accept queue: the default of `net.core.somaxconn` since Linux 5.4.
const BACKLOG: i32 = 4096;
/// Pause after an accept failed for lack of descriptors, as in the server: twenty attempts per
/// second.
const RETRY: Duration = Duration::from_millis(50);

/// Options of a back end.
#[derive(Clone, Debug)]
pub struct BackendOptions {
    /// Address to listen on.
    pub addr: SocketAddr,
    /// Cpus to run on, a core each. Empty: all that the process may use.
    pub cpus: Vec<usize>,
    /// The I/O driver.
    pub io: IoChoice,
    /// Delay of every answer.
    pub delay: Think,
    /// Seed of the random delays.
    pub seed: u64,
}

/// A running back end; stops on drop.
pub struct Backend {
    addr: SocketAddr,
    answers: Arc<AtomicU64>,
    runtime: Runtime,
}

impl Backend {
    /// Starts the back end.
    ///
    /// # Errors
    /// The address cannot be bound, or the cores do not start.
    pub fn start(options: &BackendOptions) -> Result<Self, LoadError> {
        let refused = |error: io::Error| {
            LoadError::Plan(format!(
                "cannot listen at {}: {error}; choose another with --listen",
                options.addr
            ))
        };
        let mut builder =
            Runtime::builder().io(DriverOptions { choice: options.io, ..DriverOptions::default() });
        if !options.cpus.is_empty() {
            builder = builder.cpus(options.cpus.iter().copied());
        }
        let runtime = builder.build()?;
        let handle = runtime.handle();
        let answers = Arc::new(AtomicU64::new(0));
        let mut addr = options.addr;
        // Without this check a server that shares the address would go unnoticed, and get half of
        // the connections.
        drop(bound(addr).map_err(refused)?);
        for core in handle.cores() {
            let socket = listening(addr).map_err(refused)?;
            // The first socket takes a free port if the address has none; the other sockets share
            // the port.
            addr = SocketAddr::try_from(
                rustix::net::getsockname(&socket).map_err(|error| refused(error.into()))?,
            )
            .map_err(|error| refused(error.into()))?;
            let server = BackendServer {
                handle: handle.clone(),
                core,
                delay: options.delay,
                seed: options.seed,
                answers: answers.clone(),
            };
            drop(handle.spawn_on(&handle.color_on(core), accept(server, socket)));
        }
        Ok(Self { addr, answers, runtime })
    }

    /// The listening address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Number of answers so far.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Stops the back end and closes open connections.
    pub fn stop(self) {
        drop(self.runtime);
    }
}

/// An unbound socket for `addr`. SO_REUSEPORT must be set before the bind.
fn unbound(addr: SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(socket)
}

/// A socket with exclusive use of `addr`.
fn bound(addr: SocketAddr) -> io::Result<OwnedFd> {
    let socket = unbound(addr)?;
    bind(&socket, &addr)?;
    Ok(socket)
}

/// A socket that listens on `addr` and shares the address with the other cores' sockets.
fn listening(addr: SocketAddr) -> io::Result<OwnedFd> {
    let socket = unbound(addr)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    bind(&socket, &addr)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

#[derive(Clone)]
struct BackendServer {
    handle: Handle,
    core: vermeil::CoreIndex,
    delay: Think,
    seed: u64,
    answers: Arc<AtomicU64>,
}

async fn accept(server: BackendServer, socket: OwnedFd) {
    // On a core, with a private socket, this fails only for lack of memory; the back end then does
    // not start.
    let Ok(listener) = TcpListener::new(socket) else { return };
    let mut connections = 0;
    loop {
        let Ok(Ok(stream)) = listener.accept().await.map(TcpStream::new) else {
            vermeil::sleep(RETRY).await;
            continue;
        };
        connections += 1;
        let random = Random::new(server.seed, u64::from(server.core.0) << 48 | connections);
        let color = server.handle.color_on(server.core);
        drop(server.handle.spawn_on(&color, serve(server.clone(), stream, random)));
    }
}

/// Serves a connection until the client closes it or an error occurs.
async fn serve(server: BackendServer, stream: TcpStream, mut random: Random) {
    let limits = ConnectionLimits { requests_per_connection: u32::MAX, ..ConnectionLimits::default() };
    let (mut conversation, mut received) = (Conversation::new(), Vec::new());
    loop {
        let (body, keep_alive) = match conversation.next(&received, &limits) {
            ConversationEvent::NeedMore => match stream.recv(&mut received).await {
                Ok(0) | Err(_) => return,
                Ok(_) => continue,
            },
            ConversationEvent::Body { consumed, .. } => {
                received.drain(..consumed);
                continue;
            }
            ConversationEvent::Reject(_) | ConversationEvent::Closed => return,
            ConversationEvent::Request { request, consumed } => {
                let mut target = String::from_utf8_lossy(request.target.path).into_owned();
                if let Some(query) = request.target.query {
                    target.push('?');
                    target.push_str(&String::from_utf8_lossy(query));
                }
                let keep_alive = request.keep_alive;
                received.drain(..consumed);
                (records::answer(&target), keep_alive)
            }
        };
        let delay = server.delay.draw(&mut random);
        if !delay.is_zero() {
            vermeil::sleep(delay).await;
        }
        let Ok(mut head) = stream.sent().await else { return };
        let close = if keep_alive { "" } else { "Connection: close\r\n" };
        let fields = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{close}Content-Length: {}\r\n\r\n",
            body.len()
        );
        head.extend_from_slice(fields.as_bytes());
        server.answers.fetch_add(1, Ordering::Relaxed);
        if stream.send(head, Bytes::from(body), More::No).is_err() {
            return;
        }
        if !keep_alive {
            let _gone = stream.sent().await;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn ask(addr: SocketAddr, requests: &str) -> String {
        let mut stream = std::net::TcpStream::connect(addr).unwrap();
        stream.write_all(requests.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn at(addr: SocketAddr) -> BackendOptions {
        BackendOptions {
            addr,
            cpus: Vec::new(),
            io: IoChoice::Auto,
            delay: Think::Constant(Duration::from_millis(1)),
            seed: 1,
        }
    }

    /// Regression: cores share their address, and a second back end shared it too and got some of
    /// the connections.
    #[test]
    fn an_address_in_use_is_refused() {
        let backend = Backend::start(&at("127.0.0.1:0".parse().unwrap())).unwrap();
        let refused = Backend::start(&at(backend.addr())).err().expect("it is in use").to_string();
        assert!(refused.contains("--listen"), "{refused}");
        backend.stop();
    }

    #[test]
    fn questions_are_answered_in_their_order() {
        let backend = Backend::start(&at("127.0.0.1:0".parse().unwrap())).unwrap();
        let text = ask(
            backend.addr(),
            "GET /product?id=7 HTTP/1.1\r\nHost: b\r\n\r\nGET /x HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n",
        );
        let answers: Vec<&str> = text.split("HTTP/1.1 200 OK").skip(1).collect();
        assert!(answers[0].ends_with(&records::answer("/product?id=7")), "{text}");
        assert!(answers[1].ends_with("1 unknown command\n") && answers.len() == 2, "{text}");
        assert_eq!(backend.answers(), 2);
        assert_eq!(ask(backend.addr(), "nonsense\r\n\r\n"), "");
        backend.stop();
    }
}
