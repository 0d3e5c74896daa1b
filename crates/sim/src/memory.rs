//! The memory system: objects in chunks, caches that hold chunks, nodes and links that transfer
//! chunks.
//!
//! A handler touches objects. The answer is the time of a touch, and the touch changes every cache,
//! memory and link on the path. Each cache keeps the chunks in the order of the last use. A write
//! removes the chunk from all other caches. A read of a chunk that another cache has changed comes
//! from that cache. A core's outermost cache is the core's *domain*. A transfer from outside the
//! domain loads the domain's port, the links of the route and the source memory
//! (`memory/bandwidth.rs`).
//!
//! Leaves out: associativity and conflict misses, the TLB, prefetching beyond the bytes that a
//! handler reads, replacement other than by last use, partly filled chunks, and inclusion between
//! levels. Also directories, and snoop traffic other than `probe_bytes`. Tested in
//! `memory/tests.rs`.

mod bandwidth;
mod chunk;
mod lru;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use vermeil_sched::{CoreIndex, Distance};

use crate::fixed;
use crate::machine::{LineTime, MachineCore, Pattern, SimMachine};
use bandwidth::{Bandwidth, Delay};
use chunk::{Chunk, ChunkHolder, NOWHERE};
use lru::{Lru, LruSlot};

/// An object: bytes that handlers touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjectId(u32);

#[derive(Clone, Copy, Debug)]
struct MemoryObject {
    first: u32,
    chunks: u32,
    bytes: u32,
    /// The pool of the object.
    pool: u32,
}

/// Released objects of one size in a pool.
#[derive(Clone, Debug)]
struct Freed {
    chunks: u32,
    objects: Vec<ObjectId>,
}

/// The kind of an access to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// How a handler accesses an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectWalk {
    /// Number of bytes, from the beginning of the object.
    pub(crate) bytes: u64,
    pub(crate) access: Access,
    pub(crate) pattern: Pattern,
    /// The handler's own work during the accesses. The transfers are spread over that time.
    pub(crate) work_ps: u64,
}

/// Counts of one core's accesses. Lines are cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTraffic {
    /// Touched lines, beyond the accesses that base cycles contain.
    pub lines: u64,
    /// Lines that the core fetched from memory or from another core's cache.
    pub missed_lines: u64,
    /// The part of `missed_lines` that came from another core's cache.
    pub cache_to_cache_lines: u64,
    /// The part of `missed_lines` that came from another node's memory or cache.
    pub remote_lines: u64,
    /// Time spent waiting for lines, in picoseconds.
    pub stall_ps: u64,
}

impl CoreTraffic {
    pub(crate) fn add(&mut self, other: &Self) {
        self.lines += other.lines;
        self.missed_lines += other.missed_lines;
        self.cache_to_cache_lines += other.cache_to_cache_lines;
        self.remote_lines += other.remote_lines;
        self.stall_ps += other.stall_ps;
    }
}

/// All memory of a machine, with its caches and links.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    machine: Arc<SimMachine>,
    chunks: Vec<Chunk>,
    objects: Vec<MemoryObject>,
    caches: Vec<Lru>,
    /// By core.
    innermost: Vec<Innermost>,
    /// The outermost cache above each cache.
    domains: Vec<u16>,
    ports: Vec<Option<Bandwidth>>,
    drams: Vec<Bandwidth>,
    links: Vec<Bandwidth>,
    /// Released objects, by pool and number of chunks. The memory is used again while the memory is
    /// warm.
    free: Vec<Vec<Freed>>,
    traffic: Vec<CoreTraffic>,
    /// Kept between calls to reuse the allocation.
    dropped: Vec<ChunkHolder>,
}

/// A core's nearest cache, which has most of the touched chunks.
#[derive(Clone, Copy, Debug)]
struct Innermost {
    /// [`NOWHERE`] if the core has no modelled cache.
    cache: u16,
    hit: LineTime,
}

/// The source of a line.
#[derive(Clone, Copy, Debug)]
enum LineSource {
    Cache(u16),
    Memory(u16),
}

