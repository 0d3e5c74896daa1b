//! A request that is being answered and has no line in the access log yet.
//!
//! Each has exactly one, however it ends: with its answer, with its client or its core. So that
//! none is lost when a connection's task is dropped, as at the end of a drain, dropping is an end
//! too. Tested through the binary (`crates/cli/tests/e2e/log.rs`).

use super::Lost;
use crate::{answer::Sent, local};
use bytes::Bytes;
use std::net::IpAddr;
use vermeil_http::{Parsed, gateway::Oddity};

/// What the log says where the client has left before anything was sent, as nginx.
const CLIENT_LEFT: u16 = 499;

/// The end of a request whose client has left before its head was whole.
pub(super) const LEFT: Sent = Sent { status: CLIENT_LEFT, body_bytes: 0 };

/// What the log says where the client has not taken the answers before this one in time.
const CLIENT_LATE: u16 = 408;

/// What the log says where the server has cut the connection before anything was sent.
const CUT: u16 = 503;

/// A request under way.
pub(super) struct UnderWay {
    peer: Option<IpAddr>,
    /// Its head, as received.
    request: Bytes,
    /// What the client was sent of an answer.
    sent: Option<Sent>,
    /// What was left out of the answer of its program.
    oddities: Vec<Oddity>,
    /// Whether its program writes the whole answer, whose first bytes are not known before.
    is_raw: bool,
    is_over: bool,
}

impl UnderWay {
    pub(super) fn new(peer: Option<IpAddr>, request: Bytes) -> Self {
        Self { peer, request, sent: None, oddities: Vec::new(), is_raw: false, is_over: false }
    }

    /// The end, and the line in the log.
    pub(super) fn end(mut self, result: &Result<Sent, Lost>) {
        let nothing = |status| Sent { status, body_bytes: 0 };
        let sent = match result {
            Ok(sent) => *sent,
            Err(lost) => self.sent.unwrap_or(nothing(match lost {
                Lost::Peer => CLIENT_LEFT,
                Lost::Late => CLIENT_LATE,
                Lost::Moved | Lost::Cut => CUT,
            })),
        };
        self.log(sent);
    }

    fn log(&mut self, sent: Sent) {
        self.is_over = true;
        local::try_with(|local| {
            if local.log.is_on() {
                let limits = local.server.limits.clone();
                // It was parsed from these bytes before.
                if let Parsed::Complete { request, .. } = vermeil_http::parse(&self.request, &limits) {
                    local.log_answer(self.peer, &self.request, Some(&request), sent);
                }
            }
        });
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.is_over {
            self.log(self.sent.unwrap_or(Sent { status: CUT, body_bytes: 0 }));
        }
    }
}

impl super::Connection {
    /// Begins to answer a request that has to wait.
    pub(crate) fn begin(&mut self, request: Bytes) {
        self.under_way = Some(Box::new(UnderWay::new(self.peer, request)));
    }

    /// The request that was begun has come to its end.
    pub(crate) fn end(&mut self, result: &Result<Sent, Lost>) {
        if let Some(under_way) = self.under_way.take() {
            under_way.end(result);
        }
    }

    /// So much of its answer was handed to the client.
    pub(crate) fn note(&mut self, sent: Sent) {
        if let Some(under_way) = &mut self.under_way {
            under_way.sent = Some(sent);
        }
    }

    /// Its answer is a program's, as it is.
    pub(crate) fn note_raw(&mut self) {
        if let Some(under_way) = &mut self.under_way {
            under_way.is_raw = true;
        }
    }

    /// Whether the next bytes that are sent begin with a status line.
    pub(super) fn is_before_head(&self) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.sent.is_none() && !under_way.is_raw)
    }

    /// This was left out of its program's answer.
    pub(crate) fn note_oddities(&mut self, oddities: &[Oddity]) {
        if let Some(under_way) = &mut self.under_way {
            under_way.oddities.extend_from_slice(oddities);
        }
    }

    /// What was left out, once.
    pub(crate) fn take_oddities(&mut self) -> Vec<Oddity> {
        self.under_way.as_mut().map(|under_way| std::mem::take(&mut under_way.oddities)).unwrap_or_default()
    }
}
