//! I16: once as much has stood in queues as ever stands there, nothing is allocated to post, to run and to steal.

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

/// Events of a round: more than one turn has.
const EVENTS: usize = 320;

/// Rounds of a window, which is watched as a whole: what is told of it in between would be allocated.
const ROUNDS: usize = 20;

const WINDOWS: usize = 12;

/// Of an event and of its round: all events are of one size.
type Number = (usize, usize);

/// What happened in a window.
#[derive(Debug)]
struct Window {
    allocated: u64,
    steals: u64,
}

fn steals(handle: &Handle) -> u64 {
    handle.snapshot().cores.iter().map(|core| core.steals).sum()
}

/// The two colors of a round, others each time: however the cores have shared them out, two of one core often meet.
fn busy(round: usize) -> [usize; 2] {
    let apart = 1 + round / COLORS % (COLORS - 1);
    [round % COLORS, (round + apart) % COLORS]
}

/// Core 0 posts a round of events to two colors, long enough that another core steals one if they are of one core, and the event
/// that ends last asks for the next round.
fn windows(handle: &Handle) -> Vec<Window> {
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
            told.push(Window { allocated, steals: steals - before });
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
    let allowed = vermeil_io::current_affinity();
    for policy in [Policy::Mely, Policy::NCopy, Policy::Adaptive] {
        let cpus = (0..2).map(|core| allowed[core % allowed.len()]);
        let runtime = Runtime::builder()
            .cpus(cpus)
            .pinning(Pinning::Shared)
            .policy(policy.clone())
            .build()
            .expect("a runtime starts");
        let windows = windows(&runtime.handle());
        runtime.shutdown(Duration::from_secs(10));
        let still: Vec<_> = windows.iter().filter(|window| window.allocated == 0).collect();
        let steals: u64 = still.iter().map(|window| window.steals).sum();
        assert!(still.len() >= WINDOWS * 3 / 4 && steals > 0, "{policy}: {windows:?}");
    }
}
