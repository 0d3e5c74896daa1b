//! The instance's side: receives place, sockets and configuration, then carries out the
//! supervisor's orders.
//!
//! Standard input is the link to the supervisor. The process has its cpus and memory from the first
//! moment, because a thread with that affinity starts it (`place.rs`). Without a supervisor the
//! instance drains and ends. Tested through the binary (`crates/e2e/tests/e2e/instances.rs`).

pub(crate) mod ipc;
pub(crate) mod place;

use ipc::{Assignment, InstanceAnswer, InstanceCommand, Ipc, text_of_descriptor};
use place::take_place;
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
    stdio::dup2_stdin,
    thread::set_name,
};
use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};
use vermeil::LoadPage;
use vermeil_accept::{
    balance::Balancing,
    listening::{Listening, SocketKeeper},
};
use vermeil_address::ListenAddr;
use vermeil_config::{ConfigText, GivenParts, ServeOptions, Surroundings};
use vermeil_log::operator_log::{log_as_instance, log_line};
use vermeil_ops::{control::Overseer, reload::ReloadError, signals, status::cores_in_words};
use vermeil_tls::TicketSecret;
use vermeil_topology::{CpuId, Instance};

/// A server that runs as one of several instances.
pub trait InstanceServer: Overseer + 'static {
    /// A prepared reload, which is dropped if another instance refuses.
    type Prepared: Send;

    /// The path of the configuration, if there is a file.
    fn file(&self) -> Option<PathBuf>;

    /// The first half of a reload: all steps that can fail.
    ///
    /// # Errors
    /// The server refuses the configuration, and continues as before.
    fn prepare_given(
        &self,
        options: ServeOptions,
        added: Vec<Listening>,
    ) -> Result<Self::Prepared, ReloadError>;

    /// The second half of a reload. Returns the lines to log.
    fn take_given(&self, prepared: Self::Prepared) -> Vec<String>;

    /// Another process serves from now on.
    fn note_handed_over(&self);

    /// The weight that a balancer should give to this server, in hundredths.
    fn weight(&self) -> u32;

    /// Whether the server accepts no more connections.
    fn is_draining(&self) -> bool;
}

/// The assignment of this process by the supervisor.
#[derive(Debug)]
pub struct Assigned {
    link: Ipc,
    assignment: Assignment,
    text: Option<ConfigText>,
    fixed_text: Option<ConfigText>,
    board: Option<LoadPage>,
    listening: Vec<Listening>,
    memory: String,
}

impl Assigned {
    /// Receives the assignment from the supervisor, whose link is standard input. Call before
    /// anything else.
    ///
    /// # Errors
    /// Standard input is not such a link.
    pub fn receive() -> io::Result<Self> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        let mut link = Ipc::new(socket);
        let order = link.next_order().map_err(|_| io::ErrorKind::InvalidInput)?;
        let Some((InstanceCommand::Start(assignment), descriptors)) = order else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        dup2_stdin(openat(CWD, "/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)?;
        log_as_instance(assignment.number);
        // Otherwise `ps` shows `exe`, the name of the link that started this process. Cannot fail.
        let _ = set_name(c"vermeil");
        let memory = take_place(&assignment.instance);
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or(io::ErrorKind::InvalidData);
        let text = assignment.has_text.then(|| text_of_descriptor(next()?)).transpose()?;
        let fixed_text = assignment.has_fixed_text.then(|| text_of_descriptor(next()?)).transpose()?;
        let board = assignment.has_board.then(|| board(&assignment, &next()?)).transpose()?;
        let counted = assignment.listening.iter().copied().zip(assignment.sockets.iter().copied());
        let mut listening = by_address(counted, descriptors.collect());
        for of_address in &mut listening {
            if assignment.passed.contains(&of_address.asked) {
                of_address.keeper = SocketKeeper::Manager;
            }
        }
        Ok(Self { link, assignment, text, fixed_text, board, listening, memory })
    }

    /// Cpus and nodes of this instance.
    pub fn instance(&self) -> &Instance {
        &self.assignment.instance
    }

    /// The text of the configuration, if there is a file.
    pub fn text(&self) -> Option<&ConfigText> {
        self.text.as_ref()
    }

    /// The text of an earlier configuration with the settings that only a restart of the server
    /// changes, if [`text`](Self::text) has others.
    pub fn fixed_text(&self) -> Option<&ConfigText> {
        self.fixed_text.as_ref()
    }

    /// The listening addresses, as configured.
    pub fn listen(&self) -> Vec<ListenAddr> {
        self.assignment.listening.iter().map(|(asked, _)| *asked).collect()
    }

    /// Sockets of this instance, and the remaining steps of balancing.
    pub fn sockets(&mut self, cpus: &[CpuId]) -> (Balancing, Vec<Listening>) {
        let balancing = Balancing::of_instance(cpus, self.assignment.neighbours, self.board.take());
        (balancing, std::mem::take(&mut self.listening))
    }

    /// The secret of TLS session tickets.
    pub fn tickets(&self) -> TicketSecret {
        self.assignment.tickets.clone()
    }

    /// Describes the place of this instance for the log.
    pub fn describe(&self) -> String {
        let cpus: vermeil_topology::CpuSet = self.assignment.instance.cpus.iter().copied().collect();
        let cores = cores_in_words(self.assignment.instance.cpus.len());
        format!("pid {}, {cores} (cpus {cpus}), {}", std::process::id(), self.memory)
    }

    /// Reports that the instance serves, and carries out orders from now on.
    ///
    /// # Errors
    /// The supervisor is gone, or no thread can be started.
    pub fn obey<S: InstanceServer>(self, running: Arc<S>) -> io::Result<()> {
        let Self { mut link, assignment, .. } = self;
        link.answer(InstanceAnswer::Started)?;
        let mut obedience = Obedience { instance: assignment.instance, running, prepared: None };
        thread::Builder::new().name("vermeil-link".to_owned()).spawn(move || {
            obedience.obey(&mut link);
            obedience.end();
        })?;
        Ok(())
    }
}

fn board(assignment: &Assignment, memory: &OwnedFd) -> io::Result<LoadPage> {
    let first = assignment.first_core;
    let board = LoadPage::mapped(memory, assignment.cores)?;
    Ok(board.part(first..first + assignment.instance.cpus.len()))
}

/// Groups the sockets by address, in the order of arrival.
fn by_address(
    listening: impl Iterator<Item = ((ListenAddr, ListenAddr), usize)>,
    sockets: Vec<OwnedFd>,
) -> Vec<Listening> {
    let mut sockets = sockets.into_iter();
    listening
        .map(|((asked, addr), count)| Listening {
            asked,
            addr,
            sockets: sockets.by_ref().take(count).collect(),
            keeper: SocketKeeper::Server,
        })
        .collect()
}

/// Whether one message is lost and the next can be read: its descriptors found no room here, or it
/// is malformed.
fn is_lost_message(error: &io::Error) -> bool {
    let is_malformed = matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof);
    is_malformed || Errno::from_io_error(error) == Some(Errno::MSGSIZE)
}

