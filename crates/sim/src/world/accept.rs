//! The core that accepts a request's connection: the modes of `vermeil serve --balance`, on the
//! simulated machine.
//!
//! Owns the choice of the core, and the unanswered work of each node. The rule of `load-aware` is
//! the rule of the kernel program (`crates/steer/bpf/accept.bpf.c`). The work of a node stands in
//! place of a core's work, because the cores of an instance steal from each other. Leaves out where
//! packets arrive (`arrive.rs`). Compared in `reproduce/modes.rs`.

use vermeil_sched::CoreIndex;

use super::World;
use crate::machine::SimMachine;
use crate::random::{self, StreamPurpose};
use crate::watch::Watch;
use crate::workload::Accept;

/// Wait on a node above which the node's connections may go elsewhere. Below half of the bound the
/// connections stay again. As in the kernel program.
const BOUND_NS: u64 = 1_000_000;

/// The load of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeLoad {
    /// Number of cores.
    cores: u64,
    /// Requests that were accepted on the node and are not answered.
    under_way: u64,
    /// Answered requests, and the time that the node's cores have worked. The quotient is the time
    /// of a request.
    answered: u64,
    worked_ns: u64,
}

/// The state of the choice of an accepting core.
#[derive(Clone, Debug)]
pub(super) struct AcceptChoice {
    nodes: Vec<NodeLoad>,
    /// By core, whether the core's connections go elsewhere.
    elsewhere: Vec<bool>,
    /// The next core of round-robin.
    next: u32,
}

impl AcceptChoice {
    pub(super) fn new(machine: &SimMachine) -> Self {
        let mut nodes = vec![NodeLoad::default(); machine.nodes()];
        machine.layout().indices().for_each(|core| nodes[machine.node(core)].cores += 1);
        Self { nodes, elsewhere: vec![false; machine.cores()], next: 0 }
    }
}

impl<W: Watch> World<W> {
    /// The core that accepts the connection of a client's request whose packets arrive on `home`.
    /// `key` identifies the request.
    pub(super) fn accept_on(&mut self, client: u32, home: CoreIndex, key: u64) -> CoreIndex {
        let (number, source) = {
            let client = &self.arrivals.clients[client as usize];
            (client.number, usize::from(client.source))
        };
        let cores = self.cores.len() as u32;
        let drawn = |purpose, key| {
            CoreIndex(random::scale(random::draw(self.given.options.seed, purpose, key), cores.into()) as u32)
        };
        let chosen = match self.given.program.sources[source].accept {
            Accept::Local => home,
            Accept::Hash => drawn(StreamPurpose::Accept, key),
            Accept::Fixed => drawn(StreamPurpose::Accept, number.into()),
            Accept::RoundRobin => {
                self.arrivals.accepting.next = (self.arrivals.accepting.next + 1) % cores;
                CoreIndex(self.arrivals.accepting.next)
            }
            Accept::LoadAware => self.by_load(home),
        };
        let chosen = self.next_there(chosen);
        self.arrivals.accepting.nodes[self.given.machine.node(chosen)].under_way += 1;
        chosen
    }

    /// Counts an answer by the core that accepted the connection.
    pub(super) fn accepted_is_answered(&mut self, core: CoreIndex) {
        let load = &mut self.arrivals.accepting.nodes[self.given.machine.node(core)];
        load.under_way -= 1;
        load.answered += 1;
    }

    /// Counts the work of a core.
    pub(super) fn count_work(&mut self, core: CoreIndex, run_ns: u64) {
        self.arrivals.accepting.nodes[self.given.machine.node(core)].worked_ns += run_ns;
    }

    /// `home`, if the wait on the node of `home` is within the bound. Otherwise the nearest core of
    /// the least loaded node, if the wait on that node is less than half of the wait here.
    fn by_load(&mut self, home: CoreIndex) -> CoreIndex {
        let wait_ns = self.node_wait_ns(self.given.machine.node(home));
        let goes_elsewhere = self.arrivals.accepting.elsewhere[home.0 as usize];
        let bound_ns = if goes_elsewhere { BOUND_NS / 2 } else { BOUND_NS };
        if wait_ns <= bound_ns {
            self.arrivals.accepting.elsewhere[home.0 as usize] = false;
            return home;
        }
        let neighbours = self.given.machine.layout().neighbours(home).iter();
        let best = neighbours
            .map(|&core| (self.node_wait_ns(self.given.machine.node(core)), core))
            .min_by_key(|&(wait_ns, _)| wait_ns);
        match best {
            Some((least_ns, core)) if least_ns < wait_ns / 2 => {
                self.arrivals.accepting.elsewhere[home.0 as usize] = true;
                core
            }
            _ => home,
        }
    }

    /// Wait of a new request on a node: the time of all unanswered requests, divided by the number
    /// of cores.
    fn node_wait_ns(&self, node: usize) -> u64 {
        let NodeLoad { cores, under_way, answered, worked_ns } = self.arrivals.accepting.nodes[node];
        under_way * (worked_ns / answered.max(1)) / cores.max(1)
    }
}
