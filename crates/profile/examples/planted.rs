//! A program with a planted fault, to try the profiler on: `planted FAULT THREADS SECONDS [meter]`.
//!
//! Each thread does units of work for some seconds; the program prints how many, as `work N`, and
//! the cpu time, as `cpu_ns N`. With `meter` the program prints both every 20 ms too, behind the
//! time as `at_ns N`. The faults: `none`; `counter`, which all threads increment; `lock`, one spin
//! lock around a sum; `sharing`, counters of two threads on one cache line; `scan`, a table that
//! grows with the threads and is searched from its start; `slow`, equal shares of work although a
//! quota gives the last of several threads half a cpu; `mutex`, a lock under which a thread sleeps
//! for a millisecond; `relay`, whose threads hand each other a turn and do nothing else; `clock`,
//! which reads the clock many times; `deep`, which keeps 12 KiB on its stack. Functions are not
//! inlined, so that their names are seen.

use std::fs;
use std::hint::black_box;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use vermeil_io::StackMark;

use rustix::time::{ClockId, clock_gettime};

static COUNTER: AtomicU64 = AtomicU64::new(0);
static LOCK: AtomicBool = AtomicBool::new(false);
static GATE: Mutex<u64> = Mutex::new(0);
static PASSED: Condvar = Condvar::new();
static SHARED: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
/// Units of all threads, as far as the threads have shown them to the meter.
static SHOWN: AtomicU64 = AtomicU64::new(0);
/// The time between two readings of the meter.
const READING: Duration = Duration::from_millis(20);
/// Units that all threads have done.
static DONE: AtomicU64 = AtomicU64::new(0);
/// Units of a thread between two meetings of all threads.
const ROUND: u64 = 1_000;

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

/// Like a server that waits for a disk while it holds a lock.
#[inline(never)]
fn planted_mutex() -> u64 {
    let mut count = GATE.lock().expect("no holder panics");
    thread::sleep(Duration::from_millis(1));
    *count += 1;
    *count
}

/// Waits for the turn of this thread and gives it to the next.
#[inline(never)]
fn planted_relay(thread: usize, threads: usize, end: Instant) -> u64 {
    let mut turn = GATE.lock().expect("no holder panics");
    while *turn % threads as u64 != thread as u64 && Instant::now() < end {
        turn = PASSED.wait_timeout(turn, end.saturating_duration_since(Instant::now())).expect("no panic").0;
    }
    *turn += 1;
    PASSED.notify_all();
    *turn
}

/// Like a server that reads the clock for each line of its log.
#[inline(never)]
fn planted_clock() -> u64 {
    let mut sum = 0;
    for _ in 0..1_000 {
        sum += clock_gettime(ClockId::Monotonic).tv_nsec as u64;
    }
    sum
}

/// Counts each step of a calculation. Between two increments the other thread takes the cache line.
/// Increments in one go would find the line still there, and cost hardly more than those of a
/// single thread.
#[inline(never)]
fn planted_sharing(thread: usize) -> u64 {
    let counter = &SHARED[thread % 8];
    let mut value = thread as u64 + 1;
    for _ in 0..160 {
        counter.fetch_add(1, Ordering::Relaxed);
        for _ in 0..15 {
            value ^= value << 13;
            value ^= value >> 7;
            value ^= value << 17;
        }
    }
    black_box(value)
}

