//! Session tickets: the secrets of a session, encrypted for the server itself, so that a client can
//! resume the session at any core and any instance.
//!
//! The key changes every [`PERIOD_S`]. Each period's secret comes from the secret before by a
//! one-way function, and older secrets are forgotten. So a stolen secret opens no ticket of a
//! period that is over, and processes that share one secret stay in step without messages. Only the
//! present key and the key before open tickets (RFC 5077, section 5.5). Tested below.

use crate::provider::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, KeyType, Prk},
    rand::{SecureRandom as _, SystemRandom},
};
use rustls::server::ProducesTickets;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    sync::RwLock,
    time::{SystemTime, UNIX_EPOCH},
};

/// Seconds of a period: 6 hours. A ticket works for 6 to 12 hours.
const PERIOD_S: u64 = 6 * 3600;

const SECRET_BYTES: usize = 32;

/// Bytes of the period at the start of a ticket.
const PERIOD_BYTES: usize = 8;

/// Periods after which a clock is taken as set, not as elapsed: five years. Each period costs a
/// microsecond.
const PERIODS_AT_ONCE: u64 = 8192;

/// A secret that processes share, so that each opens the tickets of the others.
#[derive(Clone, Serialize, Deserialize)]
pub struct TicketSecret {
    period: u64,
    secret: [u8; SECRET_BYTES],
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketSecret").field("period", &self.period).finish_non_exhaustive()
    }
}

impl TicketSecret {
    /// A new secret.
    ///
    /// # Panics
    /// The kernel has no random numbers, so no cryptography is possible.
    pub fn random() -> Self {
        Self::random_of(present_period().saturating_sub(1))
    }

    fn random_of(period: u64) -> Self {
        let mut secret = [0; SECRET_BYTES];
        // Not from AWS-LC, whose first random number takes some 20 ms. A server without HTTPS asks
        // for no other.
        getrandom::fill(&mut secret).expect("the kernel has random numbers");
        Self { period, secret }
    }

    fn derived<T: KeyType>(&self, label: &[u8], kind: T, out: &mut [u8]) {
        let secret = Prk::new_less_safe(HKDF_SHA256, &self.secret);
        let info = [label];
        let expanded = secret.expand(&info, kind).expect("the length is below the bound");
        expanded.fill(out).expect("the buffer has this length");
    }

    fn next(&self) -> Self {
        let mut secret = [0; SECRET_BYTES];
        self.derived(b"vermeil ticket secret", SecretLength, &mut secret);
        Self { period: self.period + 1, secret }
    }

    fn key(&self) -> LessSafeKey {
        let mut key = [0; SECRET_BYTES];
        self.derived(b"vermeil ticket key", SecretLength, &mut key);
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).expect("the key has this length"))
    }
}

struct SecretLength;

impl KeyType for SecretLength {
    fn len(&self) -> usize {
        SECRET_BYTES
    }
}

fn present_period() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / PERIOD_S
}

/// The keys of tickets. All cores share one value.
pub struct Tickets {
    keys: RwLock<TicketKeys>,
    random: SystemRandom,
}

struct TicketKeys {
    /// The secret of the period before, from which the later ones come.
    past: TicketSecret,
    past_key: LessSafeKey,
    present: TicketSecret,
    present_key: LessSafeKey,
}

impl TicketKeys {
    fn new(past: TicketSecret) -> Self {
        let present = past.next();
        Self { past_key: past.key(), present_key: present.key(), past, present }
    }

