//! The floor of passing requests to PHP: every received request goes to one script over a
//! persistent connection, and the client gets a fixed answer when PHP has ended its answer.
//!
//! Each request costs a receive and a send on either side, and a share of the waits
//! (`readiness.rs`). PHP gets the request that a server would send, built once; of PHP's answer
//! only the end is looked at. The number of connections to PHP equals the number of PHP's children,
//! and further requests wait for the first free connection. The response's bytes are in
//! `response.rs`.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use vermeil_fastcgi::request::{self, Params, RequestPersistence};
use vermeil_fastcgi::{RequestId, ResponseEvent as Of, ResponseStep};

use crate::readiness::{self, EpollSet, ReadinessFloor};
use crate::response::{RepeatedResponse, SendProgress};

/// Bytes per receive: more than a script of the bench writes at once.
const RECEIVE_BYTES: usize = 256 * 1024;
/// The size of the record that ends an answer (FastCGI §5.5), and the first bytes of that record.
const END_BYTES: usize = 16;
const END_BEGINS: [u8; 2] = [1, 3];
/// The end of an answer's head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// PHP's socket and the request to PHP.
pub(crate) struct FloorPhp {
    /// PHP's socket.
    pub(crate) socket: PathBuf,
    /// The script.
    pub(crate) script: PathBuf,
    /// Persistent connections.
    pub(crate) children: usize,
}

impl FloorPhp {
    /// Asks PHP once for the length of the answers: the number of bytes after the head.
    ///
    /// # Errors
    /// PHP cannot be reached, or the response is not a valid answer.
    pub(crate) fn body_bytes(&self) -> io::Result<u64> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.write_all(&request_for(&self.script))?;
        let mut answer = vermeil_fastcgi::FastcgiResponse::new(RequestId::FIRST);
        let (mut unread, mut output, mut buffer) = (Vec::new(), Vec::new(), vec![0; RECEIVE_BYTES]);
        while !answer.is_over() {
            match stream.read(&mut buffer)? {
                0 => return Err(io::Error::other("PHP has closed the connection before it answered")),
                bytes => unread.extend_from_slice(&buffer[..bytes]),
            }
            while let Some(ResponseStep { consumed, event }) =
                answer.read(&unread).map_err(io::Error::other)?
            {
                if let Some(Of::Stdout(place)) = event {
                    output.extend_from_slice(&unread[place]);
                }
                unread.drain(..consumed);
            }
        }
        let head_end = output.windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END);
        let head_end = head_end.ok_or_else(|| io::Error::other("PHP's answer has no head"))?;
        // PHP sends a status only if the status is not 200.
        if output[..head_end].split(|byte| *byte == b'\n').any(|line| line.starts_with(b"Status:")) {
            return Err(io::Error::other("PHP's answer is not 200"));
        }
        Ok((output.len() - head_end - HEAD_END.len()) as u64)
    }
}

/// Either end of a request.
enum PhpPeer {
    Client {
        socket: OwnedFd,
        sent: u64,
        blocked: bool,
    },
    Php {
        socket: OwnedFd,
        /// The client of the current request.
        client: Option<usize>,
    },
}

struct PhpFloor<'a> {
    epoll: EpollSet,
    response: &'a RepeatedResponse,
    /// Indexed by slot.
    peers: Vec<Option<PhpPeer>>,
    request: Vec<u8>,
    buffer: Vec<u8>,
    free: Vec<usize>,
    waiting: VecDeque<usize>,
}

/// Serves until the process is killed.
pub(crate) fn run(listener: &TcpListener, response: &RepeatedResponse, php: &FloorPhp) -> io::Result<()> {
    let mut floor = PhpFloor {
        epoll: EpollSet::new()?,
        response,
        peers: Vec::new(),
        request: request_for(&php.script),
        buffer: vec![0; RECEIVE_BYTES],
        free: Vec::new(),
        waiting: VecDeque::new(),
    };
    for _ in 0..php.children {
        let stream = UnixStream::connect(&php.socket)?;
        stream.set_nonblocking(true)?;
        let slot = floor.watch(PhpPeer::Php { socket: stream.into(), client: None })?;
        floor.free.push(slot);
    }
    readiness::run(listener, &mut floor)
}

