//! Writes a file set to a disk, within a bound.
//!
//! Every file gets the same old modification time. So a conditional request needs no earlier
//! request, also with servers that compare the time exactly. Existing files of the right size and
//! time are kept. Tested here.

use std::fs::{self, File, FileTimes};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::classes::{FileSet, SetKind};
use super::manifest::{MANIFEST, Manifest, SetPages};
use super::{content, pages, php};
use crate::error::LoadError;
use vermeil_io::output::{self, NameInFolder, Output};

/// The modification time of every file: 2005-01-01 00:00:00 UTC.
const MODIFIED: Duration = Duration::from_secs(1_104_537_600);

/// Bytes of one write.
const PIECE: usize = 256 * 1024;

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenSet {
    /// The manifest beside the files.
    pub manifest: Manifest,
    /// The directories of the scale. Fewer are written if the bound is too small.
    pub directories_asked: u64,
    /// Files of the set, including existing files.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// Writes the files of `kind` for `scale` users below `root`, with as many directories as fit into
/// `bytes_max`. `backend` is the address of the PHP pages' back end.
///
/// # Errors
/// A file cannot be written, or not a single directory fits.
pub fn write(
    root: &Path,
    kind: SetKind,
    scale: u64,
    bytes_max: u64,
    pages: SetPages,
    backend: &str,
) -> Result<WrittenSet, LoadError> {
    let asked = kind.directories(scale);
    let one = FileSet::new(kind, 1).directory_bytes();
    let directories = asked.min(bytes_max / one);
    if directories == 0 {
        let why = format!(
            "one directory of {kind} has {one} bytes and at most {bytes_max} may be written: raise --max-bytes"
        );
        return Err(LoadError::Plan(why));
    }
    let set = FileSet::new(kind, directories);
    let mut writer = SetWriter { root, files: 0, bytes: 0, piece: vec![0; PIECE] };
    for directory in 0..directories {
        for pick in set.files(directory) {
            writer.patterned(&set.path(pick), pick.bytes)?;
        }
    }
    let pages = if kind == SetKind::Support { pages } else { SetPages::None };
    writer.pages(pages, backend)?;
    let manifest = Manifest { files: kind, directories, pages };
    writer.text(&format!("/{MANIFEST}"), &manifest.to_json())?;
    Ok(WrittenSet { manifest, directories_asked: asked, files: writer.files, bytes: writer.bytes })
}

struct SetWriter<'a> {
    root: &'a Path,
    files: u64,
    bytes: u64,
    piece: Vec<u8>,
}

impl SetWriter<'_> {
    fn pages(&mut self, kind: SetPages, backend: &str) -> Result<(), LoadError> {
        if kind == SetPages::None {
            return Ok(());
        }
        for small in &pages::SMALL {
            self.patterned(small.path, small.bytes)?;
        }
        for page in &pages::PAGES {
            match kind {
                SetPages::Php => self.text(&format!("/support/{}.php", page.name), &php::page(page))?,
                _ => self.text(&format!("/support/{}.html", page.name), &pages::static_page(page))?,
            }
        }
        if kind == SetPages::Php {
            self.text("/support/common.php", &php::common(backend))?;
        }
        Ok(())
    }

    /// Writes a file whose content depends on the path.
    fn patterned(&mut self, path: &str, bytes: u64) -> Result<(), LoadError> {
        let place = self.place(path)?;
        self.count(bytes);
        if is_there(&place, bytes) {
            return Ok(());
        }
        let mut piece = std::mem::take(&mut self.piece);
        let written = with_file(&place, |file| {
            let mut offset = 0;
            while offset < bytes {
                let count = (bytes - offset).min(PIECE as u64) as usize;
                content::fill(path, offset, &mut piece[..count]);
                file.write_all(&piece[..count])?;
                offset += count as u64;
            }
            Ok(())
        });
        self.piece = piece;
        written.map_err(cannot_write(&place))
    }

    fn text(&mut self, path: &str, text: &str) -> Result<(), LoadError> {
        let place = self.place(path)?;
        self.count(text.len() as u64);
        with_file(&place, |file| file.write_all(text.as_bytes())).map_err(cannot_write(&place))
    }

    fn count(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }

    /// The place of a path on the disk; creates the folder.
    fn place(&self, path: &str) -> Result<PathBuf, LoadError> {
        let place = self.root.join(path.trim_start_matches('/'));
        if let Some(folder) = place.parent() {
            output::make_folders(folder).map_err(cannot_write(folder))?;
        }
        Ok(place)
    }
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> LoadError + use<> {
    let path = path.to_owned();
    move |source| LoadError::File { verb: "write", path, source }
}

