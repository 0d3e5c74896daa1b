//! The gateway between HTTP and programs that answer requests: CGI (RFC 3875), and FastCGI, which
//! carries the same data in records.
//!
//! On the way in, a request becomes variables ([`Invocation`]), after [`split`] has found the part
//! of the path that is the program. On the way out, [`HeadReader`] reads the head of the program's
//! answer. The reader refuses a head with which the program, or an attacker that controls the
//! program's input, could write more of the response than allowed. [`body`] decides how the content
//! is framed. Leaves out starting programs, talking to programs, and deciding which file may run.
//! Tested in `gateway/tests/`.

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
pub use head::{
    HEAD_BYTES, HEAD_FIELDS, HeadLimits, HeadReader, ProgramAnswer, ResponseHead, field_lines, field_name,
    has_parts,
};
pub use oddity::Oddity;
pub use variables::{ClientLink, ClientScheme, Invocation, ProxiedClient, ProxiedEnds, ScriptPaths};
