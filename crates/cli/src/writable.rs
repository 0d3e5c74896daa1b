//! Files that results are to go to: what would keep them from being written is found out before the work, not after it.
//!
//! Tested through the binary (`tests/load.rs`, `tests/sim.rs`).

use std::path::Path;
use std::{fs, io};
use vermeil_io::output::{Output, Place};

/// Whether `path` can be written to, without leaving anything there.
///
/// # Errors
/// Why it cannot.
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
