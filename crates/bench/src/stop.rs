//! Interruption from the keyboard: a bench then stops all its processes and removes all its files.
//!
//! SIGINT and SIGTERM set a flag. Waits check the flag often enough that a run ends within a tenth
//! of a second, through the ordinary error path, so that every guard runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::{BenchError, BenchResult};

/// The maximum interval between checks of the flag.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whether the run was asked to stop.
#[derive(Clone, Debug)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// A flag set by SIGINT and SIGTERM from now on.
    pub fn on_signals() -> BenchResult<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, flag.clone())
                .map_err(BenchError::thing("catch signal", signal))?;
        }
        Ok(Self(flag))
    }

    /// A flag that nothing sets.
    pub fn never() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// # Errors
    /// [`BenchError::Interrupted`] once the run was asked to stop.
    pub fn check(&self) -> BenchResult<()> {
        // Relaxed: nothing is published with the flag.
        if self.0.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(()) }
    }

    /// Waits for `time`.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`] as soon as the run was asked to stop.
    pub fn pass(&self, time: Duration) -> BenchResult<()> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK_EVERY));
        }
    }
}
