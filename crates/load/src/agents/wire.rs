//! Messages between coordinator and agents: a line of JSON each.
//!
//! Both sides must have the same version, because plans are sent in full and no side may ignore an
//! unknown field. Tested here and in `tests/agents`.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::job::LoadJob;
use crate::measure::Tally;
use crate::run::{Outcome, RunPhase};

/// Changes with every change of the messages below.
pub(super) const VERSION: u32 = 6;
/// Maximum length of a line. A plan with a million recorded arrivals has about 40 MB.
const LINE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A message of the coordinator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CoordinatorOrder {
    /// The first message: the coordinator's version.
    Hello { version: u32 },
    /// The job; the run does not begin yet.
    Job(Box<LoadJob>),
    /// The agent answers at once with the same number.
    Ping(u64),
    /// Begin the job this long after the arrival of the message.
    Start { after: Duration },
    /// End the run.
    Stop,
}

/// A message of an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AgentReply {
    /// The agent's version and number of cores.
    Hello { version: u32, cores: usize },
    /// The job can begin.
    Ready,
    /// The job or another order cannot be carried out.
    Refused(String),
    /// Answer to a ping.
    Pong(u64),
    /// The counts of an interval.
    Counted(Box<AgentCounts>),
    /// The run has ended; all intervals were sent before.
    Done(Box<Outcome>),
}

/// The counts of an agent in an interval.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AgentCounts {
    /// Time from the start of the run to the start of the interval.
    pub(super) begins: Duration,
    /// Length of the interval.
    pub(super) lasts: Duration,
    pub(super) phase: RunPhase,
    /// Number of users at the end of the interval.
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

/// Receives a message; `None` if the other side has closed the connection.
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
    fn encoded_message_decodes_unchanged() {
        let mut plan = SimplePlan::new("https://a:1/x".parse().unwrap());
        plan.common.phases.ramp_up = Duration::from_millis(1500);
        let job = LoadJob::Simple(Box::new(plan));
        let mut line = Vec::new();
        write(&mut line, &CoordinatorOrder::Job(Box::new(job.clone()))).unwrap();
        write(&mut line, &CoordinatorOrder::Stop).unwrap();
        let mut read_from = &line[..];
        let Some(CoordinatorOrder::Job(read_job)) = read(&mut read_from).unwrap() else { panic!("a job") };
        assert_eq!(format!("{read_job:?}"), format!("{job:?}"));
        assert!(matches!(read(&mut read_from).unwrap(), Some(CoordinatorOrder::Stop)));
        assert!(read::<CoordinatorOrder>(&mut read_from).unwrap().is_none());
        assert!(read::<CoordinatorOrder>(&mut &b"\"stop\""[..]).is_err(), "cut");
        assert!(read::<CoordinatorOrder>(&mut &b"\"other\"\n"[..]).is_err());
    }
}
