//! The summary at the end of a run, with a latency histogram.
//!
//! Plain text of at most 100 columns. Tested here.

use std::fmt::Write as _;
use std::time::Duration;

use super::record::{Quantiles, Record, RecordPart};
use crate::fault::Fault;
use crate::search::TrialResult;

/// Rows of the histogram, and columns of its longest bar.
const ROWS: usize = 16;
const BAR: usize = 40;
/// The end of a bar, in eighths of a column.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// The summary of a run, for a terminal.
pub fn summary(record: &Record) -> String {
    let mut text = String::new();
    head(&mut text, record);
    counts(&mut text, record);
    times(&mut text, record);
    parts(&mut text, "page", &record.pages, &record.subject.expected_shares);
    parts(&mut text, "address set", &record.sets, &[]);
    quality(&mut text, record);
    injector(&mut text, record);
    verdict(&mut text, record);
    text
}

/// Writes a line. Writing to a string cannot fail.
macro_rules! line {
    ($text:expr $(, $part:expr)*) => { let _infallible = writeln!($text $(, $part)*); };
}

fn head(text: &mut String, record: &Record) {
    let subject = &record.subject;
    line!(text, "{}: {}", subject.title, subject.target);
    let (users, window) = (record.users, record.window());
    let up_to = if subject.is_open { "up to " } else { "" };
    line!(
        text,
        "  {up_to}{users} users, {}; {}; {} measured\n",
        subject.workload,
        subject.pace,
        time(window)
    );
}

fn counts(text: &mut String, record: &Record) {
    let seconds = record.window().as_secs_f64().max(1e-9);
    line!(text, "  answers      {:>12} good   {:>12}/s", grouped(record.good), rate(record.rate));
    line!(
        text,
        "  received     {:>12}        {:>12}/s   ({} of it content)",
        bytes(record.bytes as f64),
        bytes(record.bytes as f64 / seconds),
        bytes(record.content_bytes as f64)
    );
    let (made, reopened) = record.connections;
    let again = if reopened > 0 {
        format!("   ({} reopened after the server closed a connection)", grouped(reopened))
    } else {
        String::new()
    };
    line!(text, "  connections  {:>12} made{again}", grouped(made));
    let (full, resumed) = record.handshakes;
    if full + resumed > 0 {
        line!(text, "  handshakes   {:>12} full   {:>12} resumed", grouped(full), grouped(resumed));
    }
    for (name, count, why) in [
        (
            "sent again",
            record.repeated,
            "requests, once each, because their connection ended as they were sent",
        ),
        (
            "deferred",
            record.deferred,
            "requests that the server did not begin before an end that it announced",
        ),
        (
            "left open",
            record.left_open,
            "connections by the server after their last answer; the injector closed them",
        ),
    ] {
        if count > 0 {
            line!(text, "  {name:<12} {:>12} {why}", grouped(count));
        }
    }
    line!(text, "  statuses     {}", statuses(record));
    faults(text, record);
    if record.unfinished > 0 {
        let oldest = record
            .oldest_ns
            .map_or_else(String::new, |ns| format!(", the oldest for {}", time(Duration::from_nanos(ns))));
        line!(text, "  unfinished   {:>12} at the end of the window{oldest}", grouped(record.unfinished));
    }
    if record.missed > 0 {
        line!(text, "  never begun  {:>12} arrivals that were due", grouped(record.missed));
    }
}

/// Answers by the class of the status, with the codes of each class.
pub(crate) fn statuses(record: &Record) -> String {
    let classes = ["other", "1xx", "2xx", "3xx", "4xx", "5xx"].iter().zip(record.statuses).enumerate();
    let said = classes.filter(|(_, (_, count))| *count > 0).map(|(digit, (class, count))| {
        let is_of = |(code, _): &&(u16, u64)| {
            let class = usize::from(code / 100);
            digit == if class < record.statuses.len() { class } else { 0 }
        };
        let codes: Vec<_> = record.codes.iter().filter(is_of).collect();
        let codes = match &codes[..] {
            [] => String::new(),
            [(code, _)] => format!(" (all {code})"),
            many => {
                let each: Vec<_> =
                    many.iter().map(|(code, of)| format!("{code}: {}", grouped(*of))).collect();
                format!(" ({})", each.join(", "))
            }
        };
        format!("{class} {}{codes}", grouped(count))
    });
    let said: Vec<_> = said.collect();
    if said.is_empty() { "none".to_owned() } else { said.join("  ") }
}

