//! Where the processor time of one cpu goes, by the kernel's and the programs' own names for it.
//!
//! Sampled by `perf` on its software clock, beside the load of one round: 499 times a second, so that the sampling does not
//! beat with the kernel's ticks and costs nothing that could be seen. Without perf there are no symbols, which is said.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::peers::find_program;
use crate::{Error, Result};

/// Samples in a second. A prime, and a hundredth of what a sample costs.
const SAMPLES_PER_S: u32 = 499;

/// Symbols of each run that are shown.
const SHOWN: usize = 5;

/// What a cpu did in one run, the most frequent symbol first, with its share of the samples in percent.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The program, as in the rows.
    pub program: String,
    /// The server.
    pub server: &'static str,
    /// Names and shares.
    pub symbols: Vec<(String, f64)>,
}

/// Whether they can be had.
pub(super) fn are_here() -> bool {
    let here = find_program("perf").is_some();
    if !here {
        eprintln!("SKIPPED: no perf, so no symbols");
    }
    here
}

/// A recording that runs for a while beside something else.
pub(super) struct Recording {
    perf: Child,
    file: std::path::PathBuf,
}

impl Recording {
    /// Begins to record what `cpu` does, with its file in `folder`.
    pub(super) fn start(cpu: usize, time: Duration, folder: &Path) -> Result<Self> {
        let file = folder.join("perf.data");
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-e", "cpu-clock", "-F", &SAMPLES_PER_S.to_string()]);
        command.args(["-C", &cpu.to_string(), "-o"]).arg(&file);
        command.args(["--", "sleep", &time.as_secs_f64().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let perf = command.spawn().map_err(Error::path("start", Path::new("perf")))?;
        Ok(Self { perf, file })
    }

    /// Waits for its end; what was seen most.
    pub(super) fn symbols(mut self) -> Result<Vec<(String, f64)>> {
        self.perf.wait().map_err(Error::path("wait for", Path::new("perf")))?;
        let mut command = Command::new("perf");
        command.args(["report", "--stdio", "--no-children", "--sort", "symbol", "-F", "overhead,sym", "-i"]);
        let output = command.arg(&self.file).output().map_err(Error::path("run", Path::new("perf")))?;
        Ok(parse(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// What takes most in a report, which perf sorts by name.
fn parse(report: &str) -> Vec<(String, f64)> {
    let symbol = |line: &str| {
        let (share, name) = line.trim().split_once("%")?;
        // Behind the name perf leaves room for columns that are empty.
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
