//! Programs that answer requests: the parts that PHP and CGI share.
//!
//! ```text
//! calls ─▶ route: which program? ─▶ collect: the content, in memory or spooled ─▶ (a program is
//!                                      found: `php`) ─▶ relay: content in, head checked, content
//!                                             out ─▶ logged └─ redirected here, or to a file ─▶
//!                                             answer
//! ```
//!
//! The gateway collects a request's content before the program starts, so a slow client does not
//! occupy a program during the upload. The gateway streams the answer, so a slow client occupies a
//! program at most until the answer ends. `program::Reader` and `program::Writer` hide the kind of
//! program behind two streams of bytes. Leaves out starting and choosing programs. Tested through
//! the binary with real PHP (`crates/cli/tests/e2e/php.rs`); pure parts beside their files.

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
mod yield_to_child;

pub(crate) use asking::Asking;
pub(crate) use client::{GatewayClient, GatewayCore};
pub(crate) use coding::AllowedCoding;
pub(crate) use errors::{ErrorLines, ErrorSink};
pub(crate) use failure::{Broken, ConfiguredBy, EndedAnswer, Failure, GatewayKind};
pub(crate) use program::{FoundProgram, Last, ProgramRead, ProgramReader, ProgramWriter, Trouble};
pub(crate) use relay::{ExchangeParameters, PIECE_BYTES, Relayed, relay};
pub(crate) use request_body::{Collected, ContentReader, RequestBody, collect};
pub(crate) use response_buffer::ResponseBuffer;
pub(crate) use send_sites::{Named, SendRefusal, SendSites, encoded, send_roots};
pub(crate) use spool::Spools;
use vermeil_settings::gateway::{CONTENT_RATE_MIN, GatewayOptions, GatewayTimeouts};
pub(crate) use workspace::{ParentFolder, PrivateWorkspace, RunDirs};
pub(crate) use yield_to_child::note_file;
