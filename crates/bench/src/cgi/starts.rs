//! The cost of one start, by the holdings of the starting process and by the way of starting.
//!
//! Runs the binary `vermeil-starts` once for each holding and round. Huge pages are reserved for
//! the runs that need them and given back; a holding that does not fit the machine's free memory is
//! skipped with a message.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::programs::CompiledPrograms;
use crate::options::BenchOptions;
use crate::points::{PointKey, Points};
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};

/// Huge pages that are reserved, of 2 MB each.
const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
/// Free memory left to other programs, in MB.
const LEFT_MB: usize = 4096;

/// A kind of pages, with the names of `vermeil-starts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartPages {
    /// Of 4 KB.
    Small,
    /// Of 2 MB, merged by the kernel.
    Transparent,
    /// Of 2 MB, reserved.
    Reserved,
}

impl StartPages {
    fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Transparent => "transparent",
            Self::Reserved => "reserved",
        }
    }
}

/// The holdings of a process while the process starts programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Megabytes.
    pub mb: usize,
    /// On these pages.
    pub pages: StartPages,
    /// Open descriptors.
    pub descriptors: usize,
}

impl Holding {
    /// The name in rows.
    pub fn name(self) -> String {
        let gigabytes = self.mb as f64 / 1024.0;
        let size = if self.mb < 1024 { format!("{gigabytes:.2}") } else { format!("{gigabytes:.0}") };
        let descriptors = match self.descriptors {
            0 => String::new(),
            count => format!(" {count} descriptors"),
        };
        format!("start {size}GB {}{descriptors}", self.pages.name())
    }
}

/// Descriptors of a busy server; a little less than the usual limit of 20,000.
const MANY: usize = 19_000;

fn holdings(size: BenchSize) -> Vec<Holding> {
    let holding = |mb, pages, descriptors| Holding { mb, pages, descriptors };
    if size == BenchSize::Smoke {
        return vec![holding(16, StartPages::Small, 100)];
    }
    let sizes = [51, 1024, 4096, 8192];
    let pages = [StartPages::Small, StartPages::Transparent, StartPages::Reserved];
    let mut all: Vec<Holding> =
        pages.into_iter().flat_map(|pages| sizes.map(|mb| holding(mb, pages, 0))).collect();
    all.extend([holding(51, StartPages::Small, MANY), holding(4096, StartPages::Small, MANY)]);
    all
}

/// The ways to start, and the number of starts of each: a fork of gigabytes takes a thousand times
/// longer than the other ways.
const WAYS: [&str; 15] = [
    "none",
    "fork",
    "bare",
    "posix_spawn",
    "vfork",
    "spawner",
    "sandboxed",
    "bare_several",
    "spawner_several",
    "bare_awake",
    "spawner_awake",
    "sandboxed_awake",
    "bare_one_cpu",
    "spawner_one_cpu",
    "sandboxed_one_cpu",
];

fn starts(size: BenchSize, holding: Holding) -> [usize; WAYS.len()] {
    let fork = match size {
        BenchSize::Smoke => return [3; WAYS.len()],
        BenchSize::Full if holding.pages == StartPages::Small && holding.mb >= 1024 => {
            20_000 / holding.mb.max(1000)
        }
        BenchSize::Full => 200,
    };
    let mut starts = [300; WAYS.len()];
    starts[1] = fork;
    starts
}

#[derive(Debug, Deserialize)]
struct StartsSaid {
    way: String,
    blocked_us_p50: f64,
    blocked_us_p99: f64,
    ended_us_p50: f64,
    ended_us_p99: f64,
    cpu_us: f64,
    page_tables_kb: f64,
    stall_us_p999: f64,
    stall_us_max: f64,
    host_us_max: f64,
}

