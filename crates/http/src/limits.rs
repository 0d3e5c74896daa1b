//! What one peer may make us hold or do: every bound of this crate, with its default and its reason.
//!
//! The bounds are plain fields, so that a configuration can set them one by one over [`Limits::default`].
//! Bounds in time (header, body, keep-alive) belong to whoever owns a clock, not here. That each bound is
//! exact, to the byte, is tested where it is applied: `request/tests.rs`, `body/tests.rs`, `ranges/tests.rs`.

/// Longest request line, without its line end. RFC 9112 §3 recommends to accept at least 8,000 bytes; 8 KiB
/// is also what nginx (`large_client_header_buffers`) and Apache (`LimitRequestLine`, 8,190) take.
pub const REQUEST_LINE_BYTES: usize = 8 * 1024;

/// Most field lines in one head. Apache's `LimitRequestFields` is 100; browsers send some 20.
pub const HEADER_COUNT: usize = 100;

/// Longest head: request line, field lines and line ends together. nginx takes 4 buffers of 8 KiB.
pub const HEADER_BYTES: usize = 32 * 1024;

/// Most content read from a request whose content is of no use (a static file server discards it). 1 MiB is
/// nginx's `client_max_body_size`; beyond it, closing the connection costs both sides less than reading on.
pub const BODY_BYTES: u64 = 1024 * 1024;

/// Requests served on one connection before it is closed. A guess between two costs: a connection stays with
/// the core that accepted it, so one that never ends can never be balanced again; one that ends too soon pays
/// a handshake, which a hundred thousand requests make free.
pub const REQUESTS_PER_CONNECTION: u32 = 100_000;

/// Bytes of chunk extensions in one body, all chunks together. Nobody uses extensions; a bound per chunk
/// alone would let a peer send a thousand times the bytes it is charged for (CVE-2023-39326).
pub const CHUNK_EXTENSION_BYTES: usize = 4 * 1024;

/// Bytes of the trailer section of one chunked body. It is checked and dropped.
pub const TRAILER_BYTES: usize = 8 * 1024;

/// Most ranges in one `Range` field; more, and the whole is sent. Real clients ask for one, PDF readers for a
/// handful; CVE-2011-3192 ("Apache killer") asked for 1,300.
pub const RANGES_MAX: usize = 16;

/// The bounds on one connection's input. Defaults are the constants of this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest request line in bytes, without its line end; beyond: 414. See [`REQUEST_LINE_BYTES`].
    pub request_line_bytes: usize,
    /// Most field lines; beyond: 431. See [`HEADER_COUNT`].
    pub header_count: usize,
    /// Longest head in bytes, empty lines before the request included; beyond: 431. A receive buffer of this
    /// size always makes progress. See [`HEADER_BYTES`].
    pub header_bytes: usize,
    /// Most bytes of content; beyond: 413. See [`BODY_BYTES`].
    pub body_bytes: u64,
    /// The last request served on a connection is this one, counted from 1. See [`REQUESTS_PER_CONNECTION`].
    pub requests_per_connection: u32,
    /// Bytes of chunk extensions in one body; beyond: 400. See [`CHUNK_EXTENSION_BYTES`].
    pub chunk_extension_bytes: usize,
    /// Bytes of a trailer section, its line ends included; beyond: 431. See [`TRAILER_BYTES`].
    pub trailer_bytes: usize,
    /// Most ranges in one request; beyond, the field is ignored. See [`RANGES_MAX`].
    pub ranges_max: usize,
}

impl Default for Limits {
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
