//! hyper's executor: which color runs what hyper spawns.

use crate::{Color, Handle};
use std::future::Future;

/// Runs the futures that hyper spawns: one for each request of an HTTP/2 server, one for the connection of a client.
#[derive(Clone)]
pub struct ColorExec {
    handle: Handle,
    target: Target,
}

#[derive(Clone)]
enum Target {
    Same(Color),
    Children,
}

impl ColorExec {
    /// Everything runs on `color`, which usually is the connection's: requests of one connection take turns, may share
    /// its [`Colored`](crate::Colored) state, and stay in its core's cache.
    pub fn on(handle: &Handle, color: &Color) -> Self {
        Self { handle: handle.clone(), target: Target::Same(color.clone()) }
    }

    /// Each future gets a new color, which the policy places: requests of one connection run in
    /// parallel. A future that owns a socket, as the connection of a client does, goes to the core
    /// of the socket with its first read or write, and stays there. Policies `libasync` and `ncopy`
    /// (between nodes) move no color so: take [`on`](Self::on) there, with a color of the core that
    /// connects.
    pub fn children(handle: &Handle) -> Self {
        Self { handle: handle.clone(), target: Target::Children }
    }
}

impl<F> hyper::rt::Executor<F> for ColorExec
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let task = match &self.target {
            Target::Same(color) => self.handle.spawn_on(color, future),
            Target::Children => self.handle.spawn(future),
        };
        // The future tells hyper what hyper wants to know; as a task it runs on unwatched.
        drop(task);
    }
}
