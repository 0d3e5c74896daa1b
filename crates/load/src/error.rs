//! The reasons why a run cannot begin.
//!
//! A failure of a single request is a [`Fault`](crate::Fault), which is counted, not returned.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::pace::{ArrivalsError, ThinkError};
use crate::url::UrlError;
use crate::wire::RequestError;

/// The reason why a run cannot begin, or could not finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A text is not a URL, or the URL has no address.
    #[error("{0}")]
    Url(#[from] UrlError),
    /// A request cannot be built.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// The think times are invalid.
    #[error("{0}")]
    Think(#[from] ThinkError),
    /// The arrivals are invalid.
    #[error("{0}")]
    Arrivals(#[from] ArrivalsError),
    /// The process may not open as many sockets as the run needs.
    #[error(
        "{needed} descriptors are needed and {allowed} are allowed: lower the number of connections, or raise the limit with `ulimit -Hn {needed}`"
    )]
    Descriptors {
        /// Sockets, and the other descriptors of the process.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// More connections to one address than local ports.
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
        /// The operation.
        verb: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An agent cannot be reached, or cannot run its part.
    #[error("agent {agent}: {why}")]
    Agent {
        /// The agent.
        agent: String,
        /// The reason.
        why: String,
    },
    /// TLS would fail for every connection.
    #[error("{0}")]
    Tls(String),
    /// The plan asks for HTTP/2, and every connection would fail.
    #[error("{addr} does not speak HTTP/2: {how}; leave out --http2, or load a port where it is spoken")]
    Http2 {
        /// The server.
        addr: SocketAddr,
        /// The server's answer to HTTP/2.
        how: String,
    },
    /// The injector cannot ask the server for data that the run needs.
    #[error("cannot ask {place} for its list of files: {source}; is a server running there?")]
    Ask {
        /// Server and path.
        place: String,
        /// The system's error.
        source: io::Error,
    },
    /// The plan contradicts itself.
    #[error("{0}")]
    Plan(String),
}
