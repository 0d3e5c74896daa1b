//! Chooses the core of a new connection, and rescues connections whose core does not accept them.
//!
//! Each core has a listening socket of its own. Without any right, the kernel prefers the socket
//! whose core handled the packets (`local`, by `SO_INCOMING_CPU`), and neighbours watch. Neighbours
//! take the waiting connections of a core that has not looked at its sockets for a while. So
//! locality stays, and a stuck core does not hold up its share of all new connections. With CAP_BPF
//! a program in the kernel chooses (`load-aware`): the same core first, another core if much more
//! work waits at the first. The other modes are for comparison. A self-test at the start finds out
//! by connecting which mode works.
//!
//! An accepted connection belongs to its core. While the connection waits for its client's next
//! request, it stands on the core's shelf. If the core is stuck, neighbours continue with the
//! connections of the shelf that have a request (`connection/parking.rs`).
//!
//! Reading order: `neighbours` (which core watches which), `verdict` (when to take), `relieve` (the
//! tasks), `kernel` (the program), `self_test`, `changeover` (sockets of another server),
//! `counters`. Leaves out the later life of a connection (`accept.rs`).

mod changeover;
mod counters;
mod kernel;
mod neighbours;
mod self_test;
mod summary;
pub mod verdict;

pub use changeover::Changeover;
pub use counters::Accepted;
pub use summary::AcceptSummary;

use counters::{AcceptCounts, BalanceCounters};
use kernel::KernelChoice;
use serde::{Deserialize, Serialize};
use std::{
    io,
    net::SocketAddr,
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
    sync::{Arc, OnceLock},
};
use vermeil::LoadPage;
use vermeil_log::operator_log::log_line;
use vermeil_settings::Balance;
use vermeil_steer::{AcceptSteering, Group, Mode};
use vermeil_topology::{CpuId, Instance, sysfs};

/// The preference of a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketSteering {
    /// Connections whose packets its core's cpu handles.
    PacketsCpu,
    /// No preference.
    Hash,
}

/// Connections of a core that wait for the next request.
pub type IdleConnectionPool = vermeil_io::IdlePool;

/// The assignment of a server's connections to cores.
#[derive(Debug)]
pub struct Balancing {
    /// The preference of each listening socket.
    pub steering: SocketSteering,
    /// For people: the chosen mode and the reason.
    line: String,
    /// The program in the kernel. Set in the process that owns the sockets.
    chooser: Option<AcceptSteering>,
    /// The board that the program reads.
    board: Option<Arc<LoadPage>>,
    /// Whether neighbours watch the listeners of a core.
    pub neighbours: Neighbours,
    /// For each core, the cores whose listeners the core watches.
    pub watched: Vec<Vec<usize>>,
    /// The shelf of each watched core. Set once the core serves.
    shelves: OnceLock<Vec<Option<Arc<IdleConnectionPool>>>>,
    counters: BalanceCounters,
}

/// Whether neighbours watch the listeners of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Neighbours {
    /// Neighbours take connections that wait for a stuck core.
    Watch,
    /// No core takes connections of another core.
    LookAway,
}

impl Balancing {
    /// Chooses for cores on these cpus. May connect to own sockets for the self-test.
    pub fn choose(balance: Balance, cpus: &[CpuId]) -> Self {
        match balance {
            Balance::Auto => Self::auto(cpus),
            Balance::Local => Self::new(
                cpus,
                SocketSteering::PacketsCpu,
                None,
                Neighbours::Watch,
                "local, as asked for".into(),
            ),
            Balance::Hash => {
                Self::new(cpus, SocketSteering::Hash, None, Neighbours::LookAway, "hash, as asked for".into())
            }
            Balance::LoadAware => Self::by_kernel(balance, cpus, Mode::LoadAware, Neighbours::Watch),
            Balance::Fixed => Self::by_kernel(balance, cpus, Mode::Fixed, Neighbours::LookAway),
            Balance::RoundRobin => Self::by_kernel(balance, cpus, Mode::RoundRobin, Neighbours::LookAway),
        }
    }

    fn auto(cpus: &[CpuId]) -> Self {
        let proved = self_test::kernel_chooses(cpus)
            .and_then(|proof| Ok((KernelChoice::new(cpus, Mode::LoadAware)?, proof)));
        let without = match proved {
            Ok((kernel, proof)) => {
                let line = format!("load-aware ({proof})");
                return Self::new(cpus, SocketSteering::PacketsCpu, Some(kernel), Neighbours::Watch, line);
            }
            Err(why) => why,
        };
        let (steering, line) = match self_test::prefers_cpu(cpus) {
            Ok(proof) => (SocketSteering::PacketsCpu, format!("local ({proof}; not load-aware: {without})")),
            Err(why) => (SocketSteering::Hash, format!("hash ({why}; not load-aware: {without})")),
        };
        Self::new(cpus, steering, None, Neighbours::Watch, line)
    }

