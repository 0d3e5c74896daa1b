//! One connection: bytes, origin, waits and the limits of waits.
//!
//! Start with [`connection::Connection`], which receives the bytes of requests and sends the bytes
//! of answers through [`client_stream`], plain or with TLS. Each wait for the client has a limit,
//! and ends early if another connection needs the permit. [`close`] ends a connection so that the
//! client can read its last answer.
//!
//! The loop over requests is in the server. This crate must never choose an answer, or know files.

pub mod client_stream;
pub mod close;
pub mod connection;
