//! Warnings about configurations that a server accepts, and that do not do what they say: routes
//! that are never reached, redirects onto themselves, missing folders of programs, a missing pool.
//!
//! Looks at the first route that covers a path, as a request does. Tested in
//! `../config/tests/places.rs`.

use crate::folders::folder_trouble;
use percent_encoding::percent_decode;
use std::{
    fs, io, iter,
    os::unix::fs::FileTypeExt as _,
    path::{Path as FilePath, PathBuf},
};
use vermeil_config::{PlacedKey, ServeOptions};
use vermeil_files::rest;
use vermeil_http::gateway::ClientScheme;
use vermeil_routing::hosts::{Action, Asked, Candidate, HostId, Path, Route, Rules, TextTemplate};
use vermeil_settings::php::PhpSource;

/// Redirects that are followed. Browsers give up after 20.
const REDIRECTS_MAX: usize = 20;

/// The warnings about the routes of a host, each with its key.
pub(crate) fn of_routes(options: &ServeOptions, id: HostId) -> Vec<(PlacedKey, String)> {
    let host = options.hosts.host(id);
    let rules = host.rules;
    let mut doubts = Vec::new();
    for (number, route) in rules.routes.iter().enumerate() {
        if let Some(earlier) = hidden_by(rules, number) {
            let what = format!(
                "no request reaches route {}, because route {} takes all its paths; write the narrower route first",
                number + 1,
                earlier + 1
            );
            doubts.push((PlacedKey::Route(id, number), what));
        } else if is_endless(options, id, number) {
            let what = "the redirect leads to a path of the same route, so clients never arrive; name another target"
                .to_owned();
            doubts.push((PlacedKey::RouteTarget(id, number), what));
        }
        if let Some(what) = host.root.and_then(|root| missing_programs(root, route)) {
            doubts.push((PlacedKey::RoutePrefix(id, number), what));
        }
        if let Action::Alias(folder) = &route.action
            && let Some((folder, _)) = options.hosts.folder(*folder)
            && let Some(why) = folder_trouble(folder)
        {
            let what = format!(
                "cannot serve {}: {why}; make a folder there, or name another as root",
                folder.display()
            );
            doubts.push((PlacedKey::RouteRoot(id, number), what));
        }
    }
    doubts
}

/// The pages of errors of a host that are missing, a line each.
pub(crate) fn missing_error_pages(root: &FilePath, rules: &Rules) -> Vec<String> {
    let of_routes = rules.routes.iter().filter_map(|route| route.answers.as_ref());
    let pages = iter::once(&rules.answers).chain(of_routes).flat_map(|answers| &answers.error_pages);
    let said = missing_files(root, pages.map(|page| &*page.path)).map(|path| {
        format!(
            "there is no page of errors {}, so clients get a short page instead; make it, or take it out of \
             error_pages",
            path.display()
        )
    });
    said.collect()
}

/// The files of `try` of a host that are missing, a line each.
pub(crate) fn missing_candidates<'r>(root: &FilePath, rules: &'r Rules) -> Vec<String> {
    let of_routes = rules.routes.iter().filter_map(|route| route.tries.as_ref());
    let fixed = |candidate: &'r Candidate| match candidate {
        // The route of another action answers for its paths, so these need no file.
        Candidate::Fixed(path) => {
            Some(&**path).filter(|path| rules.leaves_to_files(path.as_bytes(), Asked::PATH_ONLY))
        }
        Candidate::Path(_) => None,
    };
    let paths = iter::once(&rules.tries).chain(of_routes).flatten().filter_map(fixed);
    let said = missing_files(root, paths).map(|path| {
        format!(
            "there is no {}, so paths that reach it are 404; make it, or take it out of try",
            path.display()
        )
    });
    said.collect()
}

/// The files of `paths` below `root` that are missing, each once. None in a missing folder.
fn missing_files<'p>(root: &FilePath, paths: impl Iterator<Item = &'p str>) -> impl Iterator<Item = PathBuf> {
    let mut paths: Vec<&str> = paths.collect();
    paths.sort_unstable();
    paths.dedup();
    let is_missing = |path: &FilePath| {
        fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) && root.is_dir()
    };
    paths.into_iter().map(|path| root.join(path.trim_start_matches('/'))).filter(move |path| is_missing(path))
}

