//! Learned costs against invented runs: correct learning, speed, and data that must not be learned.

use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::HandlerIndex;

fn warm(run_ns: u64) -> RunSample {
    RunSample { run_ns, cold: None, interrupted: false }
}

fn cold(run_ns: u64, distance: Distance) -> RunSample {
    RunSample { run_ns, cold: Some(distance), interrupted: false }
}

/// Pseudo-random numbers below `bound`: a linear congruential generator's upper bits.
fn noise(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |bound| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    }
}

fn near(found: u64, expected: u64, percent: u64) {
    let off = found.abs_diff(expected) * 100;
    assert!(off <= expected * percent, "{found} is not within {percent} percent of {expected}");
}

/// Regression: each of 128 cores feared a move until that core had timed eight cold runs.
#[test]
fn cold_runs_of_other_cores_end_doubt() {
    let mut cost = HandlerCost::default();
    cost.observe(warm(300_000));
    cost.observe(cold(301_000, Distance::Node));
    let among = |runs| cost.penalty_among_ns(Distance::Node, runs);
    assert!(among(PENALTY_SURE - 1) > 900_000);
    near(among(PENALTY_SURE), 1_000, 1);
    assert_eq!(cost.penalty_among_ns(Distance::Hops(1), PENALTY_SURE), cost.penalty_ns(Distance::Hops(1)));
}

/// Regression: a core that ran cold only counted a rise of the cost as penalty.
#[test]
fn core_that_runs_cold_takes_cost_from_others() {
    let mut cost = HandlerCost::default();
    let others = |cost_ns, has_changed| Some(WarmCost { cost_ns, has_changed });
    for _ in 0..20 {
        cost.observe_beside(cold(110_000, Distance::L3), others(100_000, false));
    }
    assert!(!cost.runs_warm());
    near(cost.estimate_ns(), 100_000, 1);
    near(cost.penalty_ns(Distance::L3), 10_000, 5);
    // The handler changes, and this core notices only longer cold runs.
    for _ in 0..20 {
        cost.observe_beside(cold(410_000, Distance::L3), others(100_000, false));
    }
    assert!(cost.penalty_ns(Distance::L3) > 200_000);
    for run in 0..20 {
        cost.observe_beside(cold(410_000, Distance::L3), others(400_000, run == 0));
    }
    near(cost.estimate_ns(), 400_000, 1);
    near(cost.penalty_ns(Distance::L3), 10_000, 20);
}

#[test]
fn own_warm_runs_count_more_than_others() {
    let mut cost = HandlerCost::default();
    (0..8).for_each(|_| cost.observe(warm(1_000)));
    let others = Some(WarmCost { cost_ns: 3_000, has_changed: true });
    (0..7).for_each(|_| cost.observe_beside(cold(1_500, Distance::L3), others));
    near(cost.estimate_ns(), 1_000, 1);
    cost.observe_beside(cold(1_500, Distance::L3), others);
    near(cost.estimate_ns(), 3_000, 1);
    cost.observe(warm(1_000));
    assert!(cost.runs_warm());
}

#[test]
fn cost_excludes_penalty() {
    let mut cost = HandlerCost::default();
    let mut noise = noise(1);
    for i in 0..400 {
        cost.observe(warm(1_900 + noise(200)));
        if i % 4 == 0 {
            cost.observe(cold(5_800 + noise(400), Distance::L3));
            cost.observe(cold(9_600 + noise(800), Distance::Hops(1)));
        }
    }
    near(cost.estimate_ns(), 2_000, 3);
    near(cost.penalty_ns(Distance::L3), 4_000, 5);
    near(cost.penalty_ns(Distance::Hops(1)), 8_000, 5);
    assert!(cost.is_sure(Distance::L3) && !cost.is_sure(Distance::L2));
    assert_eq!(cost.penalty_ns(Distance::Same), 0);
    let (lower, upper) = cost.bounds_ns().expect("many samples");
    assert!(lower <= 2_000 && 2_000 <= upper && upper - lower < 100, "{lower}..{upper}");
}

