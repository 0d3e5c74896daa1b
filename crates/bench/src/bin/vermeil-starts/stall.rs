//! A thread that works on the same memory and descriptors while programs are started, and records
//! the length of its stalls.
//!
//! The work is like the constant work of a server's threads: write to memory, get memory from the
//! kernel and return it, open a descriptor and close it. The thread sleeps in between, because a
//! busy thread would compete with the measured starts; the time asleep does not count. The time of
//! a piece of work is split with the help of the kernel's accounting of the thread: see
//! [`WorkPiece`].

#![allow(unsafe_code)]

use std::{
    fs::File,
    io,
    mem::ManuallyDrop,
    os::unix::fs::FileExt as _,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use vermeil_bench::rusage;

use crate::memory::MappedMemory;

/// Bytes of memory per piece of work.
const PIECE: usize = 16 << 10;
/// Between two pieces of work.
const PAUSE: Duration = Duration::from_micros(50);
/// The scheduler's accounting of a thread: nanoseconds on a cpu, nanoseconds ready for a cpu, and
/// the number of turns.
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// The time of a piece of work, without the time in which the thread was ready and others had the
/// cpu. That time is left out because a machine with few cpus gives the cpus to the started
/// programs in any case, which is no stall caused by the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkPiece {
    /// The thread ran, or slept until a lock of the kernel was free.
    pub(crate) own: Duration,
    /// The thread ran, but the host had taken the cpu away from this machine. The kernel subtracts
    /// the time that the host reports from a thread's cpu time (`CONFIG_PARAVIRT_TIME_ACCOUNTING`);
    /// where the host reports nothing, this is zero. If the thread slept meanwhile, the two cannot
    /// be told apart and the time counts as `own`. A kernel that counts interrupts apart
    /// (`CONFIG_IRQ_TIME_ACCOUNTING`) subtracts interrupts too, and their time is then included
    /// here.
    pub(crate) host: Duration,
}

#[derive(Default)]
struct StallShared {
    samples: Mutex<Vec<WorkPiece>>,
    works: AtomicBool,
    ends: AtomicBool,
}

impl StallShared {
    fn samples(&self) -> MutexGuard<'_, Vec<WorkPiece>> {
        self.samples.lock().expect("nothing panics under this lock")
    }
}

pub(crate) struct StallWatch {
    shared: Arc<StallShared>,
    thread: JoinHandle<io::Result<()>>,
}

impl StallWatch {
    pub(crate) fn start(memory: &MappedMemory) -> io::Result<Self> {
        let (shared, memory) = (Arc::new(StallShared::default()), memory.share());
        let thread = thread::Builder::new().spawn({
            let shared = shared.clone();
            move || work(&shared, &memory)
        })?;
        Ok(Self { shared, thread })
    }

    /// The thread works from now on.
    pub(crate) fn begin(&self) {
        self.shared.works.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
    }

    /// Whether `count` pieces of work were done since.
    pub(crate) fn has(&self, count: usize) -> bool {
        self.shared.samples().len() >= count || self.thread.is_finished()
    }

    /// Stops the work and returns the first `count` pieces.
    pub(crate) fn end(&self, count: usize) -> Vec<WorkPiece> {
        self.shared.works.store(false, Ordering::Relaxed);
        let mut samples = std::mem::take(&mut *self.shared.samples());
        samples.truncate(count);
        samples
    }

    /// Waits until the thread is done with the memory.
    ///
    /// # Errors
    /// The thread could not work.
    pub(crate) fn stop(self) -> io::Result<()> {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().expect("it does not panic")
    }
}

fn work(shared: &StallShared, memory: &ManuallyDrop<MappedMemory>) -> io::Result<()> {
    let (schedstat, null) = (File::open(SCHEDSTAT)?, File::open("/dev/null")?);
    let mut place: usize = 1;
    while !shared.ends.load(Ordering::Relaxed) {
        if !shared.works.load(Ordering::Relaxed) {
            thread::park();
            continue;
        }
        // A walk through all pages in an order that caches cannot predict.
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let before = ThreadAccount::begin(&schedstat)?;
        memory.write((place >> 12) % memory.bytes());
        ask_and_give_back();
        null.try_clone().map(drop)?;
        let piece = ThreadAccount::end(&schedstat)?.since(&before);
        shared.samples().push(piece);
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// The kernel's accounting of this thread.
struct ThreadAccount {
    now: Instant,
    /// On a cpu, which this machine had.
    ran: Duration,
    /// Ready for a cpu that others had.
    ready: Duration,
    sleeps: i64,
}

impl ThreadAccount {
    /// At the beginning of a piece of work. The clock is read last here and first in `end`. Because
    /// of this order a wait between the readings is in none of the times; at most a rare wait is in
    /// `ready`, which makes a stall shorter.
    fn begin(schedstat: &File) -> io::Result<Self> {
        Ok(Self { ready: ready(schedstat)?, sleeps: rusage::sleeps(), ran: ran(), now: Instant::now() })
    }

    /// At the end of a piece of work.
    fn end(schedstat: &File) -> io::Result<Self> {
        Ok(Self { now: Instant::now(), ran: ran(), sleeps: rusage::sleeps(), ready: ready(schedstat)? })
    }

    fn since(&self, before: &Self) -> WorkPiece {
        let passed = (self.now - before.now).saturating_sub(self.ready.saturating_sub(before.ready));
        let ran = self.ran.saturating_sub(before.ran).min(passed);
        let own = if self.sleeps == before.sleeps { ran } else { passed };
        WorkPiece { own, host: passed - own }
    }
}

/// For how long this thread has run.
fn ran() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().expect("no thread has run for less than no time")
}

/// The time for which this thread has been ready to run without a cpu.
fn ready(schedstat: &File) -> io::Result<Duration> {
    let mut text = [0; 64];
    let bytes = schedstat.read_at(&mut text, 0)?;
    let numbers = String::from_utf8_lossy(&text[..bytes]);
    let waited = numbers.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    waited.map(Duration::from_nanos).ok_or_else(|| io::Error::other(format!("{SCHEDSTAT}: {numbers:?}")))
}

fn ask_and_give_back() {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, written to and given back here.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), PIECE, access, flags, -1, 0);
        if start != libc::MAP_FAILED {
            start.cast::<u8>().write_volatile(1);
            libc::munmap(start, PIECE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn stall_separates_host_time_other_threads_and_sleep() {
        let start = Instant::now();
        let before = ThreadAccount { now: start, ran: us(50), ready: us(7), sleeps: 1 };
        let after = |sleeps| ThreadAccount { now: start + us(100), ran: us(80), ready: us(17), sleeps };
        let piece = after(1).since(&before);
        assert_eq!((piece.own, piece.host), (us(30), us(60)));
        let slept = after(2).since(&before);
        assert_eq!((slept.own, slept.host), (us(90), us(0)));
    }
}
