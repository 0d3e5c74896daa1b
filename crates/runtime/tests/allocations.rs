//! I16: once the queues have reached their largest size, posts, runs and steals allocate nothing.

use std::{
    hint::spin_loop,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use vermeil::{CoreIndex, Handle, Handler, Pinning, Policy, Runtime};

#[global_allocator]
static COUNTING: dhat::Alloc = dhat::Alloc;

const COLORS: usize = 16;

/// Events of a round: more than a turn runs.
const EVENTS: usize = 320;

/// Rounds of a window. A window is measured as a whole, because a report in between would allocate.
const ROUNDS: usize = 20;

const WINDOWS: usize = 12;

/// Runs in which a steal must happen. About six of ten runs have one.
const RUNS_MAX: usize = 30;

/// Number of an event and of its round; all events have the same size.
type Number = (usize, usize);

/// The measurements of a window.
#[derive(Debug)]
struct AllocationWindow {
    allocated: u64,
    steals: u64,
}

fn steals(handle: &Handle) -> u64 {
    handle.snapshot().cores.iter().map(|core| core.steals).sum()
}

/// The two colors of a round. The pair changes, so two colors of the same core often meet, whatever
/// the distribution of colors.
fn busy(round: usize) -> [usize; 2] {
    let apart = 1 + round / COLORS % (COLORS - 1);
    [round % COLORS, (round + apart) % COLORS]
}

/// Core 0 posts a round of events to two colors, long enough for a steal if both colors are on the
/// same core. The event that ends last posts the next round.
fn windows(handle: &Handle) -> Vec<AllocationWindow> {
    let maker = handle.clone();
    let home = handle.color_on(CoreIndex(0));
    let made = handle.spawn_on(&home, async move { (0..COLORS).map(|_| maker.color()).collect() });
    let colors: Vec<_> = made.wait().expect("colors are made");
    let next: Arc<OnceLock<Handler<Number>>> = Arc::default();
    let left = Arc::new(AtomicUsize::new(0));
    let work = handle.handler("work", {
        let (next, left, home) = (next.clone(), left.clone(), home.clone());
        move |(number, round): Number| {
            let (start, lasts) = (Instant::now(), Duration::from_micros((number % 7) as u64 * 2));
            while start.elapsed() < lasts {
                spin_loop();
            }
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                next.get().expect("set before").post(&home, (0, round + 1)).expect("below the bound");
            }
        }
    });
    let told = Arc::new(Mutex::new(Vec::with_capacity(WINDOWS)));
    let (tell, counted) = (told.clone(), handle.clone());
    let since = AtomicUsize::new(0);
    let stolen = AtomicUsize::new(0);
    let rounds = handle.handler("round", move |(_, round): Number| {
        if round.is_multiple_of(ROUNDS) {
            let allocated = dhat::HeapStats::get().total_blocks - since.load(Ordering::Relaxed) as u64;
            let steals = steals(&counted);
            let before = stolen.swap(steals as usize, Ordering::Relaxed) as u64;
            let mut told = tell.lock().expect("nobody panics");
            if told.len() == WINDOWS {
                return;
            }
            told.push(AllocationWindow { allocated, steals: steals - before });
            since.store(dhat::HeapStats::get().total_blocks as usize, Ordering::Relaxed);
        }
        // The first round is the largest.
        if round == 0 {
            left.store(10 * EVENTS, Ordering::Release);
            for number in 0..10 * EVENTS {
                work.post(&colors[number % COLORS], (number, round)).expect("below the bound");
            }
            return;
        }
        let busy = busy(round);
        left.store(EVENTS, Ordering::Release);
        for number in 0..EVENTS {
            work.post(&colors[busy[number % 2]], (number, round)).expect("below the bound");
        }
    });
    assert!(next.set(rounds).is_ok(), "set once");
    rounds.post(&home, (0, 0)).expect("below the bound");
    while told.lock().expect("nobody panics").len() < WINDOWS {
        thread::sleep(Duration::from_millis(10));
    }
    std::mem::take(&mut told.lock().expect("nobody panics"))
}

#[test]
fn nothing_is_allocated_to_post_to_run_and_to_steal() {
    let _profiler = dhat::Profiler::builder().testing().build();
    for policy in [Policy::Mely, Policy::PerNode, Policy::Adaptive] {
        // Posts wake a sleeping core, so some runs have no steal once their memory has grown.
        let stole = (0..RUNS_MAX).any(|_| {
            let windows = windows_of(&policy);
            let still: Vec<_> = windows.iter().filter(|window| window.allocated == 0).collect();
            assert!(still.len() >= WINDOWS * 3 / 4, "{policy}: {windows:?}");
            still.iter().any(|window| window.steals > 0)
        });
        assert!(stole, "{policy}: no steal in {RUNS_MAX} runs");
    }
}

/// The windows of a run of its own.
fn windows_of(policy: &Policy) -> Vec<AllocationWindow> {
    let allowed = vermeil_io::current_affinity();
    let cpus = (0..2).map(|core| allowed[core % allowed.len()]);
    let runtime = Runtime::builder()
        .cpus(cpus)
        .pinning(Pinning::Shared)
        .policy(policy.clone())
        .build()
        .expect("a runtime starts");
    let windows = windows(&runtime.handle());
    runtime.shutdown(Duration::from_secs(10));
    windows
}
