//! A memory, a link or a port as a queue: a bound for each window of time, and longer waits in
//! fuller windows.
//!
//! Time consists of windows of 16.8 us, each with room for the bytes that the resource carries in
//! that time. A transfer that finds a full window continues in the next: this models saturation.
//! Within a window, a line also waits as in an M/D/1 queue at the present utilisation: this models
//! the rise of latency before saturation. A single moving "busy until" does not work, because
//! requests do not come in the order of their times: a handler's accesses are planned when the
//! handler starts. Tested below.

use crate::machine::PS_PER_NS;

/// Picoseconds in a window, as a power of two. Short against the time scale of a load, long against
/// one transfer of a chunk. Half or twice the value moves the shipped reproductions by less than a
/// percent.
const WINDOW_PS_BITS: u32 = 24;
/// Number of windows: 69 ms, longer than any event.
const WINDOWS: usize = 1 << 12;
/// Maximum utilisation for the wait, in thousandths, because full windows add the spill above it.
const UTILISATION_MAX_MILLI: u64 = 980;

/// The delay of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delay {
    /// Time until there was room.
    pub(crate) spill_ps: u64,
    /// Wait of each line because of other traffic.
    pub(crate) line_ps: u64,
}

impl Delay {
    /// The delay over two resources in a row. The resource with the longer spill decides, and waits
    /// add up.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { spill_ps: self.spill_ps.max(other.spill_ps), line_ps: self.line_ps + other.line_ps }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct BandwidthWindow {
    /// Number of the window of time, plus one; 0 for an unused entry.
    tag: u64,
    used_bytes: u64,
}

/// A resource with a bandwidth.
#[derive(Clone, Debug)]
pub(crate) struct Bandwidth {
    window_bytes: u64,
    /// Time of one line without other traffic.
    line_service_ps: u64,
    burstiness_milli: u64,
    windows: Box<[BandwidthWindow]>,
    /// The windows from the first number to before the second are full, so a saturated resource
    /// does not search these windows again.
    full: (u64, u64),
    carried_bytes: u64,
    peak_bytes: u64,
}

impl Bandwidth {
    /// A resource with this bandwidth.
    pub(crate) fn new(bytes_per_us: u64, line_bytes: u32, burstiness_milli: u64) -> Self {
        let window_bytes = u128::from(bytes_per_us) << WINDOW_PS_BITS;
        Self {
            window_bytes: (window_bytes / (1_000 * u128::from(PS_PER_NS))).max(1) as u64,
            line_service_ps: u64::from(line_bytes) * 1_000 * PS_PER_NS / bytes_per_us,
            burstiness_milli,
            windows: vec![BandwidthWindow::default(); WINDOWS].into(),
            full: (0, 0),
            carried_bytes: 0,
            peak_bytes: 0,
        }
    }

    /// Carries `bytes` from `at_ps` on.
    pub(crate) fn carry(&mut self, at_ps: u64, bytes: u64) -> Delay {
        self.carried_bytes += bytes;
        let first = at_ps >> WINDOW_PS_BITS;
        let line_ps = self.wait_ps(first);
        let mut left = bytes;
        let mut index = first;
        loop {
            index = self.past_full(index);
            let full = self.window_bytes;
            let window = self.window(index);
            let taken = left.min(full.saturating_sub(window.used_bytes));
            window.used_bytes += taken;
            let used_bytes = window.used_bytes;
            self.peak_bytes = self.peak_bytes.max(used_bytes);
            left -= taken;
            if used_bytes >= full {
                self.note_full(index);
            }
            // Windows beyond the horizon are not kept, so the rest of the transfer counts as
            // carried at the horizon.
            if left == 0 || index - first >= WINDOWS as u64 / 2 {
                break;
            }
            index += 1;
        }
        Delay { spill_ps: self.spill_ps(at_ps, first, index, bytes), line_ps }
    }

    /// The first window from this one on that is not known to be full.
    fn past_full(&self, index: u64) -> u64 {
        let (from, until) = self.full;
        if (from..until).contains(&index) { until } else { index }
    }

    fn note_full(&mut self, index: u64) {
        let (from, until) = self.full;
        self.full = if index == until && from < until { (from, until + 1) } else { (index, index + 1) };
    }

