//! Messages of the spawner to the server, as values and as bytes.
//!
//! Tested below: every value arrives as sent, and no other bytes are accepted.

use crate::{
    check::Refusal,
    error::{Fault, Step},
    wire::{Malformed, Reader, Writer},
};
use rustix::io::Errno;
use std::{io, path::PathBuf, time::Duration};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The program returned this code.
    Code(i32),
    /// This signal ended the program.
    Signal(i32),
    /// The time limit was over, and the spawner killed the program.
    Late,
}

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// How the program ended.
    pub end: End,
    /// The resources that the program used.
    pub usage: Usage,
}

/// Resources used by a program and by the children that the program waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
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
    Failed { job: u64, path: PathBuf, fault: Fault },
    /// The program ran and has ended.
    Exited { job: u64, exit: Exit },
}

impl Reply {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer::default();
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

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(bytes);
        match from.u8()? {
            0 => Ok(Self::Hello { generation: from.u32()? }),
            1 => Ok(Self::Started { job: from.u64()?, pid: from.u32()? }),
            2 => Ok(Self::Failed { job: from.u64()?, path: from.path()?, fault: read_fault(&mut from)? }),
            3 => Ok(Self::Exited { job: from.u64()?, exit: Exit::read(&mut from)? }),
            _ => Err(Malformed),
        }
    }
}

impl Exit {
    fn write(&self, to: &mut Writer) {
        let (kind, value) = match self.end {
            End::Code(code) => (0, code),
            End::Signal(signal) => (1, signal),
            End::Late => (2, 0),
        };
        to.u8(kind);
        to.u32(value.cast_unsigned());
        to.u64(self.usage.user.as_micros() as u64);
        to.u64(self.usage.system.as_micros() as u64);
        to.u64(self.usage.memory_bytes_max);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (kind, value) = (from.u8()?, from.u32()?.cast_signed());
        let end = match kind {
            0 => End::Code(value),
            1 => End::Signal(value),
            2 => End::Late,
            _ => return Err(Malformed),
        };
        let usage = Usage {
            user: Duration::from_micros(from.u64()?),
            system: Duration::from_micros(from.u64()?),
            memory_bytes_max: from.u64()?,
        };
        Ok(Self { end, usage })
    }
}

pub(crate) fn write_fault(to: &mut Writer, fault: &Fault) {
    let (code, value, runs_as) = match fault {
        Fault::Step { step, source } => (*step as u8, source.raw_os_error().unwrap_or(libc::EIO), 0),
        Fault::Refused(refusal) => match *refusal {
            Refusal::Outside => (101, 0, 0),
            Refusal::Link => (102, 0, 0),
            Refusal::NotFolder => (103, 0, 0),
            Refusal::NotFile => (104, 0, 0),
            Refusal::Writable { mode } => (105, mode.cast_signed(), 0),
            Refusal::SetId { mode } => (106, mode.cast_signed(), 0),
            Refusal::Owner { owner, runs_as } => (107, owner.cast_signed(), runs_as),
        },
    };
    to.u8(code);
    to.u32(value.cast_unsigned());
    to.u32(runs_as);
}

pub(crate) fn read_fault(from: &mut Reader<'_>) -> Result<Fault, Malformed> {
    let (code, value, runs_as) = (from.u8()?, from.u32()?, from.u32()?);
    Ok(Fault::Refused(match code {
        101 => Refusal::Outside,
        102 => Refusal::Link,
        103 => Refusal::NotFolder,
        104 => Refusal::NotFile,
        105 => Refusal::Writable { mode: value },
        106 => Refusal::SetId { mode: value },
        107 => Refusal::Owner { owner: value, runs_as },
        _ => {
            let step = Step::from_code(code).ok_or(Malformed)?;
            return Ok(Fault::Step { step, source: io::Error::from_raw_os_error(value.cast_signed()) });
        }
    }))
}

/// A fault of the given step.
pub(crate) fn at(step: Step) -> impl FnOnce(Errno) -> Fault {
    move |errno| Fault::Step { step, source: errno.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies() -> Vec<Reply> {
        let usage = Usage {
            user: Duration::from_micros(1),
            system: Duration::from_micros(u64::from(u32::MAX) + 7),
            memory_bytes_max: 1 << 33,
        };
        let ends = [End::Code(0), End::Code(255), End::Signal(9), End::Late];
        let refusals = [
            Refusal::Outside,
            Refusal::Link,
            Refusal::NotFolder,
            Refusal::NotFile,
            Refusal::Writable { mode: 0o777 },
            Refusal::SetId { mode: 0o4755 },
            Refusal::Owner { owner: 1, runs_as: u32::MAX },
        ];
        let steps = (0..=u8::MAX).filter_map(Step::from_code);
        let faults = refusals.map(Fault::Refused).into_iter();
        let faults = faults.chain(steps.map(|step| at(step)(Errno::NOENT)));
        let failed = |(job, fault)| Reply::Failed { job: job as u64, path: "/a/b".into(), fault };
        [Reply::Hello { generation: 3 }, Reply::Started { job: u64::MAX, pid: 4 }]
            .into_iter()
            .chain(ends.map(|end| Reply::Exited { job: 9, exit: Exit { end, usage } }))
            .chain(faults.enumerate().map(failed))
            .collect()
    }

    #[test]
    fn what_is_said_is_understood() {
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
    fn every_step_says_what_it_did_and_has_a_code_of_its_own() {
        let steps: Vec<_> = (0..=u8::MAX).filter_map(Step::from_code).collect();
        assert_eq!(steps.len(), 18);
        for step in steps {
            assert!(at(step)(Errno::NOENT).to_string().contains("No such file"), "{step:?}");
        }
    }
}
