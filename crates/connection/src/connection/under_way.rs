//! A request that is being answered and has no line in the access log yet.
//!
//! Each request gets exactly one line, however the request ends: with its answer, with its client
//! or with its core. Dropping is an end too, because a drain drops the tasks of connections at its
//! end. Tested through the binary (`crates/e2e/tests/e2e/log.rs`).

use bytes::Bytes;
use rustix::net::sockopt::set_socket_linger;
use vermeil_exchange::{Lost, PasswordUse, RequestName, Sent};
use vermeil_http::gateway::Oddity;
use vermeil_log::LoggedClient;
use vermeil_state::{
    core_context::{self, EndedRequest, ProgramPart},
    counts::{AnswerEnd, RequestStart},
};

/// The logged status if the client left before anything was sent, as in nginx.
const CLIENT_LEFT: u16 = 499;

/// The end of a request whose client left before the head was complete.
pub(super) const LEFT: Sent = Sent { status: CLIENT_LEFT, body_bytes: 0 };

/// The logged status if the client has not taken the earlier answers in time.
const CLIENT_LATE: u16 = 408;

/// The logged status if the server closed the connection before anything was sent.
const CUT: u16 = 503;

/// A request under way.
pub(super) struct UnderWay {
    peer: Option<LoggedClient>,
    /// The head, as received.
    request: Bytes,
    start: RequestStart,
    /// The part of an answer that was sent to the client.
    sent: Option<Sent>,
    program: Option<ProgramPart>,
    password: PasswordUse,
    /// The parts of the program's answer that were left out.
    oddities: Vec<Oddity>,
    /// Whether the program writes the whole answer, so that the first bytes are not known before.
    is_raw: bool,
    /// Whether the end of the connection is the end of the answer.
    ends_by_close: bool,
    is_over: bool,
}

impl UnderWay {
    pub(super) fn new(peer: Option<LoggedClient>, request: Bytes, start: RequestStart) -> Self {
        Self {
            peer,
            request,
            start,
            sent: None,
            program: None,
            password: PasswordUse::NotAsked,
            oddities: Vec::new(),
            is_raw: false,
            ends_by_close: false,
            is_over: false,
        }
    }

    /// Ends the request and writes its line in the log.
    pub(super) fn end(mut self, result: &Result<Sent, Lost>) {
        let nothing = |status| Sent { status, body_bytes: 0 };
        let sent = match result {
            Ok(sent) => *sent,
            Err(lost) => self.sent.unwrap_or(nothing(match lost {
                Lost::Peer => CLIENT_LEFT,
                Lost::Late => CLIENT_LATE,
                Lost::Cut | Lost::CutWithoutLength => CUT,
            })),
        };
        self.log(sent, if result.is_ok() { AnswerEnd::Complete } else { AnswerEnd::Aborted });
    }

    fn log(&mut self, sent: Sent, end: AnswerEnd) {
        self.is_over = true;
        let (peer, received, start) = (self.peer, &self.request[..], self.start);
        let (program, password) = (self.program, self.password);
        core_context::try_with(|local| {
            // Without a log the counts need no request.
            let is_logged = local.records.log.is_on();
            let request = is_logged.then(|| vermeil_http::parse_again(received)).flatten();
            let request = request.as_ref();
            let peer = peer.filter(|_| request.is_some());
            local.end_request(EndedRequest { peer, received, request, start, sent, end, program, password });
        });
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.is_over {
            self.log(self.sent.unwrap_or(Sent { status: CUT, body_bytes: 0 }), AnswerEnd::Aborted);
        }
    }
}

impl super::Connection {
    /// Begins to answer a request that has to wait.
    pub fn begin(&mut self, request: Bytes, start: RequestStart) {
        self.under_way = Some(Box::new(UnderWay::new(self.client.logged, request, start)));
    }

    /// Ends the request that was begun.
    pub fn end(&mut self, result: &Result<Sent, Lost>) {
        if let Some(under_way) = self.under_way.take() {
            if under_way.ends_by_close && result.is_ok() {
                // The client gets all sent bytes and an end, as with any other answer.
                let _ = self.stream.with_fd(|fd| set_socket_linger(fd, None));
            }
            under_way.end(result);
        }
    }

    /// Notes how much of the answer was handed to the client.
    pub fn note(&mut self, sent: Sent) {
        if let Some(under_way) = &mut self.under_way {
            under_way.sent = Some(sent);
        }
    }

    /// Notes that a program was asked. Several programs after redirects are one request.
    pub fn note_program(&mut self, name: RequestName, took_ns: u64) {
        if let Some(under_way) = &mut self.under_way {
            let before = under_way.program.map_or(0, |program| program.took_ns);
            under_way.program = Some(ProgramPart { name, took_ns: before + took_ns });
        }
    }

    /// Notes that rules asked the request for a password.
    pub fn note_password(&mut self) {
        if let Some(under_way) = &mut self.under_way {
            under_way.password = PasswordUse::Asked;
        }
    }

    /// Notes that the answer is a program's, unchanged.
    pub(crate) fn note_raw(&mut self) {
        if let Some(under_way) = &mut self.under_way {
            under_way.is_raw = true;
        }
        self.begin_until_close();
    }

    /// The end of the connection will be the end of the answer, and the client cannot tell whether
    /// all of the answer came. So every end before `end` resets the connection, also if a stop
    /// drops the task.
    pub(crate) fn begin_until_close(&mut self) {
        if let Some(under_way) = &mut self.under_way {
            under_way.ends_by_close = true;
            let _ = self.stream.with_fd(vermeil_io::reset_when_closed);
        }
    }

    /// Whether the end of the connection is the end of the answer.
    pub fn ends_by_close(&self) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.ends_by_close)
    }

    /// Whether the answer is a program's, unchanged.
    pub fn is_raw(&self) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.is_raw)
    }

    /// Whether the next sent bytes begin with a status line.
    pub(super) fn is_before_head(&self) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.sent.is_none() && !under_way.is_raw)
    }

    /// Notes the parts that were left out of the program's answer.
    pub(crate) fn note_oddities(&mut self, oddities: &[Oddity]) {
        if let Some(under_way) = &mut self.under_way {
            under_way.oddities.extend_from_slice(oddities);
        }
    }

    /// Takes the parts that were left out.
    pub fn take_oddities(&mut self) -> Vec<Oddity> {
        self.under_way.as_mut().map(|under_way| std::mem::take(&mut under_way.oddities)).unwrap_or_default()
    }
}
