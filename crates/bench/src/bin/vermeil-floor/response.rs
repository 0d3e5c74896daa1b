//! The fixed response and how to send the response on a non-blocking socket.
//!
//! Owns the bytes: a head padded to an exact length, and a body. The body is either behind the head
//! in the same buffer (so one send carries both) or in a file (one send, then sendfile). Leaves
//! readiness to the loops.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Whether a response went out whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendProgress {
    /// Every byte is with the kernel.
    Done,
    /// The socket's send buffer is full: continue when the socket is writable.
    Blocked,
}

/// Whether the head of a response from a file waits for the file's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadWait {
    /// The head travels with the file's first bytes.
    Joined,
    /// The head travels alone, at once.
    Apart,
}

/// A body that stays in the page cache.
pub(crate) struct FileBody {
    file: File,
    bytes: u64,
    head: HeadWait,
}

/// A response that is sent repeatedly.
pub(crate) struct RepeatedResponse {
    memory: Vec<u8>,
    file: Option<FileBody>,
}

impl RepeatedResponse {
    /// A response with `status`, the lines `fields`, a head of exactly `head` bytes and a body of
    /// exactly `body` bytes.
    ///
    /// # Errors
    /// When `head` is too short for a valid head, or the file cannot be opened or has another size.
    pub(crate) fn new(
        status: u16,
        fields: &str,
        head: usize,
        body: u64,
        file: Option<(&Path, HeadWait)>,
    ) -> io::Result<Self> {
        let mut memory = padded_head(status, fields, head, body)?;
        let Some((path, head)) = file else {
            let letters = usize::try_from(body).map_err(io::Error::other)?;
            memory.resize(memory.len() + letters, b'x');
            return Ok(Self { memory, file: None });
        };
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        if bytes != body {
            return Err(io::Error::other(format!("{} has {bytes} bytes, not {body}", path.display())));
        }
        Ok(Self { memory, file: Some(FileBody { file, bytes, head }) })
    }

    /// The whole response, if all of it is in memory.
    pub(crate) fn in_memory(&self) -> Option<&[u8]> {
        self.file.is_none().then_some(self.memory.as_slice())
    }

    /// Sends the bytes after the first `sent` bytes while the socket accepts more, and advances
    /// `sent`.
    pub(crate) fn send(&self, socket: impl AsFd, sent: &mut u64) -> io::Result<SendProgress> {
        let memory = self.memory.len() as u64;
        let joined = self.file.as_ref().is_some_and(|body| body.head == HeadWait::Joined);
        let more = if joined { SendFlags::MORE } else { SendFlags::empty() };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | more;
        while *sent < memory {
            match send(&socket, &self.memory[*sent as usize..], flags) {
                Ok(count) => *sent += count as u64,
                Err(Errno::AGAIN) => return Ok(SendProgress::Blocked),
                Err(error) => return Err(error.into()),
            }
        }
        let Some(FileBody { file, bytes, .. }) = &self.file else { return Ok(SendProgress::Done) };
        let mut offset = *sent - memory;
        while offset < *bytes {
            let rest = (*bytes - offset) as usize;
            match rustix::fs::sendfile(&socket, file, Some(&mut offset), rest) {
                Ok(0) => return Err(io::Error::other("the file shrank while it was sent")),
                Ok(_) => *sent = memory + offset,
                Err(Errno::AGAIN) => return Ok(SendProgress::Blocked),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(SendProgress::Done)
    }
}

/// A response head of exactly `bytes` bytes: the status line, Content-Length where a body may
/// follow, the lines `fields`, and padding.
pub(crate) fn padded_head(status: u16, fields: &str, bytes: usize, body: u64) -> io::Result<Vec<u8>> {
    // RFC 9112, section 6.3: a 304 ends with its head whether or not Content-Length is present, so
    // the header can go.
    let length = if status == 304 { String::new() } else { format!("Content-Length: {body}\r\n") };
    let start = format!("HTTP/1.1 {status} -\r\n{length}{fields}X-Pad: ");
    let end = "\r\n\r\n";
    let Some(padding) = bytes.checked_sub(start.len() + end.len()) else {
        return Err(io::Error::other(format!(
            "a head of {bytes} bytes is too short, {} is the least",
            start.len() + end.len()
        )));
    };
    Ok(format!("{start}{}{end}", "x".repeat(padding)).into_bytes())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_response_has_exactly_the_asked_size() {
        let response = RepeatedResponse::new(200, "", 180, 1024, None).expect("a valid response");
        assert_eq!(response.in_memory().map(<[u8]>::len), Some(180 + 1024));
        assert_eq!(&response.memory[176..180], b"\r\n\r\n");
        assert!(response.memory.starts_with(b"HTTP/1.1 200 -\r\nContent-Length: 1024\r\n"));
    }

    #[test]
    fn a_304_has_no_length_and_no_body() {
        let response = RepeatedResponse::new(304, "", 100, 0, None).expect("a valid response");
        assert_eq!(response.memory.len(), 100);
        assert!(!String::from_utf8_lossy(&response.memory).contains("Length"));
    }

    #[test]
    fn a_head_too_short_is_refused() {
        assert!(RepeatedResponse::new(200, "", 10, 0, None).is_err());
    }

    #[test]
    fn a_full_socket_blocks_and_goes_on_where_it_stopped() {
        let (ours, mut theirs) = UnixStream::pair().expect("a socket pair");
        let body = 4 << 20;
        let response = RepeatedResponse::new(200, "", 100, body, None).expect("a valid response");
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).map(|_| all.len())
        });
        let mut sent = 0;
        while response.send(&ours, &mut sent).expect("the peer reads") == SendProgress::Blocked {
            let mut poll = [rustix::event::PollFd::new(&ours, rustix::event::PollFlags::OUT)];
            rustix::event::poll(&mut poll, None).expect("poll");
        }
        drop(ours);
        assert_eq!(reader.join().expect("reader").expect("read"), 100 + body as usize);
        assert_eq!(sent, 100 + body);
    }
}
