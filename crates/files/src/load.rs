//! Resolving a path, or checking an entry again: which result is used, and which is kept.
//!
//! The same procedure has two callers: a core, which may not wait and gives up with [`WouldBlock`],
//! and a thread that may wait. The order matters: depend on a name, then look at the name
//! (`load/look.rs`), then handle the events, then keep the result (`Index::publish`). Tested in
//! `tests/`.

use super::{
    content::{SMALL_BYTES_MAX, is_content},
    entry::{Checked, Entry, EntryOutcome, EntryProbe, Freshness, Lasting},
    index::{LookTarget, SiteId},
    open::{FileValidator, OpenPaths, OpenPurpose, WouldBlock, open},
    root::SiteRoot,
    site::Site,
};
use cold::ColdRoot;
use look::FileLookup;
use rustix::io::Errno;
use std::{fs::File, io::ErrorKind, os::fd::AsFd, sync::Arc};
use vermeil_http::Status;
use vermeil_io::CacheOnly;

mod cold;
mod look;
mod representation;
mod unopened;

pub use unopened::{UnopenedFolder, UnopenedJob};

/// Number of look-ups for a path that changes during each look-up. The last result is used once and
/// not kept. Each repetition takes another change within some 50 µs.
const LOOKS_MAX: u32 = 4;

/// A path to resolve or to check again.
pub struct PathJob {
    site: Arc<Site>,
    /// The path as it stands in the request.
    raw: Box<[u8]>,
    target: LookTarget,
    now_ms: u64,
    admission: PathAdmission,
}

/// Whether the result of a look-up enters the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathAdmission {
    /// The path is asked for repeatedly.
    Admitted,
    /// The path was not asked for lately, or is too long for the caches. The result of the cold
    /// look-up is for this request alone (`load/cold.rs`). If the regular look-up has to decide,
    /// its result enters the caches if the path names a file and is not too long. A large file gets
    /// no sealed copy.
    Passing,
}

/// The result of a job, for [`CoreCache::insert`](super::CoreCache::insert).
#[derive(Debug)]
pub struct LoadedEntry {
    pub(super) site: SiteId,
    pub(super) raw: Box<[u8]>,
    pub(super) checked: Checked,
}

impl PathJob {
    /// The site of the path.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    pub(super) fn new(
        site: &Arc<Site>,
        raw: &[u8],
        target: LookTarget,
        now_ms: u64,
        admission: PathAdmission,
    ) -> Self {
        let admission = if target.is_long() { PathAdmission::Passing } else { admission };
        Self { site: site.clone(), raw: raw.into(), target, now_ms, admission }
    }

    /// Resolves the path without waiting for a disk. The core calls this first.
    ///
    /// # Errors
    /// [`WouldBlock`]: another thread has to [run](Self::run) the job.
    pub fn try_now(&mut self) -> Result<LoadedEntry, WouldBlock> {
        let checked = self.load(CacheOnly::Yes)?;
        Ok(self.loaded(checked))
    }

    fn loaded(&mut self, checked: Checked) -> LoadedEntry {
        LoadedEntry { site: self.site.id, raw: std::mem::take(&mut self.raw), checked }
    }

    /// Resolves the path and may wait for the disk.
    pub fn run(self) -> LoadedEntry {
        let checked = self.load(CacheOnly::No).unwrap_or_else(|WouldBlock| {
            // An open that may wait never returns this error (`open.rs`). If such an open did, the
            // answer would be 503.
            self.once(EntryOutcome::Unavailable(Status::ServiceUnavailable))
        });
        LoadedEntry { site: self.site.id, raw: self.raw, checked }
    }

    fn load(&self, cache: CacheOnly) -> Result<Checked, WouldBlock> {
        let Self { site, target, now_ms, .. } = self;
        site.follow_root(*now_ms, cache)?;
        if self.admission == PathAdmission::Admitted {
            return site.resolved(target, *now_ms, cache);
        }
        match site.entry_or_root(target) {
            Ok(found) => site.resolved_from(Some(found), target, *now_ms, (cache, self.admission)),
            Err(root) => match cold::look_up(&ColdRoot::Open { site, root }, target, *now_ms, cache)? {
                Some(entry) => Ok(Checked { entry: Arc::new(entry), at_ms: *now_ms }),
                None => site.resolved_from(None, target, *now_ms, (cache, self.admission)),
            },
        }
    }

    /// An entry for this request alone.
    fn once(&self, outcome: EntryOutcome) -> Checked {
        let entry = Arc::new(Entry::new(outcome, Freshness::Unwatched, Lasting::Once, Vec::new()));
        Checked { entry, at_ms: self.now_ms }
    }
}

impl Site {
    /// The entry of `target`: the entry of another core if that is still correct, or the result of
    /// a new look-up.
    pub(super) fn resolved(
        &self,
        target: &LookTarget,
        now_ms: u64,
        cache: CacheOnly,
    ) -> Result<Checked, WouldBlock> {
        let found = self.store.lock().find(self.id, target);
        self.resolved_from(found, target, now_ms, (cache, PathAdmission::Admitted))
    }

