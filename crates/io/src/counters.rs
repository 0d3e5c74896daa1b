//! Counters of a thread in the processor or the kernel: cache misses, or page faults.
//!
//! Uses one descriptor of perf_event_open(2) and one page shared with the kernel, for the thread
//! that opened the counter and for user space, which needs no right up to
//! `kernel.perf_event_paranoid` 2. If the kernel allows, an instruction reads the count, as in
//! `linux/perf_event.h`; otherwise a system call does. No crate serves here: perf-event2 maps at
//! least two pages, and can do neither the first without its ring of records nor the second without
//! a second descriptor. A counter costs each switch of the thread some microseconds (on a virtual
//! machine 2.1, beside 4.2), so open a counter only for a purpose. Leaves out the use of a count.
//! Tested below on page faults, which every kernel counts if this thread may count at all.

#![allow(unsafe_code)]

use std::{
    fmt, io,
    os::fd::{FromRawFd, OwnedFd},
    ptr::NonNull,
    sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence},
};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The counted event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountedEvent {
    /// Lines that a cpu did not find in its caches of levels 1 and 2, so that the lines came from
    /// another core's or a shared cache, or from memory. The kernel's "cache misses" differ: they
    /// are of level 2 on AMD's processors, of the last level on Intel's and of the first on Arm's.
    /// On processors other than AMD's the event is reads of the last level, a shared level 3;
    /// without such a level the count is not meaningful.
    #[default]
    CacheMisses,
    /// Page faults.
    PageFaults,
}

/// The reason why an event cannot be counted here, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not measurable here ({0})")]
pub struct NotMeasurable(String);

/// A counter of the thread that opened it; the counter stays on that thread.
#[derive(Debug)]
pub struct Counter {
    counted: CountedEvent,
    descriptor: OwnedFd,
    /// Missing if the kernel maps no further page for this user (`kernel.perf_event_mlock_kb`).
    page: Option<CounterPage>,
}

/// A count at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountReading {
    count: u64,
    /// Time that the thread has run without being counted, because other users needed the
    /// processor's counters.
    absent_ns: u64,
}

impl CountReading {
    /// The events since an earlier reading. `None` if some may have been missed, and as long as
    /// nothing was counted at all, as with the fake counter of some virtual machines.
    pub fn since(self, earlier: Self) -> Option<u64> {
        (self.count > 0 && self.absent_ns == earlier.absent_ns)
            .then(|| self.count.wrapping_sub(earlier.count))
    }
}

impl Counter {
    /// Starts a counter of the calling thread.
    ///
    /// # Errors
    /// The machine has no such event, or the kernel or a filter forbids this thread to count it.
    pub fn open(counted: CountedEvent) -> Result<Self, NotMeasurable> {
        let descriptor = open(counted).map_err(|error| NotMeasurable(reason(&error)))?;
        let page = CounterPage::of(&descriptor).ok();
        Ok(Self { counted, descriptor, page })
    }

    /// The count now, from 0 at the opening; `None` if unknown.
    #[inline]
    pub fn read(&self) -> Option<CountReading> {
        self.read_by_instruction().or_else(|| self.read_by_call())
    }

    /// The count now if reading takes an instruction and no system call. That may change at any
    /// time, because other users may need the processor's counters, or release them.
    #[inline]
    pub fn read_by_instruction(&self) -> Option<CountReading> {
        self.page.as_ref().and_then(CounterPage::read)
    }

    fn read_by_call(&self) -> Option<CountReading> {
        // Count, time enabled, time running, in the order of `read_format`.
        let mut words = [0; 3 * size_of::<u64>()];
        let read = rustix::io::read(&self.descriptor, &mut words).ok()?;
        let word = |at: usize| u64::from_ne_bytes(words[8 * at..8 * at + 8].try_into().expect("eight bytes"));
        let reading = CountReading { count: word(0), absent_ns: word(1).wrapping_sub(word(2)) };
        (read == words.len()).then_some(reading)
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.read_by_instruction().is_some() { "instruction" } else { "system call" };
        write!(f, "counted ({}, read by {how})", event(self.counted).2)
    }
}

impl fmt::Display for CountedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CacheMisses => "cache misses",
            Self::PageFaults => "page faults",
        })
    }
}

