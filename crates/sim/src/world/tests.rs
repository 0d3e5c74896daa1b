use super::*;
use crate::machine::profile;
use crate::workload::workload;
use vermeil_sched::plan::PlanFile;

fn options(policy: &str) -> SimOptions {
    SimOptions::new(policy.parse().unwrap())
}

fn short(policy: &str) -> SimOptions {
    SimOptions { run_ns: Some(20_000_000), ..options(policy) }
}

#[test]
fn seed_determines_run() {
    let (machine, web) = (profile("xeon-2x4-l2pairs").unwrap(), workload("web").unwrap());
    for policy in ["none", "libasync", "mely", "ncopy", "per-node", "adaptive"] {
        let run = |seed| simulate(&machine, &web, &SimOptions { seed, ..short(policy) });
        let (first, second) = (run(7), run(7));
        assert_eq!((first.hash, first.answered), (second.hash, second.answered), "{policy}");
        assert!(first.posted > 100, "{policy} posted {}", first.posted);
        assert_ne!(first.hash, run(8).hash, "{policy}");
    }
}

#[test]
fn ending_workload_runs_every_event() {
    let (machine, roots) = (profile("xeon5100-2x2").unwrap(), workload("sqrt-pipeline").unwrap());
    for policy in ["none", "libasync", "mely", "adaptive"] {
        let results = simulate(&machine, &roots, &options(policy));
        assert_eq!((results.events(), results.queued_at_end), (64_000, 0), "{policy}");
        assert_eq!((results.answered, results.requests_live_at_end), (4_000, 0), "{policy}");
    }
}

#[test]
fn times_of_a_core_add_up() {
    let (machine, web) = (profile("xeon-2x4-l2pairs").unwrap(), workload("web").unwrap());
    let results = simulate(&machine, &web, &short("adaptive"));
    for core in &results.cores {
        assert!(core.busy_ns + core.idle_ns <= results.counted_ns + 100_000, "{core:?}");
    }
}

#[test]
fn checked_runs_break_no_rule() {
    let (machine, web) = (profile("xeon-2x4-l2pairs").unwrap(), workload("web").unwrap());
    for policy in ["none", "libasync", "mely", "ncopy", "per-node", "adaptive", "placed:round-robin"] {
        let options = SimOptions { drain_ns: 1_000_000_000, audit_every: Some(50), ..short(policy) };
        let options = SimOptions { run_ns: Some(5_000_000), ..options };
        let (results, checker) =
            simulate_watched(&machine, &web, &options, crate::InvariantChecker::default());
        assert!(results.events() > 1_000, "{policy}");
        assert_eq!(checker.verdict(&results), None, "{policy}");
    }
}

/// Two handlers that run in turn. The second follows the first.
fn leader_and_follower(color: &str, follows: &str) -> CompiledProgram {
    CompiledProgram::from_toml(&format!(
        r#"
        name = "pair"
        about = "one leads, one follows"
        run_ms = 5
        [[handler]]
        name = "lead"
        cycles = 3000
        color = "client"
        next = [{{ to = "follow" }}]
        [[handler]]
        name = "follow"
        cycles = 1000
        color = "{color}"
        follows = "{follows}"
        reply = true
        [[source]]
        entry = "lead"
        load = {{ closed = {{ clients = 1, think_us = 10 }} }}
        queues = 4
        choice = "round-robin"
        "#
    ))
    .expect("a workload")
}

/// Counts runs of the second handler on the core of the first handler's last run, and on other
/// cores.
#[derive(Default)]
struct ApartRuns {
    led_on: Option<vermeil_sched::CoreIndex>,
    together: u64,
    apart: u64,
}

impl Watch for ApartRuns {
    fn note(&mut self, note: crate::Note) {
        let crate::Note::Started { core, handler, .. } = note else { return };
        match handler {
            0 => self.led_on = Some(core),
            _ if self.led_on == Some(core) => self.together += 1,
            _ => self.apart += 1,
        }
    }
}

#[test]
fn follower_runs_on_core_of_leader() {
    let machine = profile("xeon-2x4-l2pairs").unwrap();
    for (color, follows) in [("event", "producer"), ("event", "lead"), ("handler", "lead")] {
        for policy in ["none", "mely", "adaptive", "placed:round-robin"] {
            let pair = leader_and_follower(color, follows);
            let (_, seen) = simulate_watched(&machine, &pair, &options(policy), ApartRuns::default());
            assert_eq!(seen.apart, 0, "{policy}, {color} follows {follows}");
            assert!(seen.together > 50, "{policy}: {} runs", seen.together);
        }
    }
    assert!(
        leader_and_follower("handler", "lead").placed_handlers(&"adaptive".parse().unwrap()).is_empty(),
        "plans leave alone what follows"
    );
}

