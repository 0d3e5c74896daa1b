//! The record of a run: everything that is known about it, in a form that is kept.
//!
//! Times are nanoseconds, sizes bytes, shares 0 to 1. Fields are only ever added; `format` says which version wrote it.
//! Tested here: what is written is read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize};

use crate::fault::Fault;
use crate::measure::{self, Tally, Times, supports};
use crate::run::{Interval, Outcome};
use crate::verdict::{Doubt, is_valid};

/// What the first field of a record says.
const FORMAT: &str = "vermeil-load 1";

/// Percentiles of a record, as far as its samples support them.
pub(super) const PERCENTS: [f64; 9] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// What was run, in words: for whoever reads the result later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// What results call the run.
    pub title: String,
    /// Where the requests went.
    pub target: String,
    /// What each user did.
    pub workload: String,
    /// The loop: closed, open or partly open, with its parameters.
    pub pace: String,
    /// What times are counted from.
    pub times_from: String,
    /// Whether the loop is open: users, or connections, are then the most there may be.
    #[serde(default)]
    pub is_open: bool,
    /// Names of pages, in the order of the parts.
    pub pages: Vec<String>,
    /// The share of each page that the workload's chain gives, if it is one.
    pub expected_shares: Vec<f64>,
    /// Names of address sets, in the order of the parts.
    pub sets: Vec<String>,
}

/// A result that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The form and its version.
    pub format: String,
    /// When it was made: seconds since 1970.
    pub made_at: u64,
    /// What was run.
    pub subject: Subject,
    /// Users, or connections of a simple run.
    pub users: usize,
    /// Length of the measured window in nanoseconds.
    pub window_ns: u64,
    /// Whether it can be trusted.
    pub valid: bool,
    /// If not, why. A small run that was to end after so many requests is valid with doubts about speed.
    pub doubts: Vec<String>,
    /// Requests begun, in the window.
    pub begun: u64,
    /// Good answers.
    pub good: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that had not ended at the end.
    pub unfinished: u64,
    /// How long the oldest of these had waited, in nanoseconds.
    #[serde(default)]
    pub oldest_ns: Option<u64>,
    /// Arrivals that were due and had not begun at the end.
    #[serde(default)]
    pub missed: u64,
    /// Good answers per second.
    pub rate: f64,
    /// Bytes received, in failed answers, too.
    pub bytes: u64,
    /// Bytes of content of whole answers.
    pub content_bytes: u64,
    /// Answers by the first digit of their status; the first place is for digits out of range.
    pub statuses: [u64; 6],
    /// Answers by status code, ascending.
    #[serde(default)]
    pub codes: Vec<(u16, u64)>,
    /// Failures by name.
    pub faults: Vec<(String, u64)>,
    /// What was malformed, in words with bytes of the answers, and how often; the first few reasons.
    #[serde(default)]
    pub malformed: Vec<(String, u64)>,
    /// Connections made, and idle ones that the server had closed.
    pub connections: (u64, u64),
    /// Requests that were sent again, once, because their connection ended while they were on their way.
    #[serde(default)]
    pub repeated: u64,
    /// Requests behind an announced end of a connection, which the server did not begin; they went over another.
    #[serde(default)]
    pub deferred: u64,
    /// Connections that the server left open after the end of both had been agreed on.
    #[serde(default)]
    pub left_open: u64,
    /// Response times of good answers.
    pub response: Quantiles,
    /// Service times of good answers, where they differ.
    pub service: Quantiles,
    /// Times from the intended start of requests that failed to their failure.
    #[serde(default)]
    pub failed_response: Quantiles,
    /// Requests on the wire with an answer, where a page has several.
    pub objects: u64,
    /// Their times.
    pub object_times: Quantiles,
    /// Times of connecting.
    pub connect: Quantiles,
    /// By page.
    pub pages: Vec<Part>,
    /// By set of addresses.
    pub sets: Vec<Part>,
    /// The course of the run.
    pub course: Vec<Course>,
    /// What `--fail-if` came to.
    #[serde(default)]
    pub thresholds: Vec<Judged>,
    /// Quality of service, where it was asked for.
    pub quality: Option<QualityResult>,
    /// The search for the most users, where there was one.
    pub search: Option<SearchResult>,
    /// What the injector itself did.
    pub injector: Injector,
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// How many.
    pub count: u64,
    /// In nanoseconds, as all that follow.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The standard deviation.
    pub deviation_ns: u64,
    /// Percent and time, of those that so many samples support.
    pub percentiles: Vec<(f64, u64)>,
    /// The longest.
    pub max_ns: u64,
    /// Every bucket that is not empty: its highest time and its count.
    pub buckets: Vec<(u64, u64)>,
}

