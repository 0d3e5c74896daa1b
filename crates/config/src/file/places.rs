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
    /// In memory of its own, because a server may have 100,000 hosts without a certificate.
    https: Option<Box<HttpsPlaces>>,
    routes: Vec<RoutePlaces>,
}

/// The places of a host's keys for HTTPS.
#[derive(Clone, Debug)]
struct HttpsPlaces {
    certificate: Option<Range<usize>>,
    key: Option<Range<usize>>,
    staple: Option<Range<usize>>,
    client_issuers: Option<Range<usize>>,
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

/// The place of a key that is written.
fn written<T>(key: Option<&At<T>>) -> Option<Range<usize>> {
    key.map(|key| key.at.clone())
}

impl HttpsPlaces {
    fn of(host: &HostTable) -> Option<Self> {
        let places = Self {
            certificate: written(host.certificate.as_ref()),
            key: written(host.key.as_ref()),
            staple: written(host.staple.as_ref()),
            client_issuers: written(host.client_issuers.as_ref()),
        };
        let Self { certificate, key, staple, client_issuers } = &places;
        let is_written = [certificate, key, staple, client_issuers].iter().any(|place| place.is_some());
        is_written.then_some(places)
    }
}

impl HostPlaces {
    pub(super) fn of(host: &HostTable, at: usize) -> Self {
        let of = |At { value, at }: &At<RouteTable>| RoutePlaces {
            at: at.clone(),
            prefix: written(value.prefix.as_ref()),
            root: written(value.root.as_ref()),
            to: written(value.to.as_ref()),
        };
        Self {
            at,
            root: written(host.root.as_ref()),
            https: HttpsPlaces::of(host).map(Box::new),
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
        let https = |id: HostId| host(id)?.https.as_ref();
        let route = |id: HostId, number: usize| host(id)?.routes.get(number);
        let (at, name) = match key {
            PlacedKey::Root(id) => (host(id).and_then(|host| host.root.clone()), "host.root"),
            PlacedKey::Certificate(id) => {
                (https(id).and_then(|https| https.certificate.clone()), "host.certificate")
            }
            PlacedKey::CertificateKey(id) => (https(id).and_then(|https| https.key.clone()), "host.key"),
            PlacedKey::Staple(id) => (https(id).and_then(|https| https.staple.clone()), "host.staple"),
            PlacedKey::ClientIssuers(id) => {
                (https(id).and_then(|https| https.client_issuers.clone()), "host.client_issuers")
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