    /// The keys for `period`. A clock that was set back changes nothing.
    fn advanced(&self, period: u64) -> Option<Self> {
        let count = period.saturating_sub(self.present.period);
        if count == 0 {
            return None;
        }
        if count > PERIODS_AT_ONCE {
            return Some(Self::new(TicketSecret::random_of(period.saturating_sub(1))));
        }
        let mut past = self.present.clone();
        for _ in 1..count {
            past = past.next();
        }
        Some(Self::new(past))
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl Tickets {
    /// Tickets of a secret of their own.
    pub fn random() -> Self {
        Self::of(TicketSecret::random())
    }

    /// Tickets of the secret of another process, or of a new secret.
    pub fn shared(secret: Option<TicketSecret>) -> Self {
        Self::of(secret.unwrap_or_else(TicketSecret::random))
    }

    /// Tickets that all processes with this secret open.
    pub fn of(secret: TicketSecret) -> Self {
        Self { keys: RwLock::new(TicketKeys::new(secret)), random: SystemRandom::new() }
    }

    /// The secret, for another process.
    pub fn secret(&self) -> TicketSecret {
        self.advance(present_period());
        self.read(|keys| keys.past.clone())
    }

    fn read<R>(&self, f: impl FnOnce(&TicketKeys) -> R) -> R {
        f(&self.keys.read().expect("nothing panics under this lock"))
    }

    fn advance(&self, period: u64) {
        if self.read(|keys| keys.present.period >= period) {
            return;
        }
        let mut keys = self.keys.write().expect("nothing panics under this lock");
        if let Some(advanced) = keys.advanced(period) {
            *keys = advanced;
        }
    }

    fn seal(&self, plain: &[u8], period: u64) -> Option<Vec<u8>> {
        self.advance(period);
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).ok()?;
        self.read(|keys| {
            let name = keys.present.period.to_be_bytes();
            let mut ticket = Vec::with_capacity(name.len() + NONCE_LEN + plain.len() + AES_256_GCM.tag_len());
            ticket.extend_from_slice(&name);
            ticket.extend_from_slice(&nonce);
            ticket.extend_from_slice(plain);
            let nonce = Nonce::assume_unique_for_key(nonce);
            let content = &mut ticket[name.len() + NONCE_LEN..];
            let tag = keys.present_key.seal_in_place_separate_tag(nonce, Aad::from(name), content).ok()?;
            ticket.extend_from_slice(tag.as_ref());
            Some(ticket)
        })
    }

    fn open(&self, ticket: &[u8], period: u64) -> Option<Vec<u8>> {
        self.advance(period);
        let (name, rest) = ticket.split_first_chunk::<PERIOD_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = sealed.to_vec();
        let of = u64::from_be_bytes(*name);
        self.read(|keys| {
            let key = match of {
                _ if of == keys.present.period => &keys.present_key,
                _ if of == keys.past.period => &keys.past_key,
                _ => return None,
            };
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let count = key.open_in_place(nonce, Aad::from(*name), &mut sealed).ok()?.len();
            sealed.truncate(count);
            Some(sealed)
        })
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        // After two periods, no key opens the ticket.
        2 * PERIOD_S as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, present_period())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.open(cipher, present_period())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets(period: u64) -> Tickets {
        Tickets::of(TicketSecret::random_of(period - 1))
    }

    #[test]
    fn ticket_opens_for_two_periods() {
        let tickets = tickets(100);
        let ticket = tickets.seal(b"secrets", 100).expect("sealed");
        assert_eq!(tickets.open(&ticket, 100).as_deref(), Some(&b"secrets"[..]));
        assert_eq!(tickets.open(&ticket, 101).as_deref(), Some(&b"secrets"[..]));
        assert_eq!(tickets.open(&ticket, 102), None);
        assert_eq!(tickets.open(&ticket, 100), None, "the key is forgotten");
    }

    #[test]
    fn process_with_the_secret_opens_tickets_of_others() {
        let one = tickets(100);
        let ticket = one.seal(b"secrets", 100).expect("sealed");
        let other = Tickets::of(one.read(|keys| keys.past.clone()));
        assert_eq!(other.open(&ticket, 101).as_deref(), Some(&b"secrets"[..]));
        let later = other.seal(b"more", 107).expect("sealed");
        assert_eq!(one.open(&later, 107).as_deref(), Some(&b"more"[..]));
        assert_eq!(tickets(100).open(&ticket, 100), None, "another secret");
    }

    #[test]
    fn changed_ticket_does_not_open() {
        let tickets = tickets(100);
        let ticket = tickets.seal(b"secrets", 100).expect("sealed");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(tickets.open(&changed, 100), None, "byte {at}");
            assert_eq!(tickets.open(&ticket[..at], 100), None, "cut at {at}");
        }
    }

    #[test]
    fn clock_that_jumps_makes_a_new_secret() {
        let tickets = tickets(100);
        let ticket = tickets.seal(b"secrets", 100 + 2 * PERIODS_AT_ONCE).expect("sealed");
        assert!(tickets.open(&ticket, 100 + 2 * PERIODS_AT_ONCE).is_some());
        assert!(tickets.open(&ticket, 50).is_some(), "a clock that was set back changes nothing");
    }
}
