//! The cpu time that other programs used beside the real runs.
//!
//! Reads the clock ticks of the cpus and of this process from `/proc`. Without readable counters
//! the share is zero. Tested below.

use std::fs;

/// Clock ticks of some cpus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTicks {
    /// All ticks.
    all: u64,
    /// Ticks of programs, of the kernel and of other machines, which the hypervisor runs.
    busy: u64,
    /// Ticks of this process, on any cpu.
    own: u64,
}

impl CpuTicks {
    /// The ticks of `cpus` since the start of the machine.
    pub(crate) fn now(cpus: &[usize]) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let own = own_ticks(&read("/proc/self/stat")).unwrap_or_default();
        let (all, busy) = ticks(&read("/proc/stat"), cpus);
        Self { all, busy, own }
    }

    /// Adds the ticks from `before` to `after`.
    pub(crate) fn add(&mut self, before: Self, after: Self) {
        self.all += after.all.saturating_sub(before.all);
        self.busy += after.busy.saturating_sub(before.busy);
        self.own += after.own.saturating_sub(before.own);
    }

    /// The share, 0 to 1, of the ticks that are not of this process and not idle.
    pub(crate) fn others_share(self) -> f64 {
        self.busy.saturating_sub(self.own) as f64 / self.all.max(1) as f64
    }
}

/// All ticks and the busy ticks of `cpus`, from the text of `/proc/stat`.
fn ticks(stat: &str, cpus: &[usize]) -> (u64, u64) {
    let mut sum = (0, 0);
    for line in stat.lines() {
        let mut words = line.split_ascii_whitespace();
        let cpu = words.next().and_then(|name| name.strip_prefix("cpu")).and_then(|cpu| cpu.parse().ok());
        if !cpu.is_some_and(|cpu: usize| cpus.contains(&cpu)) {
            continue;
        }
        // user, nice, system, idle, iowait, irq, softirq, steal; the times of guests are in user.
        let ticks: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
        let all: u64 = ticks.iter().sum();
        sum = (sum.0 + all, sum.1 + all - ticks.iter().skip(3).take(2).sum::<u64>());
    }
    sum
}

/// The ticks of a process in user and kernel mode, from the text of `/proc/PID/stat`.
fn own_ticks(stat: &str) -> Option<u64> {
    // The name may contain anything. The state is field 3, the times are fields 14 and 15.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_of_others_is_busy_time_without_own_time() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 5 5 70 4 2 3 1 0 0\ncpu1 50 0 0 50 0 0 0 0 0 0\nintr 7\n";
        assert_eq!(ticks(stat, &[0]), (100, 26));
        assert_eq!(ticks(stat, &[0, 1]), (200, 76));
        assert_eq!(own_ticks("7 (a) b) R 1 2 3 4 5 6 7 8 9 10 30 6 0 0"), Some(36));
        let mut sum = CpuTicks::default();
        sum.add(CpuTicks::default(), CpuTicks { all: 200, busy: 76, own: 36 });
        assert_eq!(sum.others_share(), 0.2);
        assert_eq!(CpuTicks::default().others_share(), 0.0);
    }

    #[test]
    fn counters_of_this_machine_are_read() {
        let cpus = vermeil_io::current_affinity();
        let now = CpuTicks::now(&cpus);
        assert!(now.all > 0 && now.busy <= now.all, "{now:?}");
    }
}
