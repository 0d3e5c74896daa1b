//! Selects the core of a new connection in the kernel, by a program over the sockets of an address
//! (`bpf/accept.bpf.c`), in modes that can be compared.
//!
//! Sockets are identified by their core's number, not by their order, so cores and addresses may
//! come and go. A single description of cores and cpus serves all addresses. The cores' load pages
//! are a map that the server writes and the program reads. Loading needs CAP_BPF; a refusal is
//! explained in words. Leaves out the sockets and the data that cores write. Tested here, if the
//! right is there, and through the server.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use vermeil_topology::{CpuDistance, CpuId, Machine};

use crate::bpf::{self, MapKind, Mappable, ProgramKind};

/// Bytes of a core's load page: `struct core` of the program.
pub const CORE_BYTES: u32 = 128;

/// Pending work of a core above which the core's connections go elsewhere; below half of this value
/// connections stay again. A millisecond is the work of more than a hundred requests at 7 µs each
/// (`bench serve`).
const BOUND_NS: u64 = 1_000_000;

/// Interval and number of attempts to enter a socket that is still in another program's array,
/// because that array's owner did not remove the socket. The kernel frees the array after a grace
/// period of 10 ms, or of seconds if all cpus are busy.
const LET_GO: (Duration, u32) = (Duration::from_millis(5), 400);

/// The program's modes, by the program's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The same core for all connections of an address.
    Fixed = 1,
    /// The cores in turn.
    RoundRobin = 2,
    /// The core of the cpu that handles the packets.
    Local = 3,
    /// The core of the cpu that handles the packets, unless that core has much more work than
    /// another.
    LoadAware = 4,
}

/// The maps of the program that all addresses share.
#[derive(Debug)]
pub struct AcceptSteering {
    plan: OwnedFd,
    cpus: OwnedFd,
    cores: OwnedFd,
    count: u32,
    /// The sockets of each address.
    groups: Mutex<Vec<OwnedFd>>,
}

impl AcceptSteering {
    /// Steering for cores on these cpus. `homes` has, for each cpu of the machine by number, the
    /// core for connections whose packets that cpu handles ([`homes`]).
    ///
    /// # Errors
    /// The kernel's refusal, in words.
    pub fn new(cores: usize, homes: &[u32], mode: Mode) -> Result<AcceptSteering, String> {
        let make = || -> io::Result<AcceptSteering> {
            let count = u32::try_from(cores).map_err(io::Error::other)?;
            let map = |bytes, entries, mappable| bpf::create_map(MapKind::Array, bytes, entries, mappable);
            let steering = AcceptSteering {
                plan: map(PLAN_BYTES as u32, 1, Mappable::No)?,
                cpus: map(4, homes.len().max(1) as u32, Mappable::No)?,
                cores: map(CORE_BYTES, count, Mappable::Yes)?,
                count,
                groups: Mutex::default(),
            };
            for (cpu, home) in (0..).zip(homes) {
                bpf::update(steering.cpus.as_fd(), cpu, &home.to_ne_bytes())?;
            }
            bpf::update(steering.plan.as_fd(), 0, &plan_bytes(mode, count))?;
            // A refusal now is harmless, because the server runs without steering. A refusal with
            // existing sockets would leave those sockets without a choice.
            steering.group()?;
            Ok(steering)
        };
        make().map_err(|error| refusal(&error))
    }

