//! The injectors: how each is run, and how its output is read.
//!
//! Cpu time is the time that the system charged to the process, from its start to its end. Numbers
//! that an injector does not report are left out of the tables. The parsers are tested here.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use vermeil_load::report::Record;

use crate::network::BenchNetwork;
use crate::peers::is_here;
use crate::probe::ProbeTarget;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::wrk::{Wrk, WrkLoad};
use crate::{BenchError, BenchResult, rusage};

/// More requests a second than ab can make.
const AB_RATE_MAX: f64 = 1e6;

/// An injector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchInjector {
    /// `vermeil load` with io_uring.
    Uring,
    /// `vermeil load` with epoll.
    Epoll,
    /// wrk.
    Wrk,
    /// ab, over HTTP/1.0 with keep-alive.
    Ab,
    /// hey.
    Hey,
    /// h2load.
    H2load,
}

/// The protocol with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speech {
    /// HTTP/1.1, one request at a time on each connection.
    Http1,
    /// HTTP/2 with prior knowledge, so many concurrent requests on each connection.
    Http2 {
        /// The number.
        streams: usize,
    },
}

/// The installed injectors; in a full run all must be installed.
pub(super) fn here(size: BenchSize) -> BenchResult<Vec<BenchInjector>> {
    let mut here = Vec::new();
    for injector in BenchInjector::ALL {
        if injector.needs().map_or(Ok(true), |needs| is_here(size, needs))? {
            here.push(injector);
        }
    }
    Ok(here)
}

/// Where and how an injector is run.
pub(super) struct InjectorPlace<'a> {
    pub(super) address: SocketAddr,
    pub(super) target: ProbeTarget,
    pub(super) load: WrkLoad,
    pub(super) speech: Speech,
    pub(super) cpu: usize,
    pub(super) vermeil: &'a Path,
    pub(super) state: &'a Path,
    pub(super) wrk: Wrk,
    pub(super) stop: &'a StopFlag,
}

/// The measurement of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct InjectorSample {
    requests: u64,
    pub(super) per_second: f64,
    cpu: Duration,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    mean_us: Option<f64>,
}

impl InjectorSample {
    pub(super) fn per_cpu_second(&self) -> f64 {
        self.requests as f64 / self.cpu.as_secs_f64().max(1e-9)
    }

    /// The numbers of the rows.
    pub(super) fn numbers(&self) -> impl Iterator<Item = (&'static str, &'static str, f64)> {
        let told = [
            ("per_cpu_s", "req/cpu s", Some(self.per_cpu_second())),
            ("per_s", "req/s", Some(self.per_second)),
            ("p50_us", "us", self.p50_us),
            ("p99_us", "us", self.p99_us),
            ("mean_us", "us", self.mean_us),
        ];
        told.into_iter().filter_map(|(metric, unit, value)| Some((metric, unit, value?)))
    }
}

impl BenchInjector {
    /// Every injector, in the order of the tables.
    pub const ALL: [Self; 6] = [Self::Uring, Self::Epoll, Self::Wrk, Self::Ab, Self::Hey, Self::H2load];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "vermeil-uring",
            Self::Epoll => "vermeil-epoll",
            Self::Wrk => "wrk",
            Self::Ab => "ab",
            Self::Hey => "hey",
            Self::H2load => "h2load",
        }
    }

    /// Returns whether the injector supports HTTP/2 without TLS.
    pub(super) fn speaks_http2(self) -> bool {
        matches!(self, Self::Uring | Self::Epoll | Self::H2load)
    }

    /// The required program and its Debian package.
    fn needs(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Uring | Self::Epoll => None,
            Self::Wrk => Some(("wrk", "wrk")),
            Self::Ab => Some(("ab", "apache2-utils")),
            Self::Hey => Some(("hey", "hey")),
            Self::H2load => Some(("h2load", "nghttp2-client")),
        }
    }

    /// Runs the injector, alone on its cpu.
    pub(super) fn run(self, place: &InjectorPlace<'_>) -> BenchResult<InjectorSample> {
        let before = rusage::children();
        let sample = match self {
            Self::Uring => vermeil(place, "uring"),
            Self::Epoll => vermeil(place, "epoll"),
            Self::Wrk => wrk(place),
            Self::Ab => ab(place),
            Self::Hey => hey(place),
            Self::H2load => h2load(place),
        }?;
        Ok(InjectorSample { cpu: rusage::children().saturating_sub(before), ..sample })
    }
}

fn url(place: &InjectorPlace<'_>) -> String {
    format!("http://{}{}", place.address, place.target.path)
}

/// ab, hey and h2load count whole seconds.
fn whole_seconds(place: &InjectorPlace<'_>) -> String {
    place.load.duration.as_secs_f64().ceil().to_string()
}

