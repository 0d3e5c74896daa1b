//! Whether the rules of a host and its routes let a request in, before anything answers.
//!
//! The order is: the client's network (403), the rate (429, or a wait), the requests in progress
//! (503 or 429), name and password (401). So a flood of passwords meets the rate before a check
//! costs processor time. The rules follow the decoded path that answers: of the request, of a
//! rewrite, of a program that a part of the path names, of an index page, of a candidate of `try`.
//! Leaves out waiting and checking (`crates/deferred`). Tested through the binary
//! (`crates/e2e/tests/e2e/access.rs`, `in_progress.rs`).

use super::{Answer, Deferred, error};
use crate::pages::RETRY_AFTER;
use std::{net::IpAddr, time::Duration};
use vermeil::{monotonic_ns, now_ms};
use vermeil_address::Client;
use vermeil_exchange::{AnswerHead, PassedCheck, PassedChecks, PasswordUse};
use vermeil_http::{Request, Status, basic::BasicCredentials, path};
use vermeil_log::NoticeKind;
use vermeil_routing::{
    access::{ClientKey, KeyedCount, PasswordCheck, RateDecision, RateLimit},
    hosts::{HostId, Hosts, Realm},
};
use vermeil_state::core_context::CoreContext;

/// A wait for the rate.
pub struct RateWait {
    /// How long the client must wait.
    pub time: Duration,
    /// The number of the rules in the host.
    pub rule: u32,
}

/// A request that counts as in progress, unless too many are.
pub struct ProgressEntry {
    key: ProgressKey,
    /// The [lasting number](vermeil_routing::hosts::Hosts::lasting_number) of the host that counts.
    of_host: u64,
    /// The number of the rule, for the count of its requests.
    pub of_rule: u32,
    requests: usize,
    status: Status,
    /// The number of the rules in the host.
    pub rule: u32,
}

/// The requests with which a request is in progress.
#[derive(Hash)]
enum ProgressKey {
    Client(Option<IpAddr>),
    Value(Box<[u8]>),
}

impl ProgressEntry {
    /// Counts the request. The error is the answer if too many requests are in progress.
    pub fn enter(
        &self,
        local: &mut CoreContext,
        request: &Request<'_>,
        head: AnswerHead,
        out: &mut Vec<u8>,
    ) -> Result<KeyedCount, Answer> {
        let Self { key, of_host, of_rule, requests, status, .. } = self;
        let entered = local.server.clients.in_progress.enter((of_host, of_rule, key), *requests);
        entered.ok_or_else(|| {
            let (client, host) = named(request, head);
            let status_code = status.code();
            local.server.notices.say(
                NoticeKind::RateLimited,
                format_args!(
                    "{host}: {client} has {requests} requests in progress, the bound of in_progress in access ({status_code})"
                ),
            );
            error(local, *status, RETRY_AFTER, head, out)
        })
    }
}

/// The client and the host of a request, for notices.
fn named(request: &Request<'_>, head: AnswerHead) -> (String, String) {
    let client = head.visitor.peer.map(|peer| peer.to_string()).unwrap_or_default();
    (client, request.host.unwrap_or(b"-").escape_ascii().to_string())
}

/// A password to check, and the answer to a wrong one.
pub struct Challenge {
    /// The check.
    pub check: PasswordCheck,
    /// The host whose turn the check takes.
    pub host: HostId,
    /// The number of the rules in the host.
    pub rule: u32,
    /// The field line of the answer to a wrong password.
    pub line: Vec<u8>,
}

/// The answer to `request`, unless the rules of `host` for its path let it in. Notes the passed
/// checks in `head`.
#[cold]
pub(super) fn check(
    local: &mut CoreContext,
    host: HostId,
    request: &Request<'_>,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Option<Answer> {
    let mut decoded = Vec::new();
    match path::decode_for_program(request.target.path, &mut decoded) {
        Ok(path) => check_path(local, host, path.bytes, request, head, out),
        // No rules can be found for such a path, so nothing may answer it.
        Err(wrong) => Some(error(local, wrong.status(), b"", *head, out)),
    }
}

/// As `check`, for the file or program at `path`, decoded, that answers `request` although the
/// request's own path differs.
pub fn check_other(
    local: &mut CoreContext,
    host: HostId,
    path: &[u8],
    request: &Request<'_>,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Option<Answer> {
    if !local.hosts.hosts().is_guarded(host) {
        return None;
    }
    head.use_configuration(local.hosts.configuration());
    check_path(local, host, path, request, head, out)
}

fn check_path(
    local: &mut CoreContext,
    host: HostId,
    path: &[u8],
    request: &Request<'_>,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Option<Answer> {
    let rules = {
        let rules = local.hosts.hosts().host(host).rules;
        let mut guards = rules.guards_at(path, head.asked(request)).map(|(rule, _)| rule);
        [guards.next(), guards.next()]
    };
    rules.into_iter().flatten().find_map(|rule| check_rule(local, host, rule, request, head, out))
}

