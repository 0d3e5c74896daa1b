//! Programs that answer requests: the parts that PHP and CGI share.
//!
//! ```text
//! server ─▶ route: which program? ─▶ collect: the content, in memory or spooled ─▶ (a program is
//!                                      found: `php`) ─▶ relay: content in, head checked, content
//!                                             out ─▶ logged └─ redirected here, or to a file ─▶
//!                                             answer
//! ```
//!
//! The gateway collects a request's content before the program starts, so a slow client does not
//! occupy a program during the upload. The gateway streams the answer, so a slow client occupies a
//! program at most until the answer ends. `program::Reader` and `program::Writer` hide the kind of
//! program behind two streams of bytes. Leaves out starting and choosing programs. Tested through
//! the binary with real PHP (`crates/e2e/tests/e2e/php.rs`); pure parts beside their files.

mod asking;
mod client;
mod coding;
mod errors;
mod failure;
mod program;
mod relay;
mod request_body;
mod response_buffer;
mod send_sites;
mod spool;
mod workspace;

pub use asking::Asking;
pub use client::{GatewayClient, GatewayCore};
pub(crate) use coding::AllowedCoding;
pub(crate) use errors::ErrorLines;
pub use errors::ErrorSink;
pub use failure::{Broken, ConfiguredBy, EndedAnswer, Failure, GatewayKind};
pub(crate) use program::{END_SOON, Last, ProgramRead, ProgramReader, ProgramWriter};
pub use program::{FoundProgram, Trouble};
pub use relay::Relayed;
pub(crate) use relay::{ExchangeParameters, PIECE_BYTES, relay};
pub use request_body::Collected;
pub(crate) use request_body::{ContentReader, RequestBody, collect};
pub(crate) use response_buffer::ResponseBuffer;
pub use send_sites::{Named, SendRefusal, SendSites, encoded, send_roots};
pub(crate) use spool::reopened;
pub use spool::{SpoolError, Spools};
use vermeil_settings::gateway::{CONTENT_RATE_MIN, GatewayOptions, GatewayTimeouts};
pub use workspace::{ParentFolder, PrivateWorkspace, RunDirs};
