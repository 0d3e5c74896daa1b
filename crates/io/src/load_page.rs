//! Load pages: the state that each core shows to other cores, and to the kernel program that
//! chooses a core for a new connection. A page says since when the core has not looked at its
//! sockets, and how much work waits there.
//!
//! Each core has a block of words on cache lines of its own, with the layout of `struct core` in
//! `crates/steer/bpf/accept.bpf.c`. So the same words can be in memory of this process or in a
//! kernel map. Every word has a single writer; readers see each word whole, and several words
//! perhaps of different moments. Leaves out the use of the words. Tested here.

#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::ProtFlags;
use rustix::time::{ClockId, clock_gettime};

use crate::shared_words::{SharedWords, WordBlock};

/// Maximum number of other cores that a core's connections may go to, nearest first.
pub const NEAR_MAX: usize = 8;

/// The page of a core: two cache lines, which x86 fetches together.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CoreLoadPage {
    busy_since_ns: AtomicU64,
    queued_ns: AtomicU64,
    searches: AtomicU64,
    programs_ns: AtomicU64,
    elsewhere: AtomicU64,
    sent_away: AtomicU64,
    near_count: AtomicU32,
    near: [AtomicU32; NEAR_MAX],
    process: AtomicU32,
    looked_ns: AtomicU64,
    unused: [AtomicU32; 8],
}

/// The pages of all cores.
#[derive(Debug)]
pub struct LoadPage {
    memory: SharedWords<CoreLoadPage>,
    /// The pages of this board, among all pages in the memory.
    part: Range<usize>,
}

// SAFETY: the struct consists of atomic integers, and 128 divides the size of a page.
unsafe impl WordBlock for CoreLoadPage {}

/// The clock of load pages: CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

impl LoadPage {
    /// Pages in memory of this process.
    pub fn private(cores: usize) -> LoadPage {
        LoadPage { memory: SharedWords::private(cores), part: 0..cores }
    }

    /// Pages in memory that other processes or the kernel map too: a file, or a kernel map whose
    /// values are pages. The memory must hold `cores` pages and may not shrink.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn mapped(memory: impl AsFd, cores: usize) -> io::Result<LoadPage> {
        let memory = SharedWords::mapped(memory, cores, ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(LoadPage { memory, part: 0..cores })
    }

    /// Only some of these pages: the cores of one process, if several processes share the memory.
    ///
    /// # Panics
    /// When there are fewer pages.
    pub fn part(mut self, part: Range<usize>) -> LoadPage {
        assert!(part.start <= part.end && part.end <= self.len(), "a part of {} boards", self.len());
        let start = self.part.start;
        self.part = start + part.start..start + part.end;
        self
    }

    fn all(&self) -> &[CoreLoadPage] {
        &self.memory.all()[self.part.clone()]
    }

    /// The page of a core.
    ///
    /// # Panics
    /// When there is no such core.
    pub fn core(&self, core: usize) -> &CoreLoadPage {
        &self.all()[core]
    }

    /// The number of cores with a page.
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Whether no core has a page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl CoreLoadPage {
    /// The core has collected the events of its sockets and begins to work, at `now_ns`; the work
    /// will take about `queued_ns`.
    #[inline]
    pub fn begin_work(&self, now_ns: u64, pending_ns: u64) {
        self.queued_ns.store(pending_ns, Ordering::Relaxed);
        self.searches.store(self.searches.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.looked_ns.store(now_ns.max(1), Ordering::Relaxed);
        self.busy_since_ns.store(now_ns.max(1), Ordering::Relaxed);
    }

    /// The core waits for work.
    #[inline]
    pub fn begin_wait(&self) {
        self.busy_since_ns.store(0, Ordering::Relaxed);
        self.queued_ns.store(0, Ordering::Relaxed);
    }

    /// Time since the core last looked at its sockets, at `now_ns`; `None` while the core waits for
    /// sockets.
    pub fn busy_ns(&self, now_ns: u64) -> Option<u64> {
        match self.busy_since_ns.load(Ordering::Relaxed) {
            0 => None,
            since => Some(now_ns.saturating_sub(since)),
        }
    }

    /// The work that was waiting at the core's last look, as time.
    pub fn queued_ns(&self) -> u64 {
        self.queued_ns.load(Ordering::Relaxed)
    }

    /// Sets the time that pending requests for programs in this core's process will take; valid
    /// until the next call.
    pub fn show_programs(&self, waiting_ns: u64) {
        self.programs_ns.store(waiting_ns, Ordering::Relaxed);
    }

    #[cfg(test)]
    fn programs_ns(&self) -> u64 {
        self.programs_ns.load(Ordering::Relaxed)
    }

    /// Sets the cores that connections for this core may go to when this core has too much work,
    /// nearest first. Cores beyond [`NEAR_MAX`] are ignored.
    pub fn describe(&self, near: &[u32]) {
        for (word, &core) in self.near.iter().zip(near) {
            word.store(core, Ordering::Relaxed);
        }
        self.near_count.store(near.len().min(NEAR_MAX) as u32, Ordering::Relaxed);
    }

    /// Sets the core's process, if several processes share the board. Default: the first, 0.
    pub fn belong_to(&self, process: u32) {
        self.process.store(process, Ordering::Relaxed);
    }

    /// Connections for this core that the kernel program gave to other cores, since the start.
    pub fn sent_away(&self) -> u64 {
        self.sent_away.load(Ordering::Relaxed)
    }

    /// The number of times that the core has looked at its sockets. Two different values prove that
    /// the core runs.
    pub fn searches(&self) -> u64 {
        self.searches.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_busy_from_its_look_to_its_wait() {
        let board = LoadPage::private(2);
        let core = board.core(1);
        assert_eq!((board.len(), core.busy_ns(5), core.searches()), (2, None, 0));
        core.begin_work(7, 40);
        assert_eq!((core.busy_ns(10), core.queued_ns(), core.searches()), (Some(3), 40, 1));
        core.show_programs(50);
        core.begin_wait();
        assert_eq!((core.busy_ns(10), core.queued_ns(), core.programs_ns()), (None, 0, 50));
        assert_eq!(board.core(0).searches(), 0);
    }

    #[test]
    fn both_mappings_show_same_board() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * size_of::<CoreLoadPage>() as u64).unwrap();
        let (one, other) = (LoadPage::mapped(&file, 3).unwrap(), LoadPage::mapped(&file, 3).unwrap());
        one.core(2).begin_work(5, 6);
        one.core(2).describe(&[0, 1]);
        assert_eq!((other.len(), other.core(2).busy_ns(7), other.core(2).queued_ns()), (3, Some(2), 6));
        assert_eq!(other.core(1).busy_ns(7), None);
        drop(one);
        assert_eq!(other.core(2).searches(), 1);
        let last = other.part(1..3).part(1..2);
        assert_eq!((last.len(), last.core(0).searches()), (1, 1));
        assert!(LoadPage::mapped(std::io::stdin(), 0).is_err());
    }

    /// The layout of `struct core` in the program.
    #[test]
    fn the_words_stand_where_the_program_looks() {
        assert_eq!(std::mem::offset_of!(CoreLoadPage, near_count), 48);
        assert_eq!(std::mem::offset_of!(CoreLoadPage, looked_ns), 88);
    }

    #[test]
    fn boards_are_two_lines_each() {
        assert_eq!((size_of::<CoreLoadPage>(), align_of::<CoreLoadPage>()), (128, 128));
        assert!(monotonic_ns() > 0 && monotonic_ns() <= monotonic_ns());
    }
}
