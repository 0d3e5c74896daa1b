//! A look-up that leaves nothing behind, for a path that was not asked for lately.
//!
//! Opens the file, reads, takes the state of the file and closes, in four system calls. A fifth
//! takes the state of the folder, at most once a second, to know its siblings and its file system
//! (`folder_looks.rs`). A long file, or one that changed lately, takes more. No watch and no entry
//! is made, so each such request sees the file as it is. A missing path is answered here too, with
//! the site's own page for 404. A path that comes four times within a second goes the regular way
//! (`doorkeeper.rs`). So does everything but regular files without links on the way: folders,
//! links, programs, large files.
//!
//! Unlike the regular look-up, this one opens and reads a file before it knows the type. The open
//! does not wait for the other end of a pipe (`open.rs`). The read has an offset, so pipes and
//! terminals refuse the read.
//!
//! The content is one state of the file by the rule of the regular look-up: the same state before
//! and after the read. If the state after the read is old enough, the state before was the same,
//! because each write renews the times of a file. Tested in `tests/cold.rs`, and by every test of
//! this folder, because the tests ask for each path twice.

use super::{
    super::{
        content::{Content, ReadFailure, SMALL_BYTES_MAX, read_into},
        entry::{Entry, EntryOutcome, Freshness, Lasting, NotFound, SETTLE_MS},
        folder_facts::{FolderFacts, SiblingSet},
        folder_looks::{FolderKey, SeenFolder},
        index::LookTarget,
        open::{FileValidator, OpenPaths, OpenPurpose, open, state_of},
        options::SiteOptions,
        root::SiteRoot,
        site::Site,
        store::FileStore,
        variant::FileRole,
    },
    LOOKS_MAX, WouldBlock,
    look::NOT_FOUND_PAGE,
    representation::{
        FoundContent, Original, as_index_page, content_tag, dated, epoch_ms, file_entry, is_current, varies,
    },
};
use bytes::Bytes;
use rustix::{
    fs::{CWD, FileType},
    io::Errno,
};
use std::{
    cell::RefCell,
    fs::File,
    io::ErrorKind,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::Arc,
};
use vermeil_http::{negotiate::Choice, path::PATH_BYTES_MAX};
use vermeil_io::{CacheOnly, WithoutNowait, read_from};

/// Bytes of the first read, and the step by which the buffer of a thread grows.
const BUFFER_BYTES: usize = 16 * 1024;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Why the cold look-up has no answer.
enum ColdEnd {
    /// The path names nothing.
    Missing,
    /// The regular look-up has to decide.
    Regular,
    /// The look-up would wait for the disk.
    WouldBlock,
}

/// The entry of `target` for a single request; `None` if the regular look-up has to decide.
pub(super) fn look_up(
    root: &ColdRoot<'_>,
    target: &LookTarget,
    now_ms: u64,
    cache: CacheOnly,
) -> Result<Option<Entry>, WouldBlock> {
    let look = ColdLookup { root, now_ms, cache };
    let outcome = match target {
        LookTarget::Path(path) => look.outcome(path),
        LookTarget::Hidden => look.not_found(),
        LookTarget::NotFoundPage => Err(ColdEnd::Regular),
    };
    match outcome {
        Ok(outcome) => Ok(Some(once(outcome))),
        Err(ColdEnd::WouldBlock) => Err(WouldBlock),
        Err(ColdEnd::Missing | ColdEnd::Regular) => Ok(None),
    }
}

/// An entry for a single request.
fn once(outcome: EntryOutcome) -> Entry {
    Entry::new(outcome, Freshness::Unwatched, Lasting::Once, Vec::new())
}

/// The folder in which the look-up begins.
pub(super) enum ColdRoot<'a> {
    /// The root of an open site.
    Open { site: &'a Site, root: Arc<SiteRoot> },
    /// The absolute path of a folder that stays closed.
    Path { store: &'a FileStore, path: &'a Path, options: &'a SiteOptions },
}

impl ColdRoot<'_> {
    fn store(&self) -> &FileStore {
        match self {
            Self::Open { site, .. } => &site.store,
            Self::Path { store, .. } => store,
        }
    }

    fn options(&self) -> &SiteOptions {
        match self {
            Self::Open { site, .. } => &site.options,
            Self::Path { options, .. } => options,
        }
    }
}