/// A part of the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Page or set.
    pub name: String,
    /// Its share of all requests of its kind.
    pub share: f64,
    /// Good answers.
    pub good: u64,
    /// Failures.
    pub failed: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Answers of good quality, and at least of tolerable quality.
    pub within: [u64; 2],
    /// Response times.
    pub response: Quantiles,
}

/// An interval of the course.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// Seconds from the start of the run.
    pub begins_s: f64,
    /// Its length in seconds.
    pub lasts_s: f64,
    /// Which phase it belongs to.
    pub phase: String,
    /// Good answers.
    #[serde(default)]
    pub good: u64,
    /// Good answers per second.
    pub rate: f64,
    /// Bytes per second, in failed answers, too.
    pub byte_rate: f64,
    /// Failures.
    pub failed: u64,
    /// Users at its end: those that had begun, and had not ended.
    pub users: usize,
    /// Response times of good answers: median, 90, 99, 99.9 %, longest. A percentile is there where ten answers lie beyond it;
    /// nothing where none is.
    #[serde(deserialize_with = "unless_zero")]
    pub percentiles_ns: Option<[Option<u64>; 5]>,
    /// The longest response time of a good answer.
    #[serde(default)]
    pub max_ns: Option<u64>,
}

/// Whether the quality asked for was held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QualityResult {
    /// What was asked for, in words.
    pub asked: String,
    /// Whether it was held.
    pub held: bool,
    /// Each clause that was not, in words.
    pub broken: Vec<String>,
    /// Share of good answers.
    pub good_share: f64,
    /// Share of tolerable answers.
    pub tolerable_share: f64,
    /// Share of failures.
    pub failed_share: f64,
    /// Pages under way at the end for longer than a good, and than a tolerable one may take: neither, whatever becomes of them.
    #[serde(default)]
    pub overdue: [u64; 2],
    /// The same shares by set: good, tolerable, failed.
    pub sets: Vec<[f64; 3]>,
    /// The same shares by page.
    pub pages: Vec<[f64; 3]>,
}

/// What a threshold came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The threshold as it was written.
    pub asked: String,
    /// Whether the run has passed it, so that it has failed.
    pub is_passed: bool,
    /// What the run had, in words.
    pub said: String,
}

/// How a search went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// The most users that held the quality.
    pub users: usize,
    /// Users known to be held and users known to be too many, with the confidence below.
    pub bracket: (usize, usize),
    /// In words: what the numbers are worth.
    pub confidence: String,
    /// Every trial, in order.
    pub trials: Vec<TrialResult>,
}

/// One trial of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// With so many users.
    pub users: usize,
    /// Whether the quality was held.
    pub held: bool,
    /// Whether the run can be trusted.
    pub valid: bool,
    /// If not, why.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// Good answers per second.
    pub rate: f64,
    /// Share of good answers.
    pub good_share: f64,
    /// Share of tolerable answers.
    pub tolerable_share: f64,
    /// Share of failures.
    pub failed_share: f64,
    /// 99th percentile of response times, if enough were answered to tell.
    #[serde(deserialize_with = "unless_zero")]
    pub p99_ns: Option<u64>,
}

/// What the injector itself used, and how it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Injector {
    /// Cpu time in nanoseconds.
    pub cpu_ns: u64,
    /// Good answers per second of cpu time.
    pub rate_per_cpu_second: f64,
    /// Share of the time that each core was busy.
    pub cores_busy: Vec<f64>,
    /// How late the cores' own timers were.
    pub delay: Quantiles,
    /// How late requests began that had a time to begin at.
    pub late: Quantiles,
    /// Share of the machine's time that the hypervisor gave to others.
    pub stolen: f64,
    /// Share of TCP segments sent again.
    pub resent: f64,
    /// The network card nearest to its speed, and how near.
    pub card: Option<(String, f64)>,
    /// The I/O driver.
    pub io: String,
    /// Agents that took part, if it were several.
    pub agents: Vec<String>,
}

/// A time that may not be there. Records of old say zero then.
fn unless_zero<'de, D: Deserializer<'de>, T: Deserialize<'de> + Zero>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.filter(|times| !times.is_zero()))
}

