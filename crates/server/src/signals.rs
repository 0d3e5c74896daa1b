//! The signals that a server obeys, and the one that it sends to itself.
//!
//! Leaves out what is done about them: `serve.rs`, `supervise/mod.rs`. Tested through the binary.

use crate::voice::say;
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGURG, SIGUSR1},
    iterator::Signals,
};
use std::{
    ffi::c_int,
    io,
    sync::atomic::{AtomicBool, Ordering},
};

/// Another process has taken over. Of its own kind, so that it is never taken for the second signal to stop, which cuts what is
/// under way; and one that does nothing where nobody waits for it.
pub(crate) const TAKEN_OVER: c_int = SIGURG;

/// The supervisor has its instances end at once. Of its own kind, since a service manager signals all processes of a service:
/// what an instance hears from it and from its supervisor is one and the same first time.
pub(crate) const END_NOW: Signal = Signal::USR2;

/// Who may have a server end at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Impatience {
    /// Whoever asks it to stop once more.
    Anybodys,
    /// Its supervisor, as long as there is one.
    Supervisors,
}

/// The supervisor has gone: nobody is left but those who signal.
static IS_ORPHANED: AtomicBool = AtomicBool::new(false);

impl Impatience {
    fn is_anybodys(self) -> bool {
        self == Self::Anybodys || IS_ORPHANED.load(Ordering::Acquire)
    }
}

/// From now on they wait to be read.
pub(crate) fn watch(impatience: Impatience) -> io::Result<Signals> {
    let mut all = vec![SIGTERM, SIGINT, SIGHUP, SIGUSR1, TAKEN_OVER];
    all.extend((impatience == Impatience::Supervisors).then_some(END_NOW.as_raw()));
    Signals::new(all)
}

/// How a server stops.
#[derive(Debug)]
pub(crate) struct Stopping {
    impatience: Impatience,
    /// Whether anybody has asked for it; nobody has if another process has taken over, or the supervisor has gone.
    is_asked: bool,
    is_urgent: bool,
}

impl Stopping {
    /// It stops because of `signal`.
    pub(crate) fn because_of(signal: c_int, impatience: Impatience) -> Self {
        let is_asked = signal != TAKEN_OVER && !IS_ORPHANED.load(Ordering::Acquire);
        Self { impatience, is_asked, is_urgent: signal == END_NOW.as_raw() }
    }

    /// How to have it end at once, for the line that says that it drains.
    pub(crate) fn hint(&self) -> &'static str {
        if self.impatience.is_anybodys() { "; a second signal ends it now" } else { "" }
    }

    /// Does what further signals ask for, until they are closed.
    pub(crate) fn obey(mut self, signals: &mut Signals, reopen_logs: impl Fn(), end_now: impl Fn()) {
        if self.is_urgent {
            end_now();
        }
        for signal in signals.forever() {
            match signal {
                SIGHUP | SIGUSR1 => reopen_logs(),
                TAKEN_OVER => {}
                signal if self.is_urgent_by(signal) => end_now(),
                _ => {}
            }
        }
    }

    /// Another signal asks for it: whether it is to end at once.
    fn is_urgent_by(&mut self, signal: c_int) -> bool {
        if !self.impatience.is_anybodys() || signal == END_NOW.as_raw() {
            return signal == END_NOW.as_raw();
        }
        if !self.is_asked {
            say(format_args!("told to stop, and draining already{}", self.hint()));
        }
        std::mem::replace(&mut self.is_asked, true)
    }
}

/// Whether one that waits to be read asks to stop. All of them go on waiting.
pub(crate) fn ask_to_stop(signals: &mut Signals) -> bool {
    let waiting: Vec<c_int> = signals.pending().collect();
    for signal in waiting.iter().copied().filter_map(Signal::from_named_raw) {
        send_to_ourselves(signal);
    }
    waiting.iter().any(|signal| [SIGTERM, SIGINT].contains(signal))
}

/// The supervisor of this process has gone: from now on it obeys whoever signals it.
pub(crate) fn be_orphaned() {
    IS_ORPHANED.store(true, Ordering::Release);
}

/// Has this process drain.
pub(crate) fn stop_ourselves() {
    send_to_ourselves(Signal::TERM);
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
