//! Admission control on a core: asks the core's door about each new connection, and carries out
//! the door's decisions.
//!
//! Leaves out the decisions (`admission_control.rs`).

mod refusal;

use std::{
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};
use vermeil_accept::admission_control::Admission;
use vermeil_io::{limit_queue, newcomer, thread_cpu_ns};
use vermeil_state::core_context::{self, CoreContext};

/// Answers 503 and closes. Returns the connection if that is not possible at once.
pub(crate) fn refuse(socket: OwnedFd) -> Option<OwnedFd> {
    let began_ns = thread_cpu_ns();
    let left = refusal::refuse(socket);
    if left.is_none() {
        let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(began_ns));
        core_context::with(|local| local.door.on_refused(took));
    }
    left
}

/// Refuses a connection of a client that holds its maximum: 503, also before its request has come.
pub(crate) fn refuse_client(socket: OwnedFd) {
    if let Some(socket) = refusal::refuse(socket) {
        refusal::refuse_silent(socket);
    }
}

/// Decides about a connection that was just accepted on this core.
pub(crate) fn admit(socket: &OwnedFd) -> Admission {
    core_context::with(|local| local.door.admit(|| newcomer(socket.as_fd())))
}

/// How long this core's moment lasts that begins now.
pub(crate) fn moment() -> Duration {
    core_context::with(|local| local.door.moment())
}

/// Ends a moment of `elapsed` on this core.
pub(crate) fn judge(local: &mut CoreContext, elapsed: Duration) {
    let waiting = local.sockets.listeners.iter().map(|listener| listener.listener.waiting_count()).sum();
    let Some(queue_max) = local.door.judge(elapsed, Duration::from_nanos(thread_cpu_ns()), waiting) else {
        return;
    };
    // No core alone decides about the queue of a shared socket.
    for listener in local.sockets.listeners.iter().filter(|listener| listener.is_own) {
        // A listener that is being closed has no queue any more.
        let _ = listener.listener.with_fd(|fd| limit_queue(fd, queue_max));
    }
}
