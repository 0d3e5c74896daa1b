//! Tests of places and their owners. Requests and answers are tested through the binary.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

#[test]
fn a_socket_is_its_owners_alone_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let place = BoundSocket::bind(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(BoundSocket::bind(&path), Err(PlaceError::Taken(_))), "a server answers there");
    drop(place.listener().try_clone());
    drop(place);
    assert!(!path.exists());
}

#[test]
fn start_replaces_stale_socket_but_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(BoundSocket::bind(&path).unwrap());
    fs::write(&path, "mine").unwrap();
    assert!(matches!(BoundSocket::bind(&path), Err(PlaceError::NoSocket(_))));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert!(matches!(BoundSocket::bind(Path::new("/nonexistent/control")), Err(PlaceError::Io { .. })));
}

#[test]
fn folder_that_others_may_write_or_that_is_elsewhere_is_not_private() {
    let folder = tempfile::tempdir().unwrap();
    let private = folder.path().join("private");
    fs::create_dir(&private).unwrap();
    symlink(&private, folder.path().join("link")).unwrap();
    assert!(is_private(&folder.path().join("link")).is_err(), "whoever made the link could change it");
    // A service manager makes its folder with mode 0755.
    for (mode, expected) in [(0o700, true), (0o755, true), (0o770, false), (0o757, false)] {
        fs::set_permissions(&private, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(is_private(&private).unwrap(), expected, "{mode:o}");
    }
}

/// Regression: without an option, no command found the socket that the guides configure.
#[test]
fn configured_socket_of_default_folder_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let sockets = ["control", "7.sock", "other"].map(|name| UnixListener::bind(at(name)).unwrap());
    assert_eq!(sockets_in(folder.path()), [at("7.sock"), at("control")]);
    drop(sockets);
}
