//! A program with a planted fault, to try the profiler on: `planted FAULT THREADS SECONDS`.
//!
//! Each thread does units of work for some seconds; the program prints how many, as `work N`. The
//! faults: `none`; `counter`, which all threads increment; `lock`, one spin lock around a sum;
//! `sharing`, counters of two threads on one cache line; `scan`, a table that grows with the
//! threads and is searched from its start. Functions are not inlined, so that their names are seen.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

static COUNTER: AtomicU64 = AtomicU64::new(0);
static LOCK: AtomicBool = AtomicBool::new(false);
static SHARED: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

/// The work that scales: arithmetic on the stack.
#[inline(never)]
fn useful_work(seed: u64) -> u64 {
    let mut value = seed | 1;
    for _ in 0..600 {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    black_box(value)
}

#[inline(never)]
fn planted_counter() -> u64 {
    // Loops, because iterators are functions of their own in a debug build.
    let mut sum = 0;
    for _ in 0..40 {
        sum += COUNTER.fetch_add(1, Ordering::SeqCst);
    }
    sum
}

#[inline(never)]
fn planted_lock() -> u64 {
    let mut sum = 0;
    for _ in 0..10 {
        while LOCK.swap(true, Ordering::Acquire) {
            // Like a spin lock of a kernel on few cpus: the wait is cpu time.
            std::hint::spin_loop();
        }
        sum += COUNTER.fetch_add(1, Ordering::Relaxed);
        LOCK.store(false, Ordering::Release);
    }
    sum
}

#[inline(never)]
fn planted_sharing(thread: usize) -> u64 {
    let counter = &SHARED[thread % 8];
    let mut sum = 0;
    for _ in 0..40 {
        sum += counter.fetch_add(1, Ordering::Relaxed);
    }
    sum
}

#[inline(never)]
fn planted_scan(table: &[u64], wanted: u64) -> usize {
    let mut found = table.len();
    for (place, entry) in table.iter().enumerate() {
        if black_box(*entry) == wanted {
            found = place;
        }
    }
    found
}

/// The application's code that calls the planted function.
#[inline(never)]
fn handle_request(fault: &str, thread: usize, table: &[u64], seed: u64) -> u64 {
    let extra = match fault {
        "counter" => planted_counter(),
        "lock" => planted_lock(),
        "sharing" => planted_sharing(thread),
        "scan" => planted_scan(table, u64::MAX) as u64,
        _ => 0,
    };
    // Behind the calls, so that none of them is a tail call without a frame.
    black_box(extra.wrapping_add(useful_work(seed)))
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, fault, threads, seconds] = &words[..] else {
        eprintln!("usage: planted none|counter|lock|sharing|scan THREADS SECONDS");
        std::process::exit(2);
    };
    let threads: usize = threads.parse().expect("THREADS is a number");
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse().expect("SECONDS is a number"));
    // As a server's table of connections: as long as there are users.
    let table: Vec<u64> = (0..300 * threads as u64).collect();
    let done: u64 = thread::scope(|scope| {
        let table = &table;
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut units = 0;
                    while Instant::now() < end {
                        for _ in 0..100 {
                            units += 1;
                            black_box(handle_request(fault, thread, table, units));
                        }
                    }
                    units
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no worker panics")).sum()
    });
    println!("work {done}");
}
