//! Options of sites and of the cache: every option with unit, default and bound.
//!
//! Also the error for a folder that cannot be served. This file reads defaults that depend on the
//! machine from the machine, once.

use super::programs::SitePrograms;
use std::{
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};
use vermeil_io::Pages;

/// Which symbolic links the site follows. The site never follows links of `/proc` to open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum FollowSymlinks {
    /// Relative links that stay within the folder at every step. An absolute link counts as leaving
    /// the folder, wherever the link leads.
    #[default]
    Within,
    /// All links, wherever they lead.
    All,
    /// None.
    None,
}

/// The error for a word that names no [`FollowSymlinks`].
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

/// Whether the site lists a folder without an index page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Listing {
    /// The site lists the folder.
    #[default]
    On,
    /// The folder answers 403.
    Off,
}

/// Options of a site: which files the site serves, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SiteOptions {
    /// Which symbolic links the site follows. Default: links that stay within the folder.
    pub follow_symlinks: FollowSymlinks,
    /// Whether the site lists folders without an index page. Default: yes.
    pub listing: Listing,
    /// Names of index pages; a folder answers with the first page that exists. Names without
    /// slashes. Default: `index.html`.
    pub index_names: Vec<String>,
    /// Media types by extension. They take precedence over the built-in types. Default: none.
    pub types: Vec<TypeOf>,
    /// Which files are programs, beside the names that are programs on every host. Default: none,
    /// as on a host without PHP and CGI.
    pub programs: SitePrograms,
    /// `Cache-Control` of files by media type; the first match counts. Default: none.
    pub caching: Vec<CachingOf>,
    /// Whether files have entity tags. Default: yes.
    pub tags: FileTags,
}

/// Whether the answer for a file has an entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum FileTags {
    /// The answer has a tag.
    #[default]
    On,
    /// The answer has no tag; `Last-Modified` stays.
    Off,
}

/// `Cache-Control` of the files of a media type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CachingOf {
    /// The media types.
    pub types: MediaRange,
    /// The value of `Cache-Control`.
    pub value: Box<str>,
}

/// Media types: `text/css`, `image/*` or `*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MediaRange(Box<str>);

/// The error for a text that is no [`MediaRange`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no media type; write one such as \"text/css\", \"image/*\" or \"*\"")]
pub struct UnfitRange(String);

impl FromStr for MediaRange {
    type Err = UnfitRange;

    fn from_str(text: &str) -> Result<Self, UnfitRange> {
        let is_name = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic() && !b"/;,\"*".contains(&b))
        };
        let is_fit = match text.split_once('/') {
            Some((kind, name)) => is_name(kind) && (name == "*" || is_name(name)),
            None => text == "*",
        };
        if is_fit { Ok(Self(text.to_ascii_lowercase().into())) } else { Err(UnfitRange(text.to_owned())) }
    }
}

impl MediaRange {
    /// Whether the value of a `Content-Type` is one of these media types.
    pub fn contains(&self, content_type: &str) -> bool {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match self.0.strip_suffix('*') {
            Some(kind) => essence.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind)),
            None => essence.eq_ignore_ascii_case(&self.0),
        }
    }
}

impl Default for SiteOptions {
    fn default() -> Self {
        Self {
            follow_symlinks: FollowSymlinks::default(),
            listing: Listing::default(),
            index_names: vec!["index.html".to_owned()],
            types: Vec::new(),
            programs: SitePrograms::default(),
            caching: Vec::new(),
            tags: FileTags::default(),
        }
    }
}

/// The media type of files with an extension, written `EXTENSION=TYPE`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypeOf {
    /// The extension without its dot, in any case of letters.
    pub extension: Box<str>,
    /// The value of `Content-Type`. Text without a charset gets the charset UTF-8.
    pub media_type: Box<str>,
}

/// The error for a text that is no [`TypeOf`].
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

