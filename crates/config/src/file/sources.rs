//! The texts of a configuration: the file itself, and the files of hosts that the file includes.
//!
//! A place in the configuration is a number of bytes from the start of the main text. The texts of
//! included files follow one after another, so a place says also in which file it is. Tested in
//! `tests/include.rs`.

use super::{
    read::{ConfigReader, ConfigSetting as _, OneOrMore},
    split,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    ops::Range,
    path::{Path, PathBuf},
};
use toml::de::DeTable;
use vermeil_settings::rights;

/// The texts of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConfigText {
    main: String,
    included: Vec<IncludedFile>,
}

/// An included file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct IncludedFile {
    pub(super) path: PathBuf,
    /// The place where the text begins.
    start: usize,
    /// The text, or why there is none.
    pub(super) text: Result<String, String>,
}

impl From<String> for ConfigText {
    fn from(main: String) -> Self {
        Self { main, included: Vec::new() }
    }
}

/// A text, and the place where it begins.
pub(super) struct SourceText<'t> {
    /// `None` for the main file.
    pub(super) file: Option<&'t IncludedFile>,
    pub(super) text: &'t str,
    pub(super) start: usize,
}

impl SourceText<'_> {
    /// The places of the text. The place behind the text belongs to it.
    pub(super) fn places(&self) -> Range<usize> {
        self.start..self.start + self.text.len() + 1
    }
}

impl ConfigText {
    /// Reads the files that the main text, of a file in `folder`, includes.
    pub(super) fn include(main: String, folder: &Path) -> Self {
        let paths = patterns(&main).into_iter().flat_map(|pattern| matching(folder, &pattern));
        let included = paths.map(IncludedFile::read).collect();
        Self::in_order(main, included)
    }

    /// The texts one after another.
    fn in_order(main: String, mut included: Vec<IncludedFile>) -> Self {
        let mut start = main.len() + 1;
        for file in &mut included {
            file.start = start;
            start = file.source().places().end;
        }
        Self { main, included }
    }

    /// The text of the main file.
    pub fn main(&self) -> &str {
        &self.main
    }

    /// A hash of all texts, the same in every process of this program.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    fn main_source(&self) -> SourceText<'_> {
        SourceText { file: None, text: &self.main, start: 0 }
    }

    /// All texts, the main text first.
    pub(super) fn sources(&self) -> impl Iterator<Item = SourceText<'_>> {
        std::iter::once(self.main_source()).chain(self.included.iter().map(IncludedFile::source))
    }

    /// The text of a place.
    pub(super) fn source(&self, at: usize) -> SourceText<'_> {
        match self.included.partition_point(|file| file.start <= at) {
            0 => self.main_source(),
            behind => self.included[behind - 1].source(),
        }
    }

    /// The line of a place, with the file if it is not the main one.
    pub(super) fn line_of(&self, at: usize) -> String {
        let SourceText { file, text, start } = self.source(at);
        let line = 1 + text[..at - start].matches('\n').count();
        match file {
            None => format!("line {line}"),
            Some(file) => format!("line {line} of {}", file.path.display()),
        }
    }

    /// The same without the included files that have one of these places.
    pub(super) fn without(&self, places: &[usize]) -> Self {
        let unfit: HashSet<usize> = places.iter().map(|at| self.source(*at).start).collect();
        let kept = self.included.iter().filter(|file| !unfit.contains(&file.start));
        Self::in_order(self.main.clone(), kept.cloned().collect())
    }
}

impl IncludedFile {
    fn read(path: PathBuf) -> Self {
        let text = bytes_of(&path).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|error| {
                let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
                format!("line {line} of this included file is no UTF-8; save the file as UTF-8")
            })
        });
        Self { path, start: 0, text }
    }

    fn source(&self) -> SourceText<'_> {
        SourceText { file: Some(self), text: self.text.as_deref().unwrap_or_default(), start: self.start }
    }
}

/// The content of an included file, or why there is none.
fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    const CURE: &str = "; remove the name, or change include so that it is left out";
    let failed = |error: io::Error| {
        let cure = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => CURE,
            _ => "",
        };
        format!("cannot read this included file: {}{cure}", rights::explain(error))
    };
    let kind = fs::metadata(path).map_err(failed)?.file_type();
    // A pipe would block the start and each reload until a writer comes, and a device may have no
    // end. The system refuses a folder with a message of its own.
    if !kind.is_file() && !kind.is_dir() {
        return Err(format!("cannot read this included file: it is a pipe, a socket or a device{CURE}"));
    }
    fs::read(path).map_err(failed)
}

/// The value of `include` in the main text. Problems are reported when the whole text is read.
fn patterns(main: &str) -> Vec<String> {
    let parts = split::split(main);
    let (table, _) = DeTable::parse_recoverable(&parts.rest);
    let Some(value) = table.get_ref().get("include") else { return Vec::new() };
    OneOrMore::read(value, &mut ConfigReader::default()).map(|OneOrMore(read)| read).unwrap_or_default()
}

/// The files that match a pattern, by name. A pattern without wildcards names one file, which must
/// be there. The path of `folder`, where relative patterns begin, has no wildcards.
fn matching(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let as_file = || vec![folder.join(pattern)];
    let Some(of_folder) = folder.to_str().filter(|_| pattern.contains(['*', '?', '['])) else {
        return as_file();
    };
    let text = Path::new(&glob::Pattern::escape(of_folder)).join(pattern);
    let options = glob::MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        ..glob::MatchOptions::default()
    };
    let paths = text.to_str().and_then(|text| glob::glob_with(text, options).ok());
    let Some(paths) = paths else { return as_file() };
    // A folder that cannot be read is named like a file that cannot be read.
    paths.map(|path| path.unwrap_or_else(|error| error.path().to_owned())).collect()
}

/// Writes the texts for another process of the server.
///
/// # Errors
/// The texts cannot be written as JSON; none is known.
pub fn to_json(text: &ConfigText) -> io::Result<String> {
    serde_json::to_string(text).map_err(io::Error::other)
}

/// Reads the texts that another process of the server wrote.
///
/// # Errors
/// The bytes are of another form.
pub fn of_json(text: &str) -> io::Result<ConfigText> {
    serde_json::from_str(text).map_err(io::Error::other)
}
