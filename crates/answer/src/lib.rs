//! From a request to its answer, without waiting.
//!
//! Start with [`answer::answer`], which finds the host and the rules, and then the file, the page
//! or the route that answers. An answer that has to wait is handed back as [`answer::Deferred`],
//! which names the event. [`pages`] writes the pages of errors, and the end of every head.
//!
//! This crate must never wait, and must never know a connection: the output is bytes in memory.

pub mod answer;
mod https;
pub mod pages;