/// Type and number of an event (`linux/perf_event.h`), and its name in perf(1).
fn event(counted: CountedEvent) -> (u32, u64, &'static str) {
    const HARDWARE: u32 = 0;
    const SOFTWARE: u32 = 1;
    const CACHE: u32 = 3;
    match counted {
        CountedEvent::CacheMisses if has_amd_events() => (HARDWARE, 3, "cache-misses"),
        // Level `LL`, operation `READ`, result `ACCESS`.
        CountedEvent::CacheMisses => (CACHE, 2, "LLC-loads"),
        CountedEvent::PageFaults => (SOFTWARE, 2, "page-faults"),
    }
}

/// Whether the processor is AMD's or Hygon's, for which Linux counts cache misses of level 2
/// (`arch/x86/events/amd/core.c`).
#[cfg(target_arch = "x86_64")]
fn has_amd_events() -> bool {
    let vendor = std::arch::x86_64::__cpuid(0);
    let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat();
    name == b"AuthenticAMD" || name == b"HygonGenuine"
}

#[cfg(not(target_arch = "x86_64"))]
fn has_amd_events() -> bool {
    false
}

/// `perf_event_attr` in the form of the first kernel, which all kernels accept
/// (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct PerfAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_kind: u32,
    config1: u64,
}

const _: () = assert!(size_of::<PerfAttributes>() == 64);

fn open(counted: CountedEvent) -> io::Result<OwnedFd> {
    /// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `…_RUNNING`.
    const TIMES: u64 = 1 | 2;
    /// `exclude_kernel`, `exclude_hv`.
    const USER_ONLY: u64 = 1 << 5 | 1 << 6;
    /// `PERF_FLAG_FD_CLOEXEC`.
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let (kind, config, _) = event(counted);
    let size = size_of::<PerfAttributes>() as u32;
    let attributes = PerfAttributes {
        kind,
        size,
        config,
        read_format: TIMES,
        flags: USER_ONLY,
        ..PerfAttributes::default()
    };
    let (this_thread, any_cpu, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
    // SAFETY: the kernel reads `size` bytes of the attributes, which live until the call returns,
    // and writes nothing.
    let descriptor = unsafe {
        let attributes = &raw const attributes;
        libc::syscall(libc::SYS_perf_event_open, attributes, this_thread, any_cpu, no_group, CLOSE_ON_EXEC)
    };
    match descriptor {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the call has succeeded, so this is a new descriptor without another owner.
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) }),
    }
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        // No such unit or event, an event without this form, or an event that a virtual machine
        // lacks.
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO | libc::EINVAL) => {
            "no such event on this machine".to_owned()
        }
        Some(libc::ENOSYS) => "this kernel has no perf events".to_owned(),
        Some(libc::EACCES | libc::EPERM) => {
            let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            let paranoid = paranoid.as_deref().map_or("unknown", str::trim);
            format!("not allowed: kernel.perf_event_paranoid is {paranoid}, or a filter forbids the call")
        }
        _ => error.to_string(),
    }
}

/// The page in which the kernel describes a thread's counter.
#[derive(Debug)]
struct CounterPage(NonNull<MmapPageHead>);

/// The beginning of `perf_event_mmap_page`. The kernel writes the page while the thread does not
/// run.
#[repr(C)]
#[derive(Debug, Default)]
struct MmapPageHead {
    version: AtomicU32,
    oldest_version: AtomicU32,
    /// Changes whenever another field changes.
    lock: AtomicU32,
    /// The processor's counter, from 1; 0 if there is none.
    index: AtomicU32,
    /// To be added to the processor's counter.
    offset: AtomicI64,
    enabled_ns: AtomicU64,
    running_ns: AtomicU64,
    capabilities: AtomicU64,
    width: AtomicU16,
}

