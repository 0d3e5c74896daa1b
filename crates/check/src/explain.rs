//! Which host, route and file a request gets, and why: for `vermeil check --explain URL`.
//!
//! Asks the same table of hosts, the same routes and the same file look-up as a server. Reads the
//! served folders, and starts no program. Tested through the binary
//! (`crates/e2e/tests/e2e/explain.rs`).

use crate::plan::{PlaceOf, ServePlan};
use std::{fmt::Write as _, sync::Arc};
use vermeil_address::ListenAddr;
use vermeil_config::ServeOptions;
use vermeil_files::{CoreCache, EntryHandle, EntryOutcome, FileStore, Lookup, Site, StoreOptions};
use vermeil_gateway::encoded;
use vermeil_http::{
    ConnectionLimits, ParsedPart, Request, Status,
    gateway::{ClientScheme, split},
    path::{self, PathError},
};
use vermeil_io::CacheOnly;
use vermeil_routing::hosts::{
    Action, Asked, Guard, Host, HostId, Path as RequestPath, Route, RunBy, without_port,
};
use vermeil_settings::php::EXTENSION;

/// Rewrites that are followed. Each rewrite tries later routes only, so there are few.
const REWRITES_MAX: usize = 100;

/// Why a URL cannot be explained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no URL of a request; write one such as http://example.org/path?query, or /path")]
pub struct UnfitUrl(String);

/// A request that is explained.
struct Explanation<'o> {
    options: &'o ServeOptions,
    scheme: ClientScheme,
    listener: Option<ListenAddr>,
    host: HostId,
    lines: String,
    cache: CoreCache,
}

/// The way of a GET request for `url` through a server with `options`: a line for each step.
///
/// # Errors
/// `url` is no URL of a request.
pub fn explain(options: &ServeOptions, url: &str) -> Result<String, UnfitUrl> {
    let unfit = || UnfitUrl(url.to_owned());
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let (host, target) = match rest {
        Some(rest) => rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())),
        None => ("localhost", url),
    };
    let target = target.split('#').next().unwrap_or_default();
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    if rest.is_none() && !url.starts_with('/') {
        return Err(unfit());
    }
    let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let limits = ConnectionLimits::default();
    let request = request(head.as_bytes(), &limits).ok_or_else(unfit)?;
    let mut lines = String::new();
    let hosts = &options.hosts;
    let scheme = if url.starts_with("https:") { ClientScheme::Https } else { ClientScheme::Http };
    let listener = listener(options, scheme, host);
    if let Some(at) = listener.filter(|_| options.listen.len() > 1) {
        let _ = writeln!(lines, "listener: {at} (assumed)");
    }
    let Some(id) = hosts.find_at(request.host, listener) else {
        lines.push_str("host: none has the name, and unknown = \"refuse\": 421\n");
        return Ok(lines);
    };
    let has_name = hosts.all_names().any(|(named, _)| named == id);
    let why = match rest {
        None => "the URL names no host",
        Some(_) if has_name => "by its name, or as the host for other names",
        Some(_) => "it answers for names that no host has",
    };
    let _ = writeln!(lines, "host: {} ({why})", ServePlan::new(options).called(id));
    let cache = CoreCache::new(FileStore::new(StoreOptions::default()));
    let mut explanation = Explanation { options, scheme, listener, host: id, lines, cache };
    explanation.request(&request, &limits);
    Ok(explanation.lines)
}

/// The listener that a client with this URL reaches, as far as the URL tells: of the listeners for
/// the scheme, the one with the port, or the first.
fn listener(options: &ServeOptions, scheme: ClientScheme, host: &str) -> Option<ListenAddr> {
    let written = host[without_port(host.as_bytes()).len()..].strip_prefix(':');
    let port = written.and_then(|port| port.parse().ok()).unwrap_or(scheme.default_port());
    let is_for_scheme = |at: &ListenAddr| options.tls.listen.contains(at) == (scheme == ClientScheme::Https);
    let mut for_scheme = options.listen.iter().copied().filter(is_for_scheme);
    let first = for_scheme.clone().next().or(options.listen.first().copied());
    for_scheme.find(|at| at.port() == Some(port)).or(first)
}

fn request<'r>(head: &'r [u8], limits: &ConnectionLimits) -> Option<Request<'r>> {
    match vermeil_http::parse(head, limits) {
        ParsedPart::Complete { request, .. } => Some(request),
        _ => None,
    }
}

