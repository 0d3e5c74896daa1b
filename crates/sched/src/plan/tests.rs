//! Plans: the published sequences, the text form, forecasts by hand, and the search against
//! exhaustive search.

use std::collections::BTreeSet;
use std::time::Instant;

use proptest::prelude::*;
use vermeil_topology::synthetic;

use super::*;
use crate::flow::{Flow, FlowGraph};
use crate::{Layout, PlanName, SchedError, Symmetry};

fn layout(machine: &str) -> Layout {
    let machine = synthetic::parse(machine).expect("a machine");
    let cpus: Vec<_> = machine.pus().iter().map(|pu| pu.cpu).collect();
    Layout::from_machine(&machine, &cpus).expect("a layout")
}

/// The machine of the published sequences: two processors, each with two cores that share an L2.
fn two_by_two() -> Layout {
    layout("package:2 l2:1 core:2 pu:1")
}

fn handlers(count: usize) -> Vec<HandlerIndex> {
    (0..count as u32).map(HandlerIndex).collect()
}

fn flow(from: usize, to: usize, posts: f64) -> Flow {
    Flow { from: Some(HandlerIndex(from as u32)), to: HandlerIndex(to as u32), posts, bytes: 0.0 }
}

/// Each handler posts to the next; all take `cost_ns`, and `penalty_ns` times the class of the
/// distance after a move.
fn pipeline(layout: &Layout, costs_ns: impl IntoIterator<Item = f64>, penalty_ns: f64) -> PlanModel<'_> {
    let load = |cost_ns| HandlerLoad {
        events_per_s: 1_000.0,
        cost_ns,
        penalty_ns: std::array::from_fn(|class| penalty_ns * class as f64),
    };
    let loads: Vec<_> = costs_ns.into_iter().map(load).collect();
    let flows: Vec<_> = (1..loads.len()).map(|to| flow(to - 1, to, 1_000.0)).collect();
    PlanModel::new(layout, loads, flows)
}

/// A plan in the notation of the publication: cores from 1.
fn sequence(plan: &Plan) -> String {
    let cores = plan.iter().filter_map(|(handler, _)| plan.core_of(handler));
    cores.map(|core| (core.0 + 1).to_string()).collect::<Vec<_>>().join(" ")
}

fn look(model: &PlanModel<'_>, rules: &PlanRules, current: &Plan, limits: SearchLimits) -> PlanSearchResult {
    let symmetry = Symmetry::of(model.layout());
    search(model, &symmetry, rules, current, &handlers(current.len()), Objective::Throughput, limits)
}

#[test]
fn the_named_plans_are_the_published_sequences() {
    let cases = [
        (PlanName::RoundRobin, "1 2 3 4 1 2 3 4 1 2 3 4 1 2 3 4"),
        (PlanName::CacheAware, "1 1 1 1 2 2 2 2 3 3 3 3 4 4 4 4"),
        (PlanName::Intermediate1, "1 2 1 2 1 2 1 2 3 4 3 4 3 4 3 4"),
        (PlanName::Intermediate2, "1 2 1 2 3 4 3 4 1 2 1 2 3 4 3 4"),
    ];
    for (name, expected) in cases {
        let plan = Plan::named(&name, 16, &two_by_two()).expect("a plan");
        assert_eq!(sequence(&plan), expected, "{name}");
    }
    assert_eq!(Plan::named(&PlanName::File("x".into()), 16, &two_by_two()), None);
}

#[test]
fn named_plans_are_for_any_machine_and_number() {
    for machine in ["core:1 pu:1", "l3:1 core:2 pu:1", "node:2 l3:2 core:3 pu:2"] {
        let layout = layout(machine);
        for count in 0..60 {
            for plan in Plan::all_named(count, &layout) {
                assert_eq!(plan.len(), count);
                let cores: BTreeSet<_> =
                    plan.iter().filter_map(|(handler, _)| plan.core_of(handler)).collect();
                let all = count >= 2 * layout.cores();
                assert!(!all || cores.len() == layout.cores(), "{machine}, {count}: {}", sequence(&plan));
            }
        }
    }
}

