//! Reads on file systems that cannot say whether a read would wait, for example overlayfs, the root
//! of most containers.
//!
//! Handing each read to another thread would be safe and slow. Therefore a core reads such a file
//! itself while that pays: a read without a wait earns the time that a hand-over takes, and a wait
//! costs a multiple of its duration, because meanwhile all connections of the core wait. Without
//! credit, other threads read. Their reads count too, so a file system whose files have come into
//! memory earns the credit back. A file system without a disk (tmpfs) needs no credit.
//!
//! The credit is per file system and for the whole process. A caller that knows the file system of
//! a file saves the question to the kernel and the state of the file ([`WithoutNowait`]). Tested
//! below.
//!
//! No file system can say whether listing a folder would wait, so listings have the same rule with
//! a credit of their own ([`list_on_core`]).

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use rustix::fs::{fstat, fstatfs};
use rustix::io::Errno;
use vermeil_ablation::Mechanism;

use crate::preemption::waits;

/// tmpfs and ramfs, by the numbers in `linux/magic.h`. Their files have no disk, so a read does not
/// wait, except for pages in the swap space, like any access to memory.
const WITHOUT_DISK: [u32; 2] = [0x0102_1994, 0x8584_58F6];

/// The cpu time of a hand-over to another thread and back, rounded up. Measured: 6.5 to 8.7 µs for
/// two threads that wake each other through a channel.
const HAND_OVER_NS: i64 = 10_000;

/// Each nanosecond of a wait costs so many. With a disk that answers in 10 ms a core waits
/// for at most one in 10,000 reads, too few to move the 99th percentile of other requests.
const STALL_WEIGHT: i64 = 10;

/// The most credit. Less than the cost of a wait of 1 ms, so such a wait always ends the credit.
const CREDIT_NS_MAX: i64 = 5_000_000;

/// The least credit: a bound for the time until a file system is quick again.
const CREDIT_NS_MIN: i64 = -1_000_000_000;

/// The credit of an unknown file system: 64 reads by other threads come first.
const CREDIT_NS_FIRST: i64 = -64 * HAND_OVER_NS;

/// File systems with a credit. Files of further file systems are read by other threads.
const FILE_SYSTEMS: usize = 16;

/// In the place of a device's number, while a thread fills the place.
const RESERVED: u64 = u64::MAX;

/// The credit of a file system without a disk, forever.
const CREDIT_NS_WITHOUT_DISK: i64 = i64::MAX;

/// Milliseconds after which the absence of a disk is checked again.
const CONFIRMED_MS: u64 = 1_000;

/// A file system that cannot tell.
struct UntoldFileSystem {
    /// The number of the device; 0 in an unused place.
    device: AtomicU64,
    /// Relaxed, because a lost update changes the credit by one read.
    credit_ns: AtomicI64,
    /// When [`WithoutNowait::confirm`] last looked.
    confirmed_ms: AtomicU64,
}

type FileSystems = [UntoldFileSystem; FILE_SYSTEMS];

/// The file systems that have refused `RWF_NOWAIT`.
static KNOWN: FileSystems = [const { UntoldFileSystem::unused() }; FILE_SYSTEMS];

/// The file systems of which a folder was listed.
static LISTED: FileSystems = [const { UntoldFileSystem::unused() }; FILE_SYSTEMS];

impl UntoldFileSystem {
    const fn unused() -> Self {
        Self {
            device: AtomicU64::new(0),
            credit_ns: AtomicI64::new(CREDIT_NS_FIRST),
            confirmed_ms: AtomicU64::new(0),
        }
    }

    fn has_credit(&self) -> bool {
        !Mechanism::UntoldReads.is_off() && self.credit_ns.load(Ordering::Relaxed) > 0
    }

    /// Counts a read for which the thread waited for the disk so long, or not at all.
    fn observe(&self, waited_ns: Option<i64>) {
        let gain = waited_ns.map_or(HAND_OVER_NS, |waited_ns| waited_ns.saturating_mul(-STALL_WEIGHT));
        let before = self.credit_ns.load(Ordering::Relaxed);
        if before == CREDIT_NS_WITHOUT_DISK {
            return;
        }
        let after = before.saturating_add(gain).clamp(CREDIT_NS_MIN, CREDIT_NS_MAX);
        // With full credit the cores share the line and write nothing.
        if after != before {
            self.credit_ns.store(after, Ordering::Relaxed);
        }
    }

    /// Performs `read` and counts it. The duration alone would not show a wait, because the kernel
    /// may give the cpu to another thread during the read.
    fn timed<R>(&self, read: impl FnOnce() -> R) -> R {
        if self.credit_ns.load(Ordering::Relaxed) == CREDIT_NS_WITHOUT_DISK {
            return read();
        }
        let (waits_before, start) = (waits(), Instant::now());
        let result = read();
        let elapsed_ns = i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let has_waited = elapsed_ns > HAND_OVER_NS && waits() > waits_before;
        self.observe(has_waited.then_some(elapsed_ns));
        result
    }
}

