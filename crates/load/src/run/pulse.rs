//! The pulse of a core: a periodic timer, the lateness of the timer, and the cpu time of the
//! thread.
//!
//! A delay of this timer is a delay for every user of the core, so the measured times contain the
//! delay. Tested through `tests/`.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vermeil_io::thread_cpu_ns;

use super::context::{RunContext, until};

/// Time between two beats: a hundred in the shortest window (`Gates::window_min`). Measured: a
/// core of an injector with one request per second needs 0.6 % of a cpu for its beats and the rest.
const BEAT: Duration = Duration::from_millis(10);

/// Nanoseconds of cpu time that the thread of each core has used.
pub(crate) type CpuNs = Arc<[AtomicU64]>;

/// Beats until the run ends. Each beat that a delay leaves out counts with a delay too. So the
/// share of late beats is the share of the time in which users were delayed.
pub(crate) async fn pulse(field: Arc<RunContext>, core: usize, cpu: CpuNs) {
    // The kernel may deliver timers of a normal thread 50 µs late, to save wake-ups. If this call
    // fails, the recorded delay shows the lateness.
    let _precision = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut next = Instant::now();
    loop {
        next += BEAT;
        let late = until(next).await;
        let left_open = field.parting.sweep(core);
        let mut tally = field.ledger.here();
        tally.delay.record(late);
        while let Some(late) = next.elapsed().checked_sub(BEAT) {
            tally.delay.record(late);
            next += BEAT;
        }
        tally.left_open += left_open;
        drop(tally);
        cpu[core].store(thread_cpu_ns(), Ordering::Relaxed);
    }
}
