//! Answers that wait for a check of the client: until the client's rate allows the request, or its
//! password is checked.
//!
//! Passwords are checked on the blocking pool, because a check takes the time of hundreds of
//! requests. Leaves out the rules (`answer/gate.rs`). Tested through the binary
//! (`crates/e2e/tests/e2e/access.rs`).

use super::parsed;
use crate::calls;
use bytes::Bytes;
use std::{future::poll_fn, pin::pin, task::Poll};
use vermeil::{More, blocking, now_ms};
use vermeil_answer::{
    answer::{self, Answer, Challenge, ProgressEntry, RateWait},
    pages::busy,
};
use vermeil_connection::connection::Connection;
use vermeil_exchange::{AnswerHead, Lost, PassedCheck};
use vermeil_http::Status;
use vermeil_routing::{access::KeyedCount, turns::HostNumber};
use vermeil_state::core_context;

/// The answer after the wait for the client's rate.
pub(super) async fn after_wait(
    connection: &mut Connection,
    wait: RateWait,
    acting: &[u8],
    head: &mut AnswerHead,
) -> Result<Answer, Lost> {
    connection.flush(Bytes::new(), More::No).await?;
    let mut limit = connection.lend_limit();
    limit.set(wait.time);
    let waited = limit.limit(poll_fn(|context| connection.poll_gone(context))).await;
    connection.give_back_limit(limit);
    calls::note_drain(head);
    match waited {
        Ok(()) => Err(Lost::Peer),
        Err(_waited) => Ok(answer_passed(connection, acting, head, wait.rule, PassedCheck::Rate)),
    }
}

/// The rules for which a request counts as in progress, by number. The request ends with the drop.
#[derive(Default)]
pub(super) struct ProgressPermits(Vec<(u32, KeyedCount)>);

impl ProgressPermits {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Counts the request as in progress, and answers it; or refuses it.
pub(super) fn enter(
    connection: &mut Connection,
    entry: &ProgressEntry,
    acting: &[u8],
    head: &mut AnswerHead,
    permits: &mut ProgressPermits,
) -> Answer {
    // A request that comes back to a rule, after redirects within the server, counts once.
    if permits.0.iter().all(|(rule, _)| *rule != entry.of_rule) {
        let out = &mut connection.output;
        let entered = core_context::with(|local| entry.enter(local, &parsed(acting), *head, out));
        match entered {
            Ok(permit) => permits.0.push((entry.of_rule, permit)),
            Err(refused) => return refused,
        }
    }
    answer_passed(connection, acting, head, entry.rule, PassedCheck::Progress)
}

/// The answer once the password is checked.
pub(super) async fn after_password(
    connection: &mut Connection,
    challenge: Challenge,
    acting: &[u8],
    head: &mut AnswerHead,
) -> Result<Answer, Lost> {
    connection.flush(Bytes::new(), More::No).await?;
    let Challenge { check, host, rule, line } = challenge;
    let (server, patience) = core_context::with(|local| (local.server.clone(), local.server.timeouts.header));
    let mut waiting = pin!(server.clients.passwords.turns.clone().turn(HostNumber(host.index())));
    let mut limit = connection.lend_limit();
    limit.set(patience);
    let turn = limit.limit(poll_fn(|context| {
        if let Poll::Ready(turn) = waiting.as_mut().poll(context) {
            return Poll::Ready(Ok(turn.ok()));
        }
        connection.poll_gone(context).map(|()| Err(Lost::Peer))
    }));
    let turn = turn.await;
    connection.give_back_limit(limit);
    let checked = match turn {
        Ok(Err(lost)) => return Err(lost),
        // The turn ends with the check, also if the connection ends before.
        Ok(Ok(Some(turn))) => {
            let check = check.clone();
            blocking(move || {
                let is_right = check.run();
                drop(turn);
                is_right
            })
            .await
            .ok()
        }
        Ok(Ok(None)) | Err(_) => None,
    };
    calls::note_drain(head);
    let out = &mut connection.output;
    match checked {
        Some(true) => {
            server.clients.passwords.remember(&check, now_ms());
            Ok(answer_passed(connection, acting, head, rule, PassedCheck::All))
        }
        Some(false) => {
            Ok(core_context::with(|local| answer::error(local, Status::Unauthorized, &line, *head, out)))
        }
        None => Ok(core_context::with(|local| Answer::Ready(busy(local, *head, out)))),
    }
}

/// The answer to a request that has passed checks of the rules with the number `rule`.
fn answer_passed(
    connection: &mut Connection,
    acting: &[u8],
    head: &mut AnswerHead,
    rule: u32,
    passed: PassedCheck,
) -> Answer {
    head.passed.note(rule, passed);
    core_context::with(|local| answer::answer(local, &parsed(acting), head, &mut connection.output))
}
