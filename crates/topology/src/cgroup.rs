//! The part of the machine that this process may use: affinity, cgroup cpusets, cgroup cpu quotas
//! and cgroup memory limits, of cgroups v1 and v2 (kernel:
//! `Documentation/admin-guide/cgroup-v1/cpusets.rst`, `cgroup-v2.rst`, `scheduler/sched-bwc.rst`).
//!
//! Finds the process's cgroups (`/proc/self/cgroup`), their mounts (`/proc/self/mountinfo`) and the
//! limits of the cgroups and their parents. Inside a container the path is `/` and the mount shows
//! the container's own part, so the same walk works there. Leaves out the query of the affinity
//! mask. Tested in `cgroup/tests.rs`.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::{CpuSet, Machine};

#[cfg(test)]
mod tests;

/// The period of a quota whose file does not name one, in microseconds (the kernel's default).
const PERIOD_US_DEFAULT: f64 = 100_000.0;

/// The cpus and the cpu time that a process may use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Allowed {
    /// The allowed cpus.
    pub cpus: CpuSet,
    /// The limit of cpu time, in cpus: 1.5 is 1.5 seconds per second. `None` is no limit.
    pub cpu_limit: Option<f64>,
    /// The restrictions found and their sources, one line each, for people.
    pub reasons: Vec<String>,
}

impl Allowed {
    /// The whole machine, for machines that exist only as a description.
    pub fn everything(machine: &Machine) -> Allowed {
        Allowed { cpus: machine.cpus().clone(), cpu_limit: None, reasons: Vec::new() }
    }
}

/// The effective cpu quota of this process: the smallest quota of the process's cgroups.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuQuota {
    /// In cpus: 1.5 is 1.5 seconds per second.
    pub cpus: f64,
    folder: PathBuf,
}

impl CpuQuota {
    /// The quota of this process, from the files below `root`, normally `/`; `None` without a
    /// quota.
    pub fn of_this_process(root: &Path) -> Option<CpuQuota> {
        let quotas = hierarchies(root).into_iter().filter_map(|hierarchy| hierarchy.quota());
        let (cpus, file) = quotas.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        Some(CpuQuota { cpus, folder: file.parent()?.to_owned() })
    }

    /// The cpu time of all processes under the quota since their cgroup was made. `None` if the
    /// kernel does not count the time there (cgroups v1 with `cpuacct` mounted elsewhere).
    pub fn used(&self) -> Option<Duration> {
        let read = |name: &str| fs::read_to_string(self.folder.join(name)).ok();
        let version_2 = || {
            let text = read("cpu.stat")?;
            let us = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
            us.trim().parse().ok().map(Duration::from_micros)
        };
        let version_1 = || read("cpuacct.usage")?.trim().parse().ok().map(Duration::from_nanos);
        version_2().or_else(version_1)
    }
}

/// The number of cores that a server should run: the number of cpus, or the quota rounded up if
/// that is less, at least 1.
pub fn cores_for(allowed: &Allowed) -> usize {
    let limit = allowed.cpu_limit.map_or(usize::MAX, |limit| limit.ceil() as usize);
    allowed.cpus.len().min(limit).max(1)
}

/// The part of the machine that this process may use, from the files below `root`, normally `/`.
/// `affinity` is the process's mask from `sched_getaffinity`.
///
/// Among quotas of nested cgroups the smallest counts. Missing or malformed files limit nothing.
pub fn allowed(root: &Path, affinity: &CpuSet) -> Allowed {
    let mut allowed = Allowed {
        cpus: affinity.clone(),
        cpu_limit: None,
        reasons: vec![format!("affinity mask: cpus {affinity}")],
    };
    for hierarchy in hierarchies(root) {
        if let Some((cpus, path)) = hierarchy.cpuset() {
            allowed.reasons.push(format!("cgroup cpuset: cpus {cpus} ({})", shown(root, &path)));
            let both = allowed.cpus.intersection(&cpus);
            // The mask comes from the kernel. A cpuset that contradicts the mask was changed
            // meanwhile.
            if !both.is_empty() {
                allowed.cpus = both;
            }
        }
        if let Some((limit, path)) = hierarchy.quota() {
            allowed.reasons.push(format!(
                "cgroup quota: {} cpus ({})",
                hundredths(limit),
                shown(root, &path)
            ));
            allowed.cpu_limit = Some(allowed.cpu_limit.map_or(limit, |other| other.min(limit)));
        }
    }
    allowed
}

/// The memory that this process may use, in bytes, from the files below `root`, normally `/`: the
/// machine's memory, or the smallest limit of the process's cgroups if that is less. `None` if the
/// kernel reports no memory.
pub fn allowed_memory(root: &Path) -> Option<u64> {
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let kb = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let machine = kb.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10;
    let limits = hierarchies(root).into_iter().filter_map(|hierarchy| hierarchy.memory());
    Some(limits.fold(machine, u64::min))
}

/// A limit in a readable form: 1.5, 2, 0.33.
pub(crate) fn hundredths(limit: f64) -> f64 {
    (limit * 100.0).round() / 100.0
}