/// Two kinds of requests, each of them more than the machine can run.
fn two_classes(target_us: &str) -> CompiledProgram {
    CompiledProgram::from_toml(&format!(
        r#"
        name = "classes"
        about = "too much of two kinds"
        run_ms = 200
        class = [{{ name = "net", shares = 300 {target_us} }}, {{ name = "bulk", shares = 100 }}]
        [[handler]]
        name = "net"
        cycles = 20000
        class = "net"
        reply = true
        [[handler]]
        name = "bulk"
        cycles = 60000
        class = "bulk"
        reply = true
        [[source]]
        entry = "net"
        load = {{ closed = {{ clients = 50 }} }}
        [[source]]
        entry = "bulk"
        load = {{ closed = {{ clients = 50 }} }}
        "#
    ))
    .expect("a workload")
}

#[test]
fn classes_divide_virtual_cores_too() {
    let machine = profile("xeon5100-2x2").unwrap();
    for (target_us, policy) in [("", "none"), ("", "mely"), (", target_delay_us = 1", "adaptive")] {
        let options = SimOptions { audit_every: Some(10), ..options(policy) };
        let (results, checker) =
            simulate_watched(&machine, &two_classes(target_us), &options, crate::InvariantChecker::default());
        assert_eq!(checker.verdict(&results), None);
        let [net, bulk] = [0, 1].map(|handler: usize| results.handlers[handler].run_ns);
        let permille = net * 1000 / (net + bulk);
        assert!((700..830).contains(&permille), "{policy}{target_us}: {permille}");
    }
}

#[test]
fn a_batch_is_run_when_it_is_full_or_late() {
    let machine = profile("xeon5100-2x2").unwrap();
    let gather = |events: u32| {
        CompiledProgram::from_toml(&format!(
            r#"
            name = "batches"
            about = "records that are written together"
            run_ms = 20
            [[handler]]
            name = "write"
            cycles = 1000
            color = "handler"
            gather_events = {events}
            gather_us = 500
            reply = true
            [[source]]
            entry = "write"
            load = {{ open = {{ per_s = 20000, even = true }} }}
            "#
        ))
        .expect("a workload")
    };
    let run = |events| {
        let options = SimOptions { audit_every: Some(1), drain_ns: 1_000_000_000, ..options("none") };
        let (results, checker) =
            simulate_watched(&machine, &gather(events), &options, crate::InvariantChecker::default());
        assert_eq!(checker.verdict(&results), None);
        let parks: u64 = results.cores.iter().map(|core| core.parks).sum();
        (results.answered, parks)
    };
    let (single, five, many) = (run(1), run(5), run(1_000));
    assert!(single.0.abs_diff(five.0) < 10 && single.0.abs_diff(many.0) < 12, "{single:?} {five:?} {many:?}");
    // An event comes every 50 us. A hundred batches of five need not sleep more often, nor batches
    // that end after 500 us.
    assert!(five.1 * 2 < single.1 && many.1 < five.1, "{single:?} {five:?} {many:?}");
}

/// Counts runs, and the runs whose predecessor on the core has the same color.
#[derive(Default)]
struct PredecessorRuns {
    last: [Option<u64>; 4],
    same: u64,
    all: u64,
}

impl Watch for PredecessorRuns {
    fn note(&mut self, note: crate::Note) {
        let crate::Note::Started { core, color, .. } = note else { return };
        self.all += 1;
        self.same += u64::from(self.last[core.0 as usize].replace(color) == Some(color));
    }
}

/// Regression: a color that posts to itself kept its core until the batch was full, unlike in the
/// runtime.
#[test]
fn only_color_returning_to_cold_caches_continues() {
    let machine = profile("xeon5100-2x2").unwrap();
    let light = r#"
        name = "light"
        about = "steps that touch nothing"
        [[handler]]
        name = "step"
        repeat = 16
        cycles = 20000
        color = "request"
        [[source]]
        entry = "step"
        load = { start = { count = 2000 } }
        "#;
    let same_percent = |program: &CompiledProgram, policy: &str| {
        let options = SimOptions { run_ns: Some(2_000_000_000), ..options(policy) };
        let (_, runs) = simulate_watched(&machine, program, &options, PredecessorRuns::default());
        assert!(runs.all > 2_000, "{policy}: {} runs", runs.all);
        100 * runs.same / runs.all
    };
    let (light, images) = (CompiledProgram::from_toml(light).unwrap(), workload("image-pipeline").unwrap());
    assert_eq!(same_percent(&light, "none"), 0);
    let (light, images) = (same_percent(&light, "adaptive"), same_percent(&images, "adaptive"));
    assert!(light < 15 && images > 50, "{light} and {images} of 100");
}

