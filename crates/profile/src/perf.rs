//! Events of perf_event_open(2) and the rings in which the kernel leaves their records.
//!
//! This is the only file of the crate with unsafe code: the system call, its ioctls, and the pages
//! that the kernel shares. Records are read in these pages, because a copy of 8 KiB for each sample
//! would cost more than all else that the recorder does; their place is free after a walk of all.
//! Leaves out the meaning of records (`event`) and the choice of events (`recorder`).
//! Tested below on this process, where the kernel permits it, and through `tests/record.rs`.

#![allow(unsafe_code)]

use linux_perf_data::linux_perf_event_reader::RawData;
use perf_event_open_sys::bindings::{
    self, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_CLOCK,
    PERF_COUNT_SW_CPU_MIGRATIONS, PERF_COUNT_SW_PAGE_FAULTS, PERF_FLAG_FD_CLOEXEC, PERF_FORMAT_GROUP,
    PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_CPU,
    PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_READ, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER,
    PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_SOFTWARE,
    perf_event_attr, perf_event_mmap_page,
};
use perf_event_open_sys::{ioctls, perf_event_open};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a ring for samples with copies of stacks, of which 512 KiB would hold 30.
const DUMP_RING_PAGES: usize = 1_024;
/// Data pages of all rings with copies of stacks together. More cpus than 32 share them.
const DUMP_PAGES_MAX: usize = 32 * DUMP_RING_PAGES;
/// Bytes of the stack that the kernel copies with each sample at first. Most stacks fit, and the
/// other half of a longer copy costs each sample 1.7 µs (the test `costs`).
pub(crate) const SHORT_DUMP_BYTES: u32 = 8 << 10;
/// The same once stacks did not fit. A record is shorter than 64 KiB.
pub(crate) const DUMP_BYTES: u32 = 16 << 10;
/// The registers that a walk starts from, by their numbers in `asm/perf_regs.h`: instruction, stack
/// and frame pointer, and the link register where there is one.
#[cfg(target_arch = "x86_64")]
pub(crate) const REGISTERS: [u32; 3] = [8, 7, 6];
#[cfg(target_arch = "aarch64")]
pub(crate) const REGISTERS: [u32; 4] = [32, 31, 29, 30];

/// The mask of these registers.
pub(crate) fn register_mask() -> u64 {
    REGISTERS.iter().map(|register| 1 << register).sum()
}

/// Data pages of a ring. 512 KiB hold more than a second of samples at 997 Hz with 64 frames each,
/// and with the header page fit the 516 KiB that `kernel.perf_event_mlock_kb` grants each cpu.
const RING_PAGES: usize = 128;

/// The fields that each sample has, in the kernel's order: ip, tid, time, cpu, period, then counts
/// if these are wanted, and the call chain.
const SAMPLE_FIELDS: u64 = PERF_SAMPLE_IP as u64
    | PERF_SAMPLE_TID as u64
    | PERF_SAMPLE_TIME as u64
    | PERF_SAMPLE_CPU as u64
    | PERF_SAMPLE_PERIOD as u64
    | PERF_SAMPLE_CALLCHAIN as u64;

/// The fields of a sample with registers and a copy of the stack.
const DUMP_FIELDS: u64 = PERF_SAMPLE_REGS_USER as u64 | PERF_SAMPLE_STACK_USER as u64;

/// The event that triggers samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Trigger {
    /// Cycles of the processor, counted by hardware.
    Cycles,
    /// A timer of the kernel that runs on each cpu; the weight of a sample is nanoseconds.
    CpuClock,
    /// Another event, in an imported file; the weight of a sample is a number of events.
    Events,
}

impl Trigger {
    /// The unit of a sample's weight.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::CpuClock => "nanoseconds",
            Self::Events => "events",
        }
    }
}

/// The threads that an event observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObservedThreads {
    /// All threads on a cpu, without the idle task.
    Cpu,
    /// A thread, and the threads and processes that it starts later.
    Thread { tid: i32, on_exec: bool },
}

impl ObservedThreads {
    /// The thread as perf_event_open(2) wants it.
    fn pid(self) -> i32 {
        match self {
            Self::Cpu => -1,
            Self::Thread { tid, .. } => tid,
        }
    }
}

/// The description of a sampling event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    pub(crate) trigger: Trigger,
    pub(crate) hz: u32,
    pub(crate) kernel: bool,
    pub(crate) frames_max: u16,
    /// Bytes of the upper part of the stack that samples hold beside registers, for code without
    /// frame pointers.
    pub(crate) dump_bytes: Option<u32>,
    /// Whether samples hold the counts of [`SOFTWARE`]. For whole cpus only.
    pub(crate) counts: bool,
}

