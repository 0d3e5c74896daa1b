//! Waiting for any other descriptor to become readable: inotify, pipes, signals.

use crate::{
    core::Home,
    net::{home, on_driver},
};
use std::{future::poll_fn, io, os::fd::OwnedFd, task::Poll};
use vermeil_io::SourceKey;

/// A descriptor that a task of this core waits on.
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
