//! Listening sockets, and the core of each new connection.
//!
//! Reading order: [`listen`] opens the sockets of all addresses ([`listening`]), except the sockets
//! that a service manager passed ([`activation`]). [`port_owner`] names the process that holds an
//! address. [`balance`] chooses the core of a connection, [`admission_control`] decides whether a
//! core takes one more connection, and [`busy_poll`] decides whether a core polls its network card.
//! The server accepts, because an accepted connection is the server's. Must never know HTTP.

pub mod activation;
pub mod admission_control;
pub mod balance;
pub mod busy_poll;
pub mod listen;
pub mod listening;
pub mod port_owner;
