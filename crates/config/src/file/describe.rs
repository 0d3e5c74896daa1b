//! The self-description of the keys: the same definition feeds reading, the reference page and the
//! hints in errors.
//!
//! Generates the page from the definitions. Leaves out the definition of a table (`tables.rs`) and
//! the keys themselves (`keys.rs`). `cargo xtask docs --check` compares the committed page.

use std::fmt::Write as _;

/// A kind of value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Text,
    Path,
    Flag,
    FlagOrTable,
    Number,
    Size,
    Time,
    Address,
    Cores,
    Instances,
    Log,
    Words(Vec<&'static str>),
    /// A text, a list of texts, or `false`.
    Field,
    Table,
    /// A table whose keys are chosen by the operator.
    Map(Box<ValueKind>),
    /// A table of texts whose names may have dots.
    DottedMap,
    List(Box<ValueKind>),
    OneOrMore(Box<ValueKind>),
}

impl ValueKind {
    /// The name in the reference.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Path => "path".to_owned(),
            Self::Flag => "`true` or `false`".to_owned(),
            Self::FlagOrTable => "`true`, `false` or table".to_owned(),
            Self::Number => "number".to_owned(),
            Self::Size => "size".to_owned(),
            Self::Time => "time".to_owned(),
            Self::Address => "address".to_owned(),
            Self::Cores => "cores".to_owned(),
            Self::Instances => "instances".to_owned(),
            Self::Log => "log".to_owned(),
            Self::Words(words) => {
                words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
            }
            Self::Field => "text, list of texts or `false`".to_owned(),
            Self::Map(of) => {
                format!("table of {}s", of.name().replace("text,", "texts,").trim_end_matches('s'))
            }
            Self::DottedMap => "table of texts".to_owned(),
            Self::Table => "table".to_owned(),
            Self::List(of) if **of == Self::Table => "tables".to_owned(),
            Self::List(of) if **of == Self::Address => "list of addresses".to_owned(),
            Self::List(of) => format!("list of {}s", of.name()),
            Self::OneOrMore(of) => format!("{0} or list of {0}s", of.name()),
        }
    }

    /// The example in an error message.
    pub(super) fn example(&self) -> String {
        match self {
            Self::Text => "a text in quotes".to_owned(),
            Self::Path => "a path in quotes, such as \"/srv/www\"".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::FlagOrTable => "true, false, or a table in { }".to_owned(),
            Self::Number => "a whole number, such as 100".to_owned(),
            Self::Size => "bytes or a size in quotes, such as 4096 or \"32K\"".to_owned(),
            Self::Time => "seconds or a time in quotes, such as 10 or \"500ms\"".to_owned(),
            Self::Address => "an address in quotes, such as \":80\" or \"127.0.0.1:8080\"".to_owned(),
            Self::Cores => "\"all\", a number, or a list of cpus such as \"0-3\"".to_owned(),
            Self::Instances => "\"per-node\", \"one\", or a number".to_owned(),
            Self::Log => "\"off\", \"-\" for standard output, \"syslog\", \"journald\", or a file".to_owned(),
            Self::Words(words) => {
                let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                format!("one of {}", quoted.join(", "))
            }
            Self::Field => "a text, a list of texts, or false to remove the field".to_owned(),
            Self::Map(_) | Self::DottedMap => "a table, such as { Name = \"value\" }".to_owned(),
            Self::Table => "a table".to_owned(),
            Self::OneOrMore(of) => format!("{}, or a list of such in [ ]", of.example()),
            Self::List(of) => match **of {
                Self::Text => "a list, such as [\"one\", \"two\"]".to_owned(),
                ref of => format!("a list in [ ] of: {}", of.example()),
            },
        }
    }
}

/// A table of the reference.
pub(super) struct TableDoc {
    /// The header in a file, for example `[limits]`; empty for the top of the file.
    pub(super) heading: String,
    pub(super) about: String,
    pub(super) keys: Vec<KeyDoc>,
}

/// A key of the reference.
pub(super) struct KeyDoc {
    pub(super) key: &'static str,
    pub(super) kind: ValueKind,
    pub(super) presence: Presence,
    /// Lower and upper bound.
    pub(super) bounds: Option<(String, String)>,
    pub(super) about: String,
}

/// The effect of a missing key.
pub(super) enum Presence {
    Required,
    /// `None` for a default without a single value; the text of the key describes such a default.
    Default(Option<String>),
}

/// The header of the table at `key` below `path`.
pub(super) fn heading(path: &str, key: &str, kind: &ValueKind) -> String {
    let inner = path.trim_matches(['[', ']']);
    let path = if inner.is_empty() { key.to_owned() } else { format!("{inner}.{key}") };
    match kind {
        ValueKind::List(_) => format!("[[{path}]]"),
        _ => format!("[{path}]"),
    }
}

/// The reference page, after `introduction`.
pub(super) fn page(introduction: &str, tables: &[TableDoc]) -> String {
    let mut page = introduction.to_owned();
    for table in tables {
        let title = match table.heading.as_str() {
            "" => "At the top of the file".to_owned(),
            heading => format!("`{heading}`"),
        };
        let _ = write!(page, "\n## {title}\n\n{}\n\n", paragraph(&table.about));
        page += "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
        for key in &table.keys {
            let _ = writeln!(page, "{}", key.row());
        }
    }
    page
}

impl KeyDoc {
    fn row(&self) -> String {
        let bounds = match &self.bounds {
            Some((least, most)) => format!(", {least} to {most}"),
            None => String::new(),
        };
        let default = match &self.presence {
            Presence::Required => "must be there".to_owned(),
            Presence::Default(Some(default)) => format!("`{default}`"),
            Presence::Default(None) => "–".to_owned(),
        };
        let about = paragraph(&self.about).replace('|', "\\|").replace("\n\n", "<br>");
        format!("| `{}` | {}{bounds} | {default} | {about} |", self.key, self.kind.name())
    }
}

/// Doc comments as text: lines joined, empty lines kept as breaks.
pub(super) fn paragraph(doc: &str) -> String {
    let lines: Vec<_> = doc.lines().map(str::trim).collect();
    lines
        .split(|line| line.is_empty())
        .map(|part| part.join(" "))
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}