impl CounterPage {
    fn of(descriptor: &OwnedFd) -> io::Result<Self> {
        let (length, nowhere) = (rustix::param::page_size(), std::ptr::null_mut());
        // SAFETY: a new mapping at an address of the kernel's choice, so no existing memory
        // changes.
        let page = unsafe { mmap(nowhere, length, ProtFlags::READ, MapFlags::SHARED, descriptor, 0)? };
        NonNull::new(page.cast()).map(Self).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    fn told(&self) -> &MmapPageHead {
        // SAFETY: the page is mapped as long as `self` lives and begins with the fields of
        // `MmapPageHead`, aligned as a page is. The fields that the kernel writes meanwhile are
        // atomics here.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn read(&self) -> Option<CountReading> {
        // SAFETY: the kernel has told the calling thread, the owner of this counter, that it may
        // read the processor's counter.
        self.told().reading(|index| unsafe { by_instruction(index) })
    }
}

impl Drop for CounterPage {
    fn drop(&mut self) {
        // SAFETY: `of` made this mapping, and all borrows of it have ended with `self`. On failure,
        // the page stays mapped.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), rustix::param::page_size()) };
    }
}

impl MmapPageHead {
    /// The count, if `read` can read the processor's counter now: the reading loop of
    /// `linux/perf_event.h`.
    #[inline]
    fn reading(&self, read: impl Fn(u32) -> Option<u64>) -> Option<CountReading> {
        /// `cap_user_rdpmc`.
        const READABLE: u64 = 1 << 2;
        loop {
            let lock = self.lock.load(Ordering::Relaxed);
            // The kernel writes on this cpu, like a signal handler, so an order of the compiler
            // suffices.
            compiler_fence(Ordering::SeqCst);
            let (enabled_ns, running_ns) = (&self.enabled_ns, &self.running_ns);
            // Until the next check of the lock, the values may be of two moments.
            let absent_ns =
                enabled_ns.load(Ordering::Relaxed).wrapping_sub(running_ns.load(Ordering::Relaxed));
            let index = self.index.load(Ordering::Relaxed);
            let offset = self.offset.load(Ordering::Relaxed);
            let unused = 64 - u32::from(self.width.load(Ordering::Relaxed));
            if self.capabilities.load(Ordering::Relaxed) & READABLE == 0 || index == 0 {
                return None;
            }
            let raw = read(index - 1)?;
            compiler_fence(Ordering::SeqCst);
            if self.lock.load(Ordering::Relaxed) == lock {
                // The counter has fewer bits than 64, and the highest bit is a sign.
                let more = (raw.wrapping_shl(unused) as i64).wrapping_shr(unused);
                return Some(CountReading { count: offset.wrapping_add(more) as u64, absent_ns });
            }
        }
    }
}

/// Reads the processor's counter of this number.
///
/// # Safety
/// The kernel allows the calling thread to read the counter; otherwise the instruction ends the
/// process.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn by_instruction(index: u32) -> Option<u64> {
    let (low, high): (u32, u32);
    // SAFETY: the caller's obligation; the instruction changes only two registers. Memory is a
    // clobber, so that the instruction stays between the checks of the lock.
    unsafe {
        std::arch::asm!("rdpmc", in("ecx") index, out("eax") low, out("edx") high, options(nostack, preserves_flags));
    }
    Some(u64::from(high) << 32 | u64::from(low))
}