/// Carries out orders.
struct Obedience<S: InstanceServer> {
    instance: Instance,
    running: Arc<S>,
    prepared: Option<S::Prepared>,
}

impl<S: InstanceServer> Obedience<S> {
    /// Carries out orders until the supervisor is gone. A message that cannot be read or sent is
    /// lost, and the supervisor goes on without it.
    fn obey(&mut self, link: &mut Ipc) {
        loop {
            let (order, descriptors) = match link.next_order() {
                Ok(Some(received)) => received,
                Err(error) if is_lost_message(&error) => {
                    log_line(format_args!("an order of the supervisor cannot be read: {error}"));
                    continue;
                }
                Ok(None) | Err(_) => return,
            };
            let answer = self.carry_out(order, descriptors);
            if let Err(error) = link.answer(answer) {
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
                    return;
                }
                let why = format!("it cannot send its answer: {error}");
                // If this fails too, the supervisor waits until its deadline.
                let _ = link.answer(InstanceAnswer::Refused(why));
            }
        }
    }

    fn carry_out(&mut self, order: InstanceCommand, descriptors: Vec<OwnedFd>) -> InstanceAnswer {
        match order {
            InstanceCommand::Start(_) => InstanceAnswer::Refused("it has started".to_owned()),
            InstanceCommand::Prepare { listen, added } => match self.prepare(listen, &added, descriptors) {
                Ok(prepared) => {
                    self.prepared = Some(prepared);
                    InstanceAnswer::Prepared
                }
                Err(why) => InstanceAnswer::Refused(why),
            },
            InstanceCommand::Take => match self.prepared.take() {
                Some(prepared) => InstanceAnswer::Taken(self.running.take_given(prepared)),
                None => InstanceAnswer::Refused("nothing is ready".to_owned()),
            },
            InstanceCommand::Forget => {
                self.prepared = None;
                InstanceAnswer::Forgotten
            }
            InstanceCommand::HandedOver => {
                self.running.note_handed_over();
                InstanceAnswer::Noted
            }
            InstanceCommand::Weight => InstanceAnswer::Weight(self.running.weight()),
            InstanceCommand::Status => {
                let mut instances = self.running.status().instances;
                match instances.pop() {
                    Some(status) => InstanceAnswer::Status(Box::new(status)),
                    None => InstanceAnswer::Refused("it has no status".to_owned()),
                }
            }
        }
    }

    fn prepare(
        &self,
        listen: Vec<ListenAddr>,
        added: &[(ListenAddr, ListenAddr)],
        descriptors: Vec<OwnedFd>,
    ) -> Result<S::Prepared, String> {
        let mut descriptors = descriptors.into_iter();
        let text = descriptors.next().ok_or("there is no configuration")?;
        let text = text_of_descriptor(text).map_err(|error| error.to_string())?;
        let around = Surroundings::here().map_err(|error| error.to_string())?;
        let around = Surroundings { given: GivenParts::Instances(vec![self.instance.clone()]), ..around };
        let file = self.running.file().ok_or("it was started from a command line")?;
        let mut options =
            vermeil_config::take(Path::new(&file), &text, &around).map_err(|error| error.to_string())?;
        options.listen = listen;
        let each = self.instance.cpus.len();
        let added = by_address(added.iter().map(|&added| (added, each)), descriptors.collect());
        self.running.prepare_given(options, added).map_err(|error| error.to_string())
    }

    /// The supervisor is gone. The instance stops, because no process would restart or reload it.
    fn end(&self) {
        signals::be_orphaned();
        if !self.running.is_draining() {
            log_line(format_args!("the supervisor is gone: draining"));
            signals::stop_ourselves();
        }
    }
}