struct ColdLookup<'a> {
    root: &'a ColdRoot<'a>,
    now_ms: u64,
    cache: CacheOnly,
}

/// A content and the state of its file.
struct ColdFile {
    bytes: Bytes,
    validator: FileValidator,
    /// Milliseconds since 1970 before the read.
    read_ms: i64,
}

impl ColdLookup<'_> {
    fn outcome(&self, path: &[u8]) -> Result<EntryOutcome, ColdEnd> {
        if !path.ends_with(b"/") {
            return match self.file(path, FileRole::Answer) {
                Err(ColdEnd::Missing) => self.not_found(),
                result => result,
            };
        }
        for name in &self.root.options().index_names {
            match self.file(&[path, name.as_bytes()].concat(), FileRole::Answer) {
                Err(ColdEnd::Missing) => {}
                result => return result.map(|page| as_index_page(page, name)),
            }
        }
        match self.find_folder(path.strip_suffix(b"/").unwrap_or_default()) {
            Err(ColdEnd::Missing) => self.not_found(),
            Err(end) => Err(end),
            // A listing, a program, or a folder that the site does not list.
            Ok(()) => Err(ColdEnd::Regular),
        }
    }

    fn not_found(&self) -> Result<EntryOutcome, ColdEnd> {
        let page = match self.root {
            ColdRoot::Open { site, .. } => {
                match site.resolved(&LookTarget::NotFoundPage, self.now_ms, self.cache) {
                    Ok(page) => Some(page.entry),
                    Err(WouldBlock) => return Err(ColdEnd::WouldBlock),
                }
            }
            ColdRoot::Path { .. } => {
                match self.file(&[b"/", NOT_FOUND_PAGE].concat(), FileRole::NotFoundPage) {
                    Ok(page) => Some(Arc::new(once(page))),
                    Err(ColdEnd::Missing) => {
                        // The operator has to learn of a missing folder, from the regular look-up.
                        self.find_folder(b"").map_err(|end| match end {
                            ColdEnd::Missing => ColdEnd::Regular,
                            end => end,
                        })?;
                        None
                    }
                    Err(end) => return Err(end),
                }
            }
        };
        Ok(EntryOutcome::NotFound(NotFound { page }))
    }

    /// Whether the folder at `path`, without a slash at its end, exists.
    fn find_folder(&self, path: &[u8]) -> Result<(), ColdEnd> {
        let (base, at, way) = self.place(path);
        let opened = open(base, &at, OpenPurpose::LocatingFolder, way, self.cache);
        opened.map(drop).map_err(|errno| ended(errno, &at))
    }

    /// The file at `path`, which begins with a slash.
    fn file(&self, path: &[u8], role: FileRole) -> Result<EntryOutcome, ColdEnd> {
        if self.root.options().programs.include(path) {
            return Err(ColdEnd::Regular);
        }
        let opened = self.open(path)?;
        // Before the read, because the first look into a folder may have to wait, and then this
        // look-up begins again on another thread.
        let folder = self.folder(path, &opened)?;
        let original = self.read_opened(&opened, folder.without_nowait)?;
        let mut siblings = Vec::new();
        for (coding, suffix) in folder.siblings.to_look_for() {
            let sibling = [path, suffix].concat();
            if self.root.options().programs.include(&sibling) {
                continue;
            }
            match self.open(&sibling).and_then(|file| self.read_opened(&file, folder.without_nowait)) {
                Ok(beside) => {
                    if is_current(&beside.validator, &original.validator, &self.root.store().options) {
                        siblings.push((coding, beside));
                    }
                }
                Err(ColdEnd::Missing) => {}
                Err(end) => return Err(end),
            }
        }
        let (varies, options) = (varies(&siblings), self.root.options());
        let file = Original { path, role, varies, options };
        let identity = file.variant(Choice::Identity, self.found(original));
        let siblings = siblings.into_iter().map(|(coding, beside)| file.variant(coding, self.found(beside)));
        Ok(EntryOutcome::File(file_entry(identity, siblings.collect())))
    }

    fn found(&self, file: ColdFile) -> FoundContent {
        let ColdFile { bytes, validator, read_ms } = file;
        FoundContent {
            tag: content_tag(&bytes),
            dated: dated(validator.modified, read_ms, self.root.store().settle_ms),
            content: Content::Memory(bytes),
            charge: None,
            validator,
            probe: 0,
        }
    }

    /// The path of the folder of `path`, without a slash at its end.
    fn folder_of(path: &[u8]) -> &[u8] {
        &path[..path.iter().rposition(|&byte| byte == b'/').unwrap_or(0)]
    }

    fn folder_key(&self, path: &[u8]) -> FolderKey {
        let (folder, store) = (Self::folder_of(path), self.root.store());
        match self.root {
            ColdRoot::Open { site, .. } => store.folder_looks.key((site.id, folder)),
            ColdRoot::Path { path: root, .. } => store.folder_looks.key((root.as_os_str(), folder)),
        }
    }

    /// The folder of the file at `path`, which is open.
    fn folder(&self, path: &[u8], file: &File) -> Result<SeenFolder, ColdEnd> {
        let (key, store) = (self.folder_key(path), self.root.store());
        match store.folder_looks.find(key, self.now_ms, store.options.recheck_ms) {
            Some(seen) => Ok(seen),
            None => self.look_at_folder(path, key, file),
        }
    }

    /// Looks at the folder of the file at `path`, which is open.
    fn look_at_folder(&self, path: &[u8], key: FolderKey, file: &File) -> Result<SeenFolder, ColdEnd> {
        let (base, at, way) = self.place(Self::folder_of(path));
        let state = state_of(base, &at).map_err(|_| ColdEnd::Regular)?;
        let without_nowait = WithoutNowait::of_device(state.device);
        if let Some(known) = without_nowait {
            known.confirm(file.as_fd(), self.now_ms);
        }
        let (store, facts) = (self.root.store(), &self.root.store().facts);
        let siblings = match facts.find(&state) {
            Some(siblings) => siblings,
            None if !FolderFacts::is_learnable(&state, epoch_ms()) => SiblingSet::ANY,
            None => {
                let open = || open(base, &at, OpenPurpose::ReadingFolder, way, self.cache);
                facts.learn(&state, self.cache, open)?
            }
        };
        let seen = SeenFolder { siblings, without_nowait };
        store.folder_looks.note(key, seen, self.now_ms);
        Ok(seen)
    }

    /// The arguments of an open for `path`, which begins with a slash or is empty for the root.
    fn place(&self, path: &[u8]) -> (BorrowedFd<'_>, Vec<u8>, OpenPaths) {
        match self.root {
            ColdRoot::Open { root, .. } => {
                (root.as_fd(), path.get(1..).unwrap_or_default().to_vec(), OpenPaths::Plain)
            }
            ColdRoot::Path { path: root, .. } => {
                (CWD, [root.as_os_str().as_bytes(), path].concat(), OpenPaths::WithoutLinks)
            }
        }
    }

    /// Opens the file at `path`, which begins with a slash.
    fn open(&self, path: &[u8]) -> Result<File, ColdEnd> {
        let (base, at, way) = self.place(path);
        let opened = open(base, &at, OpenPurpose::Reading, way, self.cache);
        opened.map(File::from).map_err(|errno| ended(errno, &at))
    }

    /// Reads an open file, of a file system `without_nowait` if that is known.
    fn read_opened(&self, file: &File, without_nowait: Option<WithoutNowait>) -> Result<ColdFile, ColdEnd> {
        if let Some(short) = self.read_short(file, without_nowait)? {
            return Ok(short);
        }
        for _ in 0..LOOKS_MAX {
            let read_ms = epoch_ms();
            let validator = FileValidator::of(file.as_fd()).map_err(|_| ColdEnd::Regular)?;
            self.check(&validator)?;
            match self.read_once(file, &validator) {
                Ok(bytes) => return Ok(ColdFile { bytes, validator, read_ms }),
                Err(ReadFailure::WouldBlock) => return Err(ColdEnd::WouldBlock),
                Err(ReadFailure::Failed) => return Err(ColdEnd::Regular),
                Err(ReadFailure::Changed) => {}
            }
        }
        // The file changes all the time.
        Err(ColdEnd::Regular)
    }

    /// Reads a short file that has not changed lately; `None` if the file is longer or has changed.
    fn read_short(
        &self,
        file: &File,
        without_nowait: Option<WithoutNowait>,
    ) -> Result<Option<ColdFile>, ColdEnd> {
        let read_ms = epoch_ms();
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < BUFFER_BYTES {
                buffer.resize(BUFFER_BYTES, 0);
            }
            let room = &mut buffer[..BUFFER_BYTES];
            let read = read_from(file.as_fd(), room, 0, (self.cache, without_nowait));
            let length = match read {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.cache == CacheOnly::Yes => {
                    return Err(ColdEnd::WouldBlock);
                }
                // For example a folder, or a pipe. The state of the file decides.
                Err(_) => return Ok(None),
            };
            let validator = FileValidator::of(file.as_fd()).map_err(|_| ColdEnd::Regular)?;
            self.check(&validator)?;
            // A file of another file system is mounted here. Its read may have waited, and the
            // regular look-up decides about the next.
            if without_nowait.is_some_and(|known| known.is_without_disk() && !known.is_of(validator.device)) {
                return Err(ColdEnd::Regular);
            }
            let is_old =
                [validator.modified, validator.changed].iter().all(|time| time.ms_ago(read_ms) >= SETTLE_MS);
            let is_whole = length < BUFFER_BYTES && length as u64 == validator.bytes;
            let content =
                || ColdFile { bytes: Bytes::copy_from_slice(&buffer[..length]), validator, read_ms };
            Ok((is_old && is_whole).then(content))
        })
    }

    /// Whether this look-up may answer with a file in this state.
    fn check(&self, validator: &FileValidator) -> Result<(), ColdEnd> {
        let bytes_max = self.root.store().options.content_file_bytes_max.min(SMALL_BYTES_MAX);
        let is_short = validator.file_type() == FileType::RegularFile && validator.bytes <= bytes_max;
        if is_short { Ok(()) } else { Err(ColdEnd::Regular) }
    }

    fn read_once(&self, file: &File, validator: &FileValidator) -> Result<Bytes, ReadFailure> {
        BUFFER.with_borrow_mut(|buffer| {
            // At most `SMALL_BYTES_MAX`.
            let length = validator.bytes as usize;
            if buffer.len() < length {
                buffer.resize(length.next_multiple_of(BUFFER_BYTES), 0);
            }
            read_into(file, validator, &mut buffer[..length], self.cache)?;
            Ok(Bytes::copy_from_slice(&buffer[..length]))
        })
    }
}

impl From<WouldBlock> for ColdEnd {
    fn from(WouldBlock: WouldBlock) -> Self {
        Self::WouldBlock
    }
}

/// The end of a look-up whose open of the path `at` failed.
fn ended(errno: Errno, at: &[u8]) -> ColdEnd {
    match errno {
        Errno::NOENT | Errno::NOTDIR => ColdEnd::Missing,
        // A name in the path is longer than any name of a file. The path as a whole may be too long
        // only together with the path of a closed folder.
        Errno::NAMETOOLONG if at.len() < PATH_BYTES_MAX => ColdEnd::Missing,
        Errno::AGAIN => ColdEnd::WouldBlock,
        _ => ColdEnd::Regular,
    }
}
