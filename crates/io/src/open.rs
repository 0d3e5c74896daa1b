//! Opening files for reading, by `openat2(2)`, so that a seccomp filter can check the flags.
//!
//! `openat2` takes the flags from memory, which a filter cannot read. Therefore [`seal_opens`]
//! writes all argument structs that the server needs into one page, and seals the page: nothing in
//! the process can write, move or unmap the page again (`mseal(2)`, Linux 6.10). From then on,
//! [`open`] passes the address of a struct in the page. A filter that allows only these addresses
//! ([`SealedOpens::MASK`]) lets a captured process open files for reading, but not truncate files.
//! (`O_TRUNC` empties a file even when the file is opened for reading.)
//!
//! Leaves out the filter (`crates/ops/src/sandbox`) and the choice of flags. Tested here.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
use rustix::path::Arg;

/// The argument struct of `openat2(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
    /// Makes the structs 32 bytes long, so that no other address of the page passes the filter.
    unused: u64,
}

/// The number of bytes that the kernel reads of an [`OpenHow`].
const HOW_BYTES: usize = 24;

/// The flags with which the server opens files; all have `O_CLOEXEC`.
const FLAGS: [OFlags; 5] = [
    OFlags::PATH,
    OFlags::PATH.union(OFlags::DIRECTORY),
    OFlags::PATH.union(OFlags::NOFOLLOW),
    OFlags::NONBLOCK.union(OFlags::NOCTTY),
    OFlags::DIRECTORY,
];

/// The flags of the resolving of paths, of which any may be set together.
const RESOLVE: [ResolveFlags; 5] = [
    ResolveFlags::NO_MAGICLINKS,
    ResolveFlags::NO_XDEV,
    ResolveFlags::NO_SYMLINKS,
    ResolveFlags::BENEATH,
    ResolveFlags::CACHED,
];

/// The number of structs: each of [`FLAGS`] with each set of [`RESOLVE`].
const HOWS: usize = FLAGS.len() << RESOLVE.len();

/// Bytes for all structs, a multiple of every page size up to 8 KiB.
const PAGE_BYTES: usize = 8192;

const _: () = assert!(size_of::<OpenHow>() == 32 && HOWS * size_of::<OpenHow>() <= PAGE_BYTES);

/// The number of `mseal(2)`, which is the same on every processor.
const MSEAL: libc::c_long = 462;

/// The sealed structs. They live as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct SealedOpens {
    address: usize,
}

impl SealedOpens {
    /// The bits of a pointer that are the same for all structs.
    pub const MASK: u64 = !(PAGE_BYTES as u64 - 1) | (size_of::<OpenHow>() as u64 - 1);

    /// The size argument of `openat2(2)`.
    pub const BYTES: u64 = HOW_BYTES as u64;

    /// The value of these bits.
    pub fn address(self) -> u64 {
        self.address as u64
    }
}

static SEALED: OnceLock<SealedOpens> = OnceLock::new();

