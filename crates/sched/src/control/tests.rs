//! Controllers on invented worlds and invented time: the plan they settle on, the time, the losses,
//! and that they rest.

use super::*;
use crate::plan::PlanRules;
use crate::{CostHint, Distance, Layout, Placement, PlanName, RunSample};
use world::{ControlWorld, LoadDemand, Passed};

mod world;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// Two processors with two cores each that share an L2; the processors are one hop apart.
fn two_by_two() -> Layout {
    let distance = |a: u32, b: u32| match (a == b, a / 2 == b / 2) {
        (true, _) => Distance::Same,
        (false, true) => Distance::L2,
        (false, false) => Distance::Hops(1),
    };
    let matrix: Vec<Vec<_>> = (0..4).map(|a| (0..4).map(|b| distance(a, b)).collect()).collect();
    Layout::from_matrix(&matrix).expect("a layout")
}

fn named(name: PlanName) -> Plan {
    Plan::named(&name, 16, &two_by_two()).expect("a plan")
}

/// The pipeline of the first experiments: 16 handlers of 100 us. The penalty of an event grows by a
/// fraction of that cost with each class of distance.
fn pipeline(penalty: f64, begin: PlanName, seed: u64) -> ControlWorld {
    ControlWorld::pipeline(two_by_two(), &[100_000.0; 16], penalty, named(begin), seed)
}

/// The image filters, bound by caches.
fn images(begin: PlanName, seed: u64) -> ControlWorld {
    pipeline(0.1, begin, seed)
}

/// The square roots, bound only by the cores.
fn roots(begin: PlanName, seed: u64) -> ControlWorld {
    pipeline(0.0, begin, seed)
}

fn trial(world: &ControlWorld) -> Trial {
    Trial::new(Candidates::Named(world.layout.clone()), TrialOptions::default())
}

fn adaptive(world: &ControlWorld) -> Adaptive {
    Adaptive::new(world.layout.clone(), PlanRules::new())
}

fn count(controller: &dyn Controller, wanted: fn(&ControlEvent) -> bool) -> usize {
    controller.decisions().iter().filter(|decision| wanted(&decision.event)).count()
}

fn commits(controller: &dyn Controller) -> usize {
    count(controller, |event| matches!(event, ControlEvent::Committed { .. }))
}

/// Time of the whole machine that was lost against a steady `rate`, in nanoseconds.
fn lost_ns(passed: &[Passed], rate: f64) -> f64 {
    let lost = |pair: &[Passed]| (pair[1].0 - pair[0].0) as f64 * (1.0 - pair[1].1 / rate).max(0.0);
    passed.windows(2).map(lost).sum()
}

#[test]
fn a_fixed_plan_is_put_in_force_once() {
    let plan = Plan::on_cores([1, 0].map(CoreIndex));
    let mut fixed = Fixed::new(plan.clone());
    let mut seen = Observation { placed: Plan::on_cores([0, 0].map(CoreIndex)), ..Observation::default() };
    let moves = fixed.round(5 * MS, &seen);
    assert_eq!(moves, [Move { handler: HandlerIndex(0), to: CoreIndex(1) }]);
    seen.placed.apply(&moves);
    assert_eq!((fixed.round(6 * MS, &seen), fixed.next_round_ns()), (vec![], None));
    assert_eq!(fixed.begin(HandlerIndex(1)), Some(CoreIndex(0)));
    let lines: Vec<_> = fixed.decisions().iter().map(Decision::to_string).collect();
    assert_eq!(lines, ["0.005 s: the plan is put in force; handler 0 to core 1"]);
}

#[test]
fn the_log_is_bounded() {
    let mut log = DecisionLog::default();
    (0..1_000).for_each(|at_ns| log.push(at_ns, ControlEvent::Shifted, &[]));
    assert_eq!((log.iter().count(), log.total()), (DECISIONS_MAX, 1_000));
    assert_eq!(log.iter().next_back().map(|decision| decision.at_ns), Some(999));
}

