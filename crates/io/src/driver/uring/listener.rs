//! A listening socket of the io_uring driver.
//!
//! Contains the connections accepted but not yet taken, and the order of closing: cancel, collect
//! connections accepted meanwhile, accept the kernel's queued connections, close. If connections
//! arrive faster than they are taken, the kernel accepts only one at a time, until a connection
//! comes alone. The others wait in the kernel's queue, which has a bounded length and where a
//! connection costs nothing yet. Tested in `tests/suite`.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::task::Context;

use rustix::io::Errno;

use super::ring::{Completion, HowMany};
use super::stream::StreamFate;
use super::{NOBODY, UringShared, operation};
use crate::driver::detached::DetachedListener;
use crate::driver::table::Id;
use crate::driver::waiter::Waiter;
use crate::socket::{accept_now, concerns_one_connection};

#[derive(Clone, Copy, PartialEq, Eq)]
enum UringAccepting {
    Idle,
    Armed,
    /// Canceled: the last completion is awaited.
    Suspending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    StayOpen,
    Close,
    /// The connections of the listener are closed.
    Vanish,
}

pub(super) struct UringListener {
    /// `None` once closed.
    fd: Option<OwnedFd>,
    accepting: UringAccepting,
    wish: Wish,
    accepted: VecDeque<OwnedFd>,
    /// Whether more connections came than may wait here, so the kernel may hold further
    /// connections.
    over_budget: bool,
    /// Whether the kernel held a connection since the last accept.
    held_more: bool,
    /// The error number of the last failure, until it is reported.
    failed: Option<i32>,
    waiter: Waiter,
    /// The listener leaves the driver once nothing is armed.
    is_leaving: bool,
}

/// The result of `poll_accept`.
pub(super) enum NextConnection {
    Accepted(OwnedFd),
    Failed(io::Error),
    Later,
    /// Closed, and the last connection was taken.
    Never,
}

impl UringListener {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self {
            fd: Some(fd),
            accepting: UringAccepting::Idle,
            wish: Wish::StayOpen,
            accepted: VecDeque::new(),
            over_budget: false,
            held_more: false,
            failed: None,
            waiter: Waiter::default(),
            is_leaving: false,
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Connections accepted but not yet taken.
    pub(super) fn accepted_count(&self) -> usize {
        self.accepted.len()
    }

    pub(super) fn poll_accept(
        &mut self,
        id: Id,
        cx: &mut Context<'_>,
        shared: &mut UringShared,
    ) -> NextConnection {
        if let Some(fd) = self.accepted.pop_front() {
            return NextConnection::Accepted(fd);
        }
        let Some(fd) = &self.fd else { return NextConnection::Never };
        if let Some(error) = self.failed.take() {
            return NextConnection::Failed(io::Error::from_raw_os_error(error));
        }
        if self.over_budget {
            match accept_now(fd.as_fd()) {
                Ok(Some(fd)) => {
                    self.held_more = true;
                    return NextConnection::Accepted(fd);
                }
                // The last connection came alone, so the burst is over.
                Ok(None) => self.over_budget = std::mem::take(&mut self.held_more),
                Err(error) => return NextConnection::Failed(error),
            }
        }
        self.waiter.wait(cx);
        if self.accepting == UringAccepting::Idle {
            self.arm(id, shared);
        }
        NextConnection::Later
    }

    fn arm(&mut self, id: Id, shared: &mut UringShared) {
        if let Some(fd) = self.fd.as_ref().filter(|_| !self.is_leaving) {
            let how_many = if self.over_budget { HowMany::One } else { HowMany::All };
            shared.ring.accept(fd.as_raw_fd(), how_many, id.pack(operation::ACCEPT));
            self.accepting = UringAccepting::Armed;
        }
    }

    pub(super) fn cancel(&mut self, id: Id, shared: &mut UringShared) {
        if self.accepting == UringAccepting::Armed {
            self.accepting = UringAccepting::Suspending;
            shared.ring.cancel(id.pack(operation::ACCEPT), NOBODY.pack(operation::SILENT));
        }
    }

