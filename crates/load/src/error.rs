//! Why a run cannot begin.
//!
//! What goes wrong with single requests is [`Fault`](crate::Fault): counted, not returned.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::pace::{ArrivalsError, ThinkError};
use crate::url::UrlError;
use crate::wire::RequestError;

/// Why a run cannot begin, or could not be finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A URL is none, or leads nowhere.
    #[error("{0}")]
    Url(#[from] UrlError),
    /// A request cannot be made.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// Think times make no sense.
    #[error("{0}")]
    Think(#[from] ThinkError),
    /// Arrivals make no sense.
    #[error("{0}")]
    Arrivals(#[from] ArrivalsError),
    /// The process may not open as many sockets as the run needs.
    #[error(
        "{needed} descriptors are needed and {allowed} are allowed: lower the number of connections, or raise the limit with `ulimit -Hn {needed}`"
    )]
    Descriptors {
        /// Sockets, and what the process has besides.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// More connections to one address than there are local ports.
    #[error(
        "{needed} connections to one address need as many local ports, and net.ipv4.ip_local_port_range has {available}: widen it, or give several addresses"
    )]
    Ports {
        /// Connections to the address.
        needed: u64,
        /// Ports in the range.
        available: u64,
    },
    /// The runtime did not start.
    #[error("{0}")]
    Start(#[from] vermeil::StartError),
    /// A file could not be read or written.
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        /// What was to be done with it.
        verb: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An agent cannot be reached, or cannot do what it is told.
    #[error("agent {agent}: {why}")]
    Agent {
        /// Which.
        agent: String,
        /// What is wrong.
        why: String,
    },
    /// TLS would fail every time.
    #[error("{0}")]
    Tls(String),
    /// HTTP/2 was asked for, and every connection would fail.
    #[error("{addr} does not speak HTTP/2: {how}; leave out --http2, or load a port where it is spoken")]
    Http2 {
        /// Who was asked.
        addr: SocketAddr,
        /// What it did instead.
        how: String,
    },
    /// What a run needs to know of a server cannot be asked.
    #[error("cannot ask {place} what files it has: {source}; is a server running there?")]
    Ask {
        /// Server and path.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// Plan that contradicts itself.
    #[error("{0}")]
    Plan(String),
}
