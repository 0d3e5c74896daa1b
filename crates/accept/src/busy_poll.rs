//! Busy polling: a core with a high load asks its network card for packets instead of waiting for
//! an interrupt.
//!
//! A core that answers many requests waits often and never for long. An interrupt and a wake-up
//! then cost more than a short look at the card. So from a certain rate of requests on, the waits
//! of the core's driver poll the queue of the core's connections. Polling stops after a while with
//! few requests, so an idle server burns no cpu time. The kernel polls one queue per core.
//! Therefore a core whose connections come by several queues does not poll
//! (Documentation/networking/napi.rst), and neither does a core whose device has no queue.
//! Interrupts stay on, because suspending interrupts lost (docs/steering.md). How long interrupts
//! are deferred is a setting of the card, not of this server. `vermeil_io::Driver::busy_poll` says
//! how the kernel is asked. Tested below on invented time, and over a card that can be polled
//! (`crates/e2e/tests/steer/busy.rs`).

use rustix::io::Errno;
use std::time::Duration;
use vermeil::{CoreIndex, Handle, busy_poll};
use vermeil_log::{NoticeKind, Notices};
use vermeil_settings::BusyPoll;

/// How long a wait polls before it sleeps. The kernel's documentation advises this value for a few
/// sockets (`net.core.busy_read`).
const POLL: Duration = Duration::from_micros(50);

/// Requests per second on a core from which on the core polls. If every request ends a poll that
/// found nothing, polling takes [`POLL`] times this number, a twentieth of the cpu.
const BEGIN_PER_S: f64 = 1000.0;

/// Requests per second below which polling stops: a quarter of [`BEGIN_PER_S`], so that a rate that
/// varies by half does not switch polling on and off.
const END_PER_S: f64 = 250.0;

/// Number of moments ([`crate::admission_control::MOMENT`]) in a row with few requests that end
/// polling: one second.
const CALM_MOMENTS: u32 = 10;

/// The polling of one core.
#[derive(Debug, Default)]
pub struct CorePolling {
    polls: bool,
    /// The kernel has refused polling and is not asked again.
    refused: bool,
    queue: ConnectionQueues,
    /// Whether the queue is that of a load before. The next load may come by another queue.
    is_former: bool,
    /// Moments in a row with few requests.
    calm: u32,
    /// How often polling began.
    begun: u64,
    /// Requests that the core had answered at the last judgement.
    requests: u64,
}

/// The queues of a core's connections, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ConnectionQueues {
    /// No connection was examined yet.
    #[default]
    Unknown,
    /// The device has no queue.
    None,
    One(u32),
    Several(u32, u32),
}

/// The decision for a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PollVerdict {
    Same,
    Begin,
    End,
    /// The load is high, but the core cannot poll.
    Cannot(ConnectionQueues),
}

/// The state of a core's polling, for the status.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollingStatus {
    /// Whether the core polls now.
    pub polls: bool,
    /// How often the core began to poll.
    pub begun: u64,
}

impl CorePolling {
    /// Records the queue of a connection, if it has one.
    pub fn see(&mut self, queue: Option<u32>) {
        self.queue = match (self.queue, queue) {
            (ConnectionQueues::Unknown, None) => ConnectionQueues::None,
            (ConnectionQueues::Unknown | ConnectionQueues::None, Some(queue)) => ConnectionQueues::One(queue),
            (ConnectionQueues::One(_), Some(queue)) if self.is_former => ConnectionQueues::One(queue),
            (ConnectionQueues::One(one), Some(other)) if one != other => {
                ConnectionQueues::Several(one, other)
            }
            (known, _) => known,
        };
        self.is_former &= queue.is_none();
    }

    /// The present state.
    pub fn status(&self) -> PollingStatus {
        PollingStatus { polls: self.polls, begun: self.begun }
    }

