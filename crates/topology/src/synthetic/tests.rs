use proptest::prelude::*;

use super::*;

#[test]
fn every_spelling_of_a_level_is_understood() {
    let spellings = [
        "pack:1 numa:2 l3:1 core:2 pu:1",
        "Package:1 NUMANode:2 L3Cache:1 Core:2 PU:1",
        "socket:1 node:2 l3u:1 co:2 1",
        "  machine:1 pa:1 nu:2 L3:1 CORE:2 pu:1  ",
        "pack:1 die:1 group:1 no:2 l3:1 core:2 pu:1",
    ];
    let machines = spellings.map(|text| parse(text).unwrap_or_else(|error| panic!("{error}")));
    assert!(machines.iter().all(|machine| *machine == machines[0]));
    assert_eq!((machines[0].nodes().len(), machines[0].cores().len()), (2, 4));
}

#[test]
fn bare_numbers_get_hwlocs_levels() {
    let same = [("2 3", "node:2 pu:3"), ("2 3 4", "pack:2 node:3 pu:4"), ("4", "pu:4")];
    let long = ("1 2 1 2 1 1 1 2", "pack:1 node:2 l3:1 l2:2 l1d:1 l1i:1 core:1 pu:2");
    for (numbers, names) in same.into_iter().chain([long]) {
        assert_eq!(parse(numbers).expect(numbers), parse(names).expect(names));
    }
}

#[test]
fn attributes_give_sizes_and_numbers() {
    let machine =
        parse("node:2(memory=8GiB indexes=4,2) l2:1(size=512kB) core:2 pu:2(indexes=4*2:2*2)").expect("text");
    let nodes: Vec<_> = machine.nodes().iter().map(|node| (node.id.0, node.memory_bytes >> 30)).collect();
    assert_eq!(nodes, [(2, 8), (4, 8)]);
    assert_eq!(machine.caches()[0].bytes, Some(512_000));
    // hwloc's numbering: node first, then core, then thread.
    let cores: Vec<_> = machine.cores().iter().map(|core| core.cpus.to_string()).collect();
    assert_eq!(cores, ["0,4", "1,5", "2,6", "3,7"]);
    assert_eq!(machine.nodes()[1].cpus.to_string(), "0,2,4,6");
}

#[test]
fn brackets_attach_nodes_beside_and_the_first_takes_the_cpus() {
    let machine = parse("pack:2 [numa(memory=4GiB)] [numa] core:2 pu:1").expect("text");
    let nodes: Vec<_> = machine.nodes().iter().map(|node| node.cpus.to_string()).collect();
    assert_eq!(nodes, ["0-1", "2-3", "", ""]);
}

#[test]
fn errors_name_the_column_and_the_nearest_word() {
    let cases = [
        ("node:2 cour:4 pu:1", "column 8: unknown level \"cour\"; did you mean \"core\"?"),
        ("nöde:2 pu:1", "column 1: unknown level \"nöde\"; did you mean \"node\"?"),
        ("n:2 pu:1", "column 1: unknown level \"n\"; did you mean"),
        ("node:2 core:4", "column 14: the last level must be pu; add pu:1"),
        ("pu:2 core:4 pu:1", "column 1: pu must be the last level"),
        ("core 4 pu:1", "column 5: expected \":\" and a count, as in core:4, found \" \""),
        ("core:x pu:1", "column 6: expected a count"),
        ("core:0 pu:1", "column 6: a level of 0 objects"),
        ("core:2 core:2 pu:1", "column 8: a second core level"),
        ("core:4096 pu:4", "column 11: more than 8192 objects"),
        ("node:2 2 2", "column 8: a number without a level name"),
        ("1 1 1 1 1 1 1 1 1", "column 17: hwloc has names for 8 bare numbers"),
        ("machine:2 pu:1", "column 1: a description is one machine"),
        ("l3:1(size=2XB) pu:1", "column 11: \"2XB\" is no size"),
        ("l3:1(sise=2) pu:1", "column 6: unknown attribute \"sise\""),
        ("l3:1(size=2", "column 12: expected size=, memory= or indexes=, and \")\" at the end"),
        ("pu:2(indexes=0,0)", "column 14: indexes must name 2 different numbers"),
        ("pu:4(indexes=3*2)", "column 14: indexes must name 4 different numbers"),
        ("core:2 pu:2(indexes=core:pu)", "column 21: \"core:pu\" is no index list"),
        ("pack:1 [l3] pu:1", "column 9: only a memory node can be attached"),
        ("pack:1 [numa pu:1", "column 13: expected \"]\", found \" \""),
        ("", "column 1: no level"),
        ("[numa]", "column 7: no level"),
    ];
    for (text, message) in cases {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

/// Regression: the distances of 28,224 nodes took more than a gigabyte.
#[test]
fn many_nodes_are_refused() {
    for (text, expected) in [
        ("04 6 1 7 6 1 7 [no][no][no][no]", "more than 1024 memory nodes"),
        ("node:2048 pu:1", "2048 memory nodes"),
    ] {
        let said = parse(text).expect_err("so many nodes are refused").to_string();
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(parse("node:1024 pu:1").expect("the largest machine").nodes.len(), 1024);
}

fn description() -> impl Strategy<Value = (String, usize)> {
    let names = ["pack", "node", "l3", "l2", "l1d", "core"];
    let counts = prop::collection::vec(prop::option::of(1..5_usize), names.len());
    (counts, 1..3_usize).prop_map(move |(counts, pus)| {
        let levels = names.iter().zip(counts).filter_map(|(name, count)| Some((name, count?)));
        levels.fold((format!("pu:{pus}"), pus), |(text, product), (name, count)| {
            let split = text.rfind("pu:").expect("it ends in pu");
            (format!("{}{name}:{count} {}", &text[..split], &text[split..]), product * count)
        })
    })
}

proptest! {
    #[test]
    fn the_cpus_are_the_product_of_the_levels((text, product) in description()) {
        match parse(&text) {
            Ok(machine) => prop_assert_eq!(machine.pus().len(), product),
            Err(error) => prop_assert!(product > CPUS_MAX as usize, "{}", error),
        }
    }

    #[test]
    fn no_text_panics(text in ".{0,30}|([a-z]{1,4}[:(\\[ ]?[0-9*,=)\\]]{0,3} ?){0,6}") {
        let _ = parse(&text);
    }
}
