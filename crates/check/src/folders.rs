//! Folders that cannot be served.

use std::{fs, io, path::Path};

/// The reason why `root` is not a usable folder; `None` if this process cannot see the folder.
pub(crate) fn folder_trouble(root: &Path) -> Option<String> {
    match fs::metadata(root) {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some("it is no folder".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("there is no such folder".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
        Err(error) => Some(error.to_string()),
    }
}
