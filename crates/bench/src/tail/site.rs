//! The hosts and files of the random parts, and the sequence of requests.
//!
//! The sequence is drawn once, from a fixed seed, into a file that wrk's script reads. Thus every
//! server gets the same requests, and wrk draws nothing while it loads.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::probe::ProbeTarget;
use crate::size::BenchSize;
use crate::{BenchError, BenchResult};

/// The exponent of the popular files' part, as measured for pages of web sites (Breslau and others,
/// "Web Caching and Zipf-like Distributions", 1999).
const ZIPF: f64 = 0.9;

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
        let mut random = SequenceRandom(0x9E37_79B9_7F4A_7C15);
        let shares = match self.work {
            TailWork::Hosts | TailWork::Files => Vec::new(),
            TailWork::Popular => cumulative_zipf(self.count),
        };
        // Files of one popularity are in different folders.
        let places = shuffled(self.count, &mut random);
        let mut text = String::with_capacity(7 * draws);
        for _ in 0..draws {
            let number = match shares.last() {
                None => (random.unit() * self.count as f64) as usize,
                Some(sum) => {
                    let drawn = random.unit() * sum;
                    places[shares.partition_point(|&share| share < drawn).min(self.count - 1)]
                }
            };
            let _infallible = writeln!(text, "{number}");
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

/// The sums of the shares of 1 to `count` by Zipf's law.
fn cumulative_zipf(count: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |rank: usize| {
        sum += (rank as f64).powf(-ZIPF);
        sum
    };
    (1..=count).map(add).collect()
}

fn shuffled(count: usize, random: &mut SequenceRandom) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    for place in (1..count).rev() {
        places.swap(place, (random.unit() * (place + 1) as f64) as usize);
    }
    places
}

/// A generator of random numbers (xorshift64*, Marsaglia 2003).
struct SequenceRandom(u64);

impl SequenceRandom {
    /// A number from 0 to below 1.
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_files_take_most_requests() {
        let shares = cumulative_zipf(200_000);
        let share = shares[1_999] / shares[199_999];
        assert!((0.4..0.6).contains(&share), "the first percent takes {share}");
        let mut random = SequenceRandom(1);
        let mut places = shuffled(1_000, &mut random);
        assert_ne!(places[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        places.sort_unstable();
        assert!(places.iter().copied().eq(0..1_000));
    }
}