    /// The map of load pages, for mapping into the writer's memory.
    pub fn boards(&self) -> BorrowedFd<'_> {
        self.cores.as_fd()
    }

    /// What a process has to have open to make programs: [`group`](Self::group).
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [self.plan.as_fd(), self.cpus.as_fd(), self.cores.as_fd()]
    }

    /// Makes the program choose among the listening sockets of an address, in the order of their
    /// cores. Replaces any earlier program, also of another process that shares the sockets.
    /// Between the two programs the kernel's hash chooses.
    ///
    /// # Errors
    /// The kernel refuses the program or a socket.
    pub fn choose_among(&self, sockets: &[impl AsFd]) -> io::Result<()> {
        self.choose_by(self.group()?, sockets)
    }

    /// As [`choose_among`](Self::choose_among), with a loaded program.
    ///
    /// # Errors
    /// The kernel refuses a socket.
    pub fn choose_by(&self, group: Group, sockets: &[impl AsFd]) -> io::Result<()> {
        let Some(first) = sockets.first() else { return Ok(()) };
        let Group { map, program } = group;
        // First, because a socket is in at most one array, and the other array ends with its
        // program.
        bpf::attach_reuseport(first.as_fd(), program.as_fd())?;
        (0..).zip(sockets).try_for_each(|(core, socket)| enter(&map, core, socket.as_fd()))?;
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|group| self.has_any(group));
        groups.push(map);
        Ok(())
    }

    /// Loads a program for the sockets of an address, still without sockets.
    ///
    /// # Errors
    /// The kernel refuses the program, because loading needs a right.
    pub fn group(&self) -> io::Result<Group> {
        let map = bpf::create_map(MapKind::Sockets, 8, self.count, Mappable::No)?;
        let maps = [map.as_fd(), self.plan.as_fd(), self.cpus.as_fd(), self.cores.as_fd()];
        let program = bpf::load(ProgramKind::Reuseport, &bpf::ACCEPT, &maps, &[])?;
        Ok(Group { map, program })
    }

    /// Stops choosing, so that another process's program can start at once: see
    /// [`choose_among`](Self::choose_among).
    pub fn let_go(&self) {
        for group in self.groups.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // If the kernel refuses, the other process must wait.
            (0..self.count).for_each(|core| drop(bpf::delete(group.as_fd(), core)));
        }
    }

    /// Whether sockets of an address are left; closed sockets disappear.
    fn has_any(&self, group: &OwnedFd) -> bool {
        (0..self.count).any(|core| bpf::lookup(group.as_fd(), core, &mut [0; 8]).is_ok())
    }
}

/// A program and its map, for the sockets of an address.
#[derive(Debug)]
pub struct Group {
    map: OwnedFd,
    program: OwnedFd,
}

impl Group {
    /// The map and the program, to be sent to another process.
    pub fn into_parts(self) -> [OwnedFd; 2] {
        [self.map, self.program]
    }

    /// What another process has made.
    pub fn from_parts(map: OwnedFd, program: OwnedFd) -> Self {
        Self { map, program }
    }
}

