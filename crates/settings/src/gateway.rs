//! Options of relaying to programs: bounds and timeouts, each with its default and the effect of
//! reaching the bound.

use std::{path::PathBuf, str::FromStr, time::Duration};
use vermeil_http::gateway::HeadLimits;

/// Content of one request kept in memory, in bytes. Longer content is spooled. Default 64 KiB, four
/// times nginx's `client_body_buffer_size`, because that holds most forms and no upload.
pub const CONTENT_MEMORY_BYTES: usize = 64 * 1024;

/// Content of all requests kept in memory at once, in bytes, in one instance. Beyond this bound
/// even short content is spooled. Default 16 MiB: 256 requests with [`CONTENT_MEMORY_BYTES`] each,
/// and a quarter of a small machine's cgroup.
pub const CONTENT_MEMORY_BYTES_MAX: u64 = 16 << 20;

/// Longest content of a request to a program, in bytes. Default 64 MiB: enough for a photograph or
/// a document, not for a film.
pub const CONTENT_BYTES: u64 = 64 << 20;

/// Bytes spooled at once, for all requests together. Default 4 GiB: 64 contents of the default
/// size.
pub const SPOOL_BYTES: u64 = 4 << 30;

/// Minimum rate of a request's content, in bytes per second, once the time for a body is over. The
/// client also has that time for each next byte. Default 500, Apache httpd's `MinRate`: less than
/// the slowest telephone line. With the default of [`CONTENT_BYTES`], a client can hold a
/// connection for a day and a half at most.
pub const CONTENT_RATE_MIN: u64 = 500;

/// The options that are the same for every kind of program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayOptions {
    /// Longest content of a request, in bytes. Longer content gets 413. See [`CONTENT_BYTES`].
    pub content_bytes: u64,
    /// Content kept in memory, in bytes per request. Longer content goes to a file. See
    /// [`CONTENT_MEMORY_BYTES`].
    pub content_memory_bytes: usize,
    /// Content kept in memory, in bytes, for all requests together. The rest goes to files. See
    /// [`CONTENT_MEMORY_BYTES_MAX`].
    pub content_memory_bytes_max: u64,
    /// Bytes in such files, for all requests together. Beyond this bound the answer is 503. See
    /// [`SPOOL_BYTES`].
    pub spool_bytes: u64,
    /// The folder of such files. Default: `TMPDIR`, or `/var/tmp`, or `/tmp`.
    pub spool_folder: Option<PathBuf>,
    /// Bounds of a program's response head. A longer head gets 502.
    pub head: HeadLimits,
    /// Timeouts.
    pub timeouts: GatewayTimeouts,
    /// The folders from which programs may have files sent, by `X-Sendfile` and `X-Accel-Redirect`.
    /// Default: none.
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

/// Timeouts of a program and of the connection to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayTimeouts {
    /// For a program to become free; then 503. Default 30 s, because a client that waits longer has
    /// usually left.
    pub queue: Duration,
    /// For a connection to a program; then 504. Default 5 s, enough for some restarts of a pool.
    pub connect: Duration,
    /// Without a byte sent or read by the program. Then the answer is 504, or is cut if the answer
    /// has begun. Default 60 s, as nginx's `fastcgi_read_timeout`.
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

/// The folders for all programs of a server, unless the host has its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sends {
    /// PHP.
    pub php: Vec<SendRoot>,
    /// CGI programs.
    pub cgi: Vec<SendRoot>,
}

/// The folders for the programs of one host. `None`: the folders of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostSends {
    /// PHP.
    pub php: Option<Vec<SendRoot>>,
    /// CGI programs.
    pub cgi: Option<Vec<SendRoot>>,
}

/// A folder from which programs may have files sent. As text: `DIR` or `PREFIX=DIR`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SendRoot {
    /// `X-Accel-Redirect` paths with this prefix, in whole segments, name files in the folder.
    /// Without a prefix, only `X-Sendfile` names files here, by absolute path.
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
