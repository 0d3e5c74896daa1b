//! The state of a server: of each core, and of all cores together.
//!
//! Start with [`core_context`], the state that only one core touches: a part of the file cache,
//! counts, connections. [`server`] has the state that all cores share, and that a reload
//! replaces. [`connections`] decides which connection gives way at the bound, [`counts`] counts
//! answers, [`load_board`] holds the measured load, and [`tls`] has the certificates and the
//! workers of handshakes.
//!
//! The layers above act on this state: connections, answers, and the start of the server. This
//! crate must never answer a request, receive, send, or open a socket.

pub mod connections;
pub mod core_context;
pub mod counts;
pub mod load_board;
pub mod server;
pub mod tls;
