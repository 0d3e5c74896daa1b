//! What coordinator and agents say to each other: a line of JSON for each message.
//!
//! Both sides must be of one version: plans are told in full, and what one side does not know must not be passed over.
//! Tested here and in `tests/agents`.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::measure::Tally;
use crate::run::{Outcome, Phase};

/// Changes with every change of what follows.
pub(super) const VERSION: u32 = 4;
/// Longest line. A plan with a million recorded arrivals has some 40 MB.
const LINE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What a coordinator says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// First of all: its version.
    Hello { version: u32 },
    /// What to do; it is not begun yet.
    Job(Box<Job>),
    /// To be answered at once, with the same number.
    Ping(u64),
    /// Begin the job so much later than this arrives.
    Start { after: Duration },
    /// End the run.
    Stop,
}

/// What an agent says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// Its version, and on how many cores it runs.
    Hello { version: u32, cores: usize },
    /// The job can be begun.
    Ready,
    /// The job, or something else, cannot be done.
    Refused(String),
    /// To a ping.
    Pong(u64),
    /// What was counted in an interval.
    Counted(Box<Counted>),
    /// The run has ended; what was counted has been told before.
    Done(Box<Outcome>),
}

/// What one agent counted in one interval.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Counted {
    /// From the start of the run to the beginning of the interval.
    pub(super) begins: Duration,
    /// How long it lasted.
    pub(super) lasts: Duration,
    pub(super) phase: Phase,
    /// Users there at its end.
    pub(super) users: usize,
    pub(super) tally: Tally,
}

/// Sends a message.
pub(super) fn write(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    stream.flush()
}

/// Receives a message; nothing when the other side has closed.
pub(super) fn read<T: DeserializeOwned>(stream: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let count = io::Read::take(&mut *stream, LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if count == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a message was cut"));
    }
    let message = serde_json::from_slice(&line).map(Some);
    message.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::SimplePlan;

    #[test]
    fn what_is_said_is_understood() {
        let mut plan = SimplePlan::new("https://a:1/x".parse().unwrap());
        plan.ground.phases.ramp_up = Duration::from_millis(1500);
        let job = Job::Simple(Box::new(plan));
        let mut line = Vec::new();
        write(&mut line, &Order::Job(Box::new(job.clone()))).unwrap();
        write(&mut line, &Order::Stop).unwrap();
        let mut read_from = &line[..];
        let Some(Order::Job(read_job)) = read(&mut read_from).unwrap() else { panic!("a job") };
        assert_eq!(format!("{read_job:?}"), format!("{job:?}"));
        assert!(matches!(read(&mut read_from).unwrap(), Some(Order::Stop)));
        assert!(read::<Order>(&mut read_from).unwrap().is_none());
        assert!(read::<Order>(&mut &b"\"stop\""[..]).is_err(), "cut");
        assert!(read::<Order>(&mut &b"\"other\"\n"[..]).is_err());
    }
}
