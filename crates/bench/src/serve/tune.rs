//! The choice of a server's way to send a body for each program.
//!
//! The cheapest way depends on the size of the body and on whether the server or the load pays for
//! receiving. For this reason servers with a choice, the floors included, try each way on each
//! program with a body before any measurement, and run with the best way. Holds the choices and
//! finds the best; each peer defines its ways.

use std::collections::BTreeMap;

use crate::BenchResult;
use crate::peers::{apache, floor, nginx};
use crate::serve::plan::{ServeProgram, ServedBy};
use crate::stats::Summary;

/// The number of tries of a promising way; the median counts. A closed loop over loopback falls
/// into one of two rhythms, server and load in turn or at once, and the costs of the rhythms differ
/// by a third. A single lucky pass must not decide.
const PASSES: usize = 5;
/// A way with more than this multiple of the best cost in the first pass is not tried again: more
/// than the difference of the two rhythms.
const HOPELESS: f64 = 1.6;

/// The chosen way for each tuned program, as an index into the server's ways.
#[derive(Clone, Debug, Default)]
pub struct Tuning(BTreeMap<(ServedBy, ServeProgram), usize>);

impl Tuning {
    /// Uses way number `way` for `program`, and for the programs without a body that share its
    /// tuning.
    pub fn choose(&mut self, server: ServedBy, program: ServeProgram, way: usize) {
        self.0.insert((server, program.tuned_as()), way);
    }

    /// The chosen way of `ways` for `program`; `None` before tuning.
    pub fn way<T: Copy>(&self, server: ServedBy, program: ServeProgram, ways: &[T]) -> Option<T> {
        self.0.get(&(server, program.tuned_as())).and_then(|&way| ways.get(way)).copied()
    }

    /// The choices for `server`, in words.
    pub fn describe(&self, server: ServedBy) -> String {
        let names = ways_of(server);
        let of_server = self.0.iter().filter(|((tuned, _), _)| *tuned == server);
        let words = of_server.map(|((_, program), &way)| format!("{} {}", program.name(), names[way]));
        let words: Vec<String> = words.collect();
        if words.is_empty() { "not tuned".into() } else { words.join("; ") }
    }
}

/// The names of `server`'s ways to send a body; empty if there is no choice.
pub fn ways_of(server: ServedBy) -> Vec<String> {
    match server {
        ServedBy::Nginx => nginx::NginxSending::ALL.iter().map(ToString::to_string).collect(),
        ServedBy::Apache => apache::ApacheSending::ALL.iter().map(ToString::to_string).collect(),
        ServedBy::Floor(_) => floor::FloorSending::ALL.iter().map(ToString::to_string).collect(),
        ServedBy::Vermeil(_) | ServedBy::NginxSendfile => Vec::new(),
    }
}

/// The index, below `ways`, of the way with the lowest median `cost`.
pub fn cheapest(ways: usize, mut cost: impl FnMut(usize) -> BenchResult<f64>) -> BenchResult<usize> {
    let mut costs = Vec::new();
    for way in 0..ways {
        costs.push((way, vec![cost(way)?]));
    }
    let best = costs.iter().map(|(_, costs)| costs[0]).fold(f64::INFINITY, f64::min);
    costs.retain(|(_, costs)| costs[0] <= best * HOPELESS);
    let passes = if costs.len() > 1 { PASSES } else { 1 };
    for _pass in 1..passes {
        for (way, costs) in &mut costs {
            costs.push(cost(*way)?);
        }
    }
    let median = |costs: &[f64]| Summary::of(costs).map_or(f64::INFINITY, |summary| summary.median);
    let best = costs.iter().min_by(|(_, one), (_, other)| median(one).total_cmp(&median(other)));
    Ok(best.map_or(0, |(way, _)| *way))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::plan::{PacketWay, RequestKind};

    #[test]
    fn the_lowest_median_counts_and_hopeless_ways_are_tried_once() {
        let mut tried = [0; 3];
        let best = cheapest(3, |way| {
            tried[way] += 1;
            // Way 0 is cheap once by luck, way 1 steadily cheaper, way 2 hopeless.
            Ok([if tried[0] == 1 { 3.0 } else { 5.0 }, 4.0, 9.0][way])
        });
        assert_eq!(best.expect("no error"), 1);
        assert_eq!(tried, [PASSES, PASSES, 1]);
    }

    #[test]
    fn programs_without_a_body_go_with_the_small_one_of_their_way() {
        let program = |way, request| ServeProgram { way, request };
        let mut tuning = Tuning::default();
        tuning.choose(ServedBy::Nginx, program(PacketWay::Loopback, RequestKind::OneK), 2);
        let way = |program| tuning.way(ServedBy::Nginx, program, &nginx::NginxSending::ALL);
        assert_eq!(way(program(PacketWay::Loopback, RequestKind::NotFound)), Some(nginx::NginxSending::Copy));
        assert_eq!(way(program(PacketWay::OwnReceive, RequestKind::OneK)), None);
        assert_eq!(way(program(PacketWay::Loopback, RequestKind::OneM)), None);
        assert_eq!(tuning.describe(ServedBy::Nginx), "1k sendfile off");
        assert_eq!(tuning.describe(ServedBy::Apache), "not tuned");
    }
}
