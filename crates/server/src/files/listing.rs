//! The page that shows what is in a folder.
//!
//! Made by a job for each request and not kept: reading a folder waits for the disk. Shows what would be served, so no
//! dotfiles and nothing but files and folders. Tested in `listing/tests.rs`.

use super::{
    open::{Identity, Purpose, Way, open, reached},
    root::Root,
    site::Site,
};
use rustix::{
    fs::{AtFlags, Dir, FileType, statat},
    io::Errno,
};
use std::{cmp::Ordering, ffi::CStr, os::fd::AsFd, sync::Arc};
use vermeil_http::{
    HttpDate, Status,
    path::percent_encode_path,
    response::{HeadWriter, html_escape},
};
use vermeil_io::CacheOnly;

#[cfg(test)]
mod tests;

/// Makes the page of one folder; to be run where waiting is allowed.
pub struct ListingJob {
    site: Arc<Site>,
    path: Box<[u8]>,
}

/// A page, ready to send.
#[derive(Debug)]
pub struct ListingPage {
    /// Status line and fields of a 200; `Date`, `Connection` and the empty line are missing.
    pub head: Vec<u8>,
    /// The page.
    pub body: Vec<u8>,
}

struct Item {
    name: Vec<u8>,
    kind: Kind,
    bytes: u64,
    modified_seconds: i64,
}

/// Folders come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Folder,
    File,
}

/// Whether the page shows everything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Completeness {
    Complete,
    Cut,
}

impl ListingJob {
    pub(super) fn new(site: Arc<Site>, path: &[u8]) -> Self {
        Self { site, path: path.into() }
    }

    /// Reads the folder and makes its page.
    ///
    /// # Errors
    /// The status of the answer, if the folder has gone or must not be read.
    pub fn run(self) -> Result<ListingPage, Status> {
        let root = self.site.root();
        let (mut items, completeness) = self.items(&root).map_err(status)?;
        items.sort_by(|a, b| a.kind.cmp(&b.kind).then_with(|| natural(&a.name, &b.name)));
        let body = page(&self.path, &items, completeness);
        let mut head = Vec::with_capacity(128);
        let _ = HeadWriter::new(&mut head, Status::Ok)
            .lines(super::variant::SERVER)
            .field("Content-Type", b"text/html; charset=utf-8")
            .content_length(body.len() as u64);
        Ok(ListingPage { head, body })
    }

    fn items(&self, root: &Root) -> Result<(Vec<Item>, Completeness), Errno> {
        let below = self.path.strip_prefix(b"/").unwrap_or(&self.path);
        let below = below.strip_suffix(b"/").unwrap_or(below);
        let way = Way::Allowed(self.site.options.follow_symlinks);
        let folder = open(root.as_fd(), below, Purpose::Reading, way, CacheOnly::No)?;
        reached(root.as_fd(), folder.as_fd())?;
        let mut items = Vec::new();
        for found in Dir::read_from(&folder)? {
            let found = found?;
            let name = found.file_name();
            if name.to_bytes().starts_with(b".") {
                continue;
            }
            if items.len() >= self.site.store().options.listing_names_max {
                return Ok((items, Completeness::Cut));
            }
            items.extend(self.item(root, &folder, below, name));
        }
        Ok((items, Completeness::Complete))
    }

    /// What a name is, if it would be served.
    fn item(&self, root: &Root, folder: impl AsFd, below: &[u8], name: &CStr) -> Option<Item> {
        let mut found = Identity::from(&statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?);
        if found.file_type() == FileType::Symlink {
            let path = if below.is_empty() {
                name.to_bytes().to_vec()
            } else {
                [below, b"/", name.to_bytes()].concat()
            };
            let way = Way::Allowed(self.site.options.follow_symlinks);
            let file = open(root.as_fd(), &path, Purpose::Locating, way, CacheOnly::No).ok()?;
            reached(root.as_fd(), file.as_fd()).ok()?;
            found = Identity::of(file.as_fd()).ok()?;
        }
        let kind = match found.file_type() {
            FileType::Directory => Kind::Folder,
            FileType::RegularFile => Kind::File,
            _ => return None,
        };
        let name = name.to_bytes().to_vec();
        Some(Item { name, kind, bytes: found.bytes, modified_seconds: found.modified.seconds })
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

/// The order people expect: letters without regard to case, numbers by their value.
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

/// Takes the number off the front of `rest`; gives its digits without leading zeros.
fn digits<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let (number, after) = rest.split_at(end);
    *rest = after;
    let zeros = number.iter().take_while(|&&byte| byte == b'0').count();
    &number[zeros..]
}

/// Readable on a phone and at night, without a request for anything else.
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

fn page(path: &[u8], items: &[Item], completeness: Completeness) -> Vec<u8> {
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
    if completeness == Completeness::Cut {
        let note = format!("<p>Only the first {} names found are shown; there are more.</p>\n", items.len());
        out.extend_from_slice(note.as_bytes());
    }
    out
}

fn row(item: &Item, out: &mut Vec<u8>) {
    let slash: &[u8] = if item.kind == Kind::Folder { b"/" } else { b"" };
    out.extend_from_slice(b"<tr><td><a href=\"");
    percent_encode_path(&item.name, out);
    out.extend_from_slice(slash);
    out.extend_from_slice(b"\">");
    html_escape(&item.name, out);
    out.extend_from_slice(slash);
    out.extend_from_slice(b"</a><td>");
    if item.kind == Kind::File {
        out.extend_from_slice(human(item.bytes).as_bytes());
    }
    out.extend_from_slice(b"<td>");
    // "Sun, 06 Nov 1994 08:49:37 GMT" without the day of the week and the seconds.
    out.extend_from_slice(&HttpDate::new(item.modified_seconds).as_bytes()[5..22]);
    out.extend_from_slice(b" UTC\n");
}

/// A size to read: three digits at least where it is rounded.
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
