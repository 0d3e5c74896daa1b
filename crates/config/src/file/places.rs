//! The places of keys in the file, for faults that only a look at the machine finds.
//!
//! A server does not keep places; `vermeil check` does, while it looks. Tested in
//! `tests/places.rs`.

use super::{
    keys::{HostTable, RouteTable},
    problems::Problem,
    read::At,
    report::ConfigError,
    sources::ConfigText,
};
use std::{
    ops::Range,
    path::{Path, PathBuf},
};
use vermeil_routing::hosts::HostId;

/// The places of some keys of a configuration.
#[derive(Clone, Debug)]
pub struct ConfigPlaces {
    file: PathBuf,
    text: ConfigText,
    keys: KeyPlaces,
}

/// The places in the text.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyPlaces {
    /// By host number.
    pub(super) hosts: Vec<HostPlaces>,
    /// `php.source`, if the key is written.
    pub(super) php_source: Range<usize>,
}

/// The places of a host's keys.
#[derive(Clone, Debug)]
pub(super) struct HostPlaces {
    /// The start of the host.
    pub(super) at: usize,
    pub(super) root: Option<Range<usize>>,
    certificate: Option<Range<usize>>,
    key: Option<Range<usize>>,
    staple: Option<Range<usize>>,
    client_issuers: Option<Range<usize>>,
    routes: Vec<RoutePlaces>,
}

#[derive(Clone, Debug)]
struct RoutePlaces {
    at: Range<usize>,
    prefix: Option<Range<usize>>,
    root: Option<Range<usize>>,
    to: Option<Range<usize>>,
}

/// A key with a known place. Routes are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacedKey {
    /// The folder of a host.
    Root(HostId),
    /// The certificates of a host.
    Certificate(HostId),
    /// The private keys of a host.
    CertificateKey(HostId),
    /// The stapled answers of a host.
    Staple(HostId),
    /// The issuers of client certificates of a host.
    ClientIssuers(HostId),
    /// A route of a host, by its index.
    Route(HostId, usize),
    /// The prefix of a route.
    RoutePrefix(HostId, usize),
    /// The folder of a route.
    RouteRoot(HostId, usize),
    /// The target of a route.
    RouteTarget(HostId, usize),
    /// The source of PHP.
    PhpSource,
}

impl HostPlaces {
    pub(super) fn of(host: &HostTable, at: usize) -> Self {
        let of = |At { value, at }: &At<RouteTable>| RoutePlaces {
            at: at.clone(),
            prefix: value.prefix.as_ref().map(|prefix| prefix.at.clone()),
            root: value.root.as_ref().map(|root| root.at.clone()),
            to: value.to.as_ref().map(|to| to.at.clone()),
        };
        let root = host.root.as_ref().map(|root| root.at.clone());
        Self {
            at,
            root,
            certificate: host.certificate.as_ref().map(|certificate| certificate.at.clone()),
            key: host.key.as_ref().map(|key| key.at.clone()),
            staple: host.staple.as_ref().map(|staple| staple.at.clone()),
            client_issuers: host.client_issuers.as_ref().map(|issuers| issuers.at.clone()),
            routes: host.route.iter().map(of).collect(),
        }
    }
}

impl ConfigPlaces {
    pub(super) fn new(file: &Path, text: ConfigText, keys: KeyPlaces) -> Self {
        Self { file: file.to_owned(), text, keys }
    }

    /// `what` behind the place and the name of `key`: `FILE:LINE:COLUMN: KEY: WHAT`.
    pub fn tell(&self, key: PlacedKey, what: String) -> String {
        let host = |id: HostId| self.keys.hosts.get(id.index());
        let route = |id: HostId, number: usize| host(id)?.routes.get(number);
        let (at, name) = match key {
            PlacedKey::Root(id) => (host(id).and_then(|host| host.root.clone()), "host.root"),
            PlacedKey::Certificate(id) => {
                (host(id).and_then(|host| host.certificate.clone()), "host.certificate")
            }
            PlacedKey::CertificateKey(id) => (host(id).and_then(|host| host.key.clone()), "host.key"),
            PlacedKey::Staple(id) => (host(id).and_then(|host| host.staple.clone()), "host.staple"),
            PlacedKey::ClientIssuers(id) => {
                (host(id).and_then(|host| host.client_issuers.clone()), "host.client_issuers")
            }
            PlacedKey::Route(id, number) => (route(id, number).map(|route| route.at.clone()), "host.route"),
            PlacedKey::RoutePrefix(id, number) => {
                let at = route(id, number).map(|route| route.prefix.as_ref().unwrap_or(&route.at).clone());
                (at, "host.route.prefix")
            }
            PlacedKey::RouteRoot(id, number) => {
                let at = route(id, number).map(|route| route.root.as_ref().unwrap_or(&route.at).clone());
                (at, "host.route.root")
            }
            PlacedKey::RouteTarget(id, number) => {
                let at = route(id, number).map(|route| route.to.as_ref().unwrap_or(&route.at).clone());
                (at, "host.route.to")
            }
            PlacedKey::PhpSource => (Some(self.keys.php_source.clone()), "php.source"),
        };
        let problem = |at| Problem { at, key: name.to_owned(), what: what.clone() };
        let located = at.map(|at| ConfigError::new(&self.file, &self.text, vec![problem(at)]));
        located.and_then(|located| located.lines().next()).unwrap_or(what)
    }
}
