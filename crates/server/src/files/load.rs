//! Resolving a path, or looking it up again: which result is used, and which is kept.
//!
//! One procedure for two callers: a core, which may not wait and gives up with [`WouldBlock`], and a thread that may. The
//! order is the point: depend on a name, then look at it (`load/look.rs`), then take in the events, then keep the result
//! (`Index::publish`). Tested in `tests/`.

use super::{
    entry::{Entry, Lasting, Outcome, Trust},
    index::Target,
    open::{Identity, Purpose, Way, open},
    site::Site,
};
use look::Look;
use rustix::io::Errno;
use std::{os::fd::AsFd, sync::Arc};
use vermeil_http::Status;
use vermeil_io::CacheOnly;

mod look;

/// How often something that changes while it is looked up is looked up again, before the last result is used once
/// and not kept. Guess: each time takes another change within some 50 µs.
const LOOKS_MAX: u32 = 4;

/// Going on would wait for a disk: run the job where waiting is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resolving a path would wait for the disk; run the job where waiting is allowed")]
pub struct WouldBlock;

/// A path to resolve, or to look up again.
pub struct Job {
    site: Arc<Site>,
    /// The path as it stands in the request.
    raw: Box<[u8]>,
    target: Target,
    /// What it was and should be checked.
    previous: Option<Arc<Entry>>,
    now_ms: u64,
}

/// What a job found, to be given to [`CoreCache::insert`](super::CoreCache::insert).
#[derive(Debug)]
pub struct Loaded {
    pub(super) raw: Box<[u8]>,
    pub(super) entry: Arc<Entry>,
    pub(super) now_ms: u64,
}

impl Job {
    pub(super) fn new(
        site: &Arc<Site>,
        raw: &[u8],
        target: Target,
        previous: Option<Arc<Entry>>,
        now_ms: u64,
    ) -> Self {
        Self { site: site.clone(), raw: raw.into(), target, previous, now_ms }
    }

    /// Resolves the path by means that do not wait for a disk. To be tried first, on the core itself.
    ///
    /// # Errors
    /// [`WouldBlock`]: the job is to be [run](Self::run) elsewhere.
    pub fn try_now(&mut self) -> Result<Loaded, WouldBlock> {
        let entry = self.load(CacheOnly::Yes)?;
        Ok(Loaded { raw: std::mem::take(&mut self.raw), entry, now_ms: self.now_ms })
    }

    /// Resolves the path, for as long as it takes.
    pub fn run(self) -> Loaded {
        let entry = self.load(CacheOnly::No).unwrap_or_else(|WouldBlock| {
            // No open says so when waiting is allowed (`open.rs`); if one did, the answer would be 503.
            let outcome = Outcome::Unavailable(Status::ServiceUnavailable);
            Arc::new(Entry::new(outcome, Trust::Nobody, Lasting::Once, Vec::new()))
        });
        Loaded { raw: self.raw, entry, now_ms: self.now_ms }
    }

    fn load(&self, cache: CacheOnly) -> Result<Arc<Entry>, WouldBlock> {
        self.site.follow_root(self.now_ms, cache)?;
        if let Some(previous) = &self.previous {
            if self.site.is_right(previous, cache)? {
                return Ok(previous.clone());
            }
            self.site.lock().refute(&self.target, previous);
        }
        self.site.resolved(&self.target, cache)
    }
}

impl Site {
    /// What `target` resolves to: as some core has found, if that is right, or as found now.
    pub(super) fn resolved(&self, target: &Target, cache: CacheOnly) -> Result<Arc<Entry>, WouldBlock> {
        let found = self.lock().find(target).cloned();
        if let Some(found) = found {
            let told = found.is_told() && !found.is_stale();
            if told || self.is_right(&found, cache)? {
                return Ok(found);
            }
            self.lock().refute(target, &found);
        }
        let mut last = None;
        for _ in 0..LOOKS_MAX {
            let mut look = Look::new(self, cache);
            let outcome = look.outcome(target);
            let record = look.record();
            let entry = match outcome {
                Ok(outcome) => Arc::new(look.into_entry(outcome)),
                Err(WouldBlock) => {
                    self.lock().abandon(record);
                    return Err(WouldBlock);
                }
            };
            if let Some(entry) = self.lock().publish(record, target, &entry) {
                return Ok(entry);
            }
            last = Some(entry);
        }
        let last = last.expect("was looked at at least once");
        last.set_stale();
        Ok(last)
    }

    /// Whether everything that was looked at for `entry` is as it was.
    fn is_right(&self, entry: &Entry, cache: CacheOnly) -> Result<bool, WouldBlock> {
        if entry.is_stale() || entry.lasting() != Lasting::Settled {
            return Ok(false);
        }
        let root = self.root();
        let way = match entry.trust() {
            Trust::Events => Way::Plain,
            Trust::Nobody => Way::Allowed(self.options.follow_symlinks),
        };
        for probe in entry.probes() {
            let file = open(root.as_fd(), &probe.path, Purpose::Locating, way, cache);
            match file.and_then(|file| Identity::of(file.as_fd())) {
                Err(Errno::AGAIN) => return Err(WouldBlock),
                seen if seen != probe.seen => return Ok(false),
                _ => {}
            }
        }
        entry.page().map_or(Ok(true), |page| self.is_right(page, cache))
    }
}
