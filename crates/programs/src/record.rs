//! The recording of a run in a file, for `vermeil sim`.
//!
//! The file is made before the run, so that a write error shows at once. The form is the runtime's
//! ("Recordings" in docs/runtime.md). Leaves out when a run is recorded: `cli.rs`, and
//! `vermeil-runs --trace`. Tested through the examples, in the runtime's `tests/docs.rs`.

use std::{
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};
use vermeil::Runtime;
use vermeil_io::output::Output;

/// Events of each core that a recording keeps: 32 MiB, and all events of most programs.
pub const EVENTS_PER_CORE: usize = 1 << 20;

/// Time for queued events to run and be recorded, because a server's tasks never end. The rest of
/// the work takes some 100 µs when the result is there.
const PATIENCE: Duration = Duration::from_millis(100);

/// The file of a recording.
#[derive(Debug)]
pub struct RecordingFile {
    path: PathBuf,
    file: File,
}

impl RecordingFile {
    /// Makes the file.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = Output::replace().open(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Ends the runtime, because the last run is recorded only after its result, and writes the
    /// recordings of the cores; returns a line for the report.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(mut self, runtime: Runtime) -> io::Result<String> {
        let handle = runtime.handle();
        runtime.shutdown(PATIENCE);
        let path = self.path.display();
        let Some(recording) = handle.recording() else {
            return Ok(format!("recording: {path}: nothing was recorded"));
        };
        let text = recording.to_text();
        self.file.write_all(text.as_bytes()).map_err(|error| cannot_write(&self.path, &error))?;
        let (kept, lost) = (recording.events.len(), recording.header.lost);
        Ok(format!("recording: {path}: {kept} events, after {lost} that were not kept"))
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> io::Error {
    let words = format!("cannot write the recording {}: {error}; choose another place", path.display());
    io::Error::new(error.kind(), words)
}
