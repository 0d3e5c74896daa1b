//! Plans for recorded machines: the core of each queue, the changes, and the refusals.

use super::*;
use crate::fixture::Tree;

fn request(cores: &str) -> PlanRequest {
    let cores: CpuSet = cores.parse().unwrap();
    PlanRequest { cores: cores.iter().collect(), nics: Vec::new(), queues: Queues::Fit }
}

fn plan_of(tree: &Tree, request: &PlanRequest) -> SteerPlan {
    plan(&tree.machine(), &tree.network(), request).unwrap()
}

/// Changes as `setting: from -> to`.
fn changes(plan: &SteerPlan) -> Vec<String> {
    let text = |change: &PlannedChange| {
        let describe = |value| change.setting.describe(value);
        format!("{}: {} -> {}", change.setting, describe(&change.from), describe(&change.to))
    };
    plan.changes.iter().map(text).collect()
}

fn queues(nic: &NicPlan) -> Vec<(u32, Option<u32>, u32, String)> {
    nic.queues
        .iter()
        .map(|queue| (queue.queue, queue.irq, queue.cpu.0, queue.listeners.to_string()))
        .collect()
}

#[test]
fn a_transmit_led_card_is_left_alone_when_it_is_right() {
    let plan = plan_of(&Tree::of("virtio-four"), &request("0-3"));
    assert_eq!(plan.nics[0].class, SteerClass::TransmitLed);
    assert_eq!(changes(&plan), <[String; 0]>::default());
    assert_eq!(
        plan.nics[0].refusals,
        [
            "interrupt moderation: virtio_net does not adapt it to the load here (adaptive-rx)",
            "hash table: virtio_net offers none here (no VIRTIO_NET_F_RSS)"
        ]
    );
    assert!(plan.blockers.is_empty());
}

#[test]
fn a_transmit_led_card_follows_its_cores() {
    let tree = Tree::of("virtio-four");
    let plan = plan_of(&tree, &PlanRequest { queues: Queues::Keep, ..request("2-3") });
    assert_eq!(queues(&plan.nics[0]), [(0, Some(29), 2, "2".into()), (1, Some(31), 3, "3".into())]);
    assert_eq!(
        changes(&plan),
        [
            "interrupt 29 (virtio1-input.0) cpus: 0 -> 2",
            "interrupt 30 (virtio1-output.0) cpus: 0 -> 2",
            "eth0 tx-0 xps_cpus: 0 -> 2",
            "interrupt 31 (virtio1-input.1) cpus: 1 -> 3",
            "interrupt 32 (virtio1-output.1) cpus: 1 -> 3",
            "eth0 tx-1 xps_cpus: 1 -> 3",
            "eth0 tx-2 xps_cpus: 2 -> none",
            "eth0 tx-3 xps_cpus: 3 -> none",
        ]
    );
    assert!(plan.changes[2].why.contains("so this setting steers receiving"), "{}", plan.changes[2].why);
    assert!(plan.changes[0].why.contains("cpu 2 of node 1"), "{}", plan.changes[0].why);
}

#[test]
fn fewer_cores_than_queues_lower_the_queues_where_that_is_allowed() {
    let plan = plan_of(&Tree::of("virtio-four"), &request("2-3"));
    assert_eq!(
        changes(&plan)[0],
        "eth0 channels: rx 0 tx 0 other 0 combined 4 -> rx 0 tx 0 other 0 combined 2"
    );
}

#[test]
fn each_card_serves_the_cores_of_its_node() {
    let tree = Tree::of("ixgbe-two-nodes");
    let plan = plan_of(&tree, &request("0-15"));
    assert_eq!(plan.nics.iter().map(|nic| nic.class).collect::<Vec<_>>(), [SteerClass::Hashed; 2]);
    assert_eq!(plan.nics[1].queues.len(), 8);
    assert_eq!(plan.nics[1].queues[0].cpu, CpuId(8));
    assert_eq!(plan.nics[1].queues[7].listeners.to_string(), "15");
    let all = changes(&plan);
    assert!(
        all.contains(&"eth1 channels: rx 0 tx 0 other 1 combined 4 -> rx 0 tx 0 other 1 combined 8".into()),
        "{all:?}"
    );
    assert!(all.contains(&"eth1 hash table: even over 4 queues -> even over 8 queues".into()), "{all:?}");
    assert!(all.contains(&"interrupt 97 (eth1-TxRx-1) cpus: 0-15 -> 9".into()), "{all:?}");
    assert!(all.contains(&"eth1 tx-3 xps_cpus: none -> 11".into()), "{all:?}");
    assert_eq!(plan.notes, ["eth2: down; left as it is"]);
    assert!(plan.blockers[0].contains("irqbalance (process 4242) is running"), "{:?}", plan.blockers);
}

