//! Builds a [`SimMachine`] from a machine file.
//!
//! Owns the conversion of units, the routes between nodes and the distances between cores. A route
//! is the shortest, with the lowest next node first, unless the file has a route. A distance is the
//! number of links on the route, or the rank of the firmware's distance if no links are described.
//! Tested in `machine/tests.rs`.

use std::collections::{BTreeSet, VecDeque};

use vermeil_sched::{CoreIndex, Distance, Layout};
use vermeil_topology::{self as topology, CAPACITY_MAX, CacheKind, CpuId, synthetic};

use super::{
    Dram, LineTime, MachineCore, MachineLink, MachineSpec, OperationCosts, PS_PER_NS, SimCache, SimMachine,
    ranges,
};
use crate::SimError;

impl SimMachine {
    /// Reads a machine from TOML.
    ///
    /// # Errors
    /// The text does not have the format of [`MachineSpec`], or the parts do not fit.
    pub fn from_toml(text: &str) -> Result<Self, SimError> {
        let spec = MachineSpec::from_toml(text)?;
        let Some(tree) = &spec.topology else {
            return Err(SimError::machine(
                &spec.name,
                "has no topology; write one like \"node:2 core:4 pu:1\"",
            ));
        };
        Self::build(&spec, &synthetic::parse(tree)?)
    }

    /// A described tree with the costs of a known machine: clock, latencies of caches, memory and
    /// operations. The known machine's links, network cards and slow cores are left out, because
    /// they belong to that machine's tree. So the nodes of the described tree are one hop apart.
    ///
    /// # Errors
    /// The parts do not fit.
    pub fn described(name: &str, tree: &topology::Machine, costs: &MachineSpec) -> Result<Self, SimError> {
        let spec = MachineSpec {
            name: name.to_owned(),
            about: format!("described; costs of {}", costs.name),
            topology: None,
            link: Vec::new(),
            route: Vec::new(),
            nic: Vec::new(),
            slow: Vec::new(),
            ..costs.clone()
        };
        Self::build(&spec, tree)
    }

    /// Builds a machine from costs and a topology.
    ///
    /// # Errors
    /// The parts do not fit.
    pub fn build(spec: &MachineSpec, tree: &topology::Machine) -> Result<Self, SimError> {
        ranges::check(spec)?;
        // The costs of another machine may have levels that the described tree lacks.
        if spec.topology.is_some() {
            check_levels(spec, tree)?;
        }
        let nodes = tree.nodes().len();
        let links = links(spec, nodes)?;
        let routes = routes(spec, &links, nodes)?;
        let cpus: Vec<CpuId> = tree.pus().iter().map(|pu| pu.cpu).collect();
        let caches = caches(spec, tree);
        let mut cores = cpus.iter().map(|&cpu| core(tree, &caches, cpu)).collect::<Vec<_>>();
        slow_down(spec, &mut cores)?;
        let layout = layout(spec, tree, &cpus, &routes, links.is_empty())?;
        let machine = Self {
            name: spec.name.clone(),
            about: spec.about.clone(),
            mhz: spec.mhz.max(1),
            base_ipc: spec.base_ipc,
            line_bytes: spec.line_bytes.max(1),
            chunk_bytes: spec.chunk_bytes.max(spec.line_bytes),
            caches: caches.into_iter().map(|(cache, _)| cache).collect(),
            dram: dram(spec),
            nics: nics(spec, nodes)?,
            costs: costs(spec),
            cores,
            nodes,
            links,
            routes,
            layout,
        };
        Ok(machine)
    }

