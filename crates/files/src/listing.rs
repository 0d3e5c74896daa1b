//! The page that lists a folder.
//!
//! A job makes the page for each request, because reading a folder waits for the disk. The page is
//! not cached. The page shows only names that the site serves: files and folders, no dotfiles.
//! Tested in `listing/tests.rs`.

use super::{
    entry::{Entry, EntryOutcome},
    open::{FileValidator, OpenPaths, OpenPurpose, open, reached},
    root::SiteRoot,
    site::Site,
};
use rustix::{
    fs::{Dir, FileType},
    io::Errno,
};
use std::{cmp::Ordering, os::fd::AsFd, sync::Arc};
use vermeil_http::{
    HttpDate, Status,
    path::percent_encode_path,
    response::{HeadWriter, html_escape},
};
use vermeil_io::CacheOnly;

#[cfg(test)]
mod tests;

/// Makes the page of a folder; to be run on a thread that may wait.
pub struct ListingJob {
    site: Arc<Site>,
    path: Box<[u8]>,
    /// From 1.
    page: usize,
}

/// A page, ready to send.
#[derive(Debug)]
pub struct ListingPage {
    /// Status line and fields of a 200. The sender adds `Date`, `Connection` and the empty line.
    pub head: Vec<u8>,
    /// The page.
    pub body: Vec<u8>,
}

/// A name, and the kind of its file.
type ListingName = (EntryKind, Box<[u8]>);

/// Most names of a folder that are read. A bound for memory: some 60 MB.
const NAMES_READ_MAX: usize = 1 << 20;

/// The number of this page, from 1, and the number of pages.
#[derive(Clone, Copy)]
struct ListingPages {
    number: usize,
    count: usize,
}

struct ListingItem {
    name: Box<[u8]>,
    kind: EntryKind,
    bytes: u64,
    modified_seconds: i64,
}

/// Folders come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EntryKind {
    Folder,
    File,
}

/// Whether all names of the folder were read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Completeness {
    Complete,
    Cut,
}

impl Site {
    /// A job that makes a page of the listing, counted from 1, for an entry whose outcome is
    /// [`EntryOutcome::Listing`].
    pub fn listing_job(self: &Arc<Self>, entry: &Entry, page: usize) -> Option<ListingJob> {
        match entry.outcome() {
            EntryOutcome::Listing { path } => Some(ListingJob::new(self.clone(), path, page)),
            _ => None,
        }
    }
}

impl ListingJob {
    pub(super) fn new(site: Arc<Site>, path: &[u8], page: usize) -> Self {
        Self { site, path: path.into(), page }
    }

    /// Reads the folder and makes its page.
    ///
    /// # Errors
    /// The status of the answer, if the folder is gone or may not be read.
    pub fn run(self) -> Result<ListingPage, Status> {
        let root = self.site.root();
        let (names, completeness) = self.names(&root).map_err(status)?;
        let per_page = self.site.store().options.listing_names_max.max(1);
        let pages = ListingPages { number: self.page, count: names.len().div_ceil(per_page).max(1) };
        if pages.number > pages.count {
            return Err(Status::NotFound);
        }
        let first = (pages.number - 1) * per_page;
        let shown = names.into_iter().skip(first).take(per_page);
        let items: Vec<_> = shown.filter_map(|name| self.item(&root, name)).collect();
        let body = page(&self.path, &items, pages, completeness);
        let mut head = Vec::with_capacity(128);
        let _ = HeadWriter::new(&mut head, Status::Ok)
            .lines(super::variant::SERVER)
            .field("Content-Type", b"text/html; charset=utf-8")
            .content_length(body.len() as u64);
        Ok(ListingPage { head, body })
    }

    /// All names, in the order of the pages.
    fn names(&self, root: &SiteRoot) -> Result<(Vec<ListingName>, Completeness), Errno> {
        let way = OpenPaths::Allowed(self.site.options.follow_symlinks);
        let folder = open(root.as_fd(), self.below(), OpenPurpose::Reading, way, CacheOnly::No)?;
        reached(root.as_fd(), folder.as_fd())?;
        let mut names = Vec::new();
        let mut completeness = Completeness::Complete;
        for found in Dir::read_from(&folder)? {
            let found = found?;
            let name = found.file_name().to_bytes();
            if name.starts_with(b".") {
                continue;
            }
            if names.len() >= NAMES_READ_MAX {
                completeness = Completeness::Cut;
                break;
            }
            let kind = match found.file_type() {
                FileType::Directory => Some(EntryKind::Folder),
                FileType::RegularFile => Some(EntryKind::File),
                FileType::Symlink | FileType::Unknown => self.look(root, name).map(|(kind, _)| kind),
                _ => None,
            };
            names.extend(kind.map(|kind| (kind, Box::from(name))));
        }
        names.sort_unstable_by(|(a_kind, a), (b_kind, b): &ListingName| {
            a_kind.cmp(b_kind).then_with(|| natural(a, b))
        });
        Ok((names, completeness))
    }

    /// The row of a name, if the file still exists and the site would serve the file.
    fn item(&self, root: &SiteRoot, (_, name): ListingName) -> Option<ListingItem> {
        let (kind, found) = self.look(root, &name)?;
        Some(ListingItem { name, kind, bytes: found.bytes, modified_seconds: found.modified.seconds })
    }

