//! The destination of the access log, and its text. Tested in `access_log/tests.rs`.

use crate::datagram::{JOURNALD, SYSLOG};
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// Destination of the access log.
///
/// As text: `off`, `-` or `/dev/stdout` (standard output), `syslog`, `journald` or a path.
/// `syslog:PATH` and `journald:PATH` name the socket of the daemon. Write `./off` for a file named
/// `off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Nothing is recorded.
    Off,
    /// Standard output, until it is closed.
    Stdout,
    /// A message to syslog for each line, at this socket.
    Syslog(PathBuf),
    /// A message to journald for each line, at this socket.
    Journald(PathBuf),
    /// Appended to this file, which is created with mode 0640 (less the umask) if missing.
    File(PathBuf),
}

impl FromStr for LogTarget {
    type Err = LogTargetError;

    fn from_str(text: &str) -> Result<Self, LogTargetError> {
        match text {
            "" => Err(LogTargetError),
            "off" => Ok(Self::Off),
            "syslog" => Ok(Self::Syslog(SYSLOG.into())),
            "journald" => Ok(Self::Journald(JOURNALD.into())),
            // A file of this name would be the standard output of the process that opens the file,
            // and the server's user may not open the pipe of another user anew.
            "-" | "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => Ok(Self::Stdout),
            path => match path.split_once(':') {
                Some(("syslog", path)) => Ok(Self::Syslog(socket_path(path)?)),
                Some(("journald", path)) => Ok(Self::Journald(socket_path(path)?)),
                _ => Ok(Self::File(PathBuf::from(path))),
            },
        }
    }
}

/// The path of a daemon's socket.
fn socket_path(path: &str) -> Result<PathBuf, LogTargetError> {
    if path.starts_with('/') { Ok(path.into()) } else { Err(LogTargetError) }
}

impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Stdout => f.write_str("-"),
            Self::Syslog(path) if path == Path::new(SYSLOG) => f.write_str("syslog"),
            Self::Syslog(path) => write!(f, "syslog:{}", path.display()),
            Self::Journald(path) if path == Path::new(JOURNALD) => f.write_str("journald"),
            Self::Journald(path) => write!(f, "journald:{}", path.display()),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// The text is no log target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a log is `off`, `-` for standard output, `syslog`, `journald`, `syslog:/PATH` or `journald:/PATH` for another \
     socket, or a file"
)]
pub struct LogTargetError;
