//! The coordinator's side: connected agents, division of a job, common start, lost agents.
//!
//! Agents need no common clock. Each agent is told the delay from the message to the start, reduced
//! by half of the agent's shortest round trip. Tested in `tests/agents`.

use std::collections::VecDeque;
use std::io::{self, BufReader};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::merge::AgentSum;
use super::wire::{self, AgentReply, CoordinatorOrder, VERSION};
use crate::error::LoadError;
use crate::job::LoadJob;
use crate::run::{Outcome, RunObserver, RunProgress};

/// Time from the start order to the start, in which agents start their cores, which takes some 10
/// ms.
const LEAD: Duration = Duration::from_millis(500);
/// An agent that sends nothing for this time is lost. An agent sends a message every half second.
const SILENCE: Duration = Duration::from_secs(10);
/// An agent that is not ready after this time is lost. To get ready, an agent resolves a name and
/// makes a handshake.
const PREPARATION: Duration = Duration::from_secs(30);
/// Number of measured round trips; the shortest counts.
const PINGS: u64 = 5;
/// Longest wait for a connection to an address before the next address is tried, or the name is
/// resolved again, because the address may be stale. TCP resends the first packet after 1 s and
/// after 3 s.
const ATTEMPT: Duration = Duration::from_secs(4);
/// Time between attempts to reach an agent.
const RETRY: Duration = Duration::from_millis(200);

/// Agents that are connected to this coordinator.
#[derive(Debug)]
pub struct Fleet {
    agents: Vec<FleetAgent>,
    replies: Receiver<(usize, FleetMessage)>,
}

/// A message from an agent, or the reason for the end of the connection.
type FleetMessage = Result<AgentReply, String>;

#[derive(Debug)]
struct FleetAgent {
    name: String,
    stream: TcpStream,
    heard: Instant,
    /// Messages that arrived while the coordinator waited for another agent.
    inbox: VecDeque<AgentReply>,
    /// Why the agent is lost.
    lost: Option<String>,
}

impl FleetAgent {
    fn tell(&mut self, order: &CoordinatorOrder) {
        if let Err(error) = wire::write(&mut self.stream, order) {
            self.lose(&error.to_string());
        }
    }

    fn lose(&mut self, why: &str) {
        self.lost.get_or_insert_with(|| why.to_owned());
    }

    /// The agent's name and the reason for its loss.
    fn loss(&self) -> Option<String> {
        Some(format!("{}: {}", self.name, self.lost.as_ref()?))
    }

    fn wrong(&self, why: String) -> LoadError {
        LoadError::Agent { agent: self.name.clone(), why }
    }
}

