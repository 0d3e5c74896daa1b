//! A restore locates each setting first, because by then an interrupt's number, and a card's name,
//! may belong to another device. Regression: the restore trusted numbers and names, and wrote an
//! old value to another device's setting.

use super::*;
use crate::Queues;

const DEVICE: &str = "sys/devices/pci0000:40/0000:41:00.0";

impl SteerWorld {
    /// Replaces a text, which must exist, in the table of interrupts.
    fn renumber(&self, from: &str, to: &str) {
        let table = &self.tree.all()["proc/interrupts"];
        assert!(table.contains(from), "{table}");
        self.tree.write("proc/interrupts", &table.replace(from, to));
    }

    fn cpus_of(&self, irq: u32) -> String {
        self.tree.all()[&format!("proc/irq/{irq}/smp_affinity_list")].clone()
    }

    /// A plan in force on interrupts 29 to 32 and transmit queues.
    fn applied() -> SteerWorld {
        let world = SteerWorld::of("virtio-four");
        assert_eq!(world.apply("2-3", Queues::Keep, "eth0", None).unwrap().changes.len(), 8);
        assert_eq!(world.cpus_of(29), "2");
        world
    }

    /// Makes 29 a disk's interrupt.
    fn give_29_to_a_disk(&self) {
        self.renumber("29-edge virtio1-input.0", "29-edge nvme0q1");
        self.tree.remove(&format!("{DEVICE}/msi_irqs/29"));
        self.tree.write("proc/irq/29/smp_affinity_list", "1-3");
    }
}

fn input_0(irq: u32) -> Setting {
    Setting::Interrupt { irq, name: "virtio1-input.0".into() }
}

#[test]
fn an_interrupt_with_another_number_is_found_by_name() {
    let world = SteerWorld::applied();
    world.give_29_to_a_disk();
    let table = &world.tree.all()["proc/interrupts"];
    world.tree.write(
        "proc/interrupts",
        &format!("{table}\n40: 0 0 0 0 PCI-MSIX-0000:41:00.0 1-edge virtio1-input.0"),
    );
    world.tree.write(&format!("{DEVICE}/msi_irqs/40"), "msix");
    world.tree.write("proc/irq/40/smp_affinity_list", "2");
    let restored = world.undo().unwrap();
    assert_eq!((restored.settings.len(), restored.gone), (8, Vec::new()));
    assert!(restored.settings.contains(&input_0(40)), "{:?}", restored.settings);
    assert_eq!((world.cpus_of(40).as_str(), world.cpus_of(29).as_str()), ("0", "1-3"));
}

#[test]
fn an_interrupt_that_has_gone_is_named_and_its_number_left_alone() {
    let world = SteerWorld::applied();
    world.give_29_to_a_disk();
    let restored = world.undo().unwrap();
    assert_eq!((restored.settings.len(), &restored.gone[..]), (7, &[input_0(29)][..]));
    assert_eq!(world.cpus_of(29), "1-3");
    let said = crate::render::restored(&restored);
    assert!(said.contains("\ninterrupt 29 (virtio1-input.0) cpus: no longer exists\n"), "{said}");
}

#[test]
fn a_name_at_another_device_is_another_interrupt() {
    let world = SteerWorld::applied();
    world.tree.remove(&format!("{DEVICE}/msi_irqs/29"));
    assert_eq!(world.undo().unwrap().gone, [input_0(29)]);
    assert_eq!(world.cpus_of(29), "2");
}

#[test]
fn a_card_that_took_the_name_of_one_that_has_gone_is_left_alone() {
    let world = SteerWorld::applied();
    world.tree.write("sys/class/net/eth0/ifindex", "9");
    let before = world.tree.all();
    let restored = world.undo().unwrap();
    assert_eq!((restored.settings.len(), restored.gone.len()), (0, 8));
    assert_eq!(world.tree.all(), before);
}

#[test]
fn interrupts_follow_their_cards_name() {
    let world = SteerWorld::of("ixgbe-two-nodes");
    world.tree.remove("proc/4242/comm");
    world.apply("0-3", Queues::Keep, "eth0", None).unwrap();
    assert_eq!(world.cpus_of(65), "1");
    let cards = world.tree.path().join("sys/class/net");
    std::fs::rename(cards.join("eth0"), cards.join("wan0")).unwrap();
    for queue in 0..4 {
        world.renumber(&format!("eth0-TxRx-{queue}"), &format!("wan0-TxRx-{queue}"));
    }
    assert_eq!(world.undo().unwrap().gone, []);
    assert_eq!(world.cpus_of(65), "0-15");
}

#[test]
fn a_card_that_is_down_has_its_interrupts_without_names() {
    let world = SteerWorld::applied();
    world.renumber("29-edge virtio1-input.0", "29-edge");
    world.tree.write("sys/kernel/irq/29/actions", "\n");
    assert_eq!(world.undo().unwrap().gone, []);
    assert_eq!(world.cpus_of(29), "0");
}

#[test]
fn saved_state_of_earlier_version_is_checked_by_name() {
    let world = SteerWorld::applied();
    let file = std::fs::read_dir(world.state.path()).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|is| is == "json")).unwrap();
    let mut state: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    for saved in state["saved"].as_array_mut().unwrap() {
        saved.as_object_mut().unwrap().remove("owner").expect("noted");
    }
    std::fs::write(&file, state.to_string()).unwrap();
    world.give_29_to_a_disk();
    let restored = world.undo().unwrap();
    assert_eq!((restored.settings.len(), &restored.gone[..]), (7, &[input_0(29)][..]));
    assert_eq!((world.cpus_of(29).as_str(), world.cpus_of(31).as_str()), ("1-3", "1"));
}

/// Drivers request new interrupts when the number of queues changes.
#[test]
fn taking_back_looks_for_interrupts_too() {
    let world = SteerWorld::of("ixgbe-two-nodes");
    world.tree.remove("proc/4242/comm");
    let (store, planned) = (world.store(), Cell::new(0));
    let mut plan = |_: &[String]| {
        planned.set(planned.get() + 1);
        if planned.get() == 2 {
            // 64 goes to a disk and the first queue gets 164; the second queue has no interrupt any
            // more, and 65 is a disk's too.
            world.renumber("64: ", "164: ");
            world.renumber("eth0-TxRx-1", "nvme0q1");
            let device = "sys/devices/pci0000:03/0000:03:00.0/msi_irqs";
            for irq in [64, 65] {
                world.tree.remove(&format!("{device}/{irq}"));
                world.tree.write(&format!("proc/irq/{irq}/smp_affinity_list"), "5");
            }
            world.tree.write(&format!("{device}/164"), "msix");
            world.tree.write("proc/irq/164/smp_affinity_list", "3");
            world.fails_at.set(Some(6));
        }
        world.plan("0-7", Queues::Fit, "eth0")
    };
    let steering = Steering { settings: &world, store: &store };
    let error = steering.apply(&mut plan, None, &mut || Ok(())).unwrap_err().to_string();
    let but =
        "; everything is as it was, except settings that no longer exist: interrupt 65 (eth0-TxRx-1) cpus";
    assert!(error.ends_with(but), "{error}");
    assert_eq!([164, 64, 65].map(|irq| world.cpus_of(irq)), ["0-15", "5", "5"]);
}