#[test]
fn shares_of_busy_time() {
    let core = |idle_ns| CoreWindow { window_ns: 1_000, idle_ns, ..CoreWindow::default() };
    let seen =
        Observation { cores: vec![core(250), core(1_500), CoreWindow::default()], ..Observation::default() };
    assert_eq!((seen.busiest(), seen.busy_cores(), seen.window_ns()), (0.75, 0.75, 666));
}

/// With the noise of the publication's spread, and with twice that noise; with counters and
/// without.
#[test]
fn the_trial_settles_on_the_best_of_its_plans() {
    for (seed, noise_percent, counts_misses) in [(1, 2, false), (2, 4, false), (3, 2, true), (4, 4, true)] {
        for begin in [PlanName::RoundRobin, PlanName::Intermediate2] {
            let mut world = ControlWorld { noise_percent, counts_misses, ..images(begin.clone(), seed) };
            let mut controller = trial(&world);
            world.run(&mut controller, 60 * S);
            assert_eq!(world.placed, named(PlanName::CacheAware), "caches cost too much");
            assert_eq!(controller.decisions().total(), 5, "four plans and a choice");
            let mut world = ControlWorld { noise_percent, counts_misses, ..roots(begin, seed) };
            let mut controller = trial(&world);
            world.run(&mut controller, 60 * S);
            assert_eq!(world.placed, named(PlanName::RoundRobin), "caches cost nothing: the most parallel");
            assert_eq!(controller.decisions().total(), 5);
        }
    }
}

#[test]
fn a_trial_that_can_come_to_nothing_is_refused() {
    let usual = TrialOptions::default();
    assert_eq!(usual.check(), Ok(()));
    let strange = [
        (TrialOptions { dwell_ns: 0, ..usual }, "trial: dwell_ns: "),
        (TrialOptions { activity_up: 0.0, ..usual }, "trial: activity_up: "),
        (TrialOptions { activity_up: 1.1, ..usual }, "trial: activity_up: "),
        (TrialOptions { activity_up: f64::NAN, ..usual }, "trial: activity_up: "),
        (TrialOptions { activity_down: 0.0, ..usual }, "trial: activity_down: "),
        (TrialOptions { activity_down: 0.06, ..usual }, "trial: activity_down: "),
    ];
    for (options, told) in strange {
        let error = options.check().expect_err(told).to_string();
        assert!(error.starts_with(told), "{error}");
    }
}

#[test]
fn the_trial_begins_again_when_the_load_is_another() {
    let mut world = images(PlanName::RoundRobin, 5);
    let mut controller = trial(&world);
    world.run(&mut controller, 20 * S);
    assert_eq!(controller.chosen(), Some(3));
    world.handlers = roots(PlanName::RoundRobin, 0).handlers;
    world.handlers.iter_mut().for_each(|handler| handler.cost_ns *= 3.0);
    world.run(&mut controller, 30 * S);
    assert_eq!((controller.chosen(), &world.placed), (Some(0), &named(PlanName::RoundRobin)));
}

/// The trial takes ten seconds. The adaptive controller must settle within 200 ms on a plan at
/// least as good, from any starting plan.
#[test]
fn adaptive_settles_in_200_ms_on_no_worse_a_plan_than_the_trial() {
    for seed in 1..=8 {
        for begin in
            [PlanName::RoundRobin, PlanName::Intermediate1, PlanName::Intermediate2, PlanName::CacheAware]
        {
            let mut world = images(begin, seed);
            let mut controller = adaptive(&world);
            world.run(&mut controller, 200 * MS);
            let lines: Vec<_> = controller.decisions().iter().map(|decision| decision.event).collect();
            assert!(controller.is_settled(), "{lines:?}");
            let best = world.capacity(&named(PlanName::CacheAware));
            assert!(world.capacity(&world.placed) >= 0.99 * best, "{lines:?}");
        }
    }
    let mut world = images(PlanName::RoundRobin, 1);
    let mut controller = trial(&world);
    world.run(&mut controller, 9 * S);
    assert_eq!(controller.chosen(), None);
}

