//! The measurements as text: a machine of the simulator, in TOML.
//!
//! Maps each number to its meaning, and says in the text which numbers were measured and which
//! assumed. A regular tree is written in hwloc's notation.

use std::fmt::Write;

use vermeil_sched::Distance;
use vermeil_topology::{Cache, CacheKind, Machine, synthetic};

use crate::{Calibration, MeasureEffort};

/// Cache lines that a scan moves for each event: an entry of the runtime's queue of events is eight
/// bytes of 64.
const SCAN_LINES: f64 = 8.0 / 64.0;

impl Calibration {
    /// The machine as a file of the simulator.
    pub fn to_toml(&self, machine: &Machine) -> String {
        let mut text = String::new();
        if self.effort == MeasureEffort::Smoke {
            text +=
                "# Measured in a moment (--quick): the figures are rough, they only show that it works.\n";
        }
        text.push_str(
            "# This machine, as `vermeil sim calibrate` measured it. Latencies are steps of a pointer chase on ordinary pages,\n\
             # bandwidth is that of all cores reading in order, lines are half of a round trip. Assumed, not measured: an event's time is\n\
             # divided evenly between posting and running, sleeping costs what waking somebody does, a hint costs what a lock does, a scan\n\
             # moves the lines of the runtime's queue.\n",
        );
        let _infallible = write!(text, "name = \"here\"\nabout = \"{}\"\n", about(machine));
        match tree(machine) {
            Some(tree) => _ = writeln!(text, "topology = \"{tree}\""),
            None => {
                text += "# The tree is not regular: give it as an hwloc export, with this file as --costs.\n"
            }
        }
        let _infallible = writeln!(text, "mhz = {:.0}", self.mhz);
        for (level, ns) in &self.caches {
            let _infallible = write!(text, "\n[[cache]]\nlevel = {level}\nlatency_ns = {}\n", number(*ns));
        }
        let memory = &self.memory;
        text += "\n[memory]\n";
        if let Some((level, _)) = self.caches.iter().find(|(_, ns)| memory.latency_ns <= *ns) {
            let _infallible = writeln!(
                text,
                "# Not to be believed: a step here took no longer than in the cache of level {level}. A cache held what the chase goes \
                 through, or something else ran here."
            );
        }
        let _infallible = write!(
            text,
            "latency_ns = {}\ngb_per_s = {}\noverlap_sequential = {}\n",
            number(memory.latency_ns),
            number(memory.gb_per_s),
            number(memory.overlap)
        );
        self.costs(&mut text);
        text
    }

    fn costs(&self, text: &mut String) {
        let (operations, wake) = (&self.operations, &self.wake);
        let half_event = operations.event_ns / 2.0;
        let _infallible = write!(
            text,
            "\n[costs]\n# An atomic addition takes {} ns.\ndispatch_ns = {}\npost_ns = {}\nlock_ns = {}\nsearch_ns = {}\nscan_lines = {}\n\
             syscall_ns = {}\npark_ns = {}\nwake_call_ns = {}\n\
             wake = {{ median_ns = {}, tail_ns = {}, tail_permille = 10 }}\n",
            number(operations.atomic_ns),
            number(half_event),
            number(half_event),
            number(operations.lock_ns),
            number(operations.lock_ns),
            number(SCAN_LINES),
            number(operations.syscall_ns),
            number(wake.call_ns),
            number(wake.call_ns),
            number(wake.median_ns),
            number(wake.tail_ns),
        );
        let lines: Vec<String> = self.lines.iter().filter_map(|&(distance, ns)| line(distance, ns)).collect();
        let _infallible = writeln!(text, "line = {{ {} }}", lines.join(", "));
    }
}

fn line(distance: Distance, ns: f64) -> Option<String> {
    let name = match distance {
        Distance::Same => return None,
        Distance::Smt => "smt",
        Distance::L2 => "l2",
        Distance::L3 => "l3",
        Distance::Node => "node",
        Distance::Hops(1) => "hop1",
        Distance::Hops(2) => "hop2",
        Distance::Hops(_) => "hop3",
    };
    Some(format!("{name} = {}", number(ns)))
}

