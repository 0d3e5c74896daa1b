//! The hosts and files of the random parts, and the sequence of requests.
//!
//! The sequence is drawn once, from a fixed seed, into a file that wrk's script reads. Thus every
//! server gets the same requests, and wrk draws nothing while it loads. A second sequence visits
//! each folder once.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use vermeil_programs::kernel::zipf::Zipf;

use crate::probe::ProbeTarget;
use crate::size::BenchSize;
use crate::{BenchError, BenchResult};

/// The exponent of the popular files' part, as measured for pages of web sites (Breslau and others,
/// "Web Caching and Zipf-like Distributions", 1999).
const ZIPF: f64 = 0.9;

/// The seed of every sequence.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// A prime that divides no number of hosts or files.
const STRIDE: usize = 7_919;

/// The hosts or files of a random part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TailTree {
    /// Hosts with one page of 1 KB.
    Hosts,
    /// The same, five times as many.
    ManyHosts,
    /// Hosts with [`HOST_PAGES`] pages of 1 KB.
    HostPages,
    /// Files of 4 KB, [`FOLDER_FILES`] in each folder.
    Files,
    /// The same, ten times as many.
    ManyFiles,
    /// The same, for a slow disk.
    SlowFiles,
}

impl TailTree {
    /// The number of hosts or files in a full run.
    fn full_count(self) -> usize {
        match self {
            Self::Hosts => 20_000,
            Self::ManyHosts => 100_000,
            Self::HostPages => 20_000 * HOST_PAGES,
            Self::Files => 200_000,
            Self::ManyFiles => 2_000_000,
            Self::SlowFiles => 16_000,
        }
    }

    /// The number of pages, all files together.
    pub(crate) fn count(self, size: BenchSize) -> usize {
        match size {
            BenchSize::Full => self.full_count(),
            BenchSize::Smoke => self.full_count() / 200,
        }
    }

    /// The pages of each host; `None` if all files are of one host.
    fn host_pages(self) -> Option<usize> {
        match self {
            Self::Hosts | Self::ManyHosts => Some(1),
            Self::HostPages => Some(HOST_PAGES),
            Self::Files | Self::ManyFiles | Self::SlowFiles => None,
        }
    }
}

/// A random part: the pages, and which of them are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TailWork {
    /// The name in rows.
    pub(crate) name: &'static str,
    pub(crate) tree: TailTree,
    /// The exponent of Zipf's law; 0 if all pages are alike.
    skew: f64,
    /// Whether the pages are on overlayfs, which cannot tell whether a read waits.
    pub(crate) overlay: bool,
}

impl TailWork {
    /// Every part, in the order of the tables. Parts with the same pages stand together.
    pub(crate) const ALL: [Self; 8] = [
        Self::even("20,000 hosts", TailTree::Hosts),
        Self::even("100,000 hosts", TailTree::ManyHosts),
        Self::even("20,000 hosts, 20 pages each", TailTree::HostPages),
        Self::even("200,000 files", TailTree::Files),
        Self { skew: ZIPF, ..Self::even("200,000 files, zipf", TailTree::Files) },
        Self { overlay: true, ..Self::even("200,000 files, overlayfs", TailTree::Files) },
        Self::even("2,000,000 files", TailTree::ManyFiles),
        Self { skew: ZIPF, ..Self::even("2,000,000 files, zipf", TailTree::ManyFiles) },
    ];

    /// The parts of the smoke size: hosts, popular files, and files on overlayfs. The other parts
    /// differ from these only in the number of pages.
    const SMOKE: [Self; 3] = [Self::ALL[2], Self::ALL[4], Self::ALL[5]];

    /// The parts of a run.
    pub(super) fn of(size: BenchSize) -> &'static [Self] {
        match size {
            BenchSize::Full => &Self::ALL,
            BenchSize::Smoke => &Self::SMOKE,
        }
    }

    /// Pages that are all alike.
    const fn even(name: &'static str, tree: TailTree) -> Self {
        Self { name, tree, skew: 0.0, overlay: false }
    }
}

