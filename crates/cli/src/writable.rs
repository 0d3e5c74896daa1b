//! Output files for results: errors that would prevent the write are found before the work, not
//! after.
//!
//! Tested through the binary (`tests/load.rs`, `tests/sim.rs`).

use std::path::Path;
use std::{fs, io};
use vermeil_io::output::{NameInFolder, Output};

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
    // An open of a pipe would block, and the close would look like the end of the results to the
    // reader.
    if found.as_ref().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Ok(());
    }
    let is_new = found.is_err();
    Output::append().open(path)?;
    if is_new {
        // A leftover file would look like an empty result. If the removal fails, the run overwrites
        // the file.
        let _left = NameInFolder::find(path).and_then(|place| place.remove());
    }
    Ok(())
}
