//! The counts of one core in one interval, and sums of counts.
//!
//! Leaves out the beginning and the end of an interval (`run`). Tested here.

use std::time::Duration;

use rustls::HandshakeKind;
use serde::{Deserialize, Serialize};

use super::{Reasons, StatusCodes, Times};
use crate::fault::{ExchangeFailure, Fault};

/// The counts of a part of the requests: of one page, or of one set of addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedPart {
    /// Requests with a complete answer of an expected status and content.
    pub good: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes received in complete answers.
    pub bytes: u64,
    /// Times from the intended start to the end.
    pub response: Times,
    /// Good answers of good quality, and good answers of at least tolerable quality.
    pub within: [u64; 2],
}

impl CountedPart {
    /// Resets all counts and keeps the memory.
    fn clear(&mut self) {
        let Self { good, failed, bytes, response, within } = self;
        (*good, *failed, *bytes, *within) = Default::default();
        response.clear();
    }

    /// Adds the counts of another part.
    pub fn merge(&mut self, other: &Self) {
        self.good += other.good;
        self.failed += other.failed;
        self.bytes += other.bytes;
        self.response.merge(&other.response);
        self.within[0] += other.within[0];
        self.within[1] += other.within[1];
    }
}

/// The part at `index`, created if missing.
pub fn part(parts: &mut Vec<CountedPart>, index: usize) -> &mut CountedPart {
    if parts.len() <= index {
        parts.resize_with(index + 1, CountedPart::default);
    }
    &mut parts[index]
}

/// The counts of one core, or of many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Requests begun: in a closed loop the sent requests, in an open loop the requests that were
    /// due.
    pub begun: u64,
    /// Requests with a complete answer of an expected status and content.
    pub good: u64,
    /// Good answers of good quality, and good answers of at least tolerable quality.
    pub within: [u64; 2],
    /// Pages that at the end were under way for longer than the limit of good quality, and of
    /// tolerable quality.
    pub overdue: [u64; 2],
    /// Answered requests on the wire, if a page has several; 0 if a request is a page.
    pub objects: u64,
    /// The times of `objects`.
    pub object_times: Times,
    /// Bytes received, with heads and framing, also in failed answers.
    pub bytes: u64,
    /// Bytes of content received in complete answers.
    pub content_bytes: u64,
    /// Answers by the first digit of the status. The first entry is for digits out of range.
    pub statuses: [u64; 6],
    /// Answers by status.
    pub codes: StatusCodes,
    /// Failed requests, by [`Fault`].
    pub faults: [u64; Fault::ALL.len()],
    /// The violations in malformed answers.
    pub malformed: Reasons,
    /// Connections made.
    pub connections: u64,
    /// Full and resumed TLS handshakes of these connections.
    #[serde(default)]
    pub handshakes: [u64; 2],
    /// Idle connections that the server closed before the next request. The request then used a new
    /// connection.
    pub reopened: u64,
    /// Requests that were sent again, once, because the connection ended while the requests were on
    /// their way.
    pub repeated: u64,
    /// Requests after an announced end of a connection, which the server did not begin. The
    /// requests used another connection.
    pub deferred: u64,
    /// Connections that the server left open although both sides had agreed on the end. The
    /// injector closed these connections.
    pub left_open: u64,
    /// Good answers: the time from the intended start of a request to the end of the answer.
    pub response: Times,
    /// Good answers: the time from the sending of a request to the end of the answer. Only in open
    /// loops; otherwise equal to `response`.
    pub service: Times,
    /// Failed requests: the time from the intended start to the failure.
    pub failed_response: Times,
    /// The time to open a connection.
    pub connect: Times,
    /// Lateness of requests with an intended start: the injector's delay.
    pub late: Times,
    /// Lateness of a timer that every core sets repeatedly: the delay of the core's loop.
    pub delay: Times,
    /// By page, in the order of the workload; empty with a single page.
    pub pages: Vec<CountedPart>,
    /// By set of addresses; empty with a single set.
    pub sets: Vec<CountedPart>,
}

impl Tally {
    /// Counts a failed request.
    pub fn fault(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    /// Counts `count` requests that failed for one reason after the time `took`.
    pub(crate) fn failure(&mut self, failure: &ExchangeFailure, count: u64, took: Duration) {
        self.failed_response.record_n(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), count);
        self.faults[failure.fault as usize] += count;
        if let Some(words) = &failure.malformed {
            self.malformed.count(words, count);
        }
    }

    /// Counts a connection that took `took` to open, over TLS with a handshake of this kind.
    pub(crate) fn connected(&mut self, took: Duration, handshake: Option<HandshakeKind>) {
        self.connections += 1;
        self.connect.record(took);
        match handshake {
            None => {}
            Some(HandshakeKind::Resumed) => self.handshakes[1] += 1,
            Some(_) => self.handshakes[0] += 1,
        }
    }