fn about(machine: &Machine) -> String {
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "the machine at hand: {}, {}, {}",
        count(machine.nodes().len(), "node"),
        count(machine.cores().len(), "core"),
        count(machine.pus().len(), "cpu")
    )
}

/// Two digits behind the point; never less than a hundredth.
fn number(value: f64) -> String {
    format!("{:.2}", value.clamp(0.01, 1e9))
}

/// The tree in hwloc's notation, if every node, cache and core has an equal number of children.
fn tree(machine: &Machine) -> Option<String> {
    let nodes = machine.nodes().len();
    let mut text = format!("node:{nodes}");
    let mut above = nodes;
    for level in [4, 3, 2] {
        let of_level = |cache: &&Cache| cache.level == level && cache.kind != CacheKind::Instruction;
        let caches: Vec<&Cache> = machine.caches().iter().filter(of_level).collect();
        if caches.is_empty() {
            continue;
        }
        let each = exactly(caches.len(), above)?;
        let size = caches[0].bytes.map_or(String::new(), |bytes| format!("(size={}KiB)", bytes >> 10));
        let _infallible = write!(text, " l{level}:{each}{size}");
        above = caches.len();
    }
    let cores = machine.cores().len();
    let _infallible =
        write!(text, " core:{} pu:{}", exactly(cores, above)?, exactly(machine.pus().len(), cores)?);
    // The written text must parse to the same machine.
    let read = synthetic::parse(&text).ok()?;
    (read.pus().len() == machine.pus().len()).then_some(text)
}

/// The number per parent, if the division is exact.
fn exactly(count: usize, above: usize) -> Option<usize> {
    (above > 0 && count.is_multiple_of(above)).then(|| count / above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::Wake;
    use crate::memory::MeasuredMemory;
    use crate::operations::Operations;

    fn measured(effort: MeasureEffort, memory_ns: f64) -> String {
        let memory = MeasuredMemory { latency_ns: memory_ns, gb_per_s: 9.0, overlap: 2.0 };
        let operations = Operations { lock_ns: 9.0, atomic_ns: 5.0, syscall_ns: 90.0, event_ns: 50.0 };
        let wake = Wake { call_ns: 900.0, median_ns: 4_000.0, tail_ns: 9_000.0 };
        let caches = vec![(2, 4.0), (3, 20.0)];
        let calibration =
            Calibration { effort, mhz: 3_000.0, caches, memory, operations, lines: Vec::new(), wake };
        calibration.to_toml(&synthetic::parse("node:1 core:2 pu:1").unwrap())
    }

    /// Regression: the figures of a smoke run looked like real figures, and memory could be faster
    /// than a cache without a warning.
    #[test]
    fn figures_that_mean_little_say_so() {
        let (full, quick) = (measured(MeasureEffort::Full, 90.0), measured(MeasureEffort::Smoke, 15.0));
        assert!(!full.contains("--quick") && !full.contains("Not to be believed"), "{full}");
        assert!(quick.starts_with("# Measured in a moment (--quick)"), "{quick}");
        assert!(
            quick.contains("# Not to be believed: a step here took no longer than in the cache of level 3."),
            "{quick}"
        );
    }

    #[test]
    fn a_regular_tree_is_read_as_it_was_written() {
        for text in ["node:2 l3:2(size=32MiB) l2:4(size=1MiB) core:1 pu:2", "node:1 core:2 pu:1"] {
            let machine = synthetic::parse(text).unwrap();
            let again = synthetic::parse(&tree(&machine).unwrap()).unwrap();
            assert_eq!(again.pus().len(), machine.pus().len());
            assert_eq!(again.caches(), machine.caches(), "{text}");
        }
        assert_eq!((exactly(6, 3), exactly(7, 3), exactly(1, 0)), (Some(2), None, None));
    }
}
