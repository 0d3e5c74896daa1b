//! Admission control: how long connections wait to be accepted, and the reaction to a wait that is
//! too long.
//!
//! Each core looks how many connections wait, and how fast the core takes connections while it is
//! busy. The two numbers predict the wait of the last connection. A wait beyond the bound means
//! that more connections arrive than the core can serve. The core then makes the queues of its
//! listeners so short that it serves their content within half the bound. The kernel drops the
//! packets of connections that find no room, which costs next to nothing, and the client's kernel
//! tries again.
//!
//! A connection that has already waited twice the bound is dropped if its client has left.
//! Otherwise the core refuses it with 503 (`admission.rs`), if refusing has proved to cost much
//! less than serving (`cost.rs`). So the core finishes each request that it begins, and soon. When
//! the wait shrinks, the queues grow again step by step. The criterion is the shortest wait of a
//! moment, not the mean, as in CoDel (RFC 8289), because a burst is no overload. Leaves out
//! programs, which have queues of their own. Tested below, and by `cargo xtask bench overload`.

mod cost;

use cost::Costs;
use std::{io, time::Duration};
use vermeil_io::Newcomer;

/// Connections that a listener queues in normal operation. Bench `overload`: of 4096, two thousand
/// came in before the first look at a core that serves 1,600 a second, and their clients had left
/// before it was their turn.
pub const QUEUE_MAX: u32 = 1024;

/// Minimum length of the queue, because a core that did nothing for a moment must not turn every
/// client away. Guess.
const QUEUE_MIN: u32 = 16;

/// How often a core judges. RFC 8289 takes 100 ms: some round trips, and many requests.
pub const MOMENT: Duration = Duration::from_millis(100);

/// The shorter interval if connections wait in normal operation. Two looks tell whether the
/// connections were there before, and connections that come between the looks have to be refused.
/// The interval is half of the usual interval.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Growth of the queues per moment when the wait shrinks, as a fraction. With ten moments per
/// second a queue grows tenfold in a second: 1.25 to the tenth power is 9.3.
const GROWTH: (u32, u32) = (5, 4);

/// Weight of the newest measurement of the pace. Guess: a cpu that other processes use, too, runs
/// the core in slices.
const NEWEST: f64 = 0.25;

/// A connection that has waited this multiple of the bound is dropped or refused. Bench `overload`:
/// at 1, all connections that waited when the overload began were refused, and a core that serves
/// small files answered no client meanwhile.
const REFUSED_AT: u32 = 2;

/// A moment tells the cost of serving only if it served this multiple of the refused connections. A
/// refusal costs less than serving, so refusals take a fifth of the time at most.
const SERVED_OF_REFUSED: usize = 4;

/// The core reads the wait of the first so many connections of a moment, and then of every so
/// many-th while the wait is short. The connections stand in a queue, so the later ones have waited
/// for less. The number is half of a batch of accepts (`accept.rs`), so each batch is sampled.
const LOOK_AT: usize = 8;

/// Once a connection has waited for this many halves of the bound, the core reads the wait of all
/// that follow, so that none escapes its refusal: midway between the bound and [`REFUSED_AT`].
const ALL_ASKED_AT_HALVES: u32 = 3;

/// The admission control of one core.
#[derive(Debug)]
pub struct AdmissionController {
    wait_max: Duration,
    /// Of each listener.
    queue_max: u32,
    state: AdmissionState,
    /// Connections that the core takes in a second while it is busy. `None` until the core was
    /// busy.
    service_rate: Option<f64>,
    /// Connections that waited when this moment began.
    before: usize,
    /// Cpu time of the core's thread at that time.
    ran: Duration,
    moment: IntervalCounts,
    costs: Costs,
    /// Connections refused because they had waited for too long.
    refused: u64,
}