/// Events of the kernel, counted on each cpu. A read from another cpu interrupts the counted cpu,
/// which costs 50 µs of both on a virtual machine, so samples hold the counts.
pub(crate) const SOFTWARE: [(&str, Counted); 3] = [
    ("context switches", Counted::software(PERF_COUNT_SW_CONTEXT_SWITCHES)),
    ("migrations", Counted::software(PERF_COUNT_SW_CPU_MIGRATIONS)),
    ("page faults", Counted::software(PERF_COUNT_SW_PAGE_FAULTS)),
];

/// The counts of [`SOFTWARE`].
pub(crate) type SoftwareCounts = [u64; SOFTWARE.len()];

fn attributes(sampling: &Sampling, observed: ObservedThreads) -> perf_event_attr {
    let mut attr = perf_event_attr::default();
    attr.size = size_of::<perf_event_attr>() as u32;
    match sampling.trigger {
        Trigger::Cycles => {
            attr.type_ = PERF_TYPE_HARDWARE;
            attr.config = u64::from(PERF_COUNT_HW_CPU_CYCLES);
            attr.sample_period = u64::from(sampling.hz);
            attr.set_freq(1);
        }
        Trigger::CpuClock | Trigger::Events => {
            attr.type_ = PERF_TYPE_SOFTWARE;
            attr.config = u64::from(PERF_COUNT_SW_CPU_CLOCK);
            attr.sample_period = 1_000_000_000 / u64::from(sampling.hz);
        }
    }
    attr.sample_type = SAMPLE_FIELDS;
    if let Some(bytes) = sampling.dump_bytes {
        attr.sample_type |= DUMP_FIELDS;
        attr.sample_regs_user = register_mask();
        attr.sample_stack_user = bytes;
        attr.set_exclude_callchain_user(1);
    }
    if sampling.counts {
        attr.sample_type |= u64::from(PERF_SAMPLE_READ);
        attr.read_format = u64::from(PERF_FORMAT_GROUP);
    }
    attr.set_disabled(1);
    attr.set_exclude_hv(1);
    attr.set_exclude_idle(1);
    attr.set_exclude_kernel(u64::from(!sampling.kernel));
    if !sampling.kernel {
        attr.set_exclude_callchain_kernel(1);
    }
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_build_id(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr.set_sample_id_all(1);
    use_monotonic_clock(&mut attr);
    attr.sample_max_stack = sampling.frames_max;
    if let ObservedThreads::Thread { on_exec, .. } = observed {
        attr.set_inherit(1);
        attr.set_enable_on_exec(u64::from(on_exec));
    }
    attr
}

fn use_monotonic_clock(attr: &mut perf_event_attr) {
    attr.set_use_clockid(1);
    attr.clockid = rustix::time::ClockId::Monotonic as i32;
}

/// Attributes of an event that reports each switch of a thread, and samples the stacks of threads
/// that leave their cpu. The kernel adapts the number of switches between two samples to the rate.
fn switch_attributes(sampling: &Sampling, observed: ObservedThreads) -> perf_event_attr {
    let mut attr = attributes(&Sampling { counts: false, ..*sampling }, observed);
    attr.type_ = PERF_TYPE_SOFTWARE;
    attr.config = u64::from(PERF_COUNT_SW_CONTEXT_SWITCHES);
    attr.sample_period = u64::from(sampling.hz);
    attr.set_freq(1);
    attr.set_context_switch(1);
    // The sampling event reports these.
    attr.set_mmap(0);
    attr.set_mmap2(0);
    attr.set_build_id(0);
    attr.set_comm(0);
    attr.set_comm_exec(0);
    attr.set_task(0);
    attr
}

/// A sampling event on one cpu.
pub(crate) struct SamplingEvent {
    event: OwnedFd,
    /// The counters that its samples hold.
    counters: Vec<OwnedFd>,
}

impl SamplingEvent {
    /// Opens an event, switched off.
    pub(crate) fn open(sampling: &Sampling, observed: ObservedThreads, cpu: u32) -> io::Result<Self> {
        let event = open(&mut attributes(sampling, observed), observed.pid(), cpu as i32, None)?;
        let counted = if sampling.counts { &SOFTWARE[..] } else { &[] };
        let counters = counted.iter().map(|(_, counted)| {
            let mut attr = counted.attributes();
            // All events of a group have the clock of the first.
            use_monotonic_clock(&mut attr);
            open(&mut attr, observed.pid(), cpu as i32, Some(event.as_fd()))
        });
        let counters = counters.collect::<io::Result<Vec<_>>>()?;
        Ok(Self { event, counters })
    }

    /// Opens an event whose samples have no content and go nowhere.
    #[cfg(test)]
    pub(crate) fn open_empty(sampling: &Sampling, cpu: u32) -> io::Result<Self> {
        let mut attr = attributes(sampling, ObservedThreads::Cpu);
        attr.sample_type = 0;
        Ok(Self { event: open(&mut attr, -1, cpu as i32, None)?, counters: Vec::new() })
    }

    /// The counts of the event's counters now. Interrupts the cpu, if the event is on.
    pub(crate) fn counts(&self) -> io::Result<SoftwareCounts> {
        // The number of counts, the event's own, then the others.
        let mut words = [0_u8; 8 * (2 + SOFTWARE.len())];
        let read = rustix::io::read(&self.event, &mut words)?;
        let (words, _) = words.as_chunks();
        if self.counters.is_empty() || read < 8 * words.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(std::array::from_fn(|index| u64::from_ne_bytes(words[2 + index])))
    }

    /// Closes the counters.
    pub(crate) fn close_counters(&mut self) {
        self.counters.clear();
    }

    /// Opens an event for the switches of threads, switched off.
    pub(crate) fn open_switches(
        sampling: &Sampling,
        observed: ObservedThreads,
        cpu: u32,
    ) -> io::Result<Self> {
        let event = open(&mut switch_attributes(sampling, observed), observed.pid(), cpu as i32, None)?;
        Ok(Self { event, counters: Vec::new() })
    }

    /// Starts sampling.
    pub(crate) fn enable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is an event that this process owns; the call takes no pointer.
        done(unsafe { ioctls::ENABLE(self.event.as_raw_fd(), 0) })
    }

    /// Stops sampling.
    pub(crate) fn disable(&self) -> io::Result<()> {
        // SAFETY: as in `enable`.
        done(unsafe { ioctls::DISABLE(self.event.as_raw_fd(), 0) })
    }

    /// Sends the records of this event to the ring of another event of the same cpu.
    pub(crate) fn write_to(&self, ring: &RecordRing) -> io::Result<()> {
        // SAFETY: both descriptors are events that this process owns.
        done(unsafe { ioctls::SET_OUTPUT(self.event.as_raw_fd(), ring.event.event.as_raw_fd()) })
    }
}

