//! The connections of one core, and the order in which they give way at the bound.
//!
//! A connection gives way while its client holds a place and the server does nothing for the
//! client. The variants of [`IdleState`] name these states in that order: the first states lose
//! least. Some states must have lasted for a time without progress (`IdleState::quiet_ms`),
//! because a healthy client passes through them too. Within a state connections give way in turn.
//! Leaves out ending a connection: the connection ends itself when its wait sees `gives_way`.
//! Tested below, and through the binary (`crates/e2e/tests/e2e/places.rs`).

use slab::Slab;
use std::{mem, task::Waker};

/// How long a half head, a half body or an unread answer stands without progress before the
/// connection may give way, in milliseconds. A round trip across an ocean and the kernel's first
/// retransmission (200 ms, then 400 ms) take less.
const QUIET_MS: u64 = 1000;

/// How long a connection stands without its first byte before it may give way, in milliseconds. A
/// burst of clients fills the places before their requests come, and without this time the burst
/// would end its own connections. A flood of silent connections needs all places ten times a
/// second.
const SILENT_MS: u64 = 100;

/// How many looks of a drain find a connection without its first byte before the drain ends the
/// connection. Looks are counted, not time: after a stall of the whole machine, the server may run
/// before its clients, and the first request of a new connection has no second attempt. With twenty
/// looks a second, a client has a second, which is one loss of a packet (RFC 6298, section 2.1).
const SILENT_LOOKS: u8 = 20;

/// Whether a connection waits for its client alone. The order is the order in which connections
/// give way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdleState {
    /// The server works for the client.
    #[default]
    No,
    /// The last answer is handed to the driver, and the next request has not begun.
    Between,
    /// The first request has not begun.
    BeforeFirst,
    /// The last answer is sent, and the client has not closed yet.
    Closing,
    /// A part of a request's head has come.
    Head,
    /// A part of a request's content has come.
    Body,
    /// The client does not take the answer.
    Answer,
}

impl IdleState {
    /// The states in which a connection may give way.
    const ALL: [Self; 6] =
        [Self::Between, Self::BeforeFirst, Self::Closing, Self::Head, Self::Body, Self::Answer];

    /// How long the state lasts before the connection may give way.
    fn quiet_ms(self) -> u64 {
        match self {
            Self::No | Self::Between | Self::Closing => 0,
            Self::BeforeFirst => SILENT_MS,
            Self::Head | Self::Body | Self::Answer => QUIET_MS,
        }
    }
}

/// The connections of one core.
#[derive(Default)]
pub struct Connections {
    all: Slab<ConnectionEntry>,
    /// Accepting tasks that wait for a connection to end or to become ready to give way. No
    /// semaphore: a change of state wakes all tasks of the core, and gives no permit.
    waiting: Vec<Waker>,
    /// Connections in each state.
    counts: [usize; IdleState::ALL.len() + 1],
    /// Where the next search for a connection begins.
    hand: usize,
}

#[derive(Default)]
struct ConnectionEntry {
    /// Wakes the connection's task. `None` before the first wait.
    waker: Option<Waker>,
    idle: IdleState,
    /// The last progress of the client in this state, on the core's clock.
    since_ms: u64,
    /// Whether another connection wants this place. A change of state takes that back.
    gives_way: bool,
    /// Whether the connection ends as soon as it stands between two requests, because the server
    /// drains.
    ending: bool,
    /// Looks of the drain in this state.
    looks: u8,
}

impl ConnectionEntry {
    fn may_give_way(&self, idle: IdleState, now_ms: u64) -> bool {
        self.idle == idle && now_ms.saturating_sub(self.since_ms) >= idle.quiet_ms()
    }

    /// Counts a look of the drain. Returns whether the connection ends now.
    fn ends_at_look(&mut self) -> bool {
        self.looks = self.looks.saturating_add(1);
        match self.idle {
            IdleState::Between => true,
            IdleState::BeforeFirst => self.looks >= SILENT_LOOKS,
            _ => false,
        }
    }
}

impl Connections {
    /// Takes a place and returns its number.
    pub(crate) fn insert(&mut self) -> usize {
        self.counts[IdleState::No as usize] += 1;
        self.all.insert(ConnectionEntry::default())
    }

    /// Gives a place back.
    pub(crate) fn remove(&mut self, number: usize) {
        let entry = self.all.remove(number);
        self.counts[entry.idle as usize] -= 1;
        self.wake_waiting();
    }

    /// Takes a place for a connection that comes from another core in the state `idle`. `ending`:
    /// whether the connection ends as soon as it stands between two requests.
    pub(crate) fn insert_moved(&mut self, idle: IdleState, since_ms: u64, ending: bool) -> usize {
        self.counts[idle as usize] += 1;
        self.all.insert(ConnectionEntry { idle, since_ms, ending, ..ConnectionEntry::default() })
    }

    /// The number of connections.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Sets the state of a connection.
    pub(crate) fn set_idle(&mut self, number: usize, idle: IdleState, now_ms: u64) {
        let entry = &mut self.all[number];
        let before = mem::replace(&mut entry.idle, idle);
        let was_told = mem::replace(&mut entry.gives_way, false);
        entry.since_ms = now_ms;
        entry.looks = 0;
        self.counts[before as usize] -= 1;
        self.counts[idle as usize] += 1;
        if was_told || idle != IdleState::No {
            self.wake_waiting();
        }
    }

    /// Notes that the client of a connection has made progress in its state.
    pub(crate) fn progress(&mut self, number: usize, now_ms: u64) {
        let entry = &mut self.all[number];
        entry.since_ms = now_ms;
        if mem::replace(&mut entry.gives_way, false) {
            self.wake_waiting();
        }
    }