#[test]
fn unknown_cost_has_upper_bound_and_needs_eight_runs() {
    let mut cost = HandlerCost::default();
    (0..8).for_each(|_| cost.observe(warm(1_000)));
    assert_eq!(cost.penalty_ns(Distance::L3), 2_000);
    let mut bounds = vec![2_000];
    for _ in 0..PENALTY_SURE {
        assert!(!cost.is_sure(Distance::L3));
        cost.observe(cold(1_100, Distance::L3));
        bounds.push(cost.penalty_ns(Distance::L3));
    }
    assert!(bounds.is_sorted_by(|a, b| a >= b), "{bounds:?}");
    assert_eq!(bounds[PENALTY_SURE as usize], 100);
    assert!(cost.is_sure(Distance::L3));
}

#[test]
fn distances_bound_each_other() {
    let mut cost = HandlerCost::default();
    (0..8).for_each(|_| cost.observe(warm(1_000)));
    (0..8).for_each(|_| cost.observe(cold(1_200, Distance::Node)));
    assert_eq!(cost.penalty_ns(Distance::L2), 200, "nearer than one that costs 200");
    (0..8).for_each(|_| cost.observe(cold(9_000, Distance::L3)));
    assert_eq!(cost.penalty_ns(Distance::Hops(1)), 6_000);
    assert!(cost.penalty_ns(Distance::Hops(3)) >= 8_000, "farther than one that costs 8,000");
    let lower =
        [Distance::L2, Distance::L3, Distance::Node, Distance::Hops(2)].map(|far| cost.penalty_lower_ns(far));
    assert_eq!(lower, [0, 8_000, 200, 200]);
}

#[test]
fn annotations_are_forgotten() {
    let mut cost = HandlerCost::new(CostHint { cost_ns: 50_000, penalty: 3 });
    assert_eq!(cost.estimate_ns(), 50_000);
    assert_eq!(cost.penalty_ns(Distance::L3), 100_000);
    cost.observe(warm(1_000));
    assert!(cost.estimate_ns() < 50_000);
    (0..3).for_each(|_| cost.observe(warm(1_000)));
    assert_eq!(cost.estimate_ns(), 1_000);
    assert_eq!(HandlerCost::new(CostHint { cost_ns: 5_000, penalty: 1 }).penalty_ns(Distance::L3), 0);
}

#[test]
fn a_preempted_run_teaches_nothing() {
    let mut cost = HandlerCost::default();
    (0..100).for_each(|_| cost.observe(warm(2_000)));
    cost.observe(RunSample { run_ns: 4_000_000, cold: None, interrupted: true });
    assert_eq!(cost.estimate_ns(), 2_000);
    cost.observe(warm(4_000_000));
    assert!(cost.estimate_ns() < 2_500, "{}", cost.estimate_ns());
    (0..100).for_each(|_| cost.observe(warm(2_000)));
    near(cost.estimate_ns(), 2_000, 2);
    assert_eq!(cost.changes(), 0);
}

/// Regression: a handler of 30 ms beside a busy neighbour is interrupted every time, and counted as
/// a short handler for ever.
#[test]
fn handler_interrupted_every_time_is_learned() {
    let mut cost = HandlerCost::default();
    let interrupted = RunSample { run_ns: 30_000_000, cold: None, interrupted: true };
    (0..3).for_each(|_| cost.observe(interrupted));
    assert_eq!(cost.estimate_ns(), COST_UNKNOWN_NS);
    cost.observe(interrupted);
    assert_eq!(cost.estimate_ns(), 30_000_000);
}

#[test]
fn a_change_of_phase_is_noticed_in_a_few_runs() {
    let mut cost = HandlerCost::default();
    let mut noise = noise(2);
    (0..500).for_each(|_| cost.observe(warm(1_900 + noise(200))));
    (0..20).for_each(|_| cost.observe(cold(4_000, Distance::L3)));
    let changes = cost.changes();
    for runs in 1.. {
        cost.observe(warm(20_000));
        if cost.estimate_ns() > 15_000 {
            assert!(runs <= 8, "{runs} runs");
            break;
        }
    }
    assert!(cost.changes() > changes && !cost.is_sure(Distance::L3));
    (0..100).for_each(|_| cost.observe(warm(20_000)));
    (0..8).for_each(|_| cost.observe(warm(500)));
    near(cost.estimate_ns(), 500, 10);
}

