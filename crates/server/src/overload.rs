//! How long connections wait at the door, and what is done when that becomes too long.
//!
//! Each core looks at how long the connections it accepts have waited for it, which the kernel knows. If even the quickest
//! of a moment waited longer than the bound, more arrives than the core can do; then its listeners' queues are made so short
//! that what stands in them is served within half the bound, and what finds no room there is not accepted: the kernel drops
//! its packets, which costs next to nothing, and the client's kernel tries again. Connections that had waited for too long
//! already are refused with 503, since whoever opened them may have left. So what is begun is finished, and soon. As it
//! gets better the queues grow again, step by step. To judge by the quickest, not by the mean, is CoDel's (RFC 8289):
//! a burst is no overload. Leaves out what programs do, which have queues of their own. Tested below, and by
//! `cargo xtask bench overload`.

use crate::local;
use std::{io, time::Duration};
use vermeil::{TcpStream, now_ms, sleep};
use vermeil_io::{limit_queue, silent_for};

/// Connections that a listener queues while all is well; see `ListenOptions::backlog`.
const QUEUE_MAX: u32 = 4096;

/// And at least, whatever happens: a core that did nothing for a moment must not turn everybody away. Guess.
const QUEUE_MIN: u32 = 16;

/// How often a core judges. RFC 8289 takes 100 ms: some round trips, and many requests.
const MOMENT: Duration = Duration::from_millis(100);

/// One connection in so many is asked how long it waited, while all is well: a system call.
const SAMPLE: u32 = 16;

/// What the queues grow by when it gets better, as a fraction. Guess: tenfold in a second.
const GROWTH: (u32, u32) = (5, 4);

/// The door of one core.
#[derive(Debug)]
pub(crate) struct Door {
    wait_max: Duration,
    /// Of each listener.
    queue_max: u32,
    /// Accepted in this moment.
    accepted: u32,
    /// The least that one of them waited.
    least: Option<Duration>,
    state: State,
    /// Connections refused because they had waited for too long.
    refused: u64,
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
}

/// A door at one moment, for the status.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DoorStatus {
    pub(crate) queue_max: u32,
    pub(crate) refused: u64,
}

impl Door {
    pub(crate) fn new(wait_max: Duration) -> Self {
        Self { wait_max, queue_max: QUEUE_MAX, accepted: 0, least: None, state: State::Open, refused: 0 }
    }

    /// The bound is another from now on.
    pub(crate) fn set_wait_max(&mut self, wait_max: Duration) {
        self.wait_max = wait_max;
    }

    pub(crate) fn status(&self) -> DoorStatus {
        DoorStatus { queue_max: self.queue_max, refused: self.refused }
    }

    /// A connection was accepted; `waited` tells for how long it had waited.
    pub(crate) fn admit(&mut self, waited: impl FnOnce() -> io::Result<Duration>) -> Admission {
        let nth = self.accepted;
        self.accepted += 1;
        if self.state == State::Open && !nth.is_multiple_of(SAMPLE) {
            return Admission::Serve;
        }
        let Ok(waited) = waited() else { return Admission::Serve };
        self.least = Some(self.least.map_or(waited, |least| least.min(waited)));
        if self.state == State::Crowded && waited > self.wait_max {
            self.refused += 1;
            return Admission::Refuse;
        }
        Admission::Serve
    }

    /// Ends a moment that lasted `elapsed`; gives the length of the queues if it is another from now on.
    fn judge(&mut self, elapsed: Duration) -> Option<u32> {
        let (accepted, least) = (std::mem::take(&mut self.accepted), self.least.take());
        let before = self.queue_max;
        match least {
            Some(least) if least > self.wait_max => {
                let per_s = f64::from(accepted) / elapsed.as_secs_f64();
                let fits = per_s * self.wait_max.as_secs_f64() / 2.0;
                self.queue_max = (fits as u32).clamp(QUEUE_MIN, QUEUE_MAX);
                self.state = State::Crowded;
            }
            Some(least) if least > self.wait_max / 4 => {}
            _ => {
                let (more, of) = GROWTH;
                self.queue_max = (self.queue_max * more / of).min(QUEUE_MAX);
                if self.queue_max == QUEUE_MAX {
                    self.state = State::Open;
                }
            }
        }
        (self.queue_max != before).then_some(self.queue_max)
    }
}

/// Asks the core's door about a connection that was just accepted.
pub(crate) fn admit(stream: &TcpStream) -> Admission {
    local::with(|local| local.door.admit(|| stream.with_fd(silent_for)?))
}

/// Judges as long as the core serves.
pub(crate) async fn watch() {
    let mut before_ms = now_ms();
    loop {
        sleep(MOMENT).await;
        let elapsed = Duration::from_millis((now_ms() - before_ms).max(1));
        before_ms = now_ms();
        local::with(|local| {
            let Some(queue_max) = local.door.judge(elapsed) else { return };
            for listener in &local.listeners {
                // One that is being closed has no queue any more.
                let _ = listener.listener.with_fd(|fd| limit_queue(fd, queue_max));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(200);

    fn moment(door: &mut Door, connections: u32, waited: Duration) -> Option<u32> {
        for _ in 0..connections {
            door.admit(|| Ok(waited));
        }
        door.judge(MOMENT)
    }

    #[test]
    fn a_burst_is_no_overload() {
        let mut door = Door::new(MAX);
        for _ in 0..64 {
            door.admit(|| Ok(MAX * 3));
        }
        assert_eq!(moment(&mut door, 1, MAX / 10), None);
        assert_eq!(door.admit(|| Ok(MAX * 3)), Admission::Serve);
    }

    #[test]
    fn what_waits_too_long_makes_the_queue_short_and_is_refused() {
        let mut door = Door::new(MAX);
        assert_eq!(moment(&mut door, 500, MAX * 2), Some(500), "5,000 a second, for half of 200 ms");
        assert_eq!(door.admit(|| Ok(MAX * 2)), Admission::Refuse);
        assert_eq!(door.admit(|| Ok(MAX / 2)), Admission::Serve);
        assert_eq!(door.admit(|| Err(io::ErrorKind::NotConnected.into())), Admission::Serve);
        assert_eq!(door.status().refused, 1);
        door.judge(MOMENT);
        assert_eq!(moment(&mut door, 500, MAX / 2), None, "as it should be");
    }

    #[test]
    fn it_never_shuts_and_opens_again_step_by_step() {
        let mut door = Door::new(MAX);
        assert_eq!(moment(&mut door, 1, MAX * 2), Some(QUEUE_MIN));
        let mut steps = 0;
        while door.state == State::Crowded {
            assert!(door.judge(MOMENT).is_some(), "it grows");
            steps += 1;
        }
        assert!((20..60).contains(&steps), "{steps} steps");
        assert_eq!((door.status().queue_max, door.judge(MOMENT)), (QUEUE_MAX, None));
    }

    #[test]
    fn while_all_is_well_few_are_asked() {
        let mut door = Door::new(MAX);
        let mut asked = 0;
        for _ in 0..SAMPLE * 3 {
            door.admit(|| {
                asked += 1;
                Ok(Duration::ZERO)
            });
        }
        assert_eq!(asked, 3);
    }
}