/// Pages of each host of [`TailTree::HostPages`].
const HOST_PAGES: usize = 20;

/// Files in a folder.
pub(super) const FOLDER_FILES: usize = 100;

/// The pages of some parts, in a temporary folder, and the sequence of requests.
#[derive(Debug)]
pub(crate) struct TailSite {
    folder: TempDir,
    tree: TailTree,
    count: usize,
}

impl TailSite {
    /// Makes the pages.
    pub(crate) fn new(tree: TailTree, size: BenchSize) -> BenchResult<Self> {
        let folder = tempfile::tempdir().map_err(BenchError::thing("make", "a temporary folder"))?;
        let site = Self { folder, tree, count: tree.count(size) };
        // The servers give up root and must be able to look inside.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(site.path(), open).map_err(BenchError::path("open", site.path()))?;
        let page = vec![b'x'; site.page_bytes() as usize];
        for number in 0..site.count {
            let path = site.file(number);
            if let Some(parent) = path.parent().filter(|_| number % site.folder_pages() == 0) {
                fs::create_dir_all(parent).map_err(BenchError::path("make", parent))?;
            }
            fs::write(&path, &page).map_err(BenchError::path("write", &path))?;
        }
        Ok(site)
    }

    /// The hosts with their folders. Pages without a host are of the host `localhost`.
    pub(crate) fn hosts(&self) -> Vec<(String, PathBuf)> {
        let host = |number| (host_name(number), self.root().join(host_name(number)));
        match self.tree.host_pages() {
            Some(pages) => (0..self.count / pages).map(host).collect(),
            None => vec![("localhost".to_owned(), self.root())],
        }
    }

    /// Whether each host has a folder called like the host.
    pub(crate) fn has_host_folders(&self) -> bool {
        self.tree.host_pages().is_some()
    }

