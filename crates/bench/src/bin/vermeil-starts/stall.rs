//! A thread that works on the same memory and descriptors while programs are started, and notes how long it was kept from it.
//!
//! Its work is what a server's threads do all the time: write to memory, ask the kernel for more and give it back, open a
//! descriptor and close it. It sleeps in between, so that it does not compete with what is measured; time asleep is not
//! counted. Nor is the time for which it could have run and had no cpu: a machine with few cpus gives them to the programs
//! that are started, whoever starts them, and that is nothing a server is kept from.

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
    time::Duration,
};

use crate::memory::Memory;
use crate::timed;

/// Bytes that are asked for and given back.
const PIECE: usize = 16 << 10;
/// Between two pieces of work.
const PAUSE: Duration = Duration::from_micros(50);
/// What the scheduler tells of a thread: nanoseconds on a cpu, nanoseconds ready for one, and how often.
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

#[derive(Default)]
struct Shared {
    samples: Mutex<Vec<Duration>>,
    ends: AtomicBool,
}

impl Shared {
    fn samples(&self) -> MutexGuard<'_, Vec<Duration>> {
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

    /// Forgets what was noted.
    pub(crate) fn reset(&self) {
        self.shared.samples().clear();
    }

    /// Whether `count` pieces of work were done since.
    pub(crate) fn has(&self, count: usize) -> bool {
        self.shared.samples().len() >= count || self.thread.is_finished()
    }

    /// How long each of the first `count` of them took.
    pub(crate) fn take(&self, count: usize) -> Vec<Duration> {
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
        self.thread.join().expect("it does not panic")
    }
}

fn work(shared: &Shared, memory: &ManuallyDrop<Memory>) -> io::Result<()> {
    let (schedstat, null) = (File::open(SCHEDSTAT)?, File::open("/dev/null")?);
    let mut place: usize = 1;
    while !shared.ends.load(Ordering::Relaxed) {
        // A walk through all pages in no order that a cache would like.
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let before = ready(&schedstat)?;
        let (worked, time) = timed(|| {
            memory.write((place >> 12) % memory.bytes());
            ask_and_give_back();
            null.try_clone().map(drop)
        });
        worked?;
        let time = time.saturating_sub(ready(&schedstat)?.saturating_sub(before));
        shared.samples().push(time);
        thread::sleep(PAUSE);
    }
    Ok(())
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