fn done(answer: i32) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn open(
    attr: &mut perf_event_attr,
    pid: i32,
    cpu: i32,
    group: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let group = group.map_or(-1, |leader| leader.as_raw_fd());
    // SAFETY: `attr` is initialised, says its own size, and lives until the call returns.
    let fd = unsafe { perf_event_open(attr, pid, cpu, group, PERF_FLAG_FD_CLOEXEC.into()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so this is a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An event that is counted, by the kernel's type and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    kind: u32,
    config: u64,
}

impl Counted {
    pub(crate) const fn software(config: u32) -> Self {
        Self { kind: PERF_TYPE_SOFTWARE, config: config as u64 }
    }

    pub(crate) const fn hardware(config: u32) -> Self {
        Self { kind: PERF_TYPE_HARDWARE, config: config as u64 }
    }

    /// Accesses or misses of a cache, reads alone.
    pub(crate) const fn cache(cache: u32, misses: bool) -> Self {
        Self { kind: PERF_TYPE_HW_CACHE, config: cache as u64 | (misses as u64) << 16 }
    }

    fn attributes(self) -> perf_event_attr {
        let mut attr = perf_event_attr::default();
        attr.size = size_of::<perf_event_attr>() as u32;
        attr.type_ = self.kind;
        attr.config = self.config;
        attr
    }
}

/// Counters of one cpu that are read at once, and that the kernel counts together or not at all.
pub(crate) struct CounterGroup {
    leader: OwnedFd,
    /// Kept open: a closed event leaves its group.
    _members: Vec<OwnedFd>,
    count: usize,
}

impl CounterGroup {
    /// Opens and starts the counters of a cpu.
    pub(crate) fn open(counted: &[Counted], cpu: u32) -> io::Result<Self> {
        let mut fds: Vec<OwnedFd> = Vec::new();
        for counted in counted {
            let mut attr = counted.attributes();
            attr.read_format = u64::from(
                PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
            );
            fds.push(open(&mut attr, -1, cpu as i32, fds.first().map(AsFd::as_fd))?);
        }
        let leader = fds.remove(0);
        Ok(Self { leader, _members: fds, count: counted.len() })
    }

    /// Appends the counts. `false` if the kernel did not count all the time, because others need
    /// the same counters.
    pub(crate) fn read(&self, into: &mut Vec<u64>) -> io::Result<bool> {
        // The number of counters, time enabled, time running, then the counts.
        let mut bytes = [0_u8; 8 * 16];
        let wanted = 8 * (3 + self.count);
        let read = rustix::io::read(&self.leader, &mut bytes[..wanted])?;
        if read != wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let word = |at: usize| u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().expect("eight bytes"));
        into.extend((0..self.count).map(|index| word(3 + index)));
        Ok(word(1) == word(2))
    }
}

/// The data pages of each ring, a power of two.
pub(crate) fn ring_pages(dumps: bool, cpus: usize) -> usize {
    if !dumps {
        return RING_PAGES;
    }
    let share = (DUMP_PAGES_MAX / cpus.max(1)).max(1);
    DUMP_RING_PAGES.min(1 << share.ilog2())
}

/// Records of one cpu, shared with the kernel.
pub(crate) struct RecordRing {
    event: SamplingEvent,
    base: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
    /// The end of the records that are complete, as bytes since the start of the ring.
    head: u64,
    /// The first record that was not taken yet.
    at: u64,
}

/// A record in its place in the ring.
pub(crate) struct RawRecord<'a> {
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    pub(crate) body: RawData<'a>,
}

