//! Tells a service manager that this process serves, and that it is the main process of the service
//! (sd_notify(3)). systemd asks for this with `Type=notify`. The second fact matters because after
//! an upgrade the main process is not the process that the manager started.
//!
//! Tested through the binary (`crates/e2e/tests/e2e/handover.rs`).

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
use vermeil_log::operator_log::log_line;

/// Reports that this process serves.
pub fn serves() {
    let Some(place) = env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = tell(&place, &format!("READY=1\nMAINPID={}", std::process::id())) {
        log_line(format_args!("the service manager at {} cannot be told: {error}", place.display()));
    }
}

fn tell(place: &OsStr, what: &str) -> io::Result<usize> {
    let addr = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(place)?,
    };
    UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &addr)
}
