//! The processor time of one cpu, by symbols of the kernel and the programs.
//!
//! `perf` samples on its software clock during the load of one round, 499 times a second, so that
//! the sampling does not beat with the kernel's ticks and has no visible cost. Without perf there
//! are no symbols, and a message says so.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::peers::find_program;
use crate::{BenchError, BenchResult};

/// Samples per second. A prime, and a hundredth of the rate that would be costly.
const SAMPLES_PER_S: u32 = 499;

/// Symbols of each run that are shown.
const SHOWN: usize = 5;

/// The symbols of a cpu in one run, the most frequent first, with their shares of the samples in
/// percent.
#[derive(Clone, Debug)]
pub struct CpuProfile {
    /// The program, as in the rows.
    pub program: String,
    /// The server.
    pub server: &'static str,
    /// Names and shares.
    pub symbols: Vec<(String, f64)>,
}

/// Returns whether symbols are available.
pub(super) fn are_here() -> bool {
    let here = find_program("perf").is_some();
    if !here {
        eprintln!("SKIPPED: no perf, so no symbols");
    }
    here
}

/// A perf recording that runs beside a load.
pub(super) struct PerfRecording {
    perf: Child,
    file: std::path::PathBuf,
}

impl PerfRecording {
    /// Starts recording the activity of `cpu`, with the file in `folder`.
    pub(super) fn start(cpu: usize, time: Duration, folder: &Path) -> BenchResult<Self> {
        let file = folder.join("perf.data");
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-e", "cpu-clock", "-F", &SAMPLES_PER_S.to_string()]);
        command.args(["-C", &cpu.to_string(), "-o"]).arg(&file);
        command.args(["--", "sleep", &time.as_secs_f64().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let perf = command.spawn().map_err(BenchError::path("start", Path::new("perf")))?;
        Ok(Self { perf, file })
    }

    /// Waits for perf's end; returns the most frequent symbols.
    pub(super) fn symbols(mut self) -> BenchResult<Vec<(String, f64)>> {
        self.perf.wait().map_err(BenchError::path("wait for", Path::new("perf")))?;
        let mut command = Command::new("perf");
        command.args(["report", "--stdio", "--no-children", "--sort", "symbol", "-F", "overhead,sym", "-i"]);
        let output = command.arg(&self.file).output().map_err(BenchError::path("run", Path::new("perf")))?;
        Ok(parse(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// The most frequent symbols of a report that perf sorts by name.
fn parse(report: &str) -> Vec<(String, f64)> {
    let symbol = |line: &str| {
        let (share, name) = line.trim().split_once("%")?;
        // perf prints empty columns behind the name.
        let name = name.trim().split("  ").next()?.to_owned();
        Some((name, share.trim().parse().ok()?))
    };
    let mut symbols: Vec<(String, f64)> =
        report.lines().filter(|line| !line.starts_with('#')).filter_map(symbol).collect();
    symbols.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    symbols.truncate(SHOWN);
    symbols
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = "# Overhead  Symbol\n#\n    27.80%  [k] copy_page_range     -      -  \n     1.02%  [.] do_lookup_x\n\n";
        let expected = [("[k] copy_page_range".to_owned(), 27.8), ("[.] do_lookup_x".to_owned(), 1.02)];
        assert_eq!(parse(report), expected);
    }
}