    pub(super) fn on_accepted(
        &mut self,
        id: Id,
        completion: Completion,
        shared: &mut UringShared,
    ) -> StreamFate {
        if self.wish == Wish::Vanish {
            drop(accepted(completion));
            if completion.goes_on() {
                return StreamFate::Stays;
            }
            self.close_descriptor(shared);
            return StreamFate::Gone;
        }
        match accepted(completion) {
            Ok(fd) => self.accepted.push_back(fd),
            Err(Errno::CANCELED | Errno::AGAIN) => {}
            Err(error) if concerns_one_connection(error) => {}
            Err(error) => self.failed = Some(error.raw_os_error()),
        }
        if completion.goes_on() {
            if self.accepted.len() >= shared.accepted_max {
                self.over_budget = true;
                self.cancel(id, shared);
            }
        } else {
            self.accepting = UringAccepting::Idle;
            if self.wish == Wish::Close {
                self.finish(shared);
            }
        }
        if !self.accepted.is_empty() || self.failed.is_some() || self.fd.is_none() {
            self.waiter.wake();
        } else if self.accepting == UringAccepting::Idle && self.waiter.is_waiting() {
            self.arm(id, shared);
        }
        StreamFate::leaves_if(self.is_leaving && self.accepting == UringAccepting::Idle)
    }

    /// The listener leaves the driver. Returns whether the listener can leave now; otherwise after
    /// the last completion.
    pub(super) fn detach(&mut self, id: Id, shared: &mut UringShared) -> StreamFate {
        self.is_leaving = true;
        self.cancel(id, shared);
        StreamFate::leaves_if(self.accepting == UringAccepting::Idle)
    }

    /// The listener, after it has left the driver.
    pub(super) fn into_detached(self) -> DetachedListener {
        let waiter = self.waiter.into();
        DetachedListener { fd: self.fd, accepted: self.accepted, failed: self.failed, waiter }
    }

    /// A listener from another driver.
    pub(super) fn attached(listener: DetachedListener) -> Self {
        let DetachedListener { fd, accepted, failed, mut waiter } = listener;
        let wish = if fd.is_some() { Wish::StayOpen } else { Wish::Close };
        Self {
            fd,
            accepting: UringAccepting::Idle,
            wish,
            accepted,
            over_budget: false,
            held_more: false,
            failed,
            waiter: waiter.unpack(),
            is_leaving: false,
        }
    }

    /// Continues to accept for the waiting task.
    pub(super) fn go_on(&mut self, id: Id, shared: &mut UringShared) {
        if !self.accepted.is_empty() || self.failed.is_some() || self.fd.is_none() {
            self.waiter.wake();
        } else if self.waiter.is_waiting() {
            self.arm(id, shared);
        }
    }

    /// Closes the listener for good: closes the accepted connections. The kernel resets the
    /// connections that it still holds.
    pub(super) fn discard(&mut self, id: Id, shared: &mut UringShared) -> StreamFate {
        self.wish = Wish::Vanish;
        self.accepted.clear();
        self.waiter.clear();
        if self.accepting == UringAccepting::Idle {
            self.close_descriptor(shared);
            return StreamFate::Gone;
        }
        self.cancel(id, shared);
        StreamFate::Stays
    }

    fn close_descriptor(&mut self, shared: &mut UringShared) {
        if let Some(fd) = self.fd.take() {
            shared.ring.close(fd, NOBODY.pack(operation::SILENT));
        }
    }

    pub(super) fn close(&mut self, id: Id, shared: &mut UringShared) {
        self.wish = Wish::Close;
        if self.accepting == UringAccepting::Idle {
            self.finish(shared);
            self.waiter.wake();
        } else {
            self.cancel(id, shared);
        }
    }

    /// Accepts the kernel's queued connections, and closes.
    fn finish(&mut self, shared: &mut UringShared) {
        let Some(fd) = self.fd.take() else { return };
        while let Ok(Some(connection)) = accept_now(fd.as_fd()) {
            self.accepted.push_back(connection);
        }
        shared.ring.close(fd, NOBODY.pack(operation::SILENT));
    }
}

/// The connection of an accept completion.
pub(super) fn accepted(completion: Completion) -> Result<OwnedFd, Errno> {
    if completion.result < 0 {
        return Err(Errno::from_raw_os_error(-completion.result));
    }
    // SAFETY: the kernel has just opened the descriptor for this process, and no other completion
    // carries it.
    Ok(unsafe { OwnedFd::from_raw_fd(completion.result) })
}
