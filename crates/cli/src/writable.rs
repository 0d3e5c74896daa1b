//! Output files for results: errors that would prevent the write are found before the work, not
//! after.
//!
//! Tested through the binary (`tests/load.rs`, `tests/sim.rs`).

use std::path::Path;
use std::{fs, io};
use vermeil_io::output::{Output, Place};

/// Whether `path` can be written to, without leaving a new file there.
///
/// # Errors
///
/// The reason of the failure.
pub(crate) fn check_writable(path: &Path) -> Result<(), String> {
    try_to_write(path).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn try_to_write(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path);
    // A pipe would be waited for, and its reader see the end of what comes later.
    if found.as_ref().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Ok(());
    }
    let is_new = found.is_err();
    Output::append().open(path)?;
    if is_new {
        // Left, it would be a result of nothing. If that is refused, it is overwritten.
        let _left = Place::find(path).and_then(|place| place.remove());
    }
    Ok(())
}
