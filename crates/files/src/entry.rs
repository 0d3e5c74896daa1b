//! The entry of a resolved path: immutable and shared by all cores, with a flag that marks the
//! entry stale.
//!
//! `load.rs` makes entries, and `index.rs` sets the flag.

use super::{content::Content, open::FileValidator, variant::Variant};
use rustix::io::Errno;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use vermeil_http::{
    Status,
    negotiate::{Choice, EncodingSet},
};

/// Milliseconds after a change during which a file may change again without a new time of change.
/// File systems stamp changes with a clock that ticks up to 10 ms apart (finer since Linux 6.13).
/// The kernel stamps a write at the start, not after the last byte. Apache httpd calls a tag weak
/// for one second for the same reason. This is twice that time, for safety.
pub(super) const SETTLE_MS: i64 = 2000;

/// An entry, and milliseconds on the server's clock of the last check.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) entry: Arc<Entry>,
    pub(super) at_ms: u64,
}

/// A resolved path.
#[derive(Debug)]
pub struct Entry {
    outcome: EntryOutcome,
    freshness: Freshness,
    lasting: Lasting,
    is_candidate: bool,
    probes: Box<[EntryProbe]>,
    /// Whether new requests must look the path up again: a file changed, a check failed, or the
    /// entry is for one request. Set once, never cleared. The writer uses Release and the reader
    /// Acquire, so that a reader of `true` sees the change on the file system when the path is
    /// resolved again.
    stale: AtomicBool,
    /// Milliseconds on the server's clock of the last comparison between contents in memory and
    /// files. Relaxed, because two cores that compare at once do no harm.
    compared_ms: AtomicU64,
    /// Set by use, cleared by the eviction scan of the index. The look-up that makes the entry is
    /// no use, so a walk of all files evicts its own entries first. Relaxed: a hint.
    used: AtomicBool,
}

/// The kind of answer to a request for a path.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most are files, and a hit should follow one pointer less")]
pub enum EntryOutcome {
    /// The file, or the index page of the folder.
    File(FileEntry),
    /// The path names a folder but lacks the slash at the end. `location` is the path with the
    /// slash, percent-encoded, and starts with exactly one slash. The caller appends the query of
    /// the request.
    Redirect {
        /// Value of `Location`, without the query.
        location: Box<[u8]>,
    },
    /// A folder without an index page: see [`ListingJob`](super::ListingJob).
    Listing {
        /// The folder's path, as decoded, with a slash at its start and end.
        path: Box<[u8]>,
    },
    /// A program, or a folder whose index page is a program. The server does not send the text of a
    /// program. The host's rules say which interpreter runs the program.
    Program {
        /// The program's path, decoded, with a slash at its start.
        script: Box<[u8]>,
    },
    /// The path exists, but the process may not read the file or the site does not show the file:
    /// 403.
    Forbidden,
    /// The path does not exist, or the site does not serve the file: 404. See
    /// [`Entry::not_found_page`].
    NotFound(NotFound),
    /// The look-up failed, because descriptors ran out (503) or a disk failed (500). The cache
    /// never keeps this outcome.
    Unavailable(Status),
}

/// The path does not exist, or the site does not serve the file.
#[derive(Debug)]
pub struct NotFound {
    /// The entry of the site's own 404 page. `None` in the entry of that page.
    pub(super) page: Option<Arc<Entry>>,
}

/// A file and its precompressed siblings.
#[derive(Debug)]
pub struct FileEntry {
    pub(super) identity: Variant,
    pub(super) siblings: Vec<Variant>,
    pub(super) codings: EncodingSet,
    pub(super) index_name: Option<Box<str>>,
}

impl FileEntry {
    /// The content codings available for negotiation.
    pub fn codings(&self) -> EncodingSet {
        self.codings
    }

    /// The name of the index page, if the path names a folder.
    pub fn index_name(&self) -> Option<&str> {
        self.index_name.as_deref()
    }

    /// The representation in `coding`, or the uncompressed file if the coding is not available.
    pub fn variant(&self, coding: Choice) -> &Variant {
        self.siblings.iter().find(|sibling| sibling.coding() == coding).unwrap_or(&self.identity)
    }
}

/// The way to notice that an entry is out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// The kernel reports changes.
    Watched,
    /// The kernel cannot report changes, so each use checks the entry again.
    Unwatched,
}

/// Whether an entry may outlive its next check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lasting {
    /// Valid until a change.
    Quiescent,
    /// The next check makes the entry again, because a file changed a moment ago or the content
    /// budget was exhausted.
    Interim,
    /// Valid only for the request that caused the look-up.
    Once,
}

/// Amounts that an entry takes from the shared budgets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holdings {
    pub(super) content_bytes: u64,
    pub(super) descriptors: u64,
}

/// A file system look-up that the entry depends on: the path below the root, and the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryProbe {
    pub(super) path: Box<[u8]>,
    pub(super) seen: Result<FileValidator, Errno>,
}