/// Runs every holding that fits, round after round.
pub(super) fn run(
    options: &BenchOptions,
    programs: &CompiledPrograms,
    stop: &StopFlag,
    points: &mut Points,
) -> BenchResult<()> {
    for round in 0..options.rounds {
        for holding in holdings(options.size) {
            stop.check()?;
            if let Some(why) = does_not_fit(holding)? {
                eprintln!("SKIPPED: {}: {why}", holding.name());
                continue;
            }
            let reservation = match holding.pages {
                StartPages::Reserved => match Reservation::take(holding.mb / 2 + 1) {
                    Ok(reservation) => Some(reservation),
                    Err(why) => {
                        eprintln!("SKIPPED: {}: {why}", holding.name());
                        continue;
                    }
                },
                StartPages::Small | StartPages::Transparent => None,
            };
            let said = measure(options, programs, holding)?;
            drop(reservation);
            for said in said {
                eprintln!(
                    "round {}/{}  {:<40} {:<12} {:>10.1} µs blocked  {:>10.1} µs to its end  {:>9.1} µs cpu",
                    round + 1,
                    options.rounds,
                    holding.name(),
                    said.way,
                    said.blocked_us_p50,
                    said.ended_us_p50,
                    said.cpu_us
                );
                keep(holding, &said, points);
            }
        }
    }
    Ok(())
}

fn measure(
    options: &BenchOptions,
    programs: &CompiledPrograms,
    holding: Holding,
) -> BenchResult<Vec<StartsSaid>> {
    let numbers = starts(options.size, holding).map(|number| number.to_string());
    let program = options.binary("vermeil-starts");
    let mut command = Command::new(&program);
    command.args(["--hold-mb", &holding.mb.to_string(), "--pages", holding.pages.name()]);
    command.args(["--descriptors", &holding.descriptors.to_string()]);
    command.args(["--ways", &WAYS.join(","), "--starts", &numbers.join(",")]).arg(programs.nothing());
    let output = command.output().map_err(BenchError::path("run", &program))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(BenchError::Command {
            command: format!("{command:?}"),
            output: format!("{}: {said}", output.status),
        });
    }
    let parse =
        |line: &str| serde_json::from_str(line).map_err(|error| BenchError::form("vermeil-starts", error));
    String::from_utf8_lossy(&output.stdout).lines().map(parse).collect()
}

fn keep(holding: Holding, said: &StartsSaid, points: &mut Points) {
    for (metric, unit, value) in [
        ("blocked_us", "us", said.blocked_us_p50),
        ("blocked_p99_us", "us", said.blocked_us_p99),
        ("ended_us", "us", said.ended_us_p50),
        ("ended_p99_us", "us", said.ended_us_p99),
        ("cpu_us", "us", said.cpu_us),
        ("page_tables_kb", "kB", said.page_tables_kb),
        ("stall_p999_us", "us", said.stall_us_p999),
        ("stall_us", "us", said.stall_us_max),
        ("host_us", "us", said.host_us_max),
    ] {
        let key = PointKey { program: holding.name(), variant: said.way.clone(), metric, unit };
        points.push(key, value);
    }
}

/// The reason why a holding does not fit the machine now; `None` if the holding fits.
fn does_not_fit(holding: Holding) -> BenchResult<Option<String>> {
    let path = Path::new("/proc/meminfo");
    let meminfo = fs::read_to_string(path).map_err(BenchError::path("read", path))?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    let free_mb = kb.ok_or_else(|| BenchError::form("/proc/meminfo", "no MemAvailable"))? / 1024;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let descriptors = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(if free_mb < holding.mb + LEFT_MB.min(holding.mb * 4) {
        Some(format!("{free_mb} MB are free, and {LEFT_MB} are left to others"))
    } else if descriptors < holding.descriptors + 100 {
        Some(format!("the limit of open files is {descriptors}"))
    } else {
        None
    })
}

/// Reserved huge pages, given back on drop.
struct Reservation {
    before: String,
}

impl Reservation {
    fn take(pages: usize) -> std::result::Result<Self, String> {
        let read = || fs::read_to_string(RESERVED).map_err(|error| format!("{RESERVED}: {error}"));
        let before = read()?.trim().to_owned();
        let reservation = Self { before };
        fs::write(RESERVED, pages.to_string()).map_err(|error| format!("{RESERVED}: {error}"))?;
        let got: usize = read()?.trim().parse().map_err(|_| format!("{RESERVED} has no number"))?;
        if got < pages {
            Err(format!("{got} huge pages could be reserved, not {pages}"))
        } else {
            Ok(reservation)
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Err(error) = fs::write(RESERVED, &self.before) {
            eprintln!("warning: huge pages stay reserved ({RESERVED}): {error}");
        }
    }
}