/// A serial producer on a color that never moves. Each request is `work` cycles on a fresh color
/// that touches no memory.
fn pinned_producer(work: u64) -> CompiledProgram {
    CompiledProgram::from_toml(&format!(
        r#"
        name = "pinned"
        about = "clients of one queue, whose requests may run anywhere"
        run_ms = 200
        warm_up_ms = 50
        [[handler]]
        name = "receive"
        cycles = {receive}
        color = "queue"
        next = [{{ to = "work" }}]
        [[handler]]
        name = "work"
        cycles = {work}
        color = "request"
        reply = true
        [[source]]
        load = {{ closed = {{ clients = 16 }} }}
        entry = "receive"
        queues = 1
        "#,
        receive = work / 30,
    ))
    .unwrap()
}

/// Regression: a penalty without a measurement counted as large. Therefore no core took work from
/// the producer's core, no penalty was ever measured, and all work stayed on one core.
#[test]
fn adaptive_spreads_the_work_of_a_pinned_producer() {
    for name in ["xeon5100-2x2", "xeon-2x4-l2pairs", "opteron8380-4x4"] {
        let machine = profile(name).unwrap();
        for work in [60_000, 900_000] {
            let program = pinned_producer(work);
            let answered = |policy| simulate(&machine, &program, &options(policy)).answered;
            let best = ["none", "mely"].map(answered).into_iter().max().unwrap();
            let adaptive = answered("adaptive");
            assert!(100 * adaptive > 80 * best, "{name}, {work} cycles: {adaptive} answers, the best {best}");
        }
    }
}

/// Regression: new colors stayed in the queue of the core that made them, and thieves paid a steal
/// for each, however short its work.
#[test]
fn new_colors_begin_on_cores_with_less_work() {
    let text = r#"
        name = "one"
        about = "a serial handler hands out short work"
        [[handler]]
        name = "load"
        cycles = 2300
        color = "handler"
        next = [{ to = "work" }]
        [[handler]]
        name = "work"
        cycles = 11600
        color = "request"
        reply = true
        [[source]]
        load = { start = { count = 6000 } }
        entry = "load"
        "#;
    let program = CompiledProgram::from_toml(text).unwrap();
    for name in ["xeon-2x4-l2pairs", "opteron8380-4x4"] {
        let machine = profile(name).unwrap();
        let took_ns = |policy| simulate(&machine, &program, &options(policy)).counted_ns;
        let (adaptive, mely) = (took_ns("adaptive"), took_ns("mely"));
        assert!(100 * mely > 80 * adaptive, "{name}: {adaptive} ns, and {mely} ns by number");
    }
}

/// Regression: an event that another core posted counts as cold, so thieves ran the handler cold
/// only. They took a rise of the cost for a penalty, and left all work on one core.
#[test]
fn adaptive_spreads_work_whose_cost_has_risen() {
    let shift = r#"
        name = "shift"
        about = "a request takes four times as long from some time on"
        run_ms = 300
        warm_up_ms = 100
        [[handler]]
        name = "receive"
        cycles = 6000
        color = "queue"
        next = [{ to = "work" }]
        [[handler]]
        name = "work"
        cycles = 225_000
        color = "request"
        reply = true
        [[source]]
        load = { open = { per_s = 5000 } }
        entry = "receive"
        queues = 1
        [[shift]]
        at_ms = 100
        handler = "work"
        cycles_percent = 400
        "#;
    let program = CompiledProgram::from_toml(shift).unwrap();
    for name in ["xeon5100-2x2", "xeon-2x4-l2pairs", "opteron8380-4x4", "hybrid"] {
        let machine = profile(name).unwrap();
        let run = |policy| simulate(&machine, &program, &options(policy));
        let (adaptive, mely) = (run("adaptive"), run("mely"));
        let p99_ns = [&adaptive, &mely].map(|run| run.latency.permille_ns(990));
        assert!(100 * adaptive.answered > 97 * mely.answered, "{name}: {} answers", adaptive.answered);
        assert!(p99_ns[0] < 2 * p99_ns[1], "{name}: {p99_ns:?} ns");
    }
}

