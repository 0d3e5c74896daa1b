//! An agent: waits for a coordinator, does its jobs, tells what it counts.
//!
//! One coordinator at a time. A coordinator that is gone ends the run. Whoever reaches an agent can have it load anything:
//! it has to listen where only its coordinator gets to. Tested in `tests/agents`.

use std::io::{self, BufReader};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use vermeil::IoChoice;

use super::wire::{self, Counted, Order, Reply, VERSION};
use crate::job::Job;
use crate::measure::Tally;
use crate::run::Progress;

/// Longest time that a coordinator may need to take a message. Then it is gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// How an agent runs.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Cpus to run on, a core each. Empty: all that the process may use.
    pub cpus: Vec<usize>,
    /// The I/O driver.
    pub io: IoChoice,
    /// Whether it ends with its first coordinator.
    pub coordinators: Coordinators,
}

/// How many coordinators an agent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinators {
    /// One after the other, for ever.
    Any,
    /// One.
    One,
}

/// Does what coordinators say that connect to `listener`; `tell` gets a line about each.
///
/// # Errors
/// Nobody can connect any more. What is wrong with one coordinator is told.
pub fn serve(listener: &TcpListener, options: &AgentOptions, mut tell: impl FnMut(&str)) -> io::Result<()> {
    loop {
        let (stream, from) = match listener.accept() {
            Ok(accepted) => accepted,
            // Who was gone again before we looked.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        tell(&format!("coordinator {from}"));
        match attend(stream, options) {
            Ok(Served::Coordinator(jobs)) => tell(&format!("coordinator {from} is done: {jobs} runs")),
            // Somebody looks whether there is an agent.
            Ok(Served::Nobody) => continue,
            Err(error) => tell(&format!("coordinator {from} is lost: {error}")),
        }
        if options.coordinators == Coordinators::One {
            return Ok(());
        }
    }
}

/// Who it was.
enum Served {
    /// One that said what to do, so many times.
    Coordinator(u64),
    /// Somebody who said nothing.
    Nobody,
}

fn attend(stream: TcpStream, options: &AgentOptions) -> io::Result<Served> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
    let orders = listen(stream.try_clone()?);
    let mut stream = stream;
    let (mut job, mut jobs, mut is_known) = (None, 0, false);
    loop {
        let order = match orders.recv() {
            Ok(order) => order?,
            Err(_closed) if is_known => return Ok(Served::Coordinator(jobs)),
            Err(_closed) => return Ok(Served::Nobody),
        };
        let reply = match order {
            Order::Hello { version: VERSION } => {
                is_known = true;
                let cores = if options.cpus.is_empty() {
                    thread::available_parallelism().map_or(1, usize::from)
                } else {
                    options.cpus.len()
                };
                Reply::Hello { version: VERSION, cores }
            }
            Order::Hello { version } => Reply::Refused(format!(
                "this agent speaks version {VERSION} and the coordinator {version}: use one release of vermeil"
            )),
            Order::Ping(number) => Reply::Pong(number),
            Order::Job(mut told) => {
                let ground = told.ground_mut();
                (ground.cpus, ground.io) = (options.cpus.clone(), options.io);
                match told.check() {
                    Ok(()) => {
                        job = Some(told);
                        Reply::Ready
                    }
                    Err(error) => Reply::Refused(error.to_string()),
                }
            }
            Order::Start { after } => match job.take() {
                Some(mut job) => {
                    jobs += 1;
                    job.ground_mut().begins = Some(Instant::now() + after);
                    run(&job, &mut stream, &orders)?
                }
                None => Reply::Refused("there is no job to start".to_owned()),
            },
            // The run that it was for has ended by itself.
            Order::Stop => continue,
        };
        wire::write(&mut stream, &reply)?;
    }
}

/// Reads orders on a thread of its own, so that a run hears them; the end of the connection ends them.
fn listen(stream: TcpStream) -> Receiver<io::Result<Order>> {
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

/// Runs `job`, telling each interval; gives what to say at its end.
fn run(job: &Job, stream: &mut TcpStream, orders: &Receiver<io::Result<Order>>) -> io::Result<Reply> {
    let mut lost = None;
    let mut watch = |progress: Progress<'_>| {
        let interval = progress.interval;
        let counted = Counted {
            begins: interval.begins,
            lasts: interval.lasts,
            phase: interval.phase,
            users: interval.users,
            tally: progress.counted.clone(),
        };
        if let Err(error) = wire::write(stream, &Reply::Counted(Box::new(counted))) {
            lost = Some(error);
            return ControlFlow::Break(());
        }
        match orders.try_recv() {
            Err(TryRecvError::Empty) => ControlFlow::Continue(()),
            Ok(Ok(Order::Stop)) => ControlFlow::Break(()),
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
    let result = job.outcome(&mut watch);
    if let Some(error) = lost {
        return Err(error);
    }
    Ok(match result {
        Ok(mut outcome) => {
            outcome.total = Tally::default();
            outcome.intervals.clear();
            Reply::Done(Box::new(outcome))
        }
        Err(error) => Reply::Refused(error.to_string()),
    })
}