#[test]
fn a_plan_is_written_and_read() {
    let text = "parse = 0\n\"net.read\" = [1, 2]\nlog = \"any\"\n\"\" = 3\n";
    let file = PlanFile::parse(text, 4).expect("a plan");
    let names = ["log", "net.read", "parse", "later", ""];
    let plan = file.resolve(&names).expect("all are known");
    assert_eq!(plan.core_of(HandlerIndex(2)), Some(CoreIndex(0)));
    assert_eq!((plan.of(HandlerIndex(0)), plan.of(HandlerIndex(3))), (&Placement::Any, &Placement::Any));
    assert_eq!(plan.to_toml(&names), "\"net.read\" = [1, 2]\nparse = 0\n\"\" = 3\n");
    assert_eq!(PlanFile::parse(&plan.to_toml(&names), 4).expect("a plan").resolve(&names), Ok(plan));
}

#[test]
fn any_name_can_be_written() {
    let name = "a.b \"c\" \\ \n\u{7f} é";
    let plan = Plan::on_cores([CoreIndex(2)]);
    let file = PlanFile::parse(&plan.to_toml(&[name]), 4).expect("a plan");
    assert_eq!(file.get(name), Some(&Placement::Core(CoreIndex(2))));
}

#[test]
fn mistakes_in_a_plan_are_found_with_their_line() {
    let cases = [
        ("a = 0\nb = \n", "plan: line 2: "),
        ("a = 0\n\nb = 4", "plan: line 3: `b`: there is no core 4: the runtime has 0 to 3"),
        ("b = -1", "plan: line 1: `b`: there is no core -1: the runtime has 0 to 3"),
        ("b = []", "plan: line 1: `b`: is neither a core, nor an array of cores, nor \"any\""),
        ("a = 1\na = 2", "plan: line 2: duplicate key"),
        ("[a]\nb = 1", "plan: line 1: `a`: is neither a core"),
    ];
    for (text, expected) in cases {
        let message = PlanFile::parse(text, 4).expect_err(text).to_string();
        assert!(message.starts_with(expected), "{text:?}: {message}");
    }
    let unknown = PlanFile::parse("a = 0\npasre = 1", 4).expect("a plan").resolve(&["a", "parse"]);
    assert_eq!(
        unknown,
        Err(SchedError::PlanUnknown { line: 2, handler: "pasre".into(), known: "a, parse".into() })
    );
}

#[test]
fn moves_lead_from_one_plan_to_another() {
    let layout = two_by_two();
    let [from, to] = [PlanName::RoundRobin, PlanName::CacheAware]
        .map(|name| Plan::named(&name, 16, &layout).expect("a plan"));
    let moves = from.moves_to(&to);
    assert_eq!(moves.len(), 12);
    let mut plan = from.clone();
    plan.apply(&moves);
    assert_eq!(plan, to);
    assert_eq!(to.moves_to(&to), []);
    assert_eq!(Plan::default().moves_to(&Plan::new(vec![Placement::Any])), []);
}

#[test]
fn a_forecast_by_hand() {
    let layout = two_by_two();
    let model = pipeline(&layout, [100_000.0, 200_000.0, 300_000.0], 10_000.0);
    let plan = Plan::on_cores([0, 1, 1].map(CoreIndex));
    let forecast = model.forecast(&plan);
    // A flow crosses the L2: a thousand times 20 us.
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    near(forecast.loads[0], 0.1);
    near(forecast.loads[1], 0.52);
    near(forecast.busiest, 0.52);
    near(forecast.penalties, 0.02);
    near(forecast.sojourn_ns, (0.1 / 0.9 + 0.52 / 0.48) / 3_000.0 * 1e9);
    let slow = layout.clone().with_capacities(vec![1024, 512, 1024, 1024]);
    near(pipeline(&slow, [100_000.0, 200_000.0, 300_000.0], 10_000.0).forecast(&plan).busiest, 1.04);
}

