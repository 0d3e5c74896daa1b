//! Messages of the spawner to the server, as values and as bytes.
//!
//! Tested below: every value arrives as sent, and no other bytes are accepted.

use crate::{
    check::ProgramRefusal,
    error::{StartFault, StartStep},
    wire::{MalformedMessage, WireReader, WireWriter},
};
use rustix::io::Errno;
use std::{io, path::PathBuf, time::Duration};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// The program returned this code.
    Code(i32),
    /// This signal ended the program.
    Signal(i32),
    /// The time limit was over, and the spawner killed the program.
    Late,
}

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramExit {
    /// How the program ended.
    pub end: ProgramEnd,
    /// The resources that the program used.
    pub usage: ProgramUsage,
}

/// Resources used by a program and by the children that the program waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramUsage {
    /// Processor time in user space.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// The peak memory, in bytes.
    pub memory_bytes_max: u64,
}

/// A message of the spawner.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A spawner takes requests; the first message of a channel, and sent again after each restart.
    Hello { generation: u32 },
    /// The program runs.
    Started { job: u64, pid: u32 },
    /// The program was not started.
    Failed { job: u64, path: PathBuf, fault: StartFault },
    /// The program ran and has ended.
    Exited { job: u64, exit: ProgramExit },
}

impl Reply {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut to = WireWriter::default();
        match self {
            Self::Hello { generation } => {
                to.u8(0);
                to.u32(*generation);
            }
            Self::Started { job, pid } => {
                to.u8(1);
                to.u64(*job);
                to.u32(*pid);
            }
            Self::Failed { job, path, fault } => {
                to.u8(2);
                to.u64(*job);
                to.path(path);
                write_fault(&mut to, fault);
            }
            Self::Exited { job, exit } => {
                to.u8(3);
                to.u64(*job);
                exit.write(&mut to);
            }
        }
        to.into_bytes()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let mut from = WireReader::new(bytes);
        match from.u8()? {
            0 => Ok(Self::Hello { generation: from.u32()? }),
            1 => Ok(Self::Started { job: from.u64()?, pid: from.u32()? }),
            2 => Ok(Self::Failed { job: from.u64()?, path: from.path()?, fault: read_fault(&mut from)? }),
            3 => Ok(Self::Exited { job: from.u64()?, exit: ProgramExit::read(&mut from)? }),
            _ => Err(MalformedMessage),
        }
    }
}

impl ProgramExit {
    fn write(&self, to: &mut WireWriter) {
        let (kind, value) = match self.end {
            ProgramEnd::Code(code) => (0, code),
            ProgramEnd::Signal(signal) => (1, signal),
            ProgramEnd::Late => (2, 0),
        };
        to.u8(kind);
        to.u32(value.cast_unsigned());
        to.u64(self.usage.user.as_micros() as u64);
        to.u64(self.usage.system.as_micros() as u64);
        to.u64(self.usage.memory_bytes_max);
    }

    fn read(from: &mut WireReader<'_>) -> Result<Self, MalformedMessage> {
        let (kind, value) = (from.u8()?, from.u32()?.cast_signed());
        let end = match kind {
            0 => ProgramEnd::Code(value),
            1 => ProgramEnd::Signal(value),
            2 => ProgramEnd::Late,
            _ => return Err(MalformedMessage),
        };
        let usage = ProgramUsage {
            user: Duration::from_micros(from.u64()?),
            system: Duration::from_micros(from.u64()?),
            memory_bytes_max: from.u64()?,
        };
        Ok(Self { end, usage })
    }
}

pub(crate) fn write_fault(to: &mut WireWriter, fault: &StartFault) {
    let (code, value, runs_as) = match fault {
        StartFault::Step { step, source } => (*step as u8, source.raw_os_error().unwrap_or(libc::EIO), 0),
        StartFault::Refused(refusal) => match *refusal {
            ProgramRefusal::Outside => (101, 0, 0),
            ProgramRefusal::Link => (102, 0, 0),
            ProgramRefusal::NotFolder => (103, 0, 0),
            ProgramRefusal::NotFile => (104, 0, 0),
            ProgramRefusal::Writable { mode } => (105, mode.cast_signed(), 0),
            ProgramRefusal::SetId { mode } => (106, mode.cast_signed(), 0),
            ProgramRefusal::Owner { owner, runs_as } => (107, owner.cast_signed(), runs_as),
        },
    };
    to.u8(code);
    to.u32(value.cast_unsigned());
    to.u32(runs_as);
}

pub(crate) fn read_fault(from: &mut WireReader<'_>) -> Result<StartFault, MalformedMessage> {
    let (code, value, runs_as) = (from.u8()?, from.u32()?, from.u32()?);
    Ok(StartFault::Refused(match code {
        101 => ProgramRefusal::Outside,
        102 => ProgramRefusal::Link,
        103 => ProgramRefusal::NotFolder,
        104 => ProgramRefusal::NotFile,
        105 => ProgramRefusal::Writable { mode: value },
        106 => ProgramRefusal::SetId { mode: value },
        107 => ProgramRefusal::Owner { owner: value, runs_as },
        _ => {
            let step = StartStep::from_code(code).ok_or(MalformedMessage)?;
            return Ok(StartFault::Step { step, source: io::Error::from_raw_os_error(value.cast_signed()) });
        }
    }))
}

/// A fault of the given step.
pub(crate) fn at(step: StartStep) -> impl FnOnce(Errno) -> StartFault {
    move |errno| StartFault::Step { step, source: errno.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies() -> Vec<Reply> {
        let usage = ProgramUsage {
            user: Duration::from_micros(1),
            system: Duration::from_micros(u64::from(u32::MAX) + 7),
            memory_bytes_max: 1 << 33,
        };
        let ends = [ProgramEnd::Code(0), ProgramEnd::Code(255), ProgramEnd::Signal(9), ProgramEnd::Late];
        let refusals = [
            ProgramRefusal::Outside,
            ProgramRefusal::Link,
            ProgramRefusal::NotFolder,
            ProgramRefusal::NotFile,
            ProgramRefusal::Writable { mode: 0o777 },
            ProgramRefusal::SetId { mode: 0o4755 },
            ProgramRefusal::Owner { owner: 1, runs_as: u32::MAX },
        ];
        let steps = (0..=u8::MAX).filter_map(StartStep::from_code);
        let faults = refusals.map(StartFault::Refused).into_iter();
        let faults = faults.chain(steps.map(|step| at(step)(Errno::NOENT)));
        let failed = |(job, fault)| Reply::Failed { job: job as u64, path: "/a/b".into(), fault };
        [Reply::Hello { generation: 3 }, Reply::Started { job: u64::MAX, pid: 4 }]
            .into_iter()
            .chain(ends.map(|end| Reply::Exited { job: 9, exit: ProgramExit { end, usage } }))
            .chain(faults.enumerate().map(failed))
            .collect()
    }

    #[test]
    fn encoded_reply_decodes_unchanged() {
        for reply in replies() {
            let bytes = reply.to_bytes();
            let read = Reply::from_bytes(&bytes).expect("our own");
            assert_eq!(format!("{read:?}"), format!("{reply:?}"));
            for cut in 0..bytes.len() {
                assert!(Reply::from_bytes(&bytes[..cut]).is_err(), "{reply:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn every_step_has_text_and_own_code() {
        let steps: Vec<_> = (0..=u8::MAX).filter_map(StartStep::from_code).collect();
        assert_eq!(steps.len(), 18);
        for step in steps {
            assert!(at(step)(Errno::NOENT).to_string().contains("No such file"), "{step:?}");
        }
    }
}