#[test]
fn adaptive_spreads_handlers_of_one_core() {
    for (seed, load) in (1..=8).flat_map(|seed| [(seed, roots as fn(_, _) -> _), (seed, images)]) {
        let mut world: ControlWorld = load(PlanName::RoundRobin, seed);
        world.placed = Plan::on_cores([CoreIndex(2); 16]);
        let mut controller = adaptive(&world);
        world.run(&mut controller, 250 * MS);
        let lines: Vec<_> = controller.decisions().iter().map(|d| (d.at_ns / MS, d.event)).collect();
        let best = world.capacity(&named(PlanName::CacheAware));
        assert!(controller.is_settled() && world.capacity(&world.placed) > 0.97 * best, "{lines:?}");
    }
}

/// Events of a millisecond, 3,000 per second: a turn must see some events, so settling takes half
/// as long again.
#[test]
fn adaptive_settles_slow_events_too() {
    for seed in 1..=8 {
        let mut world =
            ControlWorld::pipeline(two_by_two(), &[1e6; 16], 0.1, named(PlanName::RoundRobin), seed);
        let mut controller = adaptive(&world);
        world.run(&mut controller, 300 * MS);
        let lines: Vec<_> = controller.decisions().iter().map(|d| (d.at_ns / MS, d.event)).collect();
        let best = world.capacity(&named(PlanName::CacheAware));
        assert!(controller.is_settled() && world.capacity(&world.placed) > 0.99 * best, "{lines:?}");
    }
    let mut world = ControlWorld::pipeline(two_by_two(), &[20e6; 16], 0.1, named(PlanName::RoundRobin), 1);
    let mut controller = adaptive(&world);
    world.run(&mut controller, 5 * S);
    let best = world.capacity(&named(PlanName::CacheAware));
    let lines: Vec<_> = controller.decisions().iter().map(|d| (d.at_ns / MS, d.event)).collect();
    assert!(world.capacity(&world.placed) > 0.95 * best, "{lines:?}");
}

/// A diamond with a loop: 0 posts to 1 and 2, both to 3, 3 back to 1.
#[test]
fn adaptive_places_graphs_with_branches_and_loops() {
    let costs_ns = [50_000.0, 200_000.0, 80_000.0, 120_000.0];
    let mut world =
        ControlWorld::pipeline(two_by_two(), &costs_ns, 0.2, Plan::on_cores([0, 1, 2, 3].map(CoreIndex)), 9);
    world.flows = vec![(0, 1), (0, 2), (1, 3), (2, 3), (3, 1)];
    let before = world.capacity(&world.placed);
    let mut controller = adaptive(&world);
    world.run(&mut controller, 300 * MS);
    assert!(world.capacity(&world.placed) >= before);
    assert!(controller.is_settled());
}

#[test]
fn adaptive_keeps_exclusion_groups_together() {
    let mut world = images(PlanName::RoundRobin, 3);
    let rules = PlanRules::new().together([0, 4, 9].map(HandlerIndex));
    world.placed.apply(&[4, 9].map(|handler| Move { handler: HandlerIndex(handler), to: CoreIndex(0) }));
    let mut controller = Adaptive::new(world.layout.clone(), rules.clone());
    world.run(&mut controller, S);
    assert!(commits(&controller) > 0 && rules.permits(&world.placed));
}

