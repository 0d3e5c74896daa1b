//! The routes of a host: from the keys to the action and the conditions, with the refusals.
//!
//! Leaves out the keys themselves (`keys.rs`). The refusals are tested in `tests/routes.rs`.

use super::{
    keys::{ActionWord, RouteTable},
    networks::networks,
    problems::Problems,
    read::At,
};
use std::{
    ffi::OsString,
    fmt::Display,
    ops::Range,
    os::unix::ffi::OsStringExt,
    path::{Component, Path, PathBuf},
    str::FromStr,
};
use vermeil_files::has_program_name;
use vermeil_http::{Status, is_token, path};
use vermeil_routing::{
    hosts::{Action, Conditions, RequestCondition, Route, TextPattern, TextTemplate, check_value},
    paths,
};

/// The value of `Content-Type` of a text.
const TEXT: &str = "text/plain; charset=utf-8";

/// The reason against an empty list of networks.
pub(super) const NO_NETWORK: &str = "so the route would be for no client";

/// The longest text of a route, in bytes: a page of memory. A longer text belongs into a file,
/// which the file cache serves.
const BODY_BYTES_MAX: usize = 4096;

/// A text that is parsed; `None`, and a problem, if the text is wrong.
pub(super) fn parsed<T: FromStr<Err: Display>>(
    written: &At<String>,
    key: &str,
    problems: &mut Problems,
) -> Option<T> {
    let At { value, at } = written;
    value.parse().map_err(|why| problems.push(at, key, format!("\"{value}\": {why}"))).ok()
}

/// The whole path of a route.
pub(super) fn whole_path(written: Option<&At<String>>, problems: &mut Problems) -> Option<Box<str>> {
    let At { value, at } = written?;
    let is_decoded = path::decode(value.as_bytes(), &mut Vec::new())
        .is_ok_and(|decoded| decoded.bytes == value.as_bytes());
    if !is_decoded {
        let what = "write a path as it is when decoded, such as \"/robots.txt\", without dot segments";
        problems.push(at, "host.route.path", format!("\"{value}\": {what}"));
    }
    Some(value.as_str().into())
}

/// The pattern of a route.
pub(super) fn pattern(table: &RouteTable, problems: &mut Problems) -> Option<TextPattern> {
    parsed(table.pattern.as_ref()?, "host.route.pattern", problems)
}

/// The conditions of a route.
pub(super) fn conditions(table: &RouteTable, problems: &mut Problems) -> Conditions {
    for At { value, at } in &table.methods {
        if value.is_empty() || !value.bytes().all(is_token) {
            problems.push(
                at,
                "host.route.methods",
                format!("\"{value}\" is no method; write one such as POST"),
            );
        } else if value.bytes().any(|byte| byte.is_ascii_lowercase()) {
            let what = format!("\"{value}\": methods are written in capital letters");
            problems.push(at, "host.route.methods", what);
        }
    }
    let of = |written: &[At<String>], key: &str, problems: &mut Problems| -> Vec<RequestCondition> {
        written.iter().filter_map(|text| parsed(text, key, problems)).collect()
    };
    Conditions {
        methods: table.methods.iter().map(|method| method.value.as_str().into()).collect(),
        headers: of(&table.fields, "host.route.fields", problems),
        query: of(&table.query, "host.route.query", problems),
        clients: networks(table.clients.as_ref(), "host.route.clients", NO_NETWORK, problems),
    }
}