#[test]
fn a_handler_on_several_cores_spreads() {
    let layout = two_by_two();
    let model = pipeline(&layout, [100_000.0, 200_000.0], 0.0);
    let both = Placement::Cores(std::sync::Arc::new([0, 1].map(CoreIndex).into_iter().collect()));
    let forecast = model.forecast(&Plan::new(vec![Placement::Any, both]));
    assert_eq!(forecast.loads, [0.125, 0.125, 0.025, 0.025]);
}

/// 455 cuts of 16 handlers into 4 runs, no two of which are symmetric; of all 4^16 plans a search
/// examines two thousand.
#[test]
fn the_search_is_bounded_and_skips_symmetric_plans() {
    let layout = two_by_two();
    let model = pipeline(&layout, [50_000.0; 16], 5_000.0);
    let current = Plan::named(&PlanName::RoundRobin, 16, &layout).expect("a plan");
    let begin = Instant::now();
    let found = look(&model, &PlanRules::new(), &current, SearchLimits::default());
    println!("{} candidates, {} duplicates, {:?}", found.candidates, found.duplicates, begin.elapsed());
    assert_eq!(sequence(&found.best[0].plan), "1 1 1 1 2 2 2 2 3 3 3 3 4 4 4 4");
    assert!((455..=CANDIDATES_MAX).contains(&found.candidates), "{}", found.candidates);
    assert!(found.duplicates > 0);
    let few = look(&model, &PlanRules::new(), &current, SearchLimits { candidates_max: 10, keep: 2 });
    assert_eq!((few.candidates + few.duplicates, few.best.len()), (10, 2));
}

#[test]
fn without_penalties_the_plan_that_is_wins_the_tie() {
    let layout = two_by_two();
    let model = pipeline(&layout, [50_000.0; 16], 0.0);
    let current = Plan::named(&PlanName::Intermediate2, 16, &layout).expect("a plan");
    assert_eq!(look(&model, &PlanRules::new(), &current, SearchLimits::default()).best[0].plan, current);
}

#[test]
fn rules_are_kept() {
    let layout = two_by_two();
    let model = pipeline(&layout, [50_000.0; 8], 5_000.0);
    let rules = PlanRules::new()
        .together([0, 5].map(HandlerIndex))
        .together([5, 7].map(HandlerIndex))
        .only(HandlerIndex(3), Placement::Core(CoreIndex(2)));
    // The current plan breaks both rules, so the search must not start from the plan.
    let current = Plan::on_cores([0, 0, 1, 1, 2, 2, 3, 3].map(CoreIndex));
    let found = look(&model, &rules, &current, SearchLimits::default());
    assert_eq!(found.best.len(), 4);
    for Scored { plan, .. } in &found.best {
        assert!(rules.permits(plan), "{}", sequence(plan));
        assert_eq!(plan.core_of(HandlerIndex(3)), Some(CoreIndex(2)));
        assert_eq!(plan.core_of(HandlerIndex(0)), plan.core_of(HandlerIndex(7)));
    }
}

fn cores(some: &[u32]) -> Placement {
    Placement::Cores(std::sync::Arc::new(some.iter().copied().map(CoreIndex).collect()))
}

/// Six of eight handlers have a choice, and two of these are one group: five positions in the row.
#[test]
fn named_plans_place_handlers_that_have_a_choice() {
    let layout = two_by_two();
    let rules = PlanRules::new()
        .only(HandlerIndex(0), Placement::Core(CoreIndex(3)))
        .only(HandlerIndex(2), cores(&[2]))
        .only(HandlerIndex(4), cores(&[0, 1]))
        .together([1, 6].map(HandlerIndex));
    let named = |name| sequence(&rules.named(&name, 8, &layout).expect("a plan"));
    // The group is first in the row, and the third position, which may not stand on core 2 (counted
    // from 0), is placed near.
    assert_eq!(named(PlanName::RoundRobin), "4 1 3 2 1 4 1 1");
    assert_eq!(named(PlanName::CacheAware), "4 1 3 1 2 3 1 4");
    for plan in rules.all_named(8, &layout) {
        assert!(rules.permits(&plan), "{}", sequence(&plan));
    }
    let free = PlanRules::new();
    assert_eq!(free.all_named(16, &layout), Plan::all_named(16, &layout));
    assert_eq!(rules.named(&PlanName::File("x".into()), 8, &layout), None);
}

