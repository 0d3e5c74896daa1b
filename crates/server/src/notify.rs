//! Telling a service manager that asks for it, as systemd does with `Type=notify`, that this process serves, and that it is
//! the service's main one: after an upgrade it is not the one that was started (sd_notify(3)).
//!
//! Tested through the binary (`crates/cli/tests/e2e/handover.rs`).

use crate::voice::say;
use std::{
    env,
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

/// This process serves.
pub(crate) fn serves() {
    let Some(place) = env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = tell(&place, &format!("READY=1\nMAINPID={}", std::process::id())) {
        say(format_args!("the service manager at {} cannot be told: {error}", place.display()));
    }
}

fn tell(place: &OsStr, what: &str) -> io::Result<usize> {
    let addr = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(place)?,
    };
    UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &addr)
}