/// A third of the handlers are bound to one core and a third to two cores. Every plan that is tried
/// respects these rules, and the other handlers move where a move pays.
#[test]
fn controllers_respect_fixed_placements() {
    for trial_first in [false, true] {
        let mut world = images(PlanName::RoundRobin, 3);
        let mut rules = PlanRules::new();
        for handler in (0..16).step_by(3).map(HandlerIndex) {
            rules = rules.only(handler, world.placed.of(handler).clone());
            let pair = Placement::Cores(std::sync::Arc::new([0, 1].map(CoreIndex).into_iter().collect()));
            rules = rules.only(HandlerIndex(handler.0 + 1), pair);
        }
        world.placed = rules.fitted(&world.placed, &world.layout);
        let before = world.capacity(&world.placed);
        let controller: &mut dyn Controller = match trial_first {
            true => &mut trial(&world),
            false => &mut adaptive(&world),
        };
        controller.set_rules(rules.clone());
        for handler in (0..16).map(HandlerIndex) {
            assert!(rules.allows(handler, controller.begin(handler).expect("it places")));
        }
        world.run(controller, 12 * S);
        let moves: Vec<_> =
            controller.decisions().iter().flat_map(|decision| decision.moves.clone()).collect();
        assert!(!moves.is_empty() && moves.iter().all(|step| rules.allows(step.handler, step.to)));
        let gain = world.capacity(&world.placed) / before - 1.0;
        assert!(rules.permits(&world.placed) && (trial_first || gain > 0.02), "{gain}");
    }
}

/// A handler opens a socket during a trial that would move the handler: the trial ends, and the
/// handler stays.
#[test]
fn new_rule_ends_a_running_trial() {
    let mut world = images(PlanName::RoundRobin, 3);
    let mut controller = adaptive(&world);
    while count(&controller, |event| matches!(event, ControlEvent::Challenged { .. })) == 0 {
        let round_ns = controller.next_round_ns().expect("it goes on");
        world.run(&mut controller, round_ns);
    }
    let stay = (0..16)
        .map(HandlerIndex)
        .fold(PlanRules::new(), |rules, handler| rules.only(handler, world.placed.of(handler).clone()));
    controller.set_rules(stay.clone());
    world.run(&mut controller, S);
    assert!(stay.permits(&world.placed) && world.moves == 0 && commits(&controller) == 0);
    assert!(controller.is_settled());
}

/// Equal plans, noise of five percent, two minutes: no gain is possible, and no handler moves.
#[test]
fn adaptive_does_not_flap() {
    for seed in 1..=5 {
        let mut world = ControlWorld { noise_percent: 5, ..roots(PlanName::Intermediate2, seed) };
        let mut controller = adaptive(&world);
        world.run(&mut controller, 120 * S);
        assert_eq!((commits(&controller), world.moves), (0, 0));
        let mut world = ControlWorld { noise_percent: 5, ..images(PlanName::RoundRobin, seed) };
        let mut controller = adaptive(&world);
        world.run(&mut controller, S);
        let (settled, moves) = (world.placed.clone(), world.moves);
        world.run(&mut controller, 120 * S);
        assert_eq!((&world.placed, world.moves), (&settled, moves), "settled is settled");
    }
}

/// A world in which every plan but the first is bad for reasons that no model knows. The controller
/// tries and refutes promises at growing intervals, and the cost stays within the budget: 20 ms and
/// two percent of the time.
#[test]
fn regret_is_bounded_in_a_world_that_lies() {
    for (seed, hidden) in [(1, 0.3), (2, 0.7), (3, 0.72), (4, 0.01)] {
        let mut world = ControlWorld { noise_percent: 0, ..images(PlanName::RoundRobin, seed) };
        let (first, rate) = (world.placed.clone(), world.capacity(&world.placed));
        world.hidden = Some((first.clone(), hidden));
        let mut controller = adaptive(&world);
        let mut passed = Vec::new();
        for second in 1..=120 {
            passed.extend(world.run(&mut controller, S));
            let account_ns = (20 * MS + second * S / 50) as f64;
            let lost_ns = lost_ns(&passed, rate);
            let regret_ns = controller.regret_ns().expect("it is bounded");
            assert!(regret_ns as f64 <= account_ns);
            assert!(lost_ns <= 1.05 * account_ns, "lost {lost_ns} of {account_ns} after {second} s");
            // Losses that end a trial at once are measured only as exactly as the disturbance by
            // moves allows.
            assert!(lost_ns <= 1.5 * regret_ns as f64 + 2e6, "{lost_ns} {}", regret_ns);
        }
        assert_eq!((&world.placed, commits(&controller)), (&first, 0));
        assert!(count(&controller, |event| matches!(event, ControlEvent::Refuted { .. })) > 0);
    }
}

