//! Rounds with answers in any order, late and duplicated.

use proptest::prelude::*;

use super::*;
use crate::HandlerIndex;

fn answer(events: u64) -> MonitorAnswer {
    let mut flows = FlowCounts::new();
    flows.record(None, HandlerIndex(0), 10);
    let handler = HandlerWindow { events, run_ns: 10 * events, ..HandlerWindow::default() };
    MonitorAnswer {
        core: CoreWindow { window_ns: 1_000, events, ..CoreWindow::default() },
        handlers: vec![handler],
        flows,
        costs: CostTable::new(),
    }
}

#[test]
fn the_role_goes_round_and_answers_are_summed() {
    let mut monitor = Monitor::new(3);
    for expected in [1, 2, 0, 1] {
        let round = monitor.begin().expect("no round is open");
        assert_eq!(monitor.begin(), None, "one round at a time");
        let placed = Plan::on_cores([CoreIndex(1)]);
        assert_eq!(monitor.answer(CoreIndex(2), round, answer(5), &placed), None);
        assert_eq!(monitor.answer(CoreIndex(0), round, answer(3), &placed), None);
        let seen = monitor.answer(CoreIndex(1), round, answer(4), &placed).expect("all have answered");
        assert_eq!(seen.cores.iter().map(|core| core.events).collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!((seen.handlers[0].events, seen.handlers[0].run_ns), (12, 120));
        assert_eq!((seen.flows.flows().next().map(|flow| flow.posts), seen.window_ns()), (Some(3.0), 1_000));
        assert_eq!((monitor.at(), monitor.is_open(), seen.placed), (CoreIndex(expected), false, placed));
    }
}

proptest! {
    /// In any order of answers, each round completes once, by exactly one answer of each core to
    /// that round.
    #[test]
    fn a_round_needs_every_core_once(calls in prop::collection::vec((0u32..4, 0u64..4), 0..60)) {
        let mut monitor = Monitor::new(3);
        let mut round = monitor.begin().expect("the first");
        let mut answered = [false; 3];
        for (core, late) in calls {
            let fits = late == 0 && core < 3;
            let completes = fits && !answered[core as usize]
                && answered.iter().filter(|&&done| !done).count() == 1;
            let seen = monitor.answer(CoreIndex(core), round.wrapping_sub(late), answer(1), &Plan::default());
            prop_assert_eq!(seen.is_some(), completes);
            if fits {
                answered[core as usize] = true;
            }
            if completes {
                answered = [false; 3];
                round = monitor.begin().expect("the round before is complete");
            }
        }
    }
}
