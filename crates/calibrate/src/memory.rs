//! Caches and memory: the time of a chase step in each, and the bandwidth when all cores read.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use vermeil_topology::{CacheKind, CpuId, Machine};

use crate::{CalibrateError, MeasureEffort, least};

/// Maximum size of a chase: enough for caches of 64 MB, and quick to build.
const CHASE_BYTES_MAX: u64 = 256 << 20;
/// Size of a chase through memory, as a multiple of the largest cache, within the maximum.
const BEYOND_CACHE: u64 = 4;
/// Bytes that each core sums for the bandwidth.
const SUM_BYTES: usize = 64 << 20;

/// A line of a chase: the index of the next line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct ChaseLine(u32);

/// Memory of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredMemory {
    /// A chase step that no cache serves.
    pub(crate) latency_ns: f64,
    /// Bandwidth of a node's memory when all cores read.
    pub(crate) gb_per_s: f64,
    /// Lines in flight when a single core reads in order.
    pub(crate) overlap: f64,
}

/// By level from 2 on: the time of a chase step through half of the cache.
pub(crate) fn caches(machine: &Machine, cpu: usize, effort: MeasureEffort) -> Vec<(u8, f64)> {
    let ours = machine.caches().iter().filter(|cache| {
        cache.level > 1 && cache.kind != CacheKind::Instruction && cache.cpus.contains(CpuId(cpu as u32))
    });
    let measured = ours.filter_map(|cache| Some((cache.level, chase_ns(cache.bytes? / 2, effort))));
    let mut all: Vec<(u8, f64)> = measured.collect();
    all.sort_by_key(|(level, _)| *level);
    all
}

impl MeasuredMemory {
    /// Measures with these cpus.
    pub(crate) fn measure(
        machine: &Machine,
        cpus: &[usize],
        effort: MeasureEffort,
    ) -> Result<Self, CalibrateError> {
        let largest = machine.caches().iter().filter_map(|cache| cache.bytes).max().unwrap_or(8 << 20);
        let bytes = match effort {
            MeasureEffort::Full => (BEYOND_CACHE * largest).min(CHASE_BYTES_MAX),
            MeasureEffort::Smoke => 1 << 20,
        };
        let latency_ns = crate::cores::on_cpu(cpus[0], || chase_ns(bytes, effort))?;
        let alone = bandwidth(&cpus[..1], effort)?;
        let together = bandwidth(cpus, effort)?.max(alone);
        let line_ns = 64.0 / alone;
        let nodes = machine.nodes().iter().filter(|node| !node.cpus.is_empty()).count().max(1);
        Ok(Self { latency_ns, gb_per_s: together / nodes as f64, overlap: (latency_ns / line_ns).max(1.0) })
    }
}

/// Time of a step of a circular chase through this number of bytes, in random order.
fn chase_ns(bytes: u64, effort: MeasureEffort) -> f64 {
    let lines = (bytes / 64).clamp(2, u64::from(u32::MAX)) as usize;
    let circle = circle(lines);
    let steps = effort.of(500_000);
    let mut at = 0;
    let mut walk = || {
        let start = Instant::now();
        for _ in 0..steps {
            at = circle[at as usize].0;
        }
        black_box(at);
        start.elapsed().as_nanos() as f64 / steps as f64
    };
    // The first walk fills the caches.
    walk();
    least(5, walk)
}

/// A permutation with a single cycle (Sattolo, 1986).
fn circle(lines: usize) -> Vec<ChaseLine> {
    let mut circle: Vec<ChaseLine> = (0..lines as u32).map(ChaseLine).collect();
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    for last in (1..lines).rev() {
        // Xorshift (Marsaglia, 2003): good enough for a prefetcher.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        circle.swap(last, (random % last as u64) as usize);
    }
    circle
}

/// Gigabytes per second that these cpus read in order, together.
fn bandwidth(cpus: &[usize], effort: MeasureEffort) -> Result<f64, CalibrateError> {
    let words = effort.of(SUM_BYTES / 8);
    let ready = Barrier::new(cpus.len());
    let times = thread::scope(|scope| {
        let ready = &ready;
        let reader = |cpu: &usize| {
            let cpu = *cpu;
            thread::Builder::new().spawn_scoped(scope, move || {
                let pinned =
                    vermeil_io::pin_current_thread(cpu).map_err(|source| CalibrateError::Pin { cpu, source });
                let buffer = vec![1u64; words];
                let sum = || black_box(&buffer).iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
                ready.wait();
                let ns = least(5, || {
                    let start = Instant::now();
                    black_box(sum());
                    start.elapsed().as_nanos() as f64
                });
                pinned.map(|()| ns)
            })
        };
        let readers = cpus.iter().map(reader).collect::<Result<Vec<_>, _>>()?;
        let join = |reader: thread::ScopedJoinHandle<'_, Result<f64, CalibrateError>>| {
            reader.join().expect("a measurement does not panic")
        };
        readers.into_iter().map(join).collect::<Result<Vec<f64>, CalibrateError>>()
    })?;
    Ok(times.iter().map(|ns| (words * 8) as f64 / ns.max(1.0)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chase_comes_by_every_line_before_it_is_back() {
        let circle = circle(1_000);
        let mut at = 0;
        let steps = (1..).find(|_| {
            at = circle[at as usize].0;
            at == 0
        });
        assert_eq!(steps, Some(1_000));
    }
}
