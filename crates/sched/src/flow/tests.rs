//! The flow graph against a plain map, and the resulting orders.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const WINDOW_NS: u64 = 10_000_000;

fn handler(index: u32) -> HandlerIndex {
    HandlerIndex(index)
}

fn graph(edges: &[(i64, u32, u64)]) -> FlowGraph {
    let mut counts = FlowCounts::new();
    for &(from, to, posts) in edges {
        let from = u32::try_from(from).ok().map(HandlerIndex);
        (0..posts).for_each(|_| counts.record(from, handler(to), 0));
    }
    let mut graph = FlowGraph::new();
    graph.absorb(&counts, WINDOW_NS);
    graph
}

fn order(graph: &FlowGraph, handlers: usize) -> Vec<u32> {
    graph.order(handlers).into_iter().map(|handler| handler.0).collect()
}

#[test]
fn pipeline_keeps_flow_order_for_any_handler_numbers() {
    let pipeline = graph(&[(-1, 3, 9), (3, 1, 9), (1, 4, 9), (4, 0, 9), (0, 2, 9)]);
    assert_eq!(order(&pipeline, 5), [3, 1, 4, 0, 2]);
    assert_eq!(order(&pipeline, 6), [3, 1, 4, 0, 2, 5], "one that nobody posts to");
}

#[test]
fn the_heaviest_branch_comes_next_and_joins_come_after_both() {
    let branches = graph(&[(-1, 0, 10), (0, 1, 2), (0, 2, 8), (1, 3, 2), (2, 3, 8), (3, 4, 10)]);
    assert_eq!(order(&branches, 5), [0, 2, 1, 3, 4]);
}

#[test]
fn loops_are_cut_where_they_lead_back() {
    let looped = graph(&[(-1, 1, 5), (1, 2, 9), (2, 0, 9), (0, 1, 4)]);
    assert_eq!(order(&looped, 3), [1, 2, 0]);
    let closed = graph(&[(0, 1, 5), (1, 2, 5), (2, 0, 5), (2, 2, 5)]);
    assert_eq!(order(&closed, 3), [0, 1, 2]);
}

#[test]
fn rates_are_per_second_and_fade() {
    let mut graph = graph(&[(-1, 0, 7), (0, 1, 10)]);
    assert_eq!(graph.rate(Some(handler(0)), handler(1)), 1_000.0);
    assert_eq!(graph.arrivals(), 700.0);
    for _ in 0..20 {
        graph.absorb(&FlowCounts::new(), WINDOW_NS);
    }
    assert!(graph.rate(Some(handler(0)), handler(1)) < 100.0);
    graph.absorb(&FlowCounts::new(), 0);
    assert_eq!(graph.rate(Some(handler(1)), handler(0)), 0.0);
}

proptest! {
    #[test]
    fn counts_are_a_map(posts in prop::collection::vec((-1i64..6, 0u32..6, 0u64..100), 0..200), split in 0usize..200) {
        let mut model: BTreeMap<(Option<HandlerIndex>, HandlerIndex), (u64, u64)> = BTreeMap::new();
        let mut cores = [FlowCounts::new(), FlowCounts::new()];
        for (i, &(from, to, bytes)) in posts.iter().enumerate() {
            let from = u32::try_from(from).ok().map(HandlerIndex);
            cores[usize::from(i > split)].record(from, handler(to), bytes);
            let cell = model.entry((from, handler(to))).or_default();
            *cell = (cell.0 + 1, cell.1 + bytes);
        }
        let [mut all, other] = cores;
        all.merge(&other);
        let found: BTreeMap<_, _> =
            all.flows().map(|flow| ((flow.from, flow.to), (flow.posts as u64, flow.bytes as u64))).collect();
        prop_assert_eq!(&found, &model);
        all.clear();
        prop_assert_eq!(all.flows().count(), 0);
    }

    /// Every handler once; without loops, posters before their targets.
    #[test]
    fn an_order_is_a_permutation_and_topological(edges in prop::collection::vec((0u32..9, 0u32..9), 0..30), acyclic: bool) {
        let edges: Vec<_> = edges
            .into_iter()
            .filter(|(from, to)| !acyclic || from < to)
            // Renamed, so that the order of the indices does not help.
            .map(|(from, to)| (i64::from(from * 4 % 9), to * 4 % 9, 1))
            .collect();
        let graph = graph(&edges);
        let order = order(&graph, 9);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..9).collect::<Vec<_>>());
        if acyclic {
            let position = |handler: u32| order.iter().position(|&other| other == handler);
            for (from, to, _) in edges {
                prop_assert!(position(from as u32) < position(to), "{} before {}: {:?}", from, to, order);
            }
        }
    }
}
