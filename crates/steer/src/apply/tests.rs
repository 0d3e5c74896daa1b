//! Plans applied to recorded trees, with one knob: the write that fails. The check: unless
//! everything succeeded, every file is byte for byte as before.

use super::*;
use crate::fixture::Tree;
use crate::{InterruptLine, PlanRequest, Queues, RecordedCard, System, plan, read};
use std::cell::{Cell, RefCell};
use tempfile::TempDir;

mod found;

/// The settings of a tree. The write with number `fails_at` fails, and `dies_at` panics there, like
/// a kill.
struct SteerWorld {
    tree: Tree,
    kernel: RecordedCard,
    state: TempDir,
    writes: Cell<usize>,
    fails_at: Cell<Option<usize>>,
    dies_at: Cell<Option<usize>>,
    /// Whether the link of a card goes down when the number of its queues changes.
    drops_link: Cell<bool>,
    log: RefCell<Vec<String>>,
}

impl SteerWorld {
    fn of(name: &str) -> SteerWorld {
        let tree = Tree::of(name);
        let kernel = tree.kernel();
        SteerWorld {
            tree,
            kernel,
            state: tempfile::tempdir().unwrap(),
            writes: Cell::new(0),
            fails_at: Cell::new(None),
            dies_at: Cell::new(None),
            drops_link: Cell::new(false),
            log: RefCell::default(),
        }
    }

    fn system(&self) -> System<'_> {
        System { root: self.tree.path().to_owned(), kernel: &self.kernel }
    }

    fn store(&self) -> StateStore {
        StateStore::new(self.state.path(), self.tree.path())
    }

    fn plan(&self, cores: &str, queues: Queues, nic: &str) -> Result<(CardNetwork, SteerPlan), SteerError> {
        self.plan_for(cores, queues, &[nic.to_owned()])
    }

    fn plan_for(
        &self,
        cores: &str,
        queues: Queues,
        nics: &[String],
    ) -> Result<(CardNetwork, SteerPlan), SteerError> {
        let cores = cores.parse::<vermeil_topology::CpuSet>().unwrap().iter().collect();
        let network = read(self.tree.path(), &self.kernel)?;
        let request = PlanRequest { cores, nics: nics.to_vec(), queues };
        let plan = plan(&self.tree.machine(), &network, &request)?;
        Ok((network, plan))
    }

    fn apply(
        &self,
        cores: &str,
        queues: Queues,
        nic: &str,
        confirm: Option<u64>,
    ) -> Result<Applied, SteerError> {
        let steering = Steering { settings: self, store: &self.store() };
        let confirm = confirm.map(Duration::from_secs);
        steering.apply(&mut |_| self.plan(cores, queues, nic), confirm, &mut || Ok(()))
    }

    fn recover(&self, now: Duration) -> Recovered {
        Steering { settings: self, store: &self.store() }.recover(now).unwrap()
    }

    fn undo(&self) -> Result<Restored, SteerError> {
        Steering { settings: self, store: &self.store() }.undo()
    }
}

impl Settings for SteerWorld {
    fn get(&self, setting: &Setting) -> io::Result<String> {
        self.system().get(setting)
    }

