//! A look-up of a path: the kind of the file, whether the site may serve the file, and its bytes or
//! an open file.
//!
//! Every name becomes a dependency before the look-up reads the name ([`FileLookup::find`]). The
//! look-up records each result as a probe, so that a later check can compare. `load.rs` decides
//! about the result. Tested in `tests/basics.rs`, `tests/policy.rs` and `tests/siblings.rs`.

use super::{
    super::{
        content::{Charge, Content, OpenFile, ReadFailure, SMALL_BYTES_MAX, SealedContent, read_whole},
        entry::{Entry, EntryOutcome, EntryProbe, Freshness, Lasting, NotFound},
        folder_facts::{SIBLINGS, SiblingSet},
        index::{Adoption, Descent, LookTarget, RecordId},
        open::{FileValidator, OpenPaths, OpenPurpose, open, reached, state_of},
        options::Listing,
        root::{SiteRoot, moves_times},
        site::Site,
        variant::{Dated, FileRole, TagSource, Variant},
    },
    LOOKS_MAX, PathAdmission, WouldBlock,
    representation::{
        FoundContent, Original, as_index_page, content_tag, dated, epoch_ms, file_entry, is_current,
        since_epoch, varies,
    },
};
use rustix::{fs::FileType, io::Errno};
use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};
use vermeil_http::{Status, negotiate::Choice, path::percent_encode_path};
use vermeil_io::{CacheOnly, SealedFile, start_writeback};

/// The site's own page for a 404, below the root.
pub(super) const NOT_FOUND_PAGE: &[u8] = b"404.html";

/// Number of attempts to watch a folder that changes meanwhile. After that, each use checks its
/// paths again. An attempt takes some 50 µs, and each failure needs another change within that
/// time.
const ADOPTIONS_MAX: u32 = 8;

/// A look-up in progress.
pub(super) struct FileLookup<'a> {
    site: &'a Site,
    root: Arc<SiteRoot>,
    now_ms: u64,
    cache: CacheOnly,
    record: RecordId,
    freshness: Freshness,
    lasting: Lasting,
    admission: PathAdmission,
    /// See [`Entry::is_candidate`].
    is_candidate: bool,
    probes: Vec<EntryProbe>,
}

impl<'a> FileLookup<'a> {
    pub(super) fn new(site: &'a Site, now_ms: u64, (cache, admission): (CacheOnly, PathAdmission)) -> Self {
        let mut index = site.store.lock();
        // Handle pending events first, because earlier changes do not concern this look-up.
        index.drain();
        let (record, root) = (index.begin(site.id), index.root(site.id).clone());
        drop(index);
        Self {
            site,
            root,
            now_ms,
            cache,
            record,
            freshness: Freshness::Watched,
            lasting: Lasting::Quiescent,
            admission,
            is_candidate: false,
            probes: Vec::new(),
        }
    }

    /// The record of this look-up. The caller has to publish or abandon the record.
    pub(super) fn record(&self) -> RecordId {
        self.record
    }

    pub(super) fn into_entry(self, outcome: EntryOutcome) -> Entry {
        Entry::new(outcome, self.freshness, self.lasting, self.probes).with_candidate(self.is_candidate)
    }

    /// The outcome for `target`.
    pub(super) fn outcome(&mut self, target: &LookTarget) -> Result<EntryOutcome, WouldBlock> {
        let outcome = match target {
            LookTarget::Path(path) => self.path(path)?,
            LookTarget::Hidden => self.not_found()?,
            LookTarget::NotFoundPage => self.not_found_page()?,
        };
        if !self.may_stay(target) {
            self.lasting = Lasting::Once;
        }
        Ok(outcome)
    }

    /// Whether the result for `target` may enter the caches. A client can make up any number of
    /// paths that name nothing, so such a path must be admitted first.
    fn may_stay(&self, target: &LookTarget) -> bool {
        let LookTarget::Path(_) = target else { return true };
        let is_name = self.probes.first().is_none_or(|probe| probe.seen.is_ok());
        !target.is_long() && (is_name || self.admission == PathAdmission::Admitted)
    }

