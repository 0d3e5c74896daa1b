//! The record of a run: all data of the run, in a stored format.
//!
//! Times are nanoseconds, sizes are bytes, shares are 0 to 1. A new version only adds fields. The
//! field `format` names the version. Tested here: a written record is read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::measure::{self, Tally, Times, supports};
use crate::old_records::unless_zero;
use crate::quality::QualityResult;
use crate::run::{Interval, Outcome};
use crate::search::SearchResult;
use crate::verdict::{ValidityWarning, is_valid};

/// The value of a record's first field.
const FORMAT: &str = "vermeil-load 1";

/// The percentiles of a record, as far as the samples support them.
pub(super) const PERCENTS: [f64; 9] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// A description of the run in words, for later readers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordSubject {
    /// The title of the run in results.
    pub title: String,
    /// The target of the requests.
    pub target: String,
    /// The workload of each user.
    pub workload: String,
    /// The loop: closed, open or partly open, with its parameters.
    pub pace: String,
    /// The start of measured times.
    pub times_from: String,
    /// Whether the loop is open. Then the number of users or connections is a maximum.
    #[serde(default)]
    pub is_open: bool,
    /// Names of pages, in the order of `pages` of the record.
    pub pages: Vec<String>,
    /// The expected share of each page, if the workload is a Markov chain.
    pub expected_shares: Vec<f64>,
    /// Names of address sets, in the order of `sets` of the record.
    pub sets: Vec<String>,
}

/// A stored result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The format and the version.
    pub format: String,
    /// Time of the record, in seconds since 1970.
    pub made_at: u64,
    /// The description of the run.
    pub subject: RecordSubject,
    /// Number of users, or of connections of a simple run.
    pub users: usize,
    /// Length of the measured window, in nanoseconds.
    pub window_ns: u64,
    /// Whether the run is valid.
    pub valid: bool,
    /// The reasons against the run. A small run that ended after the requested number of requests
    /// is valid with doubts about speed.
    pub doubts: Vec<String>,
    /// Requests begun in the window.
    pub begun: u64,
    /// Number of good answers.
    pub good: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// Requests that had not ended at the end.
    pub unfinished: u64,
    /// The wait of the oldest unfinished request, in nanoseconds.
    #[serde(default)]
    pub oldest_ns: Option<u64>,
    /// Arrivals that were due and had not begun at the end.
    #[serde(default)]
    pub missed: u64,
    /// Good answers per second.
    pub rate: f64,
    /// Bytes received, also in failed answers.
    pub bytes: u64,
    /// Bytes of content of complete answers.
    pub content_bytes: u64,
    /// Answers by the first digit of the status. The first entry is for digits out of range.
    pub statuses: [u64; 6],
    /// Answers by status code, ascending.
    #[serde(default)]
    pub codes: Vec<(u16, u64)>,
    /// Failures by name.
    pub faults: Vec<(String, u64)>,
    /// The violations in malformed answers, with bytes of the answers, and counts; the first few
    /// reasons.
    #[serde(default)]
    pub malformed: Vec<(String, u64)>,
    /// Opened connections, and idle connections that the server had closed.
    pub connections: (u64, u64),
    /// Full and resumed TLS handshakes of the opened connections.
    #[serde(default)]
    pub handshakes: (u64, u64),
    /// Requests that were sent again, once, because the connection ended while the requests were on
    /// their way.
    #[serde(default)]
    pub repeated: u64,
    /// Requests after an announced end of a connection, which the server did not begin. The
    /// requests used another connection.
    #[serde(default)]
    pub deferred: u64,
    /// Connections that the server left open although both sides had agreed on the end.
    #[serde(default)]
    pub left_open: u64,
    /// Response times of good answers.
    pub response: Quantiles,
    /// Service times of good answers, if different from response times.
    pub service: Quantiles,
    /// Failed requests: the time from the intended start to the failure.
    #[serde(default)]
    pub failed_response: Quantiles,
    /// Answered requests on the wire, if a page has several.
    pub objects: u64,
    /// The times of `objects`.
    pub object_times: Quantiles,
    /// Times to open a connection.
    pub connect: Quantiles,
    /// By page.
    pub pages: Vec<RecordPart>,
    /// By set of addresses.
    pub sets: Vec<RecordPart>,
    /// The course of the run.
    pub course: Vec<CourseInterval>,
    /// The results of `--fail-if`.
    #[serde(default)]
    pub thresholds: Vec<Judged>,
    /// The quality of service, if requested.
    pub quality: Option<QualityResult>,
    /// The search for the maximum number of users, if requested.
    pub search: Option<SearchResult>,
    /// The resources and delays of the injector.
    pub injector: InjectorRecord,
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Number of times.
    pub count: u64,
    /// The shortest time in nanoseconds; all following times are in nanoseconds.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The standard deviation.
    pub deviation_ns: u64,
    /// Percent and time, for the percentiles that the samples support.
    pub percentiles: Vec<(f64, u64)>,
    /// The longest time.
    pub max_ns: u64,
    /// Every non-empty bucket: the highest time and the count.
    pub buckets: Vec<(u64, u64)>,
}

