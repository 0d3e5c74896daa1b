//! `vermeil.toml`: what may be written in it, and what it comes to.
//!
//! Reading order: `keys` (every key), [`load`] (a file, as what is asked of the server), `resolve` (names looked up,
//! contradictions refused), `report` (what is wrong, and where). `read` and `describe` are what the keys are made of;
//! `split` is for very many hosts. Reading a file changes nothing and binds nothing; all problems of a file are told at
//! once. Tested in `tests.rs`; the reference page `docs/configuration.md` is [`reference_page`].

mod describe;
mod host_cgi;
mod keys;
mod plan;
mod programs;
mod read;
mod report;
mod resolve;
mod split;
mod start;
mod surroundings;
pub mod values;

#[cfg(test)]
mod tests;

pub use plan::Plan;
pub use report::ConfigError;
pub(crate) use start::conditions;
pub use surroundings::{AddressError, Given, Placement, Surroundings};

use crate::{ServeOptions, paths};
use keys::{Document, HostTable};
use read::{At, Node, Reader, Setting};
use report::Problem;
use std::{fs, path::Path};
use toml::de::{DeTable, DeValue};

/// Name of the file that commands take when none is named.
pub const FILE_NAME: &str = "vermeil.toml";

/// What stands before the tables of the reference page.
const INTRODUCTION: &str = include_str!("introduction.md");

/// What the file at `path` asks of the server, on the machine around.
///
/// # Errors
/// It cannot be read, or something in it is wrong: everything that is, with its place.
pub fn load(path: &Path, around: &Surroundings) -> Result<ServeOptions, ConfigError> {
    take(path, &text_of(path)?, around)
}

/// The text of the file at `path`.
///
/// # Errors
/// It cannot be read, or is no text: the place where it ends to be one.
pub fn text_of(path: &Path) -> Result<String, ConfigError> {
    let bytes = fs::read(path).map_err(|source| {
        // Who has named no file is told how to.
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
    // As it is now, wherever this process may go: what is read again later comes to the same.
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

/// Reads the whole text, handing each host over as it comes.
fn read(text: &str, take: &mut dyn FnMut(At<HostTable>)) -> (Option<Document>, Vec<Problem>) {
    let parts = split::split(text);
    let mut reader = Reader::default();
    let document = parsed(&parts.rest, &mut reader, Document::read);
    for run in parts.hosts {
        reader.base = run.start;
        parsed(&text[run], &mut reader, |node, reader| {
            let DeValue::Table(table) = node.get_ref() else { return };
            // `split` begins each run with a host and lets nothing else in.
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

/// Parses a part of the text, tells what is no TOML, and reads the rest.
fn parsed<R>(text: &str, reader: &mut Reader, read: impl FnOnce(&Node<'_>, &mut Reader) -> R) -> R {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let message = error.message();
        let is_unclosed = message.starts_with("invalid") && message.contains("string, expected");
        reader.problem(error.span().unwrap_or(0..0), if is_unclosed { report::UNCLOSED } else { message });
    }
    let span = table.span();
    read(&Node::new(span, DeValue::Table(table.into_inner())), reader)
}

/// The reference page of all keys, in Markdown.
pub fn reference_page() -> String {
    let mut tables = Vec::new();
    Document::tables("", &mut tables);
    describe::page(INTRODUCTION, &tables)
}
