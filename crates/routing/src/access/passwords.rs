//! Checks of passwords: right passwords are remembered for a while, and few checks run at once.
//!
//! A check takes the time of hundreds of requests, by design. So checks run on the blocking pool,
//! and each host has its turn: a flood of wrong passwords at a host fills the host's own queue. A
//! remembered password is kept as a keyed hash, and the key leaves no process. Tested below, and
//! through the binary (`crates/e2e/tests/e2e/access.rs`).

use super::htpasswd::StoredHash;
use crate::turns::HostTurns;
use sha2::{Digest as _, Sha256};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use vermeil_settings::cgi::ProgramBounds;

/// How long a right password is remembered, so a client costs one check per minute.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The most remembered passwords of an instance. A further password replaces another, which costs a
/// check; the table takes about a megabyte.
const REMEMBERED_MAX: usize = 1 << 14;

/// Checks that run at once in an instance: a quarter of the eight threads of the blocking pool,
/// because files and listings need the others.
const CHECKS_MAX: usize = 2;

/// Requests of a host that wait for a check: 32 for each check that runs at once.
const WAITING_MAX: usize = 64;

/// Locks of the remembered passwords: more than the cores that look at the same instant, because a
/// look takes less than a microsecond.
const SHARDS: usize = 16;

type Digest = [u8; 32];

/// The passwords of an instance.
pub struct Passwords {
    key: Digest,
    /// Right passwords, each with the time when it is forgotten.
    remembered: [Mutex<HashMap<Digest, u64>>; SHARDS],
    /// The permits of checks.
    pub turns: Arc<HostTurns>,
}

/// A password and the hash to compare it with.
#[derive(Clone)]
pub struct PasswordCheck {
    password: Vec<u8>,
    hash: Arc<StoredHash>,
    /// Whether the user exists. Without the user, the check takes its time and fails.
    is_known: bool,
    digest: Digest,
}

impl Default for Passwords {
    fn default() -> Self {
        let mut key = Digest::default();
        getrandom::fill(&mut key).expect("the kernel has random bytes");
        let bounds = ProgramBounds {
            running_max: CHECKS_MAX,
            host_running_max: CHECKS_MAX,
            host_waiting_max: WAITING_MAX,
        };
        Self { key, remembered: Default::default(), turns: HostTurns::new(bounds) }
    }
}

impl Passwords {
    /// The check of `password` against `hash`. `is_known` is false for the hash of another user.
    pub fn check(&self, password: &[u8], hash: &Arc<StoredHash>, is_known: bool) -> PasswordCheck {
        let mut digest = Sha256::new();
        digest.update(self.key);
        digest.update((hash.text().len() as u64).to_le_bytes());
        digest.update(hash.text());
        digest.update(password);
        let digest = digest.finalize().into();
        PasswordCheck { password: password.to_vec(), hash: hash.clone(), is_known, digest }
    }

    /// Whether the check succeeded a while ago. `now_ms` is the core's clock.
    pub fn remembers(&self, check: &PasswordCheck, now_ms: u64) -> bool {
        let shard = self.shard(check).lock().expect("nothing panics under this lock");
        check.is_known && shard.get(&check.digest).is_some_and(|&until_ms| now_ms < until_ms)
    }

    /// Remembers that the check succeeded.
    pub fn remember(&self, check: &PasswordCheck, now_ms: u64) {
        let mut shard = self.shard(check).lock().expect("nothing panics under this lock");
        if shard.len() >= REMEMBERED_MAX / SHARDS && !shard.contains_key(&check.digest) {
            shard.retain(|_, until_ms| now_ms < *until_ms);
            let oldest = shard.iter().min_by_key(|(_, until_ms)| **until_ms).map(|(digest, _)| *digest);
            if let Some(oldest) = oldest.filter(|_| shard.len() >= REMEMBERED_MAX / SHARDS) {
                shard.remove(&oldest);
            }
        }
        let for_ms = u64::try_from(REMEMBERED.as_millis()).unwrap_or(u64::MAX);
        shard.insert(check.digest, now_ms.saturating_add(for_ms));
    }

    fn shard(&self, check: &PasswordCheck) -> &Mutex<HashMap<Digest, u64>> {
        &self.remembered[usize::from(check.digest[0]) % SHARDS]
    }
}

impl PasswordCheck {
    /// Checks the password. Takes from a millisecond to a second of processor time.
    pub fn run(&self) -> bool {
        self.hash.is_of(&self.password) && self.is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::UserFile;

    #[test]
    fn right_password_is_remembered_for_a_while() {
        let users = UserFile::parse(include_bytes!("htpasswd/users")).unwrap();
        let hash = users.hash_of(b"bcrypt").unwrap();
        let passwords = Passwords::default();
        let right = passwords.check(b"right", hash, true);
        assert!(right.run() && !passwords.remembers(&right, 0));
        passwords.remember(&right, 0);
        assert!(passwords.remembers(&right, 59_999));
        assert!(!passwords.remembers(&right, 60_000));
        assert!(!passwords.remembers(&passwords.check(b"wrong", hash, true), 0));
        let stranger = passwords.check(b"right", hash, false);
        assert!(!stranger.run() && !passwords.remembers(&stranger, 0));
        assert!(!Passwords::default().remembers(&right, 0), "the key differs");
    }

    #[test]
    fn remembered_passwords_are_bounded() {
        let users = UserFile::parse(include_bytes!("htpasswd/users")).unwrap();
        let hash = users.hash_of(b"bcrypt").unwrap();
        let passwords = Passwords::default();
        for number in 0..REMEMBERED_MAX as u64 * 2 {
            passwords.remember(&passwords.check(&number.to_le_bytes(), hash, true), number);
        }
        let all: usize = passwords.remembered.iter().map(|shard| shard.lock().unwrap().len()).sum();
        assert!(all <= REMEMBERED_MAX, "{all}");
    }
}
