use proptest::prelude::*;

use super::*;
use crate::draft::Draft;
use crate::{CoreClass, synthetic};

fn allowed(cpus: &str, cpu_limit: Option<f64>) -> Allowed {
    let reasons = vec![format!("affinity mask: cpus {cpus}")];
    Allowed { cpus: cpus.parse().expect("a cpu list"), cpu_limit, reasons }
}

fn chosen(machine: &Machine, allowed: &Allowed, asked: &str) -> Result<Vec<u32>, String> {
    let selection: CoreSelection = asked.parse().map_err(|error: TopologyError| error.to_string())?;
    let cpus = selection.resolve(machine, allowed).map_err(|error| error.to_string())?;
    Ok(cpus.into_iter().map(|cpu| cpu.0).collect())
}

#[test]
fn cores_come_before_threads_and_a_node_before_the_next() {
    let machine = synthetic::parse("node:2 l3:2 core:2 pu:2").expect("a machine");
    let everything = Allowed::everything(&machine);
    let check = |allowed: &Allowed, asked, cpus: &[u32]| {
        assert_eq!(chosen(&machine, allowed, asked).as_deref(), Ok(cpus), "{asked}");
    };
    check(&everything, "3", &[0, 2, 4]);
    check(&everything, "9", &[0, 2, 4, 6, 8, 10, 12, 14, 1]);
    check(&everything, "all", &[0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15]);
    check(&everything, "9,8,0-1", &[0, 1, 8, 9]);
    check(&everything, "3-3", &[3]);
    // The second node has more allowed cores. The second thread of a core whose first thread is not
    // allowed is as good as a first.
    check(&allowed("1-2,8-13", None), "all", &[8, 10, 12, 1, 2, 9, 11, 13]);
    check(&allowed("1-2,8-13", Some(1.5)), "all", &[8, 10]);
    check(&allowed("1-2,8-13", Some(1.5)), "3", &[8, 10, 12]);
}

#[test]
fn nearer_nodes_and_bigger_cores_come_first() {
    let mut draft = Draft { cpus: "0-5".parse().expect("a list"), ..Draft::default() };
    for (id, cpus) in [(0, "0-3"), (1, "4"), (2, "5")] {
        let cpus = cpus.parse().expect("a list");
        draft.nodes.push(crate::Node { id: NodeId(id), cpus, memory_bytes: 0 });
    }
    draft.cores =
        vec![PhysicalCore { class: CoreClass::Efficient, ..PhysicalCore::of("0".parse().expect("a list")) }];
    draft.distances.insert((NodeId(0), NodeId(1)), 22);
    draft.distances.insert((NodeId(0), NodeId(2)), 16);
    let machine = draft.finish().expect("a machine");
    assert_eq!(chosen(&machine, &Allowed::everything(&machine), "6"), Ok(vec![1, 2, 3, 0, 5, 4]));
}

#[test]
fn errors_name_the_cpu_and_those_that_may_be_used() {
    let mut machine = synthetic::parse("core:4 pu:1").expect("a machine");
    machine.offline = "6".parse().expect("a list");
    let may = "cpus that may be used: 0-1 (affinity mask: cpus 0-1)";
    let cases = [
        ("0-2", format!("--cores 0-2: cpu 2 is not allowed to this process; {may}")),
        ("0,6", format!("--cores 0,6: cpu 6 is offline; {may}")),
        ("9-9", format!("--cores 9-9: cpu 9 does not exist on this machine; {may}")),
        ("3", format!("--cores 3: 3 cpus asked for, 2 allowed; {may}")),
        ("0", "--cores 0: a server needs at least one core".to_owned()),
        ("1,^1", "--cores 1,^1: the list leaves no cpu".to_owned()),
        ("some", "--cores some: write all, a number of cores, or a list of cpus such as 0-7,^3".to_owned()),
        ("0-x", "cpu list \"0-x\", column 1: \"x\" is not a cpu number; write it like 0-7,^3".to_owned()),
    ];
    for (asked, message) in cases {
        assert_eq!(chosen(&machine, &allowed("0-1", None), asked), Err(message));
    }
    let nothing = chosen(&machine, &allowed("7", None), "all").expect_err("no cpu in common");
    assert!(nothing.contains("1 cpus asked for, 0 allowed"), "{nothing}");
}

proptest! {
    #[test]
    fn any_text_is_safe_and_printed_selection_reads_back(text in "[0-9,^-]{0,8}|.{0,8}") {
        if let Ok(selection) = text.parse::<CoreSelection>() {
            prop_assert_eq!(selection.to_string().parse::<CoreSelection>().expect("as printed"), selection);
        }
    }

    #[test]
    fn a_choice_is_that_many_different_allowed_cpus(bits in 1..u32::MAX, count in 1..32_usize) {
        let machine = synthetic::parse("node:2 l3:2 core:4 pu:2").expect("a machine");
        let cpus: CpuSet = (0..32).filter(|bit| bits >> bit & 1 == 1).map(CpuId).collect();
        let allowed = Allowed { cpus: cpus.clone(), ..Allowed::everything(&machine) };
        match CoreSelection::Count(count).resolve(&machine, &allowed) {
            Ok(order) => {
                let set: CpuSet = order.iter().copied().collect();
                prop_assert_eq!((order.len(), set.len()), (count, count));
                prop_assert!(set.is_subset(&cpus));
            }
            Err(_) => prop_assert!(count > cpus.len()),
        }
    }
}
