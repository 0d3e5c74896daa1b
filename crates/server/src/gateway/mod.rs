//! Programs that answer requests: the parts that PHP and CGI share.
//!
//! ```text
//! answer ─▶ route: which program? ─▶ collect: the content, in memory or spooled ─▶ (a program is found: `php`)
//!                                      ─▶ relay: content in, head checked, content out ─▶ logged
//!                                             └─ redirected here, or to a file ─▶ answer
//! ```
//!
//! The gateway collects a request's content before the program starts, so a slow client does not
//! occupy a program during the upload. The gateway streams the answer, so a slow client occupies a
//! program at most until the answer ends. `program::Reader` and `program::Writer` hide the kind of
//! program behind two streams of bytes. Leaves out starting and choosing programs. Tested through
//! the binary with real PHP (`crates/cli/tests/e2e/php.rs`); pure parts beside their files.

mod call;
mod collect;
mod errors;
mod failure;
mod patience;
mod program;
mod relay;
mod revise;
mod route;
mod sendfile;
mod setup;
mod spool;
mod workspace;
mod written;

use crate::settings::gateway::{
    CONTENT_RATE_MIN, GatewayOptions, GatewayTimeouts, HostSends, SendRoot, Sends,
};
use call::RunsPrograms;
pub(crate) use call::{Answering, Call, Outcome, Programs, Shared, answer, say_too_many_redirects};
pub(crate) use collect::{Content, ContentReader, collect};
pub(crate) use errors::{ErrorLines, ErrorSink, RequestName};
pub(crate) use failure::{Broken, Ended, Failure};
pub(crate) use patience::note_file;
pub(crate) use program::{Last, Read, Reader, Trouble, Writer};
pub(crate) use relay::{Exchange, PIECE_BYTES, Relayed, relay};
pub(crate) use revise::{ReviseError, Revision};
pub(crate) use route::Program;
pub(crate) use sendfile::send_roots;
pub(crate) use setup::SetupError;
pub(crate) use setup::{Setup, has_programs};
pub(crate) use spool::Spools;
pub(crate) use workspace::{Grounds, Parent, Workspace};
pub(crate) use written::Written;
