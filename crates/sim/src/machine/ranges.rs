//! The ranges of a machine's numbers. A value outside the range is an error.
//!
//! Owns the bounds. A message names the machine, the key, the value and the allowed values. Tested
//! in `machine/tests.rs`.

use super::MachineSpec;
use super::spec::CostSpec;
use crate::SimError;

/// Longest time of an operation or access: a second.
const NS_MAX: f64 = 1e9;
/// Largest bandwidth, in gigabytes per second.
const GB_PER_S_MAX: f64 = 1e6;

/// Checks every number of `spec`.
pub(super) fn check(spec: &MachineSpec) -> Result<(), SimError> {
    let ranges = MachineRanges { machine: &spec.name };
    ranges.within("mhz", spec.mhz.into(), 1.0, 100_000.0)?;
    ranges.within("base_ipc", spec.base_ipc, 0.001, 100.0)?;
    ranges.within("line_bytes", spec.line_bytes.into(), 8.0, 4096.0)?;
    ranges.within("chunk_bytes", spec.chunk_bytes.into(), spec.line_bytes.into(), f64::from(1 << 30))?;
    if !spec.chunk_bytes.is_multiple_of(spec.line_bytes) {
        let (chunk, line) = (spec.chunk_bytes, spec.line_bytes);
        let problem = format!("chunk_bytes = {chunk}: allowed are multiples of line_bytes, which is {line}");
        return Err(SimError::machine(&spec.name, problem));
    }
    for cache in &spec.cache {
        let key = |name: &str| format!("{name} of [[cache]] level {}", cache.level);
        ranges.time(&key("latency_ns"), cache.latency_ns)?;
        ranges.within(&key("overlap_sequential"), cache.overlap_sequential, 1.0, 1000.0)?;
        ranges.within(&key("overlap_random"), cache.overlap_random, 1.0, 1000.0)?;
        if let Some(port) = cache.port_gb_per_s {
            ranges.bandwidth(&key("port_gb_per_s"), port)?;
        }
    }
    let memory = &spec.memory;
    ranges.time("latency_ns of [memory]", memory.latency_ns)?;
    ranges.bandwidth("gb_per_s of [memory]", memory.gb_per_s)?;
    ranges.within("overlap_sequential of [memory]", memory.overlap_sequential, 1.0, 1000.0)?;
    ranges.within("overlap_random of [memory]", memory.overlap_random, 1.0, 1000.0)?;
    ranges.within("burstiness of [memory]", memory.burstiness, 0.0, 1000.0)?;
    ranges.within("probe_bytes of [memory]", memory.probe_bytes, 0.0, 1e6)?;
    for link in &spec.link {
        let key =
            |name: &str| format!("{name} of the link between nodes {} and {}", link.nodes[0], link.nodes[1]);
        ranges.bandwidth(&key("gb_per_s"), link.gb_per_s)?;
        ranges.time(&key("latency_ns"), link.latency_ns)?;
    }
    for nic in &spec.nic {
        ranges.within(&format!("count of the cards of node {}", nic.node), nic.count.into(), 1.0, 4096.0)?;
    }
    for slow in &spec.slow {
        ranges.within("percent of [[slow]]", slow.percent.into(), 1.0, 100.0)?;
    }
    check_costs(&ranges, &spec.costs)
}

fn check_costs(ranges: &MachineRanges<'_>, costs: &CostSpec) -> Result<(), SimError> {
    let wake = &costs.wake;
    for (key, value) in [
        ("dispatch_ns", costs.dispatch_ns),
        ("post_ns", costs.post_ns),
        ("lock_ns", costs.lock_ns),
        ("search_ns", costs.search_ns),
        ("syscall_ns", costs.syscall_ns),
        ("park_ns", costs.park_ns),
        ("wake_call_ns", costs.wake_call_ns),
        ("wake.median_ns", wake.median_ns),
        ("wake.tail_ns", wake.tail_ns),
    ] {
        ranges.time(&format!("{key} of [costs]"), value)?;
    }
    ranges.within("steal_lines of [costs]", costs.steal_lines, 0.0, 1e6)?;
    ranges.within("scan_lines of [costs]", costs.scan_lines, 0.0, 1e6)?;
    ranges.within("wake.tail_permille of [costs]", wake.tail_permille.into(), 0.0, 1000.0)?;
    ranges.within("smt_percent of [costs]", costs.smt_percent.into(), 1.0, 100.0)?;
    let line = &costs.line;
    for (key, value) in [
        ("smt", line.smt),
        ("l2", line.l2),
        ("l3", line.l3),
        ("node", line.node),
        ("hop1", line.hop1),
        ("hop2", line.hop2),
        ("hop3", line.hop3),
    ] {
        ranges.time(&format!("line.{key} of [costs]"), value.unwrap_or(0.0))?;
    }
    Ok(())
}

/// Checks values of one machine.
struct MachineRanges<'a> {
    machine: &'a str,
}

impl MachineRanges<'_> {
    fn within(&self, key: &str, value: f64, least: f64, most: f64) -> Result<(), SimError> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(SimError::machine(self.machine, format!("{key} = {value}: allowed are {least} to {most}")))
    }

    fn time(&self, key: &str, value: f64) -> Result<(), SimError> {
        self.within(key, value, 0.0, NS_MAX)
    }

    fn bandwidth(&self, key: &str, value: f64) -> Result<(), SimError> {
        self.within(key, value, 0.001, GB_PER_S_MAX)
    }
}
