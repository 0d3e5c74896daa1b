//! Checks whether a run measured the server, or some other limit.
//!
//! Every gate has a bound, and the bound's comment names its source. A run that fails a gate is
//! kept, but every result shows the reason. Tested here and through `tests/`.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::fault::Fault;
use crate::measure::Times;
use crate::plan::UNTIL_DONE;
use crate::run::{OpenWaits, Outcome};

/// The reason why a run is not trustworthy.
#[derive(Clone, Debug, PartialEq)]
pub enum ValidityWarning {
    /// A core of the injector was busy nearly all the time, so the core limited the load.
    InjectorCpu {
        /// The busiest core's share.
        busy: f64,
    },
    /// The injector's loops were late, so the times contain the injector's delay.
    LoopDelay {
        /// The share of timers that were later than `limit`.
        share: f64,
        /// The accepted delay.
        limit: Duration,
    },
    /// Requests began later than intended, so the load was not the requested load.
    LateStarts {
        /// The share of requests that were later than `limit`.
        share: f64,
        /// The accepted delay.
        limit: Duration,
    },
    /// The users of an agent began after the common start, so the load was not the requested load.
    LateRun {
        /// The time from the common start to the start of the users.
        late: Duration,
    },
    /// The injector ran out of descriptors or local ports.
    Sockets {
        /// Number of failed requests.
        requests: u64,
    },
    /// An open loop had no free connection for arrivals.
    Backlog {
        /// Arrivals that were due and never begun.
        missed: u64,
        /// Requests that had begun and not ended at the end.
        unfinished: u64,
        /// The maximum number of requests under way.
        connections: u64,
    },
    /// The hypervisor gave the time of the injector's cpus to other machines.
    Stolen {
        /// The share of stolen time.
        share: f64,
    },
    /// A network card was at its maximum speed.
    Network {
        /// The name of the card.
        card: String,
        /// The share of the card's speed.
        share: f64,
    },
    /// The network lost segments.
    Losses {
        /// The share of retransmitted segments.
        share: f64,
    },
    /// Content was wrong.
    WrongBytes {
        /// Number of answers with wrong content.
        answers: u64,
    },
    /// Pages of the support site found no back end.
    NoBackEnd {
        /// Number of pages.
        pages: u64,
    },
    /// Requests failed.
    Failures {
        /// Number of failed requests.
        failed: u64,
        /// The share in all finished requests.
        share: f64,
    },
    /// At the end, the server had sent no bytes of a request's answer for longer than any answer
    /// had taken, so the server had stopped answering.
    Hanging {
        /// Number of requests under way.
        unfinished: u64,
        /// The longest time without bytes of an answer.
        silence: Duration,
        /// The longest time of a finished request; zero without a finished request.
        longest: Duration,
    },
    /// Connections ended while requests were on their way, and the injector repeated the requests.
    Repeated {
        /// Number of repeated requests.
        requests: u64,
        /// The share in all begun requests.
        share: f64,
    },
    /// A run over `http://` had no good answer, and the server speaks TLS.
    SpeaksTls {
        /// The address of the server.
        addr: SocketAddr,
    },
    /// The window was too short for a result.
    TooShort {
        /// Good answers in the window.
        answers: u64,
        /// Length of the window.
        window: Duration,
        /// The requests without a good answer.
        others: OtherRequests,
    },
    /// The user ended the run before the end of the window.
    Interrupted {
        /// The actual window.
        window: Duration,
        /// The planned window.
        planned: Duration,
    },
    /// An agent was lost during the run.
    AgentLost {
        /// The agent and the reason.
        agent: String,
    },
}

/// The state of the requests in a window without a good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherRequests {
    /// No request was due.
    NoneDue,
    /// An answer had begun to arrive, and no request had failed.
    Arriving,
    /// Requests failed, or the server sent nothing.
    Unanswered,
}