#[test]
fn cores_that_share_a_queue_have_its_packets_spread_over_them() {
    let tree = Tree::of("ixgbe-two-nodes");
    let plan = plan_of(&tree, &PlanRequest { queues: Queues::Keep, ..request("0-7") });
    let eth0 = &plan.nics[0];
    assert_eq!(
        queues(eth0),
        [
            (0, Some(64), 0, "0-1".into()),
            (1, Some(65), 2, "2-3".into()),
            (2, Some(66), 4, "4-5".into()),
            (3, Some(67), 6, "6-7".into()),
        ]
    );
    let all = changes(&plan);
    assert!(all.contains(&"eth0 rx-1 rps_cpus: none -> 2-3".into()), "{all:?}");
    assert!(all.contains(&"eth0 tx-1 xps_cpus: none -> 2-3".into()), "{all:?}");
    assert!(!all.iter().any(|change| change.contains("channels")), "{all:?}");
    assert!(plan.notes.contains(&"eth1: no core is nearest to it; left as it is".into()), "{:?}", plan.notes);
    assert_eq!(eth0.refusals, ["queues: ixgbe has 63 at most, for 8 cores; 4 kept, as asked"]);
}

#[test]
fn a_node_without_a_card_is_served_by_the_nearest_one() {
    let tree = Tree::of("ixgbe-two-nodes");
    let plan = plan_of(&tree, &PlanRequest { nics: vec!["eth0".into()], ..request("0-15") });
    assert_eq!(plan.nics.len(), 1);
    assert_eq!(plan.nics[0].queues.len(), 16);
    assert_eq!(plan.nics[0].queues[15].cpu, CpuId(15));
}

#[test]
fn interrupts_are_moderated_by_load_where_the_card_can() {
    let tree = Tree::of("ixgbe-two-nodes");
    let moderated = |tree: &Tree| {
        let plan = plan_of(tree, &request("0-15"));
        changes(&plan).into_iter().filter(|change| change.contains("adaptive")).collect::<Vec<_>>()
    };
    assert_eq!(moderated(&tree), ["eth1 adaptive interrupts: off -> on"], "eth0 does already");
    let virtual_card = Tree::of("virtio-four");
    virtual_card.write("ethtool/eth0/adaptive", "0");
    for (bit, expected) in [("0", vec![]), ("1", vec!["eth0 adaptive interrupts: off -> on"])] {
        // The driver has the feature; the device says whether the feature works.
        let features = [&"0".repeat(52), bit, &"0".repeat(11)].concat();
        virtual_card.write("sys/class/net/eth0/device/features", &features);
        assert_eq!(moderated(&virtual_card), expected);
    }
}

#[test]
fn one_queue_is_spread_in_software() {
    let plan = plan_of(&Tree::of("one-queue"), &request("0-1"));
    assert_eq!(plan.nics[0].class, SteerClass::Single);
    assert_eq!(
        changes(&plan),
        [
            "interrupt 38 (virtio2-input.0) cpus: 0-1 -> 0",
            "interrupt 39 (virtio2-output.0) cpus: 0-1 -> 0",
            "eth0 rx-0 rps_cpus: none -> 0-1",
            "net.core.rps_sock_flow_entries: 0 -> 32768",
            "eth0 rx-0 rps_flow_cnt: 0 -> 32768",
        ]
    );
    assert_eq!(
        plan.nics[0].refusals,
        [
            "interrupt moderation: virtio_net does not adapt it to the load here (adaptive-rx)",
            "queues: virtio_net has 1 at most, for 2 cores"
        ]
    );
    let alone = plan_of(&Tree::of("one-queue"), &request("1"));
    assert_eq!(
        changes(&alone),
        ["interrupt 38 (virtio2-input.0) cpus: 0-1 -> 1", "interrupt 39 (virtio2-output.0) cpus: 0-1 -> 1"]
    );
}

