//! The folders from which programs may have files sent: by `X-Sendfile` with a path in the file
//! system, and by `X-Accel-Redirect` with a path below a configured prefix.
//!
//! Leaves out sending. Tested below.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::Arc,
};
use vermeil_files::{FileStore, Listing, RouteEffect, Site, SiteError, SiteOptions, SitePart, SitePrograms};
use vermeil_http::path::{self, PathError};
use vermeil_io::CacheOnly;
use vermeil_routing::{
    hosts::{Action, Hosts},
    paths,
};
use vermeil_settings::gateway::{GatewayOptions, HostSends, SendRoot, Sends};

/// The open folders from which programs may have files sent. A folder that a reload keeps stays
/// open, with its cache entries.
#[derive(Clone, Default)]
pub struct SendSites(Arc<HashMap<SendRoot, Arc<SendSite>>>);

impl SendSites {
    /// Opens the folders of `options` and `hosts` in the cache of all files. Reuses folders that
    /// are open in `before`.
    ///
    /// # Errors
    /// A folder cannot be served.
    pub fn open(
        options: &GatewayOptions,
        hosts: &Hosts,
        before: &Self,
        store: &Arc<FileStore>,
    ) -> Result<Self, SiteError> {
        let opened = send_roots(options, hosts).map(|root| {
            let programs = programs_in(&paths::absolute(&root.folder), hosts);
            let site = match before.0.get(root).filter(|site| site.site.options().programs == programs) {
                Some(site) => site.clone(),
                None => Arc::new(SendSite::open(root, programs, store)?),
            };
            Ok((root.clone(), site))
        });
        opened.collect::<Result<_, _>>().map(|sites| Self(Arc::new(sites)))
    }

    /// The open folders among `roots`.
    pub fn of<'s>(&'s self, roots: &'s [SendRoot]) -> impl Iterator<Item = &'s SendSite> {
        roots.iter().filter_map(|root| self.0.get(root).map(Arc::as_ref))
    }
}

/// All configured folders, without duplicates.
pub fn send_roots<'o>(options: &'o GatewayOptions, hosts: &'o Hosts) -> impl Iterator<Item = &'o SendRoot> {
    let Sends { php, cgi } = &options.sends;
    let of_hosts = hosts.sends().flat_map(|HostSends { php, cgi }| php.iter().chain(cgi).flatten());
    let mut seen = HashSet::new();
    php.iter().chain(cgi).chain(of_hosts).filter(move |root| seen.insert(*root))
}

/// A folder from which files are sent.
pub struct SendSite {
    prefix: Option<Vec<u8>>,
    /// The absolute path, without a slash at the end.
    folder: Vec<u8>,
    site: Arc<Site>,
}

impl SendSite {
    /// The folder, opened.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Opens the folder of `root` in the cache of all files.
    pub fn open(root: &SendRoot, programs: SitePrograms, store: &Arc<FileStore>) -> Result<Self, SiteError> {
        let options = SiteOptions {
            listing: Listing::Off,
            index_names: Vec::new(),
            programs,
            ..SiteOptions::default()
        };
        let prefix = root.prefix.as_ref().map(|prefix| prefix.trim_end_matches('/').as_bytes().to_vec());
        let folder = paths::absolute(&root.folder);
        let site = store.open(&folder, options, CacheOnly::No)?;
        Ok(Self { prefix, folder: trimmed(&folder), site })
    }
}

