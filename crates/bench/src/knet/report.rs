//! The tables of the bench and their explanation.

use super::bed::{KnetReceiving, Urgency};
use crate::options::BenchOptions;
use crate::points::Points;
use crate::report::BenchReport;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** *NAPI* polls one queue on one cpu. *CLAS* passes its packets to all cpus by a hash of their \
addresses (RPS). *KNET* has a queue for each cpu, chosen by the sender as a classifying card would, and a kernel \
thread on each cpu polls its queue. With NAPI a hash assigns connections to the server's cores; otherwise each core \
takes the connections whose packets arrive on its cpu. *Requests per cpu second* count the whole machine, load \
included, because the kernel hardly ever charges receiving to the server. *On their cpu* is the share of reads on the \
cpu that had handled the packets. *Receiving* is the share of all cpu time in the kernel's interrupts and in the \
polling threads. *Switches per packet* is the number of context switches for each packet in or out. In the flood, \
*goodput* are good answers within a second, relative to the arrived requests. There, receiving is a thread on the \
server's cpu: before everything else (`SCHED_FIFO` 50), equal to everything else (nice 0), or after the server (nice \
10).

**What it does not show.** A card: the sender's cpu does the work of a card and of the wire. The load has the same two \
cpus as the server, so differences between the ways of receiving are mostly the cost of additional steps. A flood of \
more than one cpu, because sockets send a third of a million packets a second. Dropping these packets takes the \
receiving cpu only a part of its time. So none of the three ways collapses, not even receiving before everything else, \
and their behaviour beyond that rate is not visible. Classification by a program in front of the kernel's stack (XDP \
with a cpumap), which was not run.";

/// The finished bench.
pub(super) fn report(options: &BenchOptions, points: &Points) -> BenchReport {
    let parameters = vec![
        ("load", format!("vermeil load between two namespaces{}", options.size.note())),
        ("rounds", options.rounds.to_string()),
    ];
    BenchReport::new("knet", "where packets are handled, and how urgently", &options.repository, parameters)
        .with_points(points)
        .with_table(paths(points))
        .with_table(floods(points))
        .with_how_to_read(HOW_TO_READ)
}

fn paths(points: &Points) -> CellTable {
    let head = [
        "asked for",
        "receiving",
        "requests per cpu second",
        "spread",
        "on their cpu",
        "receiving time",
        "switches per packet",
    ];
    let mut table = CellTable::new(2, &head);
    for (asked, receiving) in points.cells() {
        if !KnetReceiving::ALL.iter().any(|known| known.name() == receiving) {
            continue;
        }
        table.push([
            asked.into(),
            receiving.into(),
            points.median(asked, receiving, "requests_per_cpu_s"),
            points.spread(asked, receiving, "requests_per_cpu_s"),
            percent(points, asked, receiving, "here_share"),
            percent(points, asked, receiving, "receiving_share"),
            points.median(asked, receiving, "switches_per_packet"),
        ]);
    }
    table
}

/// A curve in each column, a flood in each row.
fn floods(points: &Points) -> CellTable {
    let mut head = vec!["flood", "packets sent per second"];
    head.extend(Urgency::ALL.map(Urgency::name));
    let mut table = CellTable::new(1, &head);
    for (flood, urgency) in points.cells() {
        // Each flood once, whichever urgency came first.
        let is_first = points.cells().iter().find(|(other, _)| *other == flood) == Some(&(flood, urgency));
        if !is_first || !Urgency::ALL.iter().any(|known| known.name() == urgency) {
            continue;
        }
        let mut row = vec![flood.to_owned(), points.median(flood, urgency, "flood_per_s")];
        row.extend(Urgency::ALL.map(|urgency| percent(points, flood, urgency.name(), "goodput_share")));
        table.push(row);
    }
    table
}

fn percent(points: &Points, program: &str, variant: &str, metric: &str) -> String {
    let summary = points.summary(program, variant, metric);
    summary.map(|summary| format!("{:.1} %", summary.median * 100.0)).unwrap_or_default()
}
