//! An agent: waits for a coordinator, runs its jobs, and reports counts.
//!
//! An agent serves one coordinator at a time. If the coordinator disconnects, or its machine is
//! gone, the run ends. Any client that reaches an agent can make the agent load any target, so an
//! agent must listen where only the coordinator has access. Tested in `tests/agents`.

use std::io::{self, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use vermeil::IoChoice;

use super::wire::{self, AgentCounts, AgentReply, CoordinatorOrder, VERSION};
use crate::measure::Tally;
use crate::run::{PreparedRun, RunProgress};

/// Longest time for sending a message. After this time the coordinator counts as gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time from a connection to the greeting of its coordinator. An agent serves one peer at a
/// time, so a silent peer would keep every coordinator waiting.
const GREETING: Duration = Duration::from_secs(5);

/// The silence after which the kernel asks the coordinator's machine for a sign of life, and the
/// time to the next question.
const PROBE: Duration = Duration::from_secs(5);

/// Questions without an answer after which the coordinator counts as gone. A machine that has lost
/// its power or its network ends no connection, and the agent would wait for it for ever.
const PROBES: u32 = 3;

/// Options of an agent.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Cpus to run on, a core each. Empty: all that the process may use.
    pub cpus: Vec<usize>,
    /// The I/O driver.
    pub io: IoChoice,
    /// Whether the agent exits after the first coordinator.
    pub coordinators: Coordinators,
}

/// How many coordinators an agent serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinators {
    /// Any number, one after the other.
    Any,
    /// One.
    One,
}

/// Serves the coordinators that connect to `listener`; `tell` gets a line about each.
///
/// # Errors
/// No further coordinator can connect. Errors of a single coordinator are passed to `tell`.
pub fn serve(listener: &TcpListener, options: &AgentOptions, mut tell: impl FnMut(&str)) -> io::Result<()> {
    loop {
        let (stream, from) = match listener.accept() {
            Ok(accepted) => accepted,
            // The peer disconnected before the accept.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        tell(&format!("coordinator {from}"));
        match attend(stream, options, GREETING) {
            Ok(ServedPeer::Coordinator(1)) => tell(&format!("coordinator {from} is done: 1 run")),
            Ok(ServedPeer::Coordinator(jobs)) => tell(&format!("coordinator {from} is done: {jobs} runs")),
            // The peer only checked whether an agent listens.
            Ok(ServedPeer::Nobody) => continue,
            Err(error) => tell(&format!("coordinator {from} is lost: {error}")),
        }
        if options.coordinators == Coordinators::One {
            return Ok(());
        }
    }
}

/// The kind of peer that was served.
enum ServedPeer {
    /// A coordinator, with the number of its runs.
    Coordinator(u64),
    /// A peer that sent no greeting.
    Nobody,
}

fn attend(stream: TcpStream, options: &AgentOptions, greeting: Duration) -> io::Result<ServedPeer> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
    ask_for_life(&stream)?;
    let orders = listen(stream.try_clone()?);
    let mut stream = stream;
    let (mut prepared, mut jobs, mut is_known) = (None, 0, false);
    loop {
        let order = match is_known {
            true => orders.recv().map_err(|_closed| RecvTimeoutError::Disconnected),
            false => orders.recv_timeout(greeting),
        };
        let order = match order {
            Ok(order) => order?,
            Err(_closed) if is_known => return Ok(ServedPeer::Coordinator(jobs)),
            Err(_closed_or_silent) => {
                // Ends the thread that reads.
                let _gone = stream.shutdown(Shutdown::Both);
                return Ok(ServedPeer::Nobody);
            }
        };
        let reply = match order {
            CoordinatorOrder::Hello { version: VERSION } => {
                is_known = true;
                let cores = if options.cpus.is_empty() {
                    thread::available_parallelism().map_or(1, usize::from)
                } else {
                    options.cpus.len()
                };
                AgentReply::Hello { version: VERSION, cores }
            }
            CoordinatorOrder::Hello { version } => AgentReply::Refused(format!(
                "this agent speaks version {VERSION} and the coordinator {version}: use one release of vermeil"
            )),
            CoordinatorOrder::Ping(number) => AgentReply::Pong(number),
            CoordinatorOrder::Job(mut told) => {
                let common = told.ground_mut();
                (common.cpus, common.io) = (options.cpus.clone(), options.io);
                match told.prepare() {
                    Ok(run) => {
                        prepared = Some(run);
                        AgentReply::Ready
                    }
                    Err(error) => AgentReply::Refused(error.to_string()),
                }
            }
            CoordinatorOrder::Start { after } => match prepared.take() {
                Some(mut prepared) => {
                    jobs += 1;
                    prepared.begin_at(Instant::now() + after);
                    run(&prepared, &mut stream, &orders)?
                }
                None => AgentReply::Refused("there is no job to start".to_owned()),
            },
            // A stop for a run that has already ended.
            CoordinatorOrder::Stop => continue,
        };
        wire::write(&mut stream, &reply)?;
    }
}

