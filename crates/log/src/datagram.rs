//! The log of the machine as the destination of the access log: syslog or journald, a datagram for
//! each line.
//!
//! Syslog gets `<30>vermeil[PID]: LINE` (RFC 3164, facility daemon, severity informational; the
//! local socket adds the time). Journald gets the fields of its own protocol
//! (systemd.journal-fields(7)). A daemon that is restarted makes its socket anew, so every datagram
//! names the path. Tested below, and through the binary (`crates/e2e/tests/e2e/log_fields.rs`).

use std::fmt;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The socket of syslog (syslog(3)).
pub(super) const SYSLOG: &str = "/dev/log";
/// The socket of journald (systemd-journald.service(8)).
pub(super) const JOURNALD: &str = "/run/systemd/journal/socket";

/// Facility daemon (3) and severity informational (6), as RFC 3164 encodes them.
const PRIORITY: u8 = 3 * 8 + 6;

/// Pause of the log thread when the daemon has no room, because the kernel reports no room on a
/// datagram socket. The log thread then makes a hundred attempts per second at most.
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// The protocol of a daemon that keeps logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogProtocol {
    Syslog,
    Journald,
}

/// A socket to such a daemon.
#[derive(Debug)]
pub(super) struct DatagramSink {
    socket: UnixDatagram,
    path: PathBuf,
    protocol: LogProtocol,
    message: Vec<u8>,
}

impl DatagramSink {
    pub(super) fn new(path: &Path, protocol: LogProtocol) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path: path.to_owned(), protocol, message: Vec::new() })
    }

    /// Sends the first line of `bytes`, which must not be empty, and returns its length. If the
    /// daemon has no room for the message, waits for `wait` and returns the error.
    ///
    /// # Errors
    /// The error of the system call.
    pub(super) fn write(&mut self, bytes: &[u8], wait: Duration) -> io::Result<usize> {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let line = &bytes[..end.unwrap_or(bytes.len())];
        self.message.clear();
        self.protocol.write(&mut self.message, line);
        let sent = self.socket.send_to(&self.message, &self.path);
        if let Err(error) = &sent
            && error.kind() == io::ErrorKind::WouldBlock
        {
            // No event tells of room in the queue of another socket.
            thread::sleep(wait.min(FULL_PAUSE));
        }
        sent.map(|_| line.len() + usize::from(end.is_some()))
    }
}

impl fmt::Display for DatagramSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let daemon = match self.protocol {
            LogProtocol::Syslog => "syslog",
            LogProtocol::Journald => "journald",
        };
        write!(f, "the access log in {daemon} ({})", self.path.display())
    }
}

impl LogProtocol {
    /// Appends the message for a line without its end.
    fn write(self, out: &mut Vec<u8>, line: &[u8]) {
        let pid = std::process::id();
        match self {
            Self::Syslog => {
                out.extend_from_slice(format!("<{PRIORITY}>vermeil[{pid}]: ").as_bytes());
                out.extend_from_slice(line);
            }
            Self::Journald => {
                // The line has no line end, so the short form of a field suffices.
                out.extend_from_slice(b"MESSAGE=");
                out.extend_from_slice(line);
                out.extend_from_slice(b"\nPRIORITY=6\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=vermeil\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_datagram() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let pid = std::process::id();
        for (protocol, expected) in [
            (LogProtocol::Syslog, format!("<30>vermeil[{pid}]: one")),
            (
                LogProtocol::Journald,
                "MESSAGE=one\nPRIORITY=6\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=vermeil\n".to_owned(),
            ),
        ] {
            let mut sink = DatagramSink::new(&path, protocol).expect("a socket");
            assert!(sink.write(b"one\n", Duration::ZERO).is_err(), "no daemon");
            let daemon = UnixDatagram::bind(&path).expect("bound");
            assert!(matches!(sink.write(b"one\ntwo\n", Duration::ZERO), Ok(4)));
            let mut message = [0; 256];
            let count = daemon.recv(&mut message).expect("a message");
            assert_eq!(String::from_utf8_lossy(&message[..count]), expected);
            std::fs::remove_file(&path).expect("removed");
        }
    }
}
