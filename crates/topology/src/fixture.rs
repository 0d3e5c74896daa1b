//! Invented systems for tests: a folder that looks like `/` to the readers of this crate.
//!
//! Writes the files of sysfs and cgroups. Leaves out particular machines, which are in the tests.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

pub(crate) struct FixtureRoot(TempDir);

impl FixtureRoot {
    pub(crate) fn new() -> FixtureRoot {
        FixtureRoot(TempDir::new().expect("a temporary folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn with(self, path: &str, text: &str) -> FixtureRoot {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a file stands in a folder")).expect("a folder");
        fs::write(path, format!("{text}\n")).expect("a file");
        self
    }

    pub(crate) fn cpu(self, cpu: u32, package: u32, siblings: &str) -> FixtureRoot {
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        self.with(&format!("{topology}/physical_package_id"), &package.to_string())
            .with(&format!("{topology}/core_cpus_list"), siblings)
    }

    /// `what` is level, kind and size, for example `3 Unified 32768K`.
    pub(crate) fn cache(self, cpu: u32, index: u32, what: &str, shared: &str) -> FixtureRoot {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
        let names = ["level", "type", "size", "coherency_line_size", "shared_cpu_list"];
        let values = what.split(' ').chain(["64", shared]);
        names
            .iter()
            .zip(values)
            .fold(self, |root, (name, value)| root.with(&format!("{folder}/{name}"), value))
    }

    pub(crate) fn node(self, node: u32, cpus: &str, mib: u64, distances: &str) -> FixtureRoot {
        let folder = format!("sys/devices/system/node/node{node}");
        let meminfo = format!("Node {node} MemTotal: {} kB\nNode {node} MemFree: 1 kB", mib * 1024);
        self.with(&format!("{folder}/cpulist"), cpus)
            .with(&format!("{folder}/meminfo"), &meminfo)
            .with(&format!("{folder}/distance"), distances)
    }
}
