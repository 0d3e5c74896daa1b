//! The ways in which `vermeil serve --balance` gives connections to cores, where tables 4 to 6 of Apache on four nodes were
//! measured (Gaud et al., 2011).
//!
//! There clients chose a network card, and packets, connection and work went with it. Here packets come to a card by
//! chance, as with a card that hashes, and the server chooses. A connection that is taken on another core than its
//! packets' has its packets' memory there and its work here: what was received is read across, what was sent is freed
//! across. Where both are on one core, all lines are those of `numa-nodes`.

use super::numa::{FAST, GOOD_NS, N_COPY, SLOW, SOURCE, machine, most, of_nodes, run_program, spec};
use super::{Effort, Findings, MATCHES, Reproduction};
use crate::Error;
use crate::machine::Machine;
use crate::results::Results;
use crate::workload::{Accept, Choice, Life, ObjectSpec, Program, TouchSpec, WorkloadSpec};

pub(super) const MODES: Reproduction = Reproduction {
    name: "numa-modes",
    about: "slow and fast nodes under each way of the server's to accept (as tables 4, 5 and 6)",
    source: SOURCE,
    fitted: &["nothing beyond numa-clients"],
    run: modes,
};

/// Of each request, what receiving writes and the program reads, and what sending writes and the acknowledgement frees: what
/// the workload's handlers `receive` and `acknowledge` touch.
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

/// Where slow nodes have too much to do and fast ones do not.
const CONTESTED: u32 = 8_000;

/// The step in which the most clients are searched for.
const STEP: u32 = 100;

fn modes(effort: Effort) -> Result<Findings, Error> {
    let mut findings = Findings::new();
    let machine = machine(&[0, 1, 2, 3])?;
    let (ways, clients) = match effort {
        Effort::Full => (&ACCEPTS[..], &CLIENTS[..]),
        Effort::Quick => (&ACCEPTS[3..], &CLIENTS[2..3]),
    };
    // Good requests of all nodes where the tables' best way of injecting no longer serves all well, the last way's apart.
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
    if effort == Effort::Full {
        for (name, accept) in ACCEPTS {
            let clients = most(STEP, |clients| run(accept, &machine, clients))?;
            findings.add_modelled(format!("{name}: clients each"), clients, (0.0, f64::INFINITY));
        }
    }
    Ok(findings)
}

fn add_nodes(findings: &mut Findings, name: &str, clients: u32, machine: &Machine, results: &Results) {
    for (class, nodes) in [("slow", SLOW), ("fast", FAST)] {
        let what = ["good, %", "tolerable, %", "processor, %"];
        for (what, ours) in what.into_iter().zip(of_nodes(machine, results, nodes)) {
            let name = format!("{name}, {clients} clients, {class} nodes: {what}");
            findings.add_modelled(name, ours, (0.0, 101.0));
        }
    }
}

fn run(accept: Accept, machine: &Machine, clients: u32) -> Result<Results, Error> {
    let mut spec = spec(N_COPY, clients, machine.nodes() as u32)?;
    for source in &mut spec.source {
        (source.choice, source.accept) = (Choice::Hash, accept);
    }
    give_packets_memory(&mut spec);
    run_program(N_COPY, machine, &Program::new(&spec)?)
}

/// Takes packets and answers out of the heap, which is wherever the work is.
fn give_packets_memory(spec: &mut WorkloadSpec) {
    for (name, bytes) in [PACKETS, ANSWER] {
        let object = ObjectSpec {
            name: name.to_owned(),
            bytes,
            life: Life::Request,
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
