//! Controllers on invented worlds.

use super::*;

#[test]
fn a_fixed_plan_is_put_in_force_once() {
    let plan = Plan::on_cores([1, 0].map(CoreIndex));
    let mut fixed = Fixed::new(plan.clone());
    let mut seen = Observation { placed: Plan::on_cores([0, 0].map(CoreIndex)), ..Observation::default() };
    let moves = fixed.round(5_000_000, &seen);
    assert_eq!(moves, [Move { handler: HandlerIndex(0), to: CoreIndex(1) }]);
    seen.placed.apply(&moves);
    assert_eq!((fixed.round(6_000_000, &seen), fixed.next_round_ns()), (vec![], None));
    assert_eq!(fixed.begin(HandlerIndex(1)), Some(CoreIndex(0)));
    let lines: Vec<_> = fixed.decisions().iter().map(Decision::to_string).collect();
    assert_eq!(lines, ["0.005 s: the plan is put in force; handler 0 to core 1"]);
}

#[test]
fn the_log_is_bounded() {
    let mut log = DecisionLog::default();
    (0..1_000).for_each(|at_ns| log.push(at_ns, Event::Shifted, &[]));
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
