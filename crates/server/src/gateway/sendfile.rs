//! Files that programs have sent: by `X-Sendfile` with a path in the file system, and by
//! `X-Accel-Redirect` with a path below a configured prefix.
//!
//! The files come from allowed folders through the file cache, with ranges and conditions as for
//! any file. The program's own fields are added, except for fields that describe the file. Tested
//! below and through the binary.

use super::{
    GatewayOptions, HostSends, SendRoot, Sends,
    route::{encoded, look_up},
};
use crate::{
    answer::{self, Answer},
    connection::{Connection, Head, Lost},
    files::{Given, Listing, Outcome, Part, Programs, Site, SiteError, SiteOptions, Store},
    hosts::{Action, Hosts},
    local, paths, slow,
};
use std::{
    collections::{HashMap, HashSet},
    fmt,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::Arc,
};
use vermeil_http::{
    Framing, Method, Request, Status,
    gateway::ResponseHead,
    path::{self, PathError},
};
use vermeil_io::CacheOnly;

/// The open folders from which programs may have files sent. A folder that a reload keeps stays
/// open, with its cache entries.
#[derive(Clone, Default)]
pub(crate) struct SendSites(Arc<HashMap<SendRoot, Arc<SendSite>>>);

impl SendSites {
    /// Opens the folders of `options` and `hosts` in the cache of all files. Reuses folders that
    /// are open in `before`.
    ///
    /// # Errors
    /// A folder cannot be served.
    pub(crate) fn open(
        options: &GatewayOptions,
        hosts: &Hosts,
        before: &Self,
        store: &Arc<Store>,
    ) -> Result<Self, SiteError> {
        let opened = send_roots(options, hosts).map(|root| {
            let programs = programs_in(&paths::absolute(&root.folder), hosts);
            let site = match before.0.get(root).filter(|site| site.site.options().programs == programs) {
                Some(site) => site.clone(),
                None => Arc::new(SendSite::open(root, programs, store)?),
            };
            Ok((root.clone(), site))
        });
        opened.collect::<Result<_, _>>().map(|sites| Self(Arc::new(sites)))
    }

    fn of<'s>(&'s self, roots: &'s [SendRoot]) -> impl Iterator<Item = &'s SendSite> {
        roots.iter().filter_map(|root| self.0.get(root).map(Arc::as_ref))
    }
}

/// All configured folders, without duplicates.
pub(crate) fn send_roots<'o>(
    options: &'o GatewayOptions,
    hosts: &'o Hosts,
) -> impl Iterator<Item = &'o SendRoot> {
    let Sends { php, cgi } = &options.sends;
    let of_hosts = hosts.sends().flat_map(|HostSends { php, cgi }| php.iter().chain(cgi).flatten());
    let mut seen = HashSet::new();
    php.iter().chain(cgi).chain(of_hosts).filter(move |root| seen.insert(*root))
}

/// A folder from which files are sent.
pub(crate) struct SendSite {
    prefix: Option<Vec<u8>>,
    /// The absolute path, without a slash at the end.
    folder: Vec<u8>,
    site: Arc<Site>,
}

impl SendSite {
    /// Opens the folder of `root` in the cache of all files.
    pub(crate) fn open(root: &SendRoot, programs: Programs, store: &Arc<Store>) -> Result<Self, SiteError> {
        let options = SiteOptions {
            listing: Listing::Off,
            index_names: Vec::new(),
            programs,
            ..SiteOptions::default()
        };
        let prefix = root.prefix.as_ref().map(|prefix| prefix.trim_end_matches('/').as_bytes().to_vec());
        let folder = paths::absolute(&root.folder);
        let site = store.open(&folder, options, CacheOnly::No)?;
        Ok(Self { prefix, folder: trimmed(&folder), site })
    }
}

