//! FastCGI 1.0 without sockets: what a web server says to a responder, and what it hears back.
//!
//! Bytes in, events out; nothing here reads a socket or a clock. [`request`] writes what a client says (a request, its
//! parameters, its input), [`Response`] reads what comes back. [`responder`] is the other side, as far as a test or a
//! bench needs one. Both read records with [`records`], in which one rule holds: *the events depend on the bytes, never
//! on how they were cut*; neighbouring pieces of one stream are one event in this sense.
//!
//! One request at a time on a connection: no known application multiplexes, since the protocol has no flow control per
//! request. Request numbers change all the same, so that what an application sends late is not taken for the next
//! answer.
//!
//! Source: Mark R. Brown, *FastCGI Specification*, Open Market, 1996; sections are cited by number. Must never do I/O.

mod error;
pub mod limits;
pub mod pairs;
pub mod records;
pub mod request;
pub mod responder;
mod response;

pub use error::Fault;
pub use records::{Kind, RequestId};
pub use response::{Event, ProtocolStatus, Response, Step};

/// The same cases in every run: a failure is the change's fault, not the day's.
#[cfg(test)]
fn fixed_cases(cases: u32) -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    Config { cases, rng_seed: RngSeed::Fixed(1996), failure_persistence: None, ..Config::default() }
}
