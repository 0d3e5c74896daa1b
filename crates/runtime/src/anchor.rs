//! The handle's side of an object of a driver: where the object is, and how it comes to the core
//! that uses it.
//!
//! An object that has never moved is known by the address of its core and its key, and a use
//! compares that address with the address of the running core. The first use on another core begins
//! a move, and from then on the moves say where the object is (`vermeil_queue::Attachment`, whose
//! page has the states). Leaves out the requests between cores (`requests.rs`). Tested in
//! `tests/moves.rs`.

use crate::{
    core::{Core, current},
    error::OffCore,
    home_core::{CoreRequest, DetachRequest, HomeCore, Moves},
};
use std::{
    fmt,
    future::poll_fn,
    io,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker},
};
use vermeil_io::{Driver, DriverKey};
use vermeil_queue::{CloseOutcome, ComeOutcome, Direction};

/// An object of a driver, for its handle. Dropping the anchor closes the object, on any thread.
pub(crate) struct Anchor<K: DriverKey> {
    /// The core whose driver got the object first.
    first: HomeCore,
    /// The key in that driver.
    key: K,
    /// Set by the first use on another core.
    moves: OnceLock<Arc<Moves>>,
}

impl<K: DriverKey> Anchor<K> {
    /// Adds an object to the driver of this core.
    pub(crate) fn new(add: impl FnOnce(&mut Driver) -> io::Result<K>) -> io::Result<Self> {
        let added = current(|core| {
            let key = add(&mut core.driver())?;
            io::Result::Ok(Self { first: core.home.clone(), key, moves: OnceLock::new() })
        });
        added.ok_or(OffCore)?
    }

    /// The key of the object in the driver of `core`, if that driver has the object.
    #[inline]
    fn key_on(&self, core: &Core) -> Option<K> {
        match self.moves.get() {
            None => (core.home == self.first).then_some(self.key),
            Some(moves) => Self::moved_key_on(moves, core),
        }
    }

    #[cold]
    fn moved_key_on(moves: &Moves, core: &Core) -> Option<K> {
        let key = moves.attachment.key_on(core.home_number())?;
        let key = K::from_bits(key);
        if moves.has_calls() {
            moves.carry_out(&mut core.driver(), key.into());
        }
        Some(key)
    }

    /// Calls `f` with this core's driver if that driver has the object.
    #[inline]
    pub(crate) fn on_driver<R>(&self, f: impl FnOnce(&mut Driver, K) -> R) -> Option<R> {
        current(|core| self.key_on(core).map(|key| f(&mut core.driver(), key))).flatten()
    }

    /// As [`on_driver`](Self::on_driver), and attaches an object that no driver has. An object of
    /// another driver begins its move.
    ///
    /// # Errors
    /// Off a core, or with an object that is closed or on its way to this core.
    pub(crate) fn on_driver_or_ask<R>(&self, f: impl FnOnce(&mut Driver, K) -> R) -> io::Result<R> {
        let result = current(|core| match self.key_or_ask(core, None) {
            Poll::Ready(Ok(key)) => Ok(f(&mut core.driver(), key)),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Err(on_its_way()),
        });
        result.ok_or(OffCore)?
    }