impl Memory {
    /// The machine's memory, with empty caches.
    pub(crate) fn new(machine: Arc<SimMachine>) -> Self {
        let burstiness = machine.dram.burstiness_milli;
        let resource = |bytes_per_us| Bandwidth::new(bytes_per_us, machine.line_bytes, burstiness);
        let domain = |cache: usize| {
            let user = machine.cores.iter().find(|core| core.caches.contains(&(cache as u16)));
            user.and_then(|core| core.caches.last().copied()).unwrap_or(cache as u16)
        };
        Self {
            chunks: Vec::new(),
            objects: Vec::new(),
            caches: machine.caches.iter().map(|cache| Lru::new(cache.bytes)).collect(),
            innermost: machine.cores.iter().map(|core| innermost(&machine, core)).collect(),
            domains: (0..machine.caches.len()).map(domain).collect(),
            ports: machine.caches.iter().map(|cache| cache.port_bytes_per_us.map(resource)).collect(),
            drams: (0..machine.nodes).map(|_| resource(machine.dram.bytes_per_us)).collect(),
            links: machine.links.iter().map(|link| resource(link.bytes_per_us)).collect(),
            // A pool for each core, and a common pool.
            free: vec![Vec::new(); machine.cores.len() + 1],
            traffic: vec![CoreTraffic::default(); machine.cores.len()],
            dropped: Vec::new(),
            machine,
        }
    }

    /// An object of this size in the memory of `home`, from the pool of a core. Any number that is
    /// not a core means the common pool.
    pub(crate) fn allocate(&mut self, bytes: u64, home: u16, pool: u32) -> ObjectId {
        let bytes = u32::try_from(bytes.max(1)).expect("the ranges of a workload bound its objects");
        let chunks = bytes.div_ceil(self.machine.chunk_bytes);
        let pool = pool.min(self.free.len() as u32 - 1);
        let of_size = self.free[pool as usize].iter_mut().find(|freed| freed.chunks == chunks);
        if let Some(object) = of_size.and_then(|freed| freed.objects.pop()) {
            self.objects[object.0 as usize].bytes = bytes;
            return object;
        }
        let first = self.chunks.len() as u32;
        for index in 0..chunks {
            let rest = bytes - index * self.machine.chunk_bytes;
            self.chunks.push(Chunk::new(rest.min(self.machine.chunk_bytes), home));
        }
        self.objects.push(MemoryObject { first, chunks, bytes, pool });
        ObjectId(self.objects.len() as u32 - 1)
    }

    /// Returns an object to the object's pool. The object stays in the caches, so the next user
    /// finds a warm object.
    pub(crate) fn release(&mut self, object: ObjectId) {
        let MemoryObject { chunks, pool, .. } = self.objects[object.0 as usize];
        let pool = &mut self.free[pool as usize];
        match pool.iter_mut().find(|freed| freed.chunks == chunks) {
            Some(freed) => freed.objects.push(object),
            None => pool.push(Freed { chunks, objects: vec![object] }),
        }
    }

    /// A core touches an object, from `at_ps` on. Returns the wait for lines, without the work that
    /// the core does meanwhile.
    pub(crate) fn touch(&mut self, core: CoreIndex, object: ObjectId, walk: ObjectWalk, at_ps: u64) -> u64 {
        let ObjectWalk { bytes, access, pattern, .. } = walk;
        let MemoryObject { first, chunks, bytes: size, .. } = self.objects[object.0 as usize];
        let all = bytes.min(u64::from(size));
        let took_ps = if chunks == 1 {
            let lines = self.lines(all.min(u64::from(self.chunks[first as usize].bytes)));
            self.touch_chunk(core, first, lines, access, pattern, at_ps)
        } else {
            self.touch_chunks(core, first..first + chunks, ObjectWalk { bytes: all, ..walk }, at_ps)
        };
        self.traffic[core.0 as usize].stall_ps += took_ps;
        took_ps
    }

    fn touch_chunks(&mut self, core: CoreIndex, chunks: Range<u32>, walk: ObjectWalk, at_ps: u64) -> u64 {
        let ObjectWalk { bytes: all, access, pattern, work_ps } = walk;
        let (mut left, mut took_ps) = (all, 0);
        for chunk in chunks {
            if left == 0 {
                break;
            }
            let part = left.min(u64::from(self.chunks[chunk as usize].bytes));
            let worked_ps = match (work_ps, all - left) {
                (0, _) | (_, 0) => 0,
                (_, walked) => fixed::share(work_ps, walked, all),
            };
            let begin_ps = at_ps + worked_ps + took_ps;
            took_ps += self.touch_chunk(core, chunk, self.lines(part), access, pattern, begin_ps);
            left -= part;
        }
        took_ps
    }

