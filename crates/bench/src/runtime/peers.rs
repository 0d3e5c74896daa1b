//! The other runtimes, each with its suitable programs.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use vermeil_programs::ProgramOutcome;
use vermeil_programs::kernel::{MixingPace, mix};

use crate::runtime::child::{ChildResult, ChildRun};
use crate::runtime::common;
use crate::runtime::plan::{BenchProgram, RuntimeVariant};
use crate::runtime::server_graph::server_graph;
use crate::runtime::sizes;
use crate::runtime::tasks::{Smol, Tasks, Tokio};

/// A peer that has started.
pub(super) enum StartedPeer {
    Tokio(Tokio),
    Smol(Smol),
    Rayon(rayon::ThreadPool),
}

impl StartedPeer {
    /// Starts the runtime with a thread for each cpu.
    pub(super) fn start(variant: RuntimeVariant) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        match variant {
            RuntimeVariant::Tokio => Self::Tokio(Tokio::start(threads)),
            RuntimeVariant::Smol => Self::Smol(Smol::start(threads)),
            RuntimeVariant::Rayon => {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                Self::Rayon(pool.expect("threads start"))
            }
            RuntimeVariant::Policy(name) => unreachable!("{name} is a policy of this project's"),
        }
    }

    /// Runs a suitable program.
    pub(super) fn run(&self, run: ChildRun) -> ChildResult {
        match self {
            Self::Tokio(tokio) => on_tasks(tokio, run),
            Self::Smol(smol) => on_tasks(smol, run),
            Self::Rayon(pool) => on_rayon(pool, run).into(),
        }
    }
}

/// The common form of a program, started from a task, as in a program that uses the runtime; this
/// thread only waits.
pub(super) fn on_tasks<T: Tasks>(tasks: &T, run: ChildRun) -> ChildResult {
    let (done, end) = mpsc::channel();
    let start = Instant::now();
    let own = tasks.clone();
    let task = tasks.spawn(async move {
        let result = common_form(own, run).await;
        done.send(result).expect("somebody waits");
    });
    let (events, checksum, delays) = end.recv().expect("the task sends");
    let elapsed = start.elapsed();
    drop(task);
    ChildResult { outcome: ProgramOutcome { events, elapsed, checksum }, delays }
}

/// Events, checksum and delays.
async fn common_form<T: Tasks>(tasks: T, run: ChildRun) -> (u64, u64, Option<hdrhistogram::Histogram<u64>>) {
    let pace = run.pace;
    match run.program {
        BenchProgram::Skynet => {
            let leaves = sizes::leaves(run);
            (leaves, common::skynet(tasks, 0, leaves).await, None)
        }
        BenchProgram::Spawn => {
            let count = sizes::tasks(run);
            (count, common::spawn(tasks, count).await, None)
        }
        BenchProgram::Unbalanced => {
            let count = sizes::tasks(run);
            (count, common::unbalanced(tasks, count, pace).await, None)
        }
        BenchProgram::PingPong => {
            let (pairs, rounds) = sizes::pairs(run);
            (pairs * rounds, common::ping_pong(tasks, pairs, rounds).await, None)
        }
        BenchProgram::Channel => {
            let count = sizes::messages(run);
            (4 * count, common::channel(tasks, count).await, None)
        }
        BenchProgram::Pin => {
            let requests = sizes::requests(run);
            (2 * requests, common::pin(tasks, requests, pace).await, None)
        }
        BenchProgram::ServerGraph => {
            let size = sizes::server_graph(run);
            let (checksum, delays) = server_graph(tasks, size, pace).await;
            (size.events(), checksum, Some(delays))
        }
        BenchProgram::KeyedStream => {
            let size = sizes::keyed_stream(run);
            let events = u64::from(size.producers) * u64::from(size.records);
            (events, common::keyed(tasks, size, pace).await, None)
        }
        BenchProgram::MixedJobs => {
            let size = sizes::mixed_jobs(run);
            let (checksum, delays) = common::mixed(tasks, size, pace).await;
            (size.events(), checksum, Some(delays))
        }
        BenchProgram::Idle => {
            idle(sizes::idle(run));
            (1, 0, None)
        }
        other => unreachable!("{} has no common form", other.name()),
    }
}

/// Idles for a while, outside the runtime's threads.
pub(super) fn idle(time: Duration) {
    std::thread::sleep(time);
}

fn on_rayon(pool: &rayon::ThreadPool, run: ChildRun) -> ProgramOutcome {
    let start = Instant::now();
    let count = sizes::tasks(run);
    let (events, checksum) = match run.program {
        BenchProgram::Skynet => (sizes::leaves(run), pool.install(|| skynet(0, sizes::leaves(run)))),
        BenchProgram::Spawn => (count, pool.install(|| spawned(count, |_| 1))),
        BenchProgram::Unbalanced => {
            let pace: MixingPace = run.pace;
            (count, pool.install(|| spawned(count, |number| common::unbalanced_rounds(number, pace))))
        }
        BenchProgram::Idle => {
            idle(sizes::idle(run));
            (1, 0)
        }
        other => unreachable!("{} waits, which rayon's threads should not", other.name()),
    };
    ProgramOutcome { events, elapsed: start.elapsed(), checksum }
}

fn skynet(base: u64, leaves: u64) -> u64 {
    if leaves == 1 {
        return base;
    }
    let part = leaves / 10;
    (0..10u32).into_par_iter().with_max_len(1).map(|child| skynet(base + u64::from(child) * part, part)).sum()
}

/// One task makes all other tasks with a scope, the usual way in rayon.
fn spawned(count: u64, rounds: impl Fn(u64) -> u64 + Sync) -> u64 {
    let sum = std::sync::atomic::AtomicU64::new(0);
    rayon::scope(|scope| {
        let (sum, rounds) = (&sum, &rounds);
        for number in 0..count {
            scope.spawn(move |_| {
                sum.fetch_add(mix(rounds(number), number), std::sync::atomic::Ordering::Relaxed);
            });
        }
    });
    sum.into_inner()
}