/// What may stand for nothing in a record of old.
trait Zero {
    fn is_zero(&self) -> bool;
}

impl Zero for u64 {
    fn is_zero(&self) -> bool {
        *self == 0
    }
}

impl Zero for [Option<u64>; 5] {
    fn is_zero(&self) -> bool {
        self.iter().all(|time| time.is_none_or(|time| time == 0))
    }
}

impl Quantiles {
    /// Of all of `times`.
    pub fn of(times: &Times) -> Self {
        let ns = |time: Duration| time.as_nanos() as u64;
        if times.count() == 0 {
            return Self::default();
        }
        let supported = PERCENTS.into_iter().filter(|&percent| supports(times.count(), percent));
        Self {
            count: times.count(),
            min_ns: ns(times.min()),
            mean_ns: ns(times.mean()),
            deviation_ns: ns(times.deviation()),
            percentiles: supported.map(|percent| (percent, ns(times.percentile(percent)))).collect(),
            max_ns: ns(times.max()),
            buckets: times.buckets().collect(),
        }
    }

    /// The time of a percentile that is in the record, and that its samples support.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        self.supported().find(|(other, _)| *other == percent).map(|(_, time)| time)
    }

    /// Percent and time. Records of old have some that their samples do not support.
    pub fn supported(&self) -> impl Iterator<Item = (f64, Duration)> {
        let supported = self.percentiles.iter().filter(|(percent, _)| supports(self.count, *percent));
        supported.map(|&(percent, ns)| (percent, Duration::from_nanos(ns)))
    }
}

impl Record {
    /// The record of `outcome`, doubted for `doubts`.
    pub fn new(subject: Subject, outcome: &Outcome, doubts: &[Doubt]) -> Self {
        let total = &outcome.total;
        let made_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let service = if outcome.is_open { &total.service } else { &total.response };
        Self {
            format: FORMAT.to_owned(),
            made_at,
            users: outcome.users,
            window_ns: outcome.window.as_nanos() as u64,
            valid: is_valid(outcome, doubts),
            doubts: doubts.iter().map(ToString::to_string).collect(),
            begun: total.begun,
            good: total.good,
            failed: total.failed(),
            unfinished: outcome.unfinished,
            oldest_ns: outcome.oldest.map(|oldest| oldest.as_nanos() as u64),
            missed: outcome.missed,
            rate: outcome.rate(),
            bytes: total.bytes,
            content_bytes: total.content_bytes,
            statuses: total.statuses,
            codes: total.codes.sorted(),
            faults: faults(total),
            malformed: total.malformed.sorted(),
            connections: (total.connections, total.reopened),
            repeated: total.repeated,
            deferred: total.deferred,
            left_open: total.left_open,
            failed_response: Quantiles::of(&total.failed_response),
            response: Quantiles::of(&total.response),
            service: Quantiles::of(service),
            objects: total.objects,
            object_times: Quantiles::of(&total.object_times),
            connect: Quantiles::of(&total.connect),
            pages: parts(&subject.pages, &total.pages),
            sets: parts(&subject.sets, &total.sets),
            course: outcome.intervals.iter().map(Course::of).collect(),
            thresholds: Vec::new(),
            quality: None,
            search: None,
            injector: Injector::of(outcome),
            subject,
        }
    }

    /// The record of a run that somebody ended before it began.
    pub(crate) fn nothing(subject: Subject) -> Self {
        let outcome = Outcome {
            total: Tally::default(),
            window: Duration::ZERO,
            planned: Duration::ZERO,
            intervals: Vec::new(),
            cpu: Duration::ZERO,
            cores_busy: Vec::new(),
            stolen: 0.0,
            resent: 0.0,
            card: None,
            users: 0,
            unfinished: 0,
            oldest: None,
            missed: 0,
            is_open: false,
            is_counted: false,
            interrupted: true,
            agents: Vec::new(),
            lost: Vec::new(),
            io: String::new(),
        };
        let doubt = Doubt::Interrupted { window: Duration::ZERO, planned: Duration::ZERO };
        Self::new(subject, &outcome, &[doubt])
    }

    /// The record of a JSON text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let record: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if record.format != FORMAT {
            return Err(format!("its format is {:?}, not {FORMAT:?}", record.format));
        }
        Ok(record)
    }

    /// The record as a JSON text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and texts") + "\n"
    }

    /// How long the window was.
    pub fn window(&self) -> Duration {
        Duration::from_nanos(self.window_ns)
    }
}