impl Fleet {
    /// Connects to agents (`NAME:PORT`), and waits up to `patience` for each agent to start.
    ///
    /// # Errors
    /// A target cannot be reached, is not an agent, has another version, has no port, or is named
    /// twice.
    pub fn connect(names: &[String], patience: Duration) -> Result<Self, LoadError> {
        check_names(names)?;
        let deadline = Instant::now() + patience;
        let (sender, replies) = mpsc::channel();
        let mut fleet = Self { agents: Vec::new(), replies };
        for (place, name) in names.iter().enumerate() {
            let wrong = |why: String| LoadError::Agent { agent: name.clone(), why };
            let reach = || -> io::Result<TcpStream> {
                let stream = reach(name, deadline)?;
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(SILENCE))?;
                listen(stream.try_clone()?, place, sender.clone());
                Ok(stream)
            };
            let stream = reach().map_err(|error| {
                wrong(format!("{error}; start one there with `vermeil load agent --listen ADDR:PORT`"))
            })?;
            let (heard, inbox) = (Instant::now(), VecDeque::new());
            fleet.agents.push(FleetAgent { name: name.clone(), stream, heard, inbox, lost: None });
            fleet.agents[place].tell(&CoordinatorOrder::Hello { version: VERSION });
            match fleet.expect(place, SILENCE)? {
                AgentReply::Hello { .. } => {}
                other => return Err(wrong(format!("it said {other:?} in place of its version"))),
            }
        }
        Ok(fleet)
    }

    /// Runs a part of `job` on each agent; `watch` may end the run early.
    ///
    /// # Errors
    /// The run cannot begin: an agent refuses the job, or no agent is left.
    pub fn run(&mut self, job: &LoadJob, watch: &mut dyn RunObserver) -> Result<Outcome, LoadError> {
        let chosen = self.chosen(job.users())?;
        for (index, &place) in chosen.iter().enumerate() {
            self.agents[place].tell(&CoordinatorOrder::Job(Box::new(job.part(index, chosen.len()))));
        }
        for &place in &chosen {
            match self.expect(place, PREPARATION)? {
                AgentReply::Ready => {}
                other => return Err(self.unexpected(place, &other)),
            }
        }
        self.start(&chosen)?;
        let sum = self.follow(job, &chosen, watch)?;
        let lost = self.agents.iter().filter_map(FleetAgent::loss).collect();
        let mut outcome = sum.finish(job.common().phases.window, job.users(), lost);
        outcome.agents = chosen.iter().map(|&place| self.agents[place].name.clone()).collect();
        Ok(outcome)
    }

    /// The agents of a run: the remaining agents, at most one for each user.
    fn chosen(&self, users: usize) -> Result<Vec<usize>, LoadError> {
        let left = (0..self.agents.len()).filter(|&place| self.agents[place].lost.is_none());
        let chosen: Vec<_> = left.take(users).collect();
        let lost = self.agents.iter().find_map(|agent| Some((agent, agent.lost.as_ref()?)));
        match lost {
            Some((agent, why)) if chosen.is_empty() => Err(agent.wrong(format!("{why}; no agent is left"))),
            _ => Ok(chosen),
        }
    }

    /// Sends the start order to all, for a common moment of this machine's clock.
    fn start(&mut self, chosen: &[usize]) -> Result<(), LoadError> {
        let mut ways = Vec::new();
        for &place in chosen {
            let mut shortest = Duration::MAX;
            for number in 0..PINGS {
                let sent = Instant::now();
                self.agents[place].tell(&CoordinatorOrder::Ping(number));
                match self.expect(place, SILENCE)? {
                    AgentReply::Pong(_) => shortest = shortest.min(sent.elapsed()),
                    other => return Err(self.unexpected(place, &other)),
                }
            }
            ways.push(shortest / 2);
        }
        let begins = Instant::now() + LEAD + ways.iter().copied().max().unwrap_or_default();
        for (&place, &way) in chosen.iter().zip(&ways) {
            let after = begins.saturating_duration_since(Instant::now()).saturating_sub(way);
            self.agents[place].tell(&CoordinatorOrder::Start { after });
            self.agents[place].heard = Instant::now();
        }
        Ok(())
    }

    /// Merges the counts of the agents until all have ended or are lost.
    fn follow(
        &mut self,
        job: &LoadJob,
        chosen: &[usize],
        watch: &mut dyn RunObserver,
    ) -> Result<AgentSum, LoadError> {
        let phases = job.common().phases;
        let (mut sum, mut is_stopping) = (AgentSum::new(self.agents.len()), false);
        loop {
            let running = |fleet: &Self, sum: &AgentSum| -> Vec<usize> {
                let runs = |place: &usize| fleet.agents[*place].lost.is_none() && !sum.has_ended(*place);
                chosen.iter().copied().filter(runs).collect()
            };
            let now_running = running(self, &sum);
            while let Some(tally) = sum.next(now_running.iter().copied()) {
                let interval = sum.intervals.last().expect("just added");
                let elapsed = interval.begins + interval.lasts;
                let (planned, total) = (phases.total(), &sum.total);
                let progress = RunProgress { elapsed, planned, interval, counted: &tally, total };
                if watch.see(progress).is_break() && !is_stopping {
                    is_stopping = true;
                    now_running.iter().for_each(|&place| self.agents[place].tell(&CoordinatorOrder::Stop));
                }
            }
            if now_running.is_empty() {
                return Ok(sum);
            }
            self.hear(&mut sum, &now_running)?;
        }
    }

    /// Waits for a message, and marks silent agents as lost.
    fn hear(&mut self, sum: &mut AgentSum, running: &[usize]) -> Result<(), LoadError> {
        match self.replies.recv_timeout(RETRY) {
            Ok((place, said)) => {
                self.agents[place].heard = Instant::now();
                match said {
                    Ok(AgentReply::Counted(counted)) => sum.add(place, &counted),
                    Ok(AgentReply::Done(outcome)) => sum.end(place, *outcome),
                    Ok(other) => return Err(self.unexpected(place, &other)),
                    Err(why) => self.agents[place].lose(&why),
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        for &place in running {
            if self.agents[place].heard.elapsed() > LEAD + SILENCE {
                self.agents[place].lose(&format!("it has said nothing for {SILENCE:?}"));
            }
        }
        Ok(())
    }

    /// Waits for the next message of the agent at `place`; messages of other agents go to their
    /// inboxes.
    fn expect(&mut self, place: usize, patience: Duration) -> Result<AgentReply, LoadError> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(reply) = self.agents[place].inbox.pop_front() {
                return Ok(reply);
            }
            if let Some(lost) = &self.agents[place].lost {
                return Err(self.agents[place].wrong(lost.clone()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.replies.recv_timeout(left) {
                Ok((from, Ok(reply))) => self.agents[from].inbox.push_back(reply),
                Ok((from, Err(why))) => self.agents[from].lose(&why),
                Err(_) => self.agents[place].lose(&format!("it has said nothing for {patience:?}")),
            }
        }
    }

    fn unexpected(&self, place: usize, reply: &AgentReply) -> LoadError {
        let why = match reply {
            AgentReply::Refused(why) => why.clone(),
            other => format!("it said {other:?} out of turn"),
        };
        self.agents[place].wrong(why)
    }
}

/// Rejects malformed names and duplicates, because an agent runs a single part of a load.
fn check_names(names: &[String]) -> Result<(), LoadError> {
    for (index, name) in names.iter().enumerate() {
        let wrong = |why: &str| Err(LoadError::Plan(format!("--agents {name}: {why}")));
        let has_port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
        if !name.rsplit_once(':').is_some_and(has_port) {
            return wrong("write NAME:PORT, such as load1:8088");
        }
        if names[..index].contains(name) {
            return wrong("it is named twice; write each agent once");
        }
    }
    Ok(())
}

/// Connects to `name`, repeatedly until `deadline`, because the agent or its name may just be
/// starting.
fn reach(name: &str, deadline: Instant) -> io::Result<TcpStream> {
    loop {
        let attempt = || -> io::Result<TcpStream> {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for addr in name.to_socket_addrs()? {
                let left = deadline.saturating_duration_since(Instant::now());
                match TcpStream::connect_timeout(&addr, left.clamp(RETRY, ATTEMPT)) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        match attempt() {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() >= deadline || error.kind() == io::ErrorKind::InvalidInput => {
                return Err(error);
            }
            Err(_) => thread::sleep(RETRY),
        }
    }
}

/// Reads the messages of an agent on a separate thread, which ends with the connection.
fn listen(stream: TcpStream, place: usize, sender: Sender<(usize, FleetMessage)>) {
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        loop {
            let said = match wire::read(&mut stream) {
                Ok(Some(reply)) => Ok(reply),
                Ok(None) => Err("it closed the connection".to_owned()),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    Err(format!("the program at this address is no agent of this release: {error}"))
                }
                Err(error) => Err(error.to_string()),
            };
            let is_last = said.is_err();
            if sender.send((place, said)).is_err() || is_last {
                return;
            }
        }
    });
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for agent in &self.agents {
            // The reader's cloned handle would keep the connection open.
            let _gone = agent.stream.shutdown(std::net::Shutdown::Both);
        }
    }
}