    fn set(&self, setting: &Setting, raw: &str) -> io::Result<()> {
        self.writes.set(self.writes.get() + 1);
        self.log.borrow_mut().push(setting.to_string());
        if self.fails_at.get() == Some(self.writes.get()) {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        assert_ne!(self.dies_at.get(), Some(self.writes.get()), "killed here");
        self.system().set(setting, raw)?;
        if let Setting::Channels { nic } = setting {
            self.queues_follow(nic, raw.rsplit(' ').next().unwrap().parse().unwrap());
            if self.drops_link.get() {
                self.tree.write(&format!("sys/class/net/{nic}/operstate"), "down");
            }
        }
        Ok(())
    }

    fn number_of(&self, nic: &str) -> Option<u32> {
        self.system().number_of(nic)
    }

    fn name_of(&self, number: u32) -> Option<String> {
        self.system().name_of(number)
    }

    fn interrupts(&self) -> Vec<InterruptLine> {
        self.system().interrupts()
    }

    fn lists_interrupt(&self, device: &str, number: u32) -> bool {
        self.system().lists_interrupt(device, number)
    }

    fn is_unused(&self, number: u32) -> bool {
        self.system().is_unused(number)
    }
}

impl SteerWorld {
    /// Imitates a driver: queues come and go, and transmit settings are forgotten.
    fn queues_follow(&self, nic: &str, count: u32) {
        for queue in 0..64 {
            let (rx, tx) =
                [("rx"), ("tx")].map(|way| format!("sys/class/net/{nic}/queues/{way}-{queue}")).into();
            if queue >= count {
                for folder in [rx, tx] {
                    let _ = std::fs::remove_dir_all(self.tree.path().join(folder));
                }
                continue;
            }
            self.tree.write(&format!("{tx}/xps_cpus"), "ff");
            if !self.tree.path().join(&rx).exists() {
                self.tree.write(&format!("{rx}/rps_cpus"), "0");
                self.tree.write(&format!("{rx}/rps_flow_cnt"), "0");
            }
        }
    }
}

#[test]
fn moderation_by_load_is_given_back_as_it_was() {
    let world = SteerWorld::of("virtio-four");
    world.tree.write("ethtool/eth0/adaptive", "0");
    let features = [&"0".repeat(52), "1", &"0".repeat(11)].concat();
    world.tree.write("sys/class/net/eth0/device/features", &features);
    let before = world.tree.all();
    assert_eq!(world.apply("0-3", Queues::Keep, "eth0", None).unwrap().changes.len(), 1);
    assert_eq!(world.tree.all()["ethtool/eth0/adaptive"], "1");
    let restored = world.undo().unwrap();
    assert_eq!(restored.settings, [Setting::Adaptive { nic: "eth0".into() }]);
    assert_eq!(world.tree.all(), before);
}

/// Regression: a renamed card's settings stayed changed, and the former state was forgotten.
#[test]
fn a_card_that_was_given_another_name_is_found() {
    let world = SteerWorld::of("virtio-four");
    world.tree.write("sys/class/net/eth0/ifindex", "7\n");
    let renamed = |path: &str| path.replace("net/eth0/", "net/wan0/");
    let before = world.tree.all();
    assert_eq!(world.apply("2-3", Queues::Keep, "eth0", None).unwrap().changes.len(), 8);
    let cards = world.tree.path().join("sys/class/net");
    std::fs::rename(cards.join("eth0"), cards.join("wan0")).unwrap();
    let restored = world.undo().unwrap();
    assert_eq!((restored.settings.len(), restored.gone), (8, Vec::new()));
    let after = before.into_iter().map(|(path, content)| (renamed(&path), content)).collect();
    assert_eq!(world.tree.all(), after);
}

#[test]
fn undo_is_exact_to_the_byte() {
    let world = SteerWorld::of("virtio-four");
    let before = world.tree.all();
    let applied = world.apply("2-3", Queues::Keep, "eth0", None).unwrap();
    assert_eq!(applied.changes.len(), 8);
    assert_eq!(world.tree.all()["sys/class/net/eth0/queues/tx-0/xps_cpus"], "4");
    assert!(matches!(world.apply("2-3", Queues::Keep, "eth0", None), Err(SteerError::AlreadyApplied)));
    let restored = world.undo().unwrap();
    assert_eq!(restored.settings.len(), 8);
    assert_eq!((restored.gone.len(), restored.foreign.len()), (0, 0));
    assert_eq!(world.tree.all(), before);
    assert!(matches!(world.undo(), Err(SteerError::NothingApplied)));
}

#[test]
fn any_failed_change_undoes_the_others() {
    let world = SteerWorld::of("virtio-four");
    let before = world.tree.all();
    for fails_at in 1..=8 {
        world.writes.set(0);
        world.fails_at.set(Some(fails_at));
        let error = world.apply("2-3", Queues::Keep, "eth0", None).unwrap_err().to_string();
        assert!(error.starts_with("cannot set ") && error.ends_with("everything is as it was"), "{error}");
        assert_eq!(world.tree.all(), before, "after failure {fails_at}");
        assert_eq!(world.store().load().unwrap(), None);
    }
}

#[test]
fn next_command_restores_settings_after_kill() {
    for dies_at in 1..=8 {
        let world = SteerWorld::of("virtio-four");
        let before = world.tree.all();
        world.dies_at.set(Some(dies_at));
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            world.apply("2-3", Queues::Keep, "eth0", None)
        }));
        assert!(killed.is_err());
        world.dies_at.set(None);
        let recovered = world.recover(Duration::ZERO);
        assert!(matches!(recovered, Recovered::Interrupted(_)), "{recovered:?}");
        assert_eq!(world.tree.all(), before, "killed at {dies_at}");
        assert_eq!(world.recover(Duration::ZERO), Recovered::Nothing);
    }
}