/// Counts of one moment.
#[derive(Debug, Default)]
struct IntervalCounts {
    accepted: usize,
    /// Connections whose first request began, whether they were accepted now or long before.
    begun: usize,
    refused: usize,
    /// The time spent on refusals.
    refusing: Duration,
    /// The shortest wait among the connections. Known in an overload.
    least: Option<Duration>,
    /// Whether the last wait that was read is so long that the core also reads the next one, at
    /// whichever listener.
    waits_long: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdmissionState {
    Open,
    /// More connections arrive than the core can serve.
    Crowded,
}

/// The decision about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The core serves the connection.
    Serve,
    /// The connection has waited for too long and gets 503.
    Refuse,
    /// The connection has waited for too long and its client has left.
    Drop,
}

/// The state of a core's admission control, for the status.
#[derive(Clone, Copy, Debug, Default)]
pub struct DoorStatus {
    /// Connections that may wait at each listener now.
    pub queue_max: u32,
    /// Connections refused because they had waited for too long.
    pub refused: u64,
}

impl AdmissionController {
    /// The control of a core where connections may wait for `wait_max`.
    pub fn new(wait_max: Duration) -> Self {
        let moment = IntervalCounts::default();
        let (queue_max, state) = (QUEUE_MAX, AdmissionState::Open);
        let (ran, costs) = (Duration::ZERO, Costs::default());
        Self { wait_max, queue_max, state, service_rate: None, before: 0, ran, moment, costs, refused: 0 }
    }

    /// Changes the bound.
    pub fn set_wait_max(&mut self, wait_max: Duration) {
        self.wait_max = wait_max;
    }

    /// The present state.
    pub fn status(&self) -> DoorStatus {
        DoorStatus { queue_max: self.queue_max, refused: self.refused }
    }