fn faults(text: &mut String, record: &Record) {
    if record.failed == 0 {
        return;
    }
    let share = record.failed as f64 / (record.good + record.failed) as f64 * 100.0;
    let times = &record.failed_response;
    let took = match times.count {
        0 => String::new(),
        _ => {
            let [shortest, longest] = [times.min_ns, times.max_ns].map(|ns| time(Duration::from_nanos(ns)));
            format!(", after {shortest} to {longest}")
        }
    };
    line!(text, "  failed       {:>12} ({share:.3} %){took}", grouped(record.failed));
    for (name, count) in &record.faults {
        line!(text, "    {:>14} {}", grouped(*count), meaning(name));
        if name == Fault::Malformed.name() {
            for (words, times) in malformed(record) {
                line!(text, "    {:>18} of them: {words}", grouped(times));
            }
        }
    }
}

/// The meaning of a fault, by the fault's name in results.
pub(crate) fn meaning(name: &str) -> &str {
    Fault::ALL.into_iter().find(|fault| fault.name() == name).map_or(name, |fault| fault.meaning())
}

/// The violations in malformed answers with counts, including the answers without a kept reason.
pub(crate) fn malformed(record: &Record) -> Vec<(String, u64)> {
    let is_it = |(name, _): &&(String, u64)| name == Fault::Malformed.name();
    let all = record.faults.iter().find(is_it).map_or(0, |(_, count)| *count);
    let mut reasons = record.malformed.clone();
    let rest = all.saturating_sub(reasons.iter().map(|(_, times)| times).sum());
    if rest > 0 && !reasons.is_empty() {
        reasons.push(("something else".to_owned(), rest));
    }
    reasons
}

fn times(text: &mut String, record: &Record) {
    let response = &record.response;
    if response.count == 0 {
        return;
    }
    line!(text, "\n  response times of good answers, from {}", record.subject.times_from);
    let both = record.service != record.response && record.service.count > 0;
    if both {
        line!(text, "             response      service (from sending)");
    }
    let row = |text: &mut String, name: &str, pick: &dyn Fn(&Quantiles) -> String| {
        let service = if both { format!("   {:>10}", pick(&record.service)) } else { String::new() };
        line!(text, "    {name:<6} {:>10}{service}", pick(response));
    };
    for (percent, _) in response.supported() {
        row(text, &format!("p{percent}"), &|times| percentile(times, percent));
    }
    row(text, "max", &|times| time(Duration::from_nanos(times.max_ns)));
    row(text, "mean", &|times| time(Duration::from_nanos(times.mean_ns)));
    text.push('\n');
    histogram(text, response);
}

/// Draws the histogram, in classes of equal ratio.
fn histogram(text: &mut String, times: &Quantiles) {
    let (low, high) = (times.min_ns.max(1) as f64, times.max_ns.max(2) as f64 * 1.000_001);
    let ratio = (high / low).max(1.01).powf(1.0 / ROWS as f64);
    let mut classes = [0u64; ROWS];
    for &(ns, count) in &times.buckets {
        let class = ((ns.max(1) as f64 / low).ln() / ratio.ln()).floor().max(0.0) as usize;
        classes[class.min(ROWS - 1)] += count;
    }
    let most = classes.iter().copied().max().unwrap_or(1).max(1);
    for (index, &count) in classes.iter().enumerate() {
        let up_to = Duration::from_nanos((low * ratio.powi(index as i32 + 1)) as u64);
        let share = count as f64 / times.count as f64 * 100.0;
        line!(text, "    ≤ {:>9}  {:>6.2} % {}", time(up_to), share, bar(count as f64 / most as f64));
    }
}