impl OtherRequests {
    fn of(outcome: &Outcome) -> Self {
        let total = &outcome.total;
        if total.begun + total.ended() + outcome.unfinished + outcome.missed == 0 {
            Self::NoneDue
        } else if total.bytes > 0 && total.failed() == 0 {
            Self::Arriving
        } else {
            Self::Unanswered
        }
    }
}

/// The bounds of a trustworthy run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gates {
    /// Busy share of a core above which the core limits the load. 0.95: the pulse of a core
    /// measures the busy share to about a hundredth, and a core with waits is below.
    pub busy_max: f64,
    /// Loop delay of 99 of 100 timers. `None`: half of the 99th percentile of response times, at
    /// least 1 ms. Above this bound, the reported times are the injector's as much as the server's.
    pub delay_max: Option<Duration>,
    /// Stolen time. 2 %: the limit of this project's benches.
    pub stolen_max: f64,
    /// Speed of a card. 0.9: with frame headers and acknowledgements, the card is full.
    pub card_max: f64,
    /// Retransmitted segments. 1 %: a clean network has a hundred times less.
    pub resent_max: f64,
    /// Share of arrivals that were due and not begun at the end. 1 %: a short peak at the end of a
    /// window of 10 s is a tenth of that.
    pub missed_max: f64,
    /// Share of failed requests. 1 %: with more failures, a percentile of the good answers hides
    /// more than it shows.
    pub failed_max: f64,
    /// Share of requests that were repeated because the connection had ended. 1 %, as for failures.
    pub repeated_max: f64,
    /// Least number of good answers. 100, the minimum of SPECweb2005 for each page.
    pub answers_min: u64,
    /// Shortest window. A second: a hundred beats of the pulse, so `LATE_MAX` is a whole beat.
    pub window_min: Duration,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            busy_max: 0.95,
            delay_max: None,
            stolen_max: 0.02,
            card_max: 0.9,
            resent_max: 0.01,
            missed_max: 0.01,
            failed_max: 0.01,
            repeated_max: 0.01,
            answers_min: 100,
            window_min: Duration::from_secs(1),
        }
    }
}

/// Share of timers or requests that may be later than the bound.
const LATE_MAX: f64 = 0.01;
/// A shorter wait at the end of a run does not show a stopped server. A guess: ten times a slow
/// page.
const HANGING_FLOOR: Duration = Duration::from_millis(100);

/// A shorter delay does not matter in any percentile in use.
const DELAY_FLOOR: Duration = Duration::from_millis(1);

impl Gates {
    /// The gates of a run whose answers are good within `good`. The injector's delay may be a
    /// twentieth of `good`, and at least `DELAY_FLOOR`.
    pub fn for_quality(good: Duration) -> Self {
        Self { delay_max: Some((good / 20).max(DELAY_FLOOR)), ..Self::default() }
    }

