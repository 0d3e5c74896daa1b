//! Addresses of listeners and of their clients: TCP, or a unix socket for a proxy on the same
//! machine.
//!
//! Leaves out the written form of addresses in a configuration. Must never open a socket.

mod client;
mod listen_addr;

pub use client::Client;
pub use listen_addr::{
    ListenAddr, SocketFile, UNIX, UNIX_MODE, UNIX_PATH_BYTES_MAX, UnixAddr, too_long_path,
};
