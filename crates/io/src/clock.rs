//! A clock for measuring code: nanoseconds at the price of one instruction.
//!
//! On x86-64 with a time-stamp counter that neither stops nor changes its rate, the counter, scaled by what it does in a
//! few milliseconds of the monotonic clock; elsewhere the monotonic clock itself. For durations and for comparing cores
//! of one machine; deadlines belong to the monotonic clock. Tested below.
#![allow(unsafe_code)]

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

/// How long the counter is compared with the monotonic clock. The error of the scale is what reading the clock takes,
/// some 50 ns twice, over this: 5 in 100,000.
const CALIBRATION: Duration = Duration::from_millis(2);

/// Nanoseconds since some moment of this process. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// The counter at the start, and nanoseconds per tick as a fraction of 2^32.
    counter: Option<(u64, u64)>,
}

impl Clock {
    /// The clock of this process: every copy counts from the same moment.
    pub fn get() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(Self::calibrated)
    }

    fn calibrated() -> Self {
        let start = Instant::now();
        if !steady() {
            return Self { start, counter: None };
        }
        let first = ticks();
        while start.elapsed() < CALIBRATION {
            std::hint::spin_loop();
        }
        let (passed_ns, passed) = (start.elapsed().as_nanos(), ticks().wrapping_sub(first));
        let scale = (passed_ns << 32).checked_div(u128::from(passed)).unwrap_or(0) as u64;
        Self { start, counter: (scale > 0).then_some((first, scale)) }
    }

    /// The present.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        match self.counter {
            Some((first, scale)) => {
                ((u128::from(ticks().wrapping_sub(first)) * u128::from(scale)) >> 32) as u64
            }
            None => self.start.elapsed().as_nanos() as u64,
        }
    }

    /// What the clock is made of, for the line that says so.
    pub fn describe(&self) -> &'static str {
        if self.counter.is_some() { "time-stamp counter" } else { "monotonic clock" }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: every x86-64 has the instruction; a kernel that forbids it to processes does not run this program's libc.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Whether the counter is invariant: CPUID 8000_0007h, EDX bit 8 (AMD64 APM vol. 3, appendix E; Intel SDM vol. 3, 19.17.1).
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

    #[test]
    fn goes_as_the_monotonic_clock_does_and_never_back() {
        let clock = Clock::get();
        let (start, first) = (Instant::now(), clock.now_ns());
        let mut last = first;
        while start.elapsed() < Duration::from_millis(20) {
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
        }
        let (ours, theirs) = (clock.now_ns() - first, start.elapsed().as_nanos() as u64);
        // A machine that stops us between the two readings makes theirs longer.
        assert!(ours < theirs + theirs / 100 && ours > 15_000_000, "{ours} ns for {theirs} ns");
    }
}