impl Explanation<'_> {
    fn say(&mut self, line: impl std::fmt::Display) {
        let _ = writeln!(self.lines, "{line}");
    }

    fn request(&mut self, request: &Request<'_>, limits: &ConnectionLimits) {
        let (mut target, mut first) = (request.target.raw.to_vec(), 0);
        for _ in 0..REWRITES_MAX {
            let head =
                [b"GET ", &target[..], b" HTTP/1.1\r\nHost: ", request.host.unwrap_or(b"x"), b"\r\n\r\n"]
                    .concat();
            let Some(acting) = self::request(&head, limits) else {
                return self.say("the rewritten target is no target of a request: 414");
            };
            match self.routes(&acting, first) {
                Some((next, from)) => (target, first) = (next, from),
                None => return,
            }
        }
    }

    /// Tries the routes from `first` on. Returns the rewritten target, and the next route to try.
    fn routes(&mut self, request: &Request<'_>, first: usize) -> Option<(Vec<u8>, usize)> {
        let mut decoded = Vec::new();
        let path = match path::decode_for_program(request.target.path, &mut decoded) {
            Ok(path) => path,
            Err(wrong) => {
                self.say(format_args!("path: refused: {}", wrong.status().code()));
                return None;
            }
        };
        self.say(format_args!("path: {} (decoded)", path.bytes.escape_ascii()));
        if self.is_without_tls(request) {
            return None;
        }
        let has_encoded_slash = path.has_encoded_slash();
        let path = path.bytes;
        let options = self.options;
        let Host { rules, name, .. } = options.hosts.host(self.host);
        let asked = Asked { request: Some(request), peer: None, first };
        rules.guards_at(path, asked).for_each(|(_, guard)| self.access(guard));
        if let Some((number, route)) = rules.refusal(path, asked) {
            let place = PlaceOf(route);
            if let Action::Deny(status) = route.action {
                self.say(format_args!("route {} ({place}): holds for the rewritten path too", number + 1));
                self.say(format_args!("answer: {} by deny", status.code()));
                return None;
            }
            self.say(format_args!(
                "route {} ({place}): holds for the rewritten path too; 404 for clients outside of from",
                number + 1
            ));
        }
        for (number, route) in rules.routes.iter().enumerate().skip(first) {
            let place = PlaceOf(route);
            if !route.covers(path) {
                self.say(format_args!("route {} ({place}): does not cover the path", number + 1));
                continue;
            }
            if !route.conditions.hold(asked) {
                self.say(format_args!(
                    "route {} ({place}): covers the path, but a condition does not hold for a GET without fields \
                     from an unknown client",
                    number + 1
                ));
                continue;
            }
            let clients = if route.from.is_empty() { "" } else { " for the clients in from; 404 for others" };
            self.say(format_args!("route {} ({place}): matches{clients}", number + 1));
            if has_encoded_slash && !matches!(route.action, Action::Files | Action::Cgi) {
                let status = PathError::EncodedSlash.status();
                self.say(format_args!("answer: {}, because the path has an encoded slash", status.code()));
                return None;
            }
            let path = RequestPath {
                scheme: self.scheme,
                host: request.host.or(name),
                decoded: path,
                query: request.target.query,
            };
            return self.action(asked, route, &path).map(|target| (target, number + 1));
        }
        self.files(asked, path);
        None
    }

    /// Describes the answer if the host requires HTTPS, and the request comes over HTTP.
    fn is_without_tls(&mut self, request: &Request<'_>) -> bool {
        let hosts = &self.options.hosts;
        if self.scheme == ClientScheme::Https {
            return false;
        }
        let is_of_proxy = self.listener.is_some_and(|at| at.unix().is_some());
        if !is_of_proxy && hosts.redirects_to_https(self.host, request.target.path) {
            let address = hosts.https_address(self.host, request).unwrap_or_default();
            self.say(format_args!(
                "answer: 301 to {}, because the host requires HTTPS",
                address.escape_ascii()
            ));
            return true;
        }
        let is_refused = hosts.requires_certificate(self.host);
        if is_refused {
            self.say("answer: 403, because the host requires certificates of clients, and HTTP has none");
        }
        is_refused
    }

    /// The rules about clients.
    fn access(&mut self, guard: &Guard) {
        let parts = [
            (!guard.allow.is_empty() || !guard.deny.is_empty()).then_some("the client's network (else 403)"),
            guard.rate.as_ref().map(|_| "the client's rate (else 429)"),
            guard.in_progress.as_ref().map(|_| "the client's requests in progress"),
            guard.realm.as_ref().map(|_| "name and password (else 401)"),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            self.say(format_args!("access: {}", parts.join(", ")));
        }
    }

    /// What the route does. Returns the rewritten target.
    fn action(&mut self, asked: Asked<'_>, route: &Route, path: &RequestPath<'_>) -> Option<Vec<u8>> {
        match &route.action {
            Action::Files => self.files(asked, path.decoded),
            Action::Cgi => {
                self.say("answer: the CGI program that the path names; the rules for its own path hold too");
            }
            Action::Status => self.say("answer: the status of the server"),
            Action::Metrics => self.say("answer: the metrics of the server"),
            Action::Ready => self.say("answer: 200, or 503 once the server is told to stop"),
            Action::Deny(status) => self.say(format_args!("answer: {} by deny", status.code())),
            Action::Fixed { status, .. } => {
                self.say(format_args!("answer: {} with the text of the route", status.code()))
            }
            Action::Redirect { to, status } => {
                let mut location = Vec::new();
                to.write(route, path, &mut location);
                self.say(format_args!("answer: {} to {}", status.code(), location.escape_ascii()));
            }
            Action::Rewrite { to } => {
                let Some(target) = to.target(route, path) else {
                    self.say("answer: 404, because the rewritten path would have a dot segment");
                    return None;
                };
                self.say(format_args!("rewritten: {}; later routes apply", target.escape_ascii()));
                return Some(target);
            }
            Action::Alias(folder) => match route.below(path.decoded) {
                Some(below) => {
                    if let Some(site) = self.site(*folder)
                        && !self.outcome(&site, asked, path.decoded, (path.decoded, &below), &encoded(&below))
                    {
                        self.say("answer: 404, because nothing has the path");
                    }
                }
                None => {
                    let own = path.decoded.escape_ascii();
                    self.say(format_args!(
                        "answer: 301 to {own}/, because the path is the folder of the route"
                    ));
                }
            },
        }
        None
    }

    /// The open folder of a host or a route.
    fn site(&mut self, folder: HostId) -> Option<Arc<Site>> {
        let Some((root, site_options)) = self.options.hosts.folder(folder) else {
            self.say("answer: 404, because the host has no folder");
            return None;
        };
        match self.cache.store().clone().open(root, site_options, CacheOnly::No) {
            Ok(site) => Some(site),
            Err(error) => {
                self.say(format_args!("answer: none: {error}"));
                None
            }
        }
    }

    /// The file of the host for a request with the path `own`.
    fn files(&mut self, asked: Asked<'_>, own: &[u8]) {
        let Some(site) = self.site(self.host) else { return };
        let rules = self.options.hosts.host(self.host).rules;
        if rules.php.is_on() && self.program_on_the_way(&site, asked) {
            return;
        }
        let raw = asked.request.map_or_else(|| encoded(own), |request| request.target.path.into());
        let mut decoded = Vec::new();
        let has_encoded_slash =
            path::decode_for_program(&raw, &mut decoded).is_ok_and(|path| path.has_encoded_slash());
        let candidates = rules.candidates(own, asked);
        if has_encoded_slash && !candidates.is_empty() {
            self.say("  no file can have the path, because of its encoded slash");
        } else if self.outcome(&site, asked, own, (own, own), &raw) {
            return;
        }
        for candidate in candidates {
            let target = candidate.of(own);
            self.say(format_args!("try {candidate}: {}", target.escape_ascii()));
            if has_encoded_slash && candidate.has_own() {
                self.say("  passed over: a path with an encoded slash would be a second name of the file");
                continue;
            }
            if !rules.leaves_to_files(&target, asked) {
                self.say("  passed over: a route for other clients or with another action covers this path");
                continue;
            }
            if self.outcome(&site, asked, own, (&target, &target), &encoded(&target)) {
                return;
            }
        }
        self.say("answer: 404, because nothing has the path");
    }

    /// Describes the PHP program that a part of the path names; `false` if there is none.
    fn program_on_the_way(&mut self, site: &Arc<Site>, asked: Asked<'_>) -> bool {
        let mut decoded = Vec::new();
        let path = asked.request.map(|request| request.target.path).unwrap_or_default();
        let Ok(path) = path::decode_for_program(path, &mut decoded) else { return false };
        let rules = self.options.hosts.host(self.host).rules;
        let cuts = split::candidates(path.bytes, EXTENSION);
        for cut in cuts.take_while(|cut| cut.script.len() <= path.names_max() && !cut.path_info.is_empty()) {
            let found = self.look_up(site, &encoded(cut.script));
            match found.as_ref().map(|handle| handle.outcome()) {
                Ok(EntryOutcome::Program { .. }) => {}
                Ok(EntryOutcome::NotFound(_)) => return false,
                _ => continue,
            }
            let script = cut.script.escape_ascii();
            self.say(format_args!("program: {script}, with the path {}", cut.path_info.escape_ascii()));
            let has_own_rules = rules.names_part_behind(cut.script, path.bytes, asked);
            if !has_own_rules {
                rules.guards_at(cut.script, asked).for_each(|(_, guard)| self.access(guard));
            }
            match rules.refusal_of_other(cut.script, asked).filter(|_| !has_own_rules) {
                Some(route) => {
                    self.say(format_args!(
                        "answer: refused by the route {}, which covers the program",
                        PlaceOf(route)
                    ));
                }
                None => self.say(format_args!("answer: PHP: {}{script}", site.path().display())),
            }
            return true;
        }
        false
    }

    /// Describes the answer to a request with the path `own` by the path `below` of `site`, in the
    /// form `raw`. The routes see the path as `target`. Returns `false` if the path names nothing.
    fn outcome(
        &mut self,
        site: &Arc<Site>,
        asked: Asked<'_>,
        own: &[u8],
        (target, below): (&[u8], &[u8]),
        raw: &[u8],
    ) -> bool {
        let name = format!("{}{}", site.path().display(), below.escape_ascii());
        let handle = match self.look_up(site, raw) {
            Ok(handle) => handle,
            // The server tries no other path. `files` has passed over encoded slashes.
            Err(status) => {
                self.say(format_args!("answer: {}, because no file can have the path", status.code()));
                return true;
            }
        };
        let rules = self.options.hosts.host(self.host).rules;
        match handle.outcome() {
            EntryOutcome::File(file) => {
                if let Some(index) = file.index_name()
                    && self.is_refused_page(&[target, index.as_bytes()].concat(), asked)
                {
                    return true;
                }
                let variant = file.variant(vermeil_http::negotiate::Choice::Identity);
                let what = if below.ends_with(b"/") { "the index page of" } else { "the file" };
                let (bytes, media_type) = (variant.bytes(), variant.media_type());
                self.say(format_args!("answer: {what} {name} ({media_type}, {bytes} bytes)"));
            }
            EntryOutcome::Redirect { .. } => {
                self.say(format_args!("answer: 301 to {}/, because {name} is a folder", own.escape_ascii()));
            }
            EntryOutcome::Listing { .. } => self.say(format_args!("answer: the listing of {name}")),
            EntryOutcome::Forbidden => self.say(format_args!(
                "answer: 403, because {name} cannot be read, or is a folder without index page and listing = false"
            )),
            EntryOutcome::Program { script } => {
                if **script != *own {
                    rules.guards_at(script, asked).for_each(|(_, guard)| self.access(guard));
                }
                let by = match rules.run_by(script, asked) {
                    RunBy::Php => "PHP",
                    RunBy::Cgi => "CGI",
                    RunBy::Route(_) => "a route, which covers the program",
                    RunBy::Nothing => "403, because nothing runs the program here; the program",
                };
                self.say(format_args!("answer: {by}: {}{}", site.path().display(), script.escape_ascii()));
            }
            EntryOutcome::NotFound(_) => {
                self.say(format_args!("  {name}: is not there, or is hidden"));
                return false;
            }
            EntryOutcome::Unavailable(status) => {
                self.say(format_args!("answer: {}, because {name} cannot be looked up", status.code()));
            }
        }
        true
    }

    /// Describes the rules for the index page at `page`; `true` if a route refuses the page.
    fn is_refused_page(&mut self, page: &[u8], asked: Asked<'_>) -> bool {
        let rules = self.options.hosts.host(self.host).rules;
        if let Some(route) = rules.refusal_of_other(page, asked) {
            let place = PlaceOf(route);
            self.say(format_args!("answer: refused by the route {place}, which covers the index page"));
            return true;
        }
        if rules.guards_index_page(page, asked) {
            rules.guards_at(page, asked).for_each(|(_, guard)| self.access(guard));
        }
        false
    }

    /// The entry of a path, or the status of a path that no file can have.
    fn look_up(&mut self, site: &Arc<Site>, raw_path: &[u8]) -> Result<EntryHandle, Status> {
        match self.cache.lookup(site, raw_path, 0) {
            Lookup::Hit(handle) => Ok(handle.clone()),
            Lookup::Never(status) => Err(status),
            Lookup::Miss(job) => {
                let loaded = job.run();
                Ok(self.cache.insert(loaded))
            }
        }
    }
}