/// Seals the structs for this process, once. From then on [`open`] uses them.
///
/// # Errors
/// The kernel lacks `mseal(2)`, or has no memory.
pub fn seal_opens() -> io::Result<SealedOpens> {
    if let Some(sealed) = SEALED.get() {
        return Ok(*sealed);
    }
    let hows: Vec<OpenHow> = (0..HOWS).map(how).collect();
    // SAFETY: the kernel chooses the place of a new mapping.
    let mapped = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            2 * PAGE_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )?
    };
    // The mask of the filter needs an address that is a multiple of the size.
    let page = mapped.map_addr(|address| address.next_multiple_of(PAGE_BYTES));
    // SAFETY: the page is in the new mapping, which is twice as long, and nothing else refers to
    // the page.
    unsafe {
        std::ptr::copy_nonoverlapping(hows.as_ptr(), page.cast(), hows.len());
        mprotect(page, PAGE_BYTES, MprotectFlags::READ)?;
    }
    // SAFETY: sealing changes nothing in memory, and the page stays mapped until the process ends.
    if unsafe { libc::syscall(MSEAL, page, PAGE_BYTES, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(*SEALED.get_or_init(|| SealedOpens { address: page.addr() }))
}

/// The struct in the place `index`.
fn how(index: usize) -> OpenHow {
    let flags = FLAGS[index >> RESOLVE.len()] | OFlags::CLOEXEC;
    let set = RESOLVE.iter().enumerate().filter(|(bit, _)| index >> bit & 1 == 1);
    let resolve = set.fold(ResolveFlags::empty(), |all, (_, flag)| all | *flag);
    OpenHow { flags: u64::from(flags.bits()), resolve: resolve.bits(), ..OpenHow::default() }
}

/// The place of the struct with `flags` and `resolve`, if there is one.
fn place(flags: OFlags, resolve: ResolveFlags) -> Option<usize> {
    let row = FLAGS.iter().position(|known| *known | OFlags::CLOEXEC == flags)?;
    let known = RESOLVE.iter().fold(ResolveFlags::empty(), |all, flag| all | *flag);
    let bits = RESOLVE.iter().enumerate().map(|(bit, flag)| usize::from(resolve.contains(*flag)) << bit);
    known.contains(resolve).then(|| row << RESOLVE.len() | bits.sum::<usize>())
}

/// Opens `path` below `folder` for reading, or for its metadata. After [`seal_opens`], `flags` has
/// to be one of the combinations above.
///
/// # Errors
/// As `openat2(2)`.
pub fn open(
    folder: BorrowedFd<'_>,
    path: impl Arg,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    match (SEALED.get(), place(flags, resolve)) {
        (Some(sealed), Some(place)) => path
            .into_with_c_str(|path| open_sealed(folder, path, sealed.address + place * size_of::<OpenHow>())),
        (sealed, place) => {
            debug_assert!(
                sealed.is_none() || place.is_some(),
                "the filter would refuse {flags:?} {resolve:?}"
            );
            openat2(folder, path, flags, Mode::empty(), resolve)
        }
    }
}

fn open_sealed(folder: BorrowedFd<'_>, path: &CStr, how: usize) -> Result<OwnedFd, Errno> {
    // SAFETY: the path ends with a zero, and the struct is in the sealed page.
    let opened =
        unsafe { libc::syscall(libc::SYS_openat2, folder.as_raw_fd(), path.as_ptr(), how, HOW_BYTES) };
    if opened < 0 {
        let error = io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    let opened = i32::try_from(opened).map_err(|_too_large| Errno::MFILE)?;
    // SAFETY: the kernel has just made this descriptor for this call.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, fstat};
    use std::collections::HashSet;

    #[test]
    fn each_struct_has_its_place_and_none_truncates() {
        let mut seen = HashSet::new();
        for index in 0..HOWS {
            let OpenHow { flags, resolve, mode, .. } = how(index);
            let flags = OFlags::from_bits_retain(flags as u32);
            assert!(!flags.intersects(OFlags::TRUNC | OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE));
            assert_eq!(mode, 0);
            assert_eq!(place(flags, ResolveFlags::from_bits_retain(resolve)), Some(index));
            assert!(seen.insert((flags.bits(), resolve)));
        }
        assert_eq!(place(OFlags::CLOEXEC | OFlags::TRUNC, ResolveFlags::BENEATH), None);
        assert_eq!(place(OFlags::CLOEXEC | OFlags::PATH, ResolveFlags::IN_ROOT), None);
    }

    #[test]
    fn sealed_and_unsealed_open_reach_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "text").unwrap();
        let (path, cached) = (OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, ResolveFlags::CACHED);
        let before = open(CWD, folder.path(), path, ResolveFlags::empty()).unwrap();
        let Ok(sealed) = seal_opens() else {
            println!("******** SKIPPED: this kernel lacks mseal(2) ********");
            return;
        };
        assert_eq!(sealed.address() & !SealedOpens::MASK, 0);
        let after = open(CWD, folder.path(), path, cached).unwrap();
        assert_eq!(fstat(&before).unwrap().st_ino, fstat(&after).unwrap().st_ino);
        let reading = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let fd = std::os::fd::AsFd::as_fd(&after);
        assert_eq!(fstat(open(fd, "file", reading, beneath).unwrap()).unwrap().st_size, 4);
        assert_eq!(open(fd, "gone", reading, beneath).unwrap_err(), Errno::NOENT);
        assert_eq!(open(fd, "../file", reading, beneath).unwrap_err(), Errno::XDEV);
        assert_eq!(seal_opens().unwrap().address(), sealed.address(), "once for a process");
        let page = sealed.address() as *mut std::ffi::c_void;
        // SAFETY: the kernel refuses the change, because the page is sealed.
        let unsealed = unsafe { mprotect(page, PAGE_BYTES, MprotectFlags::READ | MprotectFlags::WRITE) };
        assert_eq!(unsealed, Err(Errno::PERM));
    }
}