/// Ends the connection after [`PROBES`] questions without an answer, and with sent bytes that are
/// not acknowledged for as long.
fn ask_for_life(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, PROBE)?;
    sockopt::set_tcp_keepintvl(stream, PROBE)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    let patience = PROBE * (PROBES + 1);
    sockopt::set_tcp_user_timeout(stream, u32::try_from(patience.as_millis()).unwrap_or(u32::MAX))?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

/// Reads orders on a separate thread, so that a stop reaches a run in progress. The thread ends
/// with the connection.
fn listen(stream: TcpStream) -> Receiver<io::Result<CoordinatorOrder>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        while let Some(order) = wire::read(&mut stream).transpose() {
            let is_last = order.is_err();
            if sender.send(order).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// Runs a job and reports each interval; returns the final reply.
fn run(
    prepared: &PreparedRun,
    stream: &mut TcpStream,
    orders: &Receiver<io::Result<CoordinatorOrder>>,
) -> io::Result<AgentReply> {
    let mut lost = None;
    let mut watch = |progress: RunProgress<'_>| {
        let interval = progress.interval;
        let counted = AgentCounts {
            begins: interval.begins,
            lasts: interval.lasts,
            phase: interval.phase,
            users: interval.users,
            tally: progress.counted.clone(),
        };
        if let Err(error) = wire::write(stream, &AgentReply::Counted(Box::new(counted))) {
            lost = Some(error);
            return ControlFlow::Break(());
        }
        match orders.try_recv() {
            Err(TryRecvError::Empty) => ControlFlow::Continue(()),
            Ok(Ok(CoordinatorOrder::Stop)) => ControlFlow::Break(()),
            Ok(Ok(_)) => ControlFlow::Continue(()),
            Ok(Err(error)) => {
                lost = Some(error);
                ControlFlow::Break(())
            }
            Err(TryRecvError::Disconnected) => {
                lost = Some(io::ErrorKind::ConnectionAborted.into());
                ControlFlow::Break(())
            }
        }
    };
    let result = prepared.run(&mut watch);
    if let Some(error) = lost {
        return Err(error);
    }
    Ok(match result {
        Ok(mut outcome) => {
            outcome.total = Tally::default();
            outcome.intervals.clear();
            AgentReply::Done(Box::new(outcome))
        }
        Err(error) => AgentReply::Refused(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// Regression: a connection without a greeting, such as that of a scanner, kept all
    /// coordinators waiting until it ended.
    #[test]
    fn silent_peer_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let options = AgentOptions { cpus: Vec::new(), io: IoChoice::Auto, coordinators: Coordinators::One };
        let served = attend(listener.accept().unwrap().0, &options, Duration::from_millis(20)).unwrap();
        assert!(matches!(served, ServedPeer::Nobody));
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "the connection is closed");
    }

    /// Regression: an agent waited for ever for a coordinator whose machine had gone.
    #[test]
    fn kernel_asks_for_life() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let options = AgentOptions { cpus: Vec::new(), io: IoChoice::Auto, coordinators: Coordinators::One };
        let stream = listener.accept().unwrap().0;
        let socket = stream.try_clone().unwrap();
        drop(peer);
        assert!(matches!(attend(stream, &options, GREETING).unwrap(), ServedPeer::Nobody));
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        let times = [sockopt::tcp_keepidle(&socket).unwrap(), sockopt::tcp_keepintvl(&socket).unwrap()];
        assert_eq!((times, sockopt::tcp_keepcnt(&socket).unwrap()), ([PROBE; 2], PROBES));
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), 20_000);
    }
}