    /// The same machine with only these cores, in this order. Caches, memory and links stay
    /// complete.
    ///
    /// # Errors
    /// A core does not exist, or the list is empty.
    pub fn only(&self, cores: &[CoreIndex]) -> Result<Self, SimError> {
        if let Some(core) = cores.iter().find(|core| core.0 as usize >= self.cores.len()) {
            return Err(SimError::machine(
                &self.name,
                format!("has {} cores and no {core}", self.cores.len()),
            ));
        }
        let row = |&a: &CoreIndex| cores.iter().map(|&b| self.layout.distance(a, b)).collect();
        let matrix: Vec<Vec<Distance>> = cores.iter().map(row).collect();
        let capacities = cores.iter().map(|&core| self.layout.capacity(core)).collect();
        let mut machine = self.clone();
        machine.layout = Layout::from_matrix(&matrix)?.with_capacities(capacities);
        machine.cores = cores.iter().map(|core| self.cores[core.0 as usize].clone()).collect();
        for core in &mut machine.cores {
            core.sibling = core.sibling.and_then(|sibling| {
                cores.iter().position(|&kept| kept == sibling).map(|index| CoreIndex(index as u32))
            });
        }
        for (index, cache) in machine.caches.iter_mut().enumerate() {
            let user = machine.cores.iter().position(|core| core.caches.contains(&(index as u16)));
            cache.first_core = user.unwrap_or(0) as u32;
        }
        Ok(machine)
    }
}

fn ps(ns: f64) -> u64 {
    (ns.max(0.0) * PS_PER_NS as f64).round() as u64
}

fn ns(ns: f64) -> u64 {
    ns.max(0.0).round() as u64
}

fn milli(value: f64) -> u64 {
    (value.max(0.0) * 1_000.0).round() as u64
}

/// A gigabyte per second is a thousand bytes per microsecond.
fn bytes_per_us(gb_per_s: f64) -> u64 {
    milli(gb_per_s).max(1)
}

fn line_time(latency_ns: f64, sequential: f64, random: f64) -> LineTime {
    let at = |overlap: f64| ps(latency_ns / overlap.max(1.0)) as u32;
    LineTime { sequential_ps: at(sequential), random_ps: at(random) }
}

fn dram(spec: &MachineSpec) -> Dram {
    let memory = &spec.memory;
    Dram {
        latency_ps: ps(memory.latency_ns),
        bytes_per_us: bytes_per_us(memory.gb_per_s),
        overlap_sequential_milli: milli(memory.overlap_sequential).max(1_000),
        overlap_random_milli: milli(memory.overlap_random).max(1_000),
        burstiness_milli: milli(memory.burstiness),
        probe_bytes_milli: milli(memory.probe_bytes),
    }
}

/// Checks that every cost of a cache belongs to a level of the topology.
fn check_levels(spec: &MachineSpec, tree: &topology::Machine) -> Result<(), SimError> {
    let modelled = tree.caches().iter().filter(|cache| cache.kind != CacheKind::Instruction);
    let levels: BTreeSet<u8> = modelled.map(|cache| cache.level).collect();
    let Some(cost) = spec.cache.iter().find(|cost| !levels.contains(&cost.level)) else { return Ok(()) };
    let known: Vec<String> = levels.iter().map(u8::to_string).collect();
    let problem = match known.is_empty() {
        true => format!("[[cache]] level {}: the topology has no caches; write l{0}:N into it", cost.level),
        false => {
            format!("[[cache]] level {}: the topology has the levels {}", cost.level, known.join(" and "))
        }
    };
    Err(SimError::machine(&spec.name, problem))
}

/// The modelled caches with the cpus that use them, outermost level first as in the topology.
fn caches(spec: &MachineSpec, tree: &topology::Machine) -> Vec<(SimCache, topology::CpuSet)> {
    let modelled = tree.caches().iter().filter(|cache| cache.kind != CacheKind::Instruction);
    let priced = modelled.filter_map(|cache| {
        let cost = spec.cache.iter().find(|cost| cost.level == cache.level)?;
        let first = cache.cpus.first()?;
        let ours = SimCache {
            level: cache.level,
            bytes: cache.bytes.unwrap_or(CACHE_BYTES_UNKNOWN),
            hit: line_time(cost.latency_ns, cost.overlap_sequential, cost.overlap_random),
            node: node_of(tree, first) as u16,
            port_bytes_per_us: cost.port_gb_per_s.map(bytes_per_us),
            first_core: tree.pus().iter().position(|pu| pu.cpu == first)? as u32,
        };
        Some((ours, cache.cpus.clone()))
    });
    priced.collect()
}

