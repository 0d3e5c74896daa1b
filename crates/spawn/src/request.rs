//! A request for a program. The server builds the request directly in the bytes of its message, and
//! the spawner reads the message.
//!
//! Strings end with a zero byte, as the kernel requires, so the spawner passes the strings on in
//! place. The byte before a string says its kind. Tested below.

use crate::{
    profile::ProfileId,
    wire::{MalformedMessage, WireReader},
};
use std::{
    ffi::{CStr, OsStr},
    os::unix::ffi::OsStrExt,
    path::Path,
    time::Duration,
};

/// Bytes of a request, arguments and environment included. A message of this kind of socket must
/// fit the sender's buffer, by default 212,992 bytes with the kernel's own overhead
/// (`net.core.wmem_default`); and the longest single string that Linux passes to a program is
/// 131,072 bytes.
pub const REQUEST_BYTES_MAX: usize = 128 * 1024;

const REQUEST: u8 = 1;
const KILL: u8 = 2;
const LOOK: u8 = 3;
const GENERATION_AT: usize = 4;
const JOB_AT: usize = 8;
const LIMIT_AT: usize = 16;
const HEAD_BYTES: usize = 32;

/// The server wants a descriptor with the news that the program runs. By default the news has none.
const TOLD_WITH_DESCRIPTOR: u8 = 1;
/// The server wants no news that the program runs.
const UNTOLD: u8 = 2;

const PROGRAM: u8 = b'P';
const FOLDER: u8 = b'D';
const ARGUMENT: u8 = b'A';
const VARIABLE: u8 = b'E';

/// Which program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program<'a> {
    /// Below the profile's root.
    Below(&'a Path),
    /// Of the profile's list, by position.
    Listed(u32),
}

/// Which folder a program runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory<'a> {
    /// The program's own folder, as CGI requires.
    OfProgram,
    /// The profile's root.
    Root,
    /// Below the profile's root.
    Below(&'a Path),
}

/// A request for a program. The environment has only the variables that are added here.
#[derive(Clone, Debug)]
pub struct ProgramRequest {
    bytes: Vec<u8>,
    /// The first part that the kernel cannot represent.
    invalid: Option<&'static str>,
}

impl ProgramRequest {
    /// For `program` within `profile`, run in its own folder, without a time limit.
    pub fn new(profile: ProfileId, program: Program<'_>) -> Self {
        let mut bytes = Vec::with_capacity(1024);
        bytes.resize(HEAD_BYTES, 0);
        bytes[0] = REQUEST;
        bytes[24..28].copy_from_slice(&profile.0.to_ne_bytes());
        let mut request = Self { bytes, invalid: None };
        match program {
            Program::Below(path) => {
                request.string(PROGRAM, "the program's name", &[path.as_os_str().as_bytes()]);
            }
            Program::Listed(position) => {
                request.bytes[2] = 1;
                request.bytes[28..32].copy_from_slice(&position.to_ne_bytes());
            }
        }
        request
    }

    /// Runs the program in another folder than its own.
    pub fn directory(&mut self, directory: Directory<'_>) -> &mut Self {
        match directory {
            Directory::OfProgram => self.bytes[3] = 0,
            Directory::Root => self.bytes[3] = 1,
            Directory::Below(path) => {
                self.bytes[3] = 2;
                self.string(FOLDER, "the folder's name", &[path.as_os_str().as_bytes()]);
            }
        }
        self
    }

    /// Kills the program and its process group after this time; rounded up to milliseconds.
    pub fn time_limit(&mut self, limit: Duration) -> &mut Self {
        let ms = u64::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1);
        self.bytes[LIMIT_AT..LIMIT_AT + 8].copy_from_slice(&ms.to_ne_bytes());
        self
    }

    /// Asks for a descriptor of the process, for waiting on the end of the process
    /// (`pidfd_open(2)`).
    pub fn with_descriptor(&mut self) -> &mut Self {
        self.bytes[1] = TOLD_WITH_DESCRIPTOR;
        self
    }

    /// Suppresses the news that the program runs. The next news is the program's end, or the reason
    /// why the program was not started. This saves a wake-up.
    pub fn untold(&mut self) -> &mut Self {
        self.bytes[1] = UNTOLD;
        self
    }

    /// Adds an argument after the program's own name.
    pub fn argument(&mut self, argument: &[u8]) -> &mut Self {
        self.string(ARGUMENT, "an argument", &[argument])
    }

    /// Adds a variable to the environment.
    pub fn variable(&mut self, name: &[u8], value: &[u8]) -> &mut Self {
        if name.is_empty() || name.contains(&b'=') {
            self.invalid.get_or_insert("a variable");
        }
        self.string(VARIABLE, "a variable", &[name, b"=", value])
    }

    fn string(&mut self, kind: u8, what: &'static str, parts: &[&[u8]]) -> &mut Self {
        self.bytes.push(kind);
        for part in parts {
            if part.contains(&0) {
                self.invalid.get_or_insert(what);
            }
            self.bytes.extend_from_slice(part);
        }
        self.bytes.push(0);
        self
    }

    /// The part that the kernel cannot represent, if there is such a part.
    pub(crate) fn invalid(&self) -> Option<&'static str> {
        self.invalid
    }

    /// The message, still without an address.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Writes the address into a message: the job, and the generation of the spawner.
