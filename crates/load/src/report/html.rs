//! Results as an HTML page: plots, tables, and the records, in a single file without scripts.
//!
//! Several runs stand side by side, in one colour each. Tested here.

use std::fmt::Write as _;
use std::time::Duration;

use super::plot::{Plot, PlotLine, Scale, escape};
use super::record::{CourseInterval, Record, RecordSubject};
use super::text::{bytes, grouped, malformed, meaning, percentile, rate, said, statuses, time};
use crate::run::RunPhase;
use crate::search::TrialResult;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222;background:#fff}\
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto}\
td,th{padding:.25em .7em;border-bottom:1px solid #ddd;text-align:right}td:first-child,th:first-child{text-align:left;white-space:nowrap}\
svg{width:100%;height:auto;margin:1em 0}svg text{font:12px system-ui,sans-serif;fill:#333}svg .t{font-weight:600;font-size:13px}\
.g{stroke:#e4e4e4}.w{fill:#eef3f8}.bad{background:#fdecea;border-left:4px solid #b3261e;padding:.6em 1em}\
.fine{background:#e8f5ec;border-left:4px solid #00703c;padding:.6em 1em}pre{overflow-x:auto;font-size:12px}";

/// A page about `records`, which has at least one.
pub fn html(records: &[Record]) -> String {
    let title = match records {
        [one] => one.subject.title.clone(),
        many => format!("{} runs of vermeil load", many.len()),
    };
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{0}</title><style>{STYLE}</style></head><body><h1>{0}</h1>\n",
        escape(&title)
    );
    for (index, record) in records.iter().enumerate() {
        verdict(&mut page, &name(records, index), record);
    }
    overview(&mut page, records);
    plots(&mut page, records);
    for (index, record) in records.iter().enumerate() {
        faults(&mut page, &name(records, index), record);
        parts(&mut page, &name(records, index), record);
        search(&mut page, &name(records, index), record);
    }
    page.push_str("<h2>Records</h2>\n");
    for (index, record) in records.iter().enumerate() {
        let _infallible = writeln!(
            page,
            "<details><summary>{}, as JSON</summary><pre>{}</pre></details>",
            escape(&name(records, index)),
            escape(&record.to_json())
        );
    }
    page + "</body></html>\n"
}

/// The name of a run beside other runs.
fn name(records: &[Record], index: usize) -> String {
    let record = &records[index];
    match records.len() {
        1 => record.subject.target.clone(),
        _ => {
            let RecordSubject { title, target, .. } = &record.subject;
            let what = title.strip_prefix("vermeil load").unwrap_or(title).trim();
            let comma = if what.is_empty() { "" } else { ", " };
            format!("{}: {what}{comma}{target}, {} users", index + 1, record.users)
        }
    }
}

fn verdict(page: &mut String, name: &str, record: &Record) {
    let subject = &record.subject;
    let _infallible = writeln!(
        page,
        "<p><b>{}</b><br>{}{} users, {}; {}; {} measured<br>Response times of good answers, from {}.</p>",
        escape(name),
        if subject.is_open { "up to " } else { "" },
        record.users,
        escape(&subject.workload),
        escape(&subject.pace),
        time(record.window()),
        escape(&subject.times_from)
    );
    if record.valid && record.doubts.is_empty() {
        page.push_str("<p class=\"fine\">Valid: nothing but the server set the pace, as far as the injector can see.</p>\n");
    }
    let word = if record.valid { "Doubt" } else { "Invalid" };
    for doubt in &record.doubts {
        let _infallible = writeln!(page, "<p class=\"bad\">{word}: {}</p>", escape(doubt));
    }
    for judged in &record.thresholds {
        let (class, word) = if judged.is_passed { ("bad", "Failed") } else { ("fine", "Kept") };
        let _infallible = writeln!(
            page,
            "<p class=\"{class}\">{word}: --fail-if {}: {}</p>",
            escape(&judged.asked),
            escape(&judged.said)
        );
    }
    if let Some(quality) = record.quality.as_ref().filter(|quality| !quality.held) {
        let _infallible = writeln!(
            page,
            "<p class=\"bad\">Quality of service not held ({}): {}</p>",
            escape(&quality.asked),
            escape(&quality.broken.join("; "))
        );
    }
}

/// A row of the overview: the label, and the function for the cell.
type OverviewRow = (&'static str, fn(&Record) -> String);

fn overview(page: &mut String, records: &[Record]) {
    const ROWS: [OverviewRow; 17] = [
        ("good answers", |record| grouped(record.good)),
        ("per second", |record| rate(record.rate)),
        ("failed", |record| grouped(record.failed)),
        ("statuses", statuses),
        ("sent again", |record| grouped(record.repeated)),
        ("unfinished", |record| grouped(record.unfinished)),
        ("oldest unfinished", |record| {
            record.oldest_ns.map_or("–".into(), |ns| time(Duration::from_nanos(ns)))
        }),
        ("received", |record| bytes(record.bytes as f64)),
        ("p50", |record| percentile(&record.response, 50.0)),
        ("p90", |record| percentile(&record.response, 90.0)),
        ("p99", |record| percentile(&record.response, 99.0)),
        ("p99.9", |record| percentile(&record.response, 99.9)),
        ("p99.99", |record| percentile(&record.response, 99.99)),
        ("max", |record| time(Duration::from_nanos(record.response.max_ns))),
        ("good quality", |record| {
            record.quality.as_ref().map_or("–".into(), |q| format!("{:.2} %", q.good_share * 100.0))
        }),
        ("injector cpu", |record| time(Duration::from_nanos(record.injector.cpu_ns))),
        ("injector delay p99", |record| percentile(&record.injector.delay, 99.0)),
    ];
    page.push_str("<h2>Overview</h2>\n<table><tr><th></th>");
    for index in 0..records.len() {
        let _infallible = write!(page, "<th>{}</th>", escape(&name(records, index)));
    }
    page.push_str("</tr>\n");
    for (what, said) in ROWS {
        let _infallible = write!(page, "<tr><td>{what}</td>");
        for record in records {
            let _infallible = write!(page, "<td>{}</td>", escape(&said(record)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

fn seconds(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { time(Duration::try_from_secs_f64(value).unwrap_or_default()) }
}

fn plots(page: &mut String, records: &[Record]) {
    let place = |value: f64| format!("{} s", (value * 1e3).round() / 1e3);
    let lines = |pick: &dyn Fn(&CourseInterval) -> Option<f64>| -> Vec<PlotLine> {
        let line = |(index, record): (usize, &Record)| {
            let points = record.course.iter().map(|course| (course.begins_s + course.lasts_s, pick(course)));
            PlotLine::with_gaps(name(records, index), points)
        };
        records.iter().enumerate().map(line).collect()
    };
    let time_axis = || ("time".to_owned(), Scale::Linear);
    let window = window(records);
    page.push_str("<h2>Course</h2>\n");
    if window.is_some() {
        page.push_str("<p>The window that counts is coloured.</p>\n");
    }
    let throughput = Plot {
        title: "Good answers per second".into(),
        x: time_axis(),
        y: (String::new(), Scale::Linear),
        lines: lines(&|course| Some(course.rate)),
        window,
        value: |value| if value == 0.0 { "0".to_owned() } else { rate(value) },
        place,
    };
    page.push_str(&throughput.svg());
    for (title, at) in
        [("Response times, median of each interval", 0), ("Response times, 99 % of each interval", 2)]
    {
        let plot = Plot {
            title: title.into(),
            x: time_axis(),
            y: (String::new(), Scale::Log),
            lines: lines(&|course| course.percentile_ns(at).map(|ns| ns as f64 / 1e9)),
            window,
            value: seconds,
            place,
        };
        page.push_str(&plot.svg());
    }
    page.push_str("<h2>Response times</h2>\n");
    page.push_str(&distribution(records).svg());
}

/// The window of all runs, if all runs have the same window and the window is not the whole run.
fn window(records: &[Record]) -> Option<(f64, f64)> {
    let mut windows = records.iter().map(|record| {
        let inside = || record.course.iter().filter(|course| course.phase == RunPhase::Window.name());
        let ends = inside().next_back().map(|course| course.begins_s + course.lasts_s);
        inside()
            .next()
            .map(|course| course.begins_s)
            .zip(ends)
            .filter(|_| inside().count() < record.course.len())
    });
    let first = windows.next()??;
    let is_near = |(begins, ends): (f64, f64)| (begins - first.0).abs() < 0.1 && (ends - first.1).abs() < 0.1;
    windows.all(|other| other.is_some_and(is_near)).then_some(first)
}

/// The latency distribution: the time against the share of slower answers, by powers of ten.
fn distribution(records: &[Record]) -> Plot {
    let line = |(index, record): (usize, &Record)| {
        let (mut seen, count) = (0, record.response.count);
        let points = record.response.buckets.iter().filter_map(|&(ns, of)| {
            seen += of;
            let beyond = count.saturating_sub(seen).max(1) as f64 / count as f64;
            // At least ten answers lie above every shown percentile.
            (of > 0 && count.saturating_sub(seen) >= 10).then_some((1.0 / beyond, ns as f64 / 1e9))
        });
        PlotLine::whole(name(records, index), points.collect())
    };
    Plot {
        title: "Distribution".into(),
        x: ("percentile".into(), Scale::Log),
        y: (String::new(), Scale::Log),
        lines: records.iter().enumerate().map(line).collect(),
        window: None,
        value: seconds,
        place: |value| format!("{} %", (100.0 - 100.0 / value) as f32),
    }
}

/// The failures by kind, and the violations in malformed answers.
fn faults(page: &mut String, run: &str, record: &Record) {
    if record.faults.is_empty() {
        return;
    }
    let _infallible = writeln!(page, "<h2>Failures of {}</h2>\n<table>", escape(run));
    let reasons = malformed(record).into_iter().map(|(words, times)| (format!("malformed: {words}"), times));
    let kinds = record.faults.iter().map(|(name, count)| (meaning(name).to_owned(), *count));
    for (what, count) in kinds.chain(reasons) {
        let _infallible = writeln!(page, "<tr><td>{}</td><td>{}</td></tr>", escape(&what), grouped(count));
    }
    page.push_str("</table>\n");
}

fn parts(page: &mut String, run: &str, record: &Record) {
    for (what, parts) in [("Pages", &record.pages), ("Sets of addresses", &record.sets)] {
        if parts.is_empty() {
            continue;
        }
        let _infallible = write!(
            page,
            "<h2>{what} of {}</h2>\n<table><tr><th></th><th>good</th><th>failed</th><th>share</th><th>of good quality</th>\
             <th>tolerable</th><th>p50</th><th>p95</th><th>p99</th></tr>\n",
            escape(run)
        );
        for part in parts {
            let of = |count: u64| count as f64 / (part.good + part.failed).max(1) as f64 * 100.0;
            let _infallible = writeln!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2} %</td><td>{:.2} %</td><td>{:.2} %</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(&part.name),
                grouped(part.good),
                grouped(part.failed),
                part.share * 100.0,
                of(part.within[0]),
                of(part.within[1]),
                percentile(&part.response, 50.0),
                percentile(&part.response, 95.0),
                percentile(&part.response, 99.0)
            );
        }
        page.push_str("</table>\n");
    }
}

/// Users and the measured quality.
fn search(page: &mut String, run: &str, record: &Record) {
    let Some(search) = &record.search else { return };
    let mut trials: Vec<_> = search.trials.iter().collect();
    trials.sort_by_key(|trial| trial.users);
    let line = |name: &str, pick: fn(&TrialResult) -> f64| {
        let points = trials.iter().map(|trial| (trial.users as f64, pick(trial) * 100.0));
        PlotLine::whole(name.to_owned(), points.collect())
    };
    let plot = Plot {
        title: "Pages of good and of tolerable quality, by users".into(),
        x: ("users".into(), Scale::Linear),
        y: (String::new(), Scale::Percent),
        lines: vec![line("good", |trial| trial.good_share), line("tolerable", |trial| trial.tolerable_share)],
        window: None,
        value: |value| format!("{value:.0} %"),
        place: |value| format!("{value:.0}"),
    };
    let _infallible = write!(
        page,
        "<h2>Most users of {}: {}</h2>\n<p>{}</p>\n{}",
        escape(run),
        grouped(search.users as u64),
        escape(&search.confidence),
        plot.svg()
    );
    page.push_str("<table><tr><th>users</th><th>good</th><th>tolerable</th><th>failed</th><th>per second</th><th></th></tr>\n");
    for trial in &search.trials {
        let _infallible = writeln!(
            page,
            "<tr><td>{}</td><td>{:.2} %</td><td>{:.2} %</td><td>{:.3} %</td><td>{}</td><td>{}</td></tr>",
            grouped(trial.users as u64),
            trial.good_share * 100.0,
            trial.tolerable_share * 100.0,
            trial.failed_share * 100.0,
            rate(trial.rate),
            escape(&[&[said(trial).to_owned()], &trial.doubts[..]].concat().join(": "))
        );
    }
    page.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::sample;
    use super::*;
    use crate::search::{SearchResult, TrialResult};

    #[test]
    fn runs_stand_side_by_side() {
        let mut other = sample("<script>", 500);
        other.search = Some(SearchResult {
            users: 70,
            trials: vec![TrialResult { users: 70, good_share: 0.96, ..TrialResult::default() }],
            ..SearchResult::default()
        });
        let page = html(&[sample("a run", 2000), other]);
        assert_eq!(page.matches("<svg").count(), 5);
        assert!(page.contains("<td>malformed: status line &quot;HTP/1.1 200&quot;</td><td>3</td>"), "{page}");
        assert!(page.contains("2 runs of") && page.contains("Most users of 2: "));
        assert!(!page.contains("<script") && !page.contains("http://www") && !page.contains("NaN"));
        assert!(page.contains("<th>1: ") && page.contains("<th>2: ") && page.contains("class=\"bad\""));
    }

    #[test]
    fn trial_names_its_doubts_in_each_form() {
        let mut record = sample("a search", 2000);
        let trial =
            TrialResult { users: 80, doubts: vec!["a core was <busy>".to_owned()], ..TrialResult::default() };
        record.search = Some(SearchResult { users: 70, trials: vec![trial], ..SearchResult::default() });
        let text = super::super::summary(&record);
        assert!(text.contains("not to be trusted") && text.contains("because a core was <busy>"), "{text}");
        let json = serde_json::to_string(&record).expect("a record is JSON");
        assert!(json.contains("a core was <busy>"), "{json}");
        let page = html(&[record]);
        assert!(page.contains("not to be trusted: a core was &lt;busy&gt;"), "{page}");
    }

    /// Regression: the sentence of the first run appeared for all runs.
    #[test]
    fn page_names_start_of_measured_times() {
        let mut open = sample("open", 2000);
        open.subject.times_from = "the intended start".to_owned();
        let page = html(&[sample("closed", 2000), open]);
        assert!(page.contains("from sending.") && page.contains("from the intended start."), "{page}");
    }

    #[test]
    fn a_page_of_a_run_without_answers() {
        let page = html(&[sample("nothing", 0)]);
        assert!(page.contains("<svg") && !page.contains("NaN") && !page.contains("inf"), "{page}");
    }
}