/// The bytes that a server would send for `script`, in a request of this bench's load.
fn request_for(script: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let name = script.file_name().unwrap_or_default().to_string_lossy();
    let (uri, folder) = (format!("/{name}"), script.parent().unwrap_or(Path::new("/")));
    let (file, folder) = (script.to_string_lossy(), folder.to_string_lossy());
    request::begin(&mut bytes, RequestId::FIRST, RequestPersistence::Keep);
    let mut params = Params::new(&mut bytes, RequestId::FIRST);
    for (name, value) in [
        ("UNIQUE_ID", "0123456789abcdef"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_SOFTWARE", "vermeil"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", &uri),
        ("REQUEST_SCHEME", "http"),
        ("QUERY_STRING", ""),
        ("SCRIPT_NAME", &uri),
        ("SCRIPT_FILENAME", &file),
        ("DOCUMENT_ROOT", &folder),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REMOTE_PORT", "40000"),
        ("SERVER_ADDR", "127.0.0.1"),
        ("SERVER_PORT", "40000"),
        ("SERVER_NAME", "127.0.0.1"),
        ("REDIRECT_STATUS", "200"),
        ("HTTP_HOST", "127.0.0.1:40000"),
    ] {
        params.pair(name.as_bytes(), value.as_bytes());
    }
    params.finish();
    request::end_stdin(&mut bytes, RequestId::FIRST);
    bytes
}

impl ReadinessFloor for PhpFloor<'_> {
    fn epoll(&self) -> &EpollSet {
        &self.epoll
    }

    fn on_accept(&mut self, socket: OwnedFd) -> io::Result<()> {
        self.watch(PhpPeer::Client { socket, sent: 0, blocked: false })?;
        Ok(())
    }

    fn on_ready(&mut self, slot: usize) -> io::Result<()> {
        let Self { peers, buffer, .. } = self;
        match &mut peers[slot] {
            Some(PhpPeer::Client { blocked: true, .. }) => self.answer(slot),
            Some(PhpPeer::Client { socket, .. }) => {
                match recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                    Ok((1.., _)) => {
                        self.waiting.push_back(slot);
                        self.ask()
                    }
                    Err(Errno::AGAIN) => Ok(()),
                    // A later answer finds no client, or the next client with the same number. This
                    // is harmless, because clients close only at the end of the load.
                    Ok(_) | Err(_) => {
                        self.peers[slot] = None;
                        Ok(())
                    }
                }
            }
            Some(PhpPeer::Php { socket, client }) => {
                let received = match recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                    Ok((0, _)) => return Err(io::Error::other("PHP has closed a connection")),
                    Ok((count, _)) => count,
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(error) => return Err(error.into()),
                };
                let end = received.checked_sub(END_BYTES).map(|at| &buffer[at..received]);
                if !end.is_some_and(|end| end.starts_with(&END_BEGINS)) {
                    return Ok(());
                }
                let client = client.take();
                self.free.push(slot);
                if let Some(client) = client {
                    self.answer(client)?;
                }
                self.ask()
            }
            None => Ok(()),
        }
    }
}

impl PhpFloor<'_> {
    fn watch(&mut self, peer: PhpPeer) -> io::Result<usize> {
        // PHP's socket is not watched for room, because otherwise each request that PHP reads would
        // cause an event.
        let slot = match &peer {
            PhpPeer::Client { socket, .. } => self.epoll.watch(socket, EventFlags::IN | EventFlags::OUT)?,
            PhpPeer::Php { socket, .. } => self.epoll.watch(socket, EventFlags::IN)?,
        };
        if self.peers.len() <= slot {
            self.peers.resize_with(slot + 1, || None);
        }
        self.peers[slot] = Some(peer);
        Ok(slot)
    }

    /// Passes waiting requests to PHP while children are free.
    fn ask(&mut self) -> io::Result<()> {
        while let Some(&asking) = self.waiting.front()
            && let Some(slot) = self.free.pop()
        {
            self.waiting.pop_front();
            let Some(PhpPeer::Php { socket, client }) = &mut self.peers[slot] else {
                unreachable!("it is free")
            };
            *client = Some(asking);
            let sent = send(socket, &self.request, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
            if sent < self.request.len() {
                return Err(io::Error::other("PHP's socket has no room for a request"));
            }
        }
        Ok(())
    }

    /// Starts or continues an answer.
    fn answer(&mut self, slot: usize) -> io::Result<()> {
        let Some(PhpPeer::Client { socket, sent, blocked }) = &mut self.peers[slot] else { return Ok(()) };
        if !*blocked {
            *sent = 0;
        }
        match self.response.send(socket, sent) {
            Ok(progress) => *blocked = progress == SendProgress::Blocked,
            Err(_) => self.peers[slot] = None,
        }
        Ok(())
    }
}
