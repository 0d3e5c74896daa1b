//! What each core shows of itself to other cores, and to the kernel program that chooses a core for a new connection:
//! since when it has not looked at its sockets, and how much work waits there.
//!
//! One block of words per core, alone on its cache lines, with the layout of `struct core` in
//! `crates/steer/bpf/accept.bpf.c`, so that the same words can stand in memory of this process or in a map of the
//! kernel's. Every word has one writer; readers see each word whole, and several words perhaps of different moments.
//! Leaves out what is made of them. Tested here.

#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};

/// Other cores that a core's connections may go to, nearest first, at most.
pub const NEAR_MAX: usize = 8;

/// What one core shows: two cache lines, which x86 fetches together.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CoreBoard {
    busy_since_ns: AtomicU64,
    pending_ns: AtomicU64,
    looks: AtomicU64,
    programs_ns: AtomicU64,
    elsewhere: AtomicU64,
    sent_away: AtomicU64,
    near_count: AtomicU32,
    near: [AtomicU32; NEAR_MAX],
    process: AtomicU32,
    looked_ns: AtomicU64,
    unused: [AtomicU32; 8],
}

/// The boards of all cores.
#[derive(Debug)]
pub struct Board {
    memory: Memory,
    /// Those of this board, of all that stand in the memory.
    part: Range<usize>,
}

#[derive(Debug)]
enum Memory {
    Private(Box<[CoreBoard]>),
    Mapped { first: NonNull<CoreBoard>, cores: usize },
}

// SAFETY: the words are atomic, and the mapping belongs to the board alone until it is dropped.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

/// The clock of boards: CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

impl Board {
    /// Boards in memory of this process.
    pub fn private(cores: usize) -> Board {
        Board { memory: Memory::Private((0..cores).map(|_| CoreBoard::default()).collect()), part: 0..cores }
    }

    /// Boards in memory that others map too: a file, or a kernel map whose values are boards. It must hold `cores` of
    /// them and may not shrink.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn mapped(memory: impl AsFd, cores: usize) -> io::Result<Board> {
        let bytes = cores * size_of::<CoreBoard>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where, so no other memory is replaced.
        let first = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, memory, 0)? };
        let first = NonNull::new(first.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Board { memory: Memory::Mapped { first, cores }, part: 0..cores })
    }

    /// Only some of these boards: the cores of one process, where several show themselves in the same memory.
    ///
    /// # Panics
    /// Where there are not so many.
    pub fn part(mut self, part: Range<usize>) -> Board {
        assert!(part.start <= part.end && part.end <= self.len(), "a part of {} boards", self.len());
        let start = self.part.start;
        self.part = start + part.start..start + part.end;
        self
    }

    fn all(&self) -> &[CoreBoard] {
        let whole: &[CoreBoard] = match &self.memory {
            Memory::Private(cores) => cores,
            // SAFETY: `cores` boards were mapped, at the start of a page, which their alignment divides; they are unmapped
            // only when `self` is dropped, and atomic words may be written by anybody meanwhile.
            Memory::Mapped { first, cores } => unsafe { std::slice::from_raw_parts(first.as_ptr(), *cores) },
        };
        &whole[self.part.clone()]
    }

    /// The board of one core.
    ///
    /// # Panics
    /// Where there is no such core.
    pub fn core(&self, core: usize) -> &CoreBoard {
        &self.all()[core]
    }

    /// How many cores have a board.
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Whether no core has one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if let Memory::Mapped { first, cores } = self.memory {
            // SAFETY: exactly what `mapped` mapped, and nobody can reach it any more. If it fails, memory is lost, no more.
            let _ = unsafe { munmap(first.as_ptr().cast(), cores * size_of::<CoreBoard>()) };
        }
    }
}