/// Regression: while no core slept, a burst to one of 128 cores waited in that core's queue until
/// thieves had run out of work. The policies that spread colors by number were four times as fast.
#[test]
fn burst_spreads_while_no_core_sleeps() {
    let unbalanced = workload("unbalanced").unwrap();
    for name in ["epyc-2x64", "numa-4x32"] {
        let machine = profile(name).unwrap();
        let p99_ns = |policy| {
            let options = SimOptions { run_ns: Some(300_000_000), ..options(policy) };
            simulate(&machine, &unbalanced, &options).latency.permille_ns(990)
        };
        let (adaptive, none) = (p99_ns("adaptive"), p99_ns("none"));
        assert!(10 * adaptive < 12 * none, "{name}: {adaptive} ns, and {none} ns by number");
    }
}

/// Regression: a shift of the rate set all cycles back, and a shift of a handler set the rate back.
#[test]
fn shifts_change_named_values_only() {
    let machine = profile("xeon5100-2x2").unwrap();
    let run = |first: &str, second: &str| {
        let text = format!(
            r#"
            name = "shifts"
            about = "two shifts"
            run_ms = 100
            [[handler]]
            name = "a"
            cycles = 100000
            color = "event"
            reply = true
            [[source]]
            load = {{ open = {{ per_s = 10000, even = true }} }}
            entry = "a"
            [[shift]]
            at_ms = 0
            {first}
            [[shift]]
            at_ms = 1
            {second}
            "#
        );
        simulate(&machine, &CompiledProgram::from_toml(&text).unwrap(), &options("none"))
    };
    let each_ns =
        |results: &Results| results.cores.iter().map(|core| core.busy_ns).sum::<u64>() / results.events();
    let (rate, cycles) = ("rate_percent = 200", "handler = \"a\"\ncycles_percent = 50");
    let whole_ns = each_ns(&run(rate, rate));
    for results in [run(rate, cycles), run(cycles, rate)] {
        assert!(results.answered > 1_900, "{} answers at twice the rate", results.answered);
        let half_ns = each_ns(&results);
        assert!(10 * half_ns < 6 * whole_ns, "{half_ns} ns for half of the cycles, {whole_ns} for all");
    }
}

/// A queue whose events take `cycles.0` and post work of `cycles.1` that any core may take.
fn one_queue(cycles: (u64, u64), load: &str) -> CompiledProgram {
    let (receive, work) = cycles;
    let text = format!(
        r#"
        name = "one-queue"
        about = "a queue posts work that any core may take"
        run_ms = 20
        warm_up_ms = 5
        [[handler]]
        name = "receive"
        cycles = {receive}
        color = "queue"
        next = [{{ to = "work" }}]
        [[handler]]
        name = "work"
        cycles = {work}
        reply = true
        [[source]]
        entry = "receive"
        load = {{ {load} }}
        queues = 1
        "#
    );
    CompiledProgram::from_toml(&text).expect("a workload")
}

/// Regression: a thief's late visit took the victim's lock at once, so the owner waited for a
/// thief that had not come yet. On 128 cores the only busy core waited for 65 % of its time.
#[test]
fn owner_does_not_wait_for_late_thieves() {
    let one_queue = one_queue((4900, 12250), "open = { per_s = 300000 }");
    let results = simulate(&profile("epyc-2x64").unwrap(), &one_queue, &options("adaptive"));
    let waits = 1_000 * results.cores[0].lock_ns / results.counted_ns;
    assert!(waits < 30, "core 0 waits for locks for {waits} permille of its time");
}

/// Regression: a core took a batch of its queue for a pause of the queue, and ran new work itself
/// beside sleeping cores.
#[test]
fn new_work_gives_way_to_queue_during_batch() {
    let one_queue = one_queue((10_000, 300_000), "closed = { clients = 24 }");
    let answered = |policy| simulate(&profile("epyc-2x64").unwrap(), &one_queue, &options(policy)).answered;
    let (adaptive, none) = (answered("adaptive"), answered("none"));
    assert!(10 * adaptive > 8 * none, "{adaptive} answers, and {none} without moves");
}

