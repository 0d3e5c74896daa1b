//! The bounds of this crate, each with its reason. Those of a stream's length belong to whoever relays it.

/// Content of one record that we write, in bytes. The length field holds 65,535 (§3.3); a multiple of eight keeps
/// records aligned without padding, as the specification recommends.
pub const CONTENT_BYTES_MAX: usize = 65_528;

/// Content of a record that is read whole (the end of a request, values), in bytes. The largest known, the answer to
/// all three values of §4.1, has 51; beyond it the peer is at fault.
pub const WHOLE_BYTES_MAX: usize = 1024;

/// All parameters of one request that [`responder`](crate::responder) holds, in bytes. Four times the longest
/// request head that is accepted by default.
pub const PARAMS_BYTES_MAX: usize = 128 * 1024;
