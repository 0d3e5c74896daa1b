//! One server, one overload after the other.

use std::net::SocketAddr;
use std::time::Duration;

use vermeil_load::report::Record;

use super::OverloadSubject;
use super::peak::Round;
use super::quota::Quota;
use super::turns::OverloadTurns;
use crate::load::recorded;
use crate::machine::BenchCpus;
use crate::measure::CpuTime;
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::peers::{PeerServer, PeerSetting, floor, nginx, vermeil};
use crate::points::{PointKey, Points};
use crate::probe::{ProbeTarget, fetch};
use crate::site::BenchSite;
use crate::size::BenchSize;
use crate::stats::Summary;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};

/// The requested file.
const FILE: (&str, usize) = ("1k.txt", 1024);

/// Connections for measuring the capacity, each with a request under way.
const CAPACITY_CONNECTIONS: &str = "64";

/// Probes of the capacity in each round, because a single probe may meet a busy machine.
const PROBES: usize = 3;

/// A client's time-out for its answer, connecting included. The kernel's second attempt to connect
/// comes after the same time.
const PATIENCE: &str = "1s";

/// Maximum number of requests under way: more than are possible with that time-out, and no more
/// than the usual 20,000 descriptors.
const UNDER_WAY_MAX: &str = "16000";

/// The uncounted part at the beginning of an overload, because the bench measures lasting overload.
/// As a fraction: a second of a full run's overload.
const ONSET: f64 = 1.0 / 4.0;

/// Connections that the kernel queues for the floor: some 100 ms of the floor's work.
const FLOOR_QUEUE: u16 = 200;

/// The served fraction of the offered rate that counts as recovered.
const RECOVERED: f64 = 0.95;

/// The window of the recovery check: some hundred answers.
const RECOVERY_WINDOW_S: f64 = 0.5;

/// The maximum lateness of one request in a hundred: a tenth of a client's patience. Later requests
/// come in bursts that are not the intended load.
const LATE_MS_MAX: f64 = 100.0;

/// The maximum fraction of the machine's time for the hypervisor: the same bound as in other
/// benches of this project.
const STOLEN_MAX: f64 = 0.02;

/// The number of repetitions of an invalid run; the last repetition counts in any case.
const AGAIN_MAX: u32 = 2;

/// A server without a quota can serve more than a smoke test should offer.
const SMOKE_RATE_MAX: f64 = 1000.0;

/// The state shared by all runs.
pub(super) struct OverloadBench<'a> {
    options: &'a BenchOptions,
    cpus: BenchCpus,
    site: BenchSite,
    /// `None` where the machine has no such groups.
    quota: Option<(Quota, Quota)>,
    stop: &'a StopFlag,
}

impl<'a> OverloadBench<'a> {
    pub(super) fn new(options: &'a BenchOptions, stop: &'a StopFlag) -> BenchResult<Self> {
        let quota = Quota::of_a_part().and_then(|server| Ok((server, Quota::weighty("load")?)));
        let quota = match quota {
            Ok(quota) => Some(quota),
            Err(error) if options.size == BenchSize::Full => return Err(error),
            Err(error) => {
                eprintln!("SKIPPED: holding servers to a part of a cpu: {error}");
                None
            }
        };
        Ok(Self { options, cpus: BenchCpus::allowed()?, site: BenchSite::new(&[FILE])?, quota, stop })
    }

    /// A description of the quota for people.
    pub(super) fn quota(&self) -> String {
        self.quota.as_ref().map_or_else(|| "a whole cpu".into(), |_| Quota::describe())
    }

