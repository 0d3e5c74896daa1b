//! The accounting of the whole machine between two moments, from `/proc/stat`, and of the threads
//! that poll a card.
//!
//! The kernel charges receiving to the process that runs when a packet comes, or to a kernel
//! thread, and hardly ever to the server. For this reason the cost of a request is the time of all
//! cpus. The time of polling threads counts as receiving, whichever kind of time the kernel
//! reports.

use std::fs;

use crate::{BenchError, BenchResult};

/// Ticks in a second, as the kernel shows times (proc(5), `USER_HZ`): 100 on every architecture in
/// use.
const TICKS: f64 = 100.0;

/// Totals since the start of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuTotals {
    /// Busy time of the cpus, in seconds.
    pub busy_s: f64,
    /// Time in the kernel's interrupts and in the polling threads, in seconds.
    pub receiving_s: f64,
    /// Context switches of all cpus.
    pub switches: f64,
}

impl CpuTotals {
    /// The current counts; `pollers` are the polling threads.
    ///
    /// # Errors
    /// The kernel's format differs from proc(5).
    pub fn now(pollers: &[u32]) -> BenchResult<Self> {
        let stat = fs::read_to_string("/proc/stat").map_err(BenchError::thing("read", "/proc/stat"))?;
        let mut count = parse(&stat).ok_or_else(|| BenchError::form("/proc/stat", "it lacks cpu or ctxt"))?;
        for thread in pollers {
            // An ended thread polls no more.
            let stat = fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
            count.receiving_s += ran_s(&stat).unwrap_or(0.0);
        }
        Ok(count)
    }

    /// From `earlier` until here.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            busy_s: self.busy_s - earlier.busy_s,
            receiving_s: self.receiving_s - earlier.receiving_s,
            switches: self.switches - earlier.switches,
        }
    }
}

fn parse(stat: &str) -> Option<CpuTotals> {
    let numbers = |name: &str| -> Option<Vec<f64>> {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
    };
    // user nice system idle iowait irq softirq
    let cpu = numbers("cpu")?;
    let busy: f64 = [0, 1, 2, 5, 6].iter().map(|&at| cpu.get(at).copied().unwrap_or(0.0)).sum();
    Some(CpuTotals {
        busy_s: busy / TICKS,
        receiving_s: cpu.get(6)? / TICKS,
        switches: *numbers("ctxt")?.first()?,
    })
}

/// The running time of a thread, from its `stat`: the fields after the name, because the name may
/// hold anything.
fn ran_s(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_busy() {
        let count = parse("cpu  100 0 50 9000 10 0 50 0 0 0\ncpu0 1 2 3\nctxt 12345\n").unwrap();
        assert_eq!(count, CpuTotals { busy_s: 2.0, receiving_s: 0.5, switches: 12345.0 });
    }

    #[test]
    fn thread_may_have_any_name() {
        let stat = "77 (napi/kn1-2) (x) S 2 0 0 0 -1 2129984 0 0 0 0 30 70 0 0 20 0 1";
        assert_eq!(ran_s(stat), Some(1.0));
    }

    #[test]
    fn this_machine_is_counted() {
        let before = CpuTotals::now(&[]).unwrap();
        let after = CpuTotals::now(&[std::process::id()]).unwrap();
        assert!(after.since(before).busy_s >= 0.0);
    }
}
