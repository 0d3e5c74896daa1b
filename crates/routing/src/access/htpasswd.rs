//! Files of users and password hashes, as `htpasswd` writes them: a line `NAME:HASH` for each user.
//!
//! Only hashes that are slow to guess are accepted: bcrypt (`htpasswd -B`), SHA-crypt (`-2`, `-5`)
//! and Argon2. A wrong line refuses the whole file, because a user without access is noticed late.
//! Tested below.

use argon2::{
    Argon2, Params,
    password_hash::{PasswordVerifier as _, phc::PasswordHash as PhcHash},
};
use sha_crypt::{PasswordHashRef, ShaCrypt};
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The largest file of users: two hundred thousand users at 80 bytes each.
const USERS_BYTES_MAX: u64 = 16 << 20;

/// The highest costs of a hash. Two checks run at once in an instance, so a longer check would keep
/// the users of all hosts waiting. A check at the bounds took 1.6 s with bcrypt, 0.3 s with
/// SHA-crypt and 2.9 s with Argon2 on an AMD Zen 3 (a request with a wrong password, dev profile).
const BCRYPT_COST_MAX: u32 = 15;
const SHA_ROUNDS_MAX: u32 = 1_000_000;
const ARGON2_KIB_MAX: u32 = 256 * 1024;
const ARGON2_PASSES_MAX: u32 = 10;

/// The rounds of SHA-crypt where a hash names none.
const SHA_ROUNDS: u32 = 5000;

/// The users of a file, in the order of their names.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct UserFile(Box<[StoredUser]>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct StoredUser {
    name: Box<[u8]>,
    hash: Arc<StoredHash>,
}

/// The stored hash of a password.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredHash {
    kind: HashKind,
    text: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum HashKind {
    Bcrypt,
    ShaCrypt,
    Argon2,
}

/// Why a file of users cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}; make it with htpasswd -B -c, readable for the server's user", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The path names a folder or a device.
    #[error("{} is no file; name a file that htpasswd makes", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is too long.
    #[error("{} has more than {USERS_BYTES_MAX} bytes; divide it", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// A line is wrong.
    #[error("{}:{line}: {source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The reason.
        source: HtpasswdError,
    },
    /// The file names no user.
    #[error("{} has no users, so it would let no client in; add a user with htpasswd -B", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Why a line is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HtpasswdError {
    /// The line has no colon, or nothing before or behind it.
    #[error("write a name, a colon and a hash, as htpasswd -B does")]
    Form,
    /// A hash of another kind.
    #[error(
        "hashes of this kind are guessed too quickly or are unknown; make the line anew with htpasswd -B (bcrypt), -5 \
         (SHA-crypt), or with Argon2"
    )]
    Kind,
    /// A hash of a known kind that cannot be read.
    #[error("the hash is damaged; make the line anew with htpasswd -B")]
    Damaged,
    /// A hash that takes too long to check.
    #[error(
        "a check of this hash would take too long; make the line anew with at most htpasswd -B -C {BCRYPT_COST_MAX}, \
         -5 -r {SHA_ROUNDS_MAX}, or Argon2 with {ARGON2_KIB_MAX} KiB and {ARGON2_PASSES_MAX} passes"
    )]
    Costly,
    /// A second line for the name.
    #[error("an earlier line has this name; leave one of them out")]
    Repeated,
}

