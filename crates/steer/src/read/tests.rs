//! Recorded trees and the data read from them.

use super::*;
use crate::Channels;
use crate::fixture::Tree;

#[test]
fn a_card_on_a_virtio_device_has_the_node_and_interrupts_of_the_device_below() {
    let network = Tree::of("virtio-four").network();
    let nic = &network.nics[0];
    assert_eq!((nic.name.as_str(), nic.driver.as_str(), nic.kind), ("eth0", "virtio_net", CardKind::Device));
    assert_eq!(nic.node, Some(NodeId(1)));
    assert_eq!(nic.rx.len(), 4);
    let irq = nic.rx[2].irq.as_ref().expect("an interrupt");
    assert_eq!((irq.number, irq.name.as_str(), irq.cpus.to_string()), (33, "virtio1-input.2", "2".into()));
    assert_eq!(nic.tx[2].irq.as_ref().map(|irq| irq.number), Some(34));
    assert_eq!(nic.tx[3].xps.as_ref().map(CpuSet::to_string), Some("3".into()));
    assert_eq!(nic.channels.map(|channels| channels.combined), Some((4, 4)));
    assert_eq!(nic.rss, None);
}

#[test]
fn one_interrupt_for_both_directions_is_the_receive_queues() {
    let network = Tree::of("ixgbe-two-nodes").network();
    assert_eq!(network.irqbalance_pid, Some(4242));
    let eth1 = &network.nics[1];
    assert_eq!(
        eth1.rx.iter().map(|rx| rx.irq.as_ref().unwrap().number).collect::<Vec<_>>(),
        [96, 97, 98, 99]
    );
    assert!(eth1.tx.iter().all(|tx| tx.irq.is_none()));
    assert_eq!(eth1.rss.as_ref().map(Vec::len), Some(32));
    assert!(!network.nics[2].up);
}

#[test]
fn missing_files_are_tolerated() {
    let network = Tree::of("one-queue").network();
    let eth0 = &network.nics[0];
    assert_eq!((eth0.node, eth0.up), (None, true));
    assert_eq!(eth0.tx[0].xps, None, "a card of one queue has no choice");
    assert_eq!(eth0.channels, Some(Channels { combined: (1, 1), ..Channels::default() }));
    assert_eq!(network.sock_flow_entries, Some(0));
    let veth = Tree::of("veth").network();
    assert_eq!(veth.sock_flow_entries, None);
    assert_eq!(veth.nics[1].kind, CardKind::Software);
}

#[test]
fn a_folder_without_cards_is_an_error_that_names_it() {
    let empty = tempfile::tempdir().unwrap();
    let error = read(empty.path(), &crate::LiveKernel).unwrap_err().to_string();
    assert!(error.contains("sys/class/net") && error.ends_with("is sysfs mounted there?"), "{error}");
}

#[test]
fn this_machine_can_be_read() {
    let network = read(Path::new("/"), &crate::LiveKernel).unwrap();
    let lo = network.nics.iter().find(|nic| nic.name == "lo").expect("a loopback device");
    assert_eq!(lo.kind, CardKind::Software);
}