    fn path(&mut self, path: &[u8]) -> Result<EntryOutcome, WouldBlock> {
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
                Ok(EntryOutcome::Redirect { location: location.into() })
            }
            (FileType::RegularFile, false) => self.file(below, &found, FileRole::Answer),
            // A path with a slash at its end names no file. A pipe, a socket or a device has no
            // content.
            _ => self.not_found(),
        }
    }

    fn folder(&mut self, path: &[u8], below: &[u8]) -> Result<EntryOutcome, WouldBlock> {
        let site = self.site;
        for name in &site.options.index_names {
            let index = join(below, name.as_bytes());
            match self.find(&index)? {
                Ok(found) if found.file_type() == FileType::RegularFile => {
                    let page = self.file(&index, &found, FileRole::Answer)?;
                    return Ok(as_index_page(page, name));
                }
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return self.failed(errno),
            }
        }
        if let Some(name) = &site.options.programs.last_index {
            let index = join(below, name.as_bytes());
            match self.find(&index)? {
                Ok(found) if found.file_type() == FileType::RegularFile => {
                    return Ok(EntryOutcome::Program { script: [b"/", &*index].concat().into() });
                }
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return self.failed(errno),
            }
        }
        match site.options.listing {
            Listing::On => Ok(EntryOutcome::Listing { path: path.into() }),
            Listing::Off => Ok(EntryOutcome::Forbidden),
        }
    }

    fn failed(&mut self, errno: Errno) -> Result<EntryOutcome, WouldBlock> {
        let unavailable = match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::NXIO => return self.not_found(),
            // `XDEV`: a link that leads out of the root. `LOOP`: a link on a site that follows no
            // links.
            Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP => return Ok(EntryOutcome::Forbidden),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::STALE => Status::ServiceUnavailable,
            _ => Status::InternalServerError,
        };
        self.lasting = Lasting::Once;
        Ok(EntryOutcome::Unavailable(unavailable))
    }

    fn not_found(&mut self) -> Result<EntryOutcome, WouldBlock> {
        let page = self.site.resolved(&LookTarget::NotFoundPage, self.now_ms, self.cache)?;
        Ok(EntryOutcome::NotFound(NotFound { page: Some(page.entry) }))
    }

    fn not_found_page(&mut self) -> Result<EntryOutcome, WouldBlock> {
        match self.find(NOT_FOUND_PAGE)? {
            Ok(found) if found.file_type() == FileType::RegularFile => {
                self.file(NOT_FOUND_PAGE, &found, FileRole::NotFoundPage)
            }
            _ => Ok(EntryOutcome::NotFound(NotFound { page: None })),
        }
    }

    fn file(
        &mut self,
        path: &[u8],
        found: &FileValidator,
        role: FileRole,
    ) -> Result<EntryOutcome, WouldBlock> {
        let script = [b"/", path].concat();
        if role == FileRole::Answer && self.site.options.programs.include(&script) {
            return Ok(EntryOutcome::Program { script: script.into() });
        }
        let names = SIBLINGS.map(|(coding, suffix)| (coding, [path, suffix].concat()));
        for (_, sibling) in &names {
            self.depend_on(sibling)?;
        }
        let (mut siblings, known) = (Vec::new(), self.known_siblings(path));
        for (coding, sibling) in names {
            if !known.has(coding) {
                self.probes.push(EntryProbe { path: sibling.into(), seen: Err(Errno::NOENT) });
            } else if let Ok(beside) = self.probe(&sibling)?
                && beside.file_type() == FileType::RegularFile
                && is_current(&beside, found, &self.site.store.options)
            {
                siblings.push((coding, sibling));
            }
        }
        let varies = varies(&siblings);
        let site = self.site;
        let file = Original { path, role, varies, options: &site.options };
        let mut variants = Vec::with_capacity(siblings.len());
        let identity = match self.variant((path, Choice::Identity), &file)? {
            Ok(variant) => variant,
            Err(errno) if role == FileRole::NotFoundPage => {
                return Ok(self.unreadable_page(errno));
            }
            Err(errno) => return self.failed(errno),
        };
        for (coding, sibling) in siblings {
            // An unreadable sibling counts as missing.
            if let Ok(variant) = self.variant((&sibling, coding), &file)? {
                variants.push(variant);
            }
        }
        Ok(EntryOutcome::File(file_entry(identity, variants)))
    }

    /// The siblings that the file at `path` may have, if the folder's fact is known. The look-up
    /// depends on their names, so a sibling that appears later is an event.
    fn known_siblings(&self, path: &[u8]) -> SiblingSet {
        if self.freshness == Freshness::Unwatched {
            return SiblingSet::ANY;
        }
        let folder = path.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |end| &path[..end]);
        let known =
            state_of(self.root.as_fd(), folder).ok().and_then(|seen| self.site.store.facts.find(&seen));
        known.unwrap_or(SiblingSet::ANY)
    }

    fn unreadable_page(&mut self, errno: Errno) -> EntryOutcome {
        if !matches!(errno, Errno::ACCESS | Errno::PERM | Errno::NOENT) {
            self.lasting = Lasting::Once;
        }
        EntryOutcome::NotFound(NotFound { page: None })
    }

    /// Reads or opens the file at `path`, a representation of the file `original`.
    fn variant(
        &mut self,
        (path, coding): (&[u8], Choice),
        original: &Original<'_>,
    ) -> Result<Result<Variant, Errno>, WouldBlock> {
        let file = match self.open(path, OpenPurpose::Reading)? {
            Ok(file) => File::from(file),
            Err(errno) => return Ok(Err(self.failure(errno))),
        };
        let read_ms = epoch_ms();
        let (content, validator, charge) = match self.content(file)? {
            Ok(content) => content,
            Err(errno) => return Ok(Err(self.failure(errno))),
        };
        // The probe holds the validator of the content to send, so later checks compare with that
        // content.
        let probe = self.probes.iter().position(|probe| &*probe.path == path).expect("it was found before");
        self.probes[probe].seen = Ok(validator);
        let settle_ms = self.site.store.settle_ms;
        let is_settled = validator.changed.ms_ago(read_ms) >= settle_ms;
        let dated = dated(validator.modified, read_ms, settle_ms);
        let tag = match &content {
            Content::Memory(bytes) => content_tag(bytes),
            Content::Disk(_) if !is_settled => TagSource::Moment(since_epoch().as_nanos() as u64),
            Content::Sealed(content) if content.is_told() => TagSource::Identity,
            Content::Disk(file) if self.is_told_by_time(file.as_fd(), &validator)? => TagSource::Identity,
            Content::Sealed(_) | Content::Disk(_) => TagSource::Weak,
        };
        if !is_settled || dated == Dated::No {
            self.lasting = self.lasting.max(Lasting::Interim);
        }
        let found = FoundContent { content, charge, validator, tag, dated, probe };
        Ok(Ok(original.variant(coding, found)))
    }

    /// Whether every change of `file`, with this `validator`, moves its time of change from
    /// now on. A store through a memory mapping moves the time only if its page is clean. The
    /// look-up therefore writes the pages back, and the time must be the same afterwards.
    fn is_told_by_time(&self, file: BorrowedFd<'_>, validator: &FileValidator) -> Result<bool, WouldBlock> {
        if !moves_times(file) {
            return Ok(false);
        }
        if self.cache == CacheOnly::Yes {
            return Err(WouldBlock);
        }
        Ok(start_writeback(file).is_ok() && FileValidator::of(file).is_ok_and(|now| now == *validator))
    }

    fn content(&mut self, file: File) -> Result<Result<LookedContent, Errno>, WouldBlock> {
        let mut validator = match FileValidator::of(file.as_fd()) {
            Ok(validator) if validator.file_type() == FileType::RegularFile => validator,
            // Another process replaced the file after the look-up of its name.
            Ok(_) => return Ok(Err(Errno::NOENT)),
            Err(errno) => return Ok(Err(errno)),
        };
        for _ in 0..LOOKS_MAX {
            if validator.bytes > self.site.store.options.content_file_bytes_max {
                break;
            }
            if validator.bytes > SMALL_BYTES_MAX {
                if let Some((content, charge)) = self.sealed(&file, &validator)? {
                    return Ok(Ok((Content::Sealed(content), validator, Some(charge))));
                }
                break;
            }
            let Some(charge) = self.site.store.charge_content(validator.bytes) else {
                self.lasting = self.lasting.max(Lasting::Interim);
                break;
            };
            match read_whole(&file, &validator, self.cache, self.site.store.memory()) {
                Ok(bytes) => return Ok(Ok((Content::Memory(bytes), validator, Some(charge)))),
                Err(ReadFailure::WouldBlock) => return Err(WouldBlock),
                Err(ReadFailure::Failed) => break,
                Err(ReadFailure::Changed) => match FileValidator::of(file.as_fd()) {
                    Ok(now) => validator = now,
                    Err(errno) => return Ok(Err(errno)),
                },
            }
        }
        let charge = self.site.store.charge_descriptor();
        if charge.is_none() {
            self.lasting = Lasting::Once;
        }
        Ok(Ok((Content::Disk(OpenFile::new(OwnedFd::from(file), validator, charge)), validator, None)))
    }

    /// A sealed copy of the large `file`. `None` if the file is to be sent from its descriptor, for
    /// example because it changed a moment ago and may change again without a new time.
    fn sealed(
        &mut self,
        file: &File,
        validator: &FileValidator,
    ) -> Result<Option<(SealedContent, Charge)>, WouldBlock> {
        let store = &self.site.store;
        if validator.changed.ms_ago(epoch_ms()) < store.settle_ms {
            self.lasting = self.lasting.max(Lasting::Interim);
            return Ok(None);
        }
        if self.admission == PathAdmission::Passing {
            self.is_candidate = true;
            return Ok(None);
        }
        if self.cache == CacheOnly::Yes {
            // The copy would hold up the core.
            return Err(WouldBlock);
        }
        let (Some(content), Some(descriptor)) =
            (store.charge_content(validator.bytes), store.charge_descriptor())
        else {
            self.lasting = self.lasting.max(Lasting::Interim);
            return Ok(None);
        };
        // Before the copy, so that the time also tells of a change during the copy.
        let is_told = self.is_told_by_time(file.as_fd(), validator)?;
        let Ok(copy) = SealedFile::copy_of(file.as_fd(), validator.bytes as usize) else {
            return Ok(None);
        };
        if FileValidator::of(file.as_fd()).is_ok_and(|after| after == *validator) {
            return Ok(Some((SealedContent::new(copy, is_told, descriptor), content)));
        }
        self.lasting = self.lasting.max(Lasting::Interim);
        Ok(None)
    }

    /// Makes `path` a dependency, then looks the path up.
    fn find(&mut self, path: &[u8]) -> Result<Result<FileValidator, Errno>, WouldBlock> {
        self.depend_on(path)?;
        self.probe(path)
    }

    /// Looks up a path that the look-up depends on already.
    fn probe(&mut self, path: &[u8]) -> Result<Result<FileValidator, Errno>, WouldBlock> {
        let found = self.open(path, OpenPurpose::Locating)?;
        let found = found.and_then(|file| FileValidator::of(file.as_fd()));
        let found = found.map_err(|errno| self.failure(errno));
        if let Ok(found) = &found
            && found.file_type() == FileType::RegularFile
            && found.links > 1
        {
            // Another process may write the file under its other name.
            self.freshness = Freshness::Unwatched;
        }
        self.probes.push(EntryProbe { path: path.into(), seen: found });
        Ok(found)
    }

    /// Opens a file, and records whether inotify cannot report all changes on the way. Never opens
    /// a program for reading, by its own name or by the target of a link, and follows no link to a
    /// hidden name.
    fn open(&mut self, path: &[u8], purpose: OpenPurpose) -> Result<Result<OwnedFd, Errno>, WouldBlock> {
        let is_program =
            |path: &[u8]| purpose == OpenPurpose::Reading && self.site.options.programs.include(path);
        if is_program(&[b"/", path].concat()) {
            return Ok(Err(Errno::ACCESS));
        }
        let mut opened = open(self.root.as_fd(), path, purpose, OpenPaths::Plain, self.cache);
        if let Err(Errno::LOOP | Errno::XDEV) = opened {
            let way = OpenPaths::Allowed(self.site.options.follow_symlinks);
            opened = open(self.root.as_fd(), path, purpose, way, self.cache).and_then(|file| {
                match reached(self.root.as_fd(), file.as_fd()) {
                    Ok(real) if is_program(&real) => Err(Errno::ACCESS),
                    Ok(_) => Ok(file),
                    Err(Errno::NOENT) => Err(Errno::NOENT),
                    // Without `/proc` the target of a link is unknown.
                    Err(_) => Err(Errno::ACCESS),
                }
            });
            self.freshness = Freshness::Unwatched;
        }
        match opened {
            Err(Errno::AGAIN) => Err(WouldBlock),
            opened => Ok(opened),
        }
    }

    /// Returns `errno`. An error that may end without a change of any file, for example because a
    /// descriptor is free again, limits the result to this request.
    fn failure(&mut self, errno: Errno) -> Errno {
        if matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::STALE | Errno::IO) {
            self.lasting = Lasting::Once;
        }
        errno
    }

    /// Watches the folders on the way to `path`, from the top, and depends on the name at which the
    /// way ends.
    fn depend_on(&mut self, path: &[u8]) -> Result<(), WouldBlock> {
        for _ in 0..ADOPTIONS_MAX {
            let (parent, folder, name) = match self.site.store.lock().descend(self.record, path) {
                Descent::Complete { .. } => return Ok(()),
                Descent::Partial { parent, folder, name } => (parent, folder, name),
                Descent::Unwatched => break,
            };
            match open(self.root.as_fd(), folder, OpenPurpose::LocatingFolder, OpenPaths::Plain, self.cache) {
                Ok(folder) => match self.site.store.lock().adopt(parent, name, folder.as_fd()) {
                    Adoption::Done | Adoption::Raced => {}
                    Adoption::Refused => break,
                },
                Err(Errno::AGAIN) => return Err(WouldBlock),
                Err(Errno::NOENT | Errno::NOTDIR) => {
                    if self.site.store.lock().depend_on_missing(self.record, parent, name) {
                        return Ok(());
                    }
                }
                // The folder may exist, for example behind a link.
                Err(errno) => {
                    self.failure(errno);
                    break;
                }
            }
        }
        self.freshness = Freshness::Unwatched;
        Ok(())
    }
}

/// A content, the validator of its file at the time of the read, and its charge if the content
/// is in memory.
type LookedContent = (Content, FileValidator, Option<Charge>);

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}