impl UserFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or has a wrong line.
    pub fn read(path: &Path) -> Result<Self, UsersError> {
        let failed = |source| UsersError::Read { path: path.to_owned(), source };
        // A pipe without a writer would block the open.
        let meta = std::fs::metadata(path).map_err(failed)?;
        if !meta.is_file() {
            return Err(UsersError::NoFile { path: path.to_owned() });
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(USERS_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > USERS_BYTES_MAX {
            return Err(UsersError::TooLong { path: path.to_owned() });
        }
        let users = Self::parse(&bytes).map_err(|(line, source)| UsersError::Line {
            path: path.to_owned(),
            line,
            source,
        })?;
        if users.0.is_empty() {
            return Err(UsersError::Empty { path: path.to_owned() });
        }
        Ok(users)
    }

    /// Reads the lines of a file. Empty lines and lines that begin with `#` are skipped, and so is
    /// all behind a second colon, as in nginx.
    ///
    /// # Errors
    /// The number of the first wrong line, and the reason.
    pub fn parse(bytes: &[u8]) -> Result<Self, (usize, HtpasswdError)> {
        let mut users = BTreeMap::new();
        for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let wrong = |error| (index + 1, error);
            let mut parts = line.split(|&byte| byte == b':');
            let (Some(name @ [_, ..]), Some(hash @ [_, ..])) = (parts.next(), parts.next()) else {
                return Err(wrong(HtpasswdError::Form));
            };
            let hash = StoredHash::parse(hash).map_err(wrong)?;
            if users.insert(name.into(), Arc::new(hash)).is_some() {
                return Err(wrong(HtpasswdError::Repeated));
            }
        }
        Ok(Self(users.into_iter().map(|(name, hash)| StoredUser { name, hash }).collect()))
    }

    /// The hash of `user`.
    pub fn hash_of(&self, user: &[u8]) -> Option<&Arc<StoredHash>> {
        let found = self.0.binary_search_by(|stored| (*stored.name).cmp(user)).ok()?;
        Some(&self.0[found].hash)
    }

    /// A hash to check for the unknown `user`, so that the time of the answer does not tell which
    /// users exist. Each name has one hash of the file, so unknown users take as long as known ones
    /// also where the hashes of a file differ in kind and cost. The choice depends on a hash of the
    /// file, which no client knows.
    pub fn stand_in_for(&self, user: &[u8]) -> Option<&Arc<StoredHash>> {
        let first = &self.0.first()?.hash;
        let digest = Sha256::new().chain_update(first.text()).chain_update(user).finalize();
        let number = u64::from_le_bytes(*digest.first_chunk()?);
        Some(&self.0[(number % self.0.len() as u64) as usize].hash)
    }
}

impl std::fmt::Debug for UserFile {
    /// Without names and hashes, because debug texts reach logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UserFile({})", self.0.len())
    }
}

