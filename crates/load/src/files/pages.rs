//! The pages of the support site: content and end marks.
//!
//! Names, transitions and sizes are the published values of SPECweb2005 Support. The small files
//! are our own, with the published number, sizes and cacheability. A page ends in a mark with the
//! page's name. The mark is missing or different in a page that is cut, has another name, or lacks
//! the back end's data. Tested in `write` and `session/builtin.rs`.

use std::fmt::Write as _;
use std::ops::Range;

/// A small file that pages include.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Small {
    /// Path below the root of the set.
    pub(crate) path: &'static str,
    /// Size in bytes.
    pub(crate) bytes: u64,
    /// The share of conditional requests, because the browser has the file in the cache.
    pub(crate) cached: f64,
}

/// A page.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetPage {
    /// Name, as in results and paths.
    pub(crate) name: &'static str,
    /// Bytes of padding.
    pub(crate) padding_bytes: usize,
    /// The small files that the page includes.
    pub(crate) files: Range<usize>,
}

const fn small(path: &'static str, bytes: u64, cached: f64) -> Small {
    Small { path, bytes, cached }
}

/// The 31 small files, of 30 to 5,670 bytes: 8 that all pages share, then files of fewer pages.
pub(crate) const SMALL: [Small; 31] = [
    small("/support/images/style.css", 5_670, 0.8),
    small("/support/images/logo.gif", 1_940, 0.8),
    small("/support/images/menu.js", 1_620, 0.8),
    small("/support/images/dot.gif", 30, 0.8),
    small("/support/images/left.gif", 480, 0.8),
    small("/support/images/right.gif", 510, 0.8),
    small("/support/images/line.gif", 96, 0.8),
    small("/support/images/foot.gif", 940, 0.8),
    small("/support/images/search.gif", 890, 0.75),
    small("/support/images/banner.gif", 280, 0.0),
    small("/support/images/tab0.gif", 720, 0.66),
    small("/support/images/tab1.gif", 735, 0.66),
    small("/support/images/tab2.gif", 750, 0.66),
    small("/support/images/tab3.gif", 765, 0.66),
    small("/support/images/icon0.gif", 310, 0.66),
    small("/support/images/icon1.gif", 325, 0.66),
    small("/support/images/icon2.gif", 340, 0.66),
    small("/support/images/icon3.gif", 355, 0.66),
    small("/support/images/icon4.gif", 370, 0.66),
    small("/support/images/icon5.gif", 385, 0.66),
    small("/support/images/icon6.gif", 400, 0.66),
    small("/support/images/icon7.gif", 415, 0.66),
    small("/support/images/list.js", 1_280, 0.75),
    small("/support/images/system0.gif", 560, 0.5),
    small("/support/images/system1.gif", 575, 0.5),
    small("/support/images/system2.gif", 290, 0.0),
    small("/support/images/system3.gif", 305, 0.0),
    small("/support/images/offer.gif", 240, 0.0),
    small("/support/images/help.gif", 200, 0.5),
    small("/support/images/print.gif", 210, 0.5),
    small("/support/images/new.gif", 150, 0.0),
];

const fn page(name: &'static str, padding_bytes: usize, files: Range<usize>) -> SetPage {
    SetPage { name, padding_bytes, files }
}

/// The pages, in the order of the published table. The download page is a file of the classes.
pub(crate) const PAGES: [SetPage; 6] = [
    page("home", 51_700, 0..10),
    page("search", 18_000, 0..9),
    page("catalog", 27_500, 0..8),
    page("product", 52_700, 3..31),
    page("filecatalog", 94_500, 0..25),
    page("file", 113_300, 0..25),
];

/// The end of every page of this name.
pub(crate) fn end_mark(name: &str) -> String {
    format!("<!--vermeil-load {name} whole--></html>\n")
}

/// The padding of a page: lines of 64 bytes.
pub(crate) fn padding(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 64);
    for line in 0.. {
        if text.len() >= bytes {
            break;
        }
        let _infallible = writeln!(text, "<!-- {line:08} {} -->", "padding ".repeat(5) + "pad");
    }
    text.truncate(bytes.saturating_sub(1));
    // A cut comment must not swallow the end mark.
    text.push_str(if bytes > 0 { "\n" } else { "" });
    text
}

/// A page as a static file.
pub(crate) fn static_page(page: &SetPage) -> String {
    format!(
        "<!DOCTYPE html>\n<html><head><title>{0}</title></head><body><h1>{0}</h1></body>\n{1}-->\n{2}",
        page.name,
        padding(page.padding_bytes),
        end_mark(page.name)
    )
}