/// The standard output of a program; `codes` are the accepted exit statuses.
pub(crate) fn said_by(command: &mut Command, codes: &[i32]) -> BenchResult<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(BenchError::path("run", Path::new(command.get_program())))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(code) if codes.contains(&code) => Ok(said),
        _ => Err(BenchError::Command {
            command: format!("{command:?}"),
            output: format!("{}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr)),
        }),
    }
}

fn sample_of(
    name: &str,
    said: &str,
    read: impl FnOnce(&str) -> Option<InjectorSample>,
) -> BenchResult<InjectorSample> {
    let wrong = || BenchError::form(name, format!("no numbers, or failed requests, in: {said}"));
    read(said).filter(|sample| sample.requests > 0).ok_or_else(wrong)
}

fn vermeil(place: &InjectorPlace<'_>, io: &str) -> BenchResult<InjectorSample> {
    let mut command = super::vermeil_load(place.vermeil, place.cpu);
    command.args(["--io", io, "-c", &place.load.connections.to_string()]);
    if let Speech::Http2 { streams } = place.speech {
        command.args(["--http2", "--pipeline", &streams.to_string()]);
    }
    command.args(["-d", &format!("{}ms", place.load.duration.as_millis())]).arg(url(place));
    // 5: the injector was the limit, which is exactly the subject of this bench.
    sample_of("vermeil load", &said_by(&mut command, &[0, 5])?, of_record)
}

/// From a record of `vermeil load`.
fn of_record(said: &str) -> Option<InjectorSample> {
    let record: Record = serde_json::from_str(said).ok().filter(|record: &Record| record.failed == 0)?;
    let us = |percent| record.response.percentile(percent).map(|time| time.as_secs_f64() * 1e6);
    Some(InjectorSample {
        requests: record.good,
        per_second: record.rate,
        cpu: Duration::ZERO,
        p50_us: us(50.0),
        p99_us: us(99.0),
        mean_us: Some(record.response.mean_ns as f64 / 1e3),
    })
}

fn wrk(place: &InjectorPlace<'_>) -> BenchResult<InjectorSample> {
    let outcome =
        place.wrk.run(&BenchNetwork::Loopback, place.address, &place.target, place.load, place.stop)?;
    if let Some(problem) = outcome.problem(200) {
        return Err(BenchError::form("wrk", problem));
    }
    Ok(InjectorSample {
        requests: outcome.requests,
        per_second: outcome.per_second(),
        cpu: Duration::ZERO,
        p50_us: Some(outcome.p50_us as f64),
        p99_us: Some(outcome.p99_us as f64),
        mean_us: None,
    })
}

fn ab(place: &InjectorPlace<'_>) -> BenchResult<InjectorSample> {
    let percentiles = place.state.join("ab.csv");
    let mut command = BenchNetwork::Loopback.client_command("ab", place.cpu);
    command.args(["-k", "-q", "-c", &place.load.connections.to_string(), "-t", &whole_seconds(place)]);
    // -t sets a bound on the requests, so -n must follow to lift the bound; ab allocates memory for
    // all requests.
    let requests_max = AB_RATE_MAX * place.load.duration.as_secs_f64().ceil();
    command.args(["-n", &requests_max.to_string(), "-e"]).arg(&percentiles).arg(url(place));
    let said = said_by(&mut command, &[0])?;
    let table = fs::read_to_string(&percentiles).map_err(BenchError::path("read", &percentiles))?;
    sample_of("ab", &said, |said| of_ab(said, &table))
}

/// Reads ab's output and its table of percentiles in milliseconds.
fn of_ab(said: &str, table: &str) -> Option<InjectorSample> {
    let after = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    let percentile = |percent: &str| {
        let (_, ms) =
            table.lines().filter_map(|line| line.split_once(',')).find(|(row, _)| *row == percent)?;
        Some(ms.trim().parse::<f64>().ok()? * 1e3)
    };
    if after("Failed requests:")? > 0.0 || after("Non-2xx responses:").is_some() {
        return None;
    }
    Some(InjectorSample {
        requests: after("Complete requests:")? as u64,
        per_second: after("Requests per second:")?,
        cpu: Duration::ZERO,
        p50_us: percentile("50"),
        p99_us: percentile("99"),
        mean_us: None,
    })
}

fn hey(place: &InjectorPlace<'_>) -> BenchResult<InjectorSample> {
    let mut command = BenchNetwork::Loopback.client_command("hey", place.cpu);
    let duration = format!("{}s", whole_seconds(place));
    command.args(["-cpus", "1", "-c", &place.load.connections.to_string(), "-z", &duration]);
    command.arg(url(place));
    sample_of("hey", &said_by(&mut command, &[0])?, of_hey)
}