#[test]
fn a_plan_in_a_file_is_checked_against_places_and_groups() {
    // Registered like the handlers of a group: each with the first.
    let rules = PlanRules::new().only(HandlerIndex(1), cores(&[1, 2]));
    let rules = rules.together([0, 2].map(HandlerIndex)).together([0, 3].map(HandlerIndex));
    let check = |text| {
        let file = PlanFile::parse(text, 4).expect("a plan");
        file.check(&["a", "b", "c", "e"], &rules, &two_by_two()).map_err(|error| error.to_string())
    };
    assert_eq!(check("a = 3\nb = [0, 1]\nc = 3"), Ok(()));
    let wrong = [
        ("a = 3\nb = 0", "plan: line 2: `b`: may not stand there: its place allows 1, 2"),
        ("c = 3\nb = 1\na = 0", "plan: line 3: `a`: shares its color with `c`, which line 1 puts elsewhere"),
        ("c = 0\ne = 1", "plan: line 2: `e`: shares its color with `c`, which line 1 puts elsewhere"),
        ("b = 1\nd = 0", "plan: line 2: there is no handler `d`; there are a, b, c, e"),
    ];
    for (text, expected) in wrong {
        assert_eq!(check(text), Err(expected.to_owned()));
    }
}

#[test]
fn two_hundred_handlers_on_128_cores_are_no_hardship() {
    let layout = layout("node:4 l3:4 core:8 pu:1");
    let model = pipeline(&layout, (0..200).map(|i| 20_000.0 + 1_000.0 * f64::from(i % 7)), 1_000.0);
    let current = Plan::named(&PlanName::RoundRobin, 200, &layout).expect("a plan");
    let begin = Instant::now();
    let limits = SearchLimits::for_size(200, 128);
    let found = look(&model, &PlanRules::new(), &current, limits);
    println!("{} candidates, {:?}", found.candidates, begin.elapsed());
    assert!(found.candidates <= limits.candidates_max);
    let gain = found.best[0].forecast.gain_over(&model.forecast(&current), Objective::Throughput);
    assert!(gain > 0.05, "{gain}");
}

/// Handlers with these costs that post along these edges, with a penalty proportional to the class
/// of distance.
fn model_of<'a>(
    layout: &'a Layout,
    costs: &[f64],
    edges: &[(usize, usize, f64)],
    penalty_ns: f64,
) -> PlanModel<'a> {
    let loads = costs.iter().map(|&cost_ns| HandlerLoad {
        events_per_s: 1_000.0,
        cost_ns,
        penalty_ns: std::array::from_fn(|class| penalty_ns * class as f64),
    });
    PlanModel::new(layout, loads.collect(), edges.iter().map(|&(from, to, posts)| flow(from, to, posts)))
}

