//! The draw of a case: every part comes from the seed's stream, in order.

use std::num::NonZeroU32;

use vermeil_sched::{CoreIndex, PlanName, Policy};

use super::SwarmCase;
use crate::machine::{profile, profiles};
use crate::options::{InjectedFault, SimOptions};
use crate::random::{RandomStream, StreamPurpose};
use crate::workload::{
    Accept, ClassSpec, HandlerSpec, NextSpec, ObjectLife, ObjectSpec, PollSpec, ShiftSpec, SourceKind,
    SourceQueue, SourceSpec, TouchSpec, WorkloadSpec,
};

/// Maximum number of cores of most cases: enough for three nodes, few enough to be fast.
const CORES_MAX: u64 = 12;
/// Cases of 1,000 that have more cores, up to all of the machine.
const WIDE_PERMILLE: u32 = 80;
/// Number of classes of handlers in a case. The case may use only some.
const CLASSES: u64 = 3;
/// Maximum virtual time of a case, in nanoseconds. The minimum is a quarter.
const RUN_NS: u64 = 16_000_000;
/// Cases of 1,000 that run for four times as long.
const LONG_PERMILLE: u32 = 80;
/// Time after the end in which every request must be answered despite faults. A later request is
/// stuck.
const DRAIN_NS: u64 = 1_000_000_000_000;
/// Steps between two audits.
const AUDIT_EVERY: u32 = 64;

pub(super) fn case(seed: u64) -> SwarmCase {
    let mut stream = RandomStream::new(seed, StreamPurpose::Swarm, 0);
    let draw = &mut stream;
    let names: Vec<&'static str> = profiles().collect();
    let machine = *pick(draw, &names);
    let mut cores = cores(draw, machine);
    let mut workload = workload(draw);
    let mut options = options(draw, seed);
    // The later kinds of parts have a stream of their own, so that they change no other part.
    let more = &mut RandomStream::new(seed, StreamPurpose::Swarm, 1);
    if more.chance(WIDE_PERMILLE) {
        cores = spread(more, machine, u64::MAX);
    }
    if more.chance(LONG_PERMILLE) {
        options.run_ns = options.run_ns.map(|run_ns| 4 * run_ns);
    }
    also(more, &mut workload);
    workload.shift = (0..more.below(6).saturating_sub(2)).map(|_| shift(more, &workload)).collect();
    SwarmCase { seed, machine, cores, workload, options }
}

fn pick<'a, T>(draw: &mut RandomStream, items: &'a [T]) -> &'a T {
    &items[draw.below(items.len() as u64) as usize]
}

/// A number between two bounds. Small and large powers of two are equally likely.
fn log_between(draw: &mut RandomStream, low: u64, high: u64) -> u64 {
    let powers = u64::from((high / low).max(1).ilog2());
    let base = low << draw.below(powers + 1);
    (base + draw.below(base)).min(high)
}

fn cores(draw: &mut RandomStream, machine: &str) -> Vec<CoreIndex> {
    spread(draw, machine, CORES_MAX)
}

/// At most this number of a machine's cores.
fn spread(draw: &mut RandomStream, machine: &str, most: u64) -> Vec<CoreIndex> {
    let all = profile(machine).expect("a shipped machine").cores() as u64;
    let count = 1 + draw.below(most.min(all));
    // A stride over the cores, so that several nodes take part.
    let stride = (all / count).max(1);
    let first = draw.below(stride);
    (0..count).map(|index| CoreIndex((first + index * stride) as u32)).collect()
}

fn options(draw: &mut RandomStream, seed: u64) -> SimOptions {
    let plans =
        [PlanName::RoundRobin, PlanName::CacheAware, PlanName::Intermediate1, PlanName::Intermediate2];
    let policies = [
        Policy::None,
        Policy::Libasync,
        Policy::Mely,
        Policy::NCopy,
        Policy::PerNode,
        Policy::Adaptive,
        Policy::Adaptive,
        Policy::Trial,
        Policy::Placed(pick(draw, &plans).clone()),
    ];
    let policy = pick(draw, &policies).clone();
    let batch_events = draw.chance(300).then(|| 1 + draw.below(64) as usize);
    let faults = (0..draw.below(4)).map(|_| fault(draw)).collect();
    SimOptions {
        seed,
        run_ns: Some(RUN_NS / 4 + draw.below(RUN_NS * 3 / 4)),
        batch_events,
        spin_ns: if draw.chance(200) { draw.below(50_000) } else { 0 },
        annotated: draw.chance(300).then(|| draw.chance(500)),
        waits_for_locks: draw.chance(200),
        leaves_half: draw.chance(200),
        colors_return: draw.chance(200),
        control_ns: Some(50_000 + draw.below(500_000)),
        drain_ns: DRAIN_NS,
        audit_every: Some(AUDIT_EVERY),
        faults,
        ..SimOptions::new(policy)
    }
}