    /// Bytes of each page.
    pub(crate) fn page_bytes(&self) -> u64 {
        if self.has_host_folders() { 1024 } else { 4096 }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder with the files, or with a folder for each host, called like the host.
    pub(crate) fn root(&self) -> PathBuf {
        self.path().join("root")
    }

    /// A new folder for a server's configuration, log and state.
    pub(crate) fn state(&self, server: &str) -> BenchResult<PathBuf> {
        let state = self.path().join(server);
        fs::create_dir_all(&state).map_err(BenchError::path("make", &state))?;
        Ok(state)
    }

    fn url_path(&self, number: usize) -> String {
        match self.tree.host_pages() {
            Some(1) => "/".into(),
            Some(pages) => format!("/{}.html", number % pages),
            None => format!("/{}/{}.html", number / FOLDER_FILES, number % FOLDER_FILES),
        }
    }

    fn file(&self, number: usize) -> PathBuf {
        match self.tree.host_pages() {
            Some(1) => self.root().join(host_name(number)).join("index.html"),
            Some(pages) => self.root().join(host_name(number / pages)).join(&self.url_path(number)[1..]),
            None => self.root().join(&self.url_path(number)[1..]),
        }
    }

    /// A request for the page `number`.
    pub(crate) fn target(&self, number: usize) -> ProbeTarget {
        let host = self.tree.host_pages().map(|pages| host_name(number / pages));
        ProbeTarget { host, ..ProbeTarget::to(&self.url_path(number)) }
    }

    /// The number of pages.
    pub(super) fn pages(&self) -> usize {
        self.count
    }

    /// The number of folders with pages.
    pub(super) fn folders(&self) -> usize {
        self.count / self.folder_pages()
    }

    fn folder_pages(&self) -> usize {
        self.tree.host_pages().unwrap_or(FOLDER_FILES)
    }

    fn sequence(&self) -> PathBuf {
        self.path().join("sequence")
    }

    fn visits(&self) -> PathBuf {
        self.path().join("visits")
    }

    /// Draws the numbers of the pages that `work` asks for, and lists a page of each folder.
    pub(crate) fn draw(&self, work: TailWork, size: BenchSize) -> BenchResult<()> {
        let draws = if size == BenchSize::Full { 400_000 } else { 2_000 };
        let mut text = String::with_capacity(8 * draws);
        for key in Zipf::new(self.count as u32, work.skew).draw(SEED, draws) {
            let _infallible = writeln!(text, "{}", place(key as usize, self.count));
        }
        write_numbers(&self.sequence(), text)?;
        let mut text = String::with_capacity(8 * self.folders());
        for key in 0..self.folders() {
            let _infallible = writeln!(text, "{}", place(key, self.folders()) * self.folder_pages());
        }
        write_numbers(&self.visits(), text)
    }

    /// The part of wrk's script that makes the drawn requests, again and again from a random place
    /// on.
    pub(crate) fn requests(&self) -> String {
        self.script(&self.sequence(), "place = math.random(#sequence)", "place = place % #sequence + 1")
    }

    /// The part of wrk's script that asks for a page of each folder, and then stops wrk.
    pub(crate) fn first_visits(&self) -> String {
        // SIGINT makes wrk report its results and end; `wrk.thread:stop()` would not end wrk.
        let begin = r#"ffi = require("ffi"); ffi.cdef("int getpid(); int kill(int, int);"); place = 0"#;
        let next = "if place == #sequence then ffi.C.kill(ffi.C.getpid(), 2) else place = place + 1 end";
        self.script(&self.visits(), begin, next)
    }

    /// The functions of wrk's script. A request is formatted at its first use.
    fn script(&self, sequence: &Path, begin: &str, next: &str) -> String {
        let host =
            |pages: usize| format!(r#"{{ Host = "site-" .. math.floor(number / {pages}) .. ".example" }}"#);
        let made = match self.tree.host_pages() {
            Some(1) => format!(r#"wrk.format(nil, "/", {})"#, host(1)),
            Some(pages) => {
                format!(r#"wrk.format(nil, "/" .. number % {pages} .. ".html", {})"#, host(pages))
            }
            None => format!(
                r#"wrk.format(nil, "/" .. math.floor(number / {FOLDER_FILES}) .. "/" .. number % {FOLDER_FILES} .. ".html")"#
            ),
        };
        format!(
            r#"
local sequence, place, made = {{}}, 0, {{}}
init = function(args)
  for line in io.lines("{}") do sequence[#sequence + 1] = tonumber(line) end
  math.randomseed(os.time())
  {begin}
end
request = function()
  {next}
  local number = sequence[place]
  local text = made[number]
  if not text then
    text = {made}
    made[number] = text
  end
  return text
end
"#,
            sequence.display()
        )
    }
}

/// Writes a sequence, a number in each line.
fn write_numbers(path: &Path, text: String) -> BenchResult<()> {
    fs::write(path, text).map_err(BenchError::path("write", path))
}

/// The name of a host.
fn host_name(number: usize) -> String {
    format!("site-{number}.example")
}

/// The place of the `key`th most popular of `count` files. Files of one popularity are in different
/// folders.
fn place(key: usize, count: usize) -> usize {
    key * STRIDE % count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_its_own_place() {
        for work in TailWork::ALL {
            let count = work.tree.count(BenchSize::Smoke);
            let mut places: Vec<usize> = (0..count).map(|key| place(key, count)).collect();
            places.sort_unstable();
            assert!(places.iter().copied().eq(0..count));
        }
    }

    #[test]
    fn popular_files_are_in_different_folders() {
        let count = TailTree::Files.count(BenchSize::Full);
        let folders: Vec<usize> = (0..10).map(|key| place(key, count) / FOLDER_FILES).collect();
        assert!(folders.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn popular_files_take_most_requests() {
        let keys = Zipf::new(200_000, ZIPF).draw(SEED, 100_000);
        let popular = keys.iter().filter(|&&key| key < 2_000).count();
        assert!((40_000..60_000).contains(&popular), "the first percent takes {popular} of 100,000");
    }
}
