//! The place of an object of an I/O driver: attached to the driver of a core, or on its way to
//! another core.
//!
//! A socket works on the driver that has the socket. A core that needs a socket of another core
//! asks that core to detach the socket, and attaches the socket to its own driver. This file
//! decides which core may do which step, and loses neither an object nor a waiting task. Leaves out
//! drivers, sockets and messages between cores: the caller carries out each answer. The argument is
//! in
//! `attachment.md`; checked in `model/attachment.rs`.

use crate::{
    canary::{Bug, planted},
    sync::{AtomicU64, Mutex, Ordering, panics},
};
use std::task::Waker;

/// The address of a core, with which a core is asked for an object.
pub trait DriverCore: Clone {
    /// The number of the core in this process, never zero.
    fn number(&self) -> u64;
}

/// The number of no core.
const NOWHERE: u64 = 0;

/// The direction in which a task waits for an object. One task waits in each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The task waits for bytes or connections.
    Read,
    /// The task waits for room, or for the end of a send.
    Write,
}

/// Where an object of a driver is. `C` is the address of a core, `T` the object outside of a
/// driver.
pub struct Attachment<C, T> {
    /// The core whose driver has the object. Only that core writes another number.
    at: AtomicU64,
    /// The key of the object in that driver. Written together with `at`.
    key: AtomicU64,
    state: Mutex<AttachmentState<C, T>>,
}

struct AttachmentState<C, T> {
    phase: Phase<C, T>,
    /// The tasks that wait for the end of the move, by direction.
    asking: [Option<Waker>; 2],
    /// The core that asked last.
    wanted: Option<C>,
    /// The owner has dropped the object while the object was between two drivers.
    is_dropped: bool,
}

enum Phase<C, T> {
    /// The driver of this core has the object.
    Attached(C),
    /// As attached, and the core has been asked to detach the object.
    Detaching(C),
    /// No driver has the object.
    Detached(T),
    /// A core has taken the object in order to attach the object.
    Attaching,
    /// The object is closed, or its core has ended.
    Gone,
}

/// The answer to a core that needs an object.
#[derive(Debug, PartialEq, Eq)]
pub enum ComeOutcome<C, T> {
    /// The driver of the caller has the object, under this key.
    Here(u64),
    /// The caller asks this core to detach the object with this key. The move wakes the caller.
    Ask(C, u64),
    /// The object is on its way already. The move wakes the caller.
    Wait,
    /// The caller attaches the object to its own driver and calls [`Attachment::attached`].
    Attach(T),
    /// There is no object any more.
    Gone,
}

/// The next step of a core that has detached an object.
#[derive(Debug, PartialEq, Eq)]
pub enum DetachOutcome<C, T> {
    /// The next core that needs the object attaches the object.
    Rest,
    /// This core must attach the object, because a task waits for the object there.
    Send(C),
    /// The owner has dropped the object: close the object.
    Close(T),
}

/// The step that closes an object.
#[derive(Debug, PartialEq, Eq)]
pub enum CloseOutcome<C, T> {
    /// The driver of this core closes the object with this key.
    On(C, u64),
    /// The core that moves the object closes the object.
    Later,
    /// The caller closes the object.
    Now(T),
}

/// The tasks that wait for an object that leaves a driver, beside the tasks that have asked for the
/// object.
#[derive(Default)]
pub struct OwnWaiters {
    /// The object needs a driver although no task asks, for example because a task waits in a
    /// direction in which no task has asked.
    pub needs_driver: bool,
    /// The tasks that wait in a direction in which another task has asked. The asking task may have
    /// lost interest, so these tasks are woken and ask for themselves.
    pub asked_too: [Option<Waker>; 2],
}

