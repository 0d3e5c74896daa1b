//! How long connections wait at the door, and what is done when that becomes too long.
//!
//! Each core looks how many connections wait for it, and how fast it takes them while it has no rest: together they say how
//! long the last of them will have waited. If that is longer than the bound, more arrives than the core can do; then its
//! listeners' queues are made so short that what stands in them is served within half the bound, and what finds no room
//! there is not accepted: the kernel drops its packets, which costs next to nothing, and the client's kernel tries again.
//! Connections that had waited for twice as long already are dropped if their clients have left, and else refused with 503
//! (`refusal.rs`) where that costs much less than serving them, as was learned (`cost.rs`). So what is begun is finished, and
//! soon. As it gets better the queues grow again, step by step; whether it does is judged by the quickest of a moment, not by the
//! mean, as CoDel does (RFC 8289): a burst is no overload. Leaves out what programs do, which have queues of their own. Tested
//! below, and by `cargo xtask bench overload`.

mod cost;
mod refusal;

use crate::local::{self, Local};
use cost::Costs;
use rustix::time::{ClockId, clock_gettime};
use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};
use vermeil_io::{Newcomer, limit_queue, newcomer};

/// Connections that a listener queues while all is well. Bench `overload`: of 4096, two thousand came in before the first look at a
/// core that serves 1,600 a second, and their clients had left before it was their turn.
pub(crate) const QUEUE_MAX: u32 = 1024;

/// And at least, whatever happens: a core that did nothing for a moment must not turn everybody away. Guess.
const QUEUE_MIN: u32 = 16;

/// How often a core judges. RFC 8289 takes 100 ms: some round trips, and many requests.
pub(crate) const MOMENT: Duration = Duration::from_millis(100);

/// And how soon again where some wait although all was well: two looks tell whether they were there before, and what comes
/// between them has to be turned away. Guess.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What the queues grow by when it gets better, as a fraction. Guess: tenfold in a second.
const GROWTH: (u32, u32) = (5, 4);

/// How much the newest measurement of the pace counts. Guess: a cpu that others use, too, gives it in slices.
const NEWEST: f64 = 0.25;

/// Who has waited for so many times the bound is dropped or refused. Bench `overload`: at 1, all that waited when the load began to be
/// too much were refused, and a core that serves small files answered nobody meanwhile.
const REFUSED_AT: u32 = 2;

/// A moment tells what serving costs if so many times as many were served as turned away. Guess: a fifth of the time is theirs then at
/// most.
const SERVED_OF_REFUSED: usize = 4;

/// The first so many connections of a moment are asked how long they have waited, and then one of so many while that is no problem:
/// they stand in a row, so the others will have waited for less. Guess: small beside a batch.
const LOOK_AT: usize = 8;

/// Once one has waited for so many halves of the bound, all that follow are asked, so that nobody who is to be refused goes by. Guess: midway
/// between the bound and [`REFUSED_AT`].
const ALL_ASKED_AT_HALVES: u32 = 3;

/// The door of one core.
#[derive(Debug)]
pub(crate) struct Door {
    wait_max: Duration,
    /// Of each listener.
    queue_max: u32,
    state: State,
    /// Connections the core takes in a second when it has no rest; nothing while that was not seen.
    pace: Option<f64>,
    /// Connections that waited when this moment began.
    before: usize,
    /// What the core's thread had run by then.
    ran: Duration,
    moment: Moment,
    costs: Costs,
    /// Connections refused because they had waited for too long.
    refused: u64,
}

/// What came through a door in a moment.
#[derive(Debug, Default)]
struct Moment {
    accepted: usize,
    /// Connections that are served, accepted now or long before, whose first request was taken up.
    begun: usize,
    refused: usize,
    /// What refusing took.
    refusing: Duration,
    /// The least that one of them waited; known while it is crowded.
    least: Option<Duration>,
    /// Whether the last that was asked had waited for so long that the next one is asked too, at whichever listener.
    waits_long: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// More arrives than can be done.
    Crowded,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Serve,
    /// It has waited for too long: 503.
    Refuse,
    /// And its client has left.
    Drop,
}

/// A door at one moment, for the status.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DoorStatus {
    pub(crate) queue_max: u32,
    pub(crate) refused: u64,
}

impl Door {
    pub(crate) fn new(wait_max: Duration) -> Self {
        let moment = Moment::default();
        let (queue_max, state) = (QUEUE_MAX, State::Open);
        let (ran, costs) = (Duration::ZERO, Costs::default());
        Self { wait_max, queue_max, state, pace: None, before: 0, ran, moment, costs, refused: 0 }
    }