fn faults(total: &Tally) -> Vec<(String, u64)> {
    let count = |fault: Fault| (fault.name().to_owned(), total.faults_of(fault));
    Fault::ALL.into_iter().map(count).filter(|(_, count)| *count > 0).collect()
}

fn parts(names: &[String], parts: &[measure::Part]) -> Vec<Part> {
    let all: u64 = parts.iter().map(|part| part.good + part.failed).sum();
    let name = |index: usize| names.get(index).cloned().unwrap_or_else(|| index.to_string());
    let part = |(index, part): (usize, &measure::Part)| Part {
        name: name(index),
        share: if all == 0 { 0.0 } else { (part.good + part.failed) as f64 / all as f64 },
        good: part.good,
        failed: part.failed,
        bytes: part.bytes,
        within: part.within,
        response: Quantiles::of(&part.response),
    };
    parts.iter().enumerate().map(part).collect()
}

impl Course {
    fn of(interval: &Interval) -> Self {
        let seconds = interval.lasts.as_secs_f64().max(1e-9);
        let ns = |time: Option<Duration>| time.map(|time| time.as_nanos() as u64);
        Self {
            begins_s: interval.begins.as_secs_f64(),
            lasts_s: interval.lasts.as_secs_f64(),
            phase: interval.phase.name().to_owned(),
            good: interval.good,
            rate: interval.rate(),
            byte_rate: interval.bytes as f64 / seconds,
            failed: interval.failed,
            users: interval.users,
            percentiles_ns: interval.percentiles[0].map(|_| interval.percentiles.map(ns)),
            max_ns: ns(interval.percentiles[4]),
        }
    }

    /// The time of percentile number `at` of the interval, if enough answers support it. Records of old have some that are not
    /// supported.
    pub fn percentile_ns(&self, at: usize) -> Option<u64> {
        let answers = self.good.max((self.rate * self.lasts_s).round() as u64);
        let percent = Interval::PERCENTS[at];
        self.percentiles_ns?[at].filter(|_| percent == 100.0 || supports(answers, percent))
    }

    /// The longest response time of a good answer.
    pub fn longest_ns(&self) -> Option<u64> {
        self.max_ns.or_else(|| self.percentile_ns(4))
    }
}