/// A file system that has refused `RWF_NOWAIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithoutNowait(
    /// The place in [`KNOWN`].
    u8,
);

impl WithoutNowait {
    /// Greater than each [`place`](Self::place).
    pub const PLACES: u8 = FILE_SYSTEMS as u8;

    /// The file system with the number `device`, if one with this number has refused.
    pub fn of_device(device: u64) -> Option<Self> {
        let devices = KNOWN.iter().map(|known| known.device.load(Ordering::Acquire));
        let place = devices.take_while(|&known| known != 0).position(|known| known == device)?;
        Some(Self(place as u8))
    }

    /// The file system at a [`place`](Self::place); `None` if there is none.
    pub fn at(place: u8) -> Option<Self> {
        (place < Self::PLACES).then_some(Self(place))
    }

    /// The place in a list of all such file systems.
    pub fn place(self) -> u8 {
        self.0
    }

    /// Whether the file system has no disk, so reads of its files are not timed.
    pub fn is_without_disk(self) -> bool {
        KNOWN[usize::from(self.0)].credit_ns.load(Ordering::Relaxed) == CREDIT_NS_WITHOUT_DISK
    }

    /// Whether this is the file system with the number `device`.
    pub fn is_of(self, device: u64) -> bool {
        KNOWN[usize::from(self.0)].device.load(Ordering::Relaxed) == device
    }

    /// Checks that a file system without a disk is still the same, by a `file` that is probably on
    /// it. The number of an unmounted file system may belong to another file system. The reads of
    /// that file system are not timed until this check, which takes place at most once a second of
    /// the clock `now_ms`.
    pub fn confirm(self, file: BorrowedFd<'_>, now_ms: u64) {
        let system = &KNOWN[usize::from(self.0)];
        if !self.is_without_disk() {
            return;
        }
        let before_ms = system.confirmed_ms.load(Ordering::Relaxed);
        let is_due = before_ms == 0 || now_ms.saturating_sub(before_ms) >= CONFIRMED_MS;
        // A file of another file system may be mounted in a folder.
        if !is_due || !fstat(file).is_ok_and(|state| self.is_of(state.st_dev)) {
            return;
        }
        system.confirmed_ms.store(now_ms, Ordering::Relaxed);
        if !is_without_disk(file) {
            system.credit_ns.store(CREDIT_NS_FIRST, Ordering::Relaxed);
        }
    }