    fn lines(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.machine.line_bytes))
    }

    /// A core reads bytes that no cache keeps, because they are too many and used once, from the
    /// memory of `home`.
    pub(crate) fn stream(
        &mut self,
        core: CoreIndex,
        home: u16,
        bytes: u64,
        pattern: Pattern,
        at_ps: u64,
    ) -> u64 {
        let lines = bytes.div_ceil(u64::from(self.machine.line_bytes));
        self.traffic[core.0 as usize].lines += lines;
        let took_ps = self.fetch(core, LineSource::Memory(home), lines, pattern, at_ps);
        self.traffic[core.0 as usize].stall_ps += took_ps;
        took_ps
    }

    /// A device on node `device` moves bytes to or from the memory of `home`. No core waits for the
    /// transfer.
    pub(crate) fn dma(&mut self, device: u16, home: u16, bytes: u64, access: Access, at_ps: u64) {
        match access {
            Access::Write => self.carry(device, home, bytes, at_ps),
            Access::Read => self.carry(home, device, bytes, at_ps),
        };
        self.drams[usize::from(home)].carry(at_ps, bytes);
    }

    /// The counts of each core's accesses.
    pub(crate) fn traffic(&self) -> &[CoreTraffic] {
        &self.traffic
    }

    /// Use of each link, of each node's memory and of each port over this time, in thousandths.
    pub(crate) fn usage_milli(&self, elapsed_ps: u64) -> CarrierUse {
        let used = |resource: &Bandwidth| resource.used_milli(elapsed_ps);
        let peak = |resources: &[Bandwidth]| resources.iter().map(Bandwidth::peak_milli).max().unwrap_or(0);
        CarrierUse {
            links: self.links.iter().map(used).collect(),
            memories: self.drams.iter().map(used).collect(),
            ports: self.ports.iter().flatten().map(used).collect(),
            link_peak: peak(&self.links),
            carried_bytes: self.drams.iter().map(Bandwidth::carried_bytes).sum(),
        }
    }

    /// Resets the counts. The caches keep their chunks.
    pub(crate) fn forget_counts(&mut self) {
        self.traffic.fill(CoreTraffic::default());
        let resources = self.links.iter_mut().chain(&mut self.drams).chain(self.ports.iter_mut().flatten());
        resources.for_each(Bandwidth::forget_counts);
    }

    fn touch_chunk(
        &mut self,
        core: CoreIndex,
        chunk: u32,
        lines: u64,
        access: Access,
        pattern: Pattern,
        at_ps: u64,
    ) -> u64 {
        self.traffic[core.0 as usize].lines += lines;
        let Innermost { cache, hit } = self.innermost[core.0 as usize];
        if let Some(slot) = self.chunks[chunk as usize].slot_in(cache) {
            self.caches[usize::from(cache)].touch(slot);
            let asked_ps = match access {
                Access::Read => 0,
                Access::Write => self.own(core, chunk, true, lines, pattern),
            };
            return lines * hit.ps(pattern) + asked_ps;
        }
        let hit = self.hit(core, chunk);
        let mut took_ps = match hit {
            Some((level, _)) => self.hit_ps(core, chunk, level, lines, pattern, at_ps),
            None => {
                let source = self.nearest(core, chunk);
                self.clean(core, chunk, source, at_ps);
                self.fetch(core, source, lines, pattern, at_ps)
            }
        };
        self.fill(core, chunk, hit, at_ps);
        if access == Access::Write {
            took_ps += self.own(core, chunk, hit.is_some(), lines, pattern);
        }
        took_ps
    }

    /// The first of the core's caches, without the innermost, that holds the chunk; and the slot
    /// there.
    fn hit(&self, core: CoreIndex, chunk: u32) -> Option<(usize, LruSlot)> {
        let chunk = &self.chunks[chunk as usize];
        let caches = &self.machine.cores[core.0 as usize].caches;
        caches.iter().enumerate().skip(1).find_map(|(level, &cache)| Some((level, chunk.slot_in(cache)?)))
    }

    fn hit_ps(
        &mut self,
        core: CoreIndex,
        chunk: u32,
        level: usize,
        lines: u64,
        pattern: Pattern,
        at_ps: u64,
    ) -> u64 {
        let machine = &self.machine;
        let cache = machine.cores[core.0 as usize].caches[level];
        let here = &self.chunks[chunk as usize];
        // A neighbour under the same outer cache has changed the chunk, and the neighbour's inner
        // cache still has the newest copy.
        if here.dirty != NOWHERE && here.writer != core.0 {
            let inner = machine.cores[here.writer as usize].caches.first();
            if let Some(&inner) = inner.filter(|&&inner| inner != cache && here.slot_in(inner).is_some()) {
                return self.fetch(core, LineSource::Cache(inner), lines, pattern, at_ps);
            }
        }
        lines * machine.caches[usize::from(cache)].hit.ps(pattern)
    }

    /// The source of a core's copy: the changed copy if there is one, else the nearest copy.
    fn nearest(&self, core: CoreIndex, chunk: u32) -> LineSource {
        let chunk = &self.chunks[chunk as usize];
        let distance = |holder: &ChunkHolder| self.distance_to(core, holder.cache);
        let of_owner = |holder: &ChunkHolder| {
            chunk.dirty == NOWHERE || self.domains[usize::from(holder.cache)] == chunk.dirty
        };
        let Some(best) =
            chunk.holders().filter(of_owner).min_by_key(|holder| (distance(holder), holder.cache))
        else {
            return LineSource::Memory(chunk.home);
        };
        let line_ps = self.machine.costs.line_ps(distance(&best));
        if chunk.dirty == NOWHERE && line_ps >= self.memory_latency_ps(core, chunk.home) {
            return LineSource::Memory(chunk.home);
        }
        LineSource::Cache(best.cache)
    }

    fn distance_to(&self, core: CoreIndex, cache: u16) -> Distance {
        let there = CoreIndex(self.machine.caches[usize::from(cache)].first_core);
        self.machine.layout().distance(core, there)
    }

    fn memory_latency_ps(&self, core: CoreIndex, home: u16) -> u64 {
        let node = self.machine.cores[core.0 as usize].node;
        let way: u64 = self.way_latency_ps(home, node);
        self.machine.dram.latency_ps + way
    }

    fn way_latency_ps(&self, from: u16, to: u16) -> u64 {
        let route = self.machine.route(from, to);
        route.iter().map(|&link| self.machine.links[usize::from(link)].latency_ps).sum()
    }

    /// Moves lines to a core: the latency divided by the overlap, and the delay on the route.
    fn fetch(
        &mut self,
        core: CoreIndex,
        source: LineSource,
        lines: u64,
        pattern: Pattern,
        at_ps: u64,
    ) -> u64 {
        let node = self.machine.cores[core.0 as usize].node;
        let bytes = lines * u64::from(self.machine.line_bytes);
        let (from, latency_ps, memory) = match source {
            LineSource::Memory(home) => {
                (home, self.memory_latency_ps(core, home), self.drams[usize::from(home)].carry(at_ps, bytes))
            }
            LineSource::Cache(cache) => {
                let line_ps = self.machine.costs.line_ps(self.distance_to(core, cache));
                (self.machine.caches[usize::from(cache)].node, line_ps, Delay::default())
            }
        };
        let mut delay = memory.and(self.carry(from, node, bytes, at_ps));
        let domain = self.machine.cores[core.0 as usize].caches.last().copied();
        let inside =
            matches!(source, LineSource::Cache(cache) if Some(self.domains[usize::from(cache)]) == domain);
        if let (Some(domain), false) = (domain, inside)
            && let Some(port) = &mut self.ports[usize::from(domain)]
        {
            delay = delay.and(port.carry(at_ps, bytes));
        }
        self.probe(node, lines, at_ps);
        let counts = &mut self.traffic[core.0 as usize];
        counts.missed_lines += lines;
        counts.cache_to_cache_lines += if matches!(source, LineSource::Cache(_)) { lines } else { 0 };
        counts.remote_lines += if from == node { 0 } else { lines };
        let overlap = self.machine.dram.overlap_milli(pattern);
        lines * (latency_ps + delay.line_ps) * 1_000 / overlap + delay.spill_ps
    }

    /// Loads the links from one node to another.
    fn carry(&mut self, from: u16, to: u16, bytes: u64, at_ps: u64) -> Delay {
        let mut delay = Delay::default();
        for &link in self.machine.route(from, to) {
            delay = delay.and(self.links[usize::from(link)].carry(at_ps, bytes));
        }
        delay
    }

    /// Asks all other nodes for lines, on machines without a directory. No core waits for the
    /// answers longer than for memory.
    fn probe(&mut self, node: u16, lines: u64, at_ps: u64) {
        let bytes = lines * self.machine.dram.probe_bytes_milli / 1_000;
        if bytes == 0 {
            return;
        }
        for other in (0..self.machine.nodes as u16).filter(|&other| other != node) {
            self.carry(node, other, bytes, at_ps);
            self.carry(other, node, bytes, at_ps);
        }
    }

    /// A read of a chunk that another domain has changed updates the memory.
    fn clean(&mut self, core: CoreIndex, chunk: u32, source: LineSource, at_ps: u64) {
        let owner = self.chunks[chunk as usize].dirty;
        let ours = self.machine.cores[core.0 as usize].caches.last().copied();
        if owner != NOWHERE && Some(owner) != ours && matches!(source, LineSource::Cache(_)) {
            self.write_back(chunk, at_ps);
        }
    }

    fn write_back(&mut self, chunk: u32, at_ps: u64) {
        let Chunk { home, dirty, bytes, .. } = self.chunks[chunk as usize];
        self.chunks[chunk as usize].dirty = NOWHERE;
        let from = self.machine.caches[usize::from(dirty)].node;
        self.carry(from, home, u64::from(bytes), at_ps);
        self.drams[usize::from(home)].carry(at_ps, u64::from(bytes));
        if let Some(port) = &mut self.ports[usize::from(dirty)] {
            port.carry(at_ps, u64::from(bytes));
        }
    }

    /// Makes the chunk the newest in the cache that had the chunk, and adds the chunk to all caches
    /// nearer to the core. Without a hit, adds the chunk to all caches of the core.
    fn fill(&mut self, core: CoreIndex, chunk: u32, hit: Option<(usize, LruSlot)>, at_ps: u64) {
        let mut without = self.machine.cores[core.0 as usize].caches.len();
        if let Some((level, slot)) = hit {
            without = level;
            let cache = self.machine.cores[core.0 as usize].caches[level];
            self.caches[usize::from(cache)].touch(slot);
        }
        for level in 0..without {
            let cache = self.machine.cores[core.0 as usize].caches[level];
            let bytes = self.chunks[chunk as usize].bytes;
            let slot = self.caches[usize::from(cache)].insert(chunk, bytes);
            self.chunks[chunk as usize].add(ChunkHolder { cache, slot });
            self.make_room(cache, at_ps);
        }
    }

    fn make_room(&mut self, cache: u16, at_ps: u64) {
        while self.caches[usize::from(cache)].is_over() {
            let Some(victim) = self.caches[usize::from(cache)].evict() else { return };
            self.chunks[victim as usize].drop_from(cache);
            let domain = self.domains[usize::from(cache)];
            let gone = &self.chunks[victim as usize];
            let kept = gone.holders().any(|holder| self.domains[usize::from(holder.cache)] == domain);
            if gone.dirty == domain && !kept {
                self.write_back(victim, at_ps);
            }
        }
    }

    /// The core writes, so all other caches lose the chunk. Returns the time to ask the holders.
    fn own(&mut self, core: CoreIndex, chunk: u32, held: bool, lines: u64, pattern: Pattern) -> u64 {
        let Self { machine, chunks, caches, dropped, .. } = self;
        let path = &machine.cores[core.0 as usize].caches;
        let Some(&domain) = path.last() else { return 0 };
        let target = &mut chunks[chunk as usize];
        target.dirty = domain;
        target.writer = core.0;
        if target.is_only_in(path) {
            return 0;
        }
        target.keep_only(path, dropped);
        let farthest = dropped.iter().map(|holder| {
            caches[usize::from(holder.cache)].remove(holder.slot);
            let there = CoreIndex(machine.caches[usize::from(holder.cache)].first_core);
            machine.layout().distance(core, there)
        });
        // A fetch for the write has already asked the holders.
        match farthest.max() {
            Some(distance) if held => {
                lines * machine.costs.line_ps(distance) * 1_000 / machine.dram.overlap_milli(pattern)
            }
            _ => 0,
        }
    }
}

fn innermost(machine: &SimMachine, core: &MachineCore) -> Innermost {
    let cache = core.caches.first().copied();
    let hit = cache.map_or(LineTime::default(), |cache| machine.caches[usize::from(cache)].hit);
    Innermost { cache: cache.unwrap_or(NOWHERE), hit }
}

/// Use of memories, links and ports, in thousandths.
#[derive(Clone, Debug, Default)]
pub(crate) struct CarrierUse {
    pub(crate) links: Vec<u64>,
    pub(crate) memories: Vec<u64>,
    pub(crate) ports: Vec<u64>,
    /// The fullest window of any link.
    pub(crate) link_peak: u64,
    /// Bytes to and from all memories.
    pub(crate) carried_bytes: u64,
}
