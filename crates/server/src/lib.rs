//! The web server: files and their metadata cache, connections, logs.

pub mod files;
pub mod holder;
pub mod log;
