use super::*;
use std::{cell::Cell, sync::atomic::AtomicU32};

const HANDLER: HandlerIndex = HandlerIndex(0);
const FAR: Distance = Distance::Hops(1);

fn warm(run_ns: u64) -> RunSample {
    RunSample { run_ns, cold: None, interrupted: false }
}

fn cold(run_ns: u64) -> RunSample {
    RunSample { cold: Some(FAR), ..warm(run_ns) }
}

fn learner() -> Learner {
    let mut learner = Learner::new(Stealing::Learned);
    learner.register(HANDLER, |_| CostHint::default());
    learner
}

fn published<W: PublishedWord>() -> PublishedCosts<W> {
    PublishedCosts::new(CostHint::default(), Stealing::Learned)
}

/// Two cores that time runs of 2 us and of 6 us.
fn worth_of_two_cores<W: PublishedWord>() -> u32 {
    let (mut cores, published) = ([learner(), learner()], published::<W>());
    for _ in 0..16 {
        for (core, run_ns) in cores.iter_mut().zip([2_000, 6_000]) {
            core.observe(HANDLER, warm(run_ns), RunAfter::Others, &published);
        }
    }
    published.worth_ns()
}

#[test]
fn cores_with_different_costs_meet() {
    let worth_ns = worth_of_two_cores::<Cell<u32>>();
    assert!((4_000..6_000).contains(&worth_ns), "{worth_ns}");
    assert_eq!(worth_ns, worth_of_two_cores::<AtomicU32>(), "as with atomics");
}

#[test]
fn core_publishes_first_runs_then_every_sixteenth() {
    let (mut core, published) = (learner(), published::<Cell<u32>>());
    let mut publications = 0;
    for run in 0..64 {
        let before = published.worth_ns();
        core.observe(HANDLER, warm(1_000_000 + 1_000 * run), RunAfter::Own, &published);
        publications += u32::from(before != published.worth_ns());
    }
    assert_eq!(publications, 16 + 3);
}

#[test]
fn core_that_runs_cold_publishes_no_cost() {
    let (mut warms, mut colds, published) = (learner(), learner(), published::<Cell<u32>>());
    for _ in 0..16 {
        colds.observe(HANDLER, cold(9_000), RunAfter::Others, &published);
    }
    assert!(published.worth_ns() > 5_000, "the best guess so far");
    for _ in 0..128 {
        warms.observe(HANDLER, warm(3_000), RunAfter::Own, &published);
        colds.observe(HANDLER, cold(9_000), RunAfter::Others, &published);
    }
    assert!((2_900..3_100).contains(&published.worth_ns()), "{}", published.worth_ns());
    let penalty_ns = published.known_penalty_ns(FAR);
    assert!((5_500..6_500).contains(&penalty_ns), "{penalty_ns}");
}

#[test]
fn change_of_cost_is_published_at_once() {
    let (mut warms, mut colds, published) = (learner(), learner(), published::<Cell<u32>>());
    let mut run = |own_ns, count| {
        for _ in 0..count {
            warms.observe(HANDLER, warm(own_ns), RunAfter::Own, &published);
            colds.observe(HANDLER, cold(own_ns + 1_000), RunAfter::Others, &published);
        }
        (published.worth_ns(), published.known_penalty_ns(FAR))
    };
    run(10_000, 100);
    let (worth_ns, penalty_ns) = run(40_000, 12);
    assert!(worth_ns > 39_000, "{worth_ns}");
    assert!(penalty_ns < 5_000, "{penalty_ns}");
}

#[test]
fn bound_never_replaces_measured_penalty() {
    let (mut measures, published) = (learner(), published::<Cell<u32>>());
    for _ in 0..16 {
        measures.observe(HANDLER, warm(10_000), RunAfter::Own, &published);
        measures.observe(HANDLER, cold(12_000), RunAfter::Others, &published);
    }
    let (measured_ns, known_ns) = (published.penalty_ns(FAR), published.known_penalty_ns(FAR));
    let mut bounds = learner();
    bounds.observe(HANDLER, warm(10_000), RunAfter::Own, &published);
    let bound_ns = bounds.costs().penalty_ns(HANDLER, FAR);
    assert!(0 < known_ns && known_ns <= measured_ns && measured_ns < bound_ns, "{measured_ns}, {bound_ns}");
    assert_eq!((published.penalty_ns(FAR), published.known_penalty_ns(FAR)), (measured_ns, known_ns));
}

#[test]
fn lower_bound_replaces_higher_bound() {
    let (mut core, published) = (learner(), published::<Cell<u32>>());
    core.observe(HANDLER, warm(100), RunAfter::Own, &published);
    assert_eq!(published.penalty_ns(FAR), core.costs().penalty_ns(HANDLER, FAR));
}

#[test]
fn interrupted_cold_run_is_not_counted() {
    let (mut core, published) = (learner(), published::<Cell<u32>>());
    core.observe(HANDLER, RunSample { interrupted: true, ..cold(9_000) }, RunAfter::Others, &published);
    assert_eq!(published.known_penalty_ns(FAR), 0);
    assert!(!core.costs().handler(HANDLER).has_seen(FAR));
}

#[test]
fn thief_knows_its_steals_and_posters_the_mean() {
    let (mut core, moves) = (Learner::new(Stealing::Learned), PublishedMoves::<Cell<u32>>::default());
    let unseen_ns = StealCost::unseen_ns(FAR);
    assert_eq!((core.steal_ns(FAR), moves.steal_ns(FAR)), (unseen_ns, unseen_ns));
    let wake_ns = moves.wake_ns();
    core.stole(FAR, 2 * unseen_ns, &moves);
    core.woke(2 * wake_ns, &moves);
    assert!(core.steal_ns(FAR) > unseen_ns);
    assert_eq!(moves.steal_ns(FAR), unseen_ns.midpoint(core.steal_ns(FAR)));
    assert!(moves.wake_ns() > wake_ns);
}

#[test]
fn unregistered_handler_expects_nothing() {
    let mut core = Learner::new(Stealing::Learned);
    assert_eq!(core.expects_ns(HandlerIndex(3)), 0);
    core.register(HandlerIndex(3), |handler| CostHint { cost_ns: 100 * handler.0, penalty: 0 });
    assert_eq!([1, 3].map(|handler| core.expects_ns(HandlerIndex(handler))), [100, 300]);
}