    /// The bound is another from now on.
    pub(crate) fn set_wait_max(&mut self, wait_max: Duration) {
        self.wait_max = wait_max;
    }

    pub(crate) fn status(&self) -> DoorStatus {
        DoorStatus { queue_max: self.queue_max, refused: self.refused }
    }

    /// A connection was accepted; `look` tells what the kernel knows of it.
    pub(crate) fn admit(&mut self, look: impl FnOnce() -> io::Result<Newcomer>) -> Admission {
        self.moment.accepted += 1;
        let Moment { accepted, waits_long, .. } = self.moment;
        let is_asked = waits_long || accepted <= LOOK_AT || accepted % LOOK_AT == 0;
        if self.state == State::Open || !is_asked {
            return Admission::Serve;
        }
        let Ok(Newcomer { waited, has_left }) = look() else { return Admission::Serve };
        self.moment.waits_long = waited > self.wait_max * ALL_ASKED_AT_HALVES / 2;
        let least = &mut self.moment.least;
        *least = Some(least.map_or(waited, |least| least.min(waited)));
        if waited <= self.wait_max * REFUSED_AT {
            return Admission::Serve;
        }
        if !has_left && !self.costs.is_refusing_worth_it() {
            return Admission::Serve;
        }
        self.moment.refused += 1;
        self.refused += 1;
        if has_left { Admission::Drop } else { Admission::Refuse }
    }

    /// A connection was refused, which took so long.
    fn on_refused(&mut self, took: Duration) {
        self.moment.refusing += took;
        self.costs.on_refused(took);
    }

    /// The first request of a connection that is served was taken up.
    pub(crate) fn on_begun(&mut self) {
        self.moment.begun += 1;
    }

    /// How long the moment lasts that begins now.
    fn moment(&self) -> Duration {
        let may_be_crowded = self.state == State::Open && self.before >= QUEUE_MIN as usize;
        if may_be_crowded { LOOK_AGAIN } else { MOMENT }
    }

    /// Ends a moment that lasted `elapsed`, at whose end so many connections are `waiting`, and the core's thread has `ran` since
    /// it began; gives the length of the queues if it is another from now on.
    fn judge(&mut self, elapsed: Duration, ran: Duration, waiting: usize) -> Option<u32> {
        let moment = std::mem::take(&mut self.moment);
        let before = std::mem::replace(&mut self.before, waiting);
        let ran = ran.saturating_sub(std::mem::replace(&mut self.ran, ran));
        let all_waited = moment.least.is_some_and(|least| least > self.wait_max / 4);
        let served = moment.begun.max(moment.accepted - moment.refused);
        // Fewer than waited already when it began, or none that did not have to wait: the core had no rest.
        let was_busy = served + moment.refused > 0 && (before > 0 && moment.accepted <= before || all_waited);
        // Where many were turned away, what accepting them took would count as what it takes to serve the others.
        if was_busy && served >= SERVED_OF_REFUSED * moment.refused {
            self.costs.on_served(served, ran.saturating_sub(moment.refusing));
        }
        let done = served as f64 + moment.refused as f64 * self.costs.refusal();
        let newest = done / elapsed.as_secs_f64();
        // What was done can be done: else a moment without its cpu would count, and the one that makes up for it would not.
        if was_busy || self.pace.is_some_and(|pace| newest > pace) {
            self.pace = Some(self.pace.map_or(newest, |pace| pace + (newest - pace) * NEWEST));
        }
        let queue_before = self.queue_max;
        match self.pace {
            Some(pace) if was_busy && (all_waited || waiting as f64 > pace * self.wait_max.as_secs_f64()) => {
                let fits = pace * self.wait_max.as_secs_f64() / 2.0;
                self.queue_max = (fits as u32).clamp(QUEUE_MIN, QUEUE_MAX);
                self.state = State::Crowded;
            }
            _ if self.state == State::Open || was_busy => {}
            _ => self.widen(),
        }
        (self.queue_max != queue_before).then_some(self.queue_max)
    }

    fn widen(&mut self) {
        let (more, of) = GROWTH;
        self.queue_max = (self.queue_max * more / of).min(QUEUE_MAX);
        if self.queue_max == QUEUE_MAX {
            self.state = State::Open;
            self.pace = None;
        }
    }
}

/// Answers 503 and closes, or gives the connection back if that is not so easily done.
pub(crate) fn refuse(socket: OwnedFd) -> Option<OwnedFd> {
    let began = ran();
    let left = refusal::refuse(socket);
    if left.is_none() {
        let took = ran().saturating_sub(began);
        local::with(|local| local.door.on_refused(took));
    }
    left
}