    /// Counts an answer by its status.
    pub fn status(&mut self, status: u16) {
        self.codes.count(status, 1);
        let class = usize::from(status / 100);
        self.statuses[if class < self.statuses.len() { class } else { 0 }] += 1;
    }

    /// Number of requests with this fault.
    pub fn faults_of(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }

    /// Number of failed requests.
    pub fn failed(&self) -> u64 {
        self.faults.iter().sum()
    }

    /// Requests that have ended.
    pub fn ended(&self) -> u64 {
        self.good + self.failed()
    }

    /// The share of ended requests that failed, 0 to 1.
    pub fn failed_share(&self) -> f64 {
        if self.ended() == 0 { 0.0 } else { self.failed() as f64 / self.ended() as f64 }
    }

    /// Good answers per second of `window`.
    pub fn rate(&self, window: Duration) -> f64 {
        per_second(self.good, window)
    }

    /// Bytes received per second of `window`.
    pub fn byte_rate(&self, window: Duration) -> f64 {
        per_second(self.bytes, window)
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Self) {
        let plain = |own: &mut u64, other: u64| *own += other;
        plain(&mut self.begun, other.begun);
        plain(&mut self.good, other.good);
        plain(&mut self.within[0], other.within[0]);
        plain(&mut self.within[1], other.within[1]);
        plain(&mut self.overdue[0], other.overdue[0]);
        plain(&mut self.overdue[1], other.overdue[1]);
        plain(&mut self.objects, other.objects);
        plain(&mut self.bytes, other.bytes);
        plain(&mut self.content_bytes, other.content_bytes);
        plain(&mut self.connections, other.connections);
        plain(&mut self.handshakes[0], other.handshakes[0]);
        plain(&mut self.handshakes[1], other.handshakes[1]);
        plain(&mut self.reopened, other.reopened);
        plain(&mut self.repeated, other.repeated);
        plain(&mut self.deferred, other.deferred);
        plain(&mut self.left_open, other.left_open);
        self.codes.merge(&other.codes);
        for (own, other) in self.statuses.iter_mut().zip(other.statuses) {
            *own += other;
        }
        for (own, other) in self.faults.iter_mut().zip(other.faults) {
            *own += other;
        }
        self.malformed.merge(&other.malformed);
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.failed_response.merge(&other.failed_response);
        self.connect.merge(&other.connect);
        self.late.merge(&other.late);
        self.delay.merge(&other.delay);
        self.object_times.merge(&other.object_times);
        for (index, page) in other.pages.iter().enumerate() {
            part(&mut self.pages, index).merge(page);
        }
        for (index, set) in other.sets.iter().enumerate() {
            part(&mut self.sets, index).merge(set);
        }
    }

    /// Resets all counts and keeps the memory, because the core's users wait meanwhile.
    pub fn clear(&mut self) {
        // Without `..`, so that the compiler reports a missing field.
        let Self {
            begun,
            good,
            within,
            overdue,
            objects,
            object_times,
            bytes,
            content_bytes,
            statuses,
            codes,
            faults,
            malformed,
            connections,
            handshakes,
            reopened,
            repeated,
            deferred,
            left_open,
            response,
            service,
            failed_response,
            connect,
            late,
            delay,
            pages,
            sets,
        } = self;
        (*begun, *good, *within, *overdue, *objects) = Default::default();
        (*bytes, *content_bytes, *statuses, *faults) = Default::default();
        (*connections, *handshakes, *reopened, *repeated, *deferred, *left_open) = Default::default();
        malformed.clear();
        codes.clear();
        [object_times, response, service, failed_response, connect, late, delay]
            .into_iter()
            .for_each(Times::clear);
        pages.iter_mut().chain(sets).for_each(CountedPart::clear);
    }

    /// Moves all counts into `into`, and resets the counts here.
    pub fn drain_into(&mut self, into: &mut Self) {
        into.merge(self);
        self.clear();
    }
}

fn per_second(count: u64, window: Duration) -> f64 {
    if window.is_zero() { 0.0 } else { count as f64 / window.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_intervals() {
        let (mut core, mut sum) = (Tally::default(), Tally::default());
        for round in 0..3u64 {
            core.begun += 1;
            core.good += round;
            core.fault(Fault::Timeout);
            core.status(if round == 2 { 999 } else { 200 });
            core.response.record(Duration::from_millis(round));
            core.drain_into(&mut sum);
            assert_eq!(core.ended(), 0);
            assert_eq!(core.response.count(), 0);
        }
        assert_eq!((sum.begun, sum.good, sum.failed(), sum.response.count()), (3, 3, 3, 3));
        assert_eq!((sum.statuses[2], sum.statuses[0]), (2, 1));
        assert_eq!(sum.failed_share(), 0.5);
    }
}
