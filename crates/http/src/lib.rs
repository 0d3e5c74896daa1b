//! HTTP/1.1 without sockets: parsing, framing, conditions, ranges, negotiation.
//!
//! Bytes in, decisions out. The crate reads no socket, no file and no clock: times are arguments,
//! buffers belong to the caller, and parsing allocates nothing. The rules of messages are RFC 9110
//! (semantics) and RFC 9112 (HTTP/1.1). Where the RFCs allow lenient or strict parsing, this crate
//! is strict. The reason: with every leniency two programs may disagree about the end of a request
//! (request smuggling).
//!
//! Start with [`Conversation`]: a conversation turns the bytes of one connection into requests,
//! bodies and refusals. Then, for a request of a file: [`path::decode`],
//! [`Preconditions::evaluate`], [`ranges::parse`], [`negotiate::choose`], and
//! [`response::HeadWriter`] for the answer. For a program's answer: [`gateway`].
//!
//! One rule holds for all input: *the verdict depends on the bytes, never on how the bytes were
//! cut*. A prefix of the input gives either "more" or exactly the verdict of the whole.
//! `tests/corpus/` checks the rule on every cut of a corpus, and on cuts of its mutations.

pub mod basic;
pub mod body;
pub mod conditions;
pub mod conversation;
mod date;
mod field_lines;
pub mod forwarded;
pub mod gateway;
pub mod limits;
mod list;
pub mod negotiate;
pub mod path;
pub mod proxy_protocol;
pub mod ranges;
pub mod rejection;
pub mod request;
pub mod response;
mod scan;
mod status;
mod version;

pub use body::BodyReader;
pub use conditions::{Preconditions, Validators, Verdict};
pub use conversation::{Conversation, ConversationEvent};
pub use date::HttpDate;
pub use field_lines::FieldLines;
pub use limits::ConnectionLimits;
pub use list::ListField;
pub use rejection::Rejection;
pub use request::{Framing, Method, ParsedPart, Request, Target, TargetForm, parse, parse_again};
pub use scan::is_token;
pub use status::Status;
pub use version::Version;

/// The same cases in every run: a failure is the change's fault, not the day's.
#[cfg(test)]
fn fixed_cases(cases: u32) -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    Config { cases, rng_seed: RngSeed::Fixed(9112), failure_persistence: None, ..Config::default() }
}