/// How the server sends files that are not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LargeFiles {
    /// The server reads each part, checks the file again, and only then sends the part.
    #[default]
    Copied,
    /// With sendfile(2): the kernel sends pages of its cache, which a writer may still change.
    Sendfile,
}

/// The bounds of the cache, for all sites and all cores together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Largest file whose content is kept in memory, in bytes. Larger files are sent from their
    /// descriptor. Default 4 MiB: making a copy of such a file takes a thread about 2 ms, and a
    /// sixteenth of the default for all contents.
    pub content_file_bytes_max: u64,
    /// Contents kept in memory, in bytes. At the bound the cache evicts the least used contents. A
    /// content without room is sent from its descriptor. Default 64 MiB, for a small machine.
    pub content_bytes_max: u64,
    /// Files held open. At the bound the cache closes the least used files. A file without room is
    /// opened for each request. Default: a quarter of the process's limit, at most 16,384.
    pub descriptors_max: u64,
    /// Paths in the index, including paths that do not exist, and spellings of paths in the map of
    /// each core. At the bound the cache evicts the least used paths. Default 32,768, for a small
    /// machine: about 1 KB each, without contents.
    pub entries_max: usize,
    /// Folders watched for changes. Beyond this bound, each use of a path checks the entry again.
    /// Default: half of the user's limit in `fs.inotify.max_user_watches`.
    pub watches_max: usize,
    /// Age in milliseconds at which an entry in use is checked again, regardless of events. Default
    /// 1,000, because the cost is then negligible: 3 µs per path in use and second, on a single
    /// core.
    pub recheck_ms: u64,
    /// How much older than its original, in milliseconds, a precompressed sibling may be. The
    /// server ignores an older sibling as a leftover. Default 2,000, because copying a folder
    /// writes siblings in any order, and an edit of the original comes later than that.
    pub sibling_lag_ms_max: u64,
    /// The kind of memory pages for contents. Default: pages of the allocator.
    pub pages: Pages,
    /// How the server sends files that are not in memory. Default: copied.
    pub large_files: LargeFiles,
    /// Names on a page of a listing; further names are on further pages. Default 50,000: a page of
    /// about 8 MB.
    pub listing_names_max: usize,
}

/// Default of [`StoreOptions::listing_names_max`].
pub const LISTING_NAMES_MAX: usize = 50_000;

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            content_file_bytes_max: 4 << 20,
            content_bytes_max: 64 << 20,
            descriptors_max: descriptors_allowed() / 4,
            entries_max: 32_768,
            watches_max: watches_allowed() / 2,
            recheck_ms: 1000,
            sibling_lag_ms_max: 2000,
            pages: Pages::default(),
            large_files: LargeFiles::default(),
            listing_names_max: LISTING_NAMES_MAX,
        }
    }
}

/// Most descriptors that the default assumes, because a process without a limit needs a bound too.
const DESCRIPTORS_COUNTED_MAX: u64 = 65_536;

fn descriptors_allowed() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(DESCRIPTORS_COUNTED_MAX).min(DESCRIPTORS_COUNTED_MAX)
}

/// The limit of every user before Linux 5.11. Since then the limit follows the size of memory.
const WATCHES_ALLOWED_FORMERLY: usize = 8192;

fn watches_allowed() -> usize {
    let setting = fs::read_to_string("/proc/sys/fs/inotify/max_user_watches");
    setting.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(WATCHES_ALLOWED_FORMERLY)
}

/// The error for a folder that cannot be served.
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

    /// The kind of error from the operating system.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

fn cure(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound => "there is no such folder; make it, or name another".to_owned(),
        io::ErrorKind::NotADirectory => "it is not a folder; name the folder it is in".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "no permission to read it; run as a user with that permission, or change its mode".to_owned()
        }
        io::ErrorKind::Unsupported => {
            "this kernel lacks openat2(2); Linux 5.15 or later is needed".to_owned()
        }
        _ => source.to_string(),
    }
}
