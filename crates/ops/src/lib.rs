//! The operation of a server as processes.
//!
//! [`control_socket`] has the socket that only the owner of a server reaches, and
//! [`control_client`] asks a server through that socket. [`messages`] travel between the processes
//! of a server, with descriptors. [`signals`] ask for the end, and [`notify`] tells the service
//! manager. [`sandbox`] confines the process that parses requests, and [`affinity_watch`] follows
//! the cpus that the process may use. Must never know requests.

pub mod affinity_watch;
pub mod control_client;
pub mod control_socket;
pub mod messages;
pub mod notify;
pub mod sandbox;
pub mod signals;