/// Detaches any program from the sockets of an address. No error if there was no program.
///
/// # Errors
/// The kernel lacks the operation (before Linux 5.3).
pub fn detach_program(socket: BorrowedFd<'_>) -> io::Result<()> {
    match bpf::detach_reuseport(socket) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Puts a socket into the array of its address.
fn enter(group: &OwnedFd, core: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let number = u64::from(socket.as_raw_fd().cast_unsigned());
    let (pause, attempts) = LET_GO;
    for _ in 0..attempts {
        match bpf::update(group.as_fd(), core, &number.to_ne_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(pause),
            result => return result,
        }
    }
    bpf::update(group.as_fd(), core, &number.to_ne_bytes())
}

/// Bytes of `struct plan`: mode, cores, the next core of round-robin, the bound.
const PLAN_BYTES: usize = 24;

fn plan_bytes(mode: Mode, cores: u32) -> [u8; PLAN_BYTES] {
    let mut bytes = [0; PLAN_BYTES];
    bytes[..4].copy_from_slice(&(mode as u32).to_ne_bytes());
    bytes[4..8].copy_from_slice(&cores.to_ne_bytes());
    bytes[16..].copy_from_slice(&BOUND_NS.to_ne_bytes());
    bytes
}

/// For each cpu of the machine, by number, the core for the cpu's connections: the core on the cpu,
/// or the nearest core. Cpus at equal distance from several cores are assigned in turn, so that no
/// core serves a whole node.
pub fn homes(machine: &Machine, cores: &[CpuId]) -> Vec<u32> {
    let last = machine.cpus().union(machine.offline()).iter().last().map_or(0, |cpu| cpu.0);
    let home = |cpu: u32| {
        let nearest = nearest_first(machine, CpuId(cpu), cores);
        let Some(&(least, _)) = nearest.first() else { return 0 };
        let equal: Vec<usize> =
            nearest.iter().take_while(|(far, _)| *far == least).map(|&(_, core)| core).collect();
        equal[cpu as usize % equal.len()] as u32
    };
    (0..=last).map(home).collect()
}

/// For each core, the other cores that its connections may go to, nearest first: half of `most`
/// from the core's node, the rest from each other node in turn. So other nodes relieve a busy node,
/// each with a different core.
pub fn near(machine: &Machine, cores: &[CpuId], most: usize) -> Vec<Vec<u32>> {
    let of = |core: usize| -> Vec<u32> {
        let others =
            nearest_first(machine, cores[core], cores).into_iter().filter(|&(_, other)| other != core);
        let is_away = |far: Option<CpuDistance>| matches!(far, Some(CpuDistance::Remote(_)) | None);
        let (away, here): (Vec<_>, Vec<_>) = others.partition(|&(far, _)| is_away(far));
        let here = here.into_iter().map(|(_, other)| other);
        let away = one_of_each_node(machine, cores, core, away.into_iter().map(|(_, other)| other).collect());
        let room = most - (most / 2).min(away.len());
        let near: Vec<usize> = here.take(room).chain(away).take(most).collect();
        near.into_iter().map(|core| core as u32).collect()
    };
    (0..cores.len()).map(of).collect()
}

/// Core numbers with their distance from `cpu`, the nearest first; among equals the cores after
/// `cpu` first.
fn nearest_first(machine: &Machine, cpu: CpuId, cores: &[CpuId]) -> Vec<(Option<CpuDistance>, usize)> {
    let mut all: Vec<_> =
        cores.iter().enumerate().map(|(core, &of)| (machine.distance(cpu, of), core)).collect();
    all.sort_by_key(|&(far, core)| (far.is_none(), far, cores[core] < cpu, core));
    all
}

fn one_of_each_node(machine: &Machine, cores: &[CpuId], core: usize, away: Vec<usize>) -> Vec<usize> {
    let node_of = |core: usize| machine.pu(cores[core]).and_then(|pu| pu.node);
    let mut nodes: Vec<(_, Vec<usize>)> = Vec::new();
    for other in away {
        match nodes.iter_mut().find(|(node, _)| *node == node_of(other)) {
            Some((_, of_node)) => of_node.push(other),
            None => nodes.push((node_of(other), vec![other])),
        }
    }
    nodes.iter().map(|(_, of_node)| of_node[core % of_node.len()]).collect()
}

/// The reason of a refusal and the cure. A right is named only if a right is missing.
fn refusal(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("the kernel does not take programs that choose (CAP_BPF may): {error}")
        }
        _ => format!("this kernel cannot run the program that chooses: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use vermeil_topology::synthetic;

    fn cpus(count: u32) -> Vec<CpuId> {
        (0..count).map(CpuId).collect()
    }

    #[test]
    fn cpus_without_a_core_are_served_by_the_nearest() {
        let machine = synthetic::parse("node:2 core:2 pu:2").unwrap();
        assert_eq!(homes(&machine, &[CpuId(0), CpuId(2), CpuId(4)]), [0, 0, 1, 1, 2, 2, 2, 2]);
        let one_node = synthetic::parse("node:1 core:6 pu:1").unwrap();
        assert_eq!(homes(&one_node, &[CpuId(0), CpuId(1)]), [0, 1, 0, 1, 0, 1], "dealt in turn");
    }

    #[test]
    fn connections_go_near_first_and_to_every_node() {
        let machine = synthetic::parse("node:4 core:4 pu:1").unwrap();
        let near = near(&machine, &cpus(16), 8);
        assert_eq!(near[0], [1, 2, 3, 4, 8, 12]);
        assert_eq!(near[1], [2, 3, 0, 5, 9, 13], "others for another core");
        let one_node = synthetic::parse("node:1 core:12 pu:1").unwrap();
        assert_eq!(super::near(&one_node, &cpus(12), 8)[10], [11, 0, 1, 2, 3, 4, 5, 6]);
    }

    /// The kernel structure's layout: mode and cores, then two words.
    #[test]
    fn a_plan_has_the_layout_of_the_program() {
        let bytes = plan_bytes(Mode::LoadAware, 7);
        assert_eq!(bytes[..8], [4u32.to_ne_bytes(), 7u32.to_ne_bytes()].concat());
        assert_eq!(bytes[8..], [0u64.to_ne_bytes(), BOUND_NS.to_ne_bytes()].concat());
    }

    fn group(count: usize) -> (SocketAddr, Vec<TcpListener>) {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
        let mut addr = SocketAddr::from(([127, 0, 0, 1], 0));
        let sockets = (0..count).map(|_| {
            let socket =
                socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
            sockopt::set_socket_reuseport(&socket, true).unwrap();
            bind(&socket, &addr).unwrap();
            listen(&socket, 64).unwrap();
            let listener = TcpListener::from(socket);
            listener.set_nonblocking(true).unwrap();
            addr = listener.local_addr().unwrap();
            listener
        });
        let sockets = sockets.collect();
        (addr, sockets)
    }

    /// Connects `count` times; returns the number of connections of each socket.
    fn connect(addr: SocketAddr, sockets: &[TcpListener], count: usize) -> Vec<usize> {
        let _clients: Vec<TcpStream> = (0..count).map(|_| TcpStream::connect(addr).unwrap()).collect();
        sockets.iter().map(|socket| std::iter::from_fn(|| socket.accept().ok()).count()).collect()
    }

    fn steering(homes: &[u32], mode: Mode) -> Option<AcceptSteering> {
        AcceptSteering::new(4, homes, mode).map_err(|why| eprintln!("SKIPPED: {why}")).ok()
    }

    #[test]
    fn every_mode_chooses_documented_core() {
        // The home of all cpus is core 2.
        let homes = vec![2; 1024];
        for (mode, expected) in [
            (Mode::RoundRobin, vec![5, 5, 5, 5]),
            (Mode::Local, vec![0, 0, 20, 0]),
            (Mode::LoadAware, vec![0, 0, 20, 0]),
        ] {
            let Some(steering) = steering(&homes, mode) else { return };
            let (addr, sockets) = group(4);
            steering.choose_among(&sockets).unwrap();
            assert_eq!(connect(addr, &sockets, 20), expected, "{mode:?}");
        }
        let Some(steering) = steering(&homes, Mode::Fixed) else { return };
        let (addr, sockets) = group(4);
        steering.choose_among(&sockets).unwrap();
        let came = connect(addr, &sockets, 20);
        assert_eq!(came.iter().max(), Some(&20), "one address, one core: {came:?}");
    }

    /// Writes the load page of one of four cores: the pending work, and the time of the last look
    /// at the sockets. Two cores are near: 3, then
    /// 1. Cores 0 and 1 belong to one process, 2 and 3 to another.
    fn show(steering: &AcceptSteering, core: u32, [pending_ns, looked_ns, programs_ns]: [u64; 3]) {
        // The words of `struct core`: busy since, pending, looks, programs, elsewhere, sent away,
        // near (count, then cores) and process.
        let mut words = [0u64; CORE_BYTES as usize / 8];
        let so_far = &mut [0; CORE_BYTES as usize];
        bpf::lookup(steering.boards(), core, so_far).unwrap();
        for (word, bytes) in words.iter_mut().zip(so_far.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap());
        }
        words[1] = pending_ns;
        words[3] = programs_ns;
        words[6] = 2 | 3 << 32;
        words[7] = 1;
        words[10] = u64::from(core / 2) << 32;
        words[11] = looked_ns;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bpf::update(steering.boards(), core, &bytes).unwrap();
    }

    #[test]
    fn overloaded_core_is_spared_until_load_is_low() {
        let Some(steering) = steering(&[2; 1024], Mode::LoadAware) else { return };
        let (addr, sockets) = group(4);
        steering.choose_among(&sockets).unwrap();
        let show = |core: u32, pending_ns: u64| show(&steering, core, [pending_ns, 0, 0]);
        (0..4).for_each(|core| show(core, 0));
        assert_eq!(connect(addr, &sockets, 10), [0, 0, 10, 0], "nobody has anything to do");
        show(2, 5 * BOUND_NS);
        assert_eq!(connect(addr, &sockets, 10), [0, 0, 0, 10], "the nearest that is free");
        show(3, 4 * BOUND_NS);
        assert_eq!(connect(addr, &sockets, 10), [0, 10, 0, 0], "the nearest has much to do too");
        show(1, 4 * BOUND_NS);
        assert_eq!(connect(addr, &sockets, 10), [0, 0, 10, 0], "nobody is twice as good");
        show(1, 0);
        show(2, BOUND_NS * 3 / 4);
        assert_eq!(
            connect(addr, &sockets, 10),
            [0, 10, 0, 0],
            "below the bound, but not by half: no to and fro"
        );
        show(2, BOUND_NS / 2);
        assert_eq!(connect(addr, &sockets, 10), [0, 0, 10, 0], "it has little to do again");
    }

    #[test]
    fn preempted_core_is_spared_although_idle() {
        let Some(steering) = steering(&[2; 1024], Mode::LoadAware) else { return };
        let (addr, sockets) = group(4);
        steering.choose_among(&sockets).unwrap();
        let (long_ago, just_now) = (1, u64::MAX / 2);
        (0..4).for_each(|core| show(&steering, core, [0, just_now, 0]));
        assert_eq!(connect(addr, &sockets, 10), [0, 0, 10, 0], "all wait for something to do");
        show(&steering, 2, [0, long_ago, 0]);
        assert_eq!(connect(addr, &sockets, 10), [0, 0, 0, 10], "it has not looked for long");
        show(&steering, 3, [0, long_ago, 0]);
        assert_eq!(connect(addr, &sockets, 10), [0, 10, 0, 0], "nor has the nearest");
        show(&steering, 2, [0, just_now, 0]);
        assert_eq!(connect(addr, &sockets, 10), [0, 0, 10, 0], "it runs again");
    }

    #[test]
    fn process_with_overloaded_programs_is_spared() {
        let Some(steering) = steering(&[2; 1024], Mode::LoadAware) else { return };
        let (addr, sockets) = group(4);
        steering.choose_among(&sockets).unwrap();
        let much = 1000 * BOUND_NS;
        (0..4).for_each(|core| show(&steering, core, [0; 3]));
        (2..4).for_each(|core| show(&steering, core, [0, 0, much]));
        assert_eq!(connect(addr, &sockets, 10), [0, 10, 0, 0], "the near one of another process");
        (0..2).for_each(|core| show(&steering, core, [0, 0, much * 2 / 3]));
        assert_eq!(
            connect(addr, &sockets, 10),
            [0, 0, 10, 0],
            "there is nearly as much to do, and here no core has more"
        );
        show(&steering, 2, [100 * BOUND_NS, 0, much]);
        assert_eq!(connect(addr, &sockets, 10), [0, 0, 0, 10], "the same programs, but another core");
    }

    #[test]
    fn another_program_takes_the_sockets_over_or_none_chooses() {
        let all_to = |core| steering(&[core; 1024], Mode::Local);
        let (Some(first), Some(second)) = (all_to(1), all_to(3)) else { return };
        let (addr, sockets) = group(4);
        first.choose_among(&sockets).unwrap();
        assert_eq!(connect(addr, &sockets, 10), [0, 10, 0, 0]);
        first.let_go();
        let begun = std::time::Instant::now();
        second.choose_among(&sockets).unwrap();
        assert!(begun.elapsed() < LET_GO.0 * LET_GO.1, "it had to wait for the first");
        assert_eq!(connect(addr, &sockets, 10), [0, 0, 0, 10]);
        assert_eq!(second.groups.lock().unwrap().len(), 1);
        detach_program(sockets[0].as_fd()).unwrap();
        detach_program(sockets[0].as_fd()).unwrap();
        let came = connect(addr, &sockets, 64);
        assert!(came.iter().filter(|&&count| count > 0).count() > 1, "by hash: {came:?}");
    }

    #[test]
    fn closed_socket_leaves_other_places_unchanged() {
        let Some(steering) = steering(&[3; 1024], Mode::Local) else { return };
        let (addr, mut sockets) = group(4);
        steering.choose_among(&sockets).unwrap();
        drop(sockets.remove(0));
        assert_eq!(connect(addr, &sockets, 10), [0, 0, 10], "core 3 is the last of three now");
    }

    /// Regression: the message named a missing right, regardless of the kernel's reason.
    #[test]
    fn a_right_is_named_only_where_one_is_missing() {
        let said = |code| refusal(&io::Error::from_raw_os_error(code));
        assert!(said(1).contains("CAP_BPF"), "EPERM");
        for code in [22, 38] {
            assert!(!said(code).contains("CAP_BPF") && said(code).contains("os error"), "{}", said(code));
        }
    }
}
