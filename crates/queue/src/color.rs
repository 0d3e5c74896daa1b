//! A color: a serial queue (a strand) that owns events. This file has the producers' side and the
//! counting of events.
//!
//! Implements the count-token protocol: a color has a token if and only if the count is above zero.
//! A producer links an event and then counts the event. The producer that moves the count from zero
//! makes the token. The holder of the token runs at most the counted events and subtracts them. The
//! holder that brings the count to zero destroys the token in the same operation. A single
//! read-modify-write decides both, so no wake-up can fall between two flags. A post from an event
//! to the same color needs no read-modify-write, because the posting thread holds the token and
//! accounts for the event on settling.
//!
//! Leaves out the holder's side (`token.rs`) and colors with a single event (`task_color.rs`).
//! Checked in `model/color.rs`: exclusion, no double token, no lost event, FIFO per producer.
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    color_queue::ColorQueue,
    colored::current_color,
    event::Event,
    queued_events::{QueuedEvents, counting},
    token::{ColorRef, Token},
};
use std::sync::Arc;

/// The result of a post.
pub enum PushOutcome<D: 'static = ()> {
    /// The color was empty: the caller must put its token in a ready queue.
    First(Token<D>),
    /// The color already has a token.
    Behind,
    /// The color runs on this thread, which counts the event on settling.
    Own,
}

impl<D> ColorQueue<D> {
    /// Queues `event`. Returns the token if the color was empty: the caller must put the token in a
    /// ready queue.
    #[must_use = "a token that is dropped strands its color"]
    pub fn push(self: &Arc<Self>, event: Event) -> Option<Token<D>> {
        if let PushOutcome::First(token) = self.post(event) { Some(token) } else { None }
    }

    /// As [`push`](Self::push), and reports the outcome of the push.
    #[inline]
    #[must_use = "a token that is dropped strands its color"]
    pub fn post(self: &Arc<Self>, event: Event) -> PushOutcome<D> {
        // An event in the inbox was posted earlier, perhaps by this thread. Relaxed suffices,
        // because this thread sees its own stores and every store that happened before this push.
        let first = self.has_empty_inbox() || planted(Bug::OwnPostOvertakes);
        if first && current_color() == Some(self.id()) {
            // SAFETY: the token's holder sets the thread's current color for exactly as long as
            // this thread runs the color's events.
            unsafe { self.push_own(event) };
            return PushOutcome::Own;
        }
        let one = QueuedEvents::event(event.label());
        self.link(event.into_raw());
        // Release: the count covers a linked event. Acquire: the new token's holder continues after
        // the last holder, because this addition reads the last holder's final subtraction.
        match QueuedEvents(self.counted.fetch_add(one.0, counting())).number() {
            0 => PushOutcome::First(self.token()),
            1 if planted(Bug::SecondToken) => PushOutcome::First(self.token()),
            before => {
                if before >= QueuedEvents::EVENTS_MAX {
                    std::process::abort();
                }
                PushOutcome::Behind
            }
        }
    }

    fn token(self: &Arc<Self>) -> Token<D> {
        Token::new(ColorRef::of(Arc::clone(self)))
    }
}
