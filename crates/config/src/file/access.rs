//! The rules about clients of hosts and routes: from the tables `access` to guards.
//!
//! Tested in `tests/access.rs`.

use super::{
    keys::{AccessTable, ProgressKeys, RateKeys},
    networks::networks,
    problems::Problems,
    read::{At, narrow},
};
use std::{
    collections::{HashMap, hash_map::Entry},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use vermeil_http::Status;
use vermeil_routing::{
    access::{ClientKey, ProgressLimit, RateLimit, UserFile, UsersError},
    hosts::{Guard, Realm},
};

/// The word that lets in clients without a password.
const OFF: &str = "off";

/// The name that browsers show by default.
const REALM: &str = "Restricted";

/// Makes guards, and reads each file of users once.
#[derive(Default)]
pub(super) struct Guards {
    /// No users for a file whose problem was reported already.
    users: HashMap<PathBuf, Arc<UserFile>>,
}

impl Guards {
    /// The guard of a host.
    pub(super) fn of_host(
        &mut self,
        table: Option<&At<AccessTable>>,
        folder: &Path,
        problems: &mut Problems,
    ) -> Option<Arc<Guard>> {
        let table = &table?.value;
        if let Some(users) = table.users.as_ref().filter(|users| users.value == Path::new(OFF)) {
            let what = "\"off\" is for routes; leave the key out, because a host has no users by default";
            problems.push(&users.at, "host.access.users", what);
            return None;
        }
        Some(Arc::new(self.guard(0, table, &Guard::default(), "host.access", folder, problems)))
    }

    /// The guard of the route with this index. `None` if the route has the guard of its host.
    pub(super) fn of_route(
        &mut self,
        index: usize,
        table: Option<&At<AccessTable>>,
        of_host: Option<&Arc<Guard>>,
        folder: &Path,
        problems: &mut Problems,
    ) -> Option<Arc<Guard>> {
        let table = &table?.value;
        let of_host = of_host.map(|guard| Guard::clone(guard)).unwrap_or_default();
        if let Some(users) = &table.users
            && users.value == Path::new(OFF)
            && of_host.realm.is_none()
        {
            let what = "\"off\": the host has no users, so no password is asked for; leave the key out";
            problems.push(&users.at, "host.route.access.users", what);
        }
        let rule = u32::try_from(index + 1).unwrap_or(u32::MAX);
        Some(Arc::new(self.guard(rule, table, &of_host, "host.route.access", folder, problems)))
    }

    fn guard(
        &mut self,
        rule: u32,
        table: &AccessTable,
        inherited: &Guard,
        at: &str,
        folder: &Path,
        problems: &mut Problems,
    ) -> Guard {
        let mut list =
            |list: Option<&At<Vec<At<String>>>>, key: &str, why_not: &str, inherited: &Vec<_>| match list {
                Some(_) => networks(list, &format!("{at}.{key}"), why_not, problems),
                None => inherited.clone(),
            };
        let allow = list(table.allow.as_ref(), "allow", "so no client would be let in", &inherited.allow);
        let deny = list(table.deny.as_ref(), "deny", "so the key has no effect", &inherited.deny);
        let rate = match &table.rate {
            Some(rate) => limit(rule, rate, at, problems),
            None => inherited.rate.clone(),
        };
        let in_progress = match &table.in_progress {
            Some(limit) => progress(rule, &limit.value, at, problems),
            None => inherited.in_progress.clone(),
        };
        let realm = self.realm(table, inherited.realm.as_ref(), at, folder, problems);
        Guard { allow, deny, realm, rate, in_progress }
    }

    fn realm(
        &mut self,
        table: &AccessTable,
        inherited: Option<&Realm>,
        at: &str,
        folder: &Path,
        problems: &mut Problems,
    ) -> Option<Realm> {
        let is_off = table.users.as_ref().is_some_and(|users| users.value == Path::new(OFF));
        if let Some(realm) = &table.realm {
            let key = format!("{at}.realm");
            let is_plain = |c: char| !c.is_control() && !matches!(c, '"' | '\\');
            if !realm.value.chars().all(is_plain) || realm.value.is_empty() {
                let what = format!("{:?}: write a name without quotes and backslashes", realm.value);
                problems.push(&realm.at, &key, what);
            }
            if is_off || table.users.is_none() && inherited.is_none() {
                let what = "no password is asked for here; name the users with users = \"FILE\"";
                problems.push(&realm.at, &key, what);
            }
        }
        let users = match &table.users {
            _ if is_off => return None,
            Some(users) => self.users(users, &format!("{at}.users"), folder, problems),
            None => inherited?.users.clone(),
        };
        let name = match &table.realm {
            Some(realm) => realm.value.as_str(),
            None => inherited.map_or(REALM, |realm| &realm.name),
        };
        Some(Realm { name: name.into(), users })
    }

    /// The users of a file. A file with a problem has none, so routes still see that the host asks
    /// for a password; the problem refuses the configuration.
    fn users(
        &mut self,
        path: &At<PathBuf>,
        key: &str,
        folder: &Path,
        problems: &mut Problems,
    ) -> Arc<UserFile> {
        match self.users.entry(folder.join(&path.value)) {
            Entry::Occupied(read) => read.get().clone(),
            Entry::Vacant(entry) => {
                let read = UserFile::read(entry.key()).unwrap_or_else(|error| {
                    problems.push(&path.at, key, UsersError::to_string(&error));
                    UserFile::default()
                });
                entry.insert(Arc::new(read)).clone()
            }
        }
    }
}

fn limit(rule: u32, rate: &At<RateKeys>, at: &str, problems: &mut Problems) -> Option<RateLimit> {
    let RateKeys { requests, per, burst, delayed, by } = &rate.value;
    if delayed.value > *burst {
        let what = format!("{} is more than burst, which is {burst}", delayed.value);
        problems.push(&delayed.at, &format!("{at}.rate.delayed"), what);
    }
    let by = counted_by(by, &format!("{at}.rate.by"), problems)?;
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Some(RateLimit {
        rule,
        interval: Duration::from(*per) / narrow(*requests),
        burst: narrow(*burst),
        delayed: narrow(delayed.value),
        by,
    })
}

fn progress(rule: u32, keys: &ProgressKeys, at: &str, problems: &mut Problems) -> Option<ProgressLimit> {
    let ProgressKeys { requests, by, code } = keys;
    let status = [Status::ServiceUnavailable, Status::TooManyRequests]
        .into_iter()
        .find(|status| u64::from(status.code()) == code.value);
    if status.is_none() {
        let what = format!("{} is not one of 503, 429", code.value);
        problems.push(&code.at, &format!("{at}.in_progress.code"), what);
    }
    let by = counted_by(by, &format!("{at}.in_progress.by"), problems)?;
    Some(ProgressLimit { rule, requests: narrow(*requests), by, status: status? })
}

/// The requests that count together.
fn counted_by(by: &At<String>, key: &str, problems: &mut Problems) -> Option<ClientKey> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    match by.value.split_once(':') {
        None if by.value == "client" => Some(ClientKey::Client),
        None if by.value == "all" => Some(ClientKey::All),
        Some(("field", name)) if is_name(name) => Some(ClientKey::Field(name.into())),
        _ => {
            let what = format!("\"{}\": write \"client\", \"all\", or \"field:NAME\"", by.value);
            problems.push(&by.at, key, what);
            None
        }
    }
}
