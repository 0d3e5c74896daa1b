//! Shared code of the tests of this folder: a site in a temporary folder, and requests as a core
//! makes them.

use super::{core_cache::ADMITTED_REQUESTS, *};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use vermeil_http::negotiate::Choice;
use vermeil_io::CacheOnly;

mod basics;
mod bounds;
mod changes;
mod cold;
mod content;
mod heads;
mod links;
mod policy;
mod programs;
mod root;
mod siblings;
mod sites;
mod torture;
mod untold;

/// Counts every file as settled, because waiting would make the tests slow.
const SETTLED: i64 = i64::MIN;

/// A folder, its site and the cache of a core.
struct FilesWorld {
    _dir: tempfile::TempDir,
    root: PathBuf,
    site: Arc<Site>,
    cache: CoreCache,
    now_ms: u64,
}

impl FilesWorld {
    fn new() -> Self {
        Self::with(SiteOptions::default(), StoreOptions::default())
    }

    fn bounded(store: StoreOptions) -> Self {
        Self::with(SiteOptions::default(), store)
    }

    fn serving(site: SiteOptions) -> Self {
        Self::with(site, StoreOptions::default())
    }

    fn with(site: SiteOptions, store: StoreOptions) -> Self {
        let (dir, root) = folder();
        let site =
            FileStore::with(store, inotify(), SETTLED).open(&root, site, CacheOnly::No).expect("a site");
        Self::of(dir, root, site)
    }

    fn of(dir: tempfile::TempDir, root: PathBuf, site: Arc<Site>) -> Self {
        let cache = CoreCache::new(site.store().clone());
        Self { _dir: dir, root, site, cache, now_ms: 10_000 }
    }

    /// A path below the root.
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("folders");
        fs::write(path, content).expect("a file");
    }

    /// Looks a path up as a core does. A path that is not remembered is looked up twice: first for
    /// a single request, then to be remembered. Both look-ups must find the same.
    fn get(&mut self, path: &str) -> EntryHandle {
        let (first, is_hit) = self.look(path);
        if is_hit {
            return first;
        }
        let mut last = first.clone();
        for _ in 1..ADMITTED_REQUESTS {
            last = self.look(path).0;
            assert_eq!(describe(&first), describe(&last), "{path} at first and when remembered");
        }
        last
    }

    /// Looks a path up once.
    fn get_once(&mut self, path: &str) -> EntryHandle {
        self.look(path).0
    }

    /// Looks a path up as a core does that handles pending events first. Also returns whether the
    /// cache had the answer.
    fn look(&mut self, path: &str) -> (EntryHandle, bool) {
        self.cache.store().handle_events();
        match self.cache.lookup(&self.site, path.as_bytes(), self.now_ms) {
            Lookup::Hit(handle) => (handle.clone(), true),
            Lookup::Never(status) => panic!("{path} is {status:?}"),
            Lookup::Miss(mut job) => {
                let loaded = job.try_now().unwrap_or_else(|WouldBlock| job.run());
                (self.cache.insert(loaded), false)
            }
        }
    }

    /// Looks a path up twice. The second look-up must be a hit.
    fn settle(&mut self, path: &str, expected: &str) -> EntryHandle {
        assert_eq!(self.text(path), expected, "{path} at first");
        assert!(self.is_hit(path), "{path} is remembered");
        let handle = self.get(path);
        assert_eq!(describe(&handle), expected, "{path} from memory");
        handle
    }

    /// Whether the cache answers the path without a look-up.
    fn is_hit(&mut self, path: &str) -> bool {
        self.cache.store().handle_events();
        matches!(self.cache.lookup(&self.site, path.as_bytes(), self.now_ms), Lookup::Hit(_))
    }

    /// The answer in a few words: the content of a file, or the kind of the outcome.
    fn text(&mut self, path: &str) -> String {
        let handle = self.get(path);
        describe(&handle)
    }
}

fn describe(entry: &Entry) -> String {
    match entry.outcome() {
        EntryOutcome::File(file) => {
            String::from_utf8_lossy(&body(file.variant(Choice::Identity))).into_owned()
        }
        EntryOutcome::Redirect { location } => format!("-> {}", String::from_utf8_lossy(location)),
        EntryOutcome::Listing { .. } => "listing".to_owned(),
        EntryOutcome::Program { script } => format!("program {}", String::from_utf8_lossy(script)),
        EntryOutcome::Forbidden => "403".to_owned(),
        EntryOutcome::NotFound(_) => match entry.not_found_page() {
            Some(page) => format!("404 {}", String::from_utf8_lossy(&body(page.variant(Choice::Identity)))),
            None => "404".to_owned(),
        },
        EntryOutcome::Unavailable(status) => format!("{}", status.code()),
    }
}

/// The tag of a file.
fn tag(entry: &Entry) -> Vec<u8> {
    match entry.outcome() {
        EntryOutcome::File(file) => file.variant(Choice::Identity).validators().etag.to_vec(),
        _ => panic!("a file"),
    }
}

/// The bytes of a representation, from memory or from disk.
fn body(variant: &Variant) -> Vec<u8> {
    match variant.content() {
        Content::Memory(bytes) => bytes.to_vec(),
        Content::Sealed(content) => content.bytes().to_vec(),
        Content::Disk(file) => {
            let mut bytes = vec![0; variant.bytes() as usize];
            let count = rustix::io::pread(file, &mut bytes, 0).expect("reading");
            bytes.truncate(count);
            bytes
        }
    }
}

fn inotify() -> Option<Arc<std::os::fd::OwnedFd>> {
    use rustix::fs::inotify::{CreateFlags, init};
    Some(Arc::new(init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("inotify")))
}

/// A folder called `root` in a temporary folder, on a file system with inotify events if such a
/// file system is available.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let mut places = vec![tempfile::tempdir().expect("a temporary folder")];
    places.extend(tempfile::tempdir_in("/dev/shm"));
    for place in places {
        let root = place.path().join("root");
        fs::create_dir(&root).expect("a root");
        let site = FileStore::new(StoreOptions::default())
            .open(&root, SiteOptions::default(), CacheOnly::No)
            .expect("a site");
        if site.describe_changes() == "told by inotify" {
            return (place, root);
        }
    }
    panic!("neither the temporary folder nor /dev/shm is on a file system that inotify can vouch for");
}

fn set_mtime(path: &Path, seconds: u64) {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    fs::File::options().append(true).open(path).and_then(|file| file.set_modified(time)).expect("a time");
}