fn fault(draw: &mut RandomStream) -> InjectedFault {
    let at_us = draw.below(RUN_NS / 1_000) as u32;
    let core = draw.below(CORES_MAX) as u32;
    match draw.below(7) {
        0 => InjectedFault::LateWakes { times: 2 + draw.below(100) as u32 },
        1 => InjectedFault::SpuriousWakes { every_us: 1 + draw.below(100) as u32 },
        2 => InjectedFault::SlowCore { core, at_us, percent: 1 + draw.below(99) as u32 },
        3 => InjectedFault::Pause { core, at_us, for_us: draw.below(5_000) as u32 },
        4 => InjectedFault::RemoveCore { core, at_us },
        5 => InjectedFault::Outliers { permille: 1 + draw.below(20) as u32, times: 1_000 },
        _ => InjectedFault::StaleHints { by_us: 1 + draw.below(1_000) as u32 },
    }
}

fn workload(draw: &mut RandomStream) -> WorkloadSpec {
    let object: Vec<ObjectSpec> = (0..draw.below(4)).map(|index| object(draw, index)).collect();
    let count = 1 + draw.below(5);
    let mut handler: Vec<HandlerSpec> =
        (0..count).map(|index| self::handler(draw, index, count, &object)).collect();
    let source = (0..1 + draw.below(2)).map(|index| source(draw, index, count, &mut handler)).collect();
    WorkloadSpec {
        name: "drawn".to_owned(),
        about: "drawn from a seed".to_owned(),
        run_ms: 0,
        warm_up_ms: 0,
        object,
        class: (0..CLASSES).map(|index| class(draw, index)).collect(),
        handler,
        source,
        shift: Vec::new(),
    }
}

fn object(draw: &mut RandomStream, index: u64) -> ObjectSpec {
    let lives =
        [ObjectLife::Request, ObjectLife::Client, ObjectLife::Shared, ObjectLife::Node, ObjectLife::Core];
    let homes = ["touch", "spread", "nic", "0"];
    ObjectSpec {
        name: format!("object-{index}"),
        bytes: log_between(draw, 64, 64 * 1024),
        life: *pick(draw, &lives),
        count: 1 + draw.below(100) as u32,
        skew_milli: if draw.chance(500) { 0 } else { draw.below(1_500) as u32 },
        home: (*pick(draw, &homes)).to_owned(),
        streamed: draw.chance(150),
    }
}

fn handler(draw: &mut RandomStream, index: u64, count: u64, objects: &[ObjectSpec]) -> HandlerSpec {
    let mut touched = Vec::new();
    for object in objects {
        if draw.chance(400) {
            touched.push(touch(draw, object));
        }
    }
    let touch = touched;
    let next = if index + 1 < count { ways_on(draw, index, count) } else { Vec::new() };
    let mut colors = vec!["request", "client", "event", "handler", "serial", "queue"];
    colors.extend(
        objects.iter().filter(|object| object.life == ObjectLife::Shared).map(|object| object.name.as_str()),
    );
    HandlerSpec {
        name: format!("handler-{index}"),
        repeat: 1,
        cycles: log_between(draw, 500, 100_000),
        spread_percent: draw.below(101) as u32,
        tail_permille: if draw.chance(200) { draw.below(50) as u32 } else { 0 },
        tail_times: 1 + draw.below(50) as u32,
        code_bytes: log_between(draw, 256, 16 * 1024),
        color: (*pick(draw, &colors)).to_owned(),
        placed_whole: draw.chance(700),
        touch,
        next,
        also: Vec::new(),
        reply: index + 1 == count,
        annotated_cycles: draw.chance(200).then(|| log_between(draw, 100, 1_000_000)),
        annotated_penalty: 1 + draw.below(10) as u32,
        follows: draw.chance(150).then(|| leader(draw, count)),
        class: draw.chance(400).then(|| format!("class-{}", draw.below(CLASSES))),
        gather_events: if draw.chance(150) { 2 + draw.below(6) as u32 } else { 0 },
        gather_us: draw.below(300),
    }
}

fn class(draw: &mut RandomStream, index: u64) -> ClassSpec {
    ClassSpec {
        name: format!("class-{index}"),
        shares: NonZeroU32::new(1 + draw.below(1_000) as u32).expect("not zero"),
        target_delay_us: draw.chance(500).then(|| draw.below(500)),
    }
}

