//! What a path resolves to: immutable and shared by all cores, with a flag that says when it is out of date.
//!
//! Leaves out how an entry comes about (`load.rs`) and who sets its flag (`index.rs`).

use super::{content::Content, open::Identity, variant::Variant};
use rustix::io::Errno;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use vermeil_http::{
    Status,
    negotiate::{Choice, EncodingSet},
};

/// How long after its last change a file is expected to change again without its time telling, in milliseconds. File
/// systems stamp changes with a clock that ticks up to 10 ms apart (finer since Linux 6.13), and a write is stamped when
/// it starts, not when its last byte is there. Apache httpd calls a tag weak for one second for the same reason; twice
/// that, to be sure.
pub(super) const SETTLE_MS: i64 = 2000;

/// One resolved path.
#[derive(Debug)]
pub struct Entry {
    outcome: Outcome,
    trust: Trust,
    lasting: Lasting,
    probes: Box<[Probe]>,
    /// Set once, never cleared. Release when set, Acquire when read: who sees it set also sees the change that led to it
    /// when looking the path up again.
    stale: AtomicBool,
    /// Milliseconds on the server's clock when the contents in memory were last compared with their files. Relaxed: two cores
    /// that compare at once do no harm.
    compared_ms: AtomicU64,
    /// Set by use, cleared when the index looks for what is least used. Relaxed: a hint.
    used: AtomicBool,
}

/// What a request for a path is answered with.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most are files, and a hit should follow one pointer less")]
pub enum Outcome {
    /// The file, or the index page of the folder.
    File(FileEntry),
    /// It is a folder, asked for without the slash at the end. `location` is the path with it, percent-encoded, and
    /// starts with exactly one slash; the request's query goes behind it.
    Redirect {
        /// Value of `Location`, without the query.
        location: Box<[u8]>,
    },
    /// It is a folder without an index page: see [`ListingJob`](super::ListingJob).
    Listing {
        /// The folder's path, as decoded, with a slash at its start and end.
        path: Box<[u8]>,
    },
    /// It is a program, or the folder's index page is one: its text is not sent. What runs it is not known here.
    Program {
        /// The program's path, decoded, with a slash at its start.
        script: Box<[u8]>,
    },
    /// It is there, and must not be read, or the site does not show it: 403.
    Forbidden,
    /// There is nothing, or nothing that is served: 404. See [`Entry::not_found_page`].
    NotFound(NotFound),
    /// The operating system could not tell, for want of descriptors (503) or because a disk failed (500). Never kept.
    Unavailable(Status),
}

/// There is nothing.
#[derive(Debug)]
pub struct NotFound {
    /// What the site's own page for that resolved to; nothing for that page itself.
    pub(super) page: Option<Arc<Entry>>,
}

/// A file and its precompressed siblings.
#[derive(Debug)]
pub struct FileEntry {
    pub(super) identity: Variant,
    pub(super) siblings: Vec<Variant>,
    pub(super) codings: EncodingSet,
}

impl FileEntry {
    /// The codings that can be had, to choose from.
    pub fn codings(&self) -> EncodingSet {
        self.codings
    }

    /// The representation in `coding`, or as it is if there is none.
    pub fn variant(&self, coding: Choice) -> &Variant {
        self.siblings.iter().find(|sibling| sibling.coding() == coding).unwrap_or(&self.identity)
    }
}

/// Who says that an entry is still right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The kernel tells of changes.
    Events,
    /// Nobody: it is looked up again at each use.
    Nobody,
}

/// Whether an entry may outlive its next check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lasting {
    /// For as long as nothing changes.
    Settled,
    /// It is made again at its next check: a file changed a moment ago, or there was no room for the content.
    Interim,
    /// It is for the request that led to it.
    Once,
}

/// What entries hold that is bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holdings {
    pub(super) content_bytes: u64,
    pub(super) descriptors: u64,
}

/// Something that was looked at to resolve the path: its path below the root, and what was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) path: Box<[u8]>,
    pub(super) seen: Result<Identity, Errno>,
}

impl Entry {
    pub(super) fn new(outcome: Outcome, trust: Trust, lasting: Lasting, probes: Vec<Probe>) -> Self {
        let stale = AtomicBool::new(lasting == Lasting::Once);
        let (compared_ms, used) = (AtomicU64::new(0), AtomicBool::new(true));
        Self { outcome, trust, lasting, probes: probes.into(), stale, compared_ms, used }
    }

    /// What a request for the path is answered with.
    #[inline]
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The site's own page to send with a 404, if it has one.
    pub fn not_found_page(&self) -> Option<&FileEntry> {
        match &self.page()?.outcome {
            Outcome::File(file) => Some(file),
            _ => None,
        }
    }

    /// Whether something has changed since, so that it must not be used for a new request.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
            || self.page().is_some_and(|page| page.stale.load(Ordering::Acquire))
    }

    pub(super) fn set_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Whether the kernel tells of everything that would make it wrong.
    #[inline]
    pub(super) fn is_told(&self) -> bool {
        self.trust == Trust::Events && self.page().is_none_or(|page| page.trust == Trust::Events)
    }

    /// The contents in memory, each with the path of its file below the root, if they have not been compared with their
    /// files for `age_ms`: they are to be compared now.
    pub(super) fn to_compare(&self, now_ms: u64, age_ms: u64) -> Vec<(&[u8], &[u8])> {
        let Outcome::File(file) = &self.outcome else { return Vec::new() };
        if now_ms.saturating_sub(self.compared_ms.load(Ordering::Relaxed)) < age_ms {
            return Vec::new();
        }
        let variants = std::iter::once(&file.identity).chain(&file.siblings);
        let in_memory = variants.filter_map(|variant| match variant.content() {
            Content::Memory(bytes) => Some((&*self.probes[variant.probe()].path, &bytes[..])),
            Content::Disk(_) => None,
        });
        in_memory.collect()
    }

    /// The contents were found to be those of their files.
    pub(super) fn set_compared(&self, now_ms: u64) {
        self.compared_ms.store(now_ms, Ordering::Relaxed);
    }

    /// What it holds.
    pub(super) fn holdings(&self) -> Holdings {
        let Outcome::File(file) = &self.outcome else { return Holdings::default() };
        let mut sum = Holdings::default();
        for variant in std::iter::once(&file.identity).chain(&file.siblings) {
            match variant.content() {
                Content::Memory(bytes) => sum.content_bytes += bytes.len() as u64,
                Content::Disk(_) => sum.descriptors += 1,
            }
        }
        sum
    }

    pub(super) fn trust(&self) -> Trust {
        self.trust
    }

    /// Whether both saw the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let page = |entry: &Self| entry.page().map(Arc::as_ptr);
        self.probes == other.probes && self.trust == other.trust && page(self) == page(other)
    }

    pub(super) fn lasting(&self) -> Lasting {
        self.lasting
    }

    pub(super) fn probes(&self) -> &[Probe] {
        &self.probes
    }

    pub(super) fn page(&self) -> Option<&Arc<Entry>> {
        match &self.outcome {
            Outcome::NotFound(NotFound { page }) => page.as_ref(),
            _ => None,
        }
    }

    /// Notes a use. Reads first: the line is shared, and written only once per look of the index.
    #[inline]
    pub(super) fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        if let Some(page) = self.page() {
            page.touch();
        }
    }

    /// Whether it was used since this was last asked.
    pub(super) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
}