#[test]
fn steady_noise_is_no_change() {
    let mut cost = HandlerCost::default();
    let mut noise = noise(3);
    (0..20_000).for_each(|_| cost.observe(warm(500 + noise(1_000) + noise(1_000) + noise(1_000))));
    assert!(cost.changes() <= 2, "{} false alarms", cost.changes());
    near(cost.estimate_ns(), 2_000, 15);
}

#[test]
fn a_handler_that_only_ever_moves_has_a_cost_and_keeps_its_bound() {
    let mut cost = HandlerCost::default();
    (0..100).for_each(|_| cost.observe(cold(3_000, Distance::L3)));
    near(cost.estimate_ns(), 3_000, 1);
}

#[test]
fn fresh_knowledge_outweighs_stale_in_a_merge() {
    let (mut left, mut now) = (HandlerCost::default(), HandlerCost::default());
    (0..1_000).for_each(|_| left.observe(warm(1_000)));
    (0..12).for_each(|_| left.fade());
    (0..60).for_each(|_| now.observe(warm(4_000)));
    let mut merged = HandlerCost::default();
    [left, now].iter().for_each(|core| merged.merge(core));
    near(merged.estimate_ns(), 4_000, 5);
}

/// For the same runs: misses bound the penalty while the mean is not sure, and no longer.
#[test]
fn misses_shorten_the_doubt() {
    let mut table = CostTable::new();
    let handler = table.register(CostHint::default());
    let run = |table: &mut CostTable, sample: RunSample, misses: u64| {
        table.observe(handler, sample);
        table.observe_misses(handler, sample.cold, misses);
    };
    (0..20).for_each(|_| run(&mut table, warm(10_000), 10));
    let before = table.penalty_ns(handler, Distance::L3);
    (0..4).for_each(|_| run(&mut table, cold(10_400, Distance::L3), 20));
    let by_time = table.handler(handler).penalty_ns(Distance::L3);
    assert_eq!((before, by_time, table.penalty_ns(handler, Distance::L3)), (20_000, 10_200, 600));
    let mut merged = CostTable::new();
    merged.merge(&table);
    assert_eq!(merged.penalty_ns(handler, Distance::L3), 600);
    (0..4).for_each(|_| run(&mut table, cold(10_400, Distance::L3), 20));
    assert_eq!(table.penalty_ns(handler, Distance::L3), 400);
}

#[test]
fn misses_are_ignored_between_cores_sharing_cache() {
    let mut table = CostTable::new();
    let handler = table.register(CostHint::default());
    (0..20).for_each(|_| table.observe(handler, warm(10_000)));
    let before = table.penalty_ns(handler, Distance::L2);
    for _ in 0..8 {
        table.observe_misses(handler, None, 10);
        table.observe_misses(handler, Some(Distance::L2), 10);
    }
    assert_eq!(table.penalty_ns(handler, Distance::L2), before);
}

#[test]
fn steals_correct_the_guess() {
    let mut steals = StealCost::default();
    let guess = steals.estimate_ns(Distance::L3);
    (0..8).for_each(|_| steals.observe(Distance::L3, 900));
    assert!(guess != 900 && steals.estimate_ns(Distance::L3) == 900);
    steals.observe(Distance::L3, 1_000_000);
    assert!(steals.estimate_ns(Distance::L3) < 2_000);
    assert!(steals.upper_ns(Distance::L3) >= steals.estimate_ns(Distance::L3));
    assert_eq!(steals.estimate_ns(Distance::Hops(1)), StealCost::default().estimate_ns(Distance::Hops(1)));
    (0..20).for_each(|_| steals.observe_wake(3_000));
    assert_eq!(steals.wake_ns(), 3_000);
    for late in 0..100 {
        steals.observe_wake(if late % 10 == 0 { 5_000_000 } else { 3_000 });
    }
    assert!(steals.wake_ns() < 4_000, "{} ns", steals.wake_ns());
}