    /// The doubts about `outcome`.
    pub fn judge(&self, outcome: &Outcome) -> Vec<ValidityWarning> {
        let total = &outcome.total;
        let mut doubts = Vec::new();
        let mut doubt = |holds: bool, doubt: ValidityWarning| {
            if holds {
                doubts.push(doubt);
            }
        };
        let wrong = total.faults_of(Fault::WrongBytes);
        doubt(wrong > 0, ValidityWarning::WrongBytes { answers: wrong });
        let pages = total.faults_of(Fault::NoBackEnd);
        doubt(pages > 0, ValidityWarning::NoBackEnd { pages });
        let (window, planned) = (outcome.window, outcome.planned);
        doubt(outcome.interrupted, ValidityWarning::Interrupted { window, planned });
        for agent in &outcome.lost {
            doubt(true, ValidityWarning::AgentLost { agent: agent.clone() });
        }
        let answers = total.good;
        let short = answers < self.answers_min || window < self.window_min;
        doubt(short, ValidityWarning::too_short(outcome));
        let busy = outcome.cores_busy.iter().copied().fold(0.0, f64::max);
        doubt(busy > self.busy_max, ValidityWarning::InjectorCpu { busy });
        let limit = self.delay_max.unwrap_or(DELAY_FLOOR.max(total.response.percentile(99.0) / 2));
        let later = |times: &Times| 1.0 - times.share_within(limit);
        let share = later(&total.delay);
        doubt(share > LATE_MAX, ValidityWarning::LoopDelay { share, limit });
        let share = later(&total.late);
        // In an open loop the lateness includes the wait for a connection. That wait has a count
        // and a gate of its own.
        doubt(!outcome.is_open && share > LATE_MAX, ValidityWarning::LateStarts { share, limit });
        let late = outcome.began_late;
        doubt(late > DELAY_FLOOR, ValidityWarning::LateRun { late });
        let (failed, share) = (total.failed(), total.failed_share());
        doubt(failed > 0 && share >= self.failed_max, ValidityWarning::Failures { failed, share });
        if let Some(OpenWaits { silence, .. }) = outcome.waits {
            let longest = total.response.max().max(total.failed_response.max());
            let (unfinished, fine) = (outcome.unfinished.max(1), (2 * longest).max(HANGING_FLOOR));
            doubt(silence > fine, ValidityWarning::Hanging { unfinished, silence, longest });
        }
        let (requests, share) = (total.repeated, total.repeated as f64 / total.begun.max(1) as f64);
        doubt(share > self.repeated_max, ValidityWarning::Repeated { requests, share });
        let (unfinished, connections) = (outcome.unfinished, outcome.users as u64);
        let all_taken = outcome.is_open && unfinished >= connections && connections > 0;
        let missed = outcome.missed;
        let lost = missed as f64 > self.missed_max * (missed + total.begun) as f64;
        doubt(all_taken || lost, ValidityWarning::Backlog { missed, unfinished, connections });
        let requests = total.faults_of(Fault::Local);
        doubt(requests > 0, ValidityWarning::Sockets { requests });
        doubt(outcome.stolen > self.stolen_max, ValidityWarning::Stolen { share: outcome.stolen });
        doubt(outcome.resent > self.resent_max, ValidityWarning::Losses { share: outcome.resent });
        if let Some((card, share)) = outcome.card.clone() {
            doubt(share > self.card_max, ValidityWarning::Network { card, share });
        }
        doubts
    }
}

impl ValidityWarning {
    /// The doubt about an `outcome` that is too short for a result.
    pub(crate) fn too_short(outcome: &Outcome) -> Self {
        let others = OtherRequests::of(outcome);
        Self::TooShort { answers: outcome.total.good, window: outcome.window, others }
    }

    /// Whether the doubt concerns the speed of the server, not the correctness of answers.
    fn is_of_speed(&self) -> bool {
        match self {
            Self::TooShort { answers, window, .. } => *answers > 0 && !window.is_zero(),
            Self::InjectorCpu { .. }
            | Self::LoopDelay { .. }
            | Self::LateStarts { .. }
            | Self::LateRun { .. }
            | Self::Stolen { .. }
            | Self::Network { .. }
            | Self::Losses { .. } => true,
            Self::Sockets { .. }
            | Self::Backlog { .. }
            | Self::WrongBytes { .. }
            | Self::NoBackEnd { .. }
            | Self::Failures { .. }
            | Self::Hanging { .. }
            | Self::Repeated { .. }
            | Self::SpeaksTls { .. }
            | Self::Interrupted { .. }
            | Self::AgentLost { .. } => false,
        }
    }
}

/// Whether a run with `doubts` is valid. A small run that ended after the requested number of
/// requests is a check of answers. Doubts about speed do not make such a run invalid, but results
/// show the doubts.
pub(crate) fn is_valid(outcome: &Outcome, doubts: &[ValidityWarning]) -> bool {
    let is_small = doubts.iter().any(|doubt| matches!(doubt, ValidityWarning::TooShort { .. }));
    let is_check = outcome.is_counted && is_small;
    doubts.iter().all(|doubt| is_check && doubt.is_of_speed())
}

