//! The limits on one peer's use of memory and work: every bound of this crate, with its default and
//! reason.
//!
//! The bounds are plain fields, so that a configuration can set each bound separately over
//! [`ConnectionLimits::default`]. Bounds in time (header, body, keep-alive) belong to the owner of
//! a clock, not here. Each bound is exact, to the byte. The tests are in the files that apply the
//! bound: `request/tests.rs`, `body/tests.rs`, `ranges/tests.rs`.

/// Longest request line, without its line end. RFC 9112 §3 recommends to accept at least 8,000
/// bytes. nginx (`large_client_header_buffers`) accepts 8 KiB too, and Apache (`LimitRequestLine`)
/// 8,190 bytes.
pub const REQUEST_LINE_BYTES: usize = 8 * 1024;

/// Most field lines in one head. Apache's `LimitRequestFields` is 100; browsers send some 20.
pub const HEADER_COUNT: usize = 100;

/// Longest head: request line, field lines and line ends together. nginx takes 4 buffers of 8 KiB.
pub const HEADER_BYTES: usize = 32 * 1024;

/// Most content that the server reads and discards, for example a request body to a static file. 1
/// MiB is nginx's `client_max_body_size`. Beyond the limit, closing the connection costs both sides
/// less than reading on.
pub const BODY_BYTES: u64 = 1024 * 1024;

/// Requests served on a connection before the server closes the connection. A connection stays with
/// the core that accepted the connection, so an endless connection can never be balanced again. A
/// handshake of at most 100 µs, divided by a hundred thousand requests, costs a nanosecond per
/// request.
pub const REQUESTS_PER_CONNECTION: u32 = 100_000;

/// Bytes of chunk extensions in one body, all chunks together. Extensions are not used in practice.
/// A bound for each chunk alone would let a peer send a thousand times its charged bytes
/// (CVE-2023-39326).
pub const CHUNK_EXTENSION_BYTES: usize = 4 * 1024;

/// Bytes of the trailer section of one chunked body. The section is checked and dropped.
pub const TRAILER_BYTES: usize = 8 * 1024;

/// Most ranges in one `Range` field; with more ranges, the server sends the whole. Real clients ask
/// for one range, PDF readers for a handful; CVE-2011-3192 ("Apache killer") asked for 1,300.
pub const RANGES_MAX: usize = 16;

/// The bounds on one connection's input. Defaults are the constants of this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Longest request line in bytes, without its line end; beyond: 414. See
    /// [`REQUEST_LINE_BYTES`].
    pub request_line_bytes: usize,
    /// Most field lines; beyond: 431. See [`HEADER_COUNT`].
    pub header_count: usize,
    /// Longest head in bytes, empty lines before the request included; beyond: 431. A receive
    /// buffer of this size always makes progress. See [`HEADER_BYTES`].
    pub header_bytes: usize,
    /// Most bytes of content; beyond: 413. See [`BODY_BYTES`].
    pub body_bytes: u64,
    /// The last request served on a connection has this number, counted from 1. See
    /// [`REQUESTS_PER_CONNECTION`].
    pub requests_per_connection: u32,
    /// Bytes of chunk extensions in one body; beyond: 400. See [`CHUNK_EXTENSION_BYTES`].
    pub chunk_extension_bytes: usize,
    /// Bytes of a trailer section, line ends included; beyond: 431. See [`TRAILER_BYTES`].
    pub trailer_bytes: usize,
    /// Most ranges in one request; beyond, the field is ignored. See [`RANGES_MAX`].
    pub ranges_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            request_line_bytes: REQUEST_LINE_BYTES,
            header_count: HEADER_COUNT,
            header_bytes: HEADER_BYTES,
            body_bytes: BODY_BYTES,
            requests_per_connection: REQUESTS_PER_CONNECTION,
            chunk_extension_bytes: CHUNK_EXTENSION_BYTES,
            trailer_bytes: TRAILER_BYTES,
            ranges_max: RANGES_MAX,
        }
    }
}