fn shown(root: &Path, path: &Path) -> String {
    format!("/{}", path.strip_prefix(root).unwrap_or(path).display())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CgroupVersion {
    V1,
    V2,
}

/// The process's folders in a cgroup tree: the process's own folder first, then all visible
/// parents.
struct Hierarchy {
    version: CgroupVersion,
    folders: Vec<PathBuf>,
}

impl Hierarchy {
    /// The nearest folder's cpuset, which is already reduced by the parents.
    fn cpuset(&self) -> Option<(CpuSet, PathBuf)> {
        let names: &[&str] = match self.version {
            CgroupVersion::V1 => &["cpuset.effective_cpus", "cpuset.cpus"],
            CgroupVersion::V2 => &["cpuset.cpus.effective"],
        };
        let paths = self.folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
        let read = |path: PathBuf| {
            let cpus: CpuSet = fs::read_to_string(&path).ok()?.parse().ok()?;
            (!cpus.is_empty()).then_some((cpus, path))
        };
        paths.filter_map(read).next()
    }

    /// The smallest quota among the folders, in cpus.
    fn quota(&self) -> Option<(f64, PathBuf)> {
        let read = |folder: &PathBuf| match self.version {
            CgroupVersion::V1 => {
                let path = folder.join("cpu.cfs_quota_us");
                let quota = fs::read_to_string(&path).ok()?;
                let period = fs::read_to_string(folder.join("cpu.cfs_period_us")).unwrap_or_default();
                Some((cpus_of(&format!("{quota} {period}"))?, path))
            }
            CgroupVersion::V2 => {
                let path = folder.join("cpu.max");
                Some((cpus_of(&fs::read_to_string(&path).ok()?)?, path))
            }
        };
        self.folders.iter().filter_map(read).min_by(|(a, _), (b, _)| a.total_cmp(b))
    }

    /// The smallest limit of memory among the folders, in bytes. The text `max` is no limit.
    fn memory(&self) -> Option<u64> {
        let name = match self.version {
            CgroupVersion::V1 => "memory.limit_in_bytes",
            CgroupVersion::V2 => "memory.max",
        };
        let read = |folder: &PathBuf| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok();
        self.folders.iter().filter_map(read).min()
    }
}

/// `QUOTA PERIOD` in microseconds as cpus; `max` and negative quotas are no limit.
fn cpus_of(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let quota = words.next()?.parse::<i64>().ok()? as f64;
    let period =
        words.next().and_then(|word| word.parse::<i64>().ok()).map_or(PERIOD_US_DEFAULT, |us| us as f64);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// The process's cgroups that can limit cpus or memory.
fn hierarchies(root: &Path) -> Vec<Hierarchy> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let mountinfo = read("proc/self/mountinfo");
    let mounts: Vec<Mount> = mountinfo.lines().filter_map(Mount::parse).collect();
    let hierarchy = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let version = if controllers.is_empty() { CgroupVersion::V2 } else { CgroupVersion::V1 };
        let matters = controllers.split(',').any(|name| matches!(name, "" | "cpu" | "cpuset" | "memory"));
        let mount = mounts.iter().find(|mount| mount.holds(version, controllers))?;
        matters.then(|| Hierarchy { version, folders: mount.folders(root, path) })
    };
    read("proc/self/cgroup").lines().filter_map(hierarchy).collect()
}

/// A mounted cgroup tree (one line of `mountinfo`, see proc(5)).
struct Mount {
    version: CgroupVersion,
    /// The mounted part of the tree.
    part: String,
    /// The mount point.
    point: String,
    /// The controllers among the options of a v1 tree.
    options: Vec<String>,
}

impl Mount {
    fn parse(line: &str) -> Option<Mount> {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut filesystem = filesystem.split(' ');
        let version = match filesystem.next()? {
            "cgroup" => CgroupVersion::V1,
            "cgroup2" => CgroupVersion::V2,
            _ => return None,
        };
        let options = filesystem.nth(1)?.split(',').map(str::to_owned).collect();
        Some(Mount { version, part: unescape(mount.next()?), point: unescape(mount.next()?), options })
    }

    fn holds(&self, version: CgroupVersion, controllers: &str) -> bool {
        let mounted = |name| self.options.iter().any(|option| option == name);
        self.version == version && (version == CgroupVersion::V2 || controllers.split(',').all(mounted))
    }

    /// The folders of cgroup `path`, the cgroup's own folder first. A path outside of the mounted
    /// part (a parent's, seen from inside a container) counts as the top of the mounted part.
    fn folders(&self, root: &Path, path: &str) -> Vec<PathBuf> {
        let top = root.join(self.point.trim_start_matches('/'));
        let inside = Path::new(path).strip_prefix(&self.part).unwrap_or(Path::new(""));
        let plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
        let inside = if plain { inside } else { Path::new("") };
        inside.ancestors().map(|part| top.join(part)).collect()
    }
}

/// Undoes the octal escapes of mountinfo (`\040` is a space).
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}
