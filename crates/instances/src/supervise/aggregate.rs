//! The weight of several instances for HAProxy: the mean of their weights, by number of cores.
//!
//! Each instance measures its own weight. An instance that does not answer counts as overloaded,
//! and an absent instance counts zero, because its new connections wait until the instance is back.
//! Tested below, and through the binary (`crates/e2e/tests/e2e/balancers.rs`).

use super::{instance_handle::InstanceHandle, supervisor::Supervisor};
use crate::instance::ipc::{InstanceAnswer, InstanceCommand};
use std::{sync::Arc, time::Duration};
use vermeil_ops::balancers::{BalancerAnswer, LEAST, Observed};

/// Time limit for an instance's weight. The answer takes a tenth of a millisecond, unless all cpus
/// are busy. The limit is a fifth of the interval of the measurement of a server's load, so a hung
/// instance delays no later answer.
const PATIENCE: Duration = Duration::from_millis(100);

/// The weights of all instances.
pub(super) struct InstanceWeights {
    supervisor: Arc<Supervisor>,
    /// The last weight of each instance.
    weights: Vec<u32>,
}

impl InstanceWeights {
    pub(super) fn new(supervisor: Arc<Supervisor>) -> Self {
        let weights = vec![100; supervisor.members().len()];
        Self { supervisor, weights }
    }
}

impl Observed for InstanceWeights {
    fn look(&mut self) {
        for (member, weight) in self.supervisor.members().iter().zip(&mut self.weights) {
            *weight = weight_of(member, *weight);
        }
    }

    fn told(&self) -> BalancerAnswer {
        if self.supervisor.is_stopping() && !self.supervisor.is_handed_over() {
            return BalancerAnswer::Drain;
        }
        let cores = self.supervisor.members().iter().map(|member| member.instance.cpus.len());
        BalancerAnswer::Weight(weighted_mean(cores.zip(self.weights.iter().copied())))
    }
}

/// The weight of an instance; `last` if another order is under way.
fn weight_of(member: &InstanceHandle, last: u32) -> u32 {
    if !member.serves() {
        return 0;
    }
    match member.ask_if_free(&InstanceCommand::Weight, PATIENCE) {
        Some(Ok(InstanceAnswer::Weight(weight))) => weight,
        Some(_) => LEAST,
        None => last,
    }
}

/// The mean of the weights, by number of cores.
fn weighted_mean(parts: impl Iterator<Item = (usize, u32)>) -> u32 {
    let (cores, sum) = parts
        .fold((0, 0), |(cores, sum), (n, weight)| (cores + n as u64, sum + n as u64 * u64::from(weight)));
    // Hundredths: a weight is at most 100.
    (sum as f64 / cores.max(1) as f64).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_counts_as_much_as_it_has_cores() {
        assert_eq!(weighted_mean([(4, 100), (4, 100)].into_iter()), 100);
        assert_eq!(weighted_mean([(4, 100), (4, 0)].into_iter()), 50);
        assert_eq!(weighted_mean([(1, 100), (3, 20)].into_iter()), 40);
        assert_eq!(weighted_mean(std::iter::empty()), 0);
    }
}