    /// Whether another connection wants the place of this one. Wakes `waker` when that changes.
    pub(crate) fn gives_way(&mut self, number: usize, waker: &Waker) -> bool {
        self.entry(number, waker).gives_way
    }

    /// Whether the connection ends between two requests. Wakes `waker` when that changes.
    pub(crate) fn is_ending(&mut self, number: usize, waker: &Waker) -> bool {
        let entry = self.entry(number, waker);
        entry.ending || entry.gives_way
    }

    /// The entry of a connection whose task waits. A task has the same waker for its whole life.
    fn entry(&mut self, number: usize, waker: &Waker) -> &ConnectionEntry {
        let entry = &mut self.all[number];
        if entry.waker.is_none() {
            entry.waker = Some(waker.clone());
        }
        entry
    }

    /// Registers an accepting task that waits for room.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    /// Wakes the accepting tasks that wait for room.
    pub fn wake_waiting(&mut self) {
        for accepting in mem::take(&mut self.waiting) {
            accepting.wake();
        }
    }

    /// A look of the drain: tells the connections that wait between requests to end, and those that
    /// stayed silent for `SILENT_LOOKS`. Each connection knows itself whether its last answer is
    /// still in flight. Returns the number of all remaining connections.
    pub fn end_idle(&mut self) -> usize {
        for (_, entry) in &mut self.all {
            let ends = entry.ends_at_look();
            if let Some(waker) = &entry.waker
                && ends
                && !entry.ending
            {
                entry.ending = true;
                waker.wake_by_ref();
            }
        }
        self.all.len()
    }

    /// Whether a connection may give way now.
    pub(crate) fn has_idle(&self, now_ms: u64) -> bool {
        self.find(now_ms).is_some()
    }

    /// Tells a connection to give way. Returns whether a connection may give way.
    pub(crate) fn end_one(&mut self, now_ms: u64) -> bool {
        let Some(number) = self.find(now_ms) else { return false };
        self.hand = number;
        let entry = &mut self.all[number];
        if !mem::replace(&mut entry.gives_way, true)
            && let Some(waker) = &entry.waker
        {
            waker.wake_by_ref();
        }
        true
    }

    fn find(&self, now_ms: u64) -> Option<usize> {
        let length = self.all.capacity();
        IdleState::ALL.into_iter().filter(|idle| self.counts[*idle as usize] > 0).find_map(|idle| {
            (1..=length)
                .map(|step| (self.hand + step) % length)
                .find(|&number| self.all.get(number).is_some_and(|entry| entry.may_give_way(idle, now_ms)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(states: &[IdleState]) -> Connections {
        let mut connections = Connections::default();
        for &idle in states {
            let number = connections.insert();
            connections.set_idle(number, idle, 0);
        }
        connections
    }

    #[test]
    fn states_give_way_in_their_order() {
        let states = [
            IdleState::Answer,
            IdleState::No,
            IdleState::Body,
            IdleState::Head,
            IdleState::Closing,
            IdleState::BeforeFirst,
            IdleState::Between,
        ];
        let mut connections = connections(&states);
        for expected in [6, 5, 4, 3, 2, 0] {
            assert!(connections.end_one(QUIET_MS));
            assert!(connections.all[expected].gives_way, "number {expected}");
            connections.remove(expected);
        }
        assert!(!connections.end_one(u64::MAX), "the server works for the last one");
        assert_eq!(connections.count(), 1);
    }

    /// A stalled machine had 32 new connections whose clients had not run yet, and the drain reset
    /// them.
    #[test]
    fn drain_keeps_new_connection_for_a_second_of_looks() {
        let mut connections = connections(&[IdleState::Between, IdleState::BeforeFirst, IdleState::Head]);
        let is_ending = |connections: &mut Connections| {
            [0, 1, 2].map(|number| connections.is_ending(number, Waker::noop()))
        };
        assert_eq!(is_ending(&mut connections), [false; 3]);
        for _ in 1..SILENT_LOOKS {
            assert_eq!(connections.end_idle(), 3);
            assert_eq!(is_ending(&mut connections), [true, false, false]);
        }
        connections.end_idle();
        assert_eq!(is_ending(&mut connections), [true, true, false]);
        connections.set_idle(2, IdleState::BeforeFirst, 0);
        connections.end_idle();
        assert_eq!(is_ending(&mut connections), [true, true, false], "a new state begins anew");
    }

    #[test]
    fn progress_keeps_half_request() {
        for idle in [IdleState::Head, IdleState::Body, IdleState::Answer] {
            let mut connections = connections(&[idle]);
            assert!(!connections.end_one(QUIET_MS - 1));
            connections.progress(0, QUIET_MS - 1);
            assert!(!connections.end_one(QUIET_MS));
            assert!(connections.end_one(2 * QUIET_MS - 1));
        }
    }

    #[test]
    fn silent_connections_give_way_in_turn() {
        let mut connections = connections(&[IdleState::BeforeFirst; 3]);
        let mut ended = Vec::new();
        for _ in 0..3 {
            assert!(connections.end_one(SILENT_MS));
            let number = (0..3).find(|&number| connections.all[number].gives_way).expect("one is told");
            ended.push(number);
            connections.remove(number);
            let next = connections.insert();
            connections.set_idle(next, IdleState::BeforeFirst, 0);
        }
        ended.sort_unstable();
        assert_eq!(ended, [0, 1, 2]);
    }

    #[test]
    fn change_of_state_keeps_connection() {
        let mut connections = connections(&[IdleState::BeforeFirst]);
        assert!(!connections.end_one(SILENT_MS - 1), "its request may be on its way");
        assert!(connections.end_one(SILENT_MS));
        connections.set_idle(0, IdleState::Head, 0);
        assert!(!connections.all[0].gives_way && !connections.all[0].ending);
    }
}
