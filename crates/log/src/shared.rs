//! The state that the cores, the log thread and the owner of the log share.

use crate::{format::LogFormats, options::LogOptions, target::LogTarget};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Counts of the records so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Lines written whole.
    pub written: u64,
    /// Records lost because the log could not keep up or could not be written.
    pub dropped: u64,
}

/// State shared by the cores, the log thread and the owner: counters and two requests.
#[derive(Debug)]
pub(crate) struct LogShared {
    /// Written by the log thread only.
    pub(crate) written: AtomicU64,
    /// Written by cores and by the log thread.
    pub(crate) dropped: AtomicU64,
    /// Set by [`Log::reopen`](crate::Log::reopen), cleared by the log thread.
    pub(crate) reopen: AtomicBool,
    /// Set by [`Log::close`](crate::Log::close), or by the log thread once nothing else is left of
    /// the log. Never cleared.
    pub(crate) closing: AtomicBool,
    pub(crate) patience: LogTimeouts,
    pub(crate) format: LogFormats,
    /// Whether there is a log for requests of hosts without a log of their own.
    pub(crate) has_common: bool,
    /// Whether a host has a log of its own.
    pub(crate) hosts_have_files: bool,
}

impl LogShared {
    pub(crate) fn new(patience: LogTimeouts, options: &LogOptions) -> Arc<Self> {
        Arc::new(Self {
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            reopen: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            patience,
            format: options.format.clone(),
            has_common: options.target != LogTarget::Off,
            hosts_have_files: options.hosts_have_files,
        })
    }

    pub(crate) fn counts(&self) -> LogCounts {
        LogCounts {
            written: self.written.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}

/// Time limits of the log thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogTimeouts {
    /// Pause between a failed write or open and the next attempt.
    pub(crate) retry: Duration,
    /// Time limit of the last batch for room in the channel, and of closing for a reader that does
    /// not read.
    pub(crate) close: Duration,
}

impl LogTimeouts {
    /// A full disk gets one attempt per second. At exit, a stuck log delays the end by two seconds
    /// at most.
    pub(crate) const USUAL: Self = Self { retry: Duration::from_secs(1), close: Duration::from_secs(2) };
}
