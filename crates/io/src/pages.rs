//! Large pieces of memory on pages of a chosen size, and the page size that was obtained.
//!
//! Small pages cost page tables, 8 bytes for each 4 KiB, and misses of the TLB. Huge pages come
//! from a pool that the administrator reserves (`vm.nr_hugepages`), or from the kernel if available
//! (transparent huge pages). The memory policy of the thread that first touches a piece determines
//! the nodes. Leaves out the division of a piece (`slots.rs`). Tested below.

#![allow(unsafe_code)]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::{fmt, fs, io, ptr::NonNull, str::FromStr};

/// Bytes of a transparent huge page, on every machine with pages of 4 KiB.
const HUGE_BYTES: usize = 2 << 20;

/// The requested pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Reserved huge pages if enough are free, else transparent huge pages, else small pages.
    Auto,
    /// Reserved huge pages; without enough of them as [`Pages::Auto`].
    Huge,
    /// Transparent huge pages, else small pages.
    Transparent,
    /// The allocator's pages.
    #[default]
    Small,
}

impl Pages {
    const WORDS: [(&'static str, Self); 4] = [
        ("auto", Self::Auto),
        ("huge", Self::Huge),
        ("transparent", Self::Transparent),
        ("small", Self::Small),
    ];
}

impl FromStr for Pages {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::WORDS.into_iter().find(|(word, _)| *word == text);
        found.map(|(_, pages)| pages).ok_or("write auto, huge, transparent or small")
    }
}

/// The obtained pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// Reserved huge pages, all of them present already.
    Reserved {
        /// Size of a page.
        page_bytes: usize,
    },
    /// Transparent huge pages, if the kernel finds them at first use.
    Transparent,
    /// Small pages.
    Small,
}

impl fmt::Display for Got {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved { page_bytes } => write!(f, "reserved pages of {} MiB", page_bytes >> 20),
            Self::Transparent => f.write_str("transparent huge pages"),
            Self::Small => f.write_str("small pages"),
        }
    }
}

/// A piece of memory, all zeroes at first.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    /// The mapping, which may begin before the piece.
    mapped: (NonNull<u8>, usize),
    got: Got,
}

// SAFETY: plain memory, reached only through the owner of the region; no part belongs to a thread.
unsafe impl Send for Region {}
// SAFETY: a shared region gives only the address and the length.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `bytes`, on the best available pages; also returns the reason if the pages are
    /// not as requested.
    ///
    /// # Errors
    /// There is no memory at all.
    pub fn map(bytes: usize, asked: Pages) -> io::Result<(Self, Option<String>)> {
        let mut why = None;
        if matches!(asked, Pages::Auto | Pages::Huge) {
            match Self::reserved(bytes) {
                Ok(region) => return Ok((region, None)),
                // A caller that left the choice open gets no reason.
                Err(reason) => why = (asked == Pages::Huge).then_some(reason),
            }
        }
        let mut region = Self::aligned(bytes)?;
        if asked == Pages::Small {
            return Ok((region, None));
        }
        let why = match (why, region.use_transparent()) {
            (why, Ok(())) => why,
            (None, Err(reason)) => Some(reason),
            (Some(why), Err(reason)) => Some(format!("{why}; {reason}")),
        };
        Ok((region, why))
    }

    /// Maps reserved pages, all present, because a page that is missing later would end the
    /// process.
    fn reserved(bytes: usize) -> Result<Self, String> {
        let pool = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = |name: &str| -> Option<usize> {
            let rest = pool.lines().find_map(|line| line.strip_prefix(name))?;
            rest.split_ascii_whitespace().next()?.parse().ok()
        };
        let page_bytes = kib("Hugepagesize:").ok_or("this kernel has no reserved huge pages")? * 1024;
        let wanted = bytes.div_ceil(page_bytes);
        let free = kib("HugePages_Free:").unwrap_or(0).saturating_sub(kib("HugePages_Rsvd:").unwrap_or(0));
        let too_few = || format!("{free} of the {wanted} reserved pages it takes are free (vm.nr_hugepages)");
        if free < wanted {
            return Err(too_few());
        }
        let bytes = wanted * page_bytes;
        let mut region = Self::mapped(bytes, MapFlags::PRIVATE | MapFlags::HUGETLB).map_err(|_| too_few())?;
        // SAFETY: this region owns the whole mapping, which holds no data yet.
        unsafe { madvise(region.start.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) }
            .map_err(|_| format!("{} (on this node)", too_few()))?;
        region.got = Got::Reserved { page_bytes };
        Ok(region)
    }

    /// Maps ordinary pages, aligned for huge pages.
    fn aligned(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.div_ceil(HUGE_BYTES) * HUGE_BYTES;
        let mut region = Self::mapped(bytes + HUGE_BYTES, MapFlags::PRIVATE | MapFlags::NORESERVE)?;
        let offset = region.start.as_ptr().align_offset(HUGE_BYTES);
        // SAFETY: less than a huge page, and the mapping has an additional huge page.
        region.start = unsafe { region.start.add(offset) };
        region.bytes = bytes;
        Ok(region)
    }

    fn mapped(bytes: usize, flags: MapFlags) -> io::Result<Self> {
        // SAFETY: the kernel chooses a free address.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let start = NonNull::new(start.cast()).expect("nothing is mapped at zero");
        Ok(Self { start, bytes, mapped: (start, bytes), got: Got::Small })
    }

    /// Requests transparent huge pages from the kernel.
    ///
    /// # Errors
    /// The kernel's refusal, in words.
    fn use_transparent(&mut self) -> Result<(), String> {
        let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        if enabled.is_empty() || enabled.contains("[never]") {
            return Err("this kernel gives no transparent huge pages".to_owned());
        }
        // SAFETY: advice about memory of this region, which changes no data.
        unsafe { madvise(self.start.as_ptr().cast(), self.bytes, Advice::LinuxHugepage) }
            .map_err(|errno| format!("transparent huge pages: {errno}"))?;
        self.got = Got::Transparent;
        Ok(())
    }

    /// The start.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The obtained pages.
    pub fn got(&self) -> Got {
        self.got
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let (start, bytes) = self.mapped;
        // SAFETY: mapped here, and no part is in use any more, because code that divides a region
        // holds the region.
        let unmapped = unsafe { munmap(start.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_fall_back_until_allocation_succeeds() {
        for asked in [Pages::Auto, Pages::Huge, Pages::Transparent, Pages::Small] {
            let (region, why) = Region::map(3 << 20, asked).expect("three megabytes");
            assert!(region.bytes() >= 3 << 20);
            // SAFETY: of this length, owned here, and zeroes at first.
            let bytes = unsafe { std::slice::from_raw_parts_mut(region.start().as_ptr(), region.bytes()) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(1);
            if asked == Pages::Small {
                assert_eq!((region.got(), why.as_ref()), (Got::Small, None));
            }
            if region.got() != Got::Small {
                assert_eq!(region.start().as_ptr().align_offset(HUGE_BYTES), 0);
            }
            // The requested pages or a reason: never neither.
            assert!(asked != Pages::Huge || why.is_some() || matches!(region.got(), Got::Reserved { .. }));
        }
    }

    #[test]
    fn too_much_falls_back_and_says_so() {
        let (region, why) = Region::map(1 << 40, Pages::Huge).expect("nothing of it is touched");
        assert!(!matches!(region.got(), Got::Reserved { .. }));
        assert!(why.expect("a reason").contains("vm.nr_hugepages"));
        assert_eq!("huge".parse(), Ok(Pages::Huge));
        assert!("large".parse::<Pages>().is_err());
    }
}