/// Refuses a connection of a client that holds as many as it may: 503, also before its request has
/// come.
pub(crate) fn refuse_client(socket: OwnedFd) {
    if let Some(socket) = refusal::refuse(socket) {
        refusal::refuse_silent(socket);
    }
}

/// Asks the core's door about a connection that was just accepted.
pub(crate) fn admit(socket: &OwnedFd) -> Admission {
    local::with(|local| local.door.admit(|| newcomer(socket.as_fd())))
}

/// How long the moment at this core's door lasts that begins now.
pub(crate) fn moment() -> Duration {
    local::with(|local| local.door.moment())
}

/// What this thread has run.
fn ran() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Ends a moment of `elapsed` at this core's door.
pub(crate) fn judge(local: &mut Local, elapsed: Duration) {
    let waiting = local.listeners.iter().map(|listener| listener.listener.waiting_count()).sum();
    let Some(queue_max) = local.door.judge(elapsed, ran(), waiting) else { return };
    for listener in &local.listeners {
        // One that is being closed has no queue any more.
        let _ = listener.listener.with_fd(|fd| limit_queue(fd, queue_max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(200);

    fn newcomer(waited: Duration) -> io::Result<Newcomer> {
        Ok(Newcomer { waited, has_left: false })
    }

    /// A moment in which so many connections were accepted that had waited so long, and so many were left waiting.
    fn moment(door: &mut Door, accepted: u32, waited: Duration, left: usize) -> Option<u32> {
        for _ in 0..accepted {
            door.admit(|| newcomer(waited));
        }
        let ran = door.ran + MOMENT;
        door.judge(MOMENT, ran, left)
    }

    /// A door at which 5,000 a second can be served, and more arrive.
    fn crowded() -> Door {
        let mut door = Door::new(MAX);
        assert_eq!(moment(&mut door, 500, MAX / 10, 1500), None, "they may have come in at once");
        assert_eq!(moment(&mut door, 500, MAX, 2500), Some(500), "5,000 a second, for half of 200 ms");
        door
    }

    #[test]
    fn a_burst_is_no_overload() {
        let mut door = Door::new(MAX);
        assert_eq!(
            moment(&mut door, 1, MAX / 10, 1300),
            None,
            "too many for a core of which nothing is known"
        );
        assert_eq!(moment(&mut door, 500, MAX, 800), None, "the last of them will be served in time");
        assert_eq!(moment(&mut door, 500, MAX, 300), None);
        assert_eq!(moment(&mut door, 301, MAX, 0), None);
        assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Serve);
    }

    #[test]
    fn a_busy_core_that_keeps_up_is_not_crowded() {
        let mut door = Door::new(MAX);
        for _ in 0..100 {
            assert_eq!(moment(&mut door, 500, MAX / 4, 400), None, "all come to their turn within 80 ms");
        }
        assert_eq!((door.pace, door.state), (None, State::Open));
    }

    #[test]
    fn what_waits_too_long_makes_the_queue_short_and_is_refused() {
        let mut door = crowded();
        assert_eq!(door.admit(|| newcomer(MAX * 2)), Admission::Serve);
        assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Refuse);
        assert_eq!(door.admit(|| Ok(Newcomer { waited: MAX * 3, has_left: true })), Admission::Drop);
        assert_eq!(door.admit(|| Ok(Newcomer { waited: MAX / 2, has_left: true })), Admission::Serve);
        assert_eq!(door.admit(|| newcomer(MAX / 2)), Admission::Serve);
        assert_eq!(door.admit(|| Err(io::ErrorKind::NotConnected.into())), Admission::Serve);
        assert_eq!(door.status().refused, 2);
    }

    /// A small file is served for what refusing it takes, and a client that still waits would rather have it.
    #[test]
    fn what_is_not_worth_refusing_is_served_unless_its_client_has_left() {
        let mut door = crowded();
        assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Refuse);
        door.on_refused(Duration::from_micros(150));
        assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Serve, "200 µs each so far");
        assert_eq!(door.admit(|| Ok(Newcomer { waited: MAX * 3, has_left: true })), Admission::Drop);
        assert_eq!(door.status().refused, 2);
    }

    /// A core that was busy with what it had accepted before took in 13 connections, and what it did seemed to be for these: everybody
    /// was refused for a second, the queue made as short as it can be.
    #[test]
    fn what_was_accepted_before_is_served_too() {
        let mut door = Door::new(MAX);
        moment(&mut door, 800, MAX / 10, 0);
        (0..400).for_each(|_| door.on_begun());
        assert_eq!(moment(&mut door, 0, MAX, 900), None, "they may have come in at once");
        (0..400).for_each(|_| door.on_begun());
        assert_eq!(moment(&mut door, 13, MAX, 1000), Some(400), "4,000 a second, for half of 200 ms");
        assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Refuse);
        door.on_refused(Duration::from_micros(150));
        assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Serve, "250 µs each so far");
    }

    /// What accepting those took that were turned away counted as what serving the others takes, so even more were.
    #[test]
    fn turning_many_away_says_nothing_of_serving() {
        let mut door = crowded();
        door.on_refused(Duration::from_micros(50));
        let before = door.costs.refusal();
        assert!((0.2..0.3).contains(&before), "{before}");
        (0..90).for_each(|_| assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Refuse));
        moment(&mut door, 10, MAX, 400);
        assert_eq!(door.costs.refusal(), before);
    }

    #[test]
    fn it_looks_again_soon_if_some_wait_although_all_was_well() {
        let mut door = Door::new(MAX);
        assert_eq!(door.moment(), MOMENT);
        moment(&mut door, 500, MAX / 10, 1500);
        assert_eq!(door.moment(), LOOK_AGAIN);
        assert_eq!(crowded().moment(), MOMENT);
    }

    #[test]
    fn the_queue_follows_the_pace() {
        let mut door = crowded();
        assert_eq!(moment(&mut door, 500, MAX / 2, 500), None, "as it should be");
        assert_eq!(moment(&mut door, 300, MAX / 2, 400), Some(450), "slower: 4,500 a second by and by");
        assert_eq!(moment(&mut door, 390, MAX / 8, 400), None, "they waited for less, but it had no rest");
        assert_eq!(moment(&mut door, 450, MAX / 8, 100), Some(562), "there was a rest");
    }

    /// The queue stayed too short for a core that now and then was not let run.
    #[test]
    fn what_makes_up_for_a_stall_counts_as_the_stall_does() {
        let mut door = crowded();
        moment(&mut door, 10, MAX, 1500);
        let slowed = door.pace.expect("it was busy");
        assert!(slowed < 4000.0, "{slowed}");
        moment(&mut door, 1600, MAX / 8, 100);
        let pace = door.pace.expect("it has one");
        assert!(pace > 5000.0, "{pace}");
    }

    #[test]
    fn refusals_count_for_little() {
        let mut door = crowded();
        moment(&mut door, 2000, MAX * 3, 2000);
        assert_eq!(door.pace, Some(5000.0), "2,000 of them are like 500 that are served");
    }

    #[test]
    fn it_never_shuts_and_opens_again_step_by_step() {
        let mut door = Door::new(MAX);
        moment(&mut door, 1, MAX, 100);
        assert_eq!(moment(&mut door, 1, MAX, 100), Some(QUEUE_MIN));
        let mut steps = 0;
        while door.state == State::Crowded {
            assert!(moment(&mut door, 0, MAX, 0).is_some(), "it grows");
            steps += 1;
        }
        assert!((15..60).contains(&steps), "{steps} steps");
        assert_eq!((door.status().queue_max, moment(&mut door, 0, MAX, 0)), (QUEUE_MAX, None));
    }

    /// Of four that came while the core stalled only the first was asked, which had waited the longest: the queue was made short for it.
    #[test]
    fn the_quickest_of_a_few_counts() {
        let mut door = crowded();
        for waited in [MAX, MAX / 2, MAX / 4, MAX / 100] {
            door.admit(|| newcomer(waited));
        }
        (door.before, door.ran) = (0, MOMENT);
        assert_eq!(door.judge(MOMENT, MOMENT * 2, 0), Some(625), "it widens");
    }

    #[test]
    fn of_a_long_row_few_are_asked_while_they_come_soon_and_all_when_not() {
        let mut door = crowded();
        let mut asked = |waited| {
            let mut is_asked = false;
            door.admit(|| {
                is_asked = true;
                newcomer(waited)
            });
            usize::from(is_asked)
        };
        assert_eq!((0..LOOK_AT).map(|_| asked(MAX / 2)).sum::<usize>(), LOOK_AT);
        assert_eq!((0..10 * LOOK_AT).map(|_| asked(MAX / 2)).sum::<usize>(), 10);
        assert_eq!((0..3 * LOOK_AT).map(|_| asked(MAX * 3)).sum::<usize>(), 2 * LOOK_AT + 1);
    }

    #[test]
    fn while_all_is_well_nobody_is_asked() {
        let mut door = Door::new(MAX);
        assert_eq!(door.admit(|| unreachable!("a system call for each")), Admission::Serve);
    }
}
