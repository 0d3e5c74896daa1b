//! Children that work on although their requests are over: the client has left, or the script has
//! ended its answer (`fastcgi_finish_request`).
//!
//! A child of PHP leaves the last record of a request unread until the script has ended. So the
//! connection tells whether the child still works, and is held for this question only. The
//! connection is shut down in both directions: PHP notices at its next write that the client has
//! left, as after a close. A request that no child has accepted yet counts too, because PHP will
//! run it. The stop of a pool waits for these children (`pool/pool_state.rs`), and new connections
//! cannot use them (`pool.rs`). Tested below.

use std::{
    net::Shutdown,
    os::{fd::AsFd as _, unix::net::UnixStream},
    time::{Duration, Instant},
};

/// The longest work for which a pool keeps running. A script that hangs would otherwise keep its
/// pool for ever; the backup of a large site takes minutes.
const WORK_MAX: Duration = Duration::from_secs(3600);

/// The children of a pool that work on.
#[derive(Debug, Default)]
pub(super) struct WorkingChildren(Vec<WorkingChild>);

#[derive(Debug)]
struct WorkingChild {
    connection: UnixStream,
    since: Instant,
}

impl WorkingChild {
    fn works(&self) -> bool {
        let has_unread = || vermeil_io::held_bytes(self.connection.as_fd()).is_ok_and(|bytes| bytes > 0);
        self.since.elapsed() < WORK_MAX && has_unread()
    }
}

impl WorkingChildren {
    /// Adds the child at the other end of `connection`, unless there are `max` already.
    pub(super) fn add(&mut self, connection: UnixStream, max: usize) {
        self.forget_ended();
        if self.0.len() < max && connection.shutdown(Shutdown::Both).is_ok() {
            self.0.push(WorkingChild { connection, since: Instant::now() });
        }
    }

    /// Closes the connections of children whose work has ended.
    pub(super) fn forget_ended(&mut self) {
        self.0.retain(WorkingChild::works);
    }

    /// Whether a child works.
    pub(super) fn is_any(&mut self) -> bool {
        self.forget_ended();
        !self.0.is_empty()
    }

    /// Whether a child has worked for `time`.
    pub(super) fn is_any_for(&mut self, time: Duration) -> bool {
        self.forget_ended();
        self.0.iter().any(|child| child.since.elapsed() >= time)
    }

    /// The children that worked when this was asked last.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    /// A connection whose child has not read the last record, and the child's end.
    fn working() -> (UnixStream, UnixStream) {
        let (mut ours, child) = UnixStream::pair().expect("sockets");
        ours.write_all(b"the record").expect("room");
        (ours, child)
    }

    #[test]
    fn child_works_until_it_has_read_everything() {
        let (ours, mut child) = working();
        let mut children = WorkingChildren::default();
        children.add(ours, 9);
        assert!(children.is_any());
        child.write_all(b"x").expect_err("the client has left");
        let mut read = Vec::new();
        child.read_to_end(&mut read).expect("the record, and the end");
        assert!(read == b"the record" && !children.is_any());
    }

    #[test]
    fn child_that_has_ended_does_not_work() {
        let (ours, child) = working();
        let mut children = WorkingChildren::default();
        children.add(ours, 9);
        drop(child);
        assert!(!children.is_any());
    }

    #[test]
    fn children_beyond_the_bound_are_not_held() {
        let ((first, _first), (second, _second)) = (working(), working());
        let mut children = WorkingChildren::default();
        children.add(first, 1);
        children.add(second, 1);
        assert_eq!(children.count(), 1);
    }
}
