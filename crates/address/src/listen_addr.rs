//! Addresses of listeners. Tested below.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt, net::SocketAddr, path::Path, sync::Mutex};

/// Longest path of a unix socket, in bytes (unix(7): 108 with the zero byte at the end).
pub const UNIX_PATH_BYTES_MAX: usize = 107;

/// Default mode of the file of a unix socket: every user of the machine may connect, as with a port
/// of 127.0.0.1, and as with nginx.
pub const UNIX_MODE: u32 = 0o666;

/// The prefix of a unix socket's address.
pub const UNIX: &str = "unix:";

/// The address of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub enum ListenAddr {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(UnixAddr),
}

/// The file of a listening unix socket. The path stays in memory until the process ends, so
/// addresses are copied like TCP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnixAddr {
    path: &'static str,
    mode: u32,
    /// `None` before the socket is bound.
    file: Option<SocketFile>,
}

/// The identity of a socket's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SocketFile {
    /// The device.
    pub dev: u64,
    /// The inode.
    pub ino: u64,
}

/// The address in messages between processes.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Wire {
    Tcp(SocketAddr),
    Unix { unix: String, mode: u32, file: Option<SocketFile> },
}

impl From<Wire> for ListenAddr {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Tcp(addr) => Self::Tcp(addr),
            Wire::Unix { unix, mode, file } => Self::Unix(UnixAddr { path: kept(&unix), mode, file }),
        }
    }
}

impl From<ListenAddr> for Wire {
    fn from(addr: ListenAddr) -> Self {
        match addr {
            ListenAddr::Tcp(addr) => Self::Tcp(addr),
            ListenAddr::Unix(UnixAddr { path, mode, file }) => {
                Self::Unix { unix: path.to_owned(), mode, file }
            }
        }
    }
}

impl From<SocketAddr> for ListenAddr {
    fn from(addr: SocketAddr) -> Self {
        Self::Tcp(addr)
    }
}

impl ListenAddr {
    /// The TCP address; `None` for a unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(addr) => Some(*addr),
            Self::Unix(_) => None,
        }
    }

    /// The unix socket; `None` for a TCP address.
    pub fn unix(&self) -> Option<UnixAddr> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(addr) => Some(*addr),
        }
    }

    /// The TCP port; `None` if the kernel chooses the port.
    pub fn port(&self) -> Option<u16> {
        self.tcp().map(|addr| addr.port()).filter(|port| *port != 0)
    }

    /// The place alone: a unix socket that is not bound, with the default mode.
    #[must_use]
    pub fn place(self) -> Self {
        match self {
            Self::Tcp(_) => self,
            Self::Unix(UnixAddr { path, .. }) => Self::Unix(UnixAddr { path, mode: UNIX_MODE, file: None }),
        }
    }

    /// Whether both are the same place; the mode of a socket's file does not count.
    pub fn is_at(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix(one), Self::Unix(other)) => one.path == other.path,
            _ => self == other,
        }
    }
}

impl UnixAddr {
    /// The socket at a path, with the default mode. `None` if the path is too long or is no text.
    pub fn new(path: &Path) -> Option<Self> {
        let path = path.to_str().filter(|path| path.len() <= UNIX_PATH_BYTES_MAX)?;
        Some(Self { path: kept(path), mode: UNIX_MODE, file: None })
    }

    /// The same with another mode.
    #[must_use]
    pub fn with_mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// The same, bound as this file.
    pub fn bound_as(self, file: SocketFile) -> Self {
        Self { file: Some(file), ..self }
    }

    /// The path of the socket.
    pub fn path(self) -> &'static Path {
        Path::new(self.path)
    }

    /// The mode of the socket's file.
    pub fn mode(self) -> u32 {
        self.mode
    }

    /// The file, once the socket is bound.
    pub fn file(self) -> Option<SocketFile> {
        self.file
    }
}

/// The path, in memory until the process ends.
fn kept(path: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = KEPT.lock().expect("nothing panics under this lock");
    if let Some(kept) = all.get(path) {
        return kept;
    }
    let path: &'static str = Box::leak(path.into());
    all.insert(path);
    path
}

/// The text that refuses a path that is too long.
pub fn too_long_path(path: &Path) -> String {
    let bytes = path.as_os_str().len();
    format!(
        "a unix socket's path has at most {UNIX_PATH_BYTES_MAX} bytes, and {} has {bytes}",
        path.display()
    )
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(addr) => addr.fmt(f),
        }
    }
}

impl fmt::Display for UnixAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{UNIX}{}", self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_carries_address() {
        let tcp = ListenAddr::from("[::1]:80".parse::<SocketAddr>().unwrap());
        assert_eq!(serde_json::to_string(&tcp).unwrap(), "\"[::1]:80\"", "as earlier versions wrote it");
        let unix = UnixAddr::new(Path::new("/run/v.sock")).unwrap().with_mode(0o600);
        let bound = ListenAddr::Unix(unix.bound_as(SocketFile { dev: 7, ino: 1 << 60 }));
        for addr in [tcp, ListenAddr::Unix(unix), bound] {
            let text = serde_json::to_string(&addr).unwrap();
            assert_eq!(serde_json::from_str::<ListenAddr>(&text).unwrap(), addr, "{text}");
        }
        assert!(bound.is_at(&ListenAddr::Unix(unix.with_mode(0o666))));
        assert!(!bound.is_at(&tcp));
        assert_eq!((bound.place(), tcp.place()), (ListenAddr::Unix(unix.with_mode(UNIX_MODE)), tcp));
    }

    #[test]
    fn path_has_at_most_107_bytes() {
        let path = |bytes: usize| format!("/{}", "x".repeat(bytes - 1));
        assert!(UnixAddr::new(Path::new(&path(107))).is_some());
        assert!(UnixAddr::new(Path::new(&path(108))).is_none());
    }
}
