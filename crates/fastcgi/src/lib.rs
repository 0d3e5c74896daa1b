//! FastCGI 1.0 without sockets: the messages of a web server to a responder, and the replies.
//!
//! Bytes in, events out; no code here reads a socket or a clock. [`request`] writes the client's
//! messages (a request, its parameters, its input), and [`FastcgiResponse`] reads the reply.
//! [`responder`] is the other side, as far as tests and benches need it. Both read records with
//! [`records`] under one rule: *the events depend on the bytes, never on how the bytes were cut*.
//! Adjacent pieces of a stream count as a single event in this sense.
//!
//! One request at a time on a connection: no known application multiplexes, because the protocol
//! has no flow control per request. The request number still changes, so that late output of an
//! application is not taken for the next answer.
//!
//! Source: Mark R. Brown, *FastCGI Specification*, Open Market, 1996; sections are cited by number.
//! Must never do I/O.

mod error;
mod ids;
pub mod limits;
pub mod pairs;
pub mod records;
pub mod request;
pub mod responder;
mod response;

pub use error::FastcgiFault;
pub use ids::{RecordKind, RequestId};
pub use response::{FastcgiResponse, ProtocolStatus, ResponseEvent, ResponseStep};

/// The same cases in every run, so that only a change of the code causes a failure.
#[cfg(test)]
fn fixed_cases(cases: u32) -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    Config { cases, rng_seed: RngSeed::Fixed(1996), failure_persistence: None, ..Config::default() }
}