/// The action of a route at `at`, without the folder of `files`.
pub(super) fn action(table: &RouteTable, at: &Range<usize>, problems: &mut Problems) -> Option<Action> {
    refuse_keys_of_others(table, problems);
    Some(match table.action {
        ActionWord::Files => Action::Files,
        ActionWord::Cgi => Action::Cgi,
        ActionWord::Status => Action::Status,
        ActionWord::Metrics => Action::Metrics,
        ActionWord::Ready => Action::Ready,
        ActionWord::Redirect => {
            let status = code(table, at, 301, "one of 301, 302, 303, 307, 308", problems)?;
            Action::Redirect { to: target(table, at, "a redirect", problems)?, status }
        }
        ActionWord::Rewrite => {
            let to = target(table, at, "a rewrite", problems)?;
            if let Some(written) = table.to.as_ref().filter(|to| !to.value.starts_with('/')) {
                let what = format!("\"{}\": write a path that begins with a slash", written.value);
                problems.push(&written.at, "host.route.to", what);
            }
            Action::Rewrite { to }
        }
        ActionWord::Deny => {
            Action::Deny(code(table, at, 403, "the code of an error, such as 404", problems)?)
        }
        ActionWord::Answer => {
            let status = code(table, at, 200, "200, 204 or the code of an error, such as 404", problems)?;
            let content_type = table.content_type.as_ref();
            if let Some(At { value, at }) = content_type
                && let Err(why) = check_value(value)
            {
                problems.push(at, "host.route.content_type", why.to_string());
            }
            let body = body(table, at, status, problems)?;
            let content_type = content_type.map_or(TEXT, |written| &written.value).into();
            Action::Fixed { status, body, content_type }
        }
    })
}

fn body(table: &RouteTable, at: &Range<usize>, status: Status, problems: &mut Problems) -> Option<Box<str>> {
    match &table.body {
        None if status == Status::NoContent => Some("".into()),
        None => {
            problems.push(at, "host.route.body", "an answer needs this key, such as body = \"hello\"");
            None
        }
        Some(At { at, .. }) if status == Status::NoContent => {
            problems.push(
                at,
                "host.route.body",
                "an answer with code = 204 has no text; leave one of the two out",
            );
            None
        }
        Some(At { value, at }) if value.len() > BODY_BYTES_MAX => {
            let what =
                format!("the text has {} bytes, more than {BODY_BYTES_MAX}; write a file", value.len());
            problems.push(at, "host.route.body", what);
            None
        }
        Some(At { value, .. }) => Some(value.as_str().into()),
    }
}

/// The status of a route.
fn code(
    table: &RouteTable,
    at: &Range<usize>,
    default: u64,
    allowed: &str,
    problems: &mut Problems,
) -> Option<Status> {
    let (code, at) = table.code.as_ref().map_or((default, at), |code| (code.value, &code.at));
    let known = Status::ALL.iter().find(|status| u64::from(status.code()) == code);
    let is_fit = match table.action {
        ActionWord::Redirect => matches!(code, 301 | 302 | 303 | 307 | 308),
        ActionWord::Deny => code >= 400,
        _ => code >= 400 || code == 200 || code == 204,
    };
    match known.filter(|_| is_fit) {
        Some(Status::Unauthorized) => {
            let what = "401 must ask for a name and password; write users = \"FILE\" below access instead";
            problems.push(at, "host.route.code", what);
            None
        }
        Some(status) => Some(*status),
        None => {
            problems.push(at, "host.route.code", format!("{code} is not possible here; write {allowed}"));
            None
        }
    }
}

fn target(
    table: &RouteTable,
    at: &Range<usize>,
    what: &str,
    problems: &mut Problems,
) -> Option<TextTemplate> {
    let Some(to) = &table.to else {
        let what = format!("{what} needs this key, such as to = \"/new{{rest}}{{query}}\"");
        problems.push(at, "host.route.to", what);
        return None;
    };
    let template: TextTemplate = parsed(to, "host.route.to", problems)?;
    let pattern = table.pattern.as_ref().and_then(|pattern| pattern.value.parse::<TextPattern>().ok());
    let groups = pattern.map_or(0, |pattern| pattern.groups() - 1);
    if template.groups() > groups {
        let group = template.groups();
        let what =
            format!("\"{}\": the pattern of the route has no group {group}; its groups: {groups}", to.value);
        problems.push(&to.at, "host.route.to", what);
    }
    Some(template)
}

