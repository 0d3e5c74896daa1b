//! Waits for any other descriptor to become readable: inotify, pipes, signals.

use crate::{
    core::current,
    error::OffCore,
    home_core::{CloseRequest, HomeCore, OneWaiter},
    net::{home, on_driver, poll_on},
};
use std::{
    future::poll_fn,
    io,
    os::fd::{BorrowedFd, OwnedFd},
};
use vermeil_io::{Driver, SourceKey};

/// A descriptor that tasks of this core wait on. The creating color stays on this core from then
/// on. On other cores, [`readable`](Self::readable) moves the calling color to this core if the
/// color may move, and all other calls fail with [`OffCore`](crate::OffCore). Dropping the source,
/// on any thread, closes the descriptor.
#[derive(Debug)]
pub struct Source {
    home: HomeCore,
    key: SourceKey,
    reads: OneWaiter,
}

/// The event that two tasks cannot wait for at once.
const READABLE: &str = "this source to be readable";

impl Source {
    /// Takes over a pollable descriptor.
    ///
    /// # Errors
    /// Off a core, or when the driver refuses the descriptor.
    pub fn new(descriptor: OwnedFd) -> io::Result<Self> {
        Self::on(home()?, |driver| driver.add_source(descriptor))
    }

    /// Watches a listener of another core, to relieve that core: see
    /// [`tells_every_watcher`](Self::tells_every_watcher).
    pub fn watch(listener: OwnedFd) -> io::Result<Self> {
        Self::on(home()?, |driver| driver.add_watch(listener))
    }

    fn on(home: HomeCore, add: impl FnOnce(&mut Driver) -> io::Result<SourceKey>) -> io::Result<Self> {
        let key = on_driver(&home, add)??;
        Ok(Self { home, key, reads: OneWaiter::default() })
    }

    /// Whether every core that [watches](Self::watch) a listener learns of each of its connections.
    /// Otherwise the kernel reports only connections for which it could not wake the owner.
    pub fn tells_every_watcher() -> io::Result<bool> {
        current(|core| core.driver.borrow().tells_every_watcher()).ok_or_else(|| OffCore.into())
    }

    /// Calls `f` with the descriptor.
    pub fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> io::Result<R> {
        Ok(on_driver(&self.home, |driver| f(driver.source_fd(self.key)))?)
    }

    /// Waits until the descriptor is readable. Read until a read would block before the next wait.
    /// Only a single task may wait at a time.
    ///
    /// # Errors
    /// The driver's errors; `ResourceBusy` while another task waits here.
    pub async fn readable(&self) -> io::Result<()> {
        let _waits = self.reads.take(READABLE)?;
        let key = self.key;
        poll_fn(|context| poll_on(&self.home, context, |driver, context| driver.poll_readable(context, key)))
            .await
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.home.close_on_core(CloseRequest::Source(self.key));
    }
}
