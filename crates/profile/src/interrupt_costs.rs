//! The cost of the interrupts of samples, by the content of the samples: the floor of each recorder
//! at this rate, because no recorder takes part.
//!
//! A thread computes, and the events of its cpu are on in each second window. Ignored in the usual
//! run: `cargo test -p vermeil-profile --lib interrupts_cost -- --ignored --nocapture`.

use std::hint::black_box;
use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::ClockId;

use crate::machine::{self, nanoseconds};
use crate::perf::{
    DUMP_BYTES, ObservedThreads, RecordRing, SHORT_DUMP_BYTES, Sampling, SamplingEvent, Trigger, ring_pages,
};
use crate::statistics::Estimate;

/// Windows of each row, with the events and without.
const PAIRS: usize = 60;
/// The time of a window, so that a few samples fall into it.
const WINDOW_NS: u64 = 60_000_000;

/// Does units of work for a window; returns the cpu time of a unit.
fn unit_ns() -> f64 {
    let begin = nanoseconds(ClockId::ThreadCPUTime);
    let (mut units, mut value) = (0, 1_u64);
    loop {
        for _ in 0..10_000 {
            value ^= value << 13;
            value ^= value >> 7;
            value ^= value << 17;
        }
        units += 1;
        let taken = nanoseconds(ClockId::ThreadCPUTime) - begin;
        if taken >= WINDOW_NS {
            black_box(value);
            return taken as f64 / f64::from(units);
        }
    }
}

/// An event that samples a cpu.
enum EventsOfCpu {
    /// The samples are empty and go nowhere.
    Empty(SamplingEvent),
    WithRing(RecordRing),
}

impl EventsOfCpu {
    fn open(sampling: &Sampling) -> io::Result<Self> {
        let event = SamplingEvent::open(sampling, ObservedThreads::Cpu, 0)?;
        Ok(Self::WithRing(RecordRing::of(event, ring_pages(sampling.dump_bytes.is_some(), 1))?))
    }

    /// A window with the event on, after which the ring is emptied.
    fn unit_ns(&mut self) -> io::Result<f64> {
        let event = match self {
            Self::Empty(event) => event,
            Self::WithRing(ring) => ring.event(),
        };
        event.enable()?;
        let unit = unit_ns();
        event.disable()?;
        if let Self::WithRing(ring) = self {
            ring.look();
            while ring.first().is_some() {
                ring.pass();
            }
            ring.free();
        }
        Ok(unit)
    }
}

#[test]
#[ignore = "takes a minute, and a quiet machine"]
fn interrupts_cost_by_content() -> io::Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(0);
    sched_setaffinity(None, &cpus)?;
    let all = Sampling {
        trigger: Trigger::CpuClock,
        hz: 997,
        kernel: true,
        frames_max: machine::frames_max(),
        dump_bytes: None,
        counts: false,
    };
    let dumps = |bytes| Sampling { dump_bytes: Some(bytes), ..all };
    let rows = [
        ("nothing: the interrupt of the timer alone", None),
        ("frames of the kernel and of the process", Some(all)),
        ("the same with counts", Some(Sampling { counts: true, ..all })),
        ("registers and 8 KiB of the stack", Some(dumps(SHORT_DUMP_BYTES))),
        ("the same with counts", Some(Sampling { counts: true, ..dumps(SHORT_DUMP_BYTES) })),
        (
            "registers and 16 KiB of the stack with counts",
            Some(Sampling { counts: true, ..dumps(DUMP_BYTES) }),
        ),
    ];
    let mut costs = vec![Vec::new(); rows.len()];
    let opened = rows.iter().map(|(_, sampling)| match sampling {
        Some(sampling) => EventsOfCpu::open(sampling),
        None => SamplingEvent::open_empty(&all, 0).map(EventsOfCpu::Empty),
    });
    let mut opened = opened.collect::<io::Result<Vec<_>>>()?;
    let mut before = unit_ns();
    for round in 0..PAIRS {
        for place in 0..rows.len() {
            let row = (place + round) % rows.len();
            let unit = opened[row].unit_ns()?;
            let after = unit_ns();
            costs[row].push(2.0 * unit / (before + after) - 1.0);
            before = after;
        }
    }
    for ((name, _), costs) in rows.iter().zip(costs) {
        let cost = Estimate::of_middle(costs).expect("there are many pairs");
        let [mean, low, high] = [cost.mean, cost.low, cost.high].map(|share| 100.0 * share);
        eprintln!("{name}: {mean:.2} % [{low:.2} to {high:.2} %]");
    }
    Ok(())
}
