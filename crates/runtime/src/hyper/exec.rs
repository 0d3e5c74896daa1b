//! hyper's executor: which color runs a future that hyper spawns.

use crate::{Color, Handle};
use std::future::Future;

/// Runs the futures that hyper spawns: a future for each request of an HTTP/2 server, and for the
/// connection of a client.
#[derive(Clone)]
pub struct ColorExec {
    handle: Handle,
    target: ExecTarget,
}

#[derive(Clone)]
enum ExecTarget {
    Same(Color),
    Children,
}

impl ColorExec {
    /// Runs all futures on `color`, usually the connection's: requests of a connection take turns,
    /// may share the color's [`Colored`](crate::Colored) state, and stay in the cache of the
    /// color's core.
    pub fn on(handle: &Handle, color: &Color) -> Self {
        Self { handle: handle.clone(), target: ExecTarget::Same(color.clone()) }
    }

    /// Each future gets a new color, which the policy places, so requests of a connection run in
    /// parallel. A future that owns a socket, for example the connection of a client, moves to the
    /// core of the socket with its first read or write, and stays there. Policies `libasync`,
    /// `ncopy` and `per-node` (between nodes) move no such color: use [`on`](Self::on) there, with
    /// a color of the connecting core.
    pub fn children(handle: &Handle) -> Self {
        Self { handle: handle.clone(), target: ExecTarget::Children }
    }
}

impl<F> hyper::rt::Executor<F> for ColorExec
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let task = match &self.target {
            ExecTarget::Same(color) => self.handle.spawn_on(color, future),
            ExecTarget::Children => self.handle.spawn(future),
        };
        // The future reports to hyper itself, so the task is detached.
        drop(task);
    }
}
