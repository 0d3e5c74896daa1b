//! A thread that works on the same memory while programs are started, and notes the longest time it was kept from it.
//!
//! Its work is what a server's threads do all the time: write to memory, and ask the kernel for more and give it back. It
//! sleeps in between, so that it does not compete with what is measured; time asleep is not counted.

#![allow(unsafe_code)]

use std::{
    io,
    mem::ManuallyDrop,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
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

#[derive(Default)]
struct Shared {
    longest_ns: AtomicU64,
    ends: AtomicBool,
}

pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
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

    pub(crate) fn reset(&self) {
        self.shared.longest_ns.store(0, Ordering::Relaxed);
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(self.shared.longest_ns.load(Ordering::Relaxed))
    }

    /// Waits until the thread is done with the memory.
    pub(crate) fn stop(self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic");
    }
}

fn work(shared: &Shared, memory: &ManuallyDrop<Memory>) {
    let mut place: usize = 1;
    while !shared.ends.load(Ordering::Relaxed) {
        // A walk through all pages in no order that a cache would like.
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let ((), time) = timed(|| {
            memory.write((place >> 12) % memory.bytes());
            ask_and_give_back();
        });
        shared.longest_ns.fetch_max(time.as_nanos() as u64, Ordering::Relaxed);
        thread::sleep(PAUSE);
    }
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