pub(crate) fn address(message: &mut [u8], generation: u32, job: u64) {
    message[GENERATION_AT..GENERATION_AT + 4].copy_from_slice(&generation.to_ne_bytes());
    message[JOB_AT..JOB_AT + 8].copy_from_slice(&job.to_ne_bytes());
}

/// The message that sends `signal` to a job's process group, still without an address.
pub(crate) fn kill_message(signal: u8) -> Vec<u8> {
    let mut message = vec![0; JOB_AT + 8];
    message[0] = KILL;
    message[1] = signal;
    message
}

/// The message that asks whether a job's program runs, still without an address.
pub(crate) fn look_message() -> Vec<u8> {
    let mut message = vec![0; JOB_AT + 8];
    message[0] = LOOK;
    message
}

/// A message as the spawner reads it.
#[derive(Debug)]
pub(crate) struct SpawnMessage<'a> {
    pub(crate) generation: u32,
    pub(crate) job: u64,
    pub(crate) content: SpawnContent<'a>,
}

#[derive(Debug)]
pub(crate) enum SpawnContent<'a> {
    Start(ReceivedRequest<'a>),
    Kill { signal: i32 },
    Look,
}

/// The news that a server wants when its program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunNews {
    Start,
    StartWithDescriptor,
    Nothing,
}

/// A request as the spawner reads it.
#[derive(Debug)]
pub(crate) struct ReceivedRequest<'a> {
    pub(crate) profile: u32,
    pub(crate) program: Program<'a>,
    pub(crate) directory: Directory<'a>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) told: RunNews,
    strings: &'a [u8],
}

impl<'a> SpawnMessage<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, MalformedMessage> {
        let mut from = WireReader::new(bytes);
        let (kind, option, program, directory) = (from.u8()?, from.u8()?, from.u8()?, from.u8()?);
        let (generation, job) = (from.u32()?, from.u64()?);
        let content = match kind {
            REQUEST => SpawnContent::Start(ReceivedRequest::read(from, option, program, directory)?),
            KILL => SpawnContent::Kill { signal: option.into() },
            LOOK => SpawnContent::Look,
            _ => return Err(MalformedMessage),
        };
        Ok(Self { generation, job, content })
    }
}

impl<'a> ReceivedRequest<'a> {
    fn read(
        mut from: WireReader<'a>,
        told: u8,
        program: u8,
        directory: u8,
    ) -> Result<Self, MalformedMessage> {
        let (limit_ms, profile, listed) = (from.u64()?, from.u32()?, from.u32()?);
        let strings = from.rest();
        if strings.last().is_some_and(|last| *last != 0) {
            return Err(MalformedMessage);
        }
        let first = |wanted| {
            let found = each(strings).find(|(kind, _)| *kind == wanted);
            found.map(|(_, string)| Path::new(OsStr::from_bytes(string.to_bytes()))).ok_or(MalformedMessage)
        };
        Ok(Self {
            profile,
            program: match program {
                0 => Program::Below(first(PROGRAM)?),
                _ => Program::Listed(listed),
            },
            directory: match directory {
                0 => Directory::OfProgram,
                1 => Directory::Root,
                _ => Directory::Below(first(FOLDER)?),
            },
            time_limit: (limit_ms > 0).then(|| Duration::from_millis(limit_ms)),
            told: match told {
                TOLD_WITH_DESCRIPTOR => RunNews::StartWithDescriptor,
                UNTOLD => RunNews::Nothing,
                _ => RunNews::Start,
            },
            strings,
        })
    }