    /// Runs every level on every server, one server after the other at each level, then all
    /// overloads in turns; returns each server's good answers. A server lives for a whole round,
    /// because the placement of its memory in the caches changes its pace by a tenth, and must be
    /// the same at all levels.
    pub(super) fn round(
        &self,
        subjects: &[OverloadSubject],
        points: &mut Points,
    ) -> BenchResult<Vec<(OverloadSubject, Round)>> {
        let servers: Vec<_> =
            subjects.iter().map(|&subject| self.start(subject)).collect::<BenchResult<_>>()?;
        let capacities = self.capacities(&servers)?;
        let mut good: Vec<_> = subjects.iter().map(|&subject| (subject, Round::new())).collect();
        for &offered in super::offered(self.options.size) {
            for ((server, (_, round)), &capacity) in servers.iter().zip(&mut good).zip(&capacities) {
                self.stop.check()?;
                let sample = self.level(server, capacity, offered)?;
                sample.keep(server.subject, capacity, offered, points);
                if !super::is_overload(&offered) {
                    round.push((offered, sample.good_per_s));
                }
            }
        }
        for ((server, (_, round)), &capacity) in servers.iter().zip(&mut good).zip(&capacities) {
            self.stop.check()?;
            round.extend(self.in_turns(server, capacity)?);
            for &(offered, good_per_s) in &*round {
                points.push(key(server.subject, offered, "good_per_s", "req/s"), good_per_s);
            }
        }
        servers.into_iter().try_for_each(|server| server.process.stop())?;
        Ok(good)
    }

    /// The capacity of each server: the median of some probes, interleaved.
    fn capacities(&self, servers: &[ServingSubject]) -> BenchResult<Vec<f64>> {
        let mut probes = vec![Vec::new(); servers.len()];
        for _ in 0..if self.options.size == BenchSize::Full { PROBES } else { 1 } {
            for (probes, server) in probes.iter_mut().zip(servers) {
                self.stop.check()?;
                probes.push(self.capacity(server.address)?);
            }
        }
        Ok(probes.iter().filter_map(|probes| Summary::of(probes)).map(|summary| summary.median).collect())
    }

    fn level(&self, server: &ServingSubject, capacity: f64, offered: u32) -> BenchResult<OverloadSample> {
        let name = server.subject.name();
        let run = || server.while_it_ran(|| self.overload(server.address, capacity, offered));
        let (record, ran) = self.until_valid(&format!("{offered:>4} %  {name:<8}"), run)?;
        let sample = OverloadSample::of(&record, super::phases(self.options.size).0, capacity / 2.0, ran);
        eprintln!(
            "{offered:>4} %  {name:<8} capacity {capacity:>6.0}/s  good {:>6.0}/s  {:>5.1} µs each  p99 {:>6.0} ms  recovered after {:.1} s",
            sample.good_per_s, sample.cpu_us, sample.p99_ms, sample.recovery_s
        );
        Ok(sample)
    }

    /// All overloads in turns on one server.
    fn in_turns(&self, server: &ServingSubject, capacity: f64) -> BenchResult<Round> {
        let turns = OverloadTurns::of(self.options.size);
        let levels = super::offered(self.options.size).iter().copied();
        let levels: Vec<u32> = levels.filter(super::is_overload).collect();
        let (steps, lasts) = turns.schedule(&levels, capacity);
        let what = format!("in turns {:<8}", server.subject.name());
        let (record, ()) =
            self.until_valid(&what, || Ok((self.offer(server.address, &steps, lasts)?, ())))?;
        let good = turns.good_per_s(&levels, &record.course);
        let text: Vec<_> = good.iter().map(|(offered, good)| format!("{offered} % {good:.0}/s")).collect();
        eprintln!("{what} {}", text.join("  "));
        Ok(good)
    }

    /// Repeats `run` a few times while the load or the machine was disturbed.
    fn until_valid<T>(
        &self,
        what: &str,
        run: impl Fn() -> BenchResult<(Record, T)>,
    ) -> BenchResult<(Record, T)> {
        let mut found = run()?;
        for _ in 0..AGAIN_MAX {
            let Some(why) = not_valid(&found.0) else { break };
            eprintln!("{what} not counted: {why}; again");
            self.stop.check()?;
            found = run()?;
        }
        Ok(found)
    }