/// Like a program that keeps a buffer on its stack.
#[inline(never)]
fn planted_deep(seed: u64) -> u64 {
    let buffer = black_box([seed as u8; 12 << 10]);
    useful_work(seed).wrapping_add(u64::from(black_box(&buffer)[seed as usize % buffer.len()]))
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

/// Waits at the end of a round until the slowest thread arrives there too.
#[inline(never)]
fn planted_slow(threads: usize, units: u64, end: Instant) -> u64 {
    if !units.is_multiple_of(ROUND) {
        return 0;
    }
    let wanted = units * threads as u64;
    DONE.fetch_add(ROUND, Ordering::AcqRel);
    while DONE.load(Ordering::Acquire) < wanted && Instant::now() < end {
        // The clock is read seldom, so that the wait and not the clock is the function that costs.
        for _ in 0..64 {
            std::hint::spin_loop();
        }
    }
    wanted
}

/// A control group that grants half a cpu. Removed when the program ends.
struct HalfCpu(PathBuf);

impl HalfCpu {
    /// Makes the group, by the cpu controller of version 1.
    fn create() -> io::Result<Self> {
        let folder = PathBuf::from(format!("/sys/fs/cgroup/cpu/planted-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = Self(folder);
        fs::write(group.0.join("cpu.cfs_period_us"), "10000")?;
        fs::write(group.0.join("cpu.cfs_quota_us"), "5000")?;
        Ok(group)
    }

    /// Puts the calling thread into the group.
    fn take_this_thread(&self) -> io::Result<()> {
        fs::write(self.0.join("tasks"), "0")
    }
}

impl Drop for HalfCpu {
    fn drop(&mut self) {
        let _left = fs::remove_dir(&self.0);
    }
}

/// The application's code that calls the planted function.
#[inline(never)]
fn handle_request(plan: &PlantedPlan, thread: usize, units: u64) -> u64 {
    let extra = match &*plan.fault {
        "counter" => planted_counter(),
        "lock" => planted_lock(),
        "mutex" => planted_mutex(),
        "clock" => planted_clock(),
        "deep" => planted_deep(units),
        "relay" => return planted_relay(thread, plan.threads, plan.end),
        "sharing" => planted_sharing(thread),
        "scan" => planted_scan(&plan.table, u64::MAX) as u64,
        "slow" => planted_slow(plan.threads, units, plan.end),
        _ => 0,
    };
    // Behind the calls, so that none of them is a tail call without a frame.
    black_box(extra.wrapping_add(useful_work(units)))
}

/// A run, by the program's arguments.
struct PlantedPlan {
    fault: String,
    threads: usize,
    end: Instant,
    /// As a server's table of connections: as long as there are users.
    table: Vec<u64>,
    is_metered: bool,
}

fn nanoseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Prints the units and the cpu time until the end.
fn meter(end: Instant) {
    while Instant::now() < end {
        thread::sleep(READING);
        let work = SHOWN.load(Ordering::Relaxed);
        let [at, cpu] = [ClockId::Monotonic, ClockId::ProcessCPUTime].map(nanoseconds);
        println!("at_ns {at} work {work} cpu_ns {cpu}");
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (words, is_metered) = match &words[..] {
        [words @ .., last] if last == "meter" => (words, true),
        words => (words, false),
    };
    let [_, fault, threads, seconds] = words else {
        eprintln!(
            "usage: planted none|clock|counter|deep|lock|mutex|relay|sharing|scan|slow THREADS SECONDS [meter]"
        );
        std::process::exit(2);
    };
    let threads: usize = threads.parse().expect("THREADS is a number");
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse().expect("SECONDS is a number"));
    let table = (0..1_000 * threads as u64).collect();
    let plan = PlantedPlan { fault: fault.clone(), threads, end, table, is_metered };
    let half = (fault == "slow" && threads > 1).then(HalfCpu::create).transpose();
    let half = half.unwrap_or_else(|error| {
        eprintln!("no quota of cpu time for a thread: {error}");
        std::process::exit(3);
    });
    let done: u64 = thread::scope(|scope| {
        let (plan, half) = (&plan, &half);
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    if let Some(half) = half.as_ref().filter(|_| thread + 1 == plan.threads) {
                        half.take_this_thread().expect("the group takes a thread");
                    }
                    // As a core of the event runtime marks its stack.
                    let mut mark = StackMark::new(thread as u64 + 1);
                    mark.set();
                    // A unit in any case: of thousands of threads, most begin after the end.
                    let mut units = 1;
                    black_box(handle_request(plan, thread, units));
                    while Instant::now() < plan.end {
                        // A unit with a sleep takes as long as thousands of others.
                        let next = if ["mutex", "relay"].contains(&&*plan.fault) { 1 } else { 100 };
                        for _ in 0..next {
                            units += 1;
                            black_box(handle_request(plan, thread, units));
                        }
                        if plan.is_metered {
                            SHOWN.fetch_add(next, Ordering::Relaxed);
                        }
                    }
                    units
                })
            })
            .collect();
        if plan.is_metered {
            meter(plan.end);
        }
        workers.into_iter().map(|worker| worker.join().expect("no worker panics")).sum()
    });
    println!("work {done}\ncpu_ns {}", nanoseconds(ClockId::ProcessCPUTime));
}