    /// Decides about an accepted connection. `look` asks the kernel for its wait.
    pub fn admit(&mut self, look: impl FnOnce() -> io::Result<Newcomer>) -> Admission {
        self.moment.accepted += 1;
        let IntervalCounts { accepted, waits_long, .. } = self.moment;
        let is_asked = waits_long || accepted <= LOOK_AT || accepted % LOOK_AT == 0;
        if self.state == AdmissionState::Open || !is_asked {
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

    /// Records a refusal that took so long.
    pub fn on_refused(&mut self, took: Duration) {
        self.moment.refusing += took;
        self.costs.on_refused(took);
    }

    /// The first request of an accepted connection has begun.
    pub fn begin_request(&mut self) {
        self.moment.begun += 1;
    }

    /// How long the moment lasts that begins now.
    pub fn moment(&self) -> Duration {
        let may_be_crowded = self.state == AdmissionState::Open && self.before >= QUEUE_MIN as usize;
        if may_be_crowded { LOOK_AGAIN } else { MOMENT }
    }

    /// Ends a moment that lasted `elapsed`. At its end `waiting` connections wait, and the core's
    /// thread has `ran` so much cpu time. Returns the length of the queues if it changes.
    pub fn judge(&mut self, elapsed: Duration, ran: Duration, waiting: usize) -> Option<u32> {
        let moment = std::mem::take(&mut self.moment);
        let before = std::mem::replace(&mut self.before, waiting);
        let ran = ran.saturating_sub(std::mem::replace(&mut self.ran, ran));
        let all_waited = moment.least.is_some_and(|least| least > self.wait_max / 4);
        let served = moment.begun.max(moment.accepted - moment.refused);
        // The core was busy in two cases: it accepted no more connections than waited at the start
        // of the moment, or every connection had to wait.
        let was_busy = served + moment.refused > 0 && (before > 0 && moment.accepted <= before || all_waited);
        // With many refusals, the cost of accepting the refused connections would count as cost of
        // serving the others.
        if was_busy && served >= SERVED_OF_REFUSED * moment.refused {
            self.costs.on_served(served, ran.saturating_sub(moment.refusing));
        }
        let done = served as f64 + moment.refused as f64 * self.costs.refusal();
        let newest = done / elapsed.as_secs_f64();
        // A pace that the core has reached is possible. Otherwise a moment without the cpu would
        // count, and the moment that makes up for it would not.
        if was_busy || self.service_rate.is_some_and(|pace| newest > pace) {
            self.service_rate =
                Some(self.service_rate.map_or(newest, |pace| pace + (newest - pace) * NEWEST));
        }
        let queue_before = self.queue_max;
        match self.service_rate {
            Some(pace) if was_busy && (all_waited || waiting as f64 > pace * self.wait_max.as_secs_f64()) => {
                let fits = pace * self.wait_max.as_secs_f64() / 2.0;
                self.queue_max = (fits as u32).clamp(QUEUE_MIN, QUEUE_MAX);
                self.state = AdmissionState::Crowded;
            }
            _ if self.state == AdmissionState::Open || was_busy => {}
            _ => self.widen(),
        }
        (self.queue_max != queue_before).then_some(self.queue_max)
    }

    fn widen(&mut self) {
        let (more, of) = GROWTH;
        self.queue_max = (self.queue_max * more / of).min(QUEUE_MAX);
        if self.queue_max == QUEUE_MAX {
            self.state = AdmissionState::Open;
            self.service_rate = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(200);

    fn newcomer(waited: Duration) -> io::Result<Newcomer> {
        Ok(Newcomer { waited, has_left: false })
    }

    /// A moment that accepts `accepted` connections with the wait `waited`, and leaves `left`
    /// waiting.
    fn moment(door: &mut AdmissionController, accepted: u32, waited: Duration, left: usize) -> Option<u32> {
        for _ in 0..accepted {
            door.admit(|| newcomer(waited));
        }
        let ran = door.ran + MOMENT;
        door.judge(MOMENT, ran, left)
    }

    /// An overloaded core that can serve 5,000 connections a second.
    fn overloaded() -> AdmissionController {
        let mut door = AdmissionController::new(MAX);
        assert_eq!(moment(&mut door, 500, MAX / 10, 1500), None, "they may have come in at once");
        assert_eq!(moment(&mut door, 500, MAX, 2500), Some(500), "5,000 a second, for half of 200 ms");
        door
    }

    #[test]
    fn a_burst_is_no_overload() {
        let mut door = AdmissionController::new(MAX);
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
        let mut door = AdmissionController::new(MAX);
        for _ in 0..100 {
            assert_eq!(moment(&mut door, 500, MAX / 4, 400), None, "all come to their turn within 80 ms");
        }
        assert_eq!((door.service_rate, door.state), (None, AdmissionState::Open));
    }

    #[test]
    fn overdue_connection_shortens_queue_and_is_refused() {
        let mut door = overloaded();
        assert_eq!(door.admit(|| newcomer(MAX * 2)), Admission::Serve);
        assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Refuse);
        assert_eq!(door.admit(|| Ok(Newcomer { waited: MAX * 3, has_left: true })), Admission::Drop);
        assert_eq!(door.admit(|| Ok(Newcomer { waited: MAX / 2, has_left: true })), Admission::Serve);
        assert_eq!(door.admit(|| newcomer(MAX / 2)), Admission::Serve);
        assert_eq!(door.admit(|| Err(io::ErrorKind::NotConnected.into())), Admission::Serve);
        assert_eq!(door.status().refused, 2);
    }

    /// Serving a small file costs as much as refusing, and a client that still waits prefers the
    /// file.
    #[test]
    fn cheap_connection_is_served_unless_client_left() {
        let mut door = overloaded();
        assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Refuse);
        door.on_refused(Duration::from_micros(150));
        assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Serve, "200 µs each so far");
        assert_eq!(door.admit(|| Ok(Newcomer { waited: MAX * 3, has_left: true })), Admission::Drop);
        assert_eq!(door.status().refused, 2);
    }

    /// A core that was busy with earlier connections accepted 13. All its work seemed to be for
    /// these 13, so the core refused every client for a second and made the queue as short as
    /// possible.
    #[test]
    fn earlier_accepted_connection_is_served() {
        let mut door = AdmissionController::new(MAX);
        moment(&mut door, 800, MAX / 10, 0);
        (0..400).for_each(|_| door.begin_request());
        assert_eq!(moment(&mut door, 0, MAX, 900), None, "they may have come in at once");
        (0..400).for_each(|_| door.begin_request());
        assert_eq!(moment(&mut door, 13, MAX, 1000), Some(400), "4,000 a second, for half of 200 ms");
        assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Refuse);
        door.on_refused(Duration::from_micros(150));
        assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Serve, "250 µs each so far");
    }

    /// The cost of accepting refused connections counted as cost of serving the others, so the core
    /// refused even more.
    #[test]
    fn many_refusals_leave_serving_pace_unchanged() {
        let mut door = overloaded();
        door.on_refused(Duration::from_micros(50));
        let before = door.costs.refusal();
        assert!((0.2..0.3).contains(&before), "{before}");
        (0..90).for_each(|_| assert_eq!(door.admit(|| newcomer(MAX * 3)), Admission::Refuse));
        moment(&mut door, 10, MAX, 400);
        assert_eq!(door.costs.refusal(), before);
    }

    #[test]
    fn control_measures_soon_when_connections_wait() {
        let mut door = AdmissionController::new(MAX);
        assert_eq!(door.moment(), MOMENT);
        moment(&mut door, 500, MAX / 10, 1500);
        assert_eq!(door.moment(), LOOK_AGAIN);
        assert_eq!(overloaded().moment(), MOMENT);
    }

    #[test]
    fn the_queue_follows_the_pace() {
        let mut door = overloaded();
        assert_eq!(moment(&mut door, 500, MAX / 2, 500), None, "as it should be");
        assert_eq!(moment(&mut door, 300, MAX / 2, 400), Some(450), "slower: 4,500 a second by and by");
        assert_eq!(moment(&mut door, 390, MAX / 8, 400), None, "they waited for less, but it had no rest");
        assert_eq!(moment(&mut door, 450, MAX / 8, 100), Some(562), "there was a rest");
    }

    /// The queue stayed too short for a core that now and then did not get the cpu.
    #[test]
    fn catching_up_after_stall_counts_as_stall() {
        let mut door = overloaded();
        moment(&mut door, 10, MAX, 1500);
        let slowed = door.service_rate.expect("it was busy");
        assert!(slowed < 4000.0, "{slowed}");
        moment(&mut door, 1600, MAX / 8, 100);
        let pace = door.service_rate.expect("it has one");
        assert!(pace > 5000.0, "{pace}");
    }

    #[test]
    fn refusals_count_for_little() {
        let mut door = overloaded();
        moment(&mut door, 2000, MAX * 3, 2000);
        assert_eq!(door.service_rate, Some(5000.0), "2,000 of them are like 500 that are served");
    }

    #[test]
    fn queue_never_closes_and_reopens_in_steps() {
        let mut door = AdmissionController::new(MAX);
        moment(&mut door, 1, MAX, 100);
        assert_eq!(moment(&mut door, 1, MAX, 100), Some(QUEUE_MIN));
        let mut steps = 0;
        while door.state == AdmissionState::Crowded {
            assert!(moment(&mut door, 0, MAX, 0).is_some(), "it grows");
            steps += 1;
        }
        assert!((15..60).contains(&steps), "{steps} steps");
        assert_eq!((door.status().queue_max, moment(&mut door, 0, MAX, 0)), (QUEUE_MAX, None));
    }

    /// Of four connections that came while the core stalled, the core read only the first wait,
    /// which was the longest. The queue became short because of it.
    #[test]
    fn the_quickest_of_a_few_counts() {
        let mut door = overloaded();
        for waited in [MAX, MAX / 2, MAX / 4, MAX / 100] {
            door.admit(|| newcomer(waited));
        }
        (door.before, door.ran) = (0, MOMENT);
        assert_eq!(door.judge(MOMENT, MOMENT * 2, 0), Some(625), "it widens");
    }

    #[test]
    fn of_a_long_row_few_are_asked_while_they_come_soon_and_all_when_not() {
        let mut door = overloaded();
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
    fn timely_accepts_read_no_wait() {
        let mut door = AdmissionController::new(MAX);
        assert_eq!(door.admit(|| unreachable!("a system call for each")), Admission::Serve);
    }
}