    /// Ends a moment of `elapsed` in which the core answered `requests` requests.
    fn judge(&mut self, wanted: BusyPoll, elapsed: Duration, requests: u64) -> PollVerdict {
        let per_s = requests as f64 / elapsed.as_secs_f64();
        self.calm = if per_s < END_PER_S { self.calm.saturating_add(1) } else { 0 };
        let is_one = matches!(self.queue, ConnectionQueues::One(_));
        let ends = wanted == BusyPoll::Off || !is_one || self.calm >= CALM_MOMENTS;
        let verdict = match self.polls {
            true if ends => PollVerdict::End,
            false if wanted == BusyPoll::Load && per_s >= BEGIN_PER_S && !self.refused => match self.queue {
                ConnectionQueues::One(_) => PollVerdict::Begin,
                ConnectionQueues::Unknown => PollVerdict::Same,
                queue => PollVerdict::Cannot(queue),
            },
            _ => PollVerdict::Same,
        };
        if self.calm >= CALM_MOMENTS {
            // Kept connections may go on by the same queue, and only new ones are looked at.
            self.is_former = is_one;
            if !is_one {
                self.queue = ConnectionQueues::Unknown;
            }
        }
        verdict
    }
}

/// Ends a moment of `elapsed` on this core, which has answered `requests` requests in all.
pub fn judge(
    core: CoreIndex,
    polling: &mut CorePolling,
    wanted: BusyPoll,
    elapsed: Duration,
    requests: u64,
    notices: &Notices,
) {
    let answered = requests.saturating_sub(std::mem::replace(&mut polling.requests, requests));
    match polling.judge(wanted, elapsed, answered) {
        PollVerdict::Same => {}
        PollVerdict::Begin => begin(core, polling, notices),
        PollVerdict::End => {
            polling.polls = false;
            // The kernel granted polling before, and no kernel refuses to end it.
            let _ = busy_poll(Duration::ZERO);
        }
        PollVerdict::Cannot(queue) => cannot(core, notices, queue),
    }
}

fn begin(core: CoreIndex, polling: &mut CorePolling, notices: &Notices) {
    match busy_poll(POLL) {
        Ok(()) => {
            polling.polls = true;
            polling.begun += 1;
        }
        Err(error) => {
            polling.refused = true;
            notices.say(
                NoticeKind::NotPolled,
                format_args!("busy polling: core {} goes on without it: {error}", core.0),
            );
        }
    }
}

fn cannot(core: CoreIndex, notices: &Notices, queue: ConnectionQueues) {
    let core = core.0;
    match queue {
        ConnectionQueues::Several(one, other) => notices.say(
            NoticeKind::NotPolled,
            format_args!(
                "busy polling: not on core {core}: its connections come by several queues (NAPI {one}, {other}); vermeil \
                 steer plans one for each core"
            ),
        ),
        _ => notices.say(
            NoticeKind::NotPolled,
            format_args!(
                "busy polling: not on core {core}: its connections come by a device without queues that can be polled"
            ),
        ),
    }
}

