//! The back-end simulator: answers the data requests of dynamic pages, so that a test does not
//! measure a database.
//!
//! `records` makes the answers, `serve` sends them. The protocol is plain HTTP/1.1:
//!
//! ```text
//! GET /COMMAND?NAME=VALUE&… HTTP/1.1        →  200, text/plain, Content-Length
//!                                              0 ok
//!                                              FIELD|FIELD|…
//!                                              FIELD|FIELD|…
//! ```
//!
//! The first line is a code and a word: `0 ok`, `1 unknown command`, `2 bad arguments`. Each
//! further line is a record of fields between bars; fields contain neither bars nor line ends.
//! Answers depend on the command and the arguments only.

mod records;
mod serve;

pub use serve::{Backend, BackendOptions};