/// Regression: `placed:FILE` without the file's plan ran without any placement.
#[test]
#[should_panic(expected = "the caller reads the plan")]
fn placed_file_needs_plan() {
    let (machine, roots) = (profile("xeon5100-2x2").unwrap(), workload("sqrt-pipeline").unwrap());
    simulate(&machine, &roots, &options("placed:plan.toml"));
}

/// Regression: a plan's list of cores had no effect.
#[test]
fn list_of_one_core_places_like_the_core() {
    let (machine, roots) = (profile("xeon5100-2x2").unwrap(), workload("sqrt-pipeline").unwrap());
    let options = options("placed:plan.toml");
    let handlers = roots.placed_handlers(&options.policy);
    let hash = |place: &str| {
        let file = PlanFile::parse(&format!("{} = {place}", handlers[0]), machine.cores()).unwrap();
        let plan = Some(file.resolve(&handlers).unwrap());
        simulate(&machine, &roots, &SimOptions { plan, ..options.clone() }).hash
    };
    assert_eq!(hash("[3]"), hash("3"));
    assert_ne!(hash("3"), hash("1"));
}

/// Regression: answers to requests of the warm-up counted, so a policy that fell behind in the
/// warm-up had a rate above the offered load.
#[test]
fn backlog_of_warm_up_adds_no_rate() {
    let overload = CompiledProgram::from_toml(
        r#"
        name = "overload"
        about = "too much in the warm-up, little after"
        run_ms = 60
        warm_up_ms = 20
        [[handler]]
        name = "work"
        cycles = 1000000
        color = "event"
        reply = true
        [[source]]
        entry = "work"
        load = { open = { per_s = 20000, even = true } }
        [[shift]]
        at_ms = 20
        rate_percent = 10
        "#,
    )
    .expect("a workload");
    let results = simulate(&profile("xeon5100-2x2").unwrap(), &overload, &options("none"));
    assert!(results.load.waiting_at_start > 50, "{:?}", results.load);
    assert!(results.answered > results.load.asked, "{} answers", results.answered);
    assert!((results.per_second() - 2_000.0).abs() < 50.0, "{} a second", results.per_second());
    assert!(results.backlog_percent() < Some(-30.0), "{:?}", results.backlog_percent());
}

/// Regression: the ideal schedule filled both hardware threads of a core beside idle cores, and
/// slow cores before fast cores, so real policies were better.
#[test]
fn ideal_uses_idle_and_fast_cores_first() {
    let text = crate::machine::profile_text("xeon5100-2x2").unwrap();
    let machine = |topology: &str, more: &str| {
        let (before, rest) = text.split_once("topology = ").unwrap();
        let (_, after) = rest.split_once('\n').unwrap();
        let text = format!("{before}topology = \"{topology}\"\n{after}{more}");
        SimMachine::from_toml(&text).expect("a machine")
    };
    let two = CompiledProgram::from_toml(
        r#"
        name = "two"
        about = "two events at once"
        [[handler]]
        name = "work"
        cycles = 100000
        color = "event"
        [[source]]
        entry = "work"
        load = { start = { count = 2 } }
        "#,
    )
    .expect("a workload");
    let ran_on = |machine: &SimMachine| {
        let results = simulate(machine, &two, &SimOptions::ideal());
        results.cores.iter().map(|core| core.events).collect::<Vec<_>>()
    };
    let slow = "\n[[slow]]\ncores = [0]\npercent = 50\n";
    assert_eq!(ran_on(&machine("node:1 l2:1(size=4MiB) core:2 pu:2", "")), [1, 0, 1, 0]);
    assert_eq!(ran_on(&machine("node:1 l2:1(size=4MiB) core:3 pu:1", slow)), [0, 1, 1]);
}

/// Regression: colors that a busy core gave to sleeping cores counted as moves by placement,
/// although no handler was placed.
#[test]
fn hand_overs_are_not_placements() {
    let machine = profile("xeon5100-2x2").unwrap();
    let results = simulate(&machine, &pinned_producer(200_000), &options("adaptive"));
    assert!(results.handed_over > 100, "{} colors were handed over", results.handed_over);
    assert_eq!(results.moves, 0);
}

