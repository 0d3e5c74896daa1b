use super::*;
use crate::fixture::FixtureRoot;

const MOUNT_V2: &str = "31 23 0:41 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";

fn check(root: &FixtureRoot, affinity: &str, cpus: &str, limit: Option<f64>) -> Allowed {
    let allowed = allowed(root.path(), &affinity.parse().expect("a cpu list"));
    assert_eq!(
        (allowed.cpus.to_string().as_str(), allowed.cpu_limit),
        (cpus, limit),
        "{:?}",
        allowed.reasons
    );
    allowed
}

fn v2(cgroup: &str) -> FixtureRoot {
    FixtureRoot::new().with("proc/self/mountinfo", MOUNT_V2).with("proc/self/cgroup", &format!("0::{cgroup}"))
}

#[test]
fn without_cgroups_the_affinity_mask_counts() {
    let allowed = check(&FixtureRoot::new(), "0-3", "0-3", None);
    assert_eq!(allowed.reasons, ["affinity mask: cpus 0-3"]);
    assert_eq!(cores_for(&allowed), 4);
}

#[test]
fn v2_takes_the_smallest_quota_on_the_way_up_and_the_nearest_cpuset() {
    let root = v2("/web.slice/vermeil.service")
        .with("sys/fs/cgroup/cpu.stat", "")
        .with("sys/fs/cgroup/cpuset.cpus.effective", "0-7")
        .with("sys/fs/cgroup/web.slice/cpu.max", "150000 100000")
        .with("sys/fs/cgroup/web.slice/cpuset.cpus.effective", "0-3")
        .with("sys/fs/cgroup/web.slice/vermeil.service/cpu.max", "600000 100000");
    let allowed = check(&root, "1-7", "1-3", Some(1.5));
    assert_eq!(cores_for(&allowed), 2);
    let reasons = [
        "affinity mask: cpus 1-7",
        "cgroup cpuset: cpus 0-3 (/sys/fs/cgroup/web.slice/cpuset.cpus.effective)",
        "cgroup quota: 1.5 cpus (/sys/fs/cgroup/web.slice/cpu.max)",
    ];
    assert_eq!(allowed.reasons, reasons);
}

#[test]
fn v2_without_limits_and_with_an_odd_one() {
    check(&v2("/a").with("sys/fs/cgroup/a/cpu.max", "max 100000"), "0-1", "0-1", None);
    let third =
        allowed(v2("/").with("sys/fs/cgroup/cpu.max", "1 3").path(), &"0-1".parse().expect("a cpu list"));
    assert!(third.reasons[1].starts_with("cgroup quota: 0.33 cpus"), "{:?}", third.reasons);
}

#[test]
fn in_a_container_with_its_own_namespace_the_path_is_the_mount() {
    let root = v2("/").with("sys/fs/cgroup/cpu.max", "50000 100000");
    let allowed = check(&root, "0-7", "0-7", Some(0.5));
    assert_eq!(cores_for(&allowed), 1);
    let outside = v2("/../../other").with("sys/fs/cgroup/cpu.max", "50000");
    check(&outside, "0-7", "0-7", Some(0.5));
}

#[test]
fn v1_walks_each_controllers_own_tree() {
    let mounts = "\
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpuacct,cpu
34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
    let root = FixtureRoot::new()
        .with("proc/self/mountinfo", mounts)
        .with("proc/self/cgroup", "9:name=systemd:/x\n3:cpuset:/set\n1:cpu,cpuacct:/a/b\n0::/x")
        .with("sys/fs/cgroup/cpuset/cpuset.cpus", "0-7")
        .with("sys/fs/cgroup/cpuset/set/cpuset.cpus", "2-3")
        .with("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1")
        .with("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000")
        .with("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000")
        .with("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1");
    let allowed = check(&root, "0-7", "2-3", Some(2.5));
    assert_eq!(cores_for(&allowed), 2);
}

#[test]
fn v1_in_a_container_without_a_namespace_mounts_only_its_part() {
    let root = FixtureRoot::new()
        .with("proc/self/mountinfo", "40 31 0:29 /docker/c1 /cg\\040roup/cpu ro - cgroup cgroup rw,cpu")
        .with("proc/self/cgroup", "1:cpu:/docker/c1/app")
        .with("cg roup/cpu/cpu.cfs_quota_us", "300000")
        .with("cg roup/cpu/app/cpu.cfs_quota_us", "200000")
        .with("cg roup/cpu/app/cpu.cfs_period_us", "100000");
    check(&root, "0-7", "0-7", Some(2.0));
}

#[test]
fn malformed_limit_is_ignored() {
    let root =
        v2("/").with("sys/fs/cgroup/cpu.max", "many").with("sys/fs/cgroup/cpuset.cpus.effective", "8-9");
    check(&root, "0-1", "0-1", None);
    let garbage =
        FixtureRoot::new().with("proc/self/mountinfo", "a - b\n - cgroup2").with("proc/self/cgroup", "::\n0");
    check(&garbage, "0", "0", None);
}

#[test]
fn effective_quota_has_usage() {
    let root = v2("/web.slice/vermeil.service")
        .with("sys/fs/cgroup/web.slice/cpu.max", "150000 100000")
        .with("sys/fs/cgroup/web.slice/cpu.stat", "usage_usec 5\nnr_periods 40\nnr_throttled 12\n")
        .with("sys/fs/cgroup/web.slice/vermeil.service/cpu.max", "max 100000");
    let quota = CpuQuota::of_this_process(root.path()).unwrap();
    assert_eq!((quota.cpus, quota.used()), (1.5, Some(Duration::from_micros(5))));
    let silent = CpuQuota::of_this_process(v2("/").with("sys/fs/cgroup/cpu.max", "1 3").path()).unwrap();
    assert_eq!(silent.used(), None);
    assert_eq!(CpuQuota::of_this_process(FixtureRoot::new().path()), None);
}

#[test]
fn smallest_memory_limit_counts() {
    let meminfo =
        |root: FixtureRoot| root.with("proc/meminfo", "MemTotal:       4194304 kB\nMemFree: 1 kB\n");
    let memory = |root: FixtureRoot| allowed_memory(meminfo(root).path());
    assert_eq!(allowed_memory(FixtureRoot::new().path()), None);
    assert_eq!(memory(FixtureRoot::new()), Some(4 << 30));
    assert_eq!(memory(v2("/a").with("sys/fs/cgroup/a/memory.max", "max\n")), Some(4 << 30));
    let nested = v2("/a/b").with("sys/fs/cgroup/a/memory.max", "1073741824\n");
    assert_eq!(memory(nested.with("sys/fs/cgroup/a/b/memory.max", "max\n")), Some(1 << 30));
    let v1 = FixtureRoot::new()
        .with("proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory")
        .with("proc/self/cgroup", "1:memory:/a")
        .with("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
        .with("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "536870912\n");
    assert_eq!(memory(v1), Some(512 << 20));
}