    /// Polls the object on this core's driver. An object of another driver comes to this core
    /// first.
    #[inline]
    pub(crate) fn poll<R>(
        &self,
        direction: Direction,
        context: &mut Context<'_>,
        f: impl FnOnce(&mut Driver, K, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let polled = current(|core| {
            if core.is_budget_spent() {
                return core.end_turn_of_spent_task(context);
            }
            let key = match self.key_on(core) {
                Some(key) => key,
                None => match self.key_or_ask(core, Some((direction, context.waker()))) {
                    Poll::Ready(Ok(key)) => key,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                },
            };
            let polled = f(&mut core.driver(), key, context);
            core.spend_budget(polled.is_ready());
            polled
        });
        polled.unwrap_or_else(|| Poll::Ready(Err(OffCore.into())))
    }

    /// Brings the object to this core. For the single task that waits for input.
    pub(crate) async fn move_here(&self) -> io::Result<()> {
        poll_fn(|context| self.poll(Direction::Read, context, |_, _, _| Poll::Ready(Ok(())))).await
    }

    /// The key on `core`, where the object comes to.
    #[cold]
    fn key_or_ask(&self, core: &Core, waiter: Option<(Direction, &Waker)>) -> Poll<io::Result<K>> {
        if let Some(key) = self.key_on(core) {
            return Poll::Ready(Ok(key));
        }
        let moves = self.moves();
        match moves.attachment.come(&core.home, waiter) {
            ComeOutcome::Here(key) => Poll::Ready(Ok(K::from_bits(key))),
            ComeOutcome::Attach(object) => {
                let attached = core.attach(moves, object);
                if let Some((from, asked_ns)) = moves.take_asked() {
                    core.observe_socket_move(from, asked_ns);
                }
                Poll::Ready(attached.map(|key| K::from_bits(key.bits())))
            }
            ComeOutcome::Ask(there, key) => {
                moves.note_asked(there.core(), core.shared.clock.now_ns());
                core.run.note_asks_for_socket();
                let key = K::from_bits(key).into();
                if there.leave(CoreRequest::Detach(DetachRequest::new(key, moves.clone()))) {
                    Poll::Pending
                } else {
                    // The core has ended, and the request that it refused has said so.
                    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
                }
            }
            ComeOutcome::Wait => Poll::Pending,
            ComeOutcome::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// The moves of the object, from now on.
    pub(crate) fn moves(&self) -> &Arc<Moves> {
        self.moves.get_or_init(|| Moves::new(self.first.clone(), self.key.into()))
    }

    /// The moves of an object that has moved or is asked to move.
    #[inline]
    pub(crate) fn moves_if_any(&self) -> Option<&Arc<Moves>> {
        self.moves.get()
    }

    /// Leaves a call in the moves, and asks for the object, so that the next driver carries out the
    /// call.
    pub(crate) fn begin_move(&self) -> io::Result<()> {
        let begun = current(|core| match self.key_or_ask(core, None) {
            Poll::Ready(Ok(key)) => {
                let moves = self.moves();
                if moves.has_calls() {
                    moves.carry_out(&mut core.driver(), key.into());
                }
                Ok(())
            }
            Poll::Ready(Err(error)) => {
                // No driver gets the object any more.
                self.moves().forget_calls();
                Err(error)
            }
            Poll::Pending => Ok(()),
        });
        begun.ok_or(OffCore)?
    }

    /// The object has been taken out of the driver for good.
    pub(crate) fn released(&self) {
        // Also for an object that has never moved: without moves, the key would still look valid.
        self.moves().attachment.lost();
    }

    /// The core that has the object, for a request that may come too late.
    pub(crate) fn core_and_key(&self) -> Option<(HomeCore, K)> {
        match self.moves.get() {
            None => Some((self.first.clone(), self.key)),
            Some(moves) => moves.attachment.core().map(|(core, key)| (core, K::from_bits(key))),
        }
    }
}

impl<K: DriverKey> Drop for Anchor<K> {
    fn drop(&mut self) {
        match self.moves.get() {
            None => self.first.request(CoreRequest::Close(self.key.into())),
            Some(moves) => match moves.attachment.close() {
                CloseOutcome::On(core, key) => core.request(CoreRequest::Close(K::from_bits(key).into())),
                CloseOutcome::Now(object) => moves.close(object),
                CloseOutcome::Later => {}
            },
        }
    }
}

impl<K: DriverKey> fmt::Debug for Anchor<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anchor").field("first", &self.first).finish_non_exhaustive()
    }
}

#[cold]
fn on_its_way() -> io::Error {
    let advice = "the socket is on its way to this core: await `move_here` before a call that does not wait";
    io::Error::new(io::ErrorKind::WouldBlock, advice)
}
