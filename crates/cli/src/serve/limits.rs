//! The bounds of `vermeil serve`: cache, limits, timeouts.
//!
//! Defaults belong to the crates that apply the defaults; a test compares the copies here.

use crate::values::{Size, Span, size_between};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use vermeil_config::Timeouts;
use vermeil_http::limits;

pub(super) const K: u64 = 1 << 10;
pub(super) const M: u64 = 1 << 20;
pub(super) const G: u64 = 1 << 30;
const T: u64 = 1 << 40;

/// The bounds of the file cache.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct CacheArgs {
    /// Memory for file contents, all cores together, in bytes
    ///
    /// From 0 (nothing is cached) to 1T. At the bound the least recently used contents are evicted.
    /// Default: a 200th of the memory that the server may use, at least 64M.
    #[arg(long, value_name = "SIZE", value_parser = size_between(0, T))]
    pub(super) cache_bytes: Option<Size>,

    /// Cached paths, all cores together
    ///
    /// From 1 to 16777216. Each takes about 1K of memory, without the contents. At the bound the
    /// least recently used paths are evicted. Default: a 400th of the memory that the server may
    /// use, at least 32768 paths.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=1 << 24))]
    pub(super) cache_entries: Option<usize>,

    /// The largest file whose content is kept in memory, in bytes
    ///
    /// From 0 to 1G, and not more than --cache-bytes. Larger files are read from the kernel's page
    /// cache. A file above 64K is copied into a sealed memory file once it is asked for four times
    /// within a second.
    #[arg(long, value_name = "SIZE", default_value_t = Self::FILE_BYTES, value_parser = size_between(0, G))]
    pub(super) cache_file_bytes: Size,

    /// Send larger files by sendfile(2)
    ///
    /// Takes less processor time. But if a program writes a file in place, truncates or maps the
    /// file during a transfer, the client may get a complete answer with mixed content. Default:
    /// the server reads each part, checks the file again, and cuts the connection if the file has
    /// changed.
    #[arg(long)]
    pub(super) sendfile: bool,
}

impl CacheArgs {
    /// Default of `--cache-file-bytes`.
    pub(super) const FILE_BYTES: Size = Size::bytes(4 * M);
}

/// The bounds of requests and connections.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct LimitArgs {
    /// Open connections of each core
    ///
    /// From 1 to 10000000. Beyond it a new connection replaces an idle connection: first a
    /// connection between two requests, then a connection without a byte for 100 ms, then a
    /// connection after the last answer. Then come incomplete heads, incomplete bodies and unread
    /// answers, each after a second without progress. If there is no such connection, new
    /// connections wait in the kernel's queue.
    #[arg(long, value_name = "N", default_value_t = vermeil_config::CONNECTIONS_MAX)]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000_000))]
    pub(super) connections_max: usize,

    /// Connections of a client address, on all cores of an instance
    ///
    /// From 1 to 10000000. Beyond it: 503, and the connection is closed. Default: no bound, because
    /// many clients may share the address of a proxy.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000_000))]
    pub(super) client_connections_max: Option<usize>,

    /// Leading bits of an IPv6 address that identify a client
    ///
    /// From 16 to 128: 64 is the network of a customer, 128 a single address.
    #[arg(long, value_name = "BITS", default_value_t = vermeil_routing::clients::CLIENT_IPV6_PREFIX)]
    #[arg(value_parser = clap::value_parser!(u8).range(16..=128))]
    pub(super) client_ipv6_prefix: u8,

    /// For connections to be accepted, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Under overload the server shortens the queue until a connection waits no
    /// longer than this. Connections that waited twice as long are refused with 503, if a refusal
    /// costs much less than an answer.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(vermeil_config::WAIT_MAX))]
    pub(super) wait_max: Span,

    /// The longest request line, in bytes
    ///
    /// From 128 to 1M, and not more than --header-bytes. Beyond it: 414.
    #[arg(long, value_name = "SIZE", default_value_t = Size::bytes(limits::REQUEST_LINE_BYTES as u64))]
    #[arg(value_parser = size_between(128, M))]
    pub(super) request_line_bytes: Size,

    /// The most header fields of a request
    ///
    /// From 1 to 10000. Beyond it: 431.
    #[arg(long, value_name = "N", default_value_t = limits::HEADER_COUNT)]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(super) header_count: usize,

    /// The longest request head, that is request line and header fields, in bytes
    ///
    /// From 256 to 16M. Beyond it: 431. A connection whose request arrives in pieces may hold that
    /// much memory.
    #[arg(long, value_name = "SIZE", default_value_t = Size::bytes(limits::HEADER_BYTES as u64))]
    #[arg(value_parser = size_between(256, 16 * M))]
    pub(super) header_bytes: Size,

    /// The longest request body, in bytes
    ///
    /// From 0 to 1T. Beyond it: 413. Bodies are read and discarded.
    #[arg(long, value_name = "SIZE", default_value_t = Size::bytes(limits::BODY_BYTES))]
    #[arg(value_parser = size_between(0, T))]
    pub(super) body_bytes: Size,

    /// Memory for the bodies of requests to PHP and CGI programs, in bytes
    ///
    /// From 0 to 1T, all requests of an instance together. Beyond it bodies of every size are
    /// spooled to files.
    #[arg(long, value_name = "SIZE", default_value_t = Size::bytes(vermeil_settings::gateway::CONTENT_MEMORY_BYTES_MAX))]
    #[arg(value_parser = size_between(0, T))]
    pub(super) body_memory_bytes: Size,

    /// Requests on a connection before the server closes the connection
    ///
    /// From 1 (no keep-alive) to 4294967295.
    #[arg(long, value_name = "N", default_value_t = limits::REQUESTS_PER_CONNECTION)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) requests_per_connection: u32,

    /// The most ranges of a range request
    ///
    /// From 0 (range requests get the whole file) to 1000. Beyond it the whole file is sent.
    #[arg(long, value_name = "N", default_value_t = limits::RANGES_MAX)]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(0..=1000))]
    pub(super) ranges_max: usize,

    /// The most names on one page of a listing
    ///
    /// From 1 to 1048576. Further names are on further pages, and each page links to the others.
    #[arg(long, value_name = "N", default_value_t = vermeil_files::LISTING_NAMES_MAX)]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=1 << 20))]
    pub(super) listing_names: usize,
}

/// How long a client may take. Each from 1ms to 24h.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct TimeoutArgs {
    /// For a request head to arrive, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h, from the start of the connection or the first byte of a later request.
    /// Then: 408.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(Timeouts::default().header))]
    pub(super) header_timeout: Span,

    /// For a request body to arrive, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h, from the end of the head. Then the connection is closed. For the body of a
    /// request to a program, the time is between two parts of the body, and each 500 bytes received
    /// add a second.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(Timeouts::default().body))]
    pub(super) body_timeout: Span,

    /// For the next request on a connection, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h, from the end of the previous answer. Then the connection is closed.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(Timeouts::default().keep_alive))]
    pub(super) keep_alive_timeout: Span,

    /// For a client to take any part of the answer, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h without progress. Then the connection is cut.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(Timeouts::default().write))]
    pub(super) write_timeout: Span,

    /// For balancers to react before the server stops, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h, from the first signal. Agent checks announce the stop, and the server
    /// serves as before. Default: no time.
    #[arg(long, value_name = "TIME")]
    pub(super) leave_timeout: Option<Span>,

    /// For open requests to finish when the server stops, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h, from the first signal, or the end of --leave-timeout. Then open requests
    /// are cut, and the exit code is 4.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(Timeouts::default().drain))]
    pub(super) drain_timeout: Span,
}
