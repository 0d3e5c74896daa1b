//! Which core takes a request's connection: the ways of `vermeil serve --balance`, on the simulated machine.
//!
//! Owns the choice among cores whose queues have other packets, and what each node has under way. The rule of
//! `load-aware` is that of the program in the kernel (`crates/steer/bpf/accept.bpf.c`), with the work of a node in place of
//! a core's, since the cores of an instance take from each other. Leaves out where packets come (`arrive.rs`). Compared in
//! `reproduce/modes.rs`.

use vermeil_sched::CoreIndex;

use super::World;
use crate::machine::Machine;
use crate::random::{self, Purpose};
use crate::watch::Watch;
use crate::workload::Accept;

/// Work that waits for a node, above which its connections may go elsewhere; below half of it they stay again. The
/// kernel program's.
const BOUND_NS: u64 = 1_000_000;

/// What a node has to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeLoad {
    /// Its cores.
    cores: u64,
    /// Requests that were accepted there and are not answered.
    under_way: u64,
    /// Requests answered there, and the time its cores have worked: how long one takes.
    answered: u64,
    worked_ns: u64,
}

/// The state of the choice of an accepting core.
#[derive(Clone, Debug)]
pub(super) struct Accepting {
    nodes: Vec<NodeLoad>,
    /// By core, whether its connections go elsewhere.
    elsewhere: Vec<bool>,
    /// The next core of round-robin.
    next: u32,
}

impl Accepting {
    pub(super) fn new(machine: &Machine) -> Self {
        let mut nodes = vec![NodeLoad::default(); machine.nodes()];
        machine.layout().indices().for_each(|core| nodes[machine.node(core)].cores += 1);
        Self { nodes, elsewhere: vec![false; machine.cores()], next: 0 }
    }
}

impl<W: Watch> World<W> {
    /// The core that takes the connection of a client's request whose packets come to `home`; `key` is the request's.
    pub(super) fn accept_on(&mut self, client: u32, home: CoreIndex, key: u64) -> CoreIndex {
        let (number, source) = {
            let client = &self.clients[client as usize];
            (client.number, usize::from(client.source))
        };
        let cores = self.cores.len() as u32;
        let drawn = |purpose, key| {
            CoreIndex(random::scale(random::draw(self.options.seed, purpose, key), cores.into()) as u32)
        };
        let chosen = match self.program.sources[source].accept {
            Accept::Local => home,
            Accept::Hash => drawn(Purpose::Accept, key),
            Accept::Fixed => drawn(Purpose::Accept, number.into()),
            Accept::RoundRobin => {
                self.accepting.next = (self.accepting.next + 1) % cores;
                CoreIndex(self.accepting.next)
            }
            Accept::LoadAware => self.by_load(home),
        };
        let chosen = self.next_there(chosen);
        self.accepting.nodes[self.machine.node(chosen)].under_way += 1;
        chosen
    }

    /// The connection's core has answered.
    pub(super) fn accepted_is_answered(&mut self, core: CoreIndex) {
        let load = &mut self.accepting.nodes[self.machine.node(core)];
        load.under_way -= 1;
        load.answered += 1;
    }

    /// A core has worked.
    pub(super) fn count_work(&mut self, core: CoreIndex, run_ns: u64) {
        self.accepting.nodes[self.machine.node(core)].worked_ns += run_ns;
    }

    /// `home`, unless a core of another node waits less than half as long; the nearest of the best.
    fn by_load(&mut self, home: CoreIndex) -> CoreIndex {
        let wait_ns = self.node_wait_ns(self.machine.node(home));
        let goes_elsewhere = self.accepting.elsewhere[home.0 as usize];
        let bound_ns = if goes_elsewhere { BOUND_NS / 2 } else { BOUND_NS };
        if wait_ns <= bound_ns {
            self.accepting.elsewhere[home.0 as usize] = false;
            return home;
        }
        let neighbours = self.machine.layout().neighbours(home).iter();
        let best = neighbours
            .map(|&core| (self.node_wait_ns(self.machine.node(core)), core))
            .min_by_key(|&(wait_ns, _)| wait_ns);
        match best {
            Some((least_ns, core)) if least_ns < wait_ns / 2 => {
                self.accepting.elsewhere[home.0 as usize] = true;
                core
            }
            _ => home,
        }
    }

    /// How long a new request waits on a node: what is under way there, as time, by all its cores.
    fn node_wait_ns(&self, node: usize) -> u64 {
        let NodeLoad { cores, under_way, answered, worked_ns } = self.accepting.nodes[node];
        under_way * (worked_ns / answered.max(1)) / cores.max(1)
    }
}