    /// Starts a subject and waits for an answer to a first request.
    fn start(&self, subject: OverloadSubject) -> BenchResult<ServingSubject> {
        let network = BenchNetwork::Loopback;
        let address = network.free_address()?;
        let state = self.site.state_folder(subject.name())?;
        let root = self.site.root();
        let setting =
            PeerSetting { network: &network, address, cpu: self.cpus.server, root: &root, state: &state };
        let command = match subject {
            OverloadSubject::Server(PeerServer::Vermeil) => {
                vermeil::command(setting, &self.options.vermeil, vermeil::VermeilIo::Uring)
            }
            OverloadSubject::Server(PeerServer::Nginx) => {
                nginx::command(setting, nginx::NginxSending::default())?
            }
            OverloadSubject::Floor => {
                floor::once_command(setting, &self.options.binary("vermeil-floor"), FILE.1, FLOOR_QUEUE)
            }
        };
        let command = match &self.quota {
            Some((group, _)) => group.within(&command),
            None => command,
        };
        let process = PeerProcess::start(subject.name(), command, &state)?;
        process.wait_until_listening(&network, address)?;
        // Warms up the file cache, because the bench measures overload and not the first access to
        // a file.
        let answer = fetch(address, &ProbeTarget::to(&format!("/{}", FILE.0)));
        answer.map_err(|error| process.failure(&format!("does not answer: {error}")))?;
        Ok(ServingSubject { subject, address, process })
    }

    /// Good answers per second in a closed loop.
    fn capacity(&self, address: SocketAddr) -> BenchResult<f64> {
        let seconds = if self.options.size == BenchSize::Full { "2s" } else { "1s" };
        let record = self.load(address, &["-c", CAPACITY_CONNECTIONS, "-d", seconds])?;
        match self.quota {
            _ if record.rate < 1.0 => Err(BenchError::form("the measured capacity", "no requests")),
            Some(_) => Ok(record.rate),
            None => Ok(record.rate.min(SMOKE_RATE_MAX)),
        }
    }

    fn overload(&self, address: SocketAddr, capacity: f64, offered: u32) -> BenchResult<Record> {
        let (over, after) = super::phases(self.options.size);
        let rate = capacity * f64::from(offered) / 100.0;
        let half = capacity / 2.0;
        let steps = format!("steps:{}ms@{rate:.1},{}ms@{half:.1}", over.as_millis(), after.as_millis());
        self.offer(address, &steps, over + after)
    }

    /// An open loop with the rates `steps`.
    fn offer(&self, address: SocketAddr, steps: &str, lasts: Duration) -> BenchResult<Record> {
        let lasts = format!("{}ms", lasts.as_millis());
        self.load(address, &["-c", UNDER_WAY_MAX, "-d", &lasts, "--rate", steps, "--timeout", PATIENCE])
    }

    fn load(&self, address: SocketAddr, arguments: &[&str]) -> BenchResult<Record> {
        let file = self.site.state_folder("load")?.join("record.json");
        let mut command = BenchNetwork::Loopback.client_command(&self.options.vermeil, self.cpus.client);
        command.args(["load", "--no-keepalive", "--cores"]).arg(format!("{0}-{0}", self.cpus.client));
        command.args(arguments).arg("--json").arg(&file).arg(format!("http://{address}/{}", FILE.0));
        let mut command = match &self.quota {
            Some((_, group)) => group.within(&command),
            None => command,
        };
        recorded(&mut command, &file)
    }
}

/// A subject that runs.
struct ServingSubject {
    subject: OverloadSubject,
    address: SocketAddr,
    process: PeerProcess,
}