/// Size of a cache if the topology does not contain a size: the size that hwloc assumes of an L2.
const CACHE_BYTES_UNKNOWN: u64 = 4 << 20;

/// The position of the cpu's node among the machine's nodes. A cpu outside of all nodes counts to
/// the nearest node with memory, or to the first node.
fn node_of(tree: &topology::Machine, cpu: CpuId) -> usize {
    let node = tree.pu(cpu).and_then(|pu| pu.node).or_else(|| tree.memory_node(cpu));
    tree.nodes().iter().position(|other| Some(other.id) == node).unwrap_or(0)
}

fn core(tree: &topology::Machine, caches: &[(SimCache, topology::CpuSet)], cpu: CpuId) -> MachineCore {
    let position = |cpu: CpuId| tree.pus().iter().position(|pu| pu.cpu == cpu).expect("an online cpu");
    let pu = &tree.pus()[position(cpu)];
    let physical = &tree.cores()[pu.core.0 as usize];
    let mut used: Vec<u16> =
        (0..caches.len() as u16).filter(|&c| caches[usize::from(c)].1.contains(cpu)).collect();
    used.sort_by_key(|&cache| caches[usize::from(cache)].0.level);
    MachineCore {
        node: node_of(tree, cpu) as u16,
        caches: used,
        speed_percent: (u64::from(physical.capacity) * 100 / u64::from(CAPACITY_MAX)).max(1) as u32,
        sibling: physical
            .cpus
            .iter()
            .find(|&other| other != cpu)
            .map(|other| CoreIndex(position(other) as u32)),
    }
}

fn slow_down(spec: &MachineSpec, cores: &mut [MachineCore]) -> Result<(), SimError> {
    for slow in &spec.slow {
        for &index in &slow.cores {
            let count = cores.len();
            let Some(core) = cores.get_mut(index as usize) else {
                return Err(SimError::machine(&spec.name, format!("slow core {index} of {count} cores")));
            };
            core.speed_percent = slow.percent.clamp(1, 100);
        }
    }
    Ok(())
}

fn nics(spec: &MachineSpec, nodes: usize) -> Result<Vec<u16>, SimError> {
    let mut all = Vec::new();
    for nic in &spec.nic {
        check_node(spec, nic.node, nodes, "a network card")?;
        all.extend(std::iter::repeat_n(nic.node, nic.count as usize));
    }
    Ok(all)
}

fn check_node(spec: &MachineSpec, node: u16, nodes: usize, what: &str) -> Result<(), SimError> {
    if usize::from(node) < nodes {
        return Ok(());
    }
    Err(SimError::machine(
        &spec.name,
        format!("{what} names node {node}, and the nodes are 0 to {}", nodes - 1),
    ))
}

/// Both directions of every link.
fn links(spec: &MachineSpec, nodes: usize) -> Result<Vec<MachineLink>, SimError> {
    let mut all = Vec::new();
    for link in &spec.link {
        let [a, b] = link.nodes;
        check_node(spec, a, nodes, "a link")?;
        check_node(spec, b, nodes, "a link")?;
        for (from, to) in [(a, b), (b, a)] {
            let (bytes_per_us, latency_ps) = (bytes_per_us(link.gb_per_s), ps(link.latency_ns));
            all.push(MachineLink { from, to, bytes_per_us, latency_ps });
        }
    }
    Ok(all)
}

/// The links of each route, row by row.
fn routes(spec: &MachineSpec, links: &[MachineLink], nodes: usize) -> Result<Vec<Vec<u16>>, SimError> {
    let mut all = Vec::with_capacity(nodes * nodes);
    for from in 0..nodes as u16 {
        for to in 0..nodes as u16 {
            let written = spec.route.iter().find(|route| route.from == from && route.to == to);
            let stops = match written {
                Some(route) => Some([&[from], &route.via[..], &[to]].concat()),
                None => shortest(links, nodes, from, to),
            };
            let way = stops.and_then(|stops| along(links, &stops));
            match way {
                Some(way) => all.push(way),
                None if links.is_empty() => all.push(Vec::new()),
                None => {
                    let problem = format!("no links lead from node {from} to node {to}; add some");
                    return Err(SimError::machine(&spec.name, problem));
                }
            }
        }
    }
    Ok(all)
}

