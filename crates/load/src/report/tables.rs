//! Results for programs: CSV for spreadsheets, OpenMetrics for monitoring.
//!
//! Tested here.

use std::fmt::Write as _;

use super::record::{Quantiles, Record};

/// The course of the run, an interval per line, with a head line. Times in seconds, rates per second.
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
        for ns in course.percentiles_ns {
            let _infallible = write!(text, ",{:.9}", ns as f64 / 1e9);
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
    family("vermeil_load_received_bytes", "counter", "Bytes received.", &plain(record.bytes as f64));
    family(
        "vermeil_load_cpu_seconds",
        "counter",
        "Cpu time of the injector.",
        &plain(record.injector.cpu_ns as f64 / 1e9),
    );
    summary(&mut text, "vermeil_load_response_seconds", "Response times.", &record.response);
    summary(&mut text, "vermeil_load_delay_seconds", "The injector's own delay.", &record.injector.delay);
    text.push_str("# EOF\n");
    text
}

fn summary(text: &mut String, name: &str, help: &str, times: &Quantiles) {
    let _infallible = write!(text, "# TYPE {name} summary\n# HELP {name} {help}\n");
    for (percent, ns) in &times.percentiles {
        let _infallible = writeln!(text, "{name}{{quantile=\"{}\"}} {}", percent / 100.0, *ns as f64 / 1e9);
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
    }

    #[test]
    fn every_sample_has_its_family() {
        let text = open_metrics(&sample("a run", 2000));
        assert!(text.ends_with("# EOF\n"));
        for part in [
            "vermeil_load_valid 0\n",
            "vermeil_load_good_total 2000\n",
            "vermeil_load_failed_total{fault=\"timeout\"} 1\n",
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