impl<C: DriverCore, T> Attachment<C, T> {
    /// An object that the driver of `core` has under `key`.
    pub fn new(core: C, key: u64) -> Self {
        let at = AtomicU64::new(core.number());
        let state = AttachmentState {
            phase: Phase::Attached(core),
            asking: [None, None],
            wanted: None,
            is_dropped: false,
        };
        Self { at, key: AtomicU64::new(key), state: Mutex::new(state) }
    }

    fn with_state<R>(&self, f: impl FnOnce(&mut AttachmentState<C, T>) -> R) -> R {
        f(&mut self.state.lock().expect("nothing panics under this lock"))
    }

    /// The key of the object if the driver of core `number` has the object. For the thread of that
    /// core.
    #[inline]
    pub fn key_on(&self, number: u64) -> Option<u64> {
        // Relaxed: the calling core has written both words itself when it attached the object.
        (self.at.load(Ordering::Relaxed) == number).then(|| self.key.load(Ordering::Relaxed))
    }

    /// Core `here` needs the object, on the thread of that core. If the object is elsewhere, the
    /// end of the next step wakes `waiter`.
    pub fn come(&self, here: &C, waiter: Option<(Direction, &Waker)>) -> ComeOutcome<C, T> {
        // Cloned before the lock, because a waker is foreign code.
        let waiter = waiter.map(|(direction, waker)| (direction, waker.clone()));
        let mut replaced = None;
        let answer = self.with_state(|state| {
            let (answer, waits) = self.next_step(state, here);
            if waits && let Some((direction, waker)) = waiter {
                replaced = state.asking[direction as usize].replace(waker);
            }
            answer
        });
        drop(replaced);
        answer
    }

    /// The answer to core `here`, and whether its task waits.
    fn next_step(&self, state: &mut AttachmentState<C, T>, here: &C) -> (ComeOutcome<C, T>, bool) {
        match std::mem::replace(&mut state.phase, Phase::Gone) {
            Phase::Attached(core) if core.number() == here.number() => {
                state.phase = Phase::Attached(core);
                (ComeOutcome::Here(self.key.load(Ordering::Relaxed)), false)
            }
            Phase::Detaching(core) if core.number() == here.number() => {
                state.phase = Phase::Detaching(core);
                (ComeOutcome::Here(self.key.load(Ordering::Relaxed)), false)
            }
            Phase::Attached(core) => {
                state.wanted = Some(here.clone());
                let ask = ComeOutcome::Ask(core.clone(), self.key.load(Ordering::Relaxed));
                state.phase =
                    if planted(Bug::AskTwice) { Phase::Attached(core) } else { Phase::Detaching(core) };
                (ask, true)
            }
            Phase::Detaching(core) => {
                state.wanted = Some(here.clone());
                state.phase = Phase::Detaching(core);
                (ComeOutcome::Wait, true)
            }
            Phase::Detached(object) => {
                state.phase = Phase::Attaching;
                (ComeOutcome::Attach(object), false)
            }
            Phase::Attaching => {
                state.phase = Phase::Attaching;
                (ComeOutcome::Wait, true)
            }
            Phase::Gone => (ComeOutcome::Gone, false),
        }
    }

    /// The asked core has taken the object out of its driver, or a core does not attach an object
    /// that it has claimed. `waiters` returns the tasks that wait in the object. Its second
    /// argument tells in which directions a task has asked.
    pub fn detached(
        &self,
        mut object: T,
        waiters: impl FnOnce(&mut T, [bool; 2]) -> OwnWaiters,
    ) -> DetachOutcome<C, T> {
        let early = planted(Bug::TakeAskersFirst).then(|| self.with_state(|state| state.take_asking()));
        let mut own = OwnWaiters::default();
        let (leave, asking) = self.with_state(|state| {
            if !planted(Bug::LeaveAddress) {
                // Relaxed: only this core compares the word with its own number.
                self.at.store(NOWHERE, Ordering::Relaxed);
            }
            let asked = [state.asking[0].is_some(), state.asking[1].is_some()];
            let asking = if early.is_none() { state.take_asking() } else { [None, None] };
            if state.is_dropped {
                state.phase = Phase::Gone;
                return (DetachOutcome::Close(object), asking);
            }
            own = waiters(&mut object, asked);
            let leave = match state.wanted.take() {
                Some(core) if own.needs_driver => DetachOutcome::Send(core),
                _ => DetachOutcome::Rest,
            };
            state.phase = Phase::Detached(object);
            (leave, asking)
        });
        wake(early.into_iter().flatten().chain(asking));
        if !planted(Bug::ForgetOwnWaiter) {
            wake(own.asked_too);
        }
        leave
    }