/// Arm's counters are read by system call, because the kernel allows the instruction only on
/// request, and usually `kernel.perf_user_access` forbids it.
///
/// # Safety
/// None needed.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn by_instruction(_: u32) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Touches `pages` pages for the first time.
    fn fault(pages: usize) {
        let length = pages * rustix::param::page_size();
        let (nowhere, rights) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, written within its length and then unmapped, without any other
        // reference.
        unsafe {
            let memory = rustix::mm::mmap_anonymous(nowhere, length, rights, MapFlags::PRIVATE).unwrap();
            rustix::mm::madvise(memory, length, rustix::mm::Advice::LinuxNoHugepage).ok();
            (0..pages).for_each(|page| {
                memory.cast::<u8>().add(page * rustix::param::page_size()).write_volatile(1);
            });
            munmap(memory, length).unwrap();
        }
    }

    #[test]
    fn counter_counts_own_thread_only() {
        let counter = match Counter::open(CountedEvent::PageFaults) {
            Ok(counter) => counter,
            Err(error) => return eprintln!("skipped: page faults: {error}"),
        };
        fault(1);
        let before = counter.read().expect("one was counted");
        std::thread::spawn(|| fault(500)).join().unwrap();
        let others =
            counter.read().unwrap().since(before).expect("a page fault needs no counter of the processor's");
        assert!(others < 500, "{others} of another thread");
        let before = counter.read().unwrap();
        fault(100);
        let own = counter.read().unwrap().since(before).unwrap();
        assert!((100..600).contains(&own), "{own} of 100");
        let told = counter.page.as_ref().expect("it is mapped").told();
        assert_eq!(
            (told.index.load(Ordering::Relaxed), told.capabilities.load(Ordering::Relaxed) & 4),
            (0, 0)
        );
        assert_eq!(counter.read_by_instruction(), None, "the kernel counts them");
        assert_eq!(counter.to_string(), "counted (page-faults, read by system call)");
    }

    /// The reading loop; the processor's counter is invented.
    #[test]
    fn a_processors_counter_is_read_as_the_kernel_says() {
        let told = MmapPageHead::default();
        let set = |index, offset, capabilities, width| {
            told.index.store(index, Ordering::Relaxed);
            told.offset.store(offset, Ordering::Relaxed);
            told.capabilities.store(capabilities, Ordering::Relaxed);
            told.width.store(width, Ordering::Relaxed);
        };
        set(3, 1_000, 0, 48);
        assert_eq!(told.reading(|_| panic!("not allowed")), None);
        set(0, 1_000, 4, 48);
        assert_eq!(told.reading(|_| panic!("there is none")), None);
        set(3, 1_000, 4, 48);
        told.enabled_ns.store(90, Ordering::Relaxed);
        told.running_ns.store(70, Ordering::Relaxed);
        let read = told.reading(|index| Some(u64::from(index) + 40)).unwrap();
        assert_eq!(read, CountReading { count: 1_042, absent_ns: 20 });
        let read = told.reading(|_| Some((1 << 48) - 7)).unwrap();
        assert_eq!(read.count, 993, "48 bits, one of which is the sign");
        set(1, 5, 4, 64);
        assert_eq!(told.reading(|_| Some(u64::MAX)).unwrap().count, 4);
        // Switched out between the two checks: the loop reads again.
        let again = |_| Some(u64::from(told.lock.fetch_add(1, Ordering::Relaxed) == 0));
        told.lock.store(0, Ordering::Relaxed);
        let stops = std::cell::Cell::new(0);
        let read = told.reading(|index| {
            stops.set(stops.get() + 1);
            if stops.get() == 1 { again(index) } else { Some(2) }
        });
        assert_eq!((read.unwrap().count, stops.get()), (7, 2));
        // Switched out while the times were read: the first time is the older.
        let (lock, stops) = (&told.lock, std::cell::Cell::new(0));
        told.running_ns.store(95, Ordering::Relaxed);
        let read = told.reading(|_| {
            stops.set(stops.get() + 1);
            if stops.get() == 1 {
                told.enabled_ns.store(100, Ordering::Relaxed);
                lock.fetch_add(1, Ordering::Relaxed);
            }
            Some(2)
        });
        assert_eq!((read.unwrap().absent_ns, stops.get()), (5, 2));
    }

    #[test]
    fn uncounted_value_is_absent() {
        let at = |count, absent_ns| CountReading { count, absent_ns };
        assert_eq!(at(12, 0).since(at(5, 0)), Some(7));
        assert_eq!(at(12, 9).since(at(5, 0)), None, "others had the processor's counters");
        assert_eq!(at(12, 0).since(at(12, 0)), Some(0));
        assert_eq!(at(0, 0).since(at(0, 0)), None, "a counter that never counts anything");
    }

    #[test]
    fn reasons_are_in_words() {
        let said = |number| NotMeasurable(reason(&io::Error::from_raw_os_error(number))).to_string();
        assert_eq!(said(libc::ENOENT), "not measurable here (no such event on this machine)");
        assert!(
            said(libc::EACCES)
                .starts_with("not measurable here (not allowed: kernel.perf_event_paranoid is ")
        );
        assert!(said(libc::EMFILE).contains("open files"));
        match Counter::open(CountedEvent::CacheMisses) {
            Ok(counter) => eprintln!("cache misses: {counter}: {:?}", counter.read()),
            Err(error) => eprintln!("cache misses: {error}"),
        }
    }
}
