//! Between cores: a cache line that goes to and fro, and a thread that is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vermeil_sched::{Distance, Layout};

use crate::{Effort, Error};

/// Looks at a line before a waiting thread lets others run: where both threads share a cpu they still make progress.
const LOOKS: u32 = 10_000;
/// How long a thread is left alone before it is woken, so that it sleeps: ten times what going to sleep takes.
const ASLEEP: Duration = Duration::from_micros(100);

/// An atomic with its lines to itself; two, since prefetchers fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

/// Runs `f` on a thread of its own on this cpu.
pub(crate) fn on_cpu<T: Send>(cpu: usize, f: impl FnOnce() -> T + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, move || {
            vermeil_io::pin_current_thread(cpu).map_err(|source| Error::Pin { cpu, source })?;
            Ok(f())
        })?;
        thread.join().expect("a measurement does not panic")
    })
}

/// For each distance there is between two of these cpus, the first pair that is so far apart.
pub(crate) fn pairs(layout: &Layout, cpus: &[usize]) -> Vec<(Distance, usize, usize)> {
    let mut found: Vec<(Distance, usize, usize)> = Vec::new();
    for a in layout.indices() {
        for &b in layout.neighbours(a) {
            let distance = layout.distance(a, b);
            if found.iter().all(|(known, ..)| *known != distance) {
                found.push((distance, cpus[a.0 as usize], cpus[b.0 as usize]));
            }
        }
    }
    found.sort();
    found
}

/// One line from the core that wrote it to another.
pub(crate) fn line_ns(a: usize, b: usize, effort: Effort) -> Result<f64, Error> {
    let rounds = effort.of(2_000) as u64;
    let tries = effort.of(200).min(20);
    let line = Padded::default();
    let all = rounds * tries as u64;
    thread::scope(|scope| {
        let answering = thread::Builder::new().spawn_scoped(scope, || {
            let pinned = vermeil_io::pin_current_thread(b);
            for round in 0..all {
                wait_for(&line, 2 * round + 1);
                // Pairs with the loads of `wait_for`: a store is what moves the line.
                line.0.store(2 * round + 2, Ordering::Release);
            }
            pinned.map_err(|source| Error::Pin { cpu: b, source })
        })?;
        let mut best = f64::INFINITY;
        let pinned = vermeil_io::current_affinity();
        let here = vermeil_io::pin_current_thread(a).map_err(|source| Error::Pin { cpu: a, source });
        for turn in 0..tries as u64 {
            let start = Instant::now();
            for round in turn * rounds..(turn + 1) * rounds {
                line.0.store(2 * round + 1, Ordering::Release);
                wait_for(&line, 2 * round + 2);
            }
            best = best.min(start.elapsed().as_nanos() as f64 / (2 * rounds) as f64);
        }
        vermeil_io::allow_current_thread(&pinned)?;
        answering.join().expect("a measurement does not panic")?;
        here.map(|()| best)
    })
}

fn wait_for(line: &Padded, value: u64) {
    let mut looks = 0;
    while line.0.load(Ordering::Acquire) != value {
        looks += 1;
        if looks % LOOKS == 0 { thread::yield_now() } else { std::hint::spin_loop() }
    }
}

/// What waking a sleeping thread takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    /// The call, for whoever makes it: the median.
    pub(crate) call_ns: f64,
    /// Until the thread runs: the median.
    pub(crate) median_ns: f64,
    /// One in a hundred takes so long.
    pub(crate) tail_ns: f64,
}

impl Wake {
    /// Wakes a thread on `sleeper` from one on `waker`.
    pub(crate) fn measure(waker: usize, sleeper: usize, effort: Effort) -> Result<Self, Error> {
        let epoch = Instant::now();
        let now_ns = move || epoch.elapsed().as_nanos() as u64;
        let (woke_ns, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let sleeping = {
            let (woke_ns, ended) = (woke_ns.clone(), ended.clone());
            thread::Builder::new().spawn(move || {
                let pinned = vermeil_io::pin_current_thread(sleeper);
                while !ended.load(Ordering::Acquire) {
                    thread::park();
                    woke_ns.store(now_ns(), Ordering::Release);
                }
                pinned.map_err(|source| Error::Pin { cpu: sleeper, source })
            })?
        };
        let wakes = effort.of(2_000);
        let thread = sleeping.thread().clone();
        let times = on_cpu(waker, move || {
            let (mut calls, mut lates) = (Vec::new(), Vec::new());
            for _ in 0..wakes {
                thread::sleep(ASLEEP);
                let before_ns = now_ns();
                thread.unpark();
                calls.push(now_ns() - before_ns);
                while woke_ns.load(Ordering::Acquire) < before_ns {
                    thread::yield_now();
                }
                lates.push(woke_ns.load(Ordering::Acquire) - before_ns);
            }
            ended.store(true, Ordering::Release);
            thread.unpark();
            (calls, lates)
        });
        sleeping.join().expect("a measurement does not panic")?;
        let (mut calls, mut lates) = times?;
        calls.sort_unstable();
        lates.sort_unstable();
        let at = |sorted: &[u64], permille: usize| sorted[(sorted.len() - 1) * permille / 1_000] as f64;
        Ok(Self { call_ns: at(&calls, 500), median_ns: at(&lates, 500), tail_ns: at(&lates, 995) })
    }
}
