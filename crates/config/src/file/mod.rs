//! `vermeil.toml`: the keys of the file, and the options of the server that a file results in.
//!
//! Reading order: `keys` (the keys, with three tables in files of their own), [`load`] (from a file
//! to the server's options), `resolve` (looks up names, refuses contradictions), `report` (errors
//! with their places). `read`, `describe` and `tables` define kinds of values and tables; `split`
//! handles very many hosts, and `folders` looks for the folders of included hosts that a start
//! needs. Reading a file changes nothing and binds nothing, and reports all
//! problems of the file at once. Tested in `tests.rs`; [`reference_page`] makes
//! `docs/configuration.md`.

mod access;
mod answers;
mod collisions;
mod compress;
mod compress_tables;
mod describe;
mod environment;
mod folders;
mod host_cgi;
mod host_php;
mod host_php_table;
mod keys;
mod log_files_table;
mod logs;
mod networks;
mod places;
mod problems;
mod programs;
mod proxies;
mod read;
mod report;
mod resolve;
mod routes;
mod schema;
mod sources;
mod split;
mod surroundings;
mod tables;
mod tls;
pub mod values;

#[cfg(test)]
mod tests;

pub use places::ConfigPlaces;
pub use places::PlacedKey;
pub use report::ConfigError;
pub use sources::ConfigText;
pub use sources::{of_json, to_json};
pub use surroundings::{AddressError, GivenParts, Surroundings};

use crate::options::ServeOptions;
use keys::{Document, HostTable};
use places::KeyPlaces;
use problems::Problem;
use read::{At, ConfigNode, ConfigReader, ConfigSetting};
use resolve::ResolvedText;
use sources::SourceText;
use std::{borrow::Cow, fs, io, path::Path};
use toml::de::{DeTable, DeValue};
use vermeil_routing::paths;
use vermeil_settings::rights;

/// The file that commands read if the user names none.
pub const FILE_NAME: &str = "vermeil.toml";

/// The text before the tables of the reference page.
const INTRODUCTION: &str = include_str!("introduction.md");

/// The options that the file at `path` asks for, resolved against the machine in `around`.
///
/// # Errors
/// The file cannot be read, or has errors: all of them, with their places.
pub fn load(path: &Path, around: &Surroundings) -> Result<ServeOptions, ConfigError> {
    take(path, &text_of(path)?, around)
}

/// The text of the file at `path`, and the texts of the files that it includes.
///
/// # Errors
/// The file cannot be read, or is not UTF-8: the place of the first wrong byte.
pub fn text_of(path: &Path) -> Result<ConfigText, ConfigError> {
    let bytes = fs::read(path).map_err(rights::explain).map_err(|source| {
        let is_missing = source.kind() == io::ErrorKind::NotFound;
        // The user may have named no file, so the error says how to name a file.
        let is_default = path == Path::new(FILE_NAME);
        let cure = if is_missing || is_default { "; name another with --config FILE" } else { "" };
        ConfigError::whole(path, format!("cannot read the configuration: {source}{cure}"))
    })?;
    let main = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let what = "this byte is no UTF-8; save the file as UTF-8".to_owned();
        let problem = Problem { at: at..at, key: String::new(), what };
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        ConfigError::new(path, &text.into(), vec![problem])
    })?;
    let file = paths::absolute(path);
    Ok(ConfigText::include(main, file.parent().unwrap_or(Path::new(""))))
}

/// As [`load`], with the places of keys, for faults that are found later.
///
/// # Errors
/// As there.
pub fn load_with_places(
    path: &Path,
    around: &Surroundings,
) -> Result<(ServeOptions, ConfigPlaces), ConfigError> {
    take_with_places(path, &text_of(path)?, around)
}

/// As [`load`], for a file that was read already.
///
/// # Errors
/// As there.
pub fn take(path: &Path, text: &ConfigText, around: &Surroundings) -> Result<ServeOptions, ConfigError> {
    take_with_places(path, text, around).map(|(options, _)| options)
}

fn take_with_places(
    path: &Path,
    text: &ConfigText,
    around: &Surroundings,
) -> Result<(ServeOptions, ConfigPlaces), ConfigError> {
    let file = Some(paths::absolute(path));
    let (mut text, mut left_out) = (Cow::Borrowed(text), Vec::new());
    loop {
        let RefusedText { problems, skips } = match resolved(path, &text, around) {
            Ok((options, keys)) => {
                let places = ConfigPlaces::new(path, text.into_owned(), keys);
                let left_out = left_out.iter().flat_map(ConfigError::lines).collect();
                return Ok((ServeOptions { file, left_out, ..options }, places));
            }
            Err(unfit) => unfit,
        };
        let is_of_main = |problem: &Problem| text.source(problem.at.start).file.is_none();
        let is_refused = !skips || problems.iter().any(is_of_main);
        let places: Vec<usize> = problems.iter().map(|problem| problem.at.start).collect();
        let unfit = ConfigError::new(path, &text, problems);
        if is_refused {
            return Err(unfit.after(left_out));
        }
        // Without the unfit files, the others are read as if these were not there.
        left_out.push(unfit);
        text = Cow::Owned(text.without(&places));
    }
}

