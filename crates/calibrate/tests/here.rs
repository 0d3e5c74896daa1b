//! A smoke measurement of this machine gives a machine that the simulator runs.

use vermeil_calibrate::{MeasureEffort, calibrate};
use vermeil_sim::{SimMachine, SimOptions, simulate, workload};
use vermeil_topology::{CpuId, sysfs};

#[test]
fn measured_machine_can_be_simulated() {
    let tree = sysfs::read(std::path::Path::new("/")).unwrap();
    let cpus: Vec<CpuId> = vermeil_io::current_affinity().into_iter().map(|cpu| CpuId(cpu as u32)).collect();
    let text = calibrate(&tree, &cpus, MeasureEffort::Smoke).unwrap().to_toml(&tree);
    if !text.contains("topology =") {
        // A machine with an irregular tree is described by an export.
        return;
    }
    let machine = SimMachine::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((machine.name(), machine.cores()), ("here", tree.pus().len()));
    let options = SimOptions { run_ns: Some(60_000_000), ..SimOptions::new("adaptive".parse().unwrap()) };
    let results = simulate(&machine, &workload("keyed").unwrap(), &options);
    assert!(results.events() > 1_000, "{text}");
}
