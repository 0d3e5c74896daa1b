//! The web server: files and their metadata cache, connections, logs.

pub mod holder;
pub mod log;
