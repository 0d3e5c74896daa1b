//! HTTP/1.1 from the client's side, without sockets: requests as bytes, answers found byte by byte.
//!
//! Requests are made here because their bytes are the same thousands of times over; answers are read here because
//! `vermeil-http` reads what a server receives. The content of an answer passes through and is never held.

mod request;
mod response;

pub(crate) use request::Asked;
pub use request::{Repeats, Request, RequestError};
pub(crate) use response::quoted;
pub use response::{Answer, Discard, Head, Malformed, Progress, ResponseReader, Reuse, Seen, Sink};
