//! The messages between a server and its keeper.
//!
//! Leaves out the work (`supervisor.rs`, `revise.rs`). Fuzzed (`fuzz/targets`).

use crate::{
    error::DefineError,
    reply::{read_fault, write_fault},
    wire::{MalformedMessage, WireReader, WireWriter},
};

/// Words from the server to the keeper; profiles follow the first in the same message.
pub(crate) const DEFINE: u8 = b'D';
/// A channel comes with the message.
pub(crate) const CHANNEL: u8 = b'C';
/// The definitions are complete; the keeper must fork the spawner.
pub(crate) const SERVE: u8 = b'S';
/// While the spawner serves: read the profiles again.
pub(crate) const REVISE: u8 = b'R';
/// While the spawner serves: the number of the profile that follows.
pub(crate) const FIND: u8 = b'F';

/// The keeper's answer to a profile.
#[derive(Debug)]
pub(crate) enum ProfileVerdict {
    Defined(u32),
    Refused(DefineError),
}

impl ProfileVerdict {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut to = WireWriter::default();
        match self {
            Self::Defined(number) => {
                to.u8(0);
                to.u32(*number);
            }
            Self::Refused(DefineError::Superuser { root }) => {
                to.u8(1);
                to.path(root);
            }
            Self::Refused(DefineError::Identity { root, uid }) => {
                to.u8(2);
                to.path(root);
                to.u32(*uid);
            }
            Self::Refused(DefineError::Path { path, fault }) => {
                to.u8(3);
                to.path(path);
                write_fault(&mut to, fault);
            }
            Self::Refused(DefineError::Keeper(_) | DefineError::TooLong { .. }) => to.u8(4),
            Self::Refused(DefineError::Unreadable(why)) => {
                to.u8(5);
                to.bytes(why.as_bytes());
            }
            Self::Refused(DefineError::Unlisted { root }) => {
                to.u8(6);
                to.path(root);
            }
        }
        to.into_bytes()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let mut from = WireReader::new(bytes);
        Ok(Self::Refused(match from.u8()? {
            0 => return Ok(Self::Defined(from.u32()?)),
            1 => DefineError::Superuser { root: from.path()? },
            2 => DefineError::Identity { root: from.path()?, uid: from.u32()? },
            3 => DefineError::Path { path: from.path()?, fault: read_fault(&mut from)? },
            5 => DefineError::Unreadable(String::from_utf8_lossy(from.bytes()?).into_owned()),
            6 => DefineError::Unlisted { root: from.path()? },
            _ => return Err(MalformedMessage),
        }))
    }
}
