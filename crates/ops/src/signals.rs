//! The signals that a server obeys, and the signal that a server sends to itself.
//!
//! Leaves out the reactions. Tested through the binary.

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
use vermeil_log::operator_log::log_line;

/// Another process has taken over. This is a separate signal, because the server must not mistake
/// it for the second signal to stop, which cuts off requests. By default SIGURG does nothing, so it
/// is harmless where no thread waits for it.
pub const TAKEN_OVER: c_int = SIGURG;

/// The supervisor tells its instances to end at once. This is a separate signal, because a service
/// manager signals all processes of a service. An instance that gets SIGTERM from the manager and
/// from its supervisor must count both as the first request to stop.
pub const END_NOW: Signal = Signal::USR2;

/// The sender that may end a server at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impatience {
    /// Any sender that asks the server to stop a second time.
    Anybodys,
    /// The supervisor, as long as it lives.
    Supervisors,
}

/// Set when the supervisor has gone. Then the server obeys any sender.
static IS_ORPHANED: AtomicBool = AtomicBool::new(false);

impl Impatience {
    fn is_anybodys(self) -> bool {
        self == Self::Anybodys || IS_ORPHANED.load(Ordering::Acquire)
    }
}

/// Registers the signals. From now on they wait to be read.
pub fn watch(impatience: Impatience) -> io::Result<Signals> {
    let mut all = vec![SIGTERM, SIGINT, SIGHUP, SIGUSR1, TAKEN_OVER];
    all.extend((impatience == Impatience::Supervisors).then_some(END_NOW.as_raw()));
    Signals::new(all)
}

/// The course of a stop.
#[derive(Debug)]
pub struct StopCourse {
    impatience: Impatience,
    /// Whether a sender has asked for the stop. False if another process has taken over, or the
    /// supervisor has gone.
    is_asked: bool,
    is_urgent: bool,
}

impl StopCourse {
    /// Begins a stop because of `signal`.
    pub fn because_of(signal: c_int, impatience: Impatience) -> Self {
        let is_asked = signal != TAKEN_OVER && !IS_ORPHANED.load(Ordering::Acquire);
        Self { impatience, is_asked, is_urgent: signal == END_NOW.as_raw() }
    }

    /// The hint how to end at once, for the line about the drain.
    pub fn hint(&self) -> &'static str {
        if self.impatience.is_anybodys() { "; a second signal ends it now" } else { "" }
    }

    /// Obeys further signals, until their iterator is closed.
    pub fn obey(mut self, signals: &mut Signals, reopen_logs: impl Fn(), end_now: impl Fn()) {
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

    /// Handles another signal to stop. Returns whether the server must end at once.
    fn is_urgent_by(&mut self, signal: c_int) -> bool {
        if !self.impatience.is_anybodys() || signal == END_NOW.as_raw() {
            return signal == END_NOW.as_raw();
        }
        if !self.is_asked {
            log_line(format_args!("told to stop, and draining already{}", self.hint()));
        }
        std::mem::replace(&mut self.is_asked, true)
    }
}

/// Whether a pending signal asks to stop. All pending signals remain pending.
pub fn ask_to_stop(signals: &mut Signals) -> bool {
    let waiting: Vec<c_int> = signals.pending().collect();
    for signal in waiting.iter().copied().filter_map(Signal::from_named_raw) {
        send_to_ourselves(signal);
    }
    waiting.iter().any(|signal| [SIGTERM, SIGINT].contains(signal))
}

/// Records that the supervisor of this process has gone. From now on the process obeys any sender.
pub fn be_orphaned() {
    IS_ORPHANED.store(true, Ordering::Release);
}

/// Makes this process drain.
pub fn stop_ourselves() {
    send_to_ourselves(Signal::TERM);
}

/// Makes this process drain, because process `pid` has taken over.
pub fn stop_for(pid: u32) {
    log_line(format_args!("process {pid} has taken over"));
    send_to_ourselves(Signal::URG);
}

fn send_to_ourselves(signal: Signal) {
    // A signal to the own process cannot fail.
    let _ = kill_process(getpid(), signal);
}