impl CoreBoard {
    /// The core has taken in what its sockets had for it and begins to work, at `now_ns`; it will take some `pending_ns`.
    #[inline]
    pub fn begin_work(&self, now_ns: u64, pending_ns: u64) {
        self.pending_ns.store(pending_ns, Ordering::Relaxed);
        self.looks.store(self.looks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.looked_ns.store(now_ns.max(1), Ordering::Relaxed);
        self.busy_since_ns.store(now_ns.max(1), Ordering::Relaxed);
    }

    /// The core waits for something to do.
    #[inline]
    pub fn begin_wait(&self) {
        self.busy_since_ns.store(0, Ordering::Relaxed);
        self.pending_ns.store(0, Ordering::Relaxed);
    }

    /// For how long the core has not looked at its sockets, at `now_ns`; `None` while it waits for them.
    pub fn busy_ns(&self, now_ns: u64) -> Option<u64> {
        match self.busy_since_ns.load(Ordering::Relaxed) {
            0 => None,
            since => Some(now_ns.saturating_sub(since)),
        }
    }

    /// The work that was waiting when the core looked last, as time.
    pub fn pending_ns(&self) -> u64 {
        self.pending_ns.load(Ordering::Relaxed)
    }

    /// What waits for programs in this core's process will take, as time; it stands until it is shown anew.
    pub fn show_programs(&self, waiting_ns: u64) {
        self.programs_ns.store(waiting_ns, Ordering::Relaxed);
    }

    #[cfg(test)]
    fn programs_ns(&self) -> u64 {
        self.programs_ns.load(Ordering::Relaxed)
    }

    /// Where connections for this core may go when it has too much to do, nearest first. Beyond [`NEAR_MAX`] nobody is
    /// taken note of.
    pub fn describe(&self, near: &[u32]) {
        for (word, &core) in self.near.iter().zip(near) {
            word.store(core, Ordering::Relaxed);
        }
        self.near_count.store(near.len().min(NEAR_MAX) as u32, Ordering::Relaxed);
    }

    /// Which process it is in, where several show themselves on the same board. Default: the first, 0.
    pub fn belong_to(&self, process: u32) {
        self.process.store(process, Ordering::Relaxed);
    }

    /// Connections for this core that the kernel program gave to others, since the start.
    pub fn sent_away(&self) -> u64 {
        self.sent_away.load(Ordering::Relaxed)
    }

    /// How many times the core has looked at its sockets. Two looks that differ say that it runs.
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_busy_from_its_look_to_its_wait() {
        let board = Board::private(2);
        let core = board.core(1);
        assert_eq!((board.len(), core.busy_ns(5), core.looks()), (2, None, 0));
        core.begin_work(7, 40);
        assert_eq!((core.busy_ns(10), core.pending_ns(), core.looks()), (Some(3), 40, 1));
        core.show_programs(50);
        core.begin_wait();
        assert_eq!((core.busy_ns(10), core.pending_ns(), core.programs_ns()), (None, 0, 50));
        assert_eq!(board.core(0).looks(), 0);
    }

    #[test]
    fn what_is_mapped_twice_is_the_same_board() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * size_of::<CoreBoard>() as u64).unwrap();
        let (one, other) = (Board::mapped(&file, 3).unwrap(), Board::mapped(&file, 3).unwrap());
        one.core(2).begin_work(5, 6);
        one.core(2).describe(&[0, 1]);
        assert_eq!((other.len(), other.core(2).busy_ns(7), other.core(2).pending_ns()), (3, Some(2), 6));
        assert_eq!(other.core(1).busy_ns(7), None);
        drop(one);
        assert_eq!(other.core(2).looks(), 1);
        let last = other.part(1..3).part(1..2);
        assert_eq!((last.len(), last.core(0).looks()), (1, 1));
        assert!(Board::mapped(std::io::stdin(), 0).is_err());
    }

    /// As `struct core` of the program has it.
    #[test]
    fn the_words_stand_where_the_program_looks() {
        assert_eq!(std::mem::offset_of!(CoreBoard, near_count), 48);
        assert_eq!(std::mem::offset_of!(CoreBoard, looked_ns), 88);
    }

    #[test]
    fn boards_are_two_lines_each() {
        assert_eq!((size_of::<CoreBoard>(), align_of::<CoreBoard>()), (128, 128));
        assert!(monotonic_ns() > 0 && monotonic_ns() <= monotonic_ns());
    }
}