impl Entry {
    pub(super) fn new(
        outcome: EntryOutcome,
        freshness: Freshness,
        lasting: Lasting,
        probes: Vec<EntryProbe>,
    ) -> Self {
        let stale = AtomicBool::new(lasting == Lasting::Once);
        let (compared_ms, used) = (AtomicU64::new(0), AtomicBool::new(false));
        let is_candidate = false;
        Self { outcome, freshness, lasting, is_candidate, probes: probes.into(), stale, compared_ms, used }
    }

    /// Records whether the entry is a [candidate](Self::is_candidate).
    pub(super) fn with_candidate(self, is_candidate: bool) -> Self {
        Self { is_candidate, ..self }
    }

    /// Whether a file of the entry would get a sealed copy in memory if the path were asked for
    /// more often.
    #[inline]
    pub(super) fn is_candidate(&self) -> bool {
        self.is_candidate
    }

    /// The kind of answer to a request for the path.
    #[inline]
    pub fn outcome(&self) -> &EntryOutcome {
        &self.outcome
    }

    /// The site's own page to send with a 404, if the site has such a page.
    pub fn not_found_page(&self) -> Option<&FileEntry> {
        match &self.page()?.outcome {
            EntryOutcome::File(file) => Some(file),
            _ => None,
        }
    }

    /// Whether new requests must not use the entry: a file changed, a check failed, or the entry is
    /// for one request.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
            || self.page().is_some_and(|page| page.stale.load(Ordering::Acquire))
    }

    pub(super) fn set_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Whether the kernel reports every change that would make the entry wrong.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.freshness == Freshness::Watched
            && self.page().is_none_or(|page| page.freshness == Freshness::Watched)
    }

    /// Whether the entry holds a file open whose removal no event reports.
    pub(super) fn holds_unwatched_file(&self) -> bool {
        let EntryOutcome::File(file) = &self.outcome else {
            return self.page().is_some_and(|page| page.holds_unwatched_file());
        };
        let mut variants = std::iter::once(&file.identity).chain(&file.siblings);
        self.freshness == Freshness::Unwatched
            && variants.any(|variant| matches!(variant.content(), Content::Disk(_)))
    }

    /// The contents in memory that may differ from their files although the times are the same.
    /// Each has the path of its file below the root. Empty if the last comparison is younger than
    /// `age_ms`. The caller compares these contents now.
    pub(super) fn to_compare(&self, now_ms: u64, age_ms: u64) -> Vec<(&[u8], &[u8])> {
        let EntryOutcome::File(file) = &self.outcome else { return Vec::new() };
        if now_ms.saturating_sub(self.compared_ms.load(Ordering::Relaxed)) < age_ms {
            return Vec::new();
        }
        let variants = std::iter::once(&file.identity).chain(&file.siblings);
        let to_compare = variants.filter(|variant| match variant.content() {
            Content::Memory(_) => true,
            Content::Sealed(content) => !content.is_told(),
            Content::Disk(_) => false,
        });
        to_compare
            .filter_map(|variant| {
                Some((&*self.probes[variant.probe()].path, &variant.content().bytes()?[..]))
            })
            .collect()
    }

    /// Records that the contents in memory equal their files.
    pub(super) fn set_compared(&self, now_ms: u64) {
        self.compared_ms.store(now_ms, Ordering::Relaxed);
    }

    /// The amounts that the entry takes from the budgets.
    pub(super) fn holdings(&self) -> Holdings {
        let EntryOutcome::File(file) = &self.outcome else { return Holdings::default() };
        let mut sum = Holdings::default();
        for variant in std::iter::once(&file.identity).chain(&file.siblings) {
            match variant.content() {
                Content::Memory(bytes) => sum.content_bytes += bytes.len() as u64,
                Content::Sealed(content) => {
                    sum.content_bytes += content.bytes().len() as u64;
                    sum.descriptors += 1;
                }
                Content::Disk(_) => sum.descriptors += 1,
            }
        }
        sum
    }

    pub(super) fn freshness(&self) -> Freshness {
        self.freshness
    }

    /// Whether the look-ups of both entries had the same results.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let page = |entry: &Self| entry.page().map(Arc::as_ptr);
        self.probes == other.probes
            && self.freshness == other.freshness
            && self.is_candidate == other.is_candidate
            && page(self) == page(other)
    }

    pub(super) fn lasting(&self) -> Lasting {
        self.lasting
    }

    pub(super) fn probes(&self) -> &[EntryProbe] {
        &self.probes
    }

    pub(super) fn page(&self) -> Option<&Arc<Entry>> {
        match &self.outcome {
            EntryOutcome::NotFound(NotFound { page }) => page.as_ref(),
            _ => None,
        }
    }

    /// Records a use. Reads first, because cores share the cache line: the flag is written only
    /// once per eviction scan.
    #[inline]
    pub(super) fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        if let Some(page) = self.page() {
            page.touch();
        }
    }

    /// Whether the entry was used since the last call.
    pub(super) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
}