proptest! {
    /// Against all plans of up to six handlers on four cores, with branches and loops: within one
    /// percent of the best.
    #[test]
    fn search_finds_optimum_of_exhaustive_search(
        costs in prop::collection::vec(5_000.0f64..100_000.0, 2..=6),
        edges in prop::collection::vec((0usize..6, 0usize..6, 100.0f64..3_000.0), 0..10),
        penalty_ns in 0.0f64..20_000.0,
        start in prop::collection::vec(0u32..4, 6),
        throughput: bool,
    ) {
        let layout = two_by_two();
        let count = costs.len();
        let model = model_of(&layout, &costs, &edges, penalty_ns);
        let objective = if throughput { Objective::Throughput } else { Objective::Delay };
        let current = Plan::on_cores(start[..count].iter().copied().map(CoreIndex));
        let order = FlowGraph::new().order(count);
        let limits = SearchLimits::default();
        let found = search(&model, &Symmetry::of(&layout), &PlanRules::new(), &current, &order, objective, limits);
        let all = (0..4_u32.pow(count as u32)).map(|number| {
            Plan::on_cores((0..count as u32).map(|handler| CoreIndex(number / 4_u32.pow(handler) % 4)))
        });
        let best = all.map(|plan| model.forecast(&plan).cost(objective)).fold(f64::INFINITY, f64::min);
        let reached = found.best[0].forecast.cost(objective);
        prop_assert!(reached <= best * 1.01, "{} instead of {}", reached, best);
        let costs: Vec<_> = found.best.iter().map(|scored| scored.forecast.cost(objective)).collect();
        prop_assert!(costs.is_sorted());
    }

    /// The same with handlers restricted to some cores and a group of two: cores that a rule
    /// distinguishes are not symmetric.
    #[test]
    fn search_under_rules_finds_optimum_of_exhaustive_search(
        costs in prop::collection::vec(5_000.0f64..100_000.0, 3..=6),
        edges in prop::collection::vec((0usize..6, 0usize..6, 100.0f64..3_000.0), 0..10),
        penalty_ns in 0.0f64..20_000.0,
        start in prop::collection::vec(0u32..4, 6),
        may in prop::collection::vec(1u32..16, 6),
        throughput: bool,
    ) {
        let layout = two_by_two();
        let count = costs.len();
        let model = model_of(&layout, &costs, &edges, penalty_ns);
        let objective = if throughput { Objective::Throughput } else { Objective::Delay };
        let mut rules = PlanRules::new().together([0, 2].map(HandlerIndex));
        for (handler, mask) in (0..count as u32).zip(&may) {
            let mask = if handler == 2 { may[0] } else { *mask };
            let some: Vec<_> = (0..4).filter(|core| mask >> core & 1 == 1).collect();
            rules = rules.only(HandlerIndex(handler), cores(&some));
        }
        let current = Plan::on_cores(start[..count].iter().copied().map(CoreIndex));
        let found = search(
            &model, &Symmetry::of(&layout), &rules, &current, &handlers(count), objective, SearchLimits::default(),
        );
        for scored in &found.best {
            prop_assert!(rules.permits(&scored.plan), "{}", sequence(&scored.plan));
        }
        let all = (0..4_u32.pow(count as u32)).map(|number| {
            Plan::on_cores((0..count as u32).map(|handler| CoreIndex(number / 4_u32.pow(handler) % 4)))
        });
        let allowed = all.filter(|plan| rules.permits(plan));
        let best = allowed.map(|plan| model.forecast(&plan).cost(objective)).fold(f64::INFINITY, f64::min);
        let reached = found.best[0].forecast.cost(objective);
        prop_assert!(reached <= best * 1.01, "{} instead of {}", reached, best);
    }

    /// A symmetric plan has the same forecast, so skipping the plan changes nothing.
    #[test]
    fn symmetric_plans_cost_the_same(cores in prop::collection::vec(0u32..4, 8), penalty_ns in 0.0f64..50_000.0) {
        let layout = two_by_two();
        let model = pipeline(&layout, (0..8).map(|i| 10_000.0 * f64::from(i + 1)), penalty_ns);
        let cost = |swap: fn(u32) -> u32| {
            let plan = Plan::on_cores(cores.iter().map(|&core| CoreIndex(swap(core))));
            model.forecast(&plan).cost(Objective::Throughput)
        };
        let (as_is, mirrored) = (cost(|core| core), cost(|core| core ^ 2));
        prop_assert!((as_is - mirrored).abs() < 1e-9);
        let crossed = cost(|core| if core < 2 { core ^ 1 } else { core });
        prop_assert!((as_is - crossed).abs() < 1e-9);
    }
}
