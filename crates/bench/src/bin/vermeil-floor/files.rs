//! Responses whose body is the file that the request names: the least work for a file that no cache
//! holds.
//!
//! Opens the file, takes its state, reads and closes, in four system calls. Without any check of
//! the path, because the only client is a load generator.

use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::EventFlags;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, read};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::epoll::RECEIVE_BYTES;
use crate::readiness::{self, EpollSet, ReadinessFloor};
use crate::response::padded_head;

/// The page of a folder.
const INDEX_PAGE: &[u8] = b"index.html";

/// A folder of files.
pub(crate) struct FloorFiles {
    root: OwnedFd,
    /// Whether each host has a folder of its own, called like the host.
    by_host: bool,
    head_bytes: usize,
    /// The head for a body of `body_bytes` bytes: the last head, because most files are alike.
    head: Vec<u8>,
    body_bytes: u64,
    /// The path of the last request.
    path: Vec<u8>,
}

impl FloorFiles {
    /// The files below `root`, with heads of `head_bytes` bytes.
    ///
    /// # Errors
    /// `root` cannot be opened, or the head is too short.
    pub(crate) fn new(root: &Path, by_host: bool, head_bytes: usize) -> io::Result<Self> {
        let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let head = padded_head(200, "", head_bytes, 0)?;
        Ok(Self { root, by_host, head_bytes, head, body_bytes: 0, path: Vec::new() })
    }

    /// Puts the response to `request` into `response`.
    ///
    /// # Errors
    /// The request has no path, or the file cannot be read.
    pub(crate) fn answer(&mut self, request: &[u8], response: &mut Vec<u8>) -> io::Result<()> {
        self.locate(request).ok_or_else(|| io::Error::other("a request without path or host"))?;
        let file = openat(&self.root, &self.path[..], OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let body_bytes = fstat(&file)?.st_size as u64;
        if body_bytes != self.body_bytes {
            self.head = padded_head(200, "", self.head_bytes, body_bytes)?;
            self.body_bytes = body_bytes;
        }
        response.clear();
        response.extend_from_slice(&self.head);
        response.reserve(body_bytes as usize);
        match read(&file, spare_capacity(response))? as u64 {
            read if read >= body_bytes => {}
            _ => return Err(io::Error::other("a file shrank while it was read")),
        }
        response.truncate(self.head.len() + body_bytes as usize);
        Ok(())
    }

    /// Sets the path of the file that `request` names.
    fn locate(&mut self, request: &[u8]) -> Option<()> {
        self.path.clear();
        let mut lines = request.split(|&byte| byte == b'\n');
        let path = lines.next()?.split(|&byte| byte == b' ').nth(1)?;
        if self.by_host {
            let host = lines.find_map(|line| line.strip_prefix(b"Host: "))?;
            self.path.write_all(host.trim_ascii_end()).ok()?;
            self.path.write_all(b"/").ok()?;
        }
        self.path.write_all(path.strip_prefix(b"/")?).ok()?;
        if path.ends_with(b"/") {
            self.path.write_all(INDEX_PAGE).ok()?;
        }
        Some(())
    }
}

struct FilesFloor<'a> {
    epoll: EpollSet,
    files: &'a mut FloorFiles,
    /// Indexed by slot.
    connections: Vec<Option<OwnedFd>>,
    response: Vec<u8>,
}

/// Serves until the process is killed, with epoll.
pub(crate) fn run(listener: &TcpListener, files: &mut FloorFiles) -> io::Result<()> {
    let (connections, response) = (Vec::new(), Vec::new());
    readiness::run(listener, &mut FilesFloor { epoll: EpollSet::new()?, files, connections, response })
}

impl ReadinessFloor for FilesFloor<'_> {
    fn epoll(&self) -> &EpollSet {
        &self.epoll
    }

    fn on_accept(&mut self, socket: OwnedFd) -> io::Result<()> {
        let slot = self.epoll.watch(&socket, EventFlags::IN)?;
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        self.connections[slot] = Some(socket);
        Ok(())
    }

    fn on_ready(&mut self, slot: usize) -> io::Result<()> {
        let Some(Some(socket)) = self.connections.get(slot) else { return Ok(()) };
        let mut buffer = [MaybeUninit::<u8>::uninit(); RECEIVE_BYTES];
        let is_answered = match recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => false,
            Ok(((request, _), _)) => {
                self.files.answer(request, &mut self.response)?;
                // The socket has room, because the client has taken the response before.
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                send(socket, &self.response, flags) == Ok(self.response.len())
            }
            Err(error) => error == Errno::AGAIN,
        };
        if !is_answered {
            self.connections[slot] = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn answer(by_host: bool, request: &str) -> io::Result<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = folder.path().join("a.example");
        fs::create_dir(&inside).expect("made");
        fs::write(inside.join("page.html"), "inside").expect("written");
        fs::write(inside.join("index.html"), "first").expect("written");
        let mut response = Vec::new();
        FloorFiles::new(folder.path(), by_host, 100)?.answer(request.as_bytes(), &mut response)?;
        Ok(String::from_utf8(response).expect("text"))
    }

    #[test]
    fn answer_is_the_named_file() {
        let response = answer(false, "GET /a.example/page.html HTTP/1.1\r\nHost: x\r\n\r\n").expect("found");
        assert!(response.starts_with("HTTP/1.1 200 -\r\nContent-Length: 6\r\n"), "{response}");
        assert_eq!((response.len(), &response[96..]), (106, "\r\n\r\ninside"));
    }

    #[test]
    fn hosts_have_folders_and_folders_have_pages() {
        let response = answer(true, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").expect("found");
        assert!(response.ends_with("\r\n\r\nfirst"), "{response}");
    }

    #[test]
    fn missing_file_is_an_error() {
        assert!(answer(false, "GET /missing HTTP/1.1\r\n\r\n").is_err());
        assert!(answer(true, "GET /page.html HTTP/1.1\r\n\r\n").is_err());
    }
}
