//! Waits for any other descriptor to become readable or writable: inotify, pipes, signals,
//! datagrams.

use crate::{anchor::Anchor, core::current, error::OffCore, home_core::OneWaiter};
use std::{
    future::poll_fn,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    task::{Context, Poll},
};
use vermeil_io::{Driver, SourceKey};
use vermeil_queue::Direction;

/// A descriptor that tasks wait on. The driver of the core that uses the source watches the
/// descriptor; the first use on another core brings the source along. Dropping the source, on any
/// thread, closes the descriptor: at once on the core that has the source, and elsewhere after a
/// message to that core.
#[derive(Debug)]
pub struct Source {
    anchor: Anchor<SourceKey>,
    reads: OneWaiter,
    writes: OneWaiter,
}

/// The events that two tasks cannot wait for at once.
const READABLE: &str = "this source to be readable";
const WRITABLE: &str = "this source to be writable";

impl Source {
    /// Takes over a pollable descriptor.
    ///
    /// # Errors
    /// Off a core, or when the driver refuses the descriptor.
    pub fn new(descriptor: OwnedFd) -> io::Result<Self> {
        Self::on(|driver| driver.add_source(descriptor))
    }

    /// Watches a listener of another core, to relieve that core: see
    /// [`tells_every_watcher`](Self::tells_every_watcher).
    pub fn watch(listener: OwnedFd) -> io::Result<Self> {
        Self::on(|driver| driver.add_watch(listener))
    }

    fn on(add: impl FnOnce(&mut Driver) -> io::Result<SourceKey>) -> io::Result<Self> {
        let anchor = Anchor::new(add)?;
        Ok(Self { anchor, reads: OneWaiter::default(), writes: OneWaiter::default() })
    }

    /// Whether every core that [watches](Self::watch) a listener learns of each of its connections.
    /// Otherwise the kernel reports only connections for which it could not wake the owner.
    pub fn tells_every_watcher() -> io::Result<bool> {
        current(|core| core.io.driver.borrow().tells_every_watcher()).ok_or_else(|| OffCore.into())
    }

    /// Calls `f` with the descriptor.
    ///
    /// # Errors
    /// Off a core; `WouldBlock` while another core has the source, which then begins to move: await
    /// [`move_here`](Self::move_here) first.
    ///
    /// # Panics
    /// If `f` uses another object of this core's driver, because the driver is in use while `f`
    /// runs.
    pub fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> io::Result<R> {
        self.anchor.on_driver_or_ask(|driver, key| f(driver.source_fd(key)))
    }

    /// Brings the source to this core, so that [`with_fd`](Self::with_fd) succeeds.
    ///
    /// # Errors
    /// Off a core; `ResourceBusy` while another task waits for input.
    pub async fn move_here(&self) -> io::Result<()> {
        let _waits = self.reads.take(READABLE)?;
        self.anchor.move_here().await
    }

    /// Waits until the descriptor is readable. Read until a read would block before the next wait.
    /// Only a single task may wait at a time. After a cancelled wait, the next wait may end
    /// although another read has taken the input, so make the descriptor non-blocking.
    ///
    /// # Errors
    /// The driver's errors; `ResourceBusy` while another task waits here.
    pub async fn readable(&self) -> io::Result<()> {
        let _waits = self.reads.take(READABLE)?;
        poll_fn(|context| self.until_readable(context)).await
    }

    /// As [`readable`](Self::readable), for a poll function.
    ///
    /// # Errors
    /// As `readable`.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.reads.check(READABLE)?;
        self.until_readable(context)
    }

    fn until_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.anchor.poll(Direction::Read, context, |driver, key, context| driver.poll_readable(context, key))
    }

    /// Waits until the descriptor has room. Write until a write would block before the next wait.
    /// Only a single task may wait at a time, beside a task that waits for input. After a cancelled
    /// wait, the next wait may end although another write has filled the room.
    ///
    /// # Errors
    /// The driver's errors; `ResourceBusy` while another task waits here.
    pub async fn writable(&self) -> io::Result<()> {
        let _waits = self.writes.take(WRITABLE)?;
        poll_fn(|context| self.until_writable(context)).await
    }

    /// As [`writable`](Self::writable), for a poll function.
    ///
    /// # Errors
    /// As `writable`.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writes.check(WRITABLE)?;
        self.until_writable(context)
    }

    fn until_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.anchor.poll(Direction::Write, context, |driver, key, context| driver.poll_writable(context, key))
    }
}