    fn look(&self, root: &SiteRoot, name: &[u8]) -> Option<(EntryKind, FileValidator)> {
        let path = [self.below(), name].join(&b"/"[..]);
        let path = path.strip_prefix(b"/").unwrap_or(&path);
        let way = OpenPaths::Allowed(self.site.options.follow_symlinks);
        let plain = open(root.as_fd(), path, OpenPurpose::Locating, OpenPaths::Plain, CacheOnly::No);
        let file = plain.or_else(|_| {
            let file = open(root.as_fd(), path, OpenPurpose::Locating, way, CacheOnly::No)?;
            reached(root.as_fd(), file.as_fd()).map(|_| file)
        });
        let found = FileValidator::of(file.ok()?.as_fd()).ok()?;
        match found.file_type() {
            FileType::Directory => Some((EntryKind::Folder, found)),
            FileType::RegularFile => Some((EntryKind::File, found)),
            _ => None,
        }
    }

    /// The folder's path below the root, without slashes at its ends.
    fn below(&self) -> &[u8] {
        let below = self.path.strip_prefix(b"/").unwrap_or(&self.path);
        below.strip_suffix(b"/").unwrap_or(below)
    }
}

fn status(errno: Errno) -> Status {
    match errno {
        Errno::NOENT | Errno::NOTDIR => Status::NotFound,
        Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP => Status::Forbidden,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::STALE => Status::ServiceUnavailable,
        _ => Status::InternalServerError,
    }
}

/// The order that people expect: letters without regard to case, numbers by their value.
fn natural(a: &[u8], b: &[u8]) -> Ordering {
    let (mut x, mut y) = (a, b);
    while let (Some(&first), Some(&second)) = (x.first(), y.first()) {
        let step = if first.is_ascii_digit() && second.is_ascii_digit() {
            let (left, right) = (digits(&mut x), digits(&mut y));
            left.len().cmp(&right.len()).then_with(|| left.cmp(right))
        } else {
            (x, y) = (&x[1..], &y[1..]);
            first.to_ascii_lowercase().cmp(&second.to_ascii_lowercase())
        };
        if step != Ordering::Equal {
            return step;
        }
    }
    x.len().cmp(&y.len()).then_with(|| a.cmp(b))
}

/// Takes the number off the front of `rest`; returns its digits without leading zeros.
fn digits<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let (number, after) = rest.split_at(end);
    *rest = after;
    let zeros = number.iter().take_while(|&&byte| byte == b'0').count();
    &number[zeros..]
}

/// Readable on a phone and at night, without a further request.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}\
h1{font-size:1.2rem;overflow-wrap:anywhere}\
table{width:100%;border-collapse:collapse}\
td{padding:.3rem .5rem;border-top:1px solid #8884;white-space:nowrap}\
td:first-child{width:100%;white-space:normal;overflow-wrap:anywhere}\
td:nth-child(2){text-align:right}\
a{text-decoration:none}a:hover{text-decoration:underline}\
@media(max-width:40rem){td:nth-child(3){display:none}}";

fn page(path: &[u8], items: &[ListingItem], pages: ListingPages, completeness: Completeness) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024 + items.len() * 160);
    let mut text = |piece: &str| out.extend_from_slice(piece.as_bytes());
    text("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    text("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>");
    text(STYLE);
    text("</style>\n<title>");
    html_escape(path, &mut out);
    out.extend_from_slice(b"</title>\n<h1>");
    html_escape(path, &mut out);
    out.extend_from_slice(b"</h1>\n<table>\n");
    if path != b"/" {
        out.extend_from_slice(b"<tr><td><a href=\"../\">../</a><td><td>\n");
    }
    for item in items {
        row(item, &mut out);
    }
    out.extend_from_slice(b"</table>\n");
    let ListingPages { number, count } = pages;
    if count > 1 {
        let link = |page: usize, rel: &str, text: &str| match (1..=count).contains(&page) {
            true => format!(" <a rel=\"{rel}\" href=\"?page={page}\">{text}</a>"),
            false => String::new(),
        };
        let (previous, next) = (link(number - 1, "prev", "previous"), link(number + 1, "next", "next"));
        out.extend_from_slice(format!("<p>Page {number} of {count}{previous}{next}</p>\n").as_bytes());
    }
    if completeness == Completeness::Cut {
        let note =
            format!("<p>This folder has more than {NAMES_READ_MAX} names; the others are not listed.</p>\n");
        out.extend_from_slice(note.as_bytes());
    }
    out
}

fn row(item: &ListingItem, out: &mut Vec<u8>) {
    let slash: &[u8] = if item.kind == EntryKind::Folder { b"/" } else { b"" };
    out.extend_from_slice(b"<tr><td><a href=\"");
    percent_encode_path(&item.name, out);
    out.extend_from_slice(slash);
    out.extend_from_slice(b"\">");
    html_escape(&item.name, out);
    out.extend_from_slice(slash);
    out.extend_from_slice(b"</a><td>");
    if item.kind == EntryKind::File {
        out.extend_from_slice(human(item.bytes).as_bytes());
    }
    out.extend_from_slice(b"<td>");
    // "Sun, 06 Nov 1994 08:49:37 GMT" without the day of the week and the seconds.
    out.extend_from_slice(&HttpDate::new(item.modified_seconds).as_bytes()[5..22]);
    out.extend_from_slice(b" UTC\n");
}

/// A size for people: at least three digits where the size is rounded.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}