    /// As [`resolved`](Self::resolved), with the entry that the index has.
    fn resolved_from(
        &self,
        found: Option<Checked>,
        target: &LookTarget,
        now_ms: u64,
        (cache, admission): (CacheOnly, PathAdmission),
    ) -> Result<Checked, WouldBlock> {
        if let Some(Checked { entry, at_ms }) = found {
            let age_ms = now_ms.saturating_sub(at_ms);
            // An admitted candidate is looked up again, to get its sealed copy.
            let stays = !entry.is_candidate() || admission == PathAdmission::Passing;
            let is_fresh = entry.is_watched() && !entry.is_stale() && age_ms < self.store.options.recheck_ms;
            if stays && is_fresh {
                return Ok(Checked { entry, at_ms });
            }
            if stays && self.is_right(&entry, now_ms, cache)? {
                self.store.lock().confirm(self.id, target, &entry, now_ms);
                return Ok(Checked { entry, at_ms: now_ms });
            }
            self.store.lock().refute(self.id, target, &entry);
        }
        self.look_up(target, now_ms, (cache, admission)).map(|entry| Checked { entry, at_ms: now_ms })
    }

    fn look_up(
        &self,
        target: &LookTarget,
        now_ms: u64,
        (cache, admission): (CacheOnly, PathAdmission),
    ) -> Result<Arc<Entry>, WouldBlock> {
        let mut looks = 1;
        loop {
            let mut look = FileLookup::new(self, now_ms, (cache, admission));
            let outcome = look.outcome(target);
            let record = look.record();
            let entry = match outcome {
                Ok(outcome) => Arc::new(look.into_entry(outcome)),
                Err(WouldBlock) => {
                    self.store.lock().abandon(record);
                    return Err(WouldBlock);
                }
            };
            if let Some(entry) = self.store.lock().publish(record, target, &entry, now_ms) {
                return Ok(entry);
            }
            if looks == LOOKS_MAX {
                entry.set_stale();
                return Ok(entry);
            }
            looks += 1;
        }
    }

    /// Whether all files that `entry` depends on are unchanged. Once per
    /// [`StoreOptions::recheck_ms`](super::StoreOptions::recheck_ms) the check also compares
    /// contents in memory, because a store through a memory mapping may leave the times unchanged.
    fn is_right(&self, entry: &Entry, now_ms: u64, cache: CacheOnly) -> Result<bool, WouldBlock> {
        if entry.is_stale() || entry.lasting() != Lasting::Quiescent {
            return Ok(false);
        }
        let root = self.root();
        let way = match entry.freshness() {
            Freshness::Watched => OpenPaths::Plain,
            Freshness::Unwatched => OpenPaths::Allowed(self.options.follow_symlinks),
        };
        let mut to_compare = entry.to_compare(now_ms, self.store.options.recheck_ms);
        for (i, probe) in entry.probes().iter().enumerate() {
            // Skip a missing sibling, because an event reports its creation. Most files lack all
            // three siblings.
            if i > 0 && entry.freshness() == Freshness::Watched && probe.seen.is_err() {
                continue;
            }
            // Where events report each new file of a name, the name still leads to the same file,
            // so one open serves both checks.
            let compared = to_compare.iter().position(|(path, _)| *path == &*probe.path);
            let compared = compared.filter(|_| entry.freshness() == Freshness::Watched);
            let (purpose, bytes) = match compared {
                Some(at) => (OpenPurpose::Reading, Some(to_compare.swap_remove(at).1)),
                None => (OpenPurpose::Locating, None),
            };
            if !self.is_unchanged(&root, probe, bytes, (purpose, way), cache)? {
                return Ok(false);
            }
        }
        for (path, bytes) in to_compare {
            let file = match open(root.as_fd(), path, OpenPurpose::Reading, way, cache) {
                Err(Errno::AGAIN) => return Err(WouldBlock),
                Err(_) => return Ok(false),
                Ok(file) => File::from(file),
            };
            if !holds(&file, bytes, cache)? {
                return Ok(false);
            }
        }
        entry.set_compared(now_ms);
        entry.page().map_or(Ok(true), |page| self.is_right(page, now_ms, cache))
    }

    /// Whether the file of `probe` is as it was seen, and holds `bytes`.
    fn is_unchanged(
        &self,
        root: &SiteRoot,
        probe: &EntryProbe,
        bytes: Option<&[u8]>,
        (purpose, way): (OpenPurpose, OpenPaths),
        cache: CacheOnly,
    ) -> Result<bool, WouldBlock> {
        let file = open(root.as_fd(), &probe.path, purpose, way, cache);
        let file = match (file, &probe.seen) {
            (Err(Errno::AGAIN), _) => return Err(WouldBlock),
            (Err(errno), seen) => return Ok(*seen == Err(errno)),
            (Ok(file), _) => File::from(file),
        };
        if FileValidator::of(file.as_fd()) != probe.seen {
            return Ok(false);
        }
        bytes.map_or(Ok(true), |bytes| holds(&file, bytes, cache))
    }
}

/// Whether `file` begins with `bytes`.
fn holds(file: &File, bytes: &[u8], cache: CacheOnly) -> Result<bool, WouldBlock> {
    if cache == CacheOnly::Yes && bytes.len() as u64 > SMALL_BYTES_MAX {
        // The comparison would hold up the core.
        return Err(WouldBlock);
    }
    match is_content(file, bytes, cache) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(WouldBlock),
        result => Ok(result.unwrap_or(false)),
    }
}
