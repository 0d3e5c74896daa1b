//! A thread that works on the same memory and descriptors while programs are started, and notes how long it was kept from it.
//!
//! Its work is what a server's threads do all the time: write to memory, ask the kernel for more and give it back, open a
//! descriptor and close it. It sleeps in between, so that it does not compete with what is measured; time asleep is not
//! counted. How long a piece of work took is divided by what the kernel tells of the thread: see [`Piece`].

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

use crate::memory::Memory;

/// Bytes that are asked for and given back.
const PIECE: usize = 16 << 10;
/// Between two pieces of work.
const PAUSE: Duration = Duration::from_micros(50);
/// What the scheduler tells of a thread: nanoseconds on a cpu, nanoseconds ready for one, and how often.
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// How long a piece of work took, without the time for which the thread could have run and others had the cpu: a machine with few
/// cpus gives them to the programs that are started, whoever starts them, and that is nothing a server is kept from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// It ran, or slept until a lock of the kernel was free.
    pub(crate) own: Duration,
    /// It ran, but the host had taken the cpu away from this machine. The kernel leaves out of a thread's cpu time what the
    /// host tells it (`CONFIG_PARAVIRT_TIME_ACCOUNTING`); where the host tells nothing, this is nothing. Of a thread that slept
    /// meanwhile it cannot be told, and is in the other. A kernel that counts interrupts apart (`CONFIG_IRQ_TIME_ACCOUNTING`)
    /// leaves those out too, and they are in here.
    pub(crate) host: Duration,
}

#[derive(Default)]
struct Shared {
    samples: Mutex<Vec<Piece>>,
    works: AtomicBool,
    ends: AtomicBool,
}

impl Shared {
    fn samples(&self) -> MutexGuard<'_, Vec<Piece>> {
        self.samples.lock().expect("nothing panics under this lock")
    }
}

pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: JoinHandle<io::Result<()>>,
}

impl Watch {
    pub(crate) fn start(memory: &Memory) -> io::Result<Self> {
        let (shared, memory) = (Arc::new(Shared::default()), memory.share());
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

    /// The thread works no longer; gives the first `count` pieces of what it did.
    pub(crate) fn end(&self, count: usize) -> Vec<Piece> {
        self.shared.works.store(false, Ordering::Relaxed);
        let mut samples = std::mem::take(&mut *self.shared.samples());
        samples.truncate(count);
        samples
    }

    /// Waits until the thread is done with the memory.
    ///
    /// # Errors
    /// It could not work.
    pub(crate) fn stop(self) -> io::Result<()> {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().expect("it does not panic")
    }
}

fn work(shared: &Shared, memory: &ManuallyDrop<Memory>) -> io::Result<()> {
    let (schedstat, null) = (File::open(SCHEDSTAT)?, File::open("/dev/null")?);
    let mut place: usize = 1;
    while !shared.ends.load(Ordering::Relaxed) {
        if !shared.works.load(Ordering::Relaxed) {
            thread::park();
            continue;
        }
        // A walk through all pages in no order that a cache would like.
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let before = Account::begin(&schedstat)?;
        memory.write((place >> 12) % memory.bytes());
        ask_and_give_back();
        null.try_clone().map(drop)?;
        let piece = Account::end(&schedstat)?.since(&before);
        shared.samples().push(piece);
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// What the kernel tells of this thread.
struct Account {
    now: Instant,
    /// On a cpu, which this machine had.
    ran: Duration,
    /// Ready for one, which others had.
    ready: Duration,
    sleeps: i64,
}

impl Account {
    /// As a piece of work begins. The time is read last, and first when it ends: whatever the thread waits for in between is
    /// then in none of the times, at most in `ready`, which lessens a stall, seldom.
    fn begin(schedstat: &File) -> io::Result<Self> {
        Ok(Self { ready: ready(schedstat)?, sleeps: rusage::sleeps(), ran: ran(), now: Instant::now() })
    }

    /// As it ends.
    fn end(schedstat: &File) -> io::Result<Self> {
        Ok(Self { now: Instant::now(), ran: ran(), sleeps: rusage::sleeps(), ready: ready(schedstat)? })
    }

    fn since(&self, before: &Self) -> Piece {
        let passed = (self.now - before.now).saturating_sub(self.ready.saturating_sub(before.ready));
        let ran = self.ran.saturating_sub(before.ran).min(passed);
        let own = if self.sleeps == before.sleeps { ran } else { passed };
        Piece { own, host: passed - own }
    }
}

/// For how long this thread has run.
fn ran() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().expect("no thread has run for less than no time")
}

/// For how long this thread has been ready to run and had no cpu.
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
    fn what_the_host_took_is_told_apart_from_what_others_had_and_from_sleep() {
        let start = Instant::now();
        let before = Account { now: start, ran: us(50), ready: us(7), sleeps: 1 };
        let after = |sleeps| Account { now: start + us(100), ran: us(80), ready: us(17), sleeps };
        let piece = after(1).since(&before);
        assert_eq!((piece.own, piece.host), (us(30), us(60)));
        let slept = after(2).since(&before);
        assert_eq!((slept.own, slept.host), (us(90), us(0)));
    }
}
