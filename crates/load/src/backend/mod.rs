//! The back-end simulator: what dynamic pages ask for their data, so that no database is measured.
//!
//! `records` knows the answers, `serve` gives them. The protocol is plain HTTP/1.1:
//!
//! ```text
//! GET /COMMAND?NAME=VALUE&… HTTP/1.1        →  200, text/plain, Content-Length
//!                                              0 ok
//!                                              FIELD|FIELD|…
//!                                              FIELD|FIELD|…
//! ```
//!
//! The first line is a code and a word: `0 ok`, `1 unknown command`, `2 bad arguments`. Each further line is a record, its
//! fields between bars; fields contain neither bars nor line ends. Answers are a function of command and arguments alone.

mod records;
mod serve;

pub use serve::{Backend, BackendOptions};