impl RecordRing {
    /// Makes a ring for an event. With less locked memory than wanted the ring is smaller.
    pub(crate) fn of(event: SamplingEvent, pages: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let mut pages = pages;
        let base = loop {
            let length = (pages + 1) * page_bytes;
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping at an address that the kernel chooses; no existing memory
            // changes.
            match unsafe { mmap(std::ptr::null_mut(), length, rights, MapFlags::SHARED, &event.event, 0) } {
                Ok(base) => break NonNull::new(base.cast()).expect("a mapping is not at address zero"),
                Err(rustix::io::Errno::PERM) if pages > 1 => pages /= 2,
                Err(error) => return Err(error.into()),
            }
        };
        let data_bytes = pages * page_bytes;
        Ok(Self { event, base, page_bytes, data_bytes, head: 0, at: 0 })
    }

    pub(crate) fn event(&self) -> &SamplingEvent {
        &self.event
    }

    pub(crate) fn event_mut(&mut self) -> &mut SamplingEvent {
        &mut self.event
    }

    /// Bytes for records.
    pub(crate) fn bytes_max(&self) -> usize {
        self.data_bytes
    }

    /// Looks for records that are complete now.
    pub(crate) fn look(&mut self) {
        let header = self.base.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the header page is mapped as long as the ring lives, and the word is aligned.
        // Only the kernel writes the word.
        let head = unsafe { AtomicU64::from_ptr(&raw mut (*header).data_head) };
        // Acquire pairs with the kernel's barrier between the write of a record and of the head.
        self.head = head.load(Ordering::Acquire);
        self.skip_damage();
    }

    /// The time of the first record.
    pub(crate) fn first_time(&self) -> Option<u64> {
        let (kind, size) = self.first_head().map(|(kind, _, size)| (kind, size))?;
        // A sample begins with address and thread, and behind other records stand time and cpu.
        let offset = if kind == bindings::PERF_RECORD_SAMPLE { Some(24) } else { size.checked_sub(16) };
        Some(offset.filter(|offset| offset + 8 <= size).map_or(0, |offset| self.word(self.at + offset)))
    }