/// Prints the cost of an observation, the source of the constant in `budget.rs`. No limit, because
/// machines differ.
#[test]
fn observing_is_cheap() {
    let mut table = CostTable::new();
    (0..64).for_each(|i| assert_eq!(table.register(CostHint::default()), HandlerIndex(i)));
    let begin = Instant::now();
    for run in 0..100_000_u32 {
        table.observe(HandlerIndex(run % 64), warm(u64::from(1_000 + run % 128)));
    }
    println!("observe: {} ns", begin.elapsed().as_nanos() / 100_000);
    assert!(table.handler(HandlerIndex(3)).knows_cost());
}

proptest! {
    /// Against the plain mean, within the first window.
    #[test]
    fn the_first_window_is_a_plain_mean(samples in prop::collection::vec(1u32..1_000_000, 1..32)) {
        let mut ewma = Ewma::<32>::default();
        samples.iter().for_each(|&sample| ewma.observe(sample as f32));
        let mean = samples.iter().map(|&sample| f64::from(sample)).sum::<f64>() / samples.len() as f64;
        let square = |&sample: &u32| (f64::from(sample) - mean).powi(2);
        let deviation = (samples.iter().map(square).sum::<f64>() / samples.len() as f64).sqrt();
        prop_assert!((f64::from(ewma.mean()) - mean).abs() <= 1.0 + mean * 1e-4);
        prop_assert!((f64::from(ewma.deviation()) - deviation).abs() <= 2.0 + mean * 1e-2);
    }

    /// A merge in any order gives the same result, up to rounding, between the parts.
    #[test]
    fn merges_commute(a in prop::collection::vec(1u64..100_000, 0..40), b in prop::collection::vec(1u64..100_000, 0..40)) {
        let learn = |runs: &[u64]| {
            let mut cost = HandlerCost::default();
            runs.iter().for_each(|&run_ns| cost.observe(warm(run_ns)));
            cost
        };
        let (a, b) = (learn(&a), learn(&b));
        let (mut ab, mut ba) = (a, b);
        ab.merge(&b);
        ba.merge(&a);
        prop_assert!(ab.estimate_ns().abs_diff(ba.estimate_ns()) <= 1 + ab.estimate_ns() / 1_000);
        if a.warm.samples() > 0 && b.warm.samples() > 0 {
            let (low, high) = (a.estimate_ns().min(b.estimate_ns()), a.estimate_ns().max(b.estimate_ns()));
            prop_assert!((low..=high + 1).contains(&ab.estimate_ns()));
        }
    }

    /// For any runs, bounds are in order and nothing overflows.
    #[test]
    fn bounds_hold_for_any_runs(runs in prop::collection::vec((any::<u64>(), 0usize..8), 0..100)) {
        let mut cost = HandlerCost::default();
        for (run_ns, class) in runs {
            cost.observe(cold(run_ns, Distance::of_class(class)));
        }
        prop_assert!(cost.estimate_ns() >= 1);
        for class in 0..Distance::CLASSES {
            let distance = Distance::of_class(class);
            prop_assert!(cost.penalty_upper_ns(distance) >= cost.mean_penalty_ns(distance));
            prop_assert!(!cost.is_sure(distance) || cost.penalty_lower_ns(distance) <= cost.penalty_ns(distance));
        }
    }
}

/// Regression: an interrupted first steal set the estimate to 100 us, and the runtime stole nothing
/// for the rest of the run.
#[test]
fn a_thief_that_lost_its_cpu_in_its_first_steal_steals_again_soon() {
    let near = Distance::L3;
    let mut cost = StealCost::default();
    let guess = cost.estimate_ns(near);
    cost.observe(near, 3_000_000);
    assert!(cost.estimate_ns(near) < 2 * guess);
    for _ in 0..200 {
        cost.observe(near, 100_000);
    }
    assert!(cost.estimate_ns(near) > 90_000, "a steal that always takes long is learned all the same");
}
