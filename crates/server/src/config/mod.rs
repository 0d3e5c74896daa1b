//! `vermeil.toml`: the keys of the file, and the options of the server that a file results in.
//!
//! Reading order: `keys` (every key), [`load`] (from a file to the server's options), `resolve`
//! (looks up names, refuses contradictions), `report` (errors with their places). `read` and
//! `describe` define kinds of values; `split` handles very many hosts. Reading a file changes
//! nothing and binds nothing, and reports all problems of the file at once. Tested in `tests.rs`;
//! [`reference_page`] makes `docs/configuration.md`.

mod access;
mod answers;
mod describe;
mod host_cgi;
mod keys;
mod programs;
mod proxies;
mod read;
mod report;
mod resolve;
mod routes;
mod split;
mod surroundings;
mod tls;
pub mod values;

#[cfg(test)]
mod tests;

pub use report::ConfigError;
pub use surroundings::{AddressError, GivenParts, Surroundings};

use crate::{options::ServeOptions, paths};
use keys::{Document, HostTable};
use read::{At, ConfigNode, ConfigReader, ConfigSetting};
use report::Problem;
use std::{fs, path::Path};
use toml::de::{DeTable, DeValue};

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

/// The text of the file at `path`.
///
/// # Errors
/// The file cannot be read, or is not UTF-8: the place of the first wrong byte.
pub fn text_of(path: &Path) -> Result<String, ConfigError> {
    let bytes = fs::read(path).map_err(|source| {
        // The user named no file, so the error says how to name a file.
        let is_default = path == Path::new(FILE_NAME);
        let cure = if is_default { "; name another with --config FILE" } else { "" };
        ConfigError::whole(path, format!("cannot read the configuration: {source}{cure}"))
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let what = "this byte is no UTF-8; save the file as UTF-8".to_owned();
        let problem = Problem { at: at..at, key: String::new(), what };
        ConfigError::new(path, &String::from_utf8_lossy(error.as_bytes()), vec![problem])
    })
}

/// As [`load`], for a file that was read already.
///
/// # Errors
/// As there.
pub fn take(path: &Path, text: &str, around: &Surroundings) -> Result<ServeOptions, ConfigError> {
    let options = parse(path, text, around)?;
    Ok(ServeOptions { file: Some(paths::absolute(path)), ..options })
}

/// As [`load`], for the text of the file at `path`.
///
/// # Errors
/// As there.
pub fn parse(path: &Path, text: &str, around: &Surroundings) -> Result<ServeOptions, ConfigError> {
    // The absolute path, because the process may change its folder before it reads the file again.
    let file = paths::absolute(path);
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut hosts = resolve::HostsMade::new(folder);
    let (document, mut problems) = read(text, &mut |host| hosts.add(host));
    let resolved = document.map(|document| resolve::resolve(document, hosts, text, around, &mut problems));
    match resolved {
        Some(Some(options)) if problems.is_empty() => Ok(options),
        _ => Err(ConfigError::new(path, text, problems)),
    }
}

/// Reads the whole text, and passes each host to `take`.
fn read(text: &str, take: &mut dyn FnMut(At<HostTable>)) -> (Option<Document>, Vec<Problem>) {
    let parts = split::split(text);
    let mut reader = ConfigReader::default();
    let document = parsed(&parts.rest, &mut reader, Document::read);
    for run in parts.hosts {
        reader.base = run.start;
        parsed(&text[run], &mut reader, |node, reader| {
            let DeValue::Table(table) = node.get_ref() else { return };
            // `split` begins each run with a host, and a run has no other tables.
            let Some(DeValue::Array(hosts)) = table.get("host").map(|hosts| hosts.get_ref()) else { return };
            for host in hosts {
                if let Some(host) = reader.within("host", |reader| At::read(host, reader)) {
                    take(host);
                }
            }
        });
    }
    let document = document.map(|mut document| {
        document.host.drain(..).for_each(&mut *take);
        document
    });
    (document, reader.problems)
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
        let is_unclosed = message.starts_with("invalid") && message.contains("string, expected");
        reader.problem(error.span().unwrap_or(0..0), if is_unclosed { report::UNCLOSED } else { message });
    }
    let span = table.span();
    read(&ConfigNode::new(span, DeValue::Table(table.into_inner())), reader)
}

/// The reference page of all keys, in Markdown.
pub fn reference_page() -> String {
    let mut tables = Vec::new();
    Document::tables("", &mut tables);
    describe::page(INTRODUCTION, &tables)
}