    /// The first record.
    pub(crate) fn first(&self) -> Option<RawRecord<'_>> {
        let (kind, misc, size) = self.first_head()?;
        Some(RawRecord { kind, misc, body: self.bytes(self.at + 8, size as usize - 8) })
    }

    /// Goes on to the next record. The place of this one stays taken.
    pub(crate) fn pass(&mut self) {
        self.at = self.first_head().map_or(self.head, |(_, _, size)| self.at + size);
        self.skip_damage();
    }

    /// The kernel writes no record that `first_head` refuses; without this a walk would not end.
    fn skip_damage(&mut self) {
        if self.first_head().is_none() {
            self.at = self.head;
        }
    }

    /// Gives the places of all passed records to the kernel.
    pub(crate) fn free(&mut self) {
        let header = self.base.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: as in `look`. Only this thread writes the word.
        let tail = unsafe { AtomicU64::from_ptr(&raw mut (*header).data_tail) };
        // Release: the kernel must not see the new tail before the records were read.
        tail.store(self.at, Ordering::Release);
    }

    /// Type, flags and size of the first record, if these make sense.
    fn first_head(&self) -> Option<(u32, u16, u64)> {
        let left = self.head.wrapping_sub(self.at);
        if left < 8 {
            return None;
        }
        let [a, b, c, d, misc @ .., e, f] = self.word(self.at).to_ne_bytes();
        let (kind, misc) = (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes(misc));
        let size = u64::from(u16::from_ne_bytes([e, f]));
        (8..=left).contains(&size).then_some((kind, misc, size))
    }

    /// A word of the ring. Records begin at multiples of eight, so no word goes around the end.
    fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        let length = self.bytes(at, 8).read_exact(&mut word);
        length.expect("a word has eight bytes");
        u64::from_ne_bytes(word)
    }

    /// Bytes of the ring between the first record and the head; two parts around the end.
    fn bytes(&self, at: u64, length: usize) -> RawData<'_> {
        let start = (at % self.data_bytes as u64) as usize;
        let until_end = length.min(self.data_bytes - start);
        // SAFETY: the data pages are mapped behind the header page as long as the ring lives, and
        // both parts are within them because a record is smaller than the ring. The kernel writes
        // nothing between its tail and its head, where the bytes lie: `free` alone moves the tail,
        // and cannot be called while the bytes are borrowed.
        let (front, back) = unsafe {
            let data = self.base.as_ptr().add(self.page_bytes);
            (
                std::slice::from_raw_parts(data.add(start), until_end),
                std::slice::from_raw_parts(data, length - until_end),
            )
        };
        if back.is_empty() { RawData::Single(front) } else { RawData::Split(front, back) }
    }
}

impl Drop for RecordRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's own and nothing refers to it any more.
        let _left = unsafe { munmap(self.base.as_ptr().cast(), self.page_bytes + self.data_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_many_cpus_share_memory() {
        assert_eq!(ring_pages(false, 1_000), RING_PAGES);
        assert_eq!([1, 32, 64, 100].map(|cpus| ring_pages(true, cpus)), [1_024, 1_024, 512, 256]);
    }

    #[test]
    fn group_counts_context_switches() {
        let counted = [
            Counted::software(bindings::PERF_COUNT_SW_CONTEXT_SWITCHES),
            Counted::software(bindings::PERF_COUNT_SW_PAGE_FAULTS),
        ];
        let Ok(group) = CounterGroup::open(&counted, 0) else {
            eprintln!("skipped: this user may not count whole cpus");
            return;
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        group.read(&mut before).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while after.is_empty() || (after[0] == before[0] && std::time::Instant::now() < deadline) {
            after.clear();
            std::thread::yield_now();
            group.read(&mut after).unwrap();
        }
        assert_eq!(after.len(), 2);
        assert!(after[0] > before[0], "{before:?} {after:?}");
    }

    fn sampling() -> Sampling {
        Sampling {
            trigger: Trigger::CpuClock,
            hz: 997,
            kernel: false,
            frames_max: 64,
            dump_bytes: None,
            counts: false,
        }
    }

    #[test]
    fn ring_holds_samples_of_this_thread() {
        let this = ObservedThreads::Thread { tid: 0, on_exec: false };
        let Ok(event) = SamplingEvent::open(&sampling(), this, 0) else {
            eprintln!("skipped: this kernel does not let this user sample");
            return;
        };
        let mut rings = vec![RecordRing::of(event, RING_PAGES).unwrap()];
        for cpu in 1..std::thread::available_parallelism().unwrap().get() as u32 {
            if let Ok(event) = SamplingEvent::open(&sampling(), this, cpu) {
                rings.push(RecordRing::of(event, RING_PAGES).unwrap());
            }
        }
        rings.iter().for_each(|ring| ring.event().enable().unwrap());
        let mut samples = 0;
        let mut sum = 0_u64;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while samples < 3 && std::time::Instant::now() < deadline {
            sum = (0..100_000).fold(sum, |sum, term| std::hint::black_box(sum.wrapping_add(term)));
            for ring in &mut rings {
                ring.look();
                while let Some(record) = ring.first() {
                    samples += u32::from(record.kind == bindings::PERF_RECORD_SAMPLE);
                    ring.pass();
                }
                ring.free();
            }
        }
        assert!(samples >= 3, "{samples} samples, sum {sum}");
    }
}