#[test]
fn unconfirmed_change_is_undone() {
    let world = SteerWorld::of("virtio-four");
    let before = world.tree.all();
    world.apply("2-3", Queues::Keep, "eth0", Some(3600)).unwrap();
    assert_eq!(world.recover(crate::state::now()), Recovered::Nothing, "there is time");
    let late = crate::state::now() + Duration::from_secs(3601);
    assert!(matches!(world.recover(late), Recovered::Unconfirmed(_)));
    assert_eq!(world.tree.all(), before);
    world.apply("2-3", Queues::Keep, "eth0", Some(3600)).unwrap();
    let store = world.store();
    Steering { settings: &world, store: &store }.confirm(crate::state::now()).unwrap();
    assert_eq!(world.recover(late), Recovered::Nothing, "confirmed");
    world.undo().unwrap();
    assert_eq!(world.tree.all(), before);
}

#[test]
fn a_guard_that_cannot_be_started_leaves_all_as_it_was() {
    let world = SteerWorld::of("virtio-four");
    let before = world.tree.all();
    let store = world.store();
    let steering = Steering { settings: &world, store: &store };
    let refused = steering.apply(
        &mut |_| world.plan("2-3", Queues::Keep, "eth0"),
        Some(Duration::from_secs(1)),
        &mut || Err(io::ErrorKind::OutOfMemory.into()),
    );
    assert!(matches!(refused, Err(SteerError::Guard(_))));
    assert_eq!(world.tree.all(), before);
    assert_eq!(store.load().unwrap(), None);
}

#[test]
fn more_queues_come_first_and_the_rest_is_planned_anew() {
    let world = SteerWorld::of("ixgbe-two-nodes");
    world.tree.remove("proc/4242/comm");
    let before = world.tree.all();
    let applied = world.apply("0-7", Queues::Fit, "eth0", None).unwrap();
    assert_eq!(applied.changes[0].setting, Setting::Channels { nic: "eth0".into() });
    assert_eq!(applied.changes[1].setting, Setting::Rss { nic: "eth0".into() });
    assert_eq!(world.tree.all()["ethtool/eth0/channels"], "0 0 0 0 1 1 8 63");
    let state = world.store().load().unwrap().unwrap();
    let rps = Setting::Rps { nic: "eth0".into(), queue: 3 };
    assert!(state.saved.iter().any(|saved| saved.setting == rps), "all of the card is saved");
    assert_eq!(world.tree.all()["sys/class/net/eth0/queues/tx-7/xps_cpus"], "80");
    let restored = world.undo().unwrap();
    assert_eq!(restored.gone, [], "what came with the queues is not missed");
    assert_eq!(world.tree.all(), before);
}

/// Regression: the second plan left out each card whose link was still down.
#[test]
fn card_whose_link_drops_gets_the_whole_plan() {
    let world = SteerWorld::of("ixgbe-two-nodes");
    world.tree.remove("proc/4242/comm");
    world.drops_link.set(true);
    let store = world.store();
    let steering = Steering { settings: &world, store: &store };
    let mut plan = |nics: &[String]| world.plan_for("0-15", Queues::Fit, nics);
    let applied = steering.apply(&mut plan, None, &mut || Ok(())).unwrap();
    for nic in ["eth0", "eth1"] {
        let table = Setting::Rss { nic: nic.into() };
        let is_spread = applied.changes.iter().any(|change| change.setting == table);
        assert!(is_spread, "{nic}: {:?}", applied.changes);
    }
}