#[test]
fn a_contest_is_abandoned_when_the_load_shifts_and_learning_begins_again() {
    let mut world = ControlWorld { demand: LoadDemand::Open(700.0), ..images(PlanName::RoundRobin, 4) };
    world.placed = Plan::on_cores([0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1].map(CoreIndex));
    let mut controller = adaptive(&world);
    world.run(&mut controller, 20 * MS);
    assert_eq!(count(&controller, |event| matches!(event, ControlEvent::Challenged { .. })), 1);
    world.run(&mut controller, 12 * MS);
    world.demand = LoadDemand::Open(1_150.0);
    world.run(&mut controller, 20 * MS);
    let abandoned = |event: &ControlEvent| *event == ControlEvent::Abandoned(Why::LoadShifted);
    assert_eq!(count(&controller, abandoned), 1);
    world.run(&mut controller, 400 * MS);
    assert!(
        commits(&controller) > 0 && world.capacity(&world.placed) > 1_900.0,
        "{}",
        world.capacity(&world.placed)
    );
}

/// The same handlers post to each other in another order: rates and costs stay the same, the graph
/// changes.
#[test]
fn adaptive_notices_a_changed_graph() {
    let mut world = images(PlanName::RoundRobin, 6);
    let mut controller = adaptive(&world);
    world.run(&mut controller, S);
    let order: Vec<usize> = (0..16).map(|position| position * 5 % 16).collect();
    world.flows = order.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let before = world.capacity(&world.placed);
    world.run(&mut controller, 500 * MS);
    assert_eq!(count(&controller, |event| *event == ControlEvent::Shifted), 1);
    assert!(world.capacity(&world.placed) > 1.1 * before);
}

/// Regression: the plan gave all work to one core, and a second core would double the throughput,
/// but the second core stole half of the work. The controller ran trials all the time for a promise
/// that no plan could keep.
#[test]
fn work_that_stealing_divides_promises_no_gain() {
    let (window_ns, handlers) = (10 * MS, 4);
    let layout =
        Layout::from_matrix(&[vec![Distance::Same, Distance::L3], vec![Distance::L3, Distance::Same]]);
    let mut costs = CostTable::new();
    for handler in 0..handlers {
        costs.register(CostHint::default());
        costs.observe(HandlerIndex(handler), RunSample { run_ns: 100_000, cold: None, interrupted: false });
    }
    let core =
        CoreWindow { window_ns, events: 94, run_ns: 94 * MS / 10, idle_ns: MS / 5, ..CoreWindow::default() };
    let handler = HandlerWindow { events: 47, run_ns: 47 * MS / 10, ..HandlerWindow::default() };
    let placed = Plan::on_cores([CoreIndex(0); 4]);
    let seen = Observation {
        cores: vec![core; 2],
        handlers: vec![handler; 4],
        costs,
        placed,
        ..Observation::default()
    };
    let mut controller = Adaptive::new(layout.expect("a layout"), PlanRules::new());
    for round in 1..100 {
        assert_eq!(controller.round(round * window_ns, &seen), []);
    }
    assert_eq!(count(&controller, |event| !matches!(event, ControlEvent::Nothing { .. })), 0);
    assert_eq!(controller.regret_ns(), Some(0));
}

#[test]
fn an_idle_world_is_left_alone() {
    let mut world = ControlWorld { demand: LoadDemand::Open(0.0), ..images(PlanName::RoundRobin, 7) };
    let mut controller = adaptive(&world);
    let passed = world.run(&mut controller, 100 * S);
    assert!(passed.len() <= 110, "{} rounds", passed.len());
    assert_eq!((world.moves, controller.decisions().total()), (0, 0));
    world.demand = LoadDemand::Saturated;
    world.run(&mut controller, 2 * S);
    assert_eq!(commits(&controller), 1);
}