#[test]
fn software_cards_are_planned_for_when_named() {
    let tree = Tree::of("veth");
    let unnamed = plan_of(&tree, &request("0-1"));
    assert!(unnamed.changes.is_empty() && unnamed.nics.is_empty());
    assert!(unnamed.notes[0].contains("no card with a device is up"), "{:?}", unnamed.notes);
    let named = plan_of(&tree, &PlanRequest { nics: vec!["veth0".into()], ..request("0-1") });
    assert_eq!(named.nics[0].class, SteerClass::Software);
    assert_eq!(
        changes(&named),
        [
            "veth0 rx-0 rps_cpus: none -> 0",
            "veth0 tx-0 xps_cpus: none -> 0",
            "veth0 rx-1 rps_cpus: none -> 1",
            "veth0 tx-1 xps_cpus: none -> 1",
        ]
    );
    let error =
        plan(&tree.machine(), &tree.network(), &PlanRequest { nics: vec!["eth9".into()], ..request("0-1") });
    assert_eq!(error.unwrap_err().to_string(), "there is no network card \"eth9\"; there are lo, veth0");
}

#[test]
fn hardware_threads_without_a_listener_transmit_with_their_core() {
    let tree = Tree::of("virtio-four");
    for (cpu, siblings) in [(0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")] {
        tree.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"), siblings);
    }
    let plan = plan_of(&tree, &PlanRequest { queues: Queues::Keep, ..request("0,2") });
    let all = changes(&plan);
    assert!(all.contains(&"eth0 tx-0 xps_cpus: 0 -> 0-1".into()), "{all:?}");
    assert!(all.contains(&"eth0 tx-1 xps_cpus: 1 -> 2-3".into()), "{all:?}");
}

#[test]
fn how_a_card_is_polled_is_shown_and_left_alone() {
    let tree = Tree::of("one-queue");
    tree.write("sys/class/net/eth0/gro_flush_timeout", "20000");
    tree.write("sys/class/net/eth0/napi_defer_hard_irqs", "100");
    let plan = plan_of(&tree, &request("0-1"));
    let text = crate::render::plan(&plan);
    let expected =
        "\n  polling: napi_defer_hard_irqs 100, gro_flush_timeout 20000 ns, threaded off; left as it is";
    assert!(text.contains(expected), "{text}");
    let json = serde_json::to_value(&plan).unwrap();
    let expected = [("defer_hard_irqs", 100), ("gro_flush_timeout_ns", 20_000)];
    for (name, value) in expected {
        assert_eq!(json["nics"][0]["polling"][name], value, "{json}");
    }
    for name in ["gro_flush_timeout", "napi_defer_hard_irqs", "threaded"] {
        tree.remove(&format!("sys/class/net/eth0/{name}"));
    }
    let text = crate::render::plan(&plan_of(&tree, &request("0-1")));
    assert!(!text.contains("polling"), "an old kernel does not say: {text}");
}

#[test]
fn missing_driver_ability_is_named() {
    let tree = Tree::of("ixgbe-two-nodes");
    tree.remove("ethtool/eth0/rss");
    tree.remove("ethtool/eth0/channels");
    for queue in 0..4 {
        tree.remove(&format!("sys/class/net/eth0/queues/tx-{queue}/xps_cpus"));
        tree.remove(&format!("proc/irq/{}/smp_affinity_list", 64 + queue));
    }
    tree.write("proc/interrupts", "CPU0");
    let plan = plan_of(&tree, &PlanRequest { nics: vec!["eth0".into()], ..request("0-7") });
    assert_eq!(
        plan.nics[0].refusals,
        [
            "interrupts: ixgbe has none that can be told apart by queue",
            "hash table: ixgbe does not show one; taken as even over its queues",
            "queues: ixgbe has 4 at most, for 8 cores",
            "transmit queues: ixgbe does not let them be chosen (xps_cpus)",
        ]
    );
}