/// A part of the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordPart {
    /// The name of the page or set.
    pub name: String,
    /// The share in all requests of this kind.
    pub share: f64,
    /// Good answers.
    pub good: u64,
    /// Number of failures.
    pub failed: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Answers of good quality, and of at least tolerable quality.
    pub within: [u64; 2],
    /// Response times.
    pub response: Quantiles,
}

/// An interval of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CourseInterval {
    /// Seconds from the start of the run.
    pub begins_s: f64,
    /// Length in seconds.
    pub lasts_s: f64,
    /// The phase of the interval.
    pub phase: String,
    /// Good answers.
    #[serde(default)]
    pub good: u64,
    /// Good answers per second.
    pub rate: f64,
    /// Bytes per second, also in failed answers.
    pub byte_rate: f64,
    /// Failures.
    pub failed: u64,
    /// Users at the end of the interval: users that had begun and had not ended.
    pub users: usize,
    /// Response times of good answers: median, 90, 99, 99.9 %, longest. A percentile is present
    /// only if ten answers lie above. `None` without any percentile.
    #[serde(deserialize_with = "unless_zero")]
    pub percentiles_ns: Option<[Option<u64>; 5]>,
    /// The longest response time of a good answer.
    #[serde(default)]
    pub max_ns: Option<u64>,
}

/// The result of a threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The threshold as written.
    pub asked: String,
    /// Whether the run has passed the threshold, and so has failed.
    pub is_passed: bool,
    /// The value of the run in words.
    pub said: String,
}

/// The resources and delays of the injector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InjectorRecord {
    /// Cpu time in nanoseconds.
    pub cpu_ns: u64,
    /// Good answers per second of cpu time.
    pub rate_per_cpu_second: f64,
    /// Share of the time that each core was busy.
    pub cores_busy: Vec<f64>,
    /// Lateness of the cores' timers.
    pub delay: Quantiles,
    /// Lateness of requests with an intended start.
    pub late: Quantiles,
    /// Share of the machine's time that the hypervisor gave to other machines.
    pub stolen: f64,
    /// Share of retransmitted TCP segments.
    pub resent: f64,
    /// The network card with the highest share of its speed, and that share.
    pub card: Option<(String, f64)>,
    /// The I/O driver.
    pub io: String,
    /// The agents of the run, if there were several.
    pub agents: Vec<String>,
}

impl Quantiles {
    /// The distribution of `times`.
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

    /// The time of a percentile that is in the record and supported by the samples.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        self.supported().find(|(other, _)| *other == percent).map(|(_, time)| time)
    }

    /// Percent and time of supported percentiles. Old records have some without support.
    pub fn supported(&self) -> impl Iterator<Item = (f64, Duration)> {
        let supported = self.percentiles.iter().filter(|(percent, _)| supports(self.count, *percent));
        supported.map(|&(percent, ns)| (percent, Duration::from_nanos(ns)))
    }
}