/// The earlier route that takes each path of the route `number`.
fn hidden_by(rules: &Rules, number: usize) -> Option<usize> {
    let later = &rules.routes[number];
    // A rewrite behind the earlier route leads requests past it.
    let first = rules.routes[..number]
        .iter()
        .rposition(|route| matches!(route.action, Action::Rewrite { .. }))
        .map_or(0, |rewrite| rewrite + 1);
    (first..number).find(|earlier| takes_all(&rules.routes[*earlier], later))
}

/// Whether `earlier` covers each path that `later` covers, for all requests.
fn takes_all(earlier: &Route, later: &Route) -> bool {
    if !earlier.conditions.is_empty() || earlier.suffix.is_some() || earlier.pattern.is_some() {
        return false;
    }
    match (&earlier.path, earlier.prefix.as_deref()) {
        (Some(_), Some(_)) => false,
        (Some(path), None) => later.path.as_ref() == Some(path),
        (None, None | Some("/")) => true,
        (None, Some(prefix)) => {
            let start = later.path.as_deref().or(later.prefix.as_deref());
            start.is_some_and(|start| rest(prefix.as_bytes(), start.as_bytes()).is_some())
        }
    }
}

/// Whether the route `number` redirects its clients to itself again and again.
fn is_endless(options: &ServeOptions, id: HostId, number: usize) -> bool {
    let rules = options.hosts.host(id).rules;
    let route = &rules.routes[number];
    let Action::Redirect { to, .. } = &route.action else { return false };
    let is_sampled = route.suffix.is_none() && route.pattern.is_none() && route.conditions.is_empty();
    let start = route.path.as_deref().or(route.prefix.as_deref()).unwrap_or("/");
    let mut path = start.as_bytes().to_vec();
    is_sampled
        && (0..REDIRECTS_MAX).all(|_| {
            let target = target_here(options, id, route, to, &path);
            let again = target.filter(|target| {
                rules.route(target, Asked::PATH_ONLY).is_some_and(|(answers, _)| answers == number)
            });
            again.map(|target| path = target).is_some()
        })
}

/// The decoded path of a redirect's target; `None` for a target on another server or host.
fn target_here(
    options: &ServeOptions,
    id: HostId,
    route: &Route,
    to: &TextTemplate,
    decoded: &[u8],
) -> Option<Vec<u8>> {
    let hosts = &options.hosts;
    let name = hosts.all_names().find(|(host, _)| *host == id).map(|(_, name)| name);
    let name = name.filter(|name| !name.starts_with('*')).unwrap_or_else(|| "localhost".to_owned());
    let mut target = Vec::new();
    let secure = options.tls.listen.len();
    let has_http = secure < options.listen.len();
    let scheme = if has_http { ClientScheme::Http } else { ClientScheme::Https };
    to.write(route, &Path { scheme, host: Some(name.as_bytes()), decoded, query: None }, &mut target)?;
    let address = match (target.strip_prefix(b"http://"), target.strip_prefix(b"https://")) {
        (Some(address), _) if has_http => Some(address),
        // A proxy in front may speak HTTPS, so only a server without HTTP certainly answers.
        (_, Some(address)) if secure > 0 && !has_http => Some(address),
        (None, None) => None,
        _ => return None,
    };
    let path = match address {
        None => &target[..],
        Some(address) => {
            let end = address.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(address.len());
            if hosts.find(Some(&address[..end])) != Some(id) || address[..end].contains(&b':') {
                return None;
            }
            &address[end..]
        }
    };
    let end = path.iter().position(|byte| b"?#".contains(byte)).unwrap_or(path.len());
    Some(if end == 0 { b"/".to_vec() } else { percent_decode(&path[..end]).collect() })
}

/// The reason why a route runs no programs: its folder is missing.
fn missing_programs(root: &FilePath, route: &Route) -> Option<String> {
    let prefix = route.prefix.as_deref().filter(|_| route.action == Action::Cgi && route.suffix.is_none())?;
    let folder = root.join(prefix.trim_matches('/'));
    let is_missing =
        fs::metadata(&folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) && root.is_dir();
    is_missing.then(|| {
        format!(
            "there are no programs, because {} is missing; make it, or name another prefix",
            folder.display()
        )
    })
}

/// The reason why PHP would not answer: the socket of its pool is missing.
pub(crate) fn missing_pool(options: &ServeOptions) -> Option<String> {
    let PhpSource::Unix(path) = &options.php.as_ref()?.source else { return None };
    let why = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => "there is no such socket",
        Ok(found) if !found.file_type().is_socket() => "it is no socket",
        _ => return None,
    };
    Some(format!("PHP does not answer at {}: {why}; start the pool, or name its socket", path.display()))
}
