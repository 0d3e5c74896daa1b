//! The mechanism of handshakes: pairs of starts of the server, with requests beside handshakes
//! (`crates/bench/src/tls/beside.rs`).

use vermeil_ablation::Mechanism;

use super::{keep, variant};
use crate::BenchResult;
use crate::options::BenchOptions;
use crate::points::Points;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::tls::p99_us_beside_handshakes;

/// The metric of the 99th percentile of the time to an answer.
pub(super) const P99: &str = "beside_p99_us";

const WORK: &str = "requests beside 200 handshakes a second, RSA-2048";

/// Runs the pairs. The smoke size leaves them out, because that of `bench tls` has the same load.
pub(super) fn run(options: &BenchOptions, stop: &StopFlag, points: &mut Points) -> BenchResult<()> {
    if options.size == BenchSize::Smoke {
        return Ok(());
    }
    for round in 0..options.rounds {
        let mut order = [None, Some(Mechanism::IdleTime)];
        order.rotate_left(round % 2);
        let p99_us = p99_us_beside_handshakes(options, order, stop)?;
        for (without, p99_us) in order.into_iter().zip(p99_us) {
            eprintln!("{WORK:<50} {:<24} p99 {p99_us:.0} us", variant(without));
            keep(points, (WORK, variant(without)), &[(P99, "us", p99_us)]);
        }
    }
    Ok(())
}