/// Regression: the values that the first plan had for removed queues counted as changes of another
/// program.
#[test]
fn removed_queues_are_no_drift() {
    let world = SteerWorld::of("ixgbe-two-nodes");
    world.tree.remove("proc/4242/comm");
    for queue in [2, 3] {
        world.tree.write(&format!("sys/class/net/eth0/queues/tx-{queue}/xps_cpus"), "1");
    }
    let cleared = Setting::Xps { nic: "eth0".into(), queue: 3 };
    let first = world.plan("0-1", Queues::Fit, "eth0").unwrap().1;
    assert!(first.changes.iter().any(|change| change.setting == cleared), "{:?}", first.changes);
    world.apply("0-1", Queues::Fit, "eth0", None).unwrap();
    let (network, store) = (world.tree.network(), world.store());
    let mut traffic = || Duration::from_secs(1);
    let verified = crate::verify(world.tree.path(), &network, &world, &store, Some(1), &mut traffic).unwrap();
    assert_eq!(verified.drifted, []);
    world.tree.write("sys/class/net/eth0/queues/tx-1/xps_cpus", "8");
    let verified = crate::verify(world.tree.path(), &network, &world, &store, Some(1), &mut traffic).unwrap();
    assert_eq!(verified.drifted.len(), 1, "{:?}", verified.drifted);
}

#[test]
fn a_blocked_plan_changes_nothing() {
    let world = SteerWorld::of("ixgbe-two-nodes");
    let error = world.apply("0-7", Queues::Fit, "eth0", None).unwrap_err().to_string();
    assert!(error.starts_with("nothing was changed: irqbalance (process 4242)"), "{error}");
    assert_eq!(world.writes.get(), 0);
}

/// Regression: a plan that moved only the interrupts of new queues was applied beside irqbalance.
#[test]
fn obstacle_to_new_queues_undoes_all_changes() {
    let world = SteerWorld::of("ixgbe-two-nodes");
    for queue in 0..4 {
        world.tree.write(&format!("proc/irq/{}/smp_affinity_list", 64 + queue), &queue.to_string());
    }
    world.tree.write("sys/devices/pci0000:03/0000:03:00.0/msi_irqs/69", "msix");
    world.tree.write("proc/irq/69/smp_affinity_list", "0-15");
    let counts = "0 ".repeat(16);
    let table = &world.tree.all()["proc/interrupts"];
    world
        .tree
        .write("proc/interrupts", &format!("{table}\n69: {counts}PCI-MSIX-0000:03:00.0 5-edge eth0-TxRx-4"));
    let (before, first) = (world.tree.all(), world.plan("0-7", Queues::Fit, "eth0").unwrap().1);
    assert!(first.blockers.is_empty(), "{:?}", first.blockers);
    let error = world.apply("0-7", Queues::Fit, "eth0", None).unwrap_err().to_string();
    assert!(error.starts_with("with another number of queues, irqbalance (process 4242)"), "{error}");
    assert!(error.ends_with("everything is as it was"), "{error}");
    assert_eq!(world.log.borrow()[0], "eth0 channels");
    assert_eq!(world.tree.all(), before);
    assert_eq!(world.store().load().unwrap(), None);
}

#[test]
fn a_card_that_vanished_holds_nothing_up() {
    let world = SteerWorld::of("veth");
    world.apply("0-1", Queues::Fit, "veth0", None).unwrap();
    std::fs::remove_dir_all(world.tree.path().join("sys/class/net/veth0")).unwrap();
    let restored = world.undo().unwrap();
    assert_eq!((restored.settings.len(), restored.gone.len()), (0, 4));
}

#[test]
fn foreign_change_is_reported_and_restored() {
    let world = SteerWorld::of("veth");
    world.apply("0-1", Queues::Fit, "veth0", None).unwrap();
    world.tree.write("sys/class/net/veth0/queues/rx-1/rps_cpus", "3");
    let restored = world.undo().unwrap();
    assert_eq!(restored.foreign, [Setting::Rps { nic: "veth0".into(), queue: 1 }]);
    assert_eq!(world.tree.all()["sys/class/net/veth0/queues/rx-1/rps_cpus"], "0");
}

#[test]
fn unrestored_setting_is_kept_for_retry() {
    let world = SteerWorld::of("veth");
    let before = world.tree.all();
    world.apply("0-1", Queues::Fit, "veth0", None).unwrap();
    world.fails_at.set(Some(world.writes.get() + 1));
    let error = world.undo().unwrap_err().to_string();
    assert!(error.contains("not everything could be restored") && error.contains("tx-1"), "{error}");
    world.undo().unwrap();
    assert_eq!(world.tree.all(), before);
}
