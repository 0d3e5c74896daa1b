//! Parts of a program's head that do not reach the client although the answer does: the content of
//! a notice in the log.
//!
//! The rules are in docs/cgi.md, "Repaired, reported and refused answers". Each rule is tested in
//! `gateway/tests/heads.rs`.

use std::fmt;

/// A part of a program's head that was left out or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oddity {
    /// A line whose name no field can have, such as `<!--: spam` of Python's cgitb.
    Name(Vec<u8>),
    /// A field about a connection that the client does not have with the program, or for another
    /// server than this.
    NotForClients(Vec<u8>),
    /// A repeated field that may occur only once, with two values: the last counts.
    Repeated(&'static str),
    /// `Content-Length` that is no number.
    Length(Vec<u8>),
    /// `Content-Length` with a status that has no content.
    LengthOfNothing(u16),
    /// More content than `Content-Length` announced.
    Excess,
    /// A field or status that has no effect beside the file that the server is to send.
    BesideFile(&'static str),
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(line) => {
                write!(
                    f,
                    "the line \"{}\" of its head has no valid name and was left out",
                    line.escape_ascii()
                )
            }
            Self::NotForClients(name) => {
                write!(f, "the field {} is not for clients and was left out", name.escape_ascii())
            }
            Self::Repeated(name) => {
                write!(f, "{name} stands in its head twice with two values: the last was taken")
            }
            Self::Length(value) => {
                write!(
                    f,
                    "Content-Length \"{}\" is not a decimal number and was left out",
                    value.escape_ascii()
                )
            }
            Self::LengthOfNothing(status) => {
                write!(
                    f,
                    "Content-Length was left out, because an answer with status {status} has no content"
                )
            }
            Self::Excess => {
                f.write_str("it wrote more content than its Content-Length announced; the rest was left out")
            }
            Self::BesideFile(name) => {
                write!(f, "{name} was left out, because the answer is that of the file it has sent")
            }
        }
    }
}
