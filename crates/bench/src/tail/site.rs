//! The hosts and files of the random parts, and the sequence of requests.
//!
//! The sequence is drawn once, from a fixed seed, into a file that wrk's script reads. Thus every
//! server gets the same requests, and wrk draws nothing while it loads.

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

/// A random part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TailWork {
    /// One page of 1 KB of each host, all hosts alike.
    Hosts,
    /// Files of 4 KB, 100 in each folder, all files alike.
    Files,
    /// The same files, asked for by Zipf's law.
    Popular,
}

impl TailWork {
    /// Every part, in the order of the tables.
    pub(super) const ALL: [Self; 3] = [Self::Hosts, Self::Files, Self::Popular];

    /// The name in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hosts => "hosts",
            Self::Files => "files",
            Self::Popular => "files, zipf",
        }
    }

    /// The number of hosts or files.
    pub(super) fn count(self, size: BenchSize) -> usize {
        match (self, size) {
            (Self::Hosts, BenchSize::Full) => 20_000,
            (_, BenchSize::Full) => 200_000,
            (Self::Hosts, BenchSize::Smoke) => 100,
            (_, BenchSize::Smoke) => 1_000,
        }
    }
}

/// Files in a folder.
const FOLDER_FILES: usize = 100;

/// The files of a part, in a temporary folder, and its sequence.
#[derive(Debug)]
pub(super) struct TailSite {
    folder: TempDir,
    work: TailWork,
    count: usize,
}

impl TailSite {
    /// Makes the files and draws the sequence.
    pub(super) fn new(work: TailWork, size: BenchSize) -> BenchResult<Self> {
        let folder = tempfile::tempdir().map_err(BenchError::thing("make", "a temporary folder"))?;
        let site = Self { folder, work, count: work.count(size) };
        // The servers give up root and must be able to look inside.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(site.path(), open).map_err(BenchError::path("open", site.path()))?;
        let page = vec![b'x'; site.page_bytes() as usize];
        for number in 0..site.count {
            let path = site.file(number);
            if let Some(parent) =
                path.parent().filter(|_| work == TailWork::Hosts || number % FOLDER_FILES == 0)
            {
                fs::create_dir_all(parent).map_err(BenchError::path("make", parent))?;
            }
            fs::write(&path, &page).map_err(BenchError::path("write", &path))?;
        }
        site.draw(size)?;
        Ok(site)
    }

    pub(super) fn work(&self) -> TailWork {
        self.work
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of each file.
    pub(super) fn page_bytes(&self) -> u64 {
        if self.work == TailWork::Hosts { 1024 } else { 4096 }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder with the files, or with a folder for each host, called like the host.
    pub(super) fn root(&self) -> PathBuf {
        self.path().join("root")
    }

    /// A new folder for a server's configuration, log and state.
    pub(super) fn state(&self, server: &str) -> BenchResult<PathBuf> {
        let state = self.path().join(server);
        fs::create_dir_all(&state).map_err(BenchError::path("make", &state))?;
        Ok(state)
    }

    /// The name of a host.
    pub(super) fn host(&self, number: usize) -> String {
        format!("site-{number}.example")
    }

    fn url_path(&self, number: usize) -> String {
        match self.work {
            TailWork::Hosts => "/".into(),
            TailWork::Files | TailWork::Popular => {
                format!("/{}/{}.html", number / FOLDER_FILES, number % FOLDER_FILES)
            }
        }
    }

    fn file(&self, number: usize) -> PathBuf {
        match self.work {
            TailWork::Hosts => self.root().join(self.host(number)).join("index.html"),
            TailWork::Files | TailWork::Popular => self.root().join(&self.url_path(number)[1..]),
        }
    }

    /// A request for the host or file `number`.
    pub(super) fn target(&self, number: usize) -> ProbeTarget {
        let host = (self.work == TailWork::Hosts).then(|| self.host(number));
        ProbeTarget { host, ..ProbeTarget::to(&self.url_path(number)) }
    }

    fn sequence(&self) -> PathBuf {
        self.path().join("sequence")
    }

    /// Draws the numbers of the requested hosts or files.
    fn draw(&self, size: BenchSize) -> BenchResult<()> {
        let draws = if size == BenchSize::Full { 400_000 } else { 2_000 };
        let skew = if self.work == TailWork::Popular { ZIPF } else { 0.0 };
        let mut text = String::with_capacity(7 * draws);
        for key in Zipf::new(self.count as u32, skew).draw(SEED, draws) {
            let _infallible = writeln!(text, "{}", place(key as usize, self.count));
        }
        let path = self.sequence();
        fs::write(&path, text).map_err(BenchError::path("write", &path))
    }

    /// The part of wrk's script that makes the requests. A request is formatted at its first use.
    pub(super) fn requests(&self) -> String {
        let made = match self.work {
            TailWork::Hosts => {
                r#"wrk.format(nil, "/", { Host = "site-" .. number .. ".example" })"#.to_owned()
            }
            TailWork::Files | TailWork::Popular => format!(
                r#"wrk.format(nil, "/" .. math.floor(number / {FOLDER_FILES}) .. "/" .. number % {FOLDER_FILES} .. ".html")"#
            ),
        };
        format!(
            r#"
local sequence, place, made = {{}}, 0, {{}}
init = function(args)
  for line in io.lines("{}") do sequence[#sequence + 1] = tonumber(line) end
  math.randomseed(os.time())
  place = math.random(#sequence)
end
request = function()
  place = place % #sequence + 1
  local number = sequence[place]
  local text = made[number]
  if not text then
    text = {made}
    made[number] = text
  end
  return text
end
"#,
            self.sequence().display()
        )
    }
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
    fn each_file_has_its_own_place() {
        for work in TailWork::ALL {
            for size in [BenchSize::Full, BenchSize::Smoke] {
                let count = work.count(size);
                let mut places: Vec<usize> = (0..count).map(|key| place(key, count)).collect();
                let folders: Vec<usize> = places[..10].iter().map(|place| place / FOLDER_FILES).collect();
                let is_spread = work == TailWork::Files && size == BenchSize::Full;
                assert!(!is_spread || folders.windows(2).all(|pair| pair[0] != pair[1]));
                places.sort_unstable();
                assert!(places.iter().copied().eq(0..count));
            }
        }
    }

    #[test]
    fn popular_files_take_most_requests() {
        let keys = Zipf::new(200_000, ZIPF).draw(SEED, 100_000);
        let popular = keys.iter().filter(|&&key| key < 2_000).count();
        assert!((40_000..60_000).contains(&popular), "the first percent takes {popular} of 100,000");
    }
}