    /// Performs `read` on a core.
    ///
    /// # Errors
    /// As [`read_on_core`].
    pub(crate) fn read_on_core(self, read: impl FnOnce() -> Result<usize, Errno>) -> io::Result<usize> {
        let system = &KNOWN[usize::from(self.0)];
        if system.has_credit() { Ok(system.timed(read)?) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    /// Performs `read` on a thread that may wait.
    ///
    /// # Errors
    /// As the read.
    pub(crate) fn read_on_thread(self, read: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
        KNOWN[usize::from(self.0)].timed(read)
    }
}

/// Whether the file is on a file system without a disk: tmpfs or ramfs.
pub fn is_without_disk(file: BorrowedFd<'_>) -> bool {
    // The field's width differs between architectures; the magic number has 32 bits.
    fstatfs(file).is_ok_and(|info| WITHOUT_DISK.contains(&(info.f_type as u32)))
}

/// Performs `read` on a core, for a `file` whose file system cannot tell whether the read waits.
///
/// # Errors
/// `WouldBlock` if the file system has no credit; otherwise the error of the read.
pub(crate) fn read_on_core(
    file: BorrowedFd<'_>,
    read: impl FnOnce() -> Result<usize, Errno>,
) -> io::Result<usize> {
    match file_system(file) {
        Some(system) if system.has_credit() => Ok(system.timed(read)?),
        None if is_without_disk(file) => Ok(read()?),
        _ => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// Performs `read` on a thread that may wait, for a `file` as for [`read_on_core`].
pub(crate) fn read_on_thread(
    file: BorrowedFd<'_>,
    read: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    match file_system(file) {
        Some(system) => system.timed(read),
        None => read(),
    }
}

/// Performs `list`, which reads the names of a folder on `device`, on a core. `None` if the file
/// system has no credit: then a thread that may wait has to list the folder
/// ([`list_on_thread`]).
pub fn list_on_core<R>(device: u64, list: impl FnOnce() -> R) -> Option<R> {
    let system = place_of(&LISTED, device, || CREDIT_NS_FIRST)?;
    system.has_credit().then(|| system.timed(list))
}

/// Performs `list` as for [`list_on_core`] on a thread that may wait.
pub fn list_on_thread<R>(device: u64, list: impl FnOnce() -> R) -> R {
    match place_of(&LISTED, device, || CREDIT_NS_FIRST) {
        Some(system) => system.timed(list),
        None => list(),
    }
}

/// The file system of `file`; `None` if all places are taken.
#[allow(clippy::unnecessary_cast, reason = "the width differs between architectures")]
fn file_system(file: BorrowedFd<'_>) -> Option<&'static UntoldFileSystem> {
    let device = fstat(file).ok()?.st_dev as u64;
    let first_credit = || if is_without_disk(file) { CREDIT_NS_WITHOUT_DISK } else { CREDIT_NS_FIRST };
    place_of(&KNOWN, device, first_credit)
}

/// The place of the file system with the number `device`, which is given a place if it has none;
/// `None` if all places are taken.
fn place_of(
    places: &'static FileSystems,
    device: u64,
    first_credit: impl FnOnce() -> i64,
) -> Option<&'static UntoldFileSystem> {
    for place in places {
        // A load first, because an exchange takes the line from the other cores even if it fails.
        let mut known = place.device.load(Ordering::Acquire);
        if known == 0 {
            match place.device.compare_exchange(0, RESERVED, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_unused) => {
                    place.credit_ns.store(first_credit(), Ordering::Relaxed);
                    // The credit is there before the number.
                    place.device.store(device, Ordering::Release);
                    return Some(place);
                }
                Err(taken) => known = taken,
            }
        }
        // Two threads that meet a file system at once may give it two places. The first one counts.
        if known == device {
            return Some(place);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{read_nowait, read_waiting};
    use std::{
        ffi::CString,
        fs::{self, File},
        os::fd::AsFd as _,
        ptr,
    };

    const MS: i64 = 1_000_000;

    fn quick_reads_until_credit(system: &UntoldFileSystem) -> usize {
        (0..1_000_000).take_while(|_| !system.has_credit()).map(|_| system.observe(None)).count()
    }

    #[test]
    fn quick_reads_earn_credit_and_wait_ends_it() {
        let system = UntoldFileSystem::unused();
        assert_eq!(quick_reads_until_credit(&system), 65);
        for _ in 0..100_000 {
            system.observe(None);
        }
        assert!(system.has_credit());
        system.observe(Some(MS));
        assert!(!system.has_credit(), "however many reads were quick before");
    }

    #[test]
    fn slow_disk_stalls_a_core_once_in_ten_thousand_reads() {
        let system = UntoldFileSystem::unused();
        quick_reads_until_credit(&system);
        system.observe(Some(10 * MS));
        assert!(quick_reads_until_credit(&system) >= 9_900);
    }

    #[test]
    fn core_lists_folders_after_some_listings_by_threads() {
        // A number that no file system has, because other tests list folders too.
        let device = u64::MAX - 1;
        assert_eq!(list_on_core(device, || ()), None);
        for _ in 0..65 {
            list_on_thread(device, || ());
        }
        assert_eq!(list_on_core(device, || 7), Some(7));
    }

    #[test]
    fn time_until_file_system_is_quick_again_is_bounded() {
        let system = UntoldFileSystem::unused();
        for _ in 0..1_000 {
            system.observe(Some(1_000 * MS));
        }
        assert!(quick_reads_until_credit(&system) <= 100_001);
    }

    /// overlayfs refuses `RWF_NOWAIT`. Needs the right to mount; the mount is in a name space of
    /// the test's thread alone.
    #[test]
    fn file_on_overlayfs_is_read_on_the_core_after_some_reads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["lower", "upper", "work", "merged"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("lower/page"), "inside").unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let options =
            format!("lowerdir={},upperdir={},workdir={}", path("lower"), path("upper"), path("work"));
        let Some(file) = open_on_overlay(&options, &path("merged")) else {
            return eprintln!("skipped: this user may not mount overlayfs");
        };
        let mut buf = [0; 16];
        let unknown = read_nowait(file.as_fd(), &mut buf, 0).unwrap_err();
        assert_eq!(unknown.kind(), io::ErrorKind::WouldBlock);
        for _ in 0..65 {
            assert_eq!(read_waiting(file.as_fd(), &mut buf, 0).unwrap(), 6);
        }
        let count = read_nowait(file.as_fd(), &mut buf, 2).unwrap();
        assert_eq!(&buf[..count], b"side");
    }

    /// Opens `page` on an overlay in a new name space of mounts.
    #[allow(unsafe_code)]
    fn open_on_overlay(options: &str, at: &str) -> Option<File> {
        let [kind, at_c, options] = ["overlay", at, options].map(|text| CString::new(text).unwrap());
        // SAFETY: the calls take numbers and strings that outlive the calls. This thread gets a
        // name space of its own, and private mounts.
        let is_mounted = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(
                    ptr::null(),
                    c"/".as_ptr(),
                    ptr::null(),
                    libc::MS_REC | libc::MS_PRIVATE,
                    ptr::null(),
                ) == 0
                && libc::mount(kind.as_ptr(), at_c.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()) == 0
        };
        is_mounted.then(|| File::open(format!("{at}/page")).unwrap())
    }
}