    /// The requested mode needs a right. Without the right, falls back to a mode that needs none.
    fn by_kernel(asked: Balance, cpus: &[CpuId], mode: Mode, neighbours: Neighbours) -> Self {
        match KernelChoice::new(cpus, mode) {
            Ok(kernel) => {
                let line = format!("{asked}, as asked for");
                Self::new(cpus, SocketSteering::PacketsCpu, Some(kernel), neighbours, line)
            }
            Err(why) => {
                let line = format!("local, not {asked} as asked for: {why}");
                Self::new(cpus, SocketSteering::PacketsCpu, None, Neighbours::Watch, line)
            }
        }
    }

    fn new(
        cpus: &[CpuId],
        steering: SocketSteering,
        kernel: Option<KernelChoice>,
        neighbours: Neighbours,
        line: String,
    ) -> Self {
        let watched = match neighbours {
            Neighbours::Watch => neighbours_on(cpus),
            Neighbours::LookAway => vec![Vec::new(); cpus.len()],
        };
        let (chooser, board) =
            kernel.map_or((None, None), |KernelChoice { steering, board }| (Some(steering), Some(board)));
        Self {
            steering,
            line,
            chooser,
            board,
            neighbours,
            watched,
            shelves: OnceLock::new(),
            counters: BalanceCounters::new(cpus.len()),
        }
    }

    /// For people: the chosen mode, its reason, and the treatment of a stuck core if `together`
    /// cores share a process.
    pub fn describe(&self, together: usize) -> String {
        let rule = match self.neighbours {
            Neighbours::LookAway => "no core watches another".to_owned(),
            Neighbours::Watch if together < 2 => "no core has a neighbour in its process".to_owned(),
            Neighbours::Watch => verdict::describe(),
        };
        format!("{}; {rule}", self.line)
    }

    /// The balancing of one of several instances on its own cores. The supervisor opened the
    /// sockets. `board` is the instance's part of the board that the kernel reads, if the kernel
    /// chooses.
    pub fn of_instance(cpus: &[CpuId], neighbours: Neighbours, board: Option<LoadPage>) -> Self {
        let balancing = Self::new(cpus, SocketSteering::PacketsCpu, None, neighbours, String::new());
        Self { board: board.map(Arc::new), ..balancing }
    }

    /// Makes a shelf for each watched core.
    pub fn open_shelves(&self) -> io::Result<()> {
        let of_core = |core| {
            let is_watched = self.watched.iter().any(|watched| watched.contains(&core));
            is_watched.then(|| IdleConnectionPool::new().map(Arc::new)).transpose()
        };
        let shelves = (0..self.watched.len()).map(of_core).collect::<io::Result<_>>()?;
        self.shelves.set(shelves).expect("cores are opened once");
        Ok(())
    }

    /// The shelf of a core, if other cores look at the shelf.
    pub fn shelf(&self, core: usize) -> Option<Arc<IdleConnectionPool>> {
        self.shelves.get()?[core].clone()
    }

    /// The board on which cores publish the load, if the kernel reads the board.
    pub fn board(&self) -> Option<Arc<LoadPage>> {
        self.board.clone()
    }

    /// Tells the kernel which cores share a process.
    pub fn divide(&self, instances: &[Instance]) {
        let Some(board) = &self.board else { return };
        let process_of_core =
            (0..).zip(instances).flat_map(|(number, instance)| instance.cpus.iter().map(move |_| number));
        for (core, process) in process_of_core.enumerate() {
            board.core(core).belong_to(process);
        }
    }

