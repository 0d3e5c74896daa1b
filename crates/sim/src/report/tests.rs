use super::*;
use crate::options::SimOptions;
use crate::{SimError, profile, simulate_watched, workload};

/// Handlers with a color each, which controllers place.
const ROW: &str = r#"
name = "row"
about = "handlers with a color of their own"
[[handler]]
name = "step"
repeat = 4
cycles = 20000
color = "handler"
[[source]]
entry = "step"
load = { start = { count = 2000 } }
"#;

fn run() -> (SimMachine, CompiledProgram, Results, Timeline) {
    let (machine, program) = (profile("xeon-2x4-l2pairs").unwrap(), workload("web").unwrap());
    let options = SimOptions { run_ns: Some(3_000_000), ..SimOptions::new("mely".parse().unwrap()) };
    let timeline = Timeline::new(machine.cores(), 1_000_000, 2_000_000);
    let (results, timeline) = simulate_watched(&machine, &program, &options, timeline);
    (machine, program, results, timeline)
}

#[test]
fn run_reports_in_text_and_json() {
    let (machine, program, results, _) = run();
    let text = describe(&machine, &program, &results, Some(&results));
    assert!(text.contains("of one FIFO queue") && text.contains("100.0 %"), "{text}");
    assert!(text.contains("look-up") && text.contains("trace hash"), "{text}");
    let table = compare(&machine, &program, &[results.clone(), results.clone()], None);
    assert_eq!(table.matches("mely").count(), 2, "{table}");
    let json = to_json(&machine, &program, &results, None);
    assert_eq!(json["cores"].as_array().unwrap().len(), 8);
    assert_eq!(json["policy"], "mely");
}

/// Regression: a policy that answered fewer requests, and so had shorter queues, counted as the
/// best in latency.
#[test]
fn latencies_compare_at_equal_rates_only() {
    let (_, _, fast, _) = run();
    let with = |answered: u64, latency_ns: u64| {
        let mut run = fast.clone();
        run.answered = answered;
        run.latency = SimHistogram::default();
        (0..1_000).for_each(|_| run.latency.add(latency_ns));
        run
    };
    let runs = [with(1_000, 3_000), with(980, 2_000), with(900, 1_000)];
    let times = |at: usize| Regret::of(&runs[at], &runs).p99_times.expect("the runs have answers");
    assert!((times(0) - 1.5).abs() < 0.05 && (times(2) - 1.0).abs() < 0.05);
    assert!((Regret::of(&runs[2], &runs).rate_percent.expect("a rate") - 10.0).abs() < 0.01);
}

/// Regression: the rate of a policy without answers counted events, and looked like the best.
#[test]
fn run_without_answers_has_no_rate() {
    let (_, _, fast, _) = run();
    let mut none = fast.clone();
    none.answered = 0;
    let runs = [none, fast];
    let behind = |at: usize| Regret::of(&runs[at], &runs).rate_percent;
    assert!(runs[0].events() > 0);
    assert_eq!([behind(0), behind(1)], [Some(100.0), Some(0.0)]);
}

/// Regression: a comparison without any answer showed NaN.
#[test]
fn comparison_without_rates_leaves_blanks() {
    let (machine, program, mut none, _) = run();
    none.answered = 0;
    let table = compare(&machine, &program, std::slice::from_ref(&none), Some(&none));
    let text = describe(&machine, &program, &none, Some(&none));
    assert!(!table.contains("NaN") && !text.contains("NaN"), "{table}{text}");
    assert!(to_json(&machine, &program, &none, Some(&none))["percent_of_fifo"].is_null());
}