    /// The time by which other traffic delays the end of the transfer.
    fn spill_ps(&mut self, at_ps: u64, first: u64, last: u64, bytes: u64) -> u64 {
        if last == first {
            return 0;
        }
        let full = u128::from(self.window_bytes);
        let within = (u128::from(self.window(last).used_bytes) << WINDOW_PS_BITS) / full;
        let end_ps = (last << WINDOW_PS_BITS) + within as u64;
        let alone_ps = at_ps + ((u128::from(bytes) << WINDOW_PS_BITS) / full) as u64;
        end_ps.saturating_sub(alone_ps)
    }

    fn window(&mut self, index: u64) -> &mut BandwidthWindow {
        let window = &mut self.windows[index as usize % WINDOWS];
        if window.tag != index + 1 {
            *window = BandwidthWindow { tag: index + 1, used_bytes: 0 };
        }
        window
    }

    /// The wait of a line, at the utilisation of this window or of the complete window before,
    /// whichever is higher.
    fn wait_ps(&mut self, index: u64) -> u64 {
        let used =
            |window: BandwidthWindow, index: u64| if window.tag == index + 1 { window.used_bytes } else { 0 };
        let now = used(self.windows[index as usize % WINDOWS], index);
        let before = match index.checked_sub(1) {
            Some(before) => used(self.windows[before as usize % WINDOWS], before),
            None => 0,
        };
        let milli = (now.max(before) * 1_000 / self.window_bytes).min(UTILISATION_MAX_MILLI);
        self.line_service_ps * milli * self.burstiness_milli / (2 * (1_000 - milli)) / 1_000
    }

    /// Resets the counts. The windows keep their load.
    pub(crate) fn forget_counts(&mut self) {
        (self.carried_bytes, self.peak_bytes) = (0, 0);
    }

    /// Bytes carried so far.
    pub(crate) fn carried_bytes(&self) -> u64 {
        self.carried_bytes
    }

    /// Share of the bandwidth used over `elapsed_ps`, in thousandths.
    pub(crate) fn used_milli(&self, elapsed_ps: u64) -> u64 {
        let could = (u128::from(self.window_bytes) * u128::from(elapsed_ps)) >> WINDOW_PS_BITS;
        (u128::from(self.carried_bytes) * 1_000 / could.max(1)) as u64
    }

    /// The fullest window, in thousandths.
    pub(crate) fn peak_milli(&self) -> u64 {
        self.peak_bytes * 1_000 / self.window_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 GB/s: 16,777 bytes per window.
    fn link() -> Bandwidth {
        Bandwidth::new(1_000, 64, 1_000)
    }

    #[test]
    fn an_idle_link_delays_nothing() {
        assert_eq!(link().carry(0, 10_000), Delay::default());
    }

    #[test]
    fn excess_transfers_wait_in_any_request_order() {
        let mut link = link();
        for at in [900_000, 0, 500_000] {
            link.carry(at, 16_000);
        }
        let late = link.carry(0, 16_000).spill_ps;
        assert!((45_000_000..50_000_000).contains(&late), "{late}");
        assert_eq!(link.carried_bytes(), 64_000);
        assert_eq!(link.peak_milli(), 1_000);
    }

    #[test]
    fn transfer_larger_than_window_takes_own_time() {
        assert_eq!(link().carry(0, 100_000).spill_ps, 0);
    }

    #[test]
    fn latency_rises_before_saturation() {
        let mut link = link();
        let waits = [0, 4_000, 8_000, 4_000].map(|bytes| {
            link.carry(0, bytes);
            link.carry(1 << 20, 0).line_ps
        });
        assert_eq!(waits[0], 0);
        // At 12/16.8 of the bandwidth: half of 64 ns times 0.715 / 0.285.
        assert!(waits[1] < 11_000 && (75_000..85_000).contains(&waits[2]) && waits[3] > 300_000, "{waits:?}");
    }

    #[test]
    fn utilisation_is_carried_share_of_capacity() {
        let mut link = link();
        link.carry(0, 5_000);
        assert_eq!(link.used_milli(10_000_000), 500);
    }
}