/// Why a configuration cannot be used.
struct RefusedText {
    problems: Vec<Problem>,
    /// Whether the operator wants to serve without the included files that have problems.
    skips: bool,
}

/// The options that `text` asks for, and the places of keys.
fn resolved(
    path: &Path,
    text: &ConfigText,
    around: &Surroundings,
) -> Result<(ServeOptions, KeyPlaces), RefusedText> {
    // The absolute path, because the process may change its folder before it reads the file again.
    let file = paths::absolute(path);
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut hosts = resolve::HostsMade::new(folder);
    let ReadText { document, mut problems, is_misplaced } = read(text, &mut |host| hosts.add(host));
    let read = problems.len();
    let skips = document.as_ref().is_some_and(|document| document.skip_unfit_includes);
    let resolved = document.map(|document| resolve::resolve(document, hosts, text, around, &mut problems));
    if is_misplaced {
        // The table of a misplaced key lacks the key, so contradictions there may be false.
        problems.truncate(read);
    }
    if let Some(Some(ResolvedText { options, places, collisions })) = &resolved
        && !is_misplaced
    {
        if skips && problems.is_empty() {
            problems = folders::missing(&options.hosts, places, text);
        }
        let counted = match skips {
            true => collisions::lasting(collisions, &problems, text),
            false => collisions::all(collisions, text),
        };
        problems.extend(counted);
    }
    match resolved {
        Some(Some(ResolvedText { options, places, .. })) if problems.is_empty() => Ok((options, places)),
        _ => Err(RefusedText { problems, skips }),
    }
}

/// The result of reading a text.
struct ReadText {
    document: Option<Document>,
    problems: Vec<Problem>,
    /// Whether a key stands in the wrong table.
    is_misplaced: bool,
}

/// Reads the whole text, and passes each host to `take`.
fn read(text: &ConfigText, take: &mut dyn FnMut(At<HostTable>)) -> ReadText {
    let mut reader = ConfigReader::new(described_tables);
    let mut document = None;
    for SourceText { file, text, start } in text.sources() {
        let parts = split::split(text);
        reader.base = start;
        match file.map(|file| &file.text) {
            None => document = parsed(&parts.rest, &mut reader, Document::read),
            Some(Ok(_)) => parsed(&parts.rest, &mut reader, |node, reader| {
                hosts_of(node, reader, take);
                refuse_others(node, reader);
            }),
            Some(Err(why)) => reader.problem(0..0, why),
        }
        for run in parts.hosts {
            reader.base = start + run.start;
            // `split` begins each run with a host, and a run has no other tables.
            parsed(&run.text, &mut reader, |node, reader| hosts_of(node, reader, take));
        }
        if let (None, Some(document)) = (file, &mut document) {
            document.host.drain(..).for_each(&mut *take);
        }
    }
    ReadText { document, problems: reader.problems, is_misplaced: reader.is_misplaced }
}

/// Passes each host of a parsed text to `take`.
fn hosts_of(node: &ConfigNode<'_>, reader: &mut ConfigReader, take: &mut dyn FnMut(At<HostTable>)) {
    let DeValue::Table(table) = node.get_ref() else { return };
    let Some(DeValue::Array(hosts)) = table.get("host").map(|hosts| hosts.get_ref()) else { return };
    for host in hosts {
        if let Some(host) = reader.within("host", |reader| At::read(host, reader)) {
            take(host);
        }
    }
}

/// Refuses all tables of an included file but its hosts.
fn refuse_others(node: &ConfigNode<'_>, reader: &mut ConfigReader) {
    let DeValue::Table(table) = node.get_ref() else { return };
    for (key, value) in table {
        if key.get_ref() != "host" || !matches!(value.get_ref(), DeValue::Array(_)) {
            let what = format!(
                "{}: an included file has [[host]] tables only; write this key in the main file",
                key.get_ref()
            );
            reader.problem(key.span(), what);
        }
    }
}

/// Parses a part of the text, reports syntax errors, and reads the rest.
fn parsed<R>(
    text: &str,
    reader: &mut ConfigReader,
    read: impl FnOnce(&ConfigNode<'_>, &mut ConfigReader) -> R,
) -> R {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let message = error.message();
        let span = error.span().unwrap_or(0..0);
        let is_unclosed = message.starts_with("invalid") && message.contains("string, expected");
        match text.get(span.clone()).filter(|_| message == "duplicate key") {
            Some(key) => reader.problem(span, format!("{key} is written twice; leave one of the two out")),
            None => reader.problem(span, if is_unclosed { report::UNCLOSED } else { message }),
        }
    }
    let span = table.span();
    read(&ConfigNode::new(span, DeValue::Table(table.into_inner())), reader)
}

/// The reference page of all keys, in Markdown.
pub fn reference_page() -> String {
    describe::page(INTRODUCTION, &described_tables())
}

/// The JSON Schema of all keys.
pub fn json_schema() -> String {
    format!("{:#}\n", schema::schema(&described_tables()))
}

fn described_tables() -> Vec<describe::TableDoc> {
    let mut tables = Vec::new();
    Document::tables("", &mut tables);
    tables
}
