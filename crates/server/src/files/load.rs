//! Resolving a path: what is there, whether it may be served, and its bytes or an open file.
//!
//! One procedure for two callers: a core, which may not wait and gives up with [`WouldBlock`], and a thread that may. The
//! order is the point: depend on a name, then look at it, then take in the events, then keep the result
//! (`Index::publish`). Tested in `tests/`.

use super::{
    content::{Content, OpenFile, ReadFailure, read_whole},
    entry::{Entry, FileEntry, Lasting, NotFound, Outcome, Probe, SETTLE_MS, Trust},
    index::Target,
    media::media_type,
    open::{Identity, Purpose, Way, open},
    options::Listing,
    site::{Root, Site},
    variant::{Parts, Role, Variant, Varies},
    watch::{Adoption, Descent, RecordId},
};
use rustix::{fs::FileType, io::Errno};
use std::{
    fs::File,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use vermeil_http::{
    Status,
    negotiate::{Choice, EncodingSet},
    path::percent_encode_path,
};
use vermeil_io::CacheOnly;

/// The site's own page for what is not found, below the root.
const NOT_FOUND_PAGE: &[u8] = b"404.html";

/// What a precompressed sibling is called.
const SIBLINGS: [(Choice, &[u8]); 3] =
    [(Choice::Br, b".br"), (Choice::Zstd, b".zst"), (Choice::Gzip, b".gz")];

/// How often something that changes while it is looked up is looked up again, before the last result is used once
/// and not kept. Guess: each time takes another change within some 50 µs.
const LOOKS_MAX: u32 = 4;

/// How often a folder that changes while it is being watched is tried again, before its paths are looked up at each
/// use. Guess, as above.
const ADOPTIONS_MAX: u32 = 8;

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
    fn resolved(&self, target: &Target, cache: CacheOnly) -> Result<Arc<Entry>, WouldBlock> {
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
            let Look { record, trust, lasting, probes, .. } = look;
            let entry = match outcome {
                Ok(outcome) => Arc::new(Entry::new(outcome, trust, lasting, probes)),
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

/// One look-up in progress.
struct Look<'a> {
    site: &'a Site,
    root: Arc<Root>,
    cache: CacheOnly,
    record: RecordId,
    trust: Trust,
    lasting: Lasting,
    probes: Vec<Probe>,
}

impl<'a> Look<'a> {
    fn new(site: &'a Site, cache: CacheOnly) -> Self {
        let mut index = site.lock();
        let (record, root) = (index.begin(), index.root().clone());
        drop(index);
        Self {
            site,
            root,
            cache,
            record,
            trust: Trust::Events,
            lasting: Lasting::Settled,
            probes: Vec::new(),
        }
    }

    fn outcome(&mut self, target: &Target) -> Result<Outcome, WouldBlock> {
        match target {
            Target::Path(path) => self.path(path),
            Target::Hidden => self.not_found(),
            Target::NotFoundPage => self.not_found_page(),
        }
    }

    fn path(&mut self, path: &[u8]) -> Result<Outcome, WouldBlock> {
        let below = path.strip_prefix(b"/").unwrap_or(path);
        let (below, is_folder_name) = match below.strip_suffix(b"/") {
            Some(below) => (below, true),
            None => (below, below.is_empty()),
        };
        let found = match self.find(below)? {
            Ok(found) => found,
            Err(errno) => return self.failed(errno),
        };
        match (found.file_type(), is_folder_name) {
            (FileType::Directory, true) => self.folder(path, below),
            (FileType::Directory, false) => {
                let mut location = Vec::with_capacity(path.len() + 1);
                percent_encode_path(path, &mut location);
                location.push(b'/');
                Ok(Outcome::Redirect { location: location.into() })
            }
            (FileType::RegularFile, false) => self.file(below, &found, Role::Answer),
            // A file is no folder; a pipe, a socket or a device has no content.
            _ => self.not_found(),
        }
    }

    fn folder(&mut self, path: &[u8], below: &[u8]) -> Result<Outcome, WouldBlock> {
        let site = self.site;
        for name in &site.options.index_names {
            let index = join(below, name.as_bytes());
            match self.find(&index)? {
                Ok(found) if found.file_type() == FileType::RegularFile => {
                    return self.file(&index, &found, Role::Answer);
                }
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return self.failed(errno),
            }
        }
        match site.options.listing {
            Listing::On => Ok(Outcome::Listing { path: path.into() }),
            Listing::Off => Ok(Outcome::Forbidden),
        }
    }

    fn failed(&mut self, errno: Errno) -> Result<Outcome, WouldBlock> {
        let unavailable = match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::NXIO => return self.not_found(),
            // `XDEV`: a link that leads out of the root; `LOOP`: a link where none is followed.
            Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP => return Ok(Outcome::Forbidden),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::STALE => Status::ServiceUnavailable,
            _ => Status::InternalServerError,
        };
        self.lasting = Lasting::Once;
        Ok(Outcome::Unavailable(unavailable))
    }

    fn not_found(&mut self) -> Result<Outcome, WouldBlock> {
        let page = self.site.resolved(&Target::NotFoundPage, self.cache)?;
        Ok(Outcome::NotFound(NotFound { page: Some(page) }))
    }

    fn not_found_page(&mut self) -> Result<Outcome, WouldBlock> {
        match self.find(NOT_FOUND_PAGE)? {
            Ok(found) if found.file_type() == FileType::RegularFile => {
                self.file(NOT_FOUND_PAGE, &found, Role::NotFoundPage)
            }
            _ => Ok(Outcome::NotFound(NotFound { page: None })),
        }
    }

    fn file(&mut self, path: &[u8], found: &Identity, role: Role) -> Result<Outcome, WouldBlock> {
        let mut siblings = Vec::new();
        let lag_ms = i64::try_from(self.site.options.sibling_lag_ms_max).unwrap_or(i64::MAX);
        for (coding, suffix) in SIBLINGS {
            let sibling = [path, suffix].concat();
            if let Ok(beside) = self.find(&sibling)?
                && beside.file_type() == FileType::RegularFile
                && beside.modified.ms().saturating_add(lag_ms) >= found.modified.ms()
            {
                siblings.push((coding, sibling));
            }
        }
        let varies = if siblings.is_empty() { Varies::No } else { Varies::Yes };
        let mut variants = Vec::with_capacity(siblings.len());
        let mut codings = EncodingSet::NONE;
        let original = (path, Choice::Identity);
        let identity = match self.variant(original, path, varies, role)? {
            Ok(variant) => variant,
            Err(errno) if role == Role::NotFoundPage => {
                return Ok(self.unreadable_page(errno));
            }
            Err(errno) => return self.failed(errno),
        };
        for (coding, sibling) in siblings {
            // One that cannot be read is as if it were not there.
            if let Ok(variant) = self.variant((&sibling, coding), path, varies, role)? {
                variants.push(variant);
                codings = codings.with(coding);
            }
        }
        Ok(Outcome::File(FileEntry { identity, siblings: variants, codings }))
    }

    fn unreadable_page(&mut self, errno: Errno) -> Outcome {
        if !matches!(errno, Errno::ACCESS | Errno::PERM | Errno::NOENT) {
            self.lasting = Lasting::Once;
        }
        Outcome::NotFound(NotFound { page: None })
    }

    /// Reads or opens the file at `path`, a representation of the one at `original`.
    fn variant(
        &mut self,
        (path, coding): (&[u8], Choice),
        original: &[u8],
        varies: Varies,
        role: Role,
    ) -> Result<Result<Variant, Errno>, WouldBlock> {
        let file = match self.open(path, Purpose::Reading)? {
            Ok(file) => File::from(file),
            Err(errno) => return Ok(Err(errno)),
        };
        let (content, identity, charge) = match self.content(file)? {
            Ok(content) => content,
            Err(errno) => return Ok(Err(errno)),
        };
        // What was sent is what later looks are compared with.
        if let Some(probe) = self.probes.iter_mut().find(|probe| &*probe.path == path) {
            probe.seen = Ok(identity);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let nonce = (identity.changed_ms_ago(now_ms) < SETTLE_MS).then_some(now.as_nanos() as u64);
        if nonce.is_some() {
            self.lasting = self.lasting.max(Lasting::Interim);
        }
        let media_type = media_type(original);
        Ok(Ok(Variant::new(Parts { identity, coding, media_type, varies, role, nonce, content, charge })))
    }

    fn content(&mut self, file: File) -> Result<Result<Held, Errno>, WouldBlock> {
        let mut identity = match Identity::of(file.as_fd()) {
            Ok(identity) if identity.file_type() == FileType::RegularFile => identity,
            // Replaced since it was located.
            Ok(_) => return Ok(Err(Errno::NOENT)),
            Err(errno) => return Ok(Err(errno)),
        };
        for _ in 0..LOOKS_MAX {
            if identity.bytes > self.site.options.content_file_bytes_max {
                break;
            }
            let Some(charge) = self.site.charge_content(identity.bytes) else {
                self.lasting = self.lasting.max(Lasting::Interim);
                break;
            };
            match read_whole(&file, &identity, self.cache) {
                Ok(bytes) => return Ok(Ok((Content::Memory(bytes), identity, Some(charge)))),
                Err(ReadFailure::WouldBlock) => return Err(WouldBlock),
                Err(ReadFailure::Failed) => break,
                Err(ReadFailure::Changed) => match Identity::of(file.as_fd()) {
                    Ok(now) => identity = now,
                    Err(errno) => return Ok(Err(errno)),
                },
            }
        }
        let charge = self.site.charge_descriptor();
        if charge.is_none() {
            self.lasting = Lasting::Once;
        }
        Ok(Ok((Content::Disk(OpenFile::new(OwnedFd::from(file), identity, charge)), identity, None)))
    }

    /// Depends on what is at `path`, then looks at it.
    fn find(&mut self, path: &[u8]) -> Result<Result<Identity, Errno>, WouldBlock> {
        self.depend_on(path)?;
        let found = self.open(path, Purpose::Locating)?.and_then(|file| Identity::of(file.as_fd()));
        if let Ok(found) = &found
            && found.file_type() == FileType::RegularFile
            && found.links > 1
        {
            // It may be written under its other name.
            self.trust = Trust::Nobody;
        }
        self.probes.push(Probe { path: path.into(), seen: found });
        Ok(found)
    }

    /// Opens, and notes if the way there is one that the kernel cannot vouch for.
    fn open(&mut self, path: &[u8], purpose: Purpose) -> Result<Result<OwnedFd, Errno>, WouldBlock> {
        let mut opened = open(self.root.as_fd(), path, purpose, Way::Plain, self.cache);
        if let Err(Errno::LOOP | Errno::XDEV) = opened {
            self.trust = Trust::Nobody;
            let way = Way::Allowed(self.site.options.follow_symlinks);
            opened = open(self.root.as_fd(), path, purpose, way, self.cache);
        }
        match opened {
            Err(Errno::AGAIN) => Err(WouldBlock),
            opened => Ok(opened),
        }
    }

    /// Watches the folders on the way to `path`, from the top, and depends on the name at which the way ends.
    fn depend_on(&mut self, path: &[u8]) -> Result<(), WouldBlock> {
        for _ in 0..ADOPTIONS_MAX {
            let (parent, folder, name) = match self.site.lock().descend(self.record, path) {
                Descent::Complete { .. } => return Ok(()),
                Descent::Partial { parent, folder, name } => (parent, folder, name),
                Descent::Unwatched => break,
            };
            match open(self.root.as_fd(), folder, Purpose::LocatingFolder, Way::Plain, self.cache) {
                Ok(folder) => match self.site.lock().adopt(parent, name, folder.as_fd()) {
                    Adoption::Done | Adoption::Raced => {}
                    Adoption::Refused => break,
                },
                Err(Errno::AGAIN) => return Err(WouldBlock),
                Err(Errno::LOOP | Errno::XDEV) => break,
                Err(_) => {
                    if self.site.lock().depend_on_missing(self.record, parent, name) {
                        return Ok(());
                    }
                }
            }
        }
        self.trust = Trust::Nobody;
        Ok(())
    }
}

/// A content, what its file was when it was read, and its charge if it is in memory.
type Held = (Content, Identity, Option<super::budget::Charge>);

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}
