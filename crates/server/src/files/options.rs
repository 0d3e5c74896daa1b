//! What of a folder is served, and how much of it is kept: every knob with its unit, its default and what it bounds.
//!
//! Also the error of a folder that cannot be served. Defaults that depend on the machine are read from it here, once.

use super::programs::Programs;
use std::{
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};
use vermeil_io::Pages;

/// Which symbolic links are followed. Links of `/proc` to open files never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum FollowSymlinks {
    /// Relative ones that stay within the folder at every step. An absolute link counts as leaving it, wherever it
    /// leads.
    #[default]
    Within,
    /// All of them, wherever they lead.
    All,
    /// None.
    None,
}

/// A word that names no [`FollowSymlinks`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown choice '{0}' for symbolic links: use within, all or none")]
pub struct UnknownFollowSymlinks(String);

impl FromStr for FollowSymlinks {
    type Err = UnknownFollowSymlinks;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "within" => Ok(Self::Within),
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            _ => Err(UnknownFollowSymlinks(word.to_owned())),
        }
    }
}

/// Whether a folder without an index page is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Listing {
    /// It is.
    #[default]
    On,
    /// It answers 403.
    Off,
}

/// What of a folder is served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SiteOptions {
    /// Which symbolic links are followed. Default: those that stay within the folder.
    pub follow_symlinks: FollowSymlinks,
    /// Whether folders without an index page are listed. Default: they are.
    pub listing: Listing,
    /// The pages a folder answers with, the first that exists. Names without slashes. Default: `index.html`.
    pub index_names: Vec<String>,
    /// Media types by extension, before those that are known. Default: none.
    pub types: Vec<TypeOf>,
    /// Which files are programs, beside those that are everywhere. Default: none, as on a host without PHP and CGI.
    pub programs: Programs,
}

impl Default for SiteOptions {
    fn default() -> Self {
        Self {
            follow_symlinks: FollowSymlinks::default(),
            listing: Listing::default(),
            index_names: vec!["index.html".to_owned()],
            types: Vec::new(),
            programs: Programs::default(),
        }
    }
}

/// The media type of files with an extension, written `EXTENSION=TYPE`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypeOf {
    /// Without its dot; any case of letters is meant.
    pub extension: Box<str>,
    /// The value of `Content-Type`; text without a charset is said to be UTF-8.
    pub media_type: Box<str>,
}

/// A text that is no [`TypeOf`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no EXTENSION=TYPE; write one such as \"ts=video/mp2t\"")]
pub struct UnfitType(String);

impl FromStr for TypeOf {
    type Err = UnfitType;

    fn from_str(text: &str) -> Result<Self, UnfitType> {
        let unfit = || UnfitType(text.to_owned());
        let (extension, media_type) = text.split_once('=').ok_or_else(unfit)?;
        let extension = extension.strip_prefix('.').unwrap_or(extension);
        let is_name = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic() && !b"/;,\"".contains(&b))
        };
        let (essence, parameters) = media_type.split_once(';').unwrap_or((media_type, ""));
        let is_type =
            essence.trim().split_once('/').is_some_and(|(kind, name)| is_name(kind) && is_name(name));
        let is_fit = is_type && parameters.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
        let is_extension = !extension.is_empty() && !extension.contains(['/', '.']);
        (is_fit && is_extension)
            .then(|| Self { extension: extension.into(), media_type: media_type.into() })
            .ok_or_else(unfit)
    }
}

/// How files that are not kept in memory are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LargeFiles {
    /// Each part is read, the file is looked at again, and only then the part is sent.
    #[default]
    Copied,
    /// By sendfile(2): the kernel sends pages of its cache, which a writer may still change.
    Sendfile,
}

/// How much is kept of the folders served, all of them and all cores together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Largest file whose content is kept in memory, in bytes; larger ones are sent from their descriptor. Default
    /// 64 KiB: from about there sendfile(2) is reported to cost less than copying.
    pub content_file_bytes_max: u64,
    /// Contents kept in memory, in bytes. At the bound the least used go, and what finds no room is sent from its
    /// descriptor. Default 256 MiB.
    pub content_bytes_max: u64,
    /// Files held open. At the bound the least used are closed, and what finds no room is opened for each request.
    /// Default: a quarter of the process's limit, at most 16,384.
    pub descriptors_max: u64,
    /// Paths remembered, found or not, and spellings of paths remembered by each core. At the bound the least used go.
    /// Default 65,536: about 1 KB each, contents not counted.
    pub entries_max: usize,
    /// Folders watched for changes. Beyond it paths are looked up at each use. Default: half of what
    /// `fs.inotify.max_user_watches` allows the user.
    pub watches_max: usize,
    /// Age in milliseconds at which an entry in use is looked up again, whatever the kernel told. Default 1,000: what
    /// it costs then does not show: 3 µs per path in use and second, on one core.
    pub recheck_ms: u64,
    /// How much older than its original, in milliseconds, a precompressed sibling may be; one that is older still is
    /// taken for a leftover and ignored. Default 2,000: copying a folder writes siblings in any order, and an edit of
    /// the original comes later than that.
    pub sibling_lag_ms_max: u64,
    /// The pages that contents are on. Default: those of the allocator.
    pub pages: Pages,
    /// How files that are not kept in memory are sent. Default: copied.
    pub large_files: LargeFiles,
    /// Names on one page of a listing; more are on further pages. Default 50,000: a page of about 8 MB.
    pub listing_names_max: usize,
}

/// Default of [`StoreOptions::listing_names_max`].
pub const LISTING_NAMES_MAX: usize = 50_000;

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            content_file_bytes_max: 64 << 10,
            content_bytes_max: 256 << 20,
            descriptors_max: descriptors_allowed() / 4,
            entries_max: 65_536,
            watches_max: watches_allowed() / 2,
            recheck_ms: 1000,
            sibling_lag_ms_max: 2000,
            pages: Pages::default(),
            large_files: LargeFiles::default(),
            listing_names_max: LISTING_NAMES_MAX,
        }
    }
}

/// Most descriptors that the default counts on: a process without a limit needs one all the same.
const DESCRIPTORS_COUNTED_MAX: u64 = 65_536;

fn descriptors_allowed() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(DESCRIPTORS_COUNTED_MAX).min(DESCRIPTORS_COUNTED_MAX)
}

/// What Linux allowed every user before 5.11, when it began to follow the size of memory.
const WATCHES_ALLOWED_FORMERLY: usize = 8192;

fn watches_allowed() -> usize {
    let setting = fs::read_to_string("/proc/sys/fs/inotify/max_user_watches");
    setting.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(WATCHES_ALLOWED_FORMERLY)
}

/// A folder cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("serving the folder {}: {}", root.display(), cure(source))]
pub struct SiteError {
    root: PathBuf,
    source: io::Error,
}

impl SiteError {
    pub(super) fn new(root: &Path, source: impl Into<io::Error>) -> Self {
        Self { root: root.to_owned(), source: source.into() }
    }

    /// What the operating system said.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

fn cure(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound => "there is no such folder".to_owned(),
        io::ErrorKind::NotADirectory => "it is not a folder; name the folder it is in".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "no permission to read it; run as a user who may, or change its mode".to_owned()
        }
        io::ErrorKind::Unsupported => {
            "this kernel lacks openat2(2); Linux 5.15 or later is needed".to_owned()
        }
        _ => source.to_string(),
    }
}
