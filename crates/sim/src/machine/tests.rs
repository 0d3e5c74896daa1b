use super::*;

#[test]
fn every_shipped_machine_builds_under_its_own_name() {
    for name in profiles() {
        let machine = profile(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(machine.name(), name);
        assert!(machine.cores() >= 4 && !machine.cores[0].caches.is_empty());
    }
}

#[test]
fn the_opteron_has_two_fast_and_two_slow_nodes() {
    let machine = profile("opteron8380-4x4").unwrap();
    assert_eq!((machine.cores(), machine.nodes()), (16, 4));
    let hops = |from, to| machine.route(from, to).len();
    assert_eq!([0, 1, 2, 3].map(|from| (0..4).map(|to| hops(from, to)).max().unwrap()), [2, 1, 1, 2]);
    let through: Vec<u16> =
        machine.route(0, 3).iter().map(|&link| machine.links[usize::from(link)].to).collect();
    assert_eq!(through, [1, 3]);
    assert_eq!(machine.layout().distance(CoreIndex(0), CoreIndex(15)), Distance::Hops(2));
    assert_eq!(machine.layout().distance(CoreIndex(0), CoreIndex(4)), Distance::Hops(1));
    assert_eq!((machine.nics.len(), machine.nics[0], machine.nics[19]), (20, 0, 3));
}

#[test]
fn some_cores_of_a_machine_keep_their_caches_and_distances() {
    let machine = profile("xeon-2x4-l2pairs").unwrap();
    let some = machine.only(&[CoreIndex(2), CoreIndex(3), CoreIndex(7)]).unwrap();
    assert_eq!(some.cores(), 3);
    assert_eq!(some.layout().distance(CoreIndex(0), CoreIndex(1)), Distance::L2);
    assert_eq!(some.layout().distance(CoreIndex(0), CoreIndex(2)), Distance::Node);
    assert_eq!(some.caches.len(), machine.caches.len());
    assert!(machine.only(&[CoreIndex(8)]).is_err());
}

#[test]
fn policies_know_slow_cores_only_if_described() {
    let machine = profile("hybrid").unwrap();
    assert_eq!((machine.cores[0].speed_percent, machine.cores[8].speed_percent), (100, 55));
    assert!(machine.layout().capacity(CoreIndex(8)) < machine.layout().capacity(CoreIndex(0)));
}

#[test]
fn mistakes_are_named() {
    let text = profile_text("opteron8380-4x4").unwrap();
    let message = |text: &str| SimMachine::from_toml(text).unwrap_err().to_string();
    assert!(message(&text.replace("nodes = [0, 1]", "nodes = [0, 9]")).contains("node 9"));
    assert!(message(&text.replace("mhz =", "mzh =")).contains("mzh"));
    assert!(message(&text.replace("via = [1]", "via = [3]")).contains("no links lead"));
    assert!(profile("vax").unwrap_err().to_string().contains("epyc-2x64"));
}

/// Regression: the costs of a cache that the topology lacks had no effect, without a message.
#[test]
fn cost_of_unknown_cache_is_refused() {
    let text = profile_text("xeon5100-2x2").unwrap();
    let changed = text.replacen("[[cache]]\nlevel = 2", "[[cache]]\nlevel = 7", 1);
    assert_ne!(changed, text);
    let said = SimMachine::from_toml(&changed).unwrap_err().to_string();
    assert!(said.contains("[[cache]] level 7: the topology has the levels"), "{said}");
    // The same costs for another tree: the tree has another maker.
    let costs = MachineSpec::from_toml(text).unwrap();
    let bare = vermeil_topology::synthetic::parse("core:2 pu:1").unwrap();
    assert!(SimMachine::described("bare", &bare, &costs).is_ok());
}

/// Regression: a clock of 0 MHz and memory without bandwidth were accepted without an error.
#[test]
fn numbers_outside_their_range_are_refused() {
    let text = profile_text("xeon5100-2x2").unwrap();
    let refused = |key: &str, value: &str, words: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("no {key}"));
        let changed = text.replacen(line, &format!("{key} = {value}"), 1);
        let said = SimMachine::from_toml(&changed).expect_err(key).to_string();
        assert!(said.contains(words), "{key} = {value}: {said}");
    };
    refused("mhz", "0", "mhz = 0: allowed are 1 to 100000");
    let memory = text.find("[memory]").expect("a machine has memory");
    for (key, value) in [("gb_per_s", "0"), ("latency_ns", "-1")] {
        let at = memory + text[memory..].find(key).expect("memory has the key");
        let end = at + text[at..].find('\n').expect("a line ends");
        let changed = format!("{}{key} = {value}{}", &text[..at], &text[end..]);
        let said = SimMachine::from_toml(&changed).expect_err(key).to_string();
        assert!(said.contains(&format!("{key} of [memory] = {value}: allowed are")), "{said}");
    }
    refused("chunk_bytes", "100", "multiples of line_bytes");
}
