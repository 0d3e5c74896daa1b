//! The modes of `vermeil serve --balance`, on the workload of tables 4 to 6 of Apache on four nodes
//! (Gaud et al., 2011).
//!
//! In the document, clients chose a network card, and packets, connection and work followed. Here,
//! packets come to a random card, as with a card that hashes, and the server chooses. A core may
//! accept a connection whose packets arrive on a core of another node. Then the core reads received
//! data across nodes, and frees sent data across nodes, because the memory of packets stays on the
//! other node. If packets and connection are on one core, all lines are those of `numa-nodes`.

use super::numa::{ClientSearch, FAST, GOOD_NS, N_COPY, SLOW, SOURCE, machine, of_nodes, run_program, spec};
use super::{Findings, MATCHES, Reproduction, RunEffort};
use crate::SimError;
use crate::machine::SimMachine;
use crate::results::Results;
use crate::workload::{
    Accept, CompiledProgram, ObjectLife, ObjectSpec, SourceQueue, TouchSpec, WorkloadSpec,
};

pub(super) const MODES: Reproduction = Reproduction {
    name: "numa-modes",
    about: "slow and fast nodes under each way of the server's to accept (as tables 4, 5 and 6)",
    source: SOURCE,
    fitted: &["nothing beyond numa-clients"],
    run: modes,
};

/// Per request: the bytes that receiving writes and the program reads, and the bytes that sending
/// writes and the acknowledgement frees. The handlers `receive` and `acknowledge` of the workload
/// touch these.
const PACKETS: (&str, u64) = ("packets", 65_536);
const ANSWER: (&str, u64) = ("answer", 100_000);

const ACCEPTS: [(&str, Accept); 5] = [
    ("hash", Accept::Hash),
    ("fixed", Accept::Fixed),
    ("round-robin", Accept::RoundRobin),
    ("local", Accept::Local),
    ("load-aware", Accept::LoadAware),
];

/// Clients of each processor, as in the tables.
const CLIENTS: [u32; 4] = [6_800, 7_200, 8_000, 8_800];

/// Number of clients at which the slow nodes are overloaded and the fast nodes are not.
const CONTESTED: u32 = 8_000;

fn modes(effort: RunEffort) -> Result<Findings, SimError> {
    let mut findings = Findings::new();
    let machine = machine(&[0, 1, 2, 3])?;
    let (ways, clients) = match effort {
        RunEffort::Full => (&ACCEPTS[..], &CLIENTS[..]),
        RunEffort::Quick => (&ACCEPTS[3..], &CLIENTS[2..3]),
    };
    // Good requests of all nodes at `CONTESTED` clients, where the tables' best way of injecting no
    // longer serves all clients well: of the last mode, and the best of the other modes.
    let (mut good, mut others) = (0.0, 0.0);
    for &(name, accept) in ways {
        others = f64::max(others, good);
        for &clients in clients {
            let results = run(accept, &machine, clients)?;
            add_nodes(&mut findings, name, clients, &machine, &results);
            if clients == CONTESTED {
                good = results.latency.within_permille(GOOD_NS) as f64 / 10.0;
            }
        }
    }
    let name = format!("load-aware against the best other, {CONTESTED} clients, good, points");
    findings.add_ours(name, good - others, MATCHES);
    if effort == RunEffort::Full {
        for (name, accept) in ACCEPTS {
            let clients = ClientSearch::FULL.most(|clients| run(accept, &machine, clients))?;
            findings.add_modelled(format!("{name}: clients each"), clients, (0.0, f64::INFINITY));
        }
    }
    Ok(findings)
}

fn add_nodes(findings: &mut Findings, name: &str, clients: u32, machine: &SimMachine, results: &Results) {
    for (class, nodes) in [("slow", SLOW), ("fast", FAST)] {
        let what = ["good, %", "tolerable, %", "processor, %"];
        for (what, ours) in what.into_iter().zip(of_nodes(machine, results, nodes)) {
            let name = format!("{name}, {clients} clients, {class} nodes: {what}");
            findings.add_modelled(name, ours, (0.0, 101.0));
        }
    }
}

fn run(accept: Accept, machine: &SimMachine, clients: u32) -> Result<Results, SimError> {
    let mut spec = spec(N_COPY, clients, machine.nodes() as u32)?;
    for source in &mut spec.source {
        (source.choice, source.accept) = (SourceQueue::Hash, accept);
    }
    give_packets_memory(&mut spec);
    run_program(N_COPY, machine, &CompiledProgram::new(&spec)?)
}

/// Moves packets and answers from the heap, whose memory is near the work, to objects whose memory
/// is on the node of the first touch.
fn give_packets_memory(spec: &mut WorkloadSpec) {
    for (name, bytes) in [PACKETS, ANSWER] {
        let object = ObjectSpec {
            name: name.to_owned(),
            bytes,
            life: ObjectLife::Request,
            count: 1,
            ..spec.object[0].clone()
        };
        spec.object.push(ObjectSpec { home: "touch".to_owned(), skew_milli: 0, streamed: true, ..object });
    }
    for handler in &mut spec.handler {
        let moved = match handler.name.as_str() {
            "receive" | "apache" => PACKETS,
            "send" | "acknowledge" => ANSWER,
            _ => continue,
        };
        let Some(at) = handler.touch.iter().position(|touch| touch.object == "heap") else { continue };
        let heap = handler.touch[at].clone();
        let left = heap.bytes.unwrap_or(0).saturating_sub(moved.1);
        handler.touch[at].bytes = Some(left);
        handler.touch.insert(at, TouchSpec { object: moved.0.to_owned(), bytes: Some(moved.1), ..heap });
        handler.touch.retain(|touch| touch.bytes != Some(0));
    }
}