/// The programs of all hosts that may lie in `folder`: by their names, and by their folders where
/// these are in `folder`. If `folder` lies inside a program folder, it was configured for sending
/// all the same, so it holds files.
fn programs_in(folder: &Path, hosts: &Hosts) -> Programs {
    let mut parts = Vec::new();
    for host in hosts.iter().map(|id| hosts.host(id)) {
        for route in host.rules.routes.iter().filter(|route| route.action == Action::Cgi) {
            let prefix = match (&route.suffix, host.root) {
                (Some(_), _) => None,
                (None, Some(root)) => {
                    let prefix = route.prefix.as_deref().unwrap_or("/").trim_matches('/');
                    let Ok(below) = root.join(prefix).strip_prefix(folder).map(Path::to_owned) else {
                        continue;
                    };
                    below.to_str().map(|below| format!("/{below}").into())
                }
                (None, None) => continue,
            };
            let part = (Part { prefix, suffix: route.suffix.clone() }, Given::ToCgi);
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    Programs { last_index: None, parts }
}

fn trimmed(folder: &Path) -> Vec<u8> {
    let bytes = folder.as_os_str().as_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes).to_vec()
}

/// The file that a program named.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named<'a> {
    /// An encoded path, as in a request.
    Path(&'a [u8]),
    /// An absolute path in the file system.
    File(&'a [u8]),
}

impl Named<'_> {
    /// The folder of the file among `roots`, and the encoded path within.
    fn find<'s>(
        self,
        mut roots: impl Iterator<Item = &'s SendSite>,
    ) -> Result<(&'s SendSite, Vec<u8>), Refusal> {
        let found = match self {
            Self::File(file) => roots.find_map(|root| Some((root, encoded(below(&root.folder, file)?)))),
            Self::Path(raw) => {
                let path_len = raw.iter().position(|&byte| byte == b'?').unwrap_or(raw.len());
                let mut decoded = Vec::new();
                let decoded = path::decode(&raw[..path_len], &mut decoded).map_err(Refusal::NoPath)?.bytes;
                roots.find_map(|root| Some((root, encoded(below(root.prefix.as_ref()?, decoded)?))))
            }
        };
        found.ok_or(Refusal::Elsewhere)
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "X-Accel-Redirect: {}", path.escape_ascii()),
            Self::File(path) => write!(f, "X-Sendfile: {}", path.escape_ascii()),
        }
    }
}

/// Why a file is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The name is not a valid path.
    NoPath(PathError),
    /// The file is in no allowed folder.
    Elsewhere,
}

impl Refusal {
    /// The reason, for the operator. `cure` is the option or key that names such a folder.
    pub(crate) fn said(self, named: Named<'_>, cure: &str) -> String {
        match self {
            Self::NoPath(PathError::NotAbsolute) => format!("{named} does not begin with a slash"),
            Self::NoPath(PathError::BadEscape) => {
                format!("{named} has a % without two hexadecimal digits: write the path percent-encoded")
            }
            Self::NoPath(PathError::Nul | PathError::EncodedSlash) => {
                format!("{named} has an encoded NUL or slash, which no name of a file holds")
            }
            Self::NoPath(PathError::TooLong) => {
                format!("{named} is longer than {} bytes", path::PATH_BYTES_MAX)
            }
            Self::Elsewhere => format!("{named} is in no folder that files may be sent from ({cure})"),
        }
    }
}

/// The answer that sends a file.
pub(crate) struct Sending {
    pub(crate) answer: Answer,
    pub(crate) status: Status,
    /// Why the answer is not the file.
    pub(crate) why: Option<&'static str>,
}

/// The part of `path` after `start`, in whole segments. Starts with a slash.
fn below<'p>(start: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    path.strip_prefix(start).filter(|rest| rest.starts_with(b"/"))
}

