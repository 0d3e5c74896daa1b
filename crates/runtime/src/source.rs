//! Waiting for any other descriptor to become readable: inotify, pipes, signals.

use crate::{
    core::{Home, current},
    error::OffCore,
    net::{home, on_driver},
};
use std::{
    future::poll_fn,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    task::Poll,
};
use vermeil_io::SourceKey;

/// A descriptor that tasks of this core wait on: the color that made it stays here from then on, and on other cores every call fails
/// with [`OffCore`](crate::OffCore).
#[derive(Debug)]
pub struct Source {
    home: Home,
    key: SourceKey,
}

impl Source {
    /// Takes over a pollable descriptor.
    ///
    /// # Errors
    /// Off a core, or when the driver refuses the descriptor.
    pub fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let home = home()?;
        Ok(Self { home, key: on_driver(home, |driver| driver.add_source(descriptor))?? })
    }

    /// Watches a listener that another core owns, to relieve that core: see [`tells_every_watcher`](Self::tells_every_watcher).
    ///
    /// # Errors
    /// Off a core, or when the driver refuses the descriptor.
    pub fn watch(listener: OwnedFd) -> io::Result<Self> {
        let home = home()?;
        Ok(Self { home, key: on_driver(home, |driver| driver.add_watch(listener))?? })
    }

    /// Whether those who [`watch`](Self::watch) a listener are told of each of its connections. Otherwise the kernel tells
    /// them of those that it could not wake the owner for.
    ///
    /// # Errors
    /// Off a core.
    pub fn tells_every_watcher() -> io::Result<bool> {
        current(|core| core.driver.borrow().tells_every_watcher()).ok_or_else(|| OffCore.into())
    }

    /// Lets `f` look at the descriptor.
    ///
    /// # Errors
    /// Off its core.
    pub fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> io::Result<R> {
        Ok(on_driver(self.home, |driver| f(driver.source_fd(self.key)))?)
    }

    /// Waits until there is something to read. Read until it would block before waiting again.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| {
            on_driver(self.home, |driver| driver.poll_readable(context, self.key))
                .unwrap_or_else(|off| Poll::Ready(Err(off.into())))
        })
        .await
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let _ = on_driver(self.home, |driver| driver.close_source(self.key));
    }
}
