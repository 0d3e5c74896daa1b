//! What the tests of this folder share: a site in a temporary folder, and asking it like one core does.

use super::*;
use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};
use vermeil_http::negotiate::Choice;

mod basics;

/// How long a condition may take to come true before a test fails.
const DEADLINE: Duration = Duration::from_secs(10);

/// A folder, its site and one core's cache.
struct World {
    _dir: tempfile::TempDir,
    root: PathBuf,
    cache: CoreCache,
    now_ms: u64,
}

impl World {
    fn new() -> Self {
        Self::with(SiteOptions::default())
    }

    fn with(options: SiteOptions) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let root = dir.path().join("root");
        fs::create_dir(&root).expect("a root");
        let cache = CoreCache::new(Site::open(&root, options).expect("a site"));
        Self { _dir: dir, root, cache, now_ms: 10_000 }
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

    /// Asks as a core does that takes in the kernel's news first.
    fn get(&mut self, path: &str) -> Handle {
        self.cache.site().handle_events();
        match self.cache.lookup(path.as_bytes(), self.now_ms) {
            Lookup::Hit(handle) => handle.clone(),
            Lookup::Never(status) => panic!("{path} is {status:?}"),
            Lookup::Miss(mut job) => {
                let loaded = job.try_now().unwrap_or_else(|WouldBlock| job.run());
                self.cache.insert(loaded)
            }
        }
    }

    /// Whether the path would be answered without looking.
    fn is_hit(&mut self, path: &str) -> bool {
        self.cache.site().handle_events();
        matches!(self.cache.lookup(path.as_bytes(), self.now_ms), Lookup::Hit(_))
    }

    /// The answer in a few words: the content of a file, or what else.
    fn text(&mut self, path: &str) -> String {
        let handle = self.get(path);
        describe(&handle)
    }
}

fn describe(entry: &Entry) -> String {
    match entry.outcome() {
        Outcome::File(file) => String::from_utf8_lossy(&body(file.variant(Choice::Identity))).into_owned(),
        Outcome::Redirect { location } => format!("-> {}", String::from_utf8_lossy(location)),
        Outcome::Listing { .. } => "listing".to_owned(),
        Outcome::Forbidden => "403".to_owned(),
        Outcome::NotFound(_) => match entry.not_found_page() {
            Some(page) => format!("404 {}", String::from_utf8_lossy(&body(page.variant(Choice::Identity)))),
            None => "404".to_owned(),
        },
        Outcome::Unavailable(status) => format!("{}", status.code()),
    }
}

/// The bytes of a representation, wherever they are.
fn body(variant: &Variant) -> Vec<u8> {
    match variant.content() {
        Content::Memory(bytes) => bytes.to_vec(),
        Content::Disk(file) => {
            let mut bytes = vec![0; variant.bytes() as usize];
            let count = rustix::io::pread(file, &mut bytes, 0).expect("reading");
            bytes.truncate(count);
            bytes
        }
    }
}

/// Asks until the answer is as expected.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < DEADLINE, "{what} did not come true in time");
        std::thread::yield_now();
    }
}
