//! The client's side of HTTP/1.1, without sockets: builds requests and parses answers.
//!
//! Requests are built here because their bytes are the same thousands of times. Answers are parsed
//! here because `vermeil-http` parses the messages that a server receives. The content of an answer
//! passes through and is never stored.

mod request;
mod response;

pub(crate) use request::Http2Request;
pub use request::{LoadRequest, Repeats, RequestError};
pub(crate) use response::quoted;
pub use response::{
    AnswerReader, AnswerSink, Discard, FinalHead, InputProgress, LastHead, MalformedAnswer, Reuse,
    WholeAnswer,
};