impl Record {
    /// The record of `outcome` with `doubts`.
    pub fn new(subject: RecordSubject, outcome: &Outcome, doubts: &[ValidityWarning]) -> Self {
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
            oldest_ns: outcome.waits.map(|waits| waits.oldest.as_nanos() as u64),
            missed: outcome.missed,
            rate: outcome.rate(),
            bytes: total.bytes,
            content_bytes: total.content_bytes,
            statuses: total.statuses,
            codes: total.codes.sorted(),
            faults: faults(total),
            malformed: total.malformed.sorted(),
            connections: (total.connections, total.reopened),
            handshakes: total.handshakes.into(),
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
            course: outcome.intervals.iter().map(CourseInterval::of).collect(),
            thresholds: Vec::new(),
            quality: None,
            search: None,
            injector: InjectorRecord::of(outcome),
            subject,
        }
    }

    /// The record of a run that the user ended before the start.
    pub(crate) fn nothing(subject: RecordSubject) -> Self {
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
            began_late: Duration::ZERO,
            unfinished: 0,
            waits: None,
            missed: 0,
            is_open: false,
            is_counted: false,
            interrupted: true,
            agents: Vec::new(),
            lost: Vec::new(),
            io: String::new(),
        };
        let doubt = ValidityWarning::Interrupted { window: Duration::ZERO, planned: Duration::ZERO };
        Self::new(subject, &outcome, &[doubt])
    }

    /// Parses a JSON record.
    ///
    /// # Errors
    /// The text is not a record; the error is the reason.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let record: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if record.format != FORMAT {
            return Err(format!("its format is {:?}, not {FORMAT:?}", record.format));
        }
        Ok(record)
    }

    /// The record as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and texts") + "\n"
    }

    /// The length of the window.
    pub fn window(&self) -> Duration {
        Duration::from_nanos(self.window_ns)
    }
}

fn faults(total: &Tally) -> Vec<(String, u64)> {
    let count = |fault: Fault| (fault.name().to_owned(), total.faults_of(fault));
    Fault::ALL.into_iter().map(count).filter(|(_, count)| *count > 0).collect()
}

fn parts(names: &[String], parts: &[measure::CountedPart]) -> Vec<RecordPart> {
    let all: u64 = parts.iter().map(|part| part.good + part.failed).sum();
    let name = |index: usize| names.get(index).cloned().unwrap_or_else(|| index.to_string());
    let part = |(index, part): (usize, &measure::CountedPart)| RecordPart {
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

impl CourseInterval {
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

    /// The time of percentile number `at` of the interval, if enough answers support the
    /// percentile. Old records have some without support.
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

impl InjectorRecord {
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
    use crate::run::{OpenWaits, RunPhase};
    use crate::search::TrialResult;

    /// A record with a value in every field, of this number of good answers.
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
        let page = |weight: u64| measure::CountedPart {
            good: good * weight / 4,
            response: total.response.clone(),
            ..measure::CountedPart::default()
        };
        total.pages = vec![page(1), page(3)];
        let interval = |index: u32| Interval {
            begins: Duration::from_secs(u64::from(index)),
            lasts: Duration::from_secs(1),
            phase: if index == 0 { RunPhase::RampUp } else { RunPhase::Window },
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
            began_late: Duration::ZERO,
            unfinished: 1,
            waits: Some(OpenWaits { oldest: Duration::from_millis(3), silence: Duration::ZERO }),
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
        let subject = RecordSubject {
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
        Record::new(subject, &outcome, &[ValidityWarning::InjectorCpu { busy: 1.0 }])
    }

    #[test]
    fn written_record_reads_back() {
        let record = sample("a run", 2000);
        assert_eq!(Record::from_json(&record.to_json()), Ok(record));
    }

    /// Regression: an interval without an answer, and a trial, had times of zero, the best possible
    /// values.
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

    /// Regression: an interval with three answers had five percentiles.
    #[test]
    fn few_answers_give_no_percentiles() {
        let interval = |count: u64| {
            let mut times = Times::default();
            times.record_n(1_000_000, count);
            let course = CourseInterval::of(&Interval {
                begins: Duration::ZERO,
                lasts: Duration::from_millis(100),
                phase: RunPhase::Window,
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
        let mut old = CourseInterval::of(&Interval {
            begins: Duration::ZERO,
            lasts: Duration::from_secs(1),
            phase: RunPhase::Window,
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