impl Injector {
    fn of(outcome: &Outcome) -> Self {
        Self {
            cpu_ns: outcome.cpu.as_nanos() as u64,
            rate_per_cpu_second: outcome.rate_per_cpu_second(),
            cores_busy: outcome.cores_busy.clone(),
            delay: Quantiles::of(&outcome.total.delay),
            late: Quantiles::of(&outcome.total.late),
            stolen: outcome.stolen,
            resent: outcome.resent,
            card: outcome.card.clone(),
            io: outcome.io.clone(),
            agents: outcome.agents.clone(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::run::Phase;

    /// A record with something in every place, of so many good answers.
    pub(crate) fn sample(title: &str, good: u64) -> Record {
        let mut total = Tally { good, begun: good + 7, bytes: good * 300, ..Tally::default() };
        total.content_bytes = good * 100;
        total.statuses[2] = good;
        total.codes.count(200, good);
        total.fault(Fault::Timeout);
        total.fault(Fault::Reset);
        (0..4).for_each(|_| total.fault(Fault::Malformed));
        total.malformed.count("status line \"HTP/1.1 200\"", 3);
        for index in 0..good {
            total.response.record_n(50_000 + index * index % 3_000_000, 1);
        }
        total.delay.record_n(80_000, 50);
        let page = |weight: u64| measure::Part {
            good: good * weight / 4,
            response: total.response.clone(),
            ..measure::Part::default()
        };
        total.pages = vec![page(1), page(3)];
        let interval = |index: u32| Interval {
            begins: Duration::from_secs(u64::from(index)),
            lasts: Duration::from_secs(1),
            phase: if index == 0 { Phase::RampUp } else { Phase::Window },
            good: good / 10,
            failed: u64::from(index % 2),
            bytes: good * 30,
            users: 8,
            percentiles: Interval::percentiles_of(&total.response),
        };
        let outcome = Outcome {
            window: Duration::from_secs(10),
            planned: Duration::from_secs(10),
            intervals: (0..11).map(interval).collect(),
            cpu: Duration::from_secs(1),
            cores_busy: vec![0.25, 0.5],
            stolen: 0.001,
            resent: 0.0,
            card: Some(("eth0".into(), 0.2)),
            users: 8,
            unfinished: 1,
            oldest: Some(Duration::from_millis(3)),
            missed: 0,
            is_counted: false,
            is_open: false,
            interrupted: false,
            agents: Vec::new(),
            lost: Vec::new(),
            io: "epoll".into(),
            total,
        };
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let subject = Subject {
            title: title.into(),
            target: "http://127.0.0.1/".into(),
            workload: "GET /".into(),
            pace: "closed loop, 8 connections".into(),
            times_from: "sending".into(),
            is_open: false,
            pages: names(["home", "search"]),
            expected_shares: vec![0.25, 0.75],
            sets: Vec::new(),
        };
        Record::new(subject, &outcome, &[Doubt::InjectorCpu { busy: 1.0 }])
    }

    #[test]
    fn what_is_written_is_read() {
        let record = sample("a run", 2000);
        assert_eq!(Record::from_json(&record.to_json()), Ok(record));
    }

    /// An interval without an answer, and a trial, had times of zero: the best there are.
    #[test]
    fn silence_has_no_times() {
        let mut record = sample("nothing", 0);
        let trial = TrialResult { p99_ns: Some(7), ..TrialResult::default() };
        record.search = Some(SearchResult { trials: vec![trial.clone(), trial], ..SearchResult::default() });
        let json: serde_json::Value = serde_json::from_str(&record.to_json()).unwrap();
        assert!(json["course"][0]["percentiles_ns"].is_null(), "{json}");
        assert!(json["course"][0]["max_ns"].is_null(), "{json}");
        let mut old = json.clone();
        old["course"][0]["percentiles_ns"] = serde_json::json!([0, 0, 0, 0, 0]);
        old["search"]["trials"][0]["p99_ns"] = 0.into();
        let old = Record::from_json(&old.to_string()).unwrap();
        assert_eq!(old.course[0].percentiles_ns, None);
        let times = old.search.unwrap().trials.iter().map(|trial| trial.p99_ns).collect::<Vec<_>>();
        assert_eq!(times, [None, Some(7)]);
    }

    /// An interval with three answers had five percentiles of them.
    #[test]
    fn percentiles_of_few_answers_are_not_told() {
        let interval = |count: u64| {
            let mut times = Times::default();
            times.record_n(1_000_000, count);
            let course = Course::of(&Interval {
                begins: Duration::ZERO,
                lasts: Duration::from_millis(100),
                phase: Phase::Window,
                good: count,
                failed: 0,
                bytes: 0,
                users: 1,
                percentiles: Interval::percentiles_of(&times),
            });
            let known = (0..5).filter(|&at| course.percentile_ns(at).is_some()).count();
            (course.percentiles_ns.is_some(), known, course.longest_ns().is_some())
        };
        assert_eq!(interval(0), (false, 0, false));
        assert_eq!(interval(3), (false, 0, true));
        assert_eq!(interval(20), (true, 2, true));
        assert_eq!(interval(1000), (true, 4, true));
        let mut old = Course::of(&Interval {
            begins: Duration::ZERO,
            lasts: Duration::from_secs(1),
            phase: Phase::Window,
            good: 3,
            failed: 0,
            bytes: 0,
            users: 1,
            percentiles: [None; 5],
        });
        (old.good, old.percentiles_ns) = (0, Some([Some(5); 5]));
        assert_eq!((old.percentile_ns(0), old.longest_ns()), (None, Some(5)));
    }

    #[test]
    fn another_format_is_refused() {
        let json = sample("a run", 10).to_json().replace("vermeil-load 1", "vermeil-load 9");
        assert!(Record::from_json(&json).unwrap_err().contains("vermeil-load 9"));
        assert!(Record::from_json("{}").unwrap_err().contains("format"));
    }

    #[test]
    fn percentiles_need_samples() {
        let record = sample("a run", 2000);
        let percentile = |percent| record.response.percentile(percent);
        assert!(percentile(99.0).is_some() && percentile(99.5).is_some() && percentile(99.9).is_none());
        assert_eq!(record.response.percentiles.last().map(|(percent, _)| *percent), Some(99.5));
        assert_eq!(record.pages[1].share, 0.75);
    }
}
