//! Between HTTP and programs that answer requests: CGI (RFC 3875), and FastCGI, which says the same in records.
//!
//! On the way in, a request becomes variables ([`Invocation`]), after [`split`] has found which file of a path is the
//! program. On the way out, [`HeadReader`] reads what the program says before its content, and refuses what would let
//! it, or whoever feeds it, write more of our answer than it may; [`body`] decides how the content is framed. Leaves
//! out starting programs, talking to them, and deciding which file may run. Tested in `gateway/tests/`.

pub mod body;
mod fault;
mod head;
mod oddity;
pub mod redirect;
pub mod split;
mod variables;

#[cfg(test)]
mod tests;

pub use body::{Body, BodyFraming};
pub use fault::BadHead;
pub use head::{Answer, HEAD_BYTES, HEAD_FIELDS, HeadLimits, HeadReader, ResponseHead};
pub use oddity::Oddity;
pub use variables::{Invocation, Link, Scheme, Script};