/// Writes under a temporary name and renames the file, so that a file of the right size and time is
/// complete.
fn with_file(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let mut file = Output::replace().open(&part)?;
    fill(&mut file)?;
    file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + MODIFIED))?;
    drop(file);
    NameInFolder::find(&part)?.rename(&NameInFolder::find(path)?)
}

fn is_there(path: &Path, bytes: u64) -> bool {
    let modified = Some(SystemTime::UNIX_EPOCH + MODIFIED);
    fs::metadata(path).is_ok_and(|meta| meta.len() == bytes && meta.modified().ok() == modified)
}

#[cfg(test)]
mod tests {
    use super::super::content::ContentCheck;
    use super::*;

    /// Other file sets without a bound are too large for a test; WebStone has 5.5 MB.
    #[test]
    fn written_files_verify() {
        let root = tempfile::tempdir().unwrap();
        let written = write(root.path(), SetKind::Webstone, 1, u64::MAX, SetPages::None, "").unwrap();
        let set = FileSet::new(SetKind::Webstone, 1);
        for pick in set.files(0) {
            let path = set.path(pick);
            let bytes = fs::read(root.path().join(&path[1..])).unwrap();
            let mut content = ContentCheck::of(&path);
            content.check(&bytes);
            assert!(content.is_whole(pick.bytes), "{path}");
        }
        assert_eq!((written.files, written.directories_asked), (6, 1));
        let manifest = fs::read_to_string(root.path().join(MANIFEST)).unwrap();
        assert_eq!(Manifest::from_json(&manifest), Ok(written.manifest));
        let inode = |path: &str| {
            use std::os::unix::fs::MetadataExt;
            fs::metadata(root.path().join(path)).unwrap().ino()
        };
        let before = inode("webstone/dir0000000000/class0_0");
        write(root.path(), SetKind::Webstone, 1, u64::MAX, SetPages::None, "").unwrap();
        assert_eq!(before, inode("webstone/dir0000000000/class0_0"), "what is there is kept");
    }

    #[test]
    fn the_bound_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let said =
            write(root.path(), SetKind::Support, 100, 1 << 20, SetPages::Php, "").unwrap_err().to_string();
        assert!(said.contains("68472021") && said.contains("--max-bytes"), "{said}");
        let bounded = write(root.path(), SetKind::Specweb96, 1000, 11 << 20, SetPages::Php, "").unwrap();
        assert_eq!(bounded.manifest.directories, 2);
        assert_eq!(bounded.directories_asked, 142);
        assert!(bounded.bytes <= 11 << 20);
    }

    #[test]
    fn pages_have_their_sizes_and_their_marks() {
        let root = tempfile::tempdir().unwrap();
        let mut writer = SetWriter { root: root.path(), files: 0, bytes: 0, piece: vec![0; PIECE] };
        writer.pages(SetPages::Static, "").unwrap();
        writer.pages(SetPages::Php, "127.0.0.1:9").unwrap();
        for page in &pages::PAGES {
            let read = |kind: &str| {
                fs::read_to_string(root.path().join(format!("support/{}.{kind}", page.name))).unwrap()
            };
            let html = read("html");
            assert!(html.ends_with(&pages::end_mark(page.name)) && html.starts_with("<!DOCTYPE html>"));
            assert!(html.len().abs_diff(page.padding_bytes) < 300, "{} {}", page.name, html.len());
            assert!(read("php").ends_with(&pages::end_mark(page.name)));
        }
        let common = fs::read_to_string(root.path().join("support/common.php")).unwrap();
        assert!(common.contains("'127.0.0.1:9'"));
    }
}