impl StoredHash {
    fn parse(bytes: &[u8]) -> Result<Self, HtpasswdError> {
        let text = std::str::from_utf8(bytes).map_err(|_| HtpasswdError::Kind)?;
        let (kind, is_bearable) = if ["$2y$", "$2b$", "$2a$"].iter().any(|start| text.starts_with(start)) {
            let parts: bcrypt::HashParts = text.parse().map_err(|_| HtpasswdError::Damaged)?;
            (HashKind::Bcrypt, parts.get_cost() <= BCRYPT_COST_MAX)
        } else if text.starts_with("$5$") || text.starts_with("$6$") {
            let rounds = rounds_of(text).ok_or(HtpasswdError::Damaged)?;
            (HashKind::ShaCrypt, rounds <= SHA_ROUNDS_MAX)
        } else if text.starts_with("$argon2") {
            let hash = PhcHash::new(text).ok().filter(|hash| hash.salt.is_some() && hash.hash.is_some());
            let costs = hash.and_then(|hash| Params::try_from(&hash).ok()).ok_or(HtpasswdError::Damaged)?;
            (HashKind::Argon2, costs.m_cost() <= ARGON2_KIB_MAX && costs.t_cost() <= ARGON2_PASSES_MAX)
        } else {
            return Err(HtpasswdError::Kind);
        };
        if is_bearable { Ok(Self { kind, text: text.into() }) } else { Err(HtpasswdError::Costly) }
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether `password` is right. Takes from a millisecond to a second of processor time.
    pub fn is_of(&self, password: &[u8]) -> bool {
        match self.kind {
            HashKind::Bcrypt => bcrypt::verify(password, &self.text).unwrap_or(false),
            HashKind::ShaCrypt => PasswordHashRef::new(&self.text)
                .is_ok_and(|hash| ShaCrypt::default().verify_password(password, hash).is_ok()),
            HashKind::Argon2 => PhcHash::new(&self.text)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
        }
    }
}

/// The rounds of a hash of SHA-crypt. `None` without all of its parts, because the crate finds a
/// damaged part only when it checks a password.
fn rounds_of(text: &str) -> Option<u32> {
    let is_short = text.starts_with("$5$");
    let mut parts: Vec<&str> = text[3..].split('$').collect();
    let mut rounds = SHA_ROUNDS;
    if let Some(written) = parts[0].strip_prefix("rounds=") {
        rounds = written.parse().ok().filter(|rounds| (1000..=999_999_999).contains(rounds))?;
        parts.remove(0);
    }
    let is_plain =
        |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./".contains(&byte));
    let [salt, hash] = parts[..] else { return None };
    let is_whole =
        !salt.is_empty() && is_plain(salt) && is_plain(hash) && hash.len() == if is_short { 43 } else { 86 };
    is_whole.then_some(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `htpasswd -B -C 5`, `htpasswd -2`, `htpasswd -5` and `argon2`, with the password
    /// `right`.
    const FILE: &str = include_str!("htpasswd/users");

    #[test]
    fn each_kind_of_hash_is_checked() {
        let users = UserFile::parse(FILE.as_bytes()).unwrap();
        assert_eq!(users.0.len(), FILE.lines().filter(|line| line.contains(':')).count());
        for StoredUser { name, hash } in &users.0 {
            assert!(hash.is_of(b"right"), "{}", name.escape_ascii());
            for wrong in [&b""[..], b"wrong", b"right ", b"Right"] {
                assert!(!hash.is_of(wrong), "{}", name.escape_ascii());
            }
        }
        assert!(users.hash_of(b"nobody").is_none());
        assert_eq!(format!("{users:?}"), format!("UserFile({})", users.0.len()));
    }

    #[test]
    fn comments_and_further_parts_are_skipped() {
        let line = FILE.lines().find(|line| line.starts_with("bcrypt:")).unwrap();
        let text = format!("# users\r\n\r\n{line}:a comment\r\n");
        let users = UserFile::parse(text.as_bytes()).unwrap();
        assert!(users.hash_of(b"bcrypt").is_some_and(|hash| hash.is_of(b"right")));
        assert!(UserFile::parse(b"").unwrap().stand_in_for(b"bcrypt").is_none());
    }

    #[test]
    fn unknown_users_stand_in_for_all_hashes() {
        let users = UserFile::parse(FILE.as_bytes()).unwrap();
        let mut seen = std::collections::HashSet::new();
        for number in 0..100_u32 {
            let name = number.to_le_bytes();
            let stand_in = users.stand_in_for(&name).unwrap();
            assert_eq!(users.stand_in_for(&name), Some(stand_in), "a name keeps its hash");
            seen.insert(stand_in.text().to_owned());
        }
        assert_eq!(seen.len(), users.0.len());
    }

    #[test]
    fn costly_hash_is_refused() {
        let line = |start: &str| FILE.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        let (bcrypt, argon2) = (line("bcrypt:"), line("argon2:"));
        let hash = "x".repeat(86);
        for (bearable, costly) in [
            (bcrypt.replace("$05$", "$15$"), bcrypt.replace("$05$", "$16$")),
            (format!("a:$6$rounds=1000000$salt${hash}"), format!("a:$6$rounds=1000001$salt${hash}")),
            (with_memory(&argon2, 262_144), with_memory(&argon2, 262_145)),
        ] {
            assert!(UserFile::parse(bearable.as_bytes()).is_ok(), "{bearable}");
            let refused = UserFile::parse(costly.as_bytes());
            assert_eq!(refused, Err((1, HtpasswdError::Costly)), "{costly}");
        }
    }

    /// The line of an Argon2 hash with this memory, in KiB.
    fn with_memory(line: &str, kib: u32) -> String {
        let (start, rest) = line.split_once("m=").unwrap();
        format!("{start}m={kib},{}", rest.split_once(',').unwrap().1)
    }

    #[test]
    fn wrong_line_is_named() {
        use HtpasswdError::{Damaged, Form, Kind, Repeated};
        let good = FILE.lines().find(|line| line.starts_with("bcrypt:")).unwrap();
        for (text, line, why) in [
            ("name".to_owned(), 1, Form),
            (":$2y$05$x".to_owned(), 1, Form),
            ("name:".to_owned(), 1, Form),
            (format!("{good}\nname"), 2, Form),
            ("name:secret".to_owned(), 1, Kind),
            ("name:$apr1$salt$hash".to_owned(), 1, Kind),
            ("name:{SHA}x".to_owned(), 1, Kind),
            ("name:$2y$05$short".to_owned(), 1, Damaged),
            ("name:$5$salt".to_owned(), 1, Damaged),
            ("name:$5$salt$short".to_owned(), 1, Damaged),
            ("name:$6$rounds=1$salt$short".to_owned(), 1, Damaged),
            ("name:$argon2id$v=19$x".to_owned(), 1, Damaged),
            (format!("{good}\n\n{good}"), 3, Repeated),
        ] {
            assert_eq!(UserFile::parse(text.as_bytes()), Err((line, why)), "{text}");
        }
    }

    #[test]
    fn missing_and_empty_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        let said = || UserFile::read(&path).expect_err("refused").to_string();
        let named = path.display();
        assert_eq!(
            said(),
            format!(
                "cannot read {named}: No such file or directory (os error 2); make it with htpasswd -B -c, readable for \
                 the server's user"
            )
        );
        std::fs::write(&path, "# none\n").unwrap();
        assert_eq!(
            said(),
            format!("{named} has no users, so it would let no client in; add a user with htpasswd -B")
        );
        std::fs::write(&path, "a:b\n").unwrap();
        assert!(said().starts_with(&format!("{named}:1: hashes of this kind")), "{}", said());
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(said(), format!("{named} is no file; name a file that htpasswd makes"));
    }
}
