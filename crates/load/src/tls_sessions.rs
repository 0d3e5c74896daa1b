//! The sessions of earlier connections, for resumption.
//!
//! rustls' store keeps eight tickets for a server. A ticket of TLS 1.3 serves one connection, so
//! with more connections that begin at the same time the others would make full handshakes. This
//! store keeps as many tickets as a run may have connections at once. A run has a single server, so
//! tickets have no names.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;

/// Tickets of a run. The oldest goes first, and its connection then makes a full handshake.
const TICKETS_MAX: usize = 16_384;

/// Sessions of TLS 1.2, which serve many connections.
const SESSIONS_MAX: usize = 64;

/// The sessions of a run.
#[derive(Debug)]
pub(crate) struct RunSessions {
    tickets: Mutex<VecDeque<Tls13ClientSessionValue>>,
    others: ClientSessionMemoryCache,
}

impl RunSessions {
    pub(crate) fn new() -> Self {
        Self { tickets: Mutex::default(), others: ClientSessionMemoryCache::new(SESSIONS_MAX) }
    }

    fn tickets(&self) -> MutexGuard<'_, VecDeque<Tls13ClientSessionValue>> {
        // A panic between two operations leaves the queue whole.
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for RunSessions {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.others.set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.others.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.others.set_tls12_session(server, value);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.others.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.others.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut tickets = self.tickets();
        if tickets.len() == TICKETS_MAX {
            tickets.pop_front();
        }
        tickets.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // The newest, because it is valid for the longest time.
        self.tickets().pop_back()
    }
}
