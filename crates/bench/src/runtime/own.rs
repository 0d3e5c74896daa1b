//! Programs on Vermeil: the programs of `vermeil-programs`, the common programs, and the smallest
//! programs, each for one measurement.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use vermeil::{Color, CoreIndex, Handle, Handler};
use vermeil_programs::kernel::mix;
use vermeil_programs::{
    OutcomeTally, ProgramOutcome, encrypting_server, image_pipeline, image_server, keyed_stream, mixed_jobs,
    sqrt_pipeline, web_handlers,
};

use crate::runtime::child::{ChildResult, ChildRun};
use crate::runtime::peers::{idle, on_tasks};
use crate::runtime::plan::BenchProgram;
use crate::runtime::sizes;
use crate::runtime::tasks::Vermeil;

/// Runs a program.
pub(super) fn run(handle: &Handle, run: ChildRun) -> io::Result<ChildResult> {
    let outcome = match run.program {
        BenchProgram::SqrtPipeline => sqrt_pipeline::run(handle, sizes::sqrt_pipeline(run)),
        BenchProgram::ImagePipeline => image_pipeline::run(handle, sizes::image_pipeline(run)),
        BenchProgram::ImageServer => image_server::run(handle, sizes::image_server(run))?,
        BenchProgram::WebHandlers => web_handlers::run(handle, sizes::web_handlers(run))?,
        BenchProgram::EncryptingServer => encrypting_server::run(handle, sizes::encrypting_server(run))?,
        BenchProgram::KeyedStream => keyed_stream::run(handle, sizes::keyed_stream(run), run.pace),
        BenchProgram::MixedJobs => {
            let (outcome, delays) = mixed_jobs::run(handle, sizes::mixed_jobs(run), run.pace);
            return Ok(ChildResult { outcome, delays: Some(delays) });
        }
        BenchProgram::Skynet
        | BenchProgram::Spawn
        | BenchProgram::Unbalanced
        | BenchProgram::PingPong
        | BenchProgram::Channel
        | BenchProgram::Pin
        | BenchProgram::ServerGraph => {
            return Ok(on_tasks(&Vermeil(handle.clone()), run));
        }
        BenchProgram::PostLocal => post_local(handle, sizes::posts(run)),
        BenchProgram::PostRemote => post_remote(handle, sizes::posts(run)),
        BenchProgram::Steal100 => steal(handle, 100, run),
        BenchProgram::Steal10000 => steal(handle, 10_000, run),
        BenchProgram::Idle => {
            let start = Instant::now();
            idle(sizes::idle(run));
            ProgramOutcome { events: 1, elapsed: start.elapsed(), checksum: 0 }
        }
    };
    Ok(outcome.into())
}

/// One event that posts itself again, on one color.
fn post_local(handle: &Handle, count: u64) -> ProgramOutcome {
    let color = handle.color();
    let tally = Arc::new(OutcomeTally::new(1));
    let again: Arc<OnceLock<Handler<u64>>> = Arc::default();
    let handler = handle.handler("post-local", {
        let (again, color, tally) = (again.clone(), color.clone(), tally.clone());
        move |left| match left {
            0 => tally.add(0),
            left => {
                let again = again.get().expect("set before the first event");
                again.post(&color, left - 1).unwrap_or_else(|full| panic!("{full}"));
            }
        }
    });
    assert!(again.set(handler).is_ok(), "set once");
    handler.post(&color, count).unwrap_or_else(|full| panic!("{full}"));
    tally.wait(count)
}

/// Events posted from one core to another, which is kept running; the time is only the time of
/// posting.
fn post_remote(handle: &Handle, count: u64) -> ProgramOutcome {
    let last = handle.cores().last().expect("a runtime has a core");
    let (near, far) = (handle.color_on(CoreIndex(0)), handle.color_on(last));
    let busy = keep_running(handle, last);
    let received = Arc::new(OutcomeTally::new(count));
    let receive = handle.handler("receive", {
        let received = received.clone();
        move |number: u64| received.add(number)
    });
    let posting = handle.spawn_on(&near, async move {
        let start = Instant::now();
        for number in 0..count {
            let mut event = number;
            while let Err(full) = receive.post(&far, event) {
                event = full.event;
            }
        }
        start.elapsed()
    });
    let elapsed = posting.wait().expect("posting does not panic");
    let outcome = received.wait(count);
    busy.store(false, Ordering::Release);
    ProgramOutcome { elapsed, ..outcome }
}

/// An event on `core` that posts itself again until the flag is cleared.
fn keep_running(handle: &Handle, core: CoreIndex) -> Arc<AtomicBool> {
    let on = Arc::new(AtomicBool::new(true));
    let color = handle.color_on(core);
    let again: Arc<OnceLock<Handler<()>>> = Arc::default();
    let handler = handle.handler("keep-running", {
        let (on, again, color) = (on.clone(), again.clone(), color.clone());
        move |()| {
            if on.load(Ordering::Acquire) {
                let again = again.get().expect("set before the first event");
                again.post(&color, ()).unwrap_or_else(|full| panic!("{full}"));
            }
        }
    });
    assert!(again.set(handler).is_ok(), "set once");
    handler.post(&color, ()).unwrap_or_else(|full| panic!("{full}"));
    on
}

/// Rounds of [`steal`]: enough steals for a mean.
const STEAL_ROUNDS: u64 = 20;
/// The number of colors for the events of one round.
const STEAL_COLORS: usize = 100;

/// `queued` events of 2 µs on colors that are all on core 0 while the cores are held, and are then
/// released: the other cores steal.
fn steal(handle: &Handle, queued: u64, run: ChildRun) -> ProgramOutcome {
    let cost = run.pace.rounds(Duration::from_micros(2));
    let work =
        handle.handler("work", move |(tally, number): (Arc<OutcomeTally>, u64)| tally.add(mix(cost, number)));
    let hold = handle.handler("hold", |(held, gate): (mpsc::Sender<()>, Arc<AtomicBool>)| {
        held.send(()).expect("somebody waits");
        while !gate.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    });
    let round = |number: u64| {
        let colors: Vec<Color> = (0..STEAL_COLORS * handle.cores().len()).map(|_| handle.color()).collect();
        let here: Vec<&Color> = colors.iter().filter(|color| color.core() == CoreIndex(0)).collect();
        let gate = Arc::new(AtomicBool::new(false));
        let (held, wait) = mpsc::channel();
        for core in handle.cores() {
            let event = (held.clone(), gate.clone());
            hold.post(&handle.color_on(core), event).unwrap_or_else(|full| panic!("{full}"));
            wait.recv().expect("every core is held");
        }
        let tally = Arc::new(OutcomeTally::new(queued));
        for event in 0..queued {
            let color = here[event as usize % here.len()];
            let event = (tally.clone(), number * queued + event);
            work.post(color, event).unwrap_or_else(|full| panic!("{full}"));
        }
        gate.store(true, Ordering::Release);
        tally.wait(queued)
    };
    let rounds = (0..STEAL_ROUNDS).map(round);
    let sum = |all: ProgramOutcome, one: ProgramOutcome| ProgramOutcome {
        events: all.events + one.events,
        elapsed: all.elapsed + one.elapsed,
        checksum: all.checksum.wrapping_add(one.checksum),
    };
    rounds.reduce(sum).expect("several rounds")
}
