//! Large pieces of memory on pages of a chosen size, and what of that was got.
//!
//! Small pages cost page tables, 8 bytes for each 4 KiB, and misses of the TLB; huge ones come from a pool that the
//! administrator reserves (`vm.nr_hugepages`), or from the kernel as it finds them (transparent huge pages). A piece is
//! on the nodes that the memory policy of whoever touches it says. Leaves out dividing a piece (`slots.rs`). Tested below.

#![allow(unsafe_code)]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::{fmt, fs, io, ptr::NonNull, str::FromStr};

/// Bytes of a transparent huge page, on every machine with pages of 4 KiB.
const HUGE_BYTES: usize = 2 << 20;

/// Which pages are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Reserved huge pages if enough are free, else transparent ones, else small ones.
    Auto,
    /// Reserved huge pages; without enough of them as [`Pages::Auto`].
    Huge,
    /// Transparent huge pages, else small ones.
    Transparent,
    /// The allocator's, as it has them.
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

/// Which pages were got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// Reserved huge pages of so many bytes; all of it is there already.
    Reserved {
        /// Of one page.
        page_bytes: usize,
    },
    /// Transparent huge pages, as the kernel finds them when the memory is first used.
    Transparent,
    /// Small ones.
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
    /// What was mapped, which may begin before.
    mapped: (NonNull<u8>, usize),
    got: Got,
}

// SAFETY: it is memory, reached through whoever owns the region; nothing of it belongs to a thread.
unsafe impl Send for Region {}
// SAFETY: a shared region gives nothing but its place and length.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `bytes`, on pages as good as can be had; why they are no better, if they are not what was asked for.
    ///
    /// # Errors
    /// There is no room for it at all.
    pub fn map(bytes: usize, asked: Pages) -> io::Result<(Self, Option<String>)> {
        let mut why = None;
        if matches!(asked, Pages::Auto | Pages::Huge) {
            match Self::reserved(bytes) {
                Ok(region) => return Ok((region, None)),
                // Whoever left the choice to us is not told what was not there.
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

    /// On reserved pages, all of them in place: a page that turned out missing later would end the process.
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
        // SAFETY: the whole of it is ours, and holds nothing yet.
        unsafe { madvise(region.start.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) }
            .map_err(|_| format!("{} (on this node)", too_few()))?;
        region.got = Got::Reserved { page_bytes };
        Ok(region)
    }

    /// On pages as they come, beginning where a huge one may.
    fn aligned(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.div_ceil(HUGE_BYTES) * HUGE_BYTES;
        let mut region = Self::mapped(bytes + HUGE_BYTES, MapFlags::PRIVATE | MapFlags::NORESERVE)?;
        let offset = region.start.as_ptr().align_offset(HUGE_BYTES);
        // SAFETY: less than a huge page, of which one more was mapped.
        region.start = unsafe { region.start.add(offset) };
        region.bytes = bytes;
        Ok(region)
    }

    fn mapped(bytes: usize, flags: MapFlags) -> io::Result<Self> {
        // SAFETY: at a place of the kernel's choice, where nothing is.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let start = NonNull::new(start.cast()).expect("nothing is mapped at zero");
        Ok(Self { start, bytes, mapped: (start, bytes), got: Got::Small })
    }

    /// Has the kernel put it on transparent huge pages.
    ///
    /// # Errors
    /// It does not, and why.
    fn use_transparent(&mut self) -> Result<(), String> {
        let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        if enabled.is_empty() || enabled.contains("[never]") {
            return Err("this kernel gives no transparent huge pages".to_owned());
        }
        // SAFETY: advice about memory that is ours, which changes nothing in it.
        unsafe { madvise(self.start.as_ptr().cast(), self.bytes, Advice::LinuxHugepage) }
            .map_err(|errno| format!("transparent huge pages: {errno}"))?;
        self.got = Got::Transparent;
        Ok(())
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// On which pages it is.
    pub fn got(&self) -> Got {
        self.got
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let (start, bytes) = self.mapped;
        // SAFETY: mapped by us, and nobody has a part of it any more: whoever divides it holds it.
        let unmapped = unsafe { munmap(start.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_always_got() {
        for asked in [Pages::Auto, Pages::Huge, Pages::Transparent, Pages::Small] {
            let (region, why) = Region::map(3 << 20, asked).expect("three megabytes");
            assert!(region.bytes() >= 3 << 20);
            // SAFETY: of this length, ours, and zeroes at first.
            let bytes = unsafe { std::slice::from_raw_parts_mut(region.start().as_ptr(), region.bytes()) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(1);
            if asked == Pages::Small {
                assert_eq!((region.got(), why.as_ref()), (Got::Small, None));
            }
            if region.got() != Got::Small {
                assert_eq!(region.start().as_ptr().align_offset(HUGE_BYTES), 0);
            }
            // What was asked for or why not: never neither.
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