impl ServingSubject {
    /// The result of `load`, and the subject's run time during `load`.
    fn while_it_ran<T>(&self, load: impl FnOnce() -> BenchResult<T>) -> BenchResult<(T, Duration)> {
        let before = CpuTime::of_group(self.process.group())?;
        let found = load()?;
        Ok((found, (CpuTime::of_group(self.process.group())? - before).run))
    }
}

/// The reason why a run is invalid: the load generator or the machine was disturbed for a while.
fn not_valid(record: &Record) -> Option<String> {
    let late = record.injector.late.percentiles.iter().find(|(percent, _)| *percent >= 99.0);
    let late_ms = late.map_or(0.0, |(_, ns)| *ns as f64 / 1e6);
    let stolen = record.injector.stolen;
    if late_ms > LATE_MS_MAX {
        Some(format!("one request in a hundred began {late_ms:.0} ms late or more"))
    } else if stolen > STOLEN_MAX {
        Some(format!("the hypervisor took {:.1} % of the machine's time", stolen * 100.0))
    } else {
        None
    }
}

/// The result of one overload.
struct OverloadSample {
    good_per_s: f64,
    /// The subject's cpu time for each good answer, in microseconds, recovery included.
    cpu_us: f64,
    p99_ms: f64,
    recovery_s: f64,
}

pub(super) fn key(
    subject: OverloadSubject,
    offered: u32,
    metric: &'static str,
    unit: &'static str,
) -> PointKey {
    PointKey { program: format!("{offered} %"), variant: subject.name().into(), metric, unit }
}

impl OverloadSample {
    fn keep(&self, subject: OverloadSubject, capacity: f64, offered: u32, points: &mut Points) {
        for (metric, unit, value) in [
            ("capacity_per_s", "req/s", capacity),
            ("offered_per_s", "req/s", capacity * f64::from(offered) / 100.0),
            ("cpu_us", "µs", self.cpu_us),
            ("p99_ms", "ms", self.p99_ms),
            ("recovery_s", "s", self.recovery_s),
        ] {
            points.push(key(subject, offered, metric, unit), value);
        }
    }

    /// Reads a run that offered too much for `over`, then `half` requests a second.
    fn of(record: &Record, over: Duration, half: f64, ran: Duration) -> Self {
        let over_s = over.as_secs_f64();
        let during = || {
            let counts =
                |begins_s: f64, lasts_s: f64| begins_s >= over_s * ONSET && begins_s + lasts_s <= over_s;
            record.course.iter().filter(move |slot| counts(slot.begins_s, slot.lasts_s))
        };
        let lasted: f64 = during().map(|slot| slot.lasts_s).sum();
        let good: f64 = during().map(|slot| slot.rate * slot.lasts_s).sum();
        let slowest_ns = during().filter_map(|slot| slot.percentile_ns(2)).max().unwrap_or_default();
        Self {
            good_per_s: if lasted > 0.0 { good / lasted } else { 0.0 },
            cpu_us: ran.as_secs_f64() * 1e6 / record.good.max(1) as f64,
            p99_ms: slowest_ns as f64 / 1e6,
            recovery_s: recovery_s(record, over_s, half),
        }
    }
}

/// The time from `over_s` until the offered rate is served again; the rest of the run if that does
/// not happen.
fn recovery_s(record: &Record, over_s: f64, half: f64) -> f64 {
    let after: Vec<_> = record.course.iter().filter(|slot| slot.begins_s >= over_s).collect();
    let is_served = |from: usize| {
        let mut window = 0.0;
        let mut good = 0.0;
        for slot in &after[from..] {
            window += slot.lasts_s;
            good += slot.rate * slot.lasts_s;
            if window >= RECOVERY_WINDOW_S {
                return good / window >= half * RECOVERED;
            }
        }
        window > 0.0 && good / window >= half * RECOVERED
    };
    let end = after.last().map_or(0.0, |slot| slot.begins_s + slot.lasts_s - over_s);
    (0..after.len()).find(|&from| is_served(from)).map_or(end, |from| after[from].begins_s - over_s)
}