    /// The memory of the board, for other processes.
    pub fn board_memory(&self) -> Option<BorrowedFd<'_>> {
        self.chooser.as_ref().map(AcceptSteering::boards)
    }

    /// The cpu that the listener of a core on `cpu` prefers.
    pub fn preference(&self, cpu: CpuId) -> Option<usize> {
        (self.steering == SocketSteering::PacketsCpu).then_some(cpu.0 as usize)
    }

    /// Stops the kernel's choice for this server, because another server has the sockets.
    pub fn let_go(&self) {
        if let Some(chooser) = &self.chooser {
            chooser.let_go();
        }
    }

    /// Makes the kernel choose among the listening sockets of an address, if the kernel chooses at
    /// all. If the kernel refuses, that is logged, and each socket gets the connections whose
    /// packets its cpu handles.
    pub fn take_charge_of(&self, addr: SocketAddr, sockets: &[OwnedFd]) {
        let Some(chooser) = &self.chooser else { return };
        if let Err(error) = chooser.choose_among(sockets) {
            log_unchosen(addr, &error);
        }
    }

    /// Like [`take_charge_of`](Self::take_charge_of), with a program that another process has
    /// loaded.
    pub fn take_charge_by(&self, addr: SocketAddr, group: io::Result<Group>, sockets: &[OwnedFd]) {
        let Some(chooser) = &self.chooser else { return };
        if let Err(error) = group.and_then(|group| chooser.choose_by(group, sockets)) {
            log_unchosen(addr, &error);
        }
    }

    /// A program for the sockets of an address, if the kernel chooses.
    pub fn group(&self) -> Option<io::Result<Group>> {
        self.chooser.as_ref().map(AcceptSteering::group)
    }

    /// The descriptors that a process needs to make such programs.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.chooser.iter().flat_map(AcceptSteering::descriptors).collect()
    }

    /// Counts a connection that came to `core`.
    pub fn count(&self, core: usize, accepted: Accepted) {
        self.counters.count(core, accepted);
    }

    /// Whether this connection belongs to the sample that measures packet locality.
    pub fn is_sample(&self, core: usize) -> bool {
        self.counters.is_sample(core)
    }

    /// The counts of `core`, and the number of connections that the kernel has given to other cores
    /// instead.
    pub fn of_core(&self, core: usize) -> (AcceptCounts, u64) {
        let sent_away = self.board.as_deref().map_or(0, |board| board.core(core).sent_away());
        (self.counters.of(core), sent_away)
    }

    /// The counts of all cores.
    pub fn summary(&self) -> AcceptSummary {
        let sum = |of: fn(&AcceptCounts) -> u64| self.counters.all().iter().map(of).sum::<u64>();
        AcceptSummary {
            accepted: sum(|core| core.accepted),
            taken_over: sum(|core| core.taken_over),
            moved: sum(|core| core.moved),
            sent_away: self.board.as_deref().map(kernel::sent_away),
            sampled: sum(|core| core.sampled),
            sampled_here: sum(|core| core.sampled_here),
        }
    }
}

/// Logs that the kernel does not choose, and the consequence.
fn log_unchosen(addr: SocketAddr, error: &io::Error) {
    log_line(format_args!(
        "balance: the kernel does not choose among the cores for {addr}: {error}; its connections go to the cpu of their packets"
    ));
}

/// Which cores each core watches on this machine.
fn neighbours_on(cpus: &[CpuId]) -> Vec<Vec<usize>> {
    if cpus.len() < 2 {
        return vec![Vec::new(); cpus.len()];
    }
    match sysfs::read(Path::new("/")) {
        Ok(machine) => neighbours::watched(&machine, cpus),
        Err(_) => neighbours::ring(cpus.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_mode_watches_no_listener() {
        let cpus = [CpuId(0), CpuId(0)];
        let hash = Balancing::choose(Balance::Hash, &cpus);
        assert_eq!((hash.steering, hash.watched.concat().len()), (SocketSteering::Hash, 0));
        let local = Balancing::choose(Balance::Local, &cpus);
        assert_eq!(local.steering, SocketSteering::PacketsCpu);
    }

    /// The sockets share no address, so no program can choose among the sockets.
    #[test]
    fn a_choice_that_the_kernel_refuses_is_done_without() {
        let asked = Balancing::choose(Balance::RoundRobin, &[CpuId(0), CpuId(0)]);
        let sockets: Vec<OwnedFd> =
            (0..2).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap().into()).collect();
        asked.take_charge_of("127.0.0.1:0".parse().unwrap(), &sockets);
    }

    #[test]
    fn mode_without_permission_falls_back_with_notice() {
        let asked = Balancing::choose(Balance::RoundRobin, &[CpuId(0), CpuId(0)]);
        match asked.chooser {
            Some(_) => assert_eq!(asked.describe(2), "round-robin, as asked for; no core watches another"),
            None => assert!(
                asked.line.starts_with("local, not round-robin as asked for: the kernel"),
                "{}",
                asked.line
            ),
        }
        let auto = Balancing::choose(Balance::Auto, &[CpuId(0)]);
        assert!(auto.describe(2).contains("relieved"), "{}", auto.line);
        assert!(auto.describe(1).ends_with("; no core has a neighbour in its process"), "{}", auto.line);
    }
}
