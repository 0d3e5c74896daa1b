//! Measures how unevenly work is divided among the cores of all instances. Work is measured as
//! time, because connections and requests differ in cost.

use super::InstanceStatus;

/// Cores that are busy for less than this part of their time, on average, are not compared, because
/// timer ticks and polling alone take a share of this order.
const BUSY_MIN: f64 = 0.01;

/// The busiest core's work, divided by the mean of all cores.
pub fn imbalance(instances: &[InstanceStatus]) -> Option<f64> {
    let busy: Vec<f64> =
        instances.iter().flat_map(|instance| &instance.cores).map(|core| core.busy).collect();
    of(&busy)
}

fn of(busy: &[f64]) -> Option<f64> {
    let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
    (mean >= BUSY_MIN).then(|| busy.iter().copied().fold(0.0, f64::max) / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_ranges_from_one_to_number_of_cores() {
        assert_eq!(of(&[0.5; 4]), Some(1.0));
        assert_eq!(of(&[0.8, 0.0, 0.0, 0.0]), Some(4.0));
        assert_eq!((of(&[0.001; 4]), of(&[])), (None, None));
    }
}
