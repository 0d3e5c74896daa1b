use super::*;

#[test]
fn every_shipped_workload_reads() {
    for name in workloads() {
        let program = workload(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(program.name(), name);
    }
}

#[test]
fn a_row_of_handlers_is_written_out() {
    let program = workload("sqrt-pipeline").unwrap();
    let names: Vec<&str> = program.handlers().collect();
    assert_eq!((names.len(), names[0], names[15]), (16, "roots-1", "roots-16"));
    assert_eq!(program.handlers[3].next[0].handler, 4);
    assert!(program.handlers[15].next.is_empty());
}

#[test]
fn mistakes_are_named() {
    let text = workload_text("web").unwrap();
    let message =
        |from: &str, to: &str| CompiledProgram::from_toml(&text.replace(from, to)).unwrap_err().to_string();
    assert!(message("to = \"parse\"", "to = \"prase\"").contains("\"prase\""));
    let said = message("color = \"serial\"", "color = \"cereal\"");
    assert!(said.contains("serial, queue") && said.contains("the nearest is \"serial\""), "{said}");
    assert!(message("cycles = 1800", "cicles = 1800").contains("cicles"));
    assert!(message("color = \"serial\"", "color = \"buffer\"").contains("not a shared object"));
    assert!(workload("nothing").unwrap_err().to_string().contains("image-pipeline"));
}

/// Regression: a run of such a workload never ended.
#[test]
fn source_without_end_is_found() {
    let entry = |load: &str, run_ms: &str| {
        let text = format!(
            "name = \"x\"\nabout = \"x\"\n{run_ms}\n[[handler]]\nname = \"h\"\ncycles = 1000\ncolor = \"request\"\n\
             reply = true\n[[source]]\nload = {load}\nentry = \"h\"\n"
        );
        CompiledProgram::from_toml(&text).unwrap().endless_source().map(str::to_owned)
    };
    let closed = "{ closed = { clients = 3, think_us = 100 } }";
    for load in [closed, "{ open = { per_s = 100 } }", "{ burst = { count = 3, every_us = 100 } }"] {
        assert_eq!(entry(load, "").as_deref(), Some("h"), "{load}");
    }
    assert_eq!(entry(closed, "run_ms = 0").as_deref(), Some("h"));
    assert_eq!(entry(closed, "run_ms = 5"), None);
    assert_eq!(entry("{ start = { count = 3 } }", ""), None);
}

#[test]
fn popular_instances_are_popular() {
    let program = workload("keyed").unwrap();
    let key = &program.objects[0];
    let drawn: Vec<u32> = (0..10_000u64).map(|i| key.instance(crate::random::mix(i))).collect();
    let first = drawn.iter().filter(|&&instance| instance == 0).count();
    assert!((800..1300).contains(&first), "{first} of 10,000");
    assert!(drawn.iter().all(|&instance| instance < 10_000));
}

#[test]
fn a_recording_names_its_posters() {
    let text = concat!(
        "{\"recording\":1,\"policy\":\"none\",\"cpus\":[0,1],\"lost\":0}\n",
        "{\"handler\":\"read\",\"color\":7,\"core\":0,\"posted_ns\":90,\"start_ns\":100,\"run_ns\":50}\n",
        "{\"handler\":\"write\",\"color\":5,\"core\":1,\"posted_ns\":150,\"start_ns\":160,\"run_ns\":30,\"by\":0}\n",
    );
    let program = CompiledProgram::from_trace("small", text, 0).unwrap();
    assert_eq!(program.handlers().collect::<Vec<_>>(), ["read", "write"]);
    let trace = program.trace.as_ref().unwrap();
    assert_eq!((trace.children(0), trace.mean_ns(1)), (&[1][..], 30));
    let of = |index: usize| (trace.events[index].color, trace.events[index].posted_ns);
    assert_eq!((of(0), of(1)), ((1, 0), (0, 60)), "colors by number, times from the first");
    let broken = text.replace("\"by\":0", "\"by\":1");
    assert!(CompiledProgram::from_trace("small", &broken, 0).unwrap_err().to_string().contains("line 3"));
    assert!(CompiledProgram::from_trace("small", "nonsense", 0).unwrap_err().to_string().contains("line 1"));
    assert!(CompiledProgram::from_trace("small", "", 0).is_err());
}

const BASE: &str = r#"
name = "base"
about = "one handler"
run_ms = 100
[[handler]]
name = "a"
cycles = 100000
color = "event"
reply = true
[[source]]
load = { open = { per_s = 10000, even = true } }
entry = "a"
"#;

/// Regression: each of these values ran and printed a meaningless table.
#[test]
fn numbers_outside_their_range_are_refused() {
    assert!(CompiledProgram::from_toml(BASE).is_ok());
    let message = |from: &str, to: &str| {
        assert!(BASE.contains(from), "{from}");
        CompiledProgram::from_toml(&BASE.replace(from, to)).expect_err(to).to_string()
    };
    for (from, to, words) in [
        (
            "cycles = 100000",
            "cycles = 9223372036854775807",
            "cycles = 9223372036854775807 of handler \"a\": allowed are 0 to",
        ),
        (
            "cycles = 100000",
            "cycles = 1\nspread_percent = 300",
            "spread_percent = 300 of handler \"a\": allowed are 0 to 100",
        ),
        (
            "reply = true",
            "reply = true\nnext = [{ to = \"a\", weight = 0 }]",
            "weight = 0 of the way from handler \"a\" to \"a\"",
        ),
        ("per_s = 10000", "per_s = 0", "per_s = 0 of the source of \"a\": allowed are 1 to"),
        ("reply = true\n", "", "no handler has reply = true"),
        (
            "[[source]]",
            "[[handler]]\nname = \"a\"\ncycles = 1\n[[source]]",
            "two [[handler]] have the name \"a\"",
        ),
        (
            "color = \"event\"",
            "color = \"evnt\"",
            "there are: request, client, event, handler, serial, queue, the nearest is \"event\"",
        ),
        ("[[source]]", "[[shift]]\nat_ms = 1\n[[source]]", "the shift at 1 ms changes nothing"),
        (
            "[[source]]",
            "[[object]]\nname = \"o\"\nbytes = 4294967296\n[[source]]",
            "bytes = 4294967296 of object \"o\": allowed are 0 to 4294967295",
        ),
        (
            "open = { per_s = 10000, even = true }",
            "closed = { clients = 100000000 }",
            "clients = 100000000 of the source of \"a\": allowed are 1 to 1000000",
        ),
        (
            "open = { per_s = 10000, even = true }",
            "burst = { count = 100000000, every_us = 1 }",
            "count = 100000000 of the source of \"a\": allowed are 1 to 1000000",
        ),
        (
            "per_s = 10000, even = true } }\nentry = \"a\"",
            "per_s = 100000000 } }\nentry = \"a\"\n[[shift]]\nat_ms = 1\nrate_percent = 2000",
            "rate_percent of per_s = 2000000000 of the source of \"a\" from 1 ms on: allowed are 0 to 100000000",
        ),
        ("run_ms = 100", "run_ms = 100\nwarm_up_ms = 100", "leaves nothing of run_ms = 100"),
    ] {
        let said = message(from, to);
        assert!(said.contains(words), "{to}: {said}");
    }
}

const POLLED: &str = r#"
name = "polled"
about = "a handler finds requests"
run_ms = 10
[[handler]]
name = "look"
cycles = 1000
color = "serial"
[[handler]]
name = "work"
cycles = 1000
reply = true
[[source]]
load = { open = { per_s = 10000 } }
entry = "work"
poll = { handler = "look", cycles_each = 100 }
"#;

/// Regression: these poll handlers panicked, lost requests, or were followed by nothing.
#[test]
fn impossible_poll_handlers_are_refused() {
    assert!(CompiledProgram::from_toml(POLLED).is_ok());
    let message = |from: &str, to: &str| {
        assert!(POLLED.contains(from), "{from}");
        CompiledProgram::from_toml(&POLLED.replace(from, to)).expect_err(to).to_string()
    };
    let second = "[[source]]\nload = { open = { per_s = 10 } }\nentry = \"work\"\n\
         poll = { handler = \"look\", cycles_each = 1 }\n[[source]]";
    let no_color = "the poll handler \"look\" has no";
    let to_nothing_else = "to nothing else; remove its reply, next and also";
    let for_arrivals = "\"look\" runs for arrivals alone";
    for (from, to, words) in [
        ("color = \"serial\"", "color = \"request\"", no_color),
        ("color = \"serial\"", "", no_color),
        ("color = \"serial\"", "color = \"client\"", no_color),
        ("color = \"serial\"", "color = \"queue\"", no_color),
        ("color = \"serial\"", "color = \"serial\"\nreply = true", to_nothing_else),
        ("color = \"serial\"", "color = \"serial\"\nnext = [{ to = \"work\" }]", to_nothing_else),
        ("color = \"serial\"", "color = \"serial\"\nalso = [{ to = \"work\" }]", to_nothing_else),
        ("entry = \"work\"", "entry = \"look\"", for_arrivals),
        ("reply = true", "reply = true\nnext = [{ to = \"look\" }]", for_arrivals),
        ("[[source]]", second, "\"look\" has two sources"),
    ] {
        let said = message(from, to);
        assert!(said.contains(words), "{to}: {said}");
    }
}

/// Regression: the number of a handler wrapped at 65,536, so events ran wrong handlers; a large
/// `repeat` filled the memory, and `repeat = 0` removed its handler.
#[test]
fn handlers_beyond_their_numbers_are_refused() {
    let repeat = |times: u64| BASE.replace("cycles = 100000", &format!("cycles = 1\nrepeat = {times}"));
    let message = |times| CompiledProgram::from_toml(&repeat(times)).expect_err("too many").to_string();
    for times in [0, 65_536, 4_294_967_295] {
        let words = format!("repeat = {times} of handler \"a\": allowed are 1 to 65535");
        assert!(message(times).contains(&words), "{}", message(times));
    }
    let two =
        |times| repeat(times).replace("[[source]]", "[[handler]]\nname = \"b\"\ncycles = 1\n[[source]]");
    let said = CompiledProgram::from_toml(&two(65_535)).unwrap_err().to_string();
    assert!(said.contains("has 65536 handlers; at most 65535"), "{said}");
    let most = CompiledProgram::from_toml(&two(65_534)).expect("as many as possible");
    assert_eq!((most.handlers.len(), most.handlers[65_532].next[0].handler), (65_535, 65_533));
    let header = "{\"recording\":1,\"policy\":\"none\",\"cpus\":[0],\"lost\":0}\n".to_owned();
    let event = |at: u32| {
        format!(
            "{{\"handler\":\"h{at}\",\"color\":1,\"core\":0,\"posted_ns\":{at},\"start_ns\":{at},\"run_ns\":1}}\n"
        )
    };
    let recording = (0..65_536).map(event).fold(header, |text, line| text + &line);
    let said = CompiledProgram::from_trace("many", &recording, 0).unwrap_err().to_string();
    assert!(said.contains("has 65536 handlers; at most 65535"), "{said}");
}