/// Regression: a run counted as a whole at its end, so cores were busy for 900 % of a short counted
/// part, or for 0 % of a counted part within a run.
#[test]
fn only_counted_part_of_run_is_busy() {
    let long = |run_ms: u64| {
        let text = format!(
            r#"
            name = "long"
            about = "events of 50 ms"
            run_ms = {run_ms}
            warm_up_ms = 40
            [[handler]]
            name = "work"
            cycles = 90000000
            color = "event"
            [[source]]
            entry = "work"
            load = {{ start = {{ count = 40 }} }}
            "#
        );
        CompiledProgram::from_toml(&text).expect("a workload")
    };
    let machine = profile("xeon5100-2x2").unwrap();
    for run_ms in [45, 60, 170] {
        let results = simulate(&machine, &long(run_ms), &options("none"));
        for core in &results.cores {
            let permille = 1_000 * core.busy_ns / results.counted_ns;
            assert!((990..=1_000).contains(&permille), "{run_ms} ms: {permille} permille");
            assert!(core.base_ns <= core.busy_ns, "{core:?}");
        }
    }
}

/// Regression: the gaps of an open source were cut to whole nanoseconds, so 6,666,667 requests a
/// second became 6,711,320.
#[test]
fn open_source_keeps_its_rate() {
    let machine = profile("xeon5100-2x2").unwrap();
    for even in [true, false] {
        let text = format!(
            r#"
            name = "fast"
            about = "gaps of 150 ns less a fraction"
            run_ms = 30
            [[handler]]
            name = "work"
            cycles = 1
            color = "event"
            reply = true
            [[source]]
            entry = "work"
            load = {{ open = {{ per_s = 6666667, even = {even} }} }}
            "#
        );
        let fast = CompiledProgram::from_toml(&text).expect("a workload");
        let asked = simulate(&machine, &fast, &SimOptions::ideal()).load.asked;
        let off = asked.abs_diff(200_000);
        assert!(off < if even { 3 } else { 900 }, "{asked} requests, even: {even}");
    }
}

/// The duration of each run, by handler, in the order of the ends.
#[derive(Default)]
struct RunTimes {
    running: std::collections::BTreeMap<u64, (u16, u64)>,
    ran: [Vec<u64>; 2],
}

impl Watch for RunTimes {
    fn note(&mut self, note: crate::Note) {
        match note {
            crate::Note::Started { at_ns, event, handler, .. } => {
                self.running.insert(event, (handler, at_ns));
            }
            crate::Note::Finished { at_ns, event, .. } => {
                let (handler, from_ns) = self.running.remove(&event).expect("it has begun");
                self.ran[usize::from(handler)].push(at_ns - from_ns);
            }
            _ => {}
        }
    }
}

/// Regression: both successors took equally long, because they drew the same numbers.
#[test]
fn parallel_successors_draw_different_durations() {
    let fork = CompiledProgram::from_toml(
        r#"
        name = "fork"
        about = "two successors at once"
        [[handler]]
        name = "split"
        cycles = 1000
        color = "event"
        code_bytes = 0
        also = [{ to = "work" }, { to = "work" }]
        [[handler]]
        name = "work"
        cycles = 1000000
        spread_percent = 50
        color = "event"
        code_bytes = 0
        reply = true
        [[source]]
        entry = "split"
        load = { start = { count = 1 } }
        "#,
    )
    .expect("a workload");
    let machine = profile("xeon5100-2x2").unwrap();
    let (_, seen) = simulate_watched(&machine, &fork, &options("none"), RunTimes::default());
    assert!(seen.ran[1].len() == 2 && seen.ran[1][0] != seen.ran[1][1], "{:?}", seen.ran);
}

/// Regression: a look for arrivals drew by its place among all events, which a policy changes.
#[test]
fn looks_take_equal_times_under_every_policy() {
    let polled = CompiledProgram::from_toml(
        r#"
        name = "polled"
        about = "a handler looks for arrivals"
        run_ms = 20
        [[handler]]
        name = "look"
        cycles = 10000
        spread_percent = 50
        color = "serial"
        code_bytes = 0
        [[handler]]
        name = "work"
        cycles = 30000
        code_bytes = 0
        reply = true
        [[source]]
        entry = "work"
        load = { closed = { clients = 20, think_us = 50 } }
        poll = { handler = "look", cycles_each = 0 }
        "#,
    )
    .expect("a workload");
    let machine = profile("xeon5100-2x2").unwrap();
    let looks = |policy| {
        let (_, seen) = simulate_watched(&machine, &polled, &options(policy), RunTimes::default());
        seen.ran[0][..50].to_vec()
    };
    let [none, libasync, adaptive] = ["none", "libasync", "adaptive"].map(looks);
    assert_eq!(none, libasync);
    assert_eq!(none, adaptive);
}