fn bar(share: f64) -> String {
    let eighths = (share * (BAR * 8) as f64).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn parts(text: &mut String, what: &str, parts: &[RecordPart], expected: &[f64]) {
    if parts.is_empty() {
        return;
    }
    line!(
        text,
        "\n  {what:<18} {:>10} {:>8} {:>7} {:>9} {:>10} {:>10}",
        "good",
        "failed",
        "share",
        "expected",
        "p95",
        "p99"
    );
    for (index, part) in parts.iter().enumerate() {
        let expected =
            expected.get(index).map_or_else(String::new, |share| format!("{:.2} %", share * 100.0));
        line!(
            text,
            "  {:<18} {:>10} {:>8} {:>5.2} % {expected:>9} {:>10} {:>10}",
            part.name,
            grouped(part.good),
            grouped(part.failed),
            part.share * 100.0,
            percentile(&part.response, 95.0),
            percentile(&part.response, 99.0)
        );
    }
}

fn quality(text: &mut String, record: &Record) {
    if let Some(quality) = &record.quality {
        let held = if quality.held { "held" } else { "NOT held" };
        line!(text, "\n  quality of service {held}: {}", quality.asked);
        line!(
            text,
            "    good {:.2} %, tolerable {:.2} %, failed {:.3} %",
            quality.good_share * 100.0,
            quality.tolerable_share * 100.0,
            quality.failed_share * 100.0
        );
        if quality.overdue[0] > 0 {
            let [good, tolerable] = quality.overdue.map(grouped);
            line!(
                text,
                "    of these {good} not good and {tolerable} not tolerable because they still had not come at the end"
            );
        }
        for (set, shares) in record.sets.iter().zip(&quality.sets) {
            line!(
                text,
                "    {:<18} good {:.2} %, tolerable {:.2} %",
                set.name,
                shares[0] * 100.0,
                shares[1] * 100.0
            );
        }
        for broken in &quality.broken {
            line!(text, "    {broken}");
        }
    }
    if let Some(search) = &record.search {
        line!(text, "\n  most users that hold it: {} ({})", grouped(search.users as u64), search.confidence);
        for trial in &search.trials {
            let said = said(trial);
            line!(
                text,
                "    {:>8} users  good {:>6.2} %  tolerable {:>6.2} %  {:>10}/s  {said}",
                grouped(trial.users as u64),
                trial.good_share * 100.0,
                trial.tolerable_share * 100.0,
                rate(trial.rate)
            );
            for doubt in &trial.doubts {
                line!(text, "             because {doubt}");
            }
        }
    }
}

/// The result of a trial in words.
pub(crate) fn said(trial: &TrialResult) -> &'static str {
    match trial {
        TrialResult { valid: false, .. } => "not to be trusted",
        TrialResult { held: true, .. } => "held",
        TrialResult { .. } => "not held",
    }
}

fn injector(text: &mut String, record: &Record) {
    let own = &record.injector;
    let busy: Vec<_> = own.cores_busy.iter().map(|busy| format!("{:.0}", busy * 100.0)).collect();
    line!(
        text,
        "\n  injector     {} of cpu, cores busy {} %, {} answers per cpu second, {}",
        time(Duration::from_nanos(own.cpu_ns)),
        busy.join(", "),
        rate(own.rate_per_cpu_second),
        own.io.split(' ').next().unwrap_or_default()
    );
    let late = if own.late.count > 0 {
        // In an open loop, requests also wait for a free connection.
        let cause = if record.missed > 0 { " for want of connections" } else { "" };
        format!(", starts late by {}{cause}", p99_or_max(&own.late))
    } else {
        String::new()
    };
    line!(text, "               its own delay {}{late}", p99_or_max(&own.delay));
}

fn verdict(text: &mut String, record: &Record) {
    for judged in &record.thresholds {
        let word = if judged.is_passed { "FAILED" } else { "kept" };
        line!(text, "  {word:<12} --fail-if {}: {}", judged.asked, judged.said);
    }
    if record.valid && record.doubts.is_empty() {
        line!(text, "  valid        nothing but the server set the pace, as far as can be seen from here");
    } else if record.valid {
        line!(
            text,
            "  done         every request has ended; the answers are checked, the speed is not measured"
        );
    }
    let word = if record.valid { "doubt" } else { "INVALID" };
    for doubt in &record.doubts {
        line!(text, "  {word:<12} {doubt}");
    }
}