impl fmt::Display for ValidityWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: &f64| share * 100.0;
        match self {
            Self::InjectorCpu { busy } => write!(
                f,
                "the injector's cpu was the limit: a core was busy {:.0} % of the time",
                percent(busy)
            ),
            Self::LoopDelay { share, limit } => write!(
                f,
                "the injector's own delay is in the times: {:.1} % of its timers came over {limit:.1?} late, 1 % would be fine",
                percent(share)
            ),
            Self::LateStarts { share, limit } => write!(
                f,
                "requests began late, so the load was less than asked for: {:.1} % over {limit:.1?} late, 1 % would be fine",
                percent(share)
            ),
            Self::LateRun { late } => write_late_run(f, *late),
            Self::Failures { failed, share } => write!(
                f,
                "{failed} requests failed, {:.1} % of all: the response times are those of the others",
                percent(share)
            ),
            Self::Hanging { unfinished, silence, longest } => {
                write_hanging(f, *unfinished, *silence, *longest)
            }
            Self::Repeated { requests, share } => write!(
                f,
                "{requests} requests ({:.1} %) were sent again because their connection ended: a server that fails at once looks \
                 the same as a server that closes idle connections",
                percent(share)
            ),
            Self::SpeaksTls { addr } => {
                write!(f, "the server at {addr} speaks TLS: write https:// in place of http://")
            }
            Self::Sockets { requests } => {
                write!(f, "the injector had no descriptor or local port left for {requests} requests")
            }
            Self::Backlog { missed, unfinished, connections } => write!(
                f,
                "at the end {missed} arrivals were due and not begun, and {unfinished} begun and not finished: the rate cannot be held, \
                 or needs more than {connections} connections"
            ),
            Self::Stolen { share } => {
                write!(f, "the hypervisor took {:.1} % of the time of the injector's cpus", percent(share))
            }
            Self::Network { card, share } => {
                write!(f, "the network was the limit: {card} was at {:.0} % of its speed", percent(share))
            }
            Self::Losses { share } => {
                write!(f, "the network lost segments: {:.1} % were sent again", percent(share))
            }
            Self::WrongBytes { answers } => write!(f, "the content of {answers} answers was wrong"),
            Self::NoBackEnd { pages } => write!(
                f,
                "{pages} pages found no back end: start `vermeil load backend`, or name its address with \
                 `load files --backend`"
            ),
            Self::TooShort { answers, window, others } => write_too_short(f, *answers, *window, *others),
            Self::Interrupted { window, planned: UNTIL_DONE } => {
                write!(f, "ended early: the window was {window:.1?}, and not everything was done")
            }
            Self::Interrupted { window, planned } => {
                write!(f, "ended early: the window was {window:.1?} of {planned:.1?}")
            }
            Self::AgentLost { agent } => write!(f, "an agent was lost: {agent}"),
        }
    }
}

fn write_late_run(f: &mut fmt::Formatter<'_>, late: Duration) -> fmt::Result {
    write!(
        f,
        "the users of an agent began {late:.1?} after the common start: take other work off the agent's machine"
    )
}

fn write_hanging(
    f: &mut fmt::Formatter<'_>,
    unfinished: u64,
    silence: Duration,
    longest: Duration,
) -> fmt::Result {
    let (s, were) = if unfinished == 1 { ("", "was") } else { ("s", "were") };
    write!(
        f,
        "{unfinished} request{s} {were} unfinished at the end, and the server sent nothing for {silence:.1?}"
    )?;
    if !longest.is_zero() {
        write!(f, ", while the longest other request took {longest:.1?}")?;
    }
    f.write_str(": the server had stopped answering")
}

