//! The recording that a server leaves when it ends: the last events of each core, for `vermeil
//! sim`.
//!
//! The server opens the file at the start, while it may still open files and can report an error.
//! It writes the file when the cores have stopped. The runtime defines the format
//! (`docs/runtime.md`, Recordings). Leaves out several instances, which the command line refuses.
//! Tested through the binary (`crates/e2e/tests/e2e/trace.rs`).

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use vermeil::Handle;
use vermeil_io::output::Output;

/// Events that each core keeps: 2 MiB, some tenths of a second under full load.
pub(crate) const EVENTS_PER_CORE: usize = 1 << 16;

/// The target of the recording.
pub(crate) struct TraceTarget {
    path: PathBuf,
    file: File,
}

impl TraceTarget {
    /// Makes the file, which only its owner may read.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = Output::replace().mode(0o600).open(path)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes the events that the cores have kept, and those of the cores in idle time. Returns the
    /// line to log.
    pub(crate) fn write(mut self, handle: &Handle, idle: Option<&Handle>) -> String {
        let path = self.path.display();
        let Some(mut recording) = handle.recording() else {
            return format!("trace: {path}: nothing was recorded");
        };
        if let Some(of_idle) = idle.and_then(Handle::recording) {
            recording = recording.beside(of_idle);
        }
        match self.file.write_all(recording.to_text().as_bytes()) {
            Ok(()) => {
                let (kept, lost) = (recording.events.len(), recording.header.lost);
                format!("trace: {path}: {kept} events, after {lost} that were not kept")
            }
            Err(error) => format!("trace: cannot write {path}: {error}"),
        }
    }
}