/// Makes the answer that sends a file. Returns the refusal if nothing is sent.
pub(crate) async fn send(
    connection: &mut Connection,
    request: &Request<'_>,
    head: Head,
    response: &ResponseHead,
    named: Named<'_>,
    (sites, roots): (&SendSites, &[SendRoot]),
) -> Result<Result<Sending, Refusal>, Lost> {
    let (root, raw_path) = match named.find(sites.of(roots)) {
        Ok(found) => found,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let handle = look_up(connection, &root.site, &raw_path).await?;
    let mut file_answer = Vec::new();
    let sending = local::with(|local| match handle {
        Ok(handle) if matches!(handle.outcome(), Outcome::File(_)) => {
            // The program has handled the method, so this is a request for the file.
            let method = if request.method == Method::Head { Method::Head } else { Method::Get };
            let asked = Request { method, body: Framing::None, ..request.clone() };
            let answer = answer::resolved(local, &asked, &handle, head, &mut file_answer);
            Sending { answer, status: Status::Ok, why: None }
        }
        Err(status @ Status::ServiceUnavailable) => {
            let answer = answer::error(local, status, slow::RETRY_AFTER, head, &mut file_answer);
            Sending { answer, status, why: Some("nothing had time to look for that file") }
        }
        Ok(handle) if matches!(handle.outcome(), Outcome::Forbidden) => {
            let answer = answer::error(local, Status::NotFound, b"", head, &mut file_answer);
            Sending { answer, status: Status::NotFound, why: Some("that is a folder, or may not be read") }
        }
        _ => {
            let answer = answer::error(local, Status::NotFound, b"", head, &mut file_answer);
            Sending { answer, status: Status::NotFound, why: Some("there is no such file") }
        }
    });
    merge(&file_answer, &response.lines, &mut connection.output);
    Ok(Ok(sending))
}

/// Fields that describe the file itself, or this server. The program's values are left out.
const OF_FILE: [&[u8]; 7] = [
    b"accept-ranges",
    b"content-encoding",
    b"content-range",
    b"content-type",
    b"etag",
    b"last-modified",
    b"location",
];

/// Appends `answer` (a file's head and the bytes after it) with a program's `lines` added to its
/// fields.
fn merge(answer: &[u8], lines: &[u8], out: &mut Vec<u8>) {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(answer.len(), |at| at + 2);
    let (head, rest) = answer.split_at(end);
    let is_error = head.get(9).is_some_and(|&digit| digit >= b'4');
    if is_error {
        out.extend_from_slice(head);
        let is_for_client = |line: &&[u8]| !is_of_file(line) && !is_of_content(name(line));
        each(lines).filter(is_for_client).for_each(|line| out.extend_from_slice(line));
        return out.extend_from_slice(rest);
    }
    // With several ranges the type is that of the multipart body. A 304 answer has no type.
    let names_type = |line: &&[u8]| name(line).eq_ignore_ascii_case(b"content-type");
    let is_framed =
        each(head).any(|line| line.to_ascii_lowercase().starts_with(b"content-type: multipart/byteranges"));
    let program_type =
        each(lines).find(names_type).filter(|_| !is_framed && each(head).any(|l| names_type(&l)));
    for line in each(head) {
        out.extend_from_slice(program_type.filter(|_| names_type(&line)).unwrap_or(line));
    }
    for line in each(lines) {
        if !is_of_file(line) {
            out.extend_from_slice(line);
        }
    }
    out.extend_from_slice(rest);
}

fn is_of_file(line: &[u8]) -> bool {
    OF_FILE.into_iter().any(|field| name(line).eq_ignore_ascii_case(field))
}

/// Whether a field describes the program's content or its cache lifetime. An error answer has
/// different content.
fn is_of_content(name: &[u8]) -> bool {
    let starts = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-"));
    let kept: [&[u8]; 4] = [b"age", b"cache-control", b"expires", b"pragma"];
    starts || kept.into_iter().any(|field| name.eq_ignore_ascii_case(field))
}

/// The lines, with their line ends.
fn each(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines.split_inclusive(|&byte| byte == b'\n')
}

fn name(line: &[u8]) -> &[u8] {
    line.split(|&byte| byte == b':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(answer: &str, lines: &str) -> String {
        let mut out = Vec::new();
        merge(answer.as_bytes(), lines.as_bytes(), &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_programs_fields_go_with_the_file() {
        let file = "HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\nETag: \"f\"\r\nContent-Length: 4\r\n\r\nbody";
        let lines =
            "Content-Type: a/b\r\nContent-Disposition: attachment\r\nETag: \"p\"\r\nSet-Cookie: a=b\r\n";
        assert_eq!(
            merged(file, lines),
            "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nETag: \"f\"\r\nContent-Length: 4\r\n\
             Content-Disposition: attachment\r\nSet-Cookie: a=b\r\n\r\nbody"
        );
        assert_eq!(merged(file, ""), file);
    }

    #[test]
    fn the_type_of_ranges_of_nothing_and_of_errors_is_their_own() {
        let lines = "Content-Type: a/b\r\nX: y\r\n";
        let parts = "HTTP/1.1 206 Partial Content\r\nContent-Type: multipart/byteranges; boundary=b\r\n\r\n";
        assert_eq!(
            merged(parts, lines),
            "HTTP/1.1 206 Partial Content\r\nContent-Type: multipart/byteranges; boundary=b\r\nX: y\r\n\r\n"
        );
        let unmodified = "HTTP/1.1 304 Not Modified\r\nETag: \"f\"\r\n\r\n";
        assert_eq!(merged(unmodified, lines), "HTTP/1.1 304 Not Modified\r\nETag: \"f\"\r\nX: y\r\n\r\n");
        let missing = "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\npage";
        assert_eq!(
            merged(missing, "Content-Type: a/b\r\nCache-Control: max-age=9\r\nSet-Cookie: a=b\r\n"),
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\n\r\npage",
            "a cookie is for the client, whatever became of the file"
        );
    }

    #[test]
    fn files_are_found_in_whole_segments_of_allowed_folders_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let around = folder.path();
        let store = Store::new(crate::files::StoreOptions::default());
        let open = |prefix: Option<&str>, name: &str| {
            std::fs::create_dir(around.join(name)).expect("made");
            let root = SendRoot { prefix: prefix.map(str::to_owned), folder: around.join(name) };
            SendSite::open(&root, Programs::default(), &store).expect("opened")
        };
        let roots = [open(None, "one"), open(Some("/files/"), "two")];
        let find = |named: Named<'_>| {
            let (root, path) = named.find(roots.iter()).ok()?;
            let place = roots.iter().position(|other| std::ptr::eq(root, other)).expect("one of them");
            Some((place, String::from_utf8(path).expect("ASCII")))
        };
        let in_folder = |name: &str| find(Named::File(around.join(name).as_os_str().as_bytes()));
        assert_eq!(in_folder("one/a b"), Some((0, "/a%20b".into())));
        assert_eq!(in_folder("two/c/d"), Some((1, "/c/d".into())));
        assert_eq!((in_folder("one"), in_folder("oneself/x"), in_folder("x")), (None, None, None));
        let by_path = |path: &str| find(Named::Path(path.as_bytes()));
        assert_eq!(by_path("/files/a%20b?c"), Some((1, "/a%20b".into())));
        assert_eq!(by_path("/files/../files/x"), Some((1, "/x".into())));
        assert_eq!((by_path("/filesystem/x"), by_path("/x"), by_path("files/x")), (None, None, None));
        // Regression: the message said that the file is in no such folder.
        let refused = Named::Path(b"/files/90%.txt");
        let why =
            refused.find(roots.iter()).map(drop).expect_err("a broken escape").said(refused, "--php-send");
        assert!(why.starts_with("X-Accel-Redirect: /files/90%.txt has a % without two"), "{why}");
        // The folder itself refuses paths that climb, as for any request.
        assert_eq!(in_folder("one/../two/x"), Some((0, "/../two/x".into())));
    }
}
