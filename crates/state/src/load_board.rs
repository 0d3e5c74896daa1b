//! The last measurement of the load, which one thread writes and all cores read.
//!
//! Leaves out the measurement (the server). The line for answers is in `orca.rs`.

mod orca;

use std::sync::atomic::{AtomicU32, Ordering};
use vermeil_settings::LoadReport;

/// The last measurement. A single thread writes the numbers and all cores read them. Relaxed,
/// because each number stands alone.
#[derive(Debug)]
pub struct LoadBoard {
    cpu_per_mille: AtomicU32,
    pending_per_mille: AtomicU32,
    requests_per_s: AtomicU32,
    weight: AtomicU32,
}

/// A measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadMeasurement {
    /// The part of the time that a core ran or waited for the cpu, averaged over all cores, or the
    /// used part of the bounded cpu time, if that is more.
    pub cpu: f64,
    /// The same, or the demand for PHP as a part of the number of children, if that is more. Above
    /// 1 if requests wait.
    pub pending: f64,
    /// Requests per second.
    pub requests_per_s: f64,
}

impl Default for LoadBoard {
    /// Before the first measurement there is no load.
    fn default() -> Self {
        let [cpu_per_mille, pending_per_mille, requests_per_s] = [0; 3].map(AtomicU32::new);
        Self { cpu_per_mille, pending_per_mille, requests_per_s, weight: AtomicU32::new(100) }
    }
}

impl LoadBoard {
    /// Sets the measured load, and the weight in hundredths.
    pub fn set(&self, load: LoadMeasurement, weight: u32) {
        let per_mille = |part: f64| (part * 1000.0).round().clamp(0.0, 1e9) as u32;
        self.cpu_per_mille.store(per_mille(load.cpu), Ordering::Relaxed);
        self.pending_per_mille.store(per_mille(load.pending), Ordering::Relaxed);
        self.requests_per_s.store(load.requests_per_s.round().clamp(0.0, 4e9) as u32, Ordering::Relaxed);
        self.weight.store(weight, Ordering::Relaxed);
    }

    fn load(&self) -> LoadMeasurement {
        let part = |word: &AtomicU32| f64::from(word.load(Ordering::Relaxed)) / 1000.0;
        LoadMeasurement {
            cpu: part(&self.cpu_per_mille),
            pending: part(&self.pending_per_mille),
            requests_per_s: self.requests_per_s.load(Ordering::Relaxed).into(),
        }
    }

    /// In hundredths of the weight that the balancer gives.
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// A line for the head of an answer, with the line end. Empty without a report.
    pub fn line(&self, report: LoadReport) -> Vec<u8> {
        orca::line(report, self.load())
    }
}