/// The programs of all hosts that may lie in `folder`: by their names, and by their folders where
/// these are in `folder`. If `folder` lies inside a program folder, it was configured for sending
/// all the same, so it holds files.
fn programs_in(folder: &Path, hosts: &Hosts) -> SitePrograms {
    let mut parts = Vec::new();
    for host in hosts.iter().map(|id| hosts.host(id)) {
        for route in host.rules.routes.iter().filter(|route| route.action == Action::Cgi) {
            let prefix = match (&route.suffix, host.root) {
                (Some(_), _) => None,
                (None, Some(root)) => {
                    let prefix = route.prefix.as_deref().unwrap_or("/").trim_matches('/');
                    let Ok(below) = root.join(prefix).strip_prefix(folder).map(Path::to_owned) else {
                        continue;
                    };
                    below.to_str().map(|below| format!("/{below}").into())
                }
                (None, None) => continue,
            };
            let part = (SitePart { prefix, suffix: route.suffix.clone() }, RouteEffect::ToCgi);
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    SitePrograms { last_index: None, parts }
}

fn trimmed(folder: &Path) -> Vec<u8> {
    let bytes = folder.as_os_str().as_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes).to_vec()
}

/// The file that a program named.
#[derive(Clone, Copy, Debug)]
pub enum Named<'a> {
    /// An encoded path, as in a request.
    Path(&'a [u8]),
    /// An absolute path in the file system.
    File(&'a [u8]),
}

impl Named<'_> {
    /// The folder of the file among `roots`, and the encoded path within.
    pub fn find<'s>(
        self,
        mut roots: impl Iterator<Item = &'s SendSite>,
    ) -> Result<(&'s SendSite, Vec<u8>), SendRefusal> {
        let found = match self {
            Self::File(file) => roots.find_map(|root| Some((root, encoded(below(&root.folder, file)?)))),
            Self::Path(raw) => {
                let path_len = raw.iter().position(|&byte| byte == b'?').unwrap_or(raw.len());
                let mut decoded = Vec::new();
                let decoded =
                    path::decode(&raw[..path_len], &mut decoded).map_err(SendRefusal::NoPath)?.bytes;
                roots.find_map(|root| Some((root, encoded(below(root.prefix.as_ref()?, decoded)?))))
            }
        };
        found.ok_or(SendRefusal::Elsewhere)
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "X-Accel-Redirect: {}", path.escape_ascii()),
            Self::File(path) => write!(f, "X-Sendfile: {}", path.escape_ascii()),
        }
    }
}

/// Why a file is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRefusal {
    /// The name is not a valid path.
    NoPath(PathError),
    /// The file is in no allowed folder.
    Elsewhere,
}

impl SendRefusal {
    /// The reason, for the operator. `cure` is the option or key that names such a folder.
    pub fn said(self, named: Named<'_>, cure: &str) -> String {
        match self {
            Self::NoPath(PathError::NotAbsolute) => format!("{named} does not begin with a slash"),
            Self::NoPath(PathError::BadEscape) => {
                format!("{named} has a % without two hexadecimal digits: write the path percent-encoded")
            }
            Self::NoPath(PathError::Nul | PathError::EncodedSlash) => {
                format!("{named} has an encoded NUL or slash, which no name of a file holds")
            }
            Self::NoPath(PathError::TooLong) => {
                format!("{named} is longer than {} bytes", path::PATH_BYTES_MAX)
            }
            Self::Elsewhere => format!("{named} is in no folder that files may be sent from ({cure})"),
        }
    }
}

/// The part of `path` after `start`, in whole segments. Starts with a slash.
fn below<'p>(start: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    path.strip_prefix(start).filter(|rest| rest.starts_with(b"/"))
}

/// Encodes a path as in a request.
pub fn encoded(path: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(path.len());
    path::percent_encode_path(path, &mut encoded);
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_whole_segments_of_allowed_folders_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let around = folder.path();
        let store = FileStore::new(vermeil_files::StoreOptions::default());
        let open = |prefix: Option<&str>, name: &str| {
            std::fs::create_dir(around.join(name)).expect("made");
            let root = SendRoot { prefix: prefix.map(str::to_owned), folder: around.join(name) };
            SendSite::open(&root, SitePrograms::default(), &store).expect("opened")
        };
        let roots = [open(None, "one"), open(Some("/files/"), "two")];
        let find = |named: Named<'_>| {
            let (root, path) = named.find(roots.iter()).ok()?;
            let place = roots.iter().position(|other| std::ptr::eq(root, other)).expect("one of them");
            Some((place, String::from_utf8(path).expect("ASCII")))
        };
        let in_folder = |name: &str| find(Named::File(around.join(name).as_os_str().as_bytes()));
        assert_eq!(in_folder("one/a b"), Some((0, "/a%20b".into())));
        assert_eq!(in_folder("two/c/d"), Some((1, "/c/d".into())));
        assert_eq!((in_folder("one"), in_folder("oneself/x"), in_folder("x")), (None, None, None));
        let by_path = |path: &str| find(Named::Path(path.as_bytes()));
        assert_eq!(by_path("/files/a%20b?c"), Some((1, "/a%20b".into())));
        assert_eq!(by_path("/files/../files/x"), Some((1, "/x".into())));
        assert_eq!((by_path("/filesystem/x"), by_path("/x"), by_path("files/x")), (None, None, None));
        // Regression: the message said that the file is in no such folder.
        let refused = Named::Path(b"/files/90%.txt");
        let why =
            refused.find(roots.iter()).map(drop).expect_err("a broken escape").said(refused, "--php-send");
        assert!(why.starts_with("X-Accel-Redirect: /files/90%.txt has a % without two"), "{why}");
        // The folder itself refuses paths that climb, as for any request.
        assert_eq!(in_folder("one/../two/x"), Some((0, "/../two/x".into())));
    }
}