/// Describes for people whether polling works here, by asking the kernel on the first core. `None`
/// if polling is off.
pub fn describe(handle: &Handle, wanted: BusyPoll) -> Option<String> {
    if wanted == BusyPoll::Off {
        return None;
    }
    let first = handle.cores().next()?;
    let asked = handle.spawn_on(&handle.color_on(first), async {
        busy_poll(POLL).and_then(|()| busy_poll(Duration::ZERO))
    });
    Some(match asked.wait().expect("asking the kernel does not panic") {
        Ok(()) => format!(
            "{} µs on cores with {BEGIN_PER_S} requests a second and one queue of a card",
            POLL.as_micros()
        ),
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NOTTY)) => {
            format!("not to be had: {error}; it takes Linux 6.9")
        }
        Err(error) => format!("not to be had: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission_control::MOMENT;

    /// A core whose connections come by queue 7.
    fn core() -> CorePolling {
        let mut polling = CorePolling::default();
        polling.see(Some(7));
        polling
    }

    /// A moment with requests at this rate. The helper carries out the verdict.
    fn moment(polling: &mut CorePolling, per_s: u64) -> PollVerdict {
        let verdict = polling.judge(BusyPoll::Load, MOMENT, per_s / 10);
        match verdict {
            PollVerdict::Begin => polling.polls = true,
            PollVerdict::End => polling.polls = false,
            PollVerdict::Same | PollVerdict::Cannot(_) => {}
        }
        verdict
    }

    #[test]
    fn load_starts_polling_and_calm_second_stops_polling() {
        let mut core = core();
        assert_eq!(moment(&mut core, 900), PollVerdict::Same);
        assert_eq!(moment(&mut core, 1000), PollVerdict::Begin);
        assert_eq!(moment(&mut core, 300), PollVerdict::Same, "between the bounds nothing changes");
        for _ in 1..CALM_MOMENTS {
            assert_eq!(moment(&mut core, 0), PollVerdict::Same);
        }
        assert_eq!(moment(&mut core, 0), PollVerdict::End);
        assert_eq!(
            moment(&mut core, 900),
            PollVerdict::Same,
            "and it takes as much as before to begin again"
        );
        assert_eq!(moment(&mut core, 2000), PollVerdict::Begin);
    }

    #[test]
    fn a_pause_is_no_end() {
        let mut core = core();
        moment(&mut core, 5000);
        for _ in 0..100 {
            for _ in 1..CALM_MOMENTS {
                assert_eq!(moment(&mut core, 0), PollVerdict::Same);
            }
            assert_eq!(moment(&mut core, 5000), PollVerdict::Same);
        }
    }

    #[test]
    fn a_second_queue_ends_it_until_the_load_is_over() {
        let mut core = core();
        assert_eq!(moment(&mut core, 5000), PollVerdict::Begin);
        core.see(Some(7));
        assert_eq!(moment(&mut core, 5000), PollVerdict::Same);
        core.see(Some(8));
        assert_eq!(moment(&mut core, 5000), PollVerdict::End);
        assert_eq!(moment(&mut core, 5000), PollVerdict::Cannot(ConnectionQueues::Several(7, 8)));
        for _ in 0..CALM_MOMENTS {
            moment(&mut core, 0);
        }
        core.see(Some(8));
        assert_eq!(moment(&mut core, 5000), PollVerdict::Begin);
    }

    #[test]
    fn next_load_may_come_by_another_queue() {
        let mut core = core();
        assert_eq!(moment(&mut core, 5000), PollVerdict::Begin);
        for _ in 0..CALM_MOMENTS {
            moment(&mut core, 0);
        }
        core.see(None);
        core.see(Some(8));
        assert_eq!(moment(&mut core, 5000), PollVerdict::Begin);
        core.see(Some(7));
        assert_eq!(moment(&mut core, 5000), PollVerdict::End);
    }

    #[test]
    fn a_device_without_queues_is_not_polled() {
        let mut polling = CorePolling::default();
        assert_eq!(moment(&mut polling, 5000), PollVerdict::Same, "nobody has looked");
        polling.see(None);
        assert_eq!(moment(&mut polling, 5000), PollVerdict::Cannot(ConnectionQueues::None));
        polling.see(Some(3));
        assert_eq!(
            moment(&mut polling, 5000),
            PollVerdict::Begin,
            "a connection of this machine among those of others"
        );
    }

    #[test]
    fn nothing_begins_unless_it_is_wanted_or_after_a_refusal() {
        let mut core = core();
        assert_eq!(core.judge(BusyPoll::Off, MOMENT, 1000), PollVerdict::Same);
        core.polls = true;
        assert_eq!(core.judge(BusyPoll::Off, MOMENT, 1000), PollVerdict::End, "a reload may want it no more");
        (core.polls, core.refused) = (false, true);
        assert_eq!(moment(&mut core, 5000), PollVerdict::Same);
    }
}
