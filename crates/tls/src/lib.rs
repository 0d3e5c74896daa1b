//! TLS for streams, without sockets: certificates from PEM files, session tickets, handshakes and
//! records.
//!
//! Bytes go in and out as slices and buffers, so any driver can carry them. The caller decides
//! which core runs the expensive step of a handshake ([`ClientGreeting::answer`]), and which host a
//! client asks for. This crate must not know HTTP or the server.
//!
//! Reading order: [`HelloReader`] (the first message of a client), [`CertificateStore`] (from files
//! to a configuration for a host), [`TlsSession`] (the records of a connection), [`Tickets`].
//!
//! rustls does the protocol, AWS-LC the cryptography.

mod certificate;
mod greeting;
mod policy;
mod provider;
mod session;
mod store;
#[cfg(test)]
mod testing;
mod tickets;
mod validity;

pub use certificate::{CertificateError, CertificatePair, FileSource, PlainFiles};
pub use greeting::{ClientGreeting, FirstBytes, HelloReader};
pub use policy::{ClientTrust, HostTls, MinimumVersion, TlsPolicy};
pub use provider::prepare_random;
pub use session::{HandshakeKind, TlsFacts, TlsFailure, TlsFlight, TlsInput, TlsSession};
pub use store::{CertificateStore, HostTlsConfig, LoadPermit, Loaded, LookUp};
pub use tickets::{TicketSecret, Tickets};
pub use validity::OutOfDate;