    /// The core whose driver has the object, and the key.
    pub fn core(&self) -> Option<(C, u64)> {
        self.with_state(|state| match &state.phase {
            Phase::Attached(core) | Phase::Detaching(core) => {
                Some((core.clone(), self.key.load(Ordering::Relaxed)))
            }
            Phase::Detached(_) | Phase::Attaching | Phase::Gone => None,
        })
    }

    /// The object, if no driver has the object. The caller then attaches the object as after
    /// [`ComeOutcome::Attach`], or gives the object back with [`detached`](Self::detached).
    pub fn claim(&self) -> Option<T> {
        self.with_state(|state| match std::mem::replace(&mut state.phase, Phase::Attaching) {
            Phase::Detached(object) => Some(object),
            other => {
                state.phase = other;
                None
            }
        })
    }

    /// Core `here` has attached the object that [`come`](Self::come) gave out. Returns the key if
    /// the owner has dropped the object meanwhile; the caller then closes the object.
    #[must_use]
    pub fn attached(&self, here: &C, key: u64) -> Option<u64> {
        let (closes, asking) = self.with_state(|state| {
            let asking = state.take_asking();
            if state.is_dropped {
                state.phase = Phase::Gone;
                return (Some(key), asking);
            }
            state.phase = Phase::Attached(here.clone());
            // Relaxed: only this core compares `at` with its own number.
            self.key.store(key, Ordering::Relaxed);
            self.at.store(here.number(), Ordering::Relaxed);
            (None, asking)
        });
        wake(asking);
        closes
    }

    /// There is no object any more: its core has ended, a driver has refused the object, or the
    /// owner of the object has taken the object out of the driver.
    pub fn lost(&self) {
        let (phase, asking) = self.with_state(|state| {
            self.at.store(NOWHERE, Ordering::Relaxed);
            (std::mem::replace(&mut state.phase, Phase::Gone), state.take_asking())
        });
        drop(phase);
        wake(asking);
    }

    /// The owner drops the object, on any thread.
    pub fn close(&self) -> CloseOutcome<C, T> {
        let (close, asking) = self.with_state(|state| {
            let asking = state.take_asking();
            let close = match std::mem::replace(&mut state.phase, Phase::Gone) {
                Phase::Attached(core) => CloseOutcome::On(core, self.key.load(Ordering::Relaxed)),
                Phase::Detached(object) => CloseOutcome::Now(object),
                Phase::Gone => CloseOutcome::Later,
                moving @ (Phase::Detaching(_) | Phase::Attaching) => {
                    state.phase = moving;
                    state.is_dropped = !planted(Bug::DropDuringMove);
                    CloseOutcome::Later
                }
            };
            (close, asking)
        });
        // After the lock, because the last waker of a task drops the task.
        drop(asking);
        close
    }
}

impl<C, T> AttachmentState<C, T> {
    fn take_asking(&mut self) -> [Option<Waker>; 2] {
        std::mem::take(&mut self.asking)
    }
}

/// Wakes the tasks, after the lock, because a waker is foreign code. A panic of a waker ends here,
/// because the core may be between two events, and because the other tasks need their wake-ups.
fn wake(asking: impl IntoIterator<Item = Option<Waker>>) {
    for waker in asking.into_iter().flatten() {
        panics(|| waker.wake());
    }
}