fn write_too_short(
    f: &mut fmt::Formatter<'_>,
    answers: u64,
    window: Duration,
    others: OtherRequests,
) -> fmt::Result {
    match (answers, window) {
        (_, Duration::ZERO) => f.write_str(
            "the run was over before its window began: ask for more requests, or shorten --ramp-up and --warm-up",
        ),
        (0, window) if others == OtherRequests::NoneDue => write!(
            f,
            "no request was due in {window:.1?}: give a longer --duration, a higher --rate or shorter --think times"
        ),
        (0, window) if others == OtherRequests::Arriving => {
            write!(f, "not one answer ended in {window:.1?}, and bytes arrived: give a longer --duration")
        }
        (0, window) => {
            write!(f, "not one good answer in {window:.1?}: is the server up, and the URL one of its own?")
        }
        (answers, window) => write!(
            f,
            "too little to say anything: {answers} good answers in {window:.1?}; a longer --duration says more, or more users \
             (--connections, --users-from)"
        ),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::measure::Tally;

    /// A run without any doubt.
    pub(crate) fn fine() -> Outcome {
        let mut total = Tally { good: 1000, begun: 1000, ..Tally::default() };
        total.response.record_n(10_000_000, 1000);
        total.delay.record_n(50_000, 1000);
        Outcome {
            total,
            window: Duration::from_secs(10),
            planned: Duration::from_secs(10),
            intervals: Vec::new(),
            cpu: Duration::from_secs(1),
            cores_busy: vec![0.5, 0.6],
            stolen: 0.0,
            resent: 0.0,
            card: Some(("eth0".into(), 0.5)),
            users: 10,
            began_late: Duration::ZERO,
            unfinished: 0,
            waits: None,
            missed: 0,
            is_counted: false,
            is_open: false,
            interrupted: false,
            agents: Vec::new(),
            lost: Vec::new(),
            io: String::new(),
        }
    }

    /// Waits of ten seconds, without bytes for `ms`.
    fn silent_for(ms: u64) -> Option<OpenWaits> {
        Some(OpenWaits { oldest: Duration::from_secs(10), silence: Duration::from_millis(ms) })
    }

    fn doubts(change: impl FnOnce(&mut Outcome)) -> Vec<ValidityWarning> {
        let mut outcome = fine();
        change(&mut outcome);
        Gates::default().judge(&outcome)
    }

    #[test]
    fn a_fine_run_raises_no_doubt() {
        assert_eq!(doubts(|_| {}), []);
    }

    #[test]
    fn each_gate_closes() {
        type Change = fn(&mut Outcome);
        let planted: [(Change, &str); 19] = [
            (|o| o.cores_busy[1] = 0.99, "busy 99 %"),
            (|o| o.total.delay.record_n(20_000_000, 100), "own delay"),
            (|o| o.total.late.record_n(20_000_000, 100), "began late"),
            (|o| o.began_late = Duration::from_secs(2), "began 2.0s after the common start"),
            (|o| o.total.faults[Fault::Local as usize] = 3, "3 requests"),
            (|o| (o.is_open, o.unfinished) = (true, 10), "10 begun and not finished"),
            (|o| (o.is_open, o.missed) = (true, 20), "20 arrivals were due and not begun"),
            (|o| o.total.faults[Fault::Status as usize] = 50, "50 requests failed, 4.8 %"),
            (|o| o.waits = silent_for(3000), "the server sent nothing for 3.0s, while the longest other"),
            (|o| o.total.repeated = 30, "30 requests (3.0 %)"),
            (|o| o.stolen = 0.05, "5.0 %"),
            (|o| o.card = Some(("eth0".into(), 0.95)), "eth0 was at 95 %"),
            (|o| o.resent = 0.02, "lost segments"),
            (|o| o.total.faults[Fault::WrongBytes as usize] = 1, "content of 1"),
            (|o| o.total.faults[Fault::NoBackEnd as usize] = 1, "start `vermeil load backend`"),
            (|o| o.window = Duration::from_millis(10), "too little"),
            (|o| o.window = Duration::ZERO, "before its window began"),
            (|o| o.interrupted = true, "ended early"),
            (|o| o.lost.push("a:1 closed".into()), "a:1 closed"),
        ];
        for (change, said) in planted {
            let doubts = doubts(change);
            assert_eq!(doubts.len(), 1, "{said}: {doubts:?}");
            assert!(doubts[0].to_string().contains(said), "{}", doubts[0]);
        }
    }

    /// Regression: every short run ended with an exit code of failure, so no pipeline could use
    /// short runs.
    #[test]
    fn a_small_run_that_was_counted_is_valid_if_all_is_answered() {
        let valid = |change: fn(&mut Outcome)| {
            let mut outcome = fine();
            (outcome.total.good, outcome.window) = (20, Duration::from_millis(50));
            (outcome.is_counted, outcome.cores_busy[0]) = (true, 1.0);
            change(&mut outcome);
            let doubts = Gates::default().judge(&outcome);
            assert!(doubts.iter().any(|doubt| matches!(doubt, ValidityWarning::TooShort { .. })));
            is_valid(&outcome, &doubts)
        };
        assert!(valid(|_| {}));
        assert!(!valid(|o| o.is_counted = false), "a measurement that is too short");
        assert!(!valid(|o| o.total.good = 0), "nothing good");
        assert!(!valid(|o| o.total.faults[Fault::Status as usize] = 1), "one of 21 failed");
        assert!(!valid(|o| o.total.faults[Fault::WrongBytes as usize] = 1));
    }

    /// Regression: ten users waited for seconds when the run ended, and no metric showed the wait.
    #[test]
    fn waiting_as_long_as_others_is_no_hanging() {
        let hanging = |silence: u64| !doubts(|o| o.waits = silent_for(silence)).is_empty();
        assert!(!hanging(15) && !hanging(90) && hanging(110));
    }

    /// Regression: the cure asked whether the server was up, while the server was sending.
    #[test]
    fn answers_longer_than_the_window_ask_for_a_longer_window() {
        let said = |bytes| doubts(|o| (o.total.good, o.total.bytes) = (0, bytes))[0].to_string();
        assert!(said(7).contains("not one answer ended in 10.0s"), "{}", said(7));
        assert!(said(0).contains("is the server up"), "{}", said(0));
    }

    /// Regression: the cure asked whether the server was up, and no request had been sent.
    #[test]
    fn window_without_requests_asks_for_more_requests() {
        let said = doubts(|o| (o.total.good, o.total.begun) = (0, 0))[0].to_string();
        assert!(said.contains("no request was due in 10.0s") && said.contains("--rate"), "{said}");
        let missed = doubts(|o| (o.total.good, o.total.begun, o.missed) = (0, 0, 5))[0].to_string();
        assert!(missed.contains("is the server up"), "{missed}");
    }

    /// Regression: the message compared with the time of other requests, and there were none.
    #[test]
    fn silence_without_other_requests_names_none() {
        let said = doubts(|o| (o.total.response, o.waits) = (Times::default(), silent_for(3000)));
        let said: String = said.iter().map(ToString::to_string).collect();
        assert!(said.contains("nothing for 3.0s: the server had stopped"), "{said}");
    }

    /// Regression: the day that stands for "until everything is done" was reported as if the user
    /// had asked for a day.
    #[test]
    fn run_without_plan_has_verdict_without_plan() {
        let said = doubts(|o| (o.interrupted, o.planned) = (true, UNTIL_DONE))[0].to_string();
        assert!(said.contains("ended early") && !said.contains("86400"), "{said}");
    }

    #[test]
    fn a_run_with_quality_allows_a_twentieth() {
        let mut outcome = fine();
        outcome.total.delay.record_n(100_000_000, 100);
        assert_eq!(Gates::for_quality(Duration::from_secs(3)).judge(&outcome), []);
        assert_eq!(Gates::for_quality(Duration::from_secs(1)).judge(&outcome).len(), 1);
    }
}