/// Regression: the report showed latencies, answers and costs of steals as zeros although there
/// were none.
#[test]
fn report_omits_empty_sections() {
    let event =
        "{\"handler\":\"work\",\"color\":1,\"core\":0,\"posted_ns\":5,\"start_ns\":9,\"run_ns\":900}\n";
    let recording = "{\"recording\":1,\"policy\":\"none\",\"cpus\":[0],\"lost\":0}\n".to_owned() + event;
    let (machine, program) =
        (profile("xeon5100-2x2").unwrap(), CompiledProgram::from_trace("day", &recording, 0).unwrap());
    let results = crate::simulate(&machine, &program, &SimOptions::new("none".parse().unwrap()));
    let text = describe(&machine, &program, &results, None);
    let table = compare(&machine, &program, std::slice::from_ref(&results), None);
    let json = to_json(&machine, &program, &results, None);
    for absent in ["answered", "latency", "cycles per steal", " 0 ns"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    assert!(!table.contains(" 0 ns"), "{table}");
    let nulls = ["answered", "per_second", "cycles_per_steal", "cycles_stolen_per_steal"];
    assert!(nulls.iter().all(|name| json[name].is_null()), "{json}");
    assert!(json["latency_ns"].as_object().unwrap().values().all(Value::is_null), "{json}");
    assert!(json["events_per_second"].as_f64() > Some(0.0), "{json}");
}

#[test]
fn report_names_handlers_of_decisions() {
    let (machine, program) = (profile("xeon5100-2x2").unwrap(), CompiledProgram::from_toml(ROW).unwrap());
    let options = SimOptions { control_ns: Some(1_000_000), ..SimOptions::new("trial".parse().unwrap()) };
    let results = crate::simulate(&machine, &program, &options);
    let text = describe(&machine, &program, &results, None);
    let json = to_json(&machine, &program, &results, None);
    assert!(text.contains("plan 1 is tried; step-"), "{text}");
    let decisions = json["decisions"].as_array().unwrap();
    assert_eq!(json["decided"].as_u64(), Some(decisions.len() as u64));
    let mut moves = decisions.iter().flat_map(|decision| decision["moves"].as_array().unwrap());
    assert!(moves.all(|moved| moved["handler"].as_str().unwrap().starts_with("step-")), "{json}");
}

#[test]
fn report_shows_loss_of_plan_trials() {
    let (machine, program) = (profile("xeon5100-2x2").unwrap(), CompiledProgram::from_toml(ROW).unwrap());
    let told = |policy: &str| {
        let options = SimOptions::new(policy.parse().unwrap());
        let results = crate::simulate(&machine, &program, &options);
        let text = describe(&machine, &program, &results, None);
        (text.contains("(regret)"), to_json(&machine, &program, &results, None)["regret_ns"].is_u64())
    };
    assert_eq!([told("adaptive"), told("mely")], [(true, true), (false, false)]);
}

#[test]
fn the_timeline_is_json_and_a_picture() {
    let (_, program, _, timeline) = run();
    let names: Vec<&str> = program.handlers().collect();
    let json: serde_json::Value = serde_json::from_str(&timeline.to_chrome(&names)).expect("JSON");
    let events = json["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|event| event["name"] == "write" && event["ph"] == "X"));
    let latest = events.iter().filter_map(|event| event["ts"].as_f64()).fold(0.0, f64::max);
    assert!((1_000.0..=2_000.0).contains(&latest), "{latest}");
    let svg = timeline.to_svg("a < b", &names);
    assert!(svg.starts_with("<svg") && svg.contains("a &lt; b") && svg.matches("<rect").count() > 20);
}

/// Regression: an event that ran at the end of the run was not drawn, so a run with longer events
/// was empty.
#[test]
fn timeline_has_events_that_run_at_the_end() {
    let text = r#"
        name = "long"
        about = "events of 10 ms"
        [[handler]]
        name = "work"
        cycles = 18000000
        color = "event"
        [[source]]
        entry = "work"
        load = { start = { count = 1 } }
        "#;
    let (machine, program) = (profile("xeon5100-2x2").unwrap(), CompiledProgram::from_toml(text).unwrap());
    let options = SimOptions { run_ns: Some(2_000_000), ..SimOptions::new("none".parse().unwrap()) };
    let timeline = Timeline::new(machine.cores(), 0, 2_000_000);
    let (_, timeline) = simulate_watched(&machine, &program, &options, timeline);
    let json: serde_json::Value = serde_json::from_str(&timeline.to_chrome(&["work"])).expect("JSON");
    let spans = |name: &str| {
        let spans = json["traceEvents"].as_array().unwrap().iter();
        let spans = spans.filter(|event| event["name"] == name && event["ph"] == "X");
        spans.map(|event| event["dur"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    let work = spans("work");
    assert!(work.len() == 1 && (1_000.0..=2_000.0).contains(&work[0]), "{json}");
    assert_eq!(spans("asleep").iter().filter(|&&asleep| asleep == 2_000.0).count(), machine.cores() - 1);
}

#[test]
fn recording_is_shown_as_it_ran() {
    let text = "{\"recording\":1,\"policy\":\"adaptive\",\"cpus\":[0,1],\"lost\":7}
{\"handler\":\"task a::very::long::path::of::modules::serve\",\"color\":1,\"core\":0,\"posted_ns\":900,\"start_ns\":1000,\"run_ns\":3000}
{\"handler\":\"handshake\",\"color\":2,\"core\":1,\"posted_ns\":1000,\"start_ns\":3000,\"run_ns\":2000,\"by\":0,\"moved_from\":0}
";
    let run = RecordedRun::parse(text).expect("a recording");
    let said = run.to_text();
    assert!(said.starts_with("2 events in 4000 ns, policy adaptive, after 7 that were not kept\n"), "{said}");
    let cores = said.lines().skip(3).take(2).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let expected = [["0", "0", "75.0", "%", "1", "0"], ["1", "1", "50.0", "%", "1", "1"]];
    assert_eq!(cores.collect::<Vec<_>>(), expected, "{said}");
    let (timeline, names) = run.timeline(0, 3_000);
    assert_eq!(names, ["path::of::modules::serve", "handshake"]);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let json: serde_json::Value = serde_json::from_str(&timeline.to_chrome(&names)).expect("JSON");
    let spans: Vec<(&str, Option<f64>)> = json["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| (event["name"].as_str().unwrap(), event["dur"].as_f64()))
        .collect();
    let cut_at_the_end = Some(1.0);
    assert_eq!(
        spans,
        [("path::of::modules::serve", Some(3.0)), ("handshake", cut_at_the_end), ("steal", Some(0.001))]
    );
    assert!(matches!(RecordedRun::parse(text.lines().next().unwrap()), Err(SimError::Empty)));
    // Regression: a recording that a full disk had cut off was refused.
    let said = RecordedRun::parse(&text[..text.len() - 9]).expect("what is there").to_text();
    assert!(said.starts_with("INCOMPLETE: recording: line 3: EOF while parsing"), "{said}");
    assert!(said.contains("\n1 events in 3000 ns, policy adaptive"), "{said}");
}

#[test]
fn numbers_are_easy_to_read() {
    assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    assert_eq!([900, 12_345, 12_345_678].map(time), ["900 ns", "12.3 us", "12.3 ms"]);
}