fn shortest(links: &[MachineLink], nodes: usize, from: u16, to: u16) -> Option<Vec<u16>> {
    let mut before = vec![None; nodes];
    let mut open = VecDeque::from([from]);
    while let Some(node) = open.pop_front() {
        if node == to {
            break;
        }
        let mut next: Vec<u16> = links.iter().filter(|link| link.from == node).map(|link| link.to).collect();
        next.sort_unstable();
        for other in next {
            if other != from && before[usize::from(other)].is_none() {
                before[usize::from(other)] = Some(node);
                open.push_back(other);
            }
        }
    }
    let mut stops = vec![to];
    while *stops.last()? != from {
        stops.push(before[usize::from(*stops.last()?)]?);
    }
    stops.reverse();
    Some(stops)
}

fn along(links: &[MachineLink], stops: &[u16]) -> Option<Vec<u16>> {
    let step = |pair: &[u16]| {
        links.iter().position(|link| link.from == pair[0] && link.to == pair[1]).map(|index| index as u16)
    };
    stops.windows(2).map(step).collect()
}

fn layout(
    spec: &MachineSpec,
    tree: &topology::Machine,
    cpus: &[CpuId],
    routes: &[Vec<u16>],
    without_links: bool,
) -> Result<Layout, SimError> {
    let measured = Layout::from_machine(tree, cpus)?;
    let nodes = tree.nodes().len();
    let node_of = |core: CoreIndex| node_of(tree, tree.pus()[core.0 as usize].cpu);
    let distance = |a: CoreIndex, b: CoreIndex| match measured.distance(a, b) {
        Distance::Hops(_) if !without_links => {
            let (x, y) = (node_of(a), node_of(b));
            let hops = routes[x * nodes + y].len().max(routes[y * nodes + x].len());
            Distance::Hops(hops.clamp(1, usize::from(u8::MAX)) as u8)
        }
        near => near,
    };
    let row = |a: CoreIndex| measured.indices().map(|b| distance(a, b)).collect();
    let matrix: Vec<Vec<Distance>> = measured.indices().map(row).collect();
    let mut capacities: Vec<u32> = measured.indices().map(|core| measured.capacity(core)).collect();
    for slow in spec.slow.iter().filter(|slow| slow.announced) {
        for &core in &slow.cores {
            capacities[core as usize] = (CAPACITY_MAX * slow.percent.clamp(1, 100) / 100).max(1);
        }
    }
    Ok(Layout::from_matrix(&matrix)?.with_capacities(capacities))
}

fn costs(spec: &MachineSpec) -> OperationCosts {
    let costs = &spec.costs;
    let line = &costs.line;
    let mut line_ps = [0; Distance::CLASSES];
    let written = [None, line.smt, line.l2, line.l3, line.node, line.hop1, line.hop2, line.hop3];
    for class in 1..Distance::CLASSES {
        line_ps[class] = written[class].map_or(line_ps[class - 1], ps);
    }
    OperationCosts {
        dispatch_ns: ns(costs.dispatch_ns),
        post_ns: ns(costs.post_ns),
        lock_ns: ns(costs.lock_ns),
        search_ns: ns(costs.search_ns),
        steal_lines_milli: milli(costs.steal_lines),
        scan_lines_milli: milli(costs.scan_lines),
        syscall_ns: ns(costs.syscall_ns),
        park_ns: ns(costs.park_ns),
        wake_call_ns: ns(costs.wake_call_ns),
        wake_median_ns: ns(costs.wake.median_ns),
        wake_tail_ns: ns(costs.wake.tail_ns),
        wake_tail_permille: costs.wake.tail_permille.min(1000),
        smt_percent: costs.smt_percent.clamp(1, 100),
        line_ps,
        line_ns: line_ps.map(|ps| ps / PS_PER_NS),
    }
}
