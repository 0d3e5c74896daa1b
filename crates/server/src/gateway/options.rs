//! What relaying to programs can be told: bounds and times, each with its default and what happens there.

use std::{path::PathBuf, str::FromStr, time::Duration};
use vermeil_http::gateway::HeadLimits;

/// Content of a request kept in memory, in bytes; more is spooled. Default 64 KiB, four times nginx's
/// `client_body_buffer_size`: most forms, no upload.
pub const CONTENT_MEMORY_BYTES: usize = 64 * 1024;

/// Content of all requests that is kept in memory at once, in bytes, in one instance. Beyond it
/// content is spooled, however short. Default 16 MiB: 256 requests with [`CONTENT_MEMORY_BYTES`]
/// each, and a quarter of a small machine's cgroup.
pub const CONTENT_MEMORY_BYTES_MAX: u64 = 16 << 20;

/// Longest content of a request to a program, in bytes. Default 64 MiB. Guess: a photograph or a document, not a film.
pub const CONTENT_BYTES: u64 = 64 << 20;

/// Bytes spooled at once, all requests together. Default 4 GiB. Guess: what a temporary folder can spare.
pub const SPOOL_BYTES: u64 = 4 << 30;

/// Bytes of a request's content that a client must send each second, once the time for a body is over; it has that time
/// for each next byte too. Default 500, Apache httpd's `MinRate`: less than the slowest telephone line, and with the default
/// of [`CONTENT_BYTES`] a connection is held for a day and a half at most.
pub const CONTENT_RATE_MIN: u64 = 500;

/// Everything about programs that does not depend on what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayOptions {
    /// Longest content of a request, in bytes; beyond: 413. See [`CONTENT_BYTES`].
    pub content_bytes: u64,
    /// Content kept in memory, in bytes for each request; more goes to a file. See [`CONTENT_MEMORY_BYTES`].
    pub content_memory_bytes: usize,
    /// Content kept in memory, in bytes, all requests together; more goes to files. See
    /// [`CONTENT_MEMORY_BYTES_MAX`].
    pub content_memory_bytes_max: u64,
    /// Bytes in such files, all requests together; beyond: 503. See [`SPOOL_BYTES`].
    pub spool_bytes: u64,
    /// The folder of such files. Default: `TMPDIR`, or `/var/tmp`, or `/tmp`.
    pub spool_folder: Option<PathBuf>,
    /// Bounds of what a program writes before its content; beyond: 502.
    pub head: HeadLimits,
    /// How long things may take.
    pub timeouts: GatewayTimeouts,
    /// The folders out of which programs may have files sent, by `X-Sendfile` and `X-Accel-Redirect`. Default: none.
    pub sends: Sends,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            content_bytes: CONTENT_BYTES,
            content_memory_bytes: CONTENT_MEMORY_BYTES,
            content_memory_bytes_max: CONTENT_MEMORY_BYTES_MAX,
            spool_bytes: SPOOL_BYTES,
            spool_folder: None,
            head: HeadLimits::default(),
            timeouts: GatewayTimeouts::default(),
            sends: Sends::default(),
        }
    }
}

/// How long a program, and the way to it, may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayTimeouts {
    /// For a program to be free. Then: 503. Default 30 s: who waits longer has left.
    pub queue: Duration,
    /// For a connection to a program. Then: 502. Default 5 s, some restarts of a pool.
    pub connect: Duration,
    /// Without a byte from the program, or taken by it. Then: 504, or cut if the answer has begun. Default 60 s, as
    /// nginx's `fastcgi_read_timeout`.
    pub answer: Duration,
}

impl Default for GatewayTimeouts {
    fn default() -> Self {
        Self {
            queue: Duration::from_secs(30),
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(60),
        }
    }
}

/// What the programs of a server may have sent, where their host does not say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sends {
    /// PHP.
    pub php: Vec<SendRoot>,
    /// CGI programs.
    pub cgi: Vec<SendRoot>,
}

/// What the programs of one host may have sent. Nothing: as of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostSends {
    /// PHP.
    pub php: Option<Vec<SendRoot>>,
    /// CGI programs.
    pub cgi: Option<Vec<SendRoot>>,
}

/// A folder out of which programs may have files sent. As text: `DIR` or `PREFIX=DIR`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SendRoot {
    /// Paths that begin so, in whole segments, name files in it by `X-Accel-Redirect`. Nothing: only `X-Sendfile` does,
    /// by their absolute path.
    pub prefix: Option<String>,
    /// The folder.
    pub folder: PathBuf,
}

impl FromStr for SendRoot {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (prefix, folder) = match text.split_once('=') {
            Some((prefix, folder)) => (Some(prefix.to_owned()), folder),
            None => (None, text),
        };
        if prefix.as_ref().is_some_and(|prefix| !prefix.starts_with('/')) {
            return Err("write the prefix as a path of the site, such as /files=/srv/files");
        }
        if folder.is_empty() {
            return Err("write a folder, such as /srv/files");
        }
        Ok(Self { prefix, folder: folder.into() })
    }
}
