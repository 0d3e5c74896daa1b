//! The operation of a server as processes.
//!
//! [`control_socket`] has the socket that only the owner of a server reaches, [`control`] answers
//! its clients, and [`control_client`] asks a server through that socket. [`status`] has the values
//! of a status and their forms. [`handover`] gives the sockets of a server to the next server.
//! [`messages`] travel between the processes of a server, with descriptors: the [`broker`] opens
//! logs and addresses for a server in the [`sandbox`], and the [`key_reader`] opens private keys.
//! [`opening`] has the first steps of a start, and [`reload`] the parts of a reload that a server
//! and a supervisor share. [`balancers`] reports to balancers in front of the server.
//! [`privileges`] gives up the rights of the superuser. [`signals`] ask for the end, [`notify`]
//! tells the service manager, and [`affinity_watch`] follows the cpus that the process may use.
//! Must never know requests.

pub mod affinity_watch;
pub mod balancers;
pub mod broker;
pub mod control;
pub mod control_client;
pub mod control_socket;
pub mod handover;
pub mod key_reader;
pub mod messages;
pub mod notify;
pub mod opening;
mod order_line;
pub mod privileges;
pub mod reload;
pub mod sandbox;
pub mod signals;
pub mod status;
