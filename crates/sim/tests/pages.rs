//! The pages of the documentation against what a full run of the experiments prints.

use std::fs;
use std::path::Path;

use vermeil_sim::reproduce::{FigureCounts, Findings, RunEffort, reproductions};

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of `docs/numa.md`: for each way, one for the slow nodes and one for the fast nodes.
fn ways(findings: &Findings) -> Vec<String> {
    let ours = |name: &str| {
        let found = findings.figures.iter().find(|figure| figure.name == name);
        found.unwrap_or_else(|| panic!("no figure {name}")).ours
    };
    let names = ["hash", "fixed", "round-robin", "local", "load-aware"];
    let most = names.map(|way| ours(&format!("{way}: clients each"))).into_iter().fold(0.0, f64::max);
    let row = |way: &str, class: &str| {
        let cell = |clients: u32| {
            let of = ["good", "tolerable", "processor"];
            of.map(|what| {
                format!("{:.0}", ours(&format!("{way}, {clients} clients, {class} nodes: {what}, %")))
            })
            .join(" / ")
        };
        let cells = [6_800, 7_200, 8_000, 8_800].map(cell).join(" | ");
        if class == "fast" {
            return format!("| | fast | {cells} | |");
        }
        let served = ours(&format!("{way}: clients each"));
        let number = vermeil_sim::report::thousands(served as u64);
        let number = if served == most { format!("**{number}**") } else { number };
        format!("| `{way}` | slow | {cells} | {number} |")
    };
    names.iter().flat_map(|way| [row(way, "slow"), row(way, "fast")]).collect()
}

/// Regression: the pages held numbers of an older run.
#[test]
#[ignore = "runs every experiment at full length, which takes minutes"]
fn pages_hold_the_numbers_of_a_full_run() {
    let (mut counts, mut wrong) = (FigureCounts::default(), Vec::new());
    for experiment in reproductions() {
        let findings = experiment.run(RunEffort::Full).expect("a shipped experiment");
        counts.add(&findings);
        if experiment.name == "numa-modes" {
            let numa = page("numa.md");
            wrong.extend(ways(&findings).into_iter().filter(|row| !numa.contains(row.as_str())));
        }
    }
    let line = counts.to_string();
    if !page("simulator.md").contains(&line) {
        wrong.push(line);
    }
    assert!(wrong.is_empty(), "the pages lack these lines:\n{}", wrong.join("\n"));
}