fn leader(draw: &mut RandomStream, count: u64) -> String {
    if draw.chance(500) { "producer".to_owned() } else { format!("handler-{}", draw.below(count)) }
}

/// Successors: the next handler, a later handler, or an earlier handler, rarely enough that
/// requests end.
fn ways_on(draw: &mut RandomStream, index: u64, count: u64) -> Vec<NextSpec> {
    let way =
        |to: u64, weight: u32, after_us: u64| NextSpec { to: format!("handler-{to}"), weight, after_us };
    let wait_us = if draw.chance(150) { draw.below(200) } else { 0 };
    let mut ways = vec![way(index + 1, 4, wait_us)];
    if draw.chance(300) {
        ways.push(way(index + 1 + draw.below(count - index - 1), 2, 0));
    }
    if draw.chance(200) {
        ways.push(way(draw.below(index + 1), 1, 0));
    }
    ways
}

/// Some handlers also post to the last handler, which posts nothing. So an event never becomes more
/// and more events, although handlers may lead back.
fn also(draw: &mut RandomStream, workload: &mut WorkloadSpec) {
    let names: Vec<String> = workload.handler.iter().map(|handler| handler.name.clone()).collect();
    let Some(last) = workload.handler.iter().position(|handler| handler.reply) else { return };
    for handler in &mut workload.handler[..last] {
        for _ in 0..draw.below(10).saturating_sub(7) {
            let after_us = if draw.chance(200) { draw.below(200) } else { 0 };
            handler.also.push(NextSpec { to: names[last].clone(), weight: 1, after_us });
        }
    }
}

/// A change of the cycles of one or all handlers to a quarter up to four times, or of the rate. The
/// rate only falls and returns, because audits of long queues are slow.
fn shift(draw: &mut RandomStream, workload: &WorkloadSpec) -> ShiftSpec {
    let at_ms = draw.below(RUN_NS / 1_000_000);
    let percent = Some(log_between(draw, 25, 400) as u32);
    let rate_percent = percent.map(|percent| percent.min(100));
    let none = ShiftSpec { at_ms, handler: None, cycles_percent: None, rate_percent: None };
    match draw.below(4) {
        0 => ShiftSpec { rate_percent, ..none },
        1 => ShiftSpec { cycles_percent: percent, ..none },
        _ => {
            let handler = Some(pick(draw, &workload.handler).name.clone());
            ShiftSpec { handler, cycles_percent: percent, ..none }
        }
    }
}

fn touch(draw: &mut RandomStream, object: &ObjectSpec) -> TouchSpec {
    TouchSpec {
        object: object.name.clone(),
        bytes: draw.chance(500).then(|| 1 + draw.below(object.bytes)),
        write: draw.chance(500),
        order: None,
        by_nic: draw.chance(50),
    }
}

fn source(draw: &mut RandomStream, index: u64, count: u64, handlers: &mut Vec<HandlerSpec>) -> SourceSpec {
    let load = match draw.below(4) {
        0 => SourceKind::Closed { clients: log_between(draw, 1, 200) as u32, think_us: draw.below(200) },
        1 => SourceKind::Open {
            per_s: log_between(draw, 10_000, 500_000),
            even: draw.chance(500),
            clients: 50,
        },
        2 => SourceKind::Burst { count: log_between(draw, 1, 100) as u32, every_us: 50 + draw.below(500) },
        _ => SourceKind::Start { count: log_between(draw, 1, 500) as u32 },
    };
    let poll = draw.chance(250).then(|| {
        let name = format!("poll-{index}");
        handlers.push(HandlerSpec {
            name: name.clone(),
            color: "serial".to_owned(),
            touch: Vec::new(),
            next: Vec::new(),
            reply: false,
            ..handlers[0].clone()
        });
        PollSpec { handler: name, cycles_each: draw.below(2_000), batch: 1 + draw.below(64) as u32 }
    });
    SourceSpec {
        entry: format!("handler-{}", draw.below(count)),
        load,
        choice: *pick(
            draw,
            &[SourceQueue::Fixed, SourceQueue::RoundRobin, SourceQueue::LeastPending, SourceQueue::Hash],
        ),
        queues: draw.chance(300).then(|| 1 + draw.below(20) as u32),
        received_bytes: if draw.chance(300) { draw.below(4_096) } else { 0 },
        interrupt_cycles: if draw.chance(300) { draw.below(5_000) } else { 0 },
        accept: *pick(
            draw,
            &[Accept::Local, Accept::Hash, Accept::Fixed, Accept::RoundRobin, Accept::LoadAware],
        ),
        poll,
    }
}
