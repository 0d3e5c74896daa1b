//! Resolving a path, or checking an entry again: which result is used, and which is kept.
//!
//! The same procedure has two callers: a core, which may not wait and gives up with [`WouldBlock`],
//! and a thread that may wait. The order matters: depend on a name, then look at the name
//! (`load/look.rs`), then handle the events, then keep the result (`Index::publish`). Tested in
//! `tests/`.

use super::{
    content::is_content,
    entry::{Entry, EntryOutcome, Freshness, Lasting},
    index::{LookTarget, SiteId},
    open::{FileValidator, OpenPaths, OpenPurpose, open},
    site::Site,
};
use look::FileLookup;
use rustix::io::Errno;
use std::{fs::File, io::ErrorKind, os::fd::AsFd, sync::Arc};
use vermeil_http::Status;
use vermeil_io::CacheOnly;

mod look;

/// Number of look-ups for a path that changes during each look-up. The last result is used once and
/// not kept. Guess: each repetition takes another change within some 50 µs.
const LOOKS_MAX: u32 = 4;

/// The job would wait for a disk: run the job on a thread that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resolving a path would wait for the disk; run the job where waiting is allowed")]
pub struct WouldBlock;

/// A path to resolve or to check again.
pub struct PathJob {
    site: Arc<Site>,
    /// The path as it stands in the request.
    raw: Box<[u8]>,
    target: LookTarget,
    now_ms: u64,
}

/// The result of a job, for [`CoreCache::insert`](super::CoreCache::insert).
#[derive(Debug)]
pub struct LoadedEntry {
    pub(super) site: SiteId,
    pub(super) raw: Box<[u8]>,
    pub(super) checked: Checked,
}

/// An entry, and milliseconds on the server's clock of the last check.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) entry: Arc<Entry>,
    pub(super) at_ms: u64,
}

impl PathJob {
    /// The site of the path.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    pub(super) fn new(site: &Arc<Site>, raw: &[u8], target: LookTarget, now_ms: u64) -> Self {
        Self { site: site.clone(), raw: raw.into(), target, now_ms }
    }

    /// Resolves the path without waiting for a disk. The core calls this first.
    ///
    /// # Errors
    /// [`WouldBlock`]: another thread has to [run](Self::run) the job.
    pub fn try_now(&mut self) -> Result<LoadedEntry, WouldBlock> {
        let checked = self.load(CacheOnly::Yes)?;
        Ok(LoadedEntry { site: self.site.id, raw: std::mem::take(&mut self.raw), checked })
    }

    /// Resolves the path and may wait for the disk.
    pub fn run(self) -> LoadedEntry {
        let checked = self.load(CacheOnly::No).unwrap_or_else(|WouldBlock| {
            // An open that may wait never returns this error (`open.rs`). If such an open did, the
            // answer would be 503.
            let outcome = EntryOutcome::Unavailable(Status::ServiceUnavailable);
            let entry = Arc::new(Entry::new(outcome, Freshness::Nobody, Lasting::Once, Vec::new()));
            Checked { entry, at_ms: self.now_ms }
        });
        LoadedEntry { site: self.site.id, raw: self.raw, checked }
    }

    fn load(&self, cache: CacheOnly) -> Result<Checked, WouldBlock> {
        self.site.follow_root(self.now_ms, cache)?;
        self.site.resolved(&self.target, self.now_ms, cache)
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
        if let Some(Checked { entry, at_ms }) = found {
            let age_ms = now_ms.saturating_sub(at_ms);
            if entry.is_watched() && !entry.is_stale() && age_ms < self.store.options.recheck_ms {
                return Ok(Checked { entry, at_ms });
            }
            if self.is_right(&entry, now_ms, cache)? {
                self.store.lock().confirm(self.id, target, &entry, now_ms);
                return Ok(Checked { entry, at_ms: now_ms });
            }
            self.store.lock().refute(self.id, target, &entry);
        }
        self.look_up(target, now_ms, cache).map(|entry| Checked { entry, at_ms: now_ms })
    }

    fn look_up(&self, target: &LookTarget, now_ms: u64, cache: CacheOnly) -> Result<Arc<Entry>, WouldBlock> {
        let mut looks = 1;
        loop {
            let mut look = FileLookup::new(self, now_ms, cache);
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
        let way = match entry.trust() {
            Freshness::Events => OpenPaths::Plain,
            Freshness::Nobody => OpenPaths::Allowed(self.options.follow_symlinks),
        };
        for (i, probe) in entry.probes().iter().enumerate() {
            // Skip a missing sibling, because an event reports its creation. Most files lack all
            // three siblings.
            if i > 0 && entry.trust() == Freshness::Events && probe.seen.is_err() {
                continue;
            }
            let file = open(root.as_fd(), &probe.path, OpenPurpose::Locating, way, cache);
            match file.and_then(|file| FileValidator::of(file.as_fd())) {
                Err(Errno::AGAIN) => return Err(WouldBlock),
                seen if seen != probe.seen => return Ok(false),
                _ => {}
            }
        }
        for (path, bytes) in entry.to_compare(now_ms, self.store.options.recheck_ms) {
            let file = match open(root.as_fd(), path, OpenPurpose::Reading, way, cache) {
                Err(Errno::AGAIN) => return Err(WouldBlock),
                Err(_) => return Ok(false),
                Ok(file) => File::from(file),
            };
            match is_content(&file, bytes, cache) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(WouldBlock),
                Ok(true) => {}
                Ok(false) | Err(_) => return Ok(false),
            }
        }
        entry.set_compared(now_ms);
        entry.page().map_or(Ok(true), |page| self.is_right(page, now_ms, cache))
    }
}
