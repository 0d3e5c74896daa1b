//! The bounds of this crate, each with its reason. Code that relays a stream bounds the stream's
//! length.

/// Content of a written record, in bytes. The length field holds 65,535 (§3.3); a multiple of eight
/// keeps records aligned without padding, as the specification recommends.
pub const CONTENT_BYTES_MAX: usize = 65_528;

/// Content of a record that is read whole (the end of a request, values), in bytes. The largest
/// known content, the answer to all three values of §4.1, has 51; a longer record is a peer's
/// fault.
pub const WHOLE_BYTES_MAX: usize = 1024;

/// All parameters of a request that [`responder`](crate::responder) holds, in bytes. Four times the
/// longest request head that the server accepts by default.
pub const PARAMS_BYTES_MAX: usize = 128 * 1024;
