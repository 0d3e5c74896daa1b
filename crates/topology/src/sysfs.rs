//! The running machine, from `/sys/devices/system` (kernel:
//! `Documentation/ABI/stable/sysfs-devices-system-cpu`, `-node`).
//!
//! Contains the meaning of the files, and the defaults for missing files: virtual machines may have
//! no caches, kernels without NUMA no nodes, hybrid machines extra lists. Leaves out the
//! restrictions of this process (`cgroup`). Tested on invented machines in `sysfs/tests.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::draft::Draft;
use crate::machine::CAPACITY_MAX;
use crate::{
    Cache, CacheKind, CoreClass, CpuId, CpuSet, Machine, Node, NodeId, Package, PackageId, PhysicalCore,
    TopologyError,
};

#[cfg(test)]
mod tests;

/// Without the kernel's lists of core types, a core below this capacity counts as a small core. The
/// value lies between the favoured cores of a design (a few percent apart) and the little cores of
/// Arm's (446 of 1024 on Juno).
const CAPACITY_EFFICIENT_BELOW: u32 = CAPACITY_MAX * 3 / 4;

/// Reads the machine below `root`, normally `/`.
///
/// Missing or malformed files are ignored; in the worst case the machine is a single node of cores
/// without caches.
///
/// # Errors
/// [`TopologyError::Sysfs`] if there is no folder of cpus, [`TopologyError::NoCpu`] if the folder
/// names none.
pub fn read(root: &Path) -> Result<Machine, TopologyError> {
    let devices = root.join("sys/devices");
    let folder = devices.join("system/cpu");
    let present =
        numbered(&folder, "cpu").map_err(|source| TopologyError::Sysfs { path: folder.clone(), source })?;
    let present: CpuSet = present.into_iter().filter(|&cpu| cpu < crate::CPUS_MAX).map(CpuId).collect();
    let online = list(&folder.join("online")).unwrap_or_else(|| {
        present
            .iter()
            .filter(|cpu| text(&folder.join(format!("cpu{cpu}/online"))).as_deref() != Some("0"))
            .collect()
    });
    let mut draft = Draft { offline: present.difference(&online), cpus: online.clone(), ..Draft::default() };
    for cpu in online.iter() {
        add_cpu(&mut draft, &folder.join(format!("cpu{cpu}")), cpu);
    }
    classify(&mut draft, &devices);
    add_nodes(&mut draft, &devices.join("system/node"));
    if draft.nodes.is_empty() {
        let memory_bytes = memory(&root.join("proc/meminfo"));
        draft.nodes.push(Node { id: NodeId(0), cpus: online, memory_bytes });
    }
    draft.finish()
}

fn add_cpu(draft: &mut Draft, folder: &Path, cpu: CpuId) {
    let alone = CpuSet::from_iter([cpu]);
    let topology = folder.join("topology");
    let first_list = |names: [&str; 2]| names.iter().find_map(|name| list(&topology.join(name)));
    let siblings = first_list(["core_cpus_list", "thread_siblings_list"]).unwrap_or_else(|| alone.clone());
    let capacity = number(&folder.join("cpu_capacity")).unwrap_or(CAPACITY_MAX.into()) as u32;
    draft.cores.push(PhysicalCore { capacity, ..PhysicalCore::of(siblings) });

    let package = number(&topology.join("physical_package_id")).unwrap_or(0) as u32;
    let beside = first_list(["package_cpus_list", "core_siblings_list"]).unwrap_or_else(|| alone.clone());
    match draft.packages.iter_mut().find(|known| known.id.0 == package) {
        Some(known) => known.cpus = known.cpus.union(&beside),
        None => draft.packages.push(Package { id: PackageId(package), cpus: beside }),
    }

    for index in numbered(&folder.join("cache"), "index").unwrap_or_default() {
        draft.caches.extend(cache(&folder.join(format!("cache/index{index}")), &alone));
    }
}

fn cache(folder: &Path, alone: &CpuSet) -> Option<Cache> {
    Some(Cache {
        level: number(&folder.join("level")).filter(|level| (1..=5).contains(level))? as u8,
        kind: match text(&folder.join("type"))?.as_str() {
            "Data" => CacheKind::Data,
            "Instruction" => CacheKind::Instruction,
            _ => CacheKind::Unified,
        },
        bytes: text(&folder.join("size")).and_then(|size| bytes(&size)).filter(|&bytes| bytes > 0),
        line_bytes: number(&folder.join("coherency_line_size"))
            .map(|bytes| bytes as u32)
            .filter(|&bytes| bytes > 0),
        cpus: list(&folder.join("shared_cpu_list")).unwrap_or_else(|| alone.clone()),
    })
}

/// Hybrid x86 lists its small cores by performance monitor (`cpu_atom`, `cpu_lowpower`); Arm gives
/// capacities only.
fn classify(draft: &mut Draft, devices: &Path) {
    let listed = |kind: &str| list(&devices.join(kind).join("cpus"));
    let small = listed("cpu_atom").unwrap_or_default().union(&listed("cpu_lowpower").unwrap_or_default());
    let known = listed("cpu_core").is_some();
    for core in &mut draft.cores {
        let weak = core.capacity < CAPACITY_EFFICIENT_BELOW;
        let efficient = if known { core.cpus.is_subset(&small) } else { weak };
        core.class = if efficient { CoreClass::Efficient } else { CoreClass::Performance };
    }
}

fn add_nodes(draft: &mut Draft, folder: &Path) {
    let present = numbered(folder, "node").unwrap_or_default();
    for &id in &present {
        let node = folder.join(format!("node{id}"));
        let cpus = list(&node.join("cpulist")).unwrap_or_default();
        draft.nodes.push(Node { id: NodeId(id), cpus, memory_bytes: memory(&node.join("meminfo")) });
        // One distance per online node, in ascending order; the kernel makes no folder for offline
        // nodes.
        let distances = text(&node.join("distance")).unwrap_or_default();
        let values: Vec<u32> =
            distances.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        if values.len() == present.len() {
            let row = present.iter().zip(values).map(|(&to, value)| ((NodeId(id), NodeId(to)), value));
            draft.distances.extend(row);
        }
    }
}

/// `MemTotal` in bytes, of the machine's `meminfo` or a node's; 0 if missing.
fn memory(path: &Path) -> u64 {
    let text = text(path).unwrap_or_default();
    let total = text.lines().find_map(|line| line.split_once("MemTotal:"));
    total
        .and_then(|(_, amount)| amount.split_ascii_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib.saturating_mul(1024))
}

/// A size in the form of cache files: `32K`, `32M`.
fn bytes(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The numbers N of the entries `prefixN` of a folder, ascending.
fn numbered(folder: &Path, prefix: &str) -> std::io::Result<Vec<u32>> {
    let number = |name: PathBuf| name.to_str()?.strip_prefix(prefix)?.parse().ok();
    let names = fs::read_dir(folder)?.filter_map(|entry| Some(PathBuf::from(entry.ok()?.file_name())));
    let mut numbers: Vec<u32> = names.filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn list(path: &Path) -> Option<CpuSet> {
    text(path)?.parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
