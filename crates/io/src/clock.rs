//! A clock for measuring code: nanoseconds at the price of one instruction.
//!
//! On x86-64 with a time-stamp counter that neither stops nor changes its rate, the clock is the
//! counter, scaled by a comparison with a few milliseconds of the monotonic clock; elsewhere the
//! monotonic clock. For durations and for comparing cores of a machine; deadlines must use the
//! monotonic clock. Tested below.
#![allow(unsafe_code)]

use rustix::time::{ClockId, clock_gettime};
use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Duration of the comparison with the monotonic clock. The error of the scale is the time of
/// reading the clock, some 50 ns twice, over this duration: 5 in 100,000.
const CALIBRATION: Duration = Duration::from_millis(2);

/// Readings of both clocks at each end of the calibration. The tightest reading counts, so an
/// interruption between two readings does no harm. Eight readings take less than a microsecond.
const READINGS: usize = 8;

/// The processor time of the calling thread, in nanoseconds: a system call.
pub fn thread_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec.unsigned_abs() * 1_000_000_000 + used.tv_nsec.unsigned_abs()
}

/// Nanoseconds since an origin in this process. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// The counter at the start, and nanoseconds per tick as a fraction of 2^32.
    counter: Option<(u64, u64)>,
}

impl Clock {
    /// The clock of this process: every copy has the same origin.
    pub fn get() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(Self::calibrated)
    }

    fn calibrated() -> Self {
        let start = Instant::now();
        if !steady() {
            return Self { start, counter: None };
        }
        let (first_ns, first) = both(start);
        while start.elapsed() < CALIBRATION {
            std::hint::spin_loop();
        }
        let (last_ns, last) = both(start);
        let passed = u128::from(last.wrapping_sub(first));
        let scale = (u128::from(last_ns - first_ns) << 32).checked_div(passed).unwrap_or(0) as u64;
        Self { start, counter: (scale > 0).then_some((first, scale)) }
    }

    /// The present time.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        match self.counter {
            Some((first, scale)) => {
                ((u128::from(ticks().wrapping_sub(first)) * u128::from(scale)) >> 32) as u64
            }
            None => self.start.elapsed().as_nanos() as u64,
        }
    }

    /// The source of the clock, for a status line.
    pub fn describe(&self) -> &'static str {
        if self.counter.is_some() { "time-stamp counter" } else { "monotonic clock" }
    }
}

/// The monotonic clock, as nanoseconds since `start`, and the counter at the same moment: the
/// tightest of several readings.
fn both(start: Instant) -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..READINGS {
        let before = ticks();
        let ns = start.elapsed().as_nanos() as u64;
        let width = ticks().wrapping_sub(before);
        best = best.min((width, ns, before.wrapping_add(width / 2)));
    }
    (best.1, best.2)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: every x86-64 has the instruction; a kernel that forbids it to processes does not run
    // this program's libc.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Whether the counter is invariant: CPUID 8000_0007h, EDX bit 8 (AMD64 APM vol. 3, appendix E;
/// Intel SDM vol. 3, 19.17.1).
#[cfg(target_arch = "x86_64")]
fn steady() -> bool {
    use core::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn steady() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both clocks within a microsecond or so, even if this thread is interrupted at times.
    fn together(clock: Clock, start: Instant) -> (u64, u64) {
        let reading = || {
            let before = clock.now_ns();
            let theirs = start.elapsed().as_nanos() as u64;
            (clock.now_ns() - before, before, theirs)
        };
        let (_, ours, theirs) = (0..1000).map(|_| reading()).min().expect("a thousand readings");
        (ours, theirs)
    }

    #[test]
    fn goes_as_the_monotonic_clock_does_and_never_back() {
        let (clock, start) = (Clock::get(), Instant::now());
        let first = together(clock, start);
        let mut last = first.0;
        while start.elapsed() < Duration::from_millis(20) {
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
        }
        let end = together(clock, start);
        let (ours, theirs) = (end.0 - first.0, end.1 - first.1);
        assert!(ours.abs_diff(theirs) < theirs / 100, "{ours} ns for {theirs} ns");
    }
}
