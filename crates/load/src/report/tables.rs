//! Results for programs: CSV for spreadsheets, OpenMetrics for monitoring.
//!
//! Tested here.

use std::fmt::Write as _;

use super::record::{Quantiles, Record};

/// The course of the run as CSV: a header, and a line per interval. Times of good answers are in
/// seconds, rates are per second. A percentile is empty if fewer than ten answers lie above. The
/// longest time is empty without answers.
pub fn csv(record: &Record) -> String {
    let mut text =
        "begins_s,lasts_s,phase,good_per_s,bytes_per_s,failed,users,p50_s,p90_s,p99_s,p99_9_s,max_s\n"
            .to_owned();
    for course in &record.course {
        let _infallible = write!(
            text,
            "{:.3},{:.3},{},{:.3},{:.1},{},{}",
            course.begins_s,
            course.lasts_s,
            course.phase,
            course.rate,
            course.byte_rate,
            course.failed,
            course.users
        );
        let times = (0..4).map(|at| course.percentile_ns(at)).chain([course.longest_ns()]);
        for time in times {
            let _infallible = match time {
                Some(ns) => write!(text, ",{:.9}", ns as f64 / 1e9),
                None => write!(text, ","),
            };
        }
        text.push('\n');
    }
    text
}

/// The result in the OpenMetrics text format.
pub fn open_metrics(record: &Record) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
        let _infallible = write!(text, "# TYPE {name} {kind}\n# HELP {name} {help}\n");
        for (labels, value) in samples {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let _infallible = writeln!(text, "{name}{suffix}{labels} {value}");
        }
    };
    let plain = |value: f64| vec![(String::new(), value)];
    family(
        "vermeil_load_valid",
        "gauge",
        "Whether the run can be trusted.",
        &plain(f64::from(u8::from(record.valid))),
    );
    family("vermeil_load_users", "gauge", "Users of the run.", &plain(record.users as f64));
    family(
        "vermeil_load_window_seconds",
        "gauge",
        "Length of the window.",
        &plain(record.window().as_secs_f64()),
    );
    family("vermeil_load_good", "counter", "Good answers.", &plain(record.good as f64));
    let faults: Vec<_> =
        record.faults.iter().map(|(name, count)| (format!("{{fault=\"{name}\"}}"), *count as f64)).collect();
    family("vermeil_load_failed", "counter", "Failed requests by fault.", &faults);
    let codes: Vec<_> =
        record.codes.iter().map(|(code, count)| (format!("{{code=\"{code}\"}}"), *count as f64)).collect();
    family("vermeil_load_answers", "counter", "Answers by status code.", &codes);
    for (name, help, count) in [
        ("vermeil_load_repeated", "Requests sent again because their connection ended.", record.repeated),
        ("vermeil_load_deferred", "Requests that the server did not begin, sent elsewhere.", record.deferred),
    ] {
        family(name, "counter", help, &plain(count as f64));
    }
    family(
        "vermeil_load_unfinished",
        "gauge",
        "Requests under way at the end.",
        &plain(record.unfinished as f64),
    );
    family(
        "vermeil_load_received_bytes",
        "counter",
        "Bytes received, in failed answers, too.",
        &plain(record.bytes as f64),
    );
    family(
        "vermeil_load_cpu_seconds",
        "counter",
        "Cpu time of the injector.",
        &plain(record.injector.cpu_ns as f64 / 1e9),
    );
    summary(&mut text, "vermeil_load_response_seconds", "Response times of good answers.", &record.response);
    summary(
        &mut text,
        "vermeil_load_failed_response_seconds",
        "Times of requests that failed.",
        &record.failed_response,
    );
    summary(&mut text, "vermeil_load_delay_seconds", "The injector's own delay.", &record.injector.delay);
    text.push_str("# EOF\n");
    text
}

fn summary(text: &mut String, name: &str, help: &str, times: &Quantiles) {
    let _infallible = write!(text, "# TYPE {name} summary\n# HELP {name} {help}\n");
    for (percent, time) in times.supported() {
        // Four digits after the point suffice for all percentiles. Further digits would be rounding
        // errors of the division.
        let quantile = format!("{:.4}", percent / 100.0);
        let quantile = quantile.trim_end_matches('0');
        let _infallible = writeln!(text, "{name}{{quantile=\"{quantile}\"}} {}", time.as_secs_f64());
    }
    let sum = times.mean_ns as f64 / 1e9 * times.count as f64;
    let _infallible = writeln!(text, "{name}_sum {sum}\n{name}_count {}", times.count);
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::sample;
    use super::*;

    #[test]
    fn a_line_per_interval() {
        let record = sample("a run", 2000);
        let text = csv(&record);
        let columns = |line: &str| line.split(',').count();
        assert_eq!(text.lines().count(), 1 + record.course.len());
        assert!(text.lines().all(|line| columns(line) == 12), "{text}");
        assert!(text.contains(",ramp_up,") && text.contains(",window,"));
        let silent = csv(&sample("nothing", 0));
        assert!(
            silent.lines().skip(1).all(|line| columns(line) == 12 && line.ends_with(",8,,,,,")),
            "{silent}"
        );
    }

    #[test]
    fn quantiles_are_those_that_the_samples_support() {
        let quantiles = |good: u64| -> Vec<String> {
            let text = open_metrics(&sample("a run", good));
            let label = |line: &str| {
                Some(line.split_once("response_seconds{quantile=\"")?.1.split_once('"')?.0.to_owned())
            };
            text.lines().filter_map(label).collect()
        };
        assert_eq!(quantiles(2000), ["0.5", "0.75", "0.9", "0.95", "0.99", "0.995"]);
        assert_eq!(quantiles(100_000)[6..], ["0.999", "0.9995", "0.9999"]);
    }

    #[test]
    fn every_sample_has_its_family() {
        let text = open_metrics(&sample("a run", 2000));
        assert!(text.ends_with("# EOF\n"));
        for part in [
            "vermeil_load_valid 0\n",
            "vermeil_load_good_total 2000\n",
            "vermeil_load_failed_total{fault=\"timeout\"} 1\n",
            "vermeil_load_answers_total{code=\"200\"} 2000\n",
            "vermeil_load_response_seconds{quantile=\"0.99\"} ",
            "vermeil_load_response_seconds_count 2000\n",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let family =
                ["_total", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(text.contains(&format!("# TYPE {family} ")), "{line}");
        }
    }
}