/// A percentile, if the number of samples supports the percentile.
pub(crate) fn percentile(times: &Quantiles, percent: f64) -> String {
    times.percentile(percent).map_or_else(|| "–".to_owned(), time)
}

/// The time that 99 of 100 times did not exceed, or the longest with few samples.
fn p99_or_max(times: &Quantiles) -> String {
    match times.percentile(99.0) {
        Some(p99) => format!("{} (p99)", time(p99)),
        None => format!("{} (most)", time(Duration::from_nanos(times.max_ns))),
    }
}

/// A time to three or four digits.
pub(crate) fn time(time: Duration) -> String {
    let ns = time.as_nanos() as f64;
    match ns {
        0.0..1e3 => format!("{ns:.0} ns"),
        1e3..1e6 => format!("{} µs", short(ns / 1e3)),
        1e6..1e9 => format!("{} ms", short(ns / 1e6)),
        _ => format!("{} s", short(ns / 1e9)),
    }
}

fn short(number: f64) -> String {
    match number {
        0.0..10.0 => format!("{number:.2}"),
        10.0..100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// A number of bytes to three digits.
pub(crate) fn bytes(bytes: f64) -> String {
    let (mut number, mut unit) = (bytes, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if number < 1024.0 {
            break;
        }
        (number, unit) = (number / 1024.0, next);
    }
    if unit == "B" { format!("{number:.0} B") } else { format!("{} {unit}", short(number)) }
}

/// A rate, with meaningful digits.
pub(crate) fn rate(rate: f64) -> String {
    if rate < 100.0 { short(rate) } else { grouped(rate.round() as u64) }
}

/// Digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::sample;
    use super::*;

    #[test]
    fn report_has_every_section() {
        let text = summary(&sample("a run", 2000));
        for part in [
            "a run: http://127.0.0.1/",
            "2,000 good",
            "6 (0.299 %)",
            "200/s",
            "2xx 2,000",
            "no answer in time",
            "reset, or closed",
            "4 malformed answer",
            "3 of them: status line \"HTP/1.1 200\"",
            "1 of them: something else",
            "1 at the end",
            "from sending",
            "p99 ",
            "max",
            "search",
            "75.00 %",
            "INVALID      the injector's cpu was the limit",
            "cores busy 25, 50 %",
            "its own delay 80.1 µs (most)",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        assert!(!text.contains("p99.9 "), "2,000 samples say nothing about it");
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }

    #[test]
    fn report_counts_arrivals_never_begun() {
        let mut record = sample("a run", 2000);
        (record.missed, record.injector.late) = (1234, record.response.clone());
        let text = summary(&record);
        assert!(
            text.contains("1,234 arrivals that were due") && text.contains("for want of connections"),
            "{text}"
        );
    }

    #[test]
    fn histogram_has_every_bucket() {
        let mut text = String::new();
        histogram(&mut text, &sample("", 2000).response);
        let share = |line: &str| line.split_whitespace().nth(3)?.parse::<f64>().ok();
        let sum: f64 = text.lines().filter_map(share).sum();
        assert_eq!(text.lines().count(), ROWS);
        assert!((sum - 100.0).abs() < 0.2, "{sum}\n{text}");
    }

    #[test]
    fn a_run_without_answers_has_a_summary() {
        let text = summary(&sample("nothing", 0));
        assert!(text.contains("0 good") && !text.contains("response times"), "{text}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(time(Duration::from_micros(412)), "412 µs");
        assert_eq!(time(Duration::from_nanos(1_234_000)), "1.23 ms");
        assert_eq!(bytes(1536.0), "1.50 KiB");
        assert_eq!((rate(1234.4), rate(0.5)), ("1,234".to_owned(), "0.50".to_owned()));
    }
}
