//! The cases of the bench and the files that they ask for.

use std::fs;
use std::path::Path;

use super::below;
use crate::size::BenchSize;
use crate::{BenchError, BenchResult};

/// The requests of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompressionWork {
    /// Files whose compressed contents Vermeil keeps.
    Kept,
    /// Files whose compressed contents Vermeil does not keep.
    Anew,
    /// An answer of PHP.
    Php,
    /// Large files, whose compressed contents Vermeil does not keep, with small files beside.
    Beside,
}

/// A load.
#[derive(Debug)]
pub(super) struct CompressionCase {
    /// The name in rows.
    pub(super) name: &'static str,
    pub(super) work: CompressionWork,
    /// The name of the coding in `Accept-Encoding`.
    pub(super) coding: &'static str,
    pub(super) level: u8,
}

/// All cases. The levels of gzip are the default of nginx and the default of gzip.
pub(super) const CASES: [CompressionCase; 7] = [
    CompressionCase { name: "kept", work: CompressionWork::Kept, coding: "gzip", level: 6 },
    CompressionCase { name: "gzip-1", work: CompressionWork::Anew, coding: "gzip", level: 1 },
    CompressionCase { name: "gzip-6", work: CompressionWork::Anew, coding: "gzip", level: 6 },
    CompressionCase { name: "br-5", work: CompressionWork::Anew, coding: "br", level: 5 },
    CompressionCase { name: "zstd-3", work: CompressionWork::Anew, coding: "zstd", level: 3 },
    CompressionCase { name: "php", work: CompressionWork::Php, coding: "gzip", level: 6 },
    CompressionCase { name: "beside", work: CompressionWork::Beside, coding: "gzip", level: 6 },
];

/// Files of a case: more than connections, so that no two requests ask for the same file at once.
pub(super) const FILES: usize = 64;
/// Bytes of a page, about those of the start page of a news site.
pub(super) const PAGE_BYTES: usize = 64 * 1024;
/// Bytes of a large file, about those of a script bundle; in the smoke size less, because the
/// answers of an unoptimized server on a busy machine must come within the run.
pub(super) fn large_bytes(size: BenchSize) -> usize {
    match size {
        BenchSize::Full => 1 << 20,
        BenchSize::Smoke => PAGE_BYTES,
    }
}

/// The small file, which is too short for compression.
pub(super) const SMALL_PATH: &str = "/small.html";
/// Bytes of the small file.
pub(super) const SMALL_BYTES: usize = 1000;
/// The script that writes a page.
const PHP_PATH: &str = "/page.php";
/// The start of each file in the text, so that no two files are alike.
const STRIDE: usize = 7919;

impl CompressionCase {
    /// Whether nginx has the coding without a further package.
    pub(super) fn is_for_nginx(&self) -> bool {
        self.coding == "gzip"
    }

    /// Bytes of the content of an answer.
    pub(super) fn content_bytes(&self, size: BenchSize) -> usize {
        if self.work == CompressionWork::Beside { large_bytes(size) } else { PAGE_BYTES }
    }

    /// The part of wrk's script that makes the requests: a row of files, one after the other.
    pub(super) fn requests(&self) -> String {
        let path = match self.work {
            CompressionWork::Kept | CompressionWork::Anew => r#""/page-" .. number .. ".html""#.to_owned(),
            CompressionWork::Beside => r#""/large-" .. number .. ".html""#.to_owned(),
            CompressionWork::Php => format!("\"{PHP_PATH}\""),
        };
        format!(
            r#"
local made, place = {{}}, 0
init = function(args)
  for number = 0, {FILES} - 1 do
    made[number] = wrk.format(nil, {path}, {{ Host = "localhost", ["Accept-Encoding"] = "{}" }})
  end
end
request = function()
  place = (place + 1) % {FILES}
  return made[place]
end
"#,
            self.coding
        )
    }
}

/// Writes the files of all cases below `root`, from the pages of `repository`.
pub(super) fn write_files(root: &Path, repository: &Path, size: BenchSize) -> BenchResult<()> {
    let text = text(&repository.join("docs"))?;
    let write = |path: &str, content: &[u8]| {
        let path = below(root, path);
        fs::write(&path, content).map_err(BenchError::path("write", &path))
    };
    for number in 0..FILES {
        let part = |bytes| text.iter().cycle().skip(number * STRIDE).take(bytes).copied().collect::<Vec<_>>();
        write(&format!("page-{number}.html"), &part(PAGE_BYTES))?;
        write(&format!("large-{number}.html"), &part(large_bytes(size)))?;
    }
    write(SMALL_PATH, &text[..SMALL_BYTES])?;
    write(PHP_PATH, b"<?php readfile(__DIR__ . '/page-0.html');")
}

/// The pages in `folder`, in the order of their names.
fn text(folder: &Path) -> BenchResult<Vec<u8>> {
    let entries = fs::read_dir(folder).map_err(BenchError::path("list", folder))?;
    let mut pages: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    let mut text = Vec::new();
    for page in pages {
        text.extend(fs::read(&page).map_err(BenchError::path("read", &page))?);
    }
    match text.len() > SMALL_BYTES {
        true => Ok(text),
        false => Err(BenchError::form(folder.display(), "no pages to compress")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_their_sizes_and_differ() {
        let folder = tempfile::tempdir().expect("a folder");
        let docs = folder.path().join("docs");
        fs::create_dir(&docs).expect("ours");
        let lines: String = (0..200).map(|line| format!("line {line} of the page\n")).collect();
        fs::write(docs.join("page.md"), lines).expect("ours");
        let root = folder.path().join("site");
        fs::create_dir(&root).expect("ours");
        write_files(&root, folder.path(), BenchSize::Full).expect("written");
        let read = |path: &str| fs::read(below(&root, path)).expect("written");
        assert_eq!((read("page-0.html").len(), read("large-9.html").len()), (PAGE_BYTES, 1 << 20));
        assert_eq!(read(SMALL_PATH).len(), SMALL_BYTES);
        assert_ne!(read("page-0.html"), read("page-1.html"));
    }
}