/// Reads hey's output: times in seconds, to a tenth of a millisecond.
fn of_hey(said: &str) -> Option<InjectorSample> {
    let after = |name: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    // hey also reports requests that were unfinished at the end as errors, so errors are ignored;
    // another status is a failure.
    let answers = said.lines().filter_map(|line| line.trim().strip_suffix(" responses"));
    let answers: Vec<_> = answers.filter_map(|line| line.split_once("]\t")).collect();
    let [("[200", requests)] = answers[..] else { return None };
    Some(InjectorSample {
        requests: requests.parse().ok()?,
        per_second: after("Requests/sec:")?,
        cpu: Duration::ZERO,
        p50_us: after("50% in").map(|seconds| seconds * 1e6),
        p99_us: after("99% in").map(|seconds| seconds * 1e6),
        mean_us: after("Average:").map(|seconds| seconds * 1e6),
    })
}

fn h2load(place: &InjectorPlace<'_>) -> BenchResult<InjectorSample> {
    let mut command = BenchNetwork::Loopback.client_command("h2load", place.cpu);
    command.args(["-t", "1", "-c", &place.load.connections.to_string(), "-D", &whole_seconds(place)]);
    match place.speech {
        Speech::Http1 => command.arg("--h1"),
        Speech::Http2 { streams } => command.args(["-m", &streams.to_string()]),
    };
    command.arg(url(place));
    sample_of("h2load", &said_by(&mut command, &[0])?, of_h2load)
}

fn of_h2load(said: &str) -> Option<InjectorSample> {
    let line = |name: &str| said.lines().find_map(|line| line.strip_prefix(name));
    let counts = line("requests: ")?;
    let count = |name: &str| {
        let part = counts.split(", ").find_map(|part| part.strip_suffix(name))?;
        part.trim().parse::<u64>().ok()
    };
    let rate = line("finished in ")?.split(", ").find_map(|part| part.strip_suffix(" req/s"))?;
    if count(" failed")? > 0 || count(" errored")? > 0 {
        return None;
    }
    // min, max, mean, deviation, share within the deviation
    let mean = line("time for request:").and_then(|times| time_us(times.split_whitespace().nth(2)?));
    Some(InjectorSample {
        requests: count(" succeeded")?,
        per_second: rate.trim().parse().ok()?,
        cpu: Duration::ZERO,
        p50_us: None,
        p99_us: None,
        mean_us: mean,
    })
}

/// `12us`, `1.25ms`, `2.00s`, in microseconds.
fn time_us(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, unit) = units.iter().find_map(|(unit, us)| Some((text.strip_suffix(unit)?, us)))?;
    Some(number.parse::<f64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_ab_is_parsed() {
        let said = "Complete requests:      4021\nFailed requests:        0\nKeep-Alive requests:    4021\n\
                    Requests per second:    2010.34 [#/sec] (mean)\n";
        let sample =
            of_ab(said, "Percentage served,Time in ms\n0,0.020\n50,0.512\n99,1.5\n").expect("numbers");
        assert_eq!((sample.requests, sample.per_second), (4021, 2010.34));
        assert_eq!((sample.p50_us, sample.p99_us), (Some(512.0), Some(1500.0)));
        assert_eq!(of_ab(&said.replace("requests:        0", "requests:        3"), ""), None);
        assert_eq!(of_ab(&format!("{said}Non-2xx responses:      4021\n"), ""), None);
    }

    #[test]
    fn output_of_hey_is_parsed() {
        let said = "Summary:\n  Average:\t0.0102 secs\n  Requests/sec:\t6215.2242\n\nLatency distribution:\n  \
                    50% in 0.0101 secs\n  99% in 0.0121 secs\n\nStatus code distribution:\n  [200]\t12430 responses\n";
        let sample = of_hey(said).expect("numbers");
        assert_eq!((sample.requests, sample.per_second), (12430, 6215.2242));
        assert_eq!((sample.p50_us, sample.mean_us), (Some(10100.0), Some(10200.0)));
        assert_eq!(of_hey(&said.replace("[200]", "[503]")), None);
        assert_eq!(of_hey(&format!("{said}  [404]\t3 responses\n")), None);
    }

    #[test]
    fn output_of_h2load_is_parsed() {
        let said = "finished in 2.00s, 6231.50 req/s, 1.10MB/s\n\
                    requests: 12463 total, 12463 started, 12463 done, 12460 succeeded, 0 failed, 0 errored, 0 timeout\n\
                    time for request:      10.02ms     15.20ms     10.25ms       301us    90.00%\n";
        let sample = of_h2load(said).expect("numbers");
        assert_eq!((sample.requests, sample.per_second, sample.mean_us), (12460, 6231.5, Some(10250.0)));
        assert_eq!(of_h2load(&said.replace("0 failed", "1 failed")), None);
        assert_eq!(of_h2load("nothing"), None);
    }
}