fn check_rule(
    local: &mut CoreContext,
    host: HostId,
    rule: u32,
    request: &Request<'_>,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Option<Answer> {
    let hosts = local.hosts.hosts();
    let guard = hosts.host(host).rules.guard(rule)?;
    let passed = head.passed.of(rule);
    if passed == PassedCheck::All {
        return None;
    }
    if !guard.lets_in(head.visitor.peer) {
        return Some(error(local, Status::Forbidden, b"", *head, out));
    }
    if passed == PassedCheck::Nothing
        && let Some(limit) = &guard.rate
        && !has_passed_rate(hosts, host, head.passed, limit)
    {
        let counted = (hosts.lasting_number(host), limit.rule);
        let rates = &local.server.clients.rates;
        let decision = match counted_by(local, &limit.by, request, head.visitor.peer) {
            CountedBy::Client(client) => rates.admit(limit, counted, client, monotonic_ns()),
            CountedBy::Value(value) => rates.admit(limit, counted, value, monotonic_ns()),
        };
        match decision {
            RateDecision::Now => {}
            RateDecision::Later(time) => {
                return Some(Answer::Slow(Deferred::Wait(RateWait { time, rule })));
            }
            RateDecision::Refused(wait) => return Some(too_many(local, request, wait, *head, out)),
        }
    }
    if passed < PassedCheck::Progress
        && let Some(limit) = &guard.in_progress
    {
        // The request counts to its end, which only an answer that waits can tell.
        let key = match counted_by(local, &limit.by, request, head.visitor.peer) {
            CountedBy::Client(client) => ProgressKey::Client(client),
            CountedBy::Value(value) => ProgressKey::Value(value.into()),
        };
        let of_host = hosts.lasting_number(host);
        let (requests, status) = (limit.requests, limit.status);
        let entry = ProgressEntry { key, of_host, of_rule: limit.rule, requests, status, rule };
        return Some(Answer::Slow(Deferred::Enter(Box::new(entry))));
    }
    if let Some(realm) = &guard.realm {
        head.password = PasswordUse::Asked;
        match password(local, realm, request) {
            PasswordState::Right => {}
            PasswordState::Unknown(check) => {
                let line = challenge(realm);
                return Some(Answer::Slow(Deferred::Password(Box::new(Challenge {
                    check,
                    host,
                    rule,
                    line,
                }))));
            }
            PasswordState::Missing => {
                let line = challenge(realm);
                return Some(error(local, Status::Unauthorized, &line, *head, out));
            }
        }
    }
    head.passed.note(rule, PassedCheck::All);
    None
}

/// Whether the request was already counted for the rate `limit`, under other rules of the host that
/// have the same rate. The rules of a route without a rate have the rate of the host.
fn has_passed_rate(hosts: &Hosts, host: HostId, passed: PassedChecks, limit: &RateLimit) -> bool {
    let rules = hosts.host(host).rules;
    let mut counted = passed.rules_with_rate().filter_map(|rule| rules.guard(rule)?.rate.as_ref());
    counted.any(|counted| counted.rule == limit.rule)
}

/// The requests with which a request is counted.
enum CountedBy<'a> {
    Client(Option<IpAddr>),
    Value(&'a [u8]),
}

fn counted_by<'a>(
    local: &CoreContext,
    by: &ClientKey,
    request: &Request<'a>,
    peer: Option<Client>,
) -> CountedBy<'a> {
    let of_client = || match peer {
        Some(Client::Ip(addr)) => CountedBy::Client(Some(local.server.clients.bound.client(addr))),
        Some(Client::Unix | Client::Unknown) | None => CountedBy::Client(None),
    };
    match by {
        ClientKey::Client => of_client(),
        ClientKey::All => CountedBy::Value(b""),
        ClientKey::Field(name) => {
            let mut fields = request.fields;
            let found = fields.find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()));
            found.map_or_else(of_client, |(_, value)| CountedBy::Value(value))
        }
    }
}

fn too_many(
    local: &mut CoreContext,
    request: &Request<'_>,
    wait: Duration,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    let (client, host) = named(request, head);
    local.server.notices.say(
        NoticeKind::RateLimited,
        format_args!("{host}: {client} asks more often than the rate in access allows (429)"),
    );
    // Rounded up, because a client that comes too early is refused again.
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let line = format!("Retry-After: {}\r\n", seconds.max(1));
    error(local, Status::TooManyRequests, line.as_bytes(), head, out)
}

/// The state of the password of a request.
enum PasswordState {
    /// The password was checked a while ago.
    Right,
    /// The password must be checked.
    Unknown(PasswordCheck),
    /// The request has no name and password.
    Missing,
}

fn password(local: &CoreContext, realm: &Realm, request: &Request<'_>) -> PasswordState {
    let Some(credentials) = BasicCredentials::of(request) else { return PasswordState::Missing };
    let known = realm.users.hash_of(credentials.user());
    let stand_in = || realm.users.stand_in_for(credentials.user());
    let Some(hash) = known.or_else(stand_in) else { return PasswordState::Missing };
    let passwords = &local.server.clients.passwords;
    let check = passwords.check(credentials.password(), hash, known.is_some());
    match passwords.remembers(&check, now_ms()) {
        true => PasswordState::Right,
        false => PasswordState::Unknown(check),
    }
}

/// The field line that asks the client for name and password (RFC 7617 §2).
fn challenge(realm: &Realm) -> Vec<u8> {
    format!("WWW-Authenticate: Basic realm=\"{}\", charset=\"UTF-8\"\r\n", realm.name).into_bytes()
}