fn refuse_keys_of_others(table: &RouteTable, problems: &mut Problems) {
    use ActionWord::{Answer, Cgi, Deny, Files, Redirect, Rewrite};
    let is = |actions: &[ActionWord]| actions.contains(&table.action);
    let mut only = |at: Option<&Range<usize>>, key: &str, actions: &[ActionWord], named: &str| {
        if let Some(at) = at.filter(|_| !is(actions)) {
            problems.push(at, key, format!("only a route with action = {named} has this key"));
        }
    };
    only(
        table.to.as_ref().map(|to| &to.at),
        "host.route.to",
        &[Redirect, Rewrite],
        "\"redirect\" or \"rewrite\"",
    );
    only(
        table.code.as_ref().map(|code| &code.at),
        "host.route.code",
        &[Redirect, Answer, Deny],
        "\"redirect\", \"answer\" or \"deny\"",
    );
    only(table.body.as_ref().map(|body| &body.at), "host.route.body", &[Answer], "\"answer\"");
    only(table.content_type.as_ref().map(|of| &of.at), "host.route.content_type", &[Answer], "\"answer\"");
    only(table.root.as_ref().map(|root| &root.at), "host.route.root", &[Files], "\"files\"");
    if is(&[Cgi]) {
        for (written, key) in [(&table.path, "host.route.path"), (&table.pattern, "host.route.pattern")] {
            if let Some(At { at, .. }) = written {
                let what =
                    "a route to CGI has a prefix or a suffix, because these say which files are programs";
                problems.push(at, key, what);
            }
        }
    }
    if let (Some(root), Some(tries)) = (&table.root, &table.r#try) {
        let _ = root;
        problems.push(
            &tries.at,
            "host.route.try",
            "a route with a root looks up its own path only; leave one of the two out",
        );
    }
    if let Some(At { value, at }) = table.path.as_ref()
        && (table.prefix.is_some() || table.suffix.is_some())
    {
        let what = format!("\"{value}\" is a whole path; leave out prefix and suffix");
        problems.push(at, "host.route.path", what);
    }
}

/// A folder whose files are all programs, because a route gives its paths to CGI.
pub(super) struct CgiFolder {
    path: PathBuf,
    /// The number of the route, from 1.
    route: usize,
}

/// The folders of programs of a host. Names of programs need no folder, because their text is not
/// sent from any folder.
pub(super) fn program_folders(root: Option<&Path>, routes: &[Route]) -> Vec<CgiFolder> {
    let Some(root) = root else { return Vec::new() };
    let of_cgi = routes.iter().enumerate().filter(|(_, route)| route.action == Action::Cgi);
    let of_folders = of_cgi.filter(|(_, route)| route.suffix.is_none());
    let of = |(number, route): (usize, &Route)| {
        let below = route.prefix.as_deref().unwrap_or_default().trim_matches('/');
        CgiFolder { path: root.join(below), route: number + 1 }
    };
    of_folders.map(of).collect()
}

/// Refuses the folder of a route at `at` that shares files with a folder of programs, because the
/// route would send their text.
pub(super) fn refuse_programs(
    folder: &Path,
    at: &Range<usize>,
    programs: &[CgiFolder],
    problems: &mut Problems,
) {
    let own = followed(folder);
    for CgiFolder { path, route } in programs {
        let of_programs = followed(path);
        if own.starts_with(&of_programs) || of_programs.starts_with(&own) {
            let what = format!(
                "the route would send the text of programs, because route {route} gives the files in {} to CGI; \
                 name a folder outside of it",
                path.display()
            );
            return problems.push(at, "host.route.root", what);
        }
    }
}

/// The path behind all links, as far as the path leads somewhere. In small letters, because some
/// file systems ignore the case of a name.
fn followed(path: &Path) -> PathBuf {
    let path = paths::absolute(path);
    let known = path.ancestors().find_map(|known| Some((known, known.canonicalize().ok()?)));
    let (known, mut followed) = known.unwrap_or((&path, path.clone()));
    for part in path.strip_prefix(known).unwrap_or(Path::new("")).components() {
        match part {
            Component::ParentDir => drop(followed.pop()),
            part => followed.push(part),
        }
    }
    OsString::from_vec(followed.into_os_string().into_vec().to_ascii_lowercase()).into()
}

/// Refuses the path of an error page that is a program, or no path.
pub(super) fn error_page_path(value: &str) -> Option<&'static str> {
    let mut buffer = Vec::new();
    let decoded = path::decode(value.as_bytes(), &mut buffer).ok();
    let Some(decoded) = decoded.filter(|path| path.bytes == value.as_bytes() && !path.is_dir) else {
        return Some("write the path of a file on this host, such as \"/404.html\"");
    };
    if decoded.has_dotfile {
        return Some("names that begin with a dot are never served; name another file");
    }
    has_program_name(value.as_bytes())
        .then_some("a page of an error is a file, because the program may be the reason of the error")
}