    /// Arguments and variables, among others: see [`arguments`] and [`variables`].
    pub(crate) fn strings(&self) -> &'a [u8] {
        self.strings
    }
}

/// The program's arguments, without the program's own name.
pub(crate) fn arguments(strings: &[u8]) -> impl Iterator<Item = &CStr> {
    of_kind(strings, ARGUMENT)
}

/// The program's environment.
pub(crate) fn variables(strings: &[u8]) -> impl Iterator<Item = &CStr> {
    of_kind(strings, VARIABLE)
}

fn of_kind(strings: &[u8], wanted: u8) -> impl Iterator<Item = &CStr> {
    each(strings).filter(move |(kind, _)| *kind == wanted).map(|(_, string)| string)
}

/// The strings with their kinds. An empty string, which has no kind byte, is skipped.
fn each(strings: &[u8]) -> impl Iterator<Item = (u8, &CStr)> {
    strings.split_inclusive(|byte| *byte == 0).filter_map(|string| {
        let (kind, rest) = string.split_first()?;
        Some((*kind, CStr::from_bytes_with_nul(rest).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(request: ProgramRequest) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let bytes = request.into_bytes();
        let SpawnContent::Start(order) = SpawnMessage::read(&bytes).expect("our own").content else {
            panic!("not a request");
        };
        let owned = |string: &CStr| string.to_bytes().to_vec();
        (arguments(order.strings).map(owned).collect(), variables(order.strings).map(owned).collect())
    }

    proptest! {
        #[test]
        fn strings_arrive(
            arguments in prop::collection::vec("[^\0]{0,20}", 0..5),
            variables in prop::collection::vec(("[A-Z]{1,9}", "[^\0]{0,20}"), 0..5),
        ) {
            let mut request = ProgramRequest::new(ProfileId(3), Program::Below(Path::new("a/b")));
            for argument in &arguments {
                request.argument(argument.as_bytes());
            }
            for (name, value) in &variables {
                request.variable(name.as_bytes(), value.as_bytes());
            }
            prop_assert_eq!(request.invalid(), None);
            let (read_arguments, read_variables) = read(request);
            prop_assert_eq!(read_arguments, arguments.iter().map(|s| s.as_bytes().to_vec()).collect::<Vec<_>>());
            let joined = variables.iter().map(|(name, value)| format!("{name}={value}").into_bytes());
            prop_assert_eq!(read_variables, joined.collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(SpawnMessage { content: SpawnContent::Start(order), .. }) = SpawnMessage::read(&bytes) {
                let _ = arguments(order.strings).count() + variables(order.strings).count();
            }
        }
    }

    #[test]
    fn remaining_fields_arrive() {
        let mut request = ProgramRequest::new(ProfileId(7), Program::Listed(2));
        request.directory(Directory::Below(Path::new("x/y"))).with_descriptor();
        request.time_limit(Duration::from_micros(1500));
        let mut bytes = request.into_bytes();
        address(&mut bytes, 5, 1 << 40);
        let message = SpawnMessage::read(&bytes).expect("our own");
        assert_eq!((message.generation, message.job), (5, 1 << 40));
        let SpawnContent::Start(order) = message.content else { panic!("not a request") };
        assert_eq!((order.profile, order.program), (7, Program::Listed(2)));
        assert_eq!(order.directory, Directory::Below(Path::new("x/y")));
        assert_eq!(order.time_limit, Some(Duration::from_millis(2)));
        assert_eq!(order.told, RunNews::StartWithDescriptor);
    }

    #[test]
    fn unusable_request_is_refused_before_sending() {
        let request = || ProgramRequest::new(ProfileId(0), Program::Below(Path::new("x")));
        assert_eq!(request().argument(b"a\0b").invalid(), Some("an argument"));
        assert_eq!(request().variable(b"A=B", b"").invalid(), Some("a variable"));
        assert_eq!(request().variable(b"", b"x").invalid(), Some("a variable"));
        assert_eq!(request().variable(b"A", b"=").invalid(), None);
    }

    #[test]
    fn a_request_without_its_program_is_none() {
        let mut bytes = ProgramRequest::new(ProfileId(0), Program::Listed(0)).into_bytes();
        bytes[2] = 0;
        assert!(SpawnMessage::read(&bytes).is_err());
        bytes.extend_from_slice(b"Px");
        assert!(SpawnMessage::read(&bytes).is_err(), "not ended by a zero");
        bytes.push(0);
        assert!(SpawnMessage::read(&bytes).is_ok());
    }
}
