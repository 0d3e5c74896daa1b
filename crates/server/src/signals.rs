//! The signals that a server obeys, and the one that it sends to itself.
//!
//! Leaves out what is done about them: `serve.rs`, `supervise/mod.rs`. Tested through the binary.

use crate::voice::say;
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGURG, SIGUSR1},
    iterator::Signals,
};
use std::{ffi::c_int, io};

/// Another process has taken over. Of its own kind, so that it is never taken for the second signal to stop, which cuts what is
/// under way; and one that does nothing where nobody waits for it.
pub(crate) const TAKEN_OVER: c_int = SIGURG;

/// From now on they wait to be read.
pub(crate) fn watch() -> io::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, TAKEN_OVER])
}

/// Whether one that waits to be read asks to stop. All of them go on waiting.
pub(crate) fn ask_to_stop(signals: &mut Signals) -> bool {
    let waiting: Vec<c_int> = signals.pending().collect();
    for signal in waiting.iter().copied().filter_map(Signal::from_named_raw) {
        send_to_ourselves(signal);
    }
    waiting.iter().any(|signal| [SIGTERM, SIGINT].contains(signal))
}

/// Has this process drain, since process `pid` has taken over.
pub(crate) fn stop_for(pid: u32) {
    say(format_args!("process {pid} has taken over"));
    send_to_ourselves(Signal::URG);
}

fn send_to_ourselves(signal: Signal) {
    // It cannot fail.
    let _ = kill_process(getpid(), signal);
}
