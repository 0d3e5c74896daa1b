//! The rights that a server has given up by becoming its user, in the words of a refusal.
//!
//! The system's error does not say whether the start had the right. So the step that changes the
//! user notes the change here, and each refused step after it names the cure. Processes that are
//! forked later inherit the note. Tested below.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether this process has become its user. Relaxed, because the change precedes all threads.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Notes that this process has become its user. Call this function while the process has one
/// thread.
pub fn note_given_up() {
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// The error with its cure, if the system has refused a right that this process has given up.
pub fn explain(error: io::Error) -> io::Error {
    explain_after(error, GIVEN_UP.load(Ordering::Relaxed))
}

fn explain_after(error: io::Error, is_given_up: bool) -> io::Error {
    if !is_given_up || error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    io::Error::other(format!("{error}; the server has given up this right (`user`): restart the server"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_right_names_restart_after_change_of_user() {
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        let cure = "; the server has given up this right (`user`): restart the server";
        assert!(explain_after(refused(), true).to_string().ends_with(cure));
        assert_eq!(explain_after(refused(), false).kind(), io::ErrorKind::PermissionDenied);
        let other = explain_after(io::ErrorKind::NotFound.into(), true);
        assert_eq!(other.kind(), io::ErrorKind::NotFound);
    }
}
