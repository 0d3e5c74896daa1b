//! Reads a parsed document: from its values to settings, with a list of all problems.
//!
//! Owns [`ConfigSetting`]: how each kind of value in the tables of `keys.rs` is read and described.
//! Leaves out the tables themselves. Tested in `tests.rs`.

use super::{
    describe::{TableDoc, ValueKind},
    problems::{Problem, home, nearest, suggestion},
    values::{FileMode, Listen, Size, Span},
};
use std::{cell::LazyCell, fmt::Display, ops::Range, path::PathBuf, str::FromStr};
use toml::{Spanned, de::DeValue};
use vermeil_settings::ControlTarget;
use vermeil_topology::{CoreSelection, InstanceSelection};

pub(super) type ConfigNode<'i> = Spanned<DeValue<'i>>;

/// Former paths of keys, each with the present name and table of the key.
const RENAMED: [(&str, &str, &str); 5] = [
    ("php.queue_timeout", "queue_timeout", "programs"),
    ("php.timeout", "timeout", "programs"),
    ("php.body_bytes", "body_bytes", "programs"),
    ("php.spool_folder", "spool_folder", "programs"),
    ("php.spool_bytes", "spool_bytes", "programs"),
];

/// A kind of value that a key can have.
pub(super) trait ConfigSetting: Sized {
    /// The kind in the reference.
    fn kind() -> ValueKind;

    /// The setting at `node`; `None`, and a problem, if the value is wrong.
    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self>;

    /// The text as written in a file; `None` for a setting without a single value.
    fn shown(&self) -> Option<String>;

    /// Adds the setting's tables to the reference.
    fn tables(_path: &str, _into: &mut Vec<TableDoc>) {}
}

/// A setting with a lower and an upper bound.
pub(super) trait BoundedSetting: ConfigSetting {
    /// The amount that is compared with the bounds.
    fn amount(&self) -> u64;

    /// The text of an amount.
    fn shown_amount(amount: u64) -> String;
}

/// The state of reading, and the problems found.
#[derive(Default)]
pub(super) struct ConfigReader {
    /// The start of the text in the file, in bytes.
    pub(super) base: usize,
    pub(super) problems: Vec<Problem>,
    /// All tables, for hints about keys in the wrong table.
    tables: LazyCell<Vec<TableDoc>>,
    /// Whether a key stood in the wrong table, so its own table lacks the key.
    pub(super) is_misplaced: bool,
    /// The path of keys to the current value.
    path: Vec<&'static str>,
}

impl ConfigReader {
    /// A reader whose hints know the `tables` of the file.
    pub(super) fn new(tables: fn() -> Vec<TableDoc>) -> Self {
        Self { tables: LazyCell::new(tables), ..Self::default() }
    }

    /// Reads on below `key`.
    pub(super) fn within<R>(&mut self, key: &'static str, read: impl FnOnce(&mut Self) -> R) -> R {
        self.path.push(key);
        let result = read(self);
        self.path.pop();
        result
    }

    /// Adds a problem at `at` of the current text.
    pub(super) fn problem(&mut self, at: Range<usize>, what: impl Into<String>) {
        let at = self.base + at.start..self.base + at.end;
        self.problems.push(Problem { at, key: self.path.join("."), what: what.into() });
    }

    pub(super) fn unknown_key(&mut self, at: Range<usize>, key: &str, known: &[&str]) {
        let mut path = self.path.join(".");
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        let at = self.base + at.start..self.base + at.end;
        let what = match RENAMED.iter().find(|(old, _, _)| *old == path) {
            Some((_, new, table)) => format!("this key has moved: write `{new}` in [{table}]"),
            None => {
                let home = if nearest(key, known).is_none() { home(key, &self.tables) } else { None };
                self.is_misplaced |= home.is_some();
                match home {
                    Some(home) => format!("there is no such key here; {home}"),
                    None => format!("there is no such key; {}", suggestion(key, known)),
                }
            }
        };
        self.problems.push(Problem { at, key: path, what });
    }

    pub(super) fn missing(&mut self, at: Range<usize>, key: &'static str) {
        self.within(key, |reader| reader.problem(at, "this key must be there"));
    }

    fn wrong_kind(&mut self, node: &ConfigNode<'_>, wanted: &ValueKind) {
        let found = match node.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a point",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let is_tables = matches!(wanted, ValueKind::List(of) if **of == ValueKind::Table);
        let is_single = is_tables && matches!(node.get_ref(), DeValue::Table(_));
        let cure = match self.path.join(".") {
            path if is_single => format!("[[{path}]] instead of [{path}]"),
            path if *wanted == ValueKind::Table => format!("a table, begun by [{path}]"),
            path if is_tables => format!("tables, each begun by [[{path}]]"),
            _ => wanted.example(),
        };
        self.problem(node.span(), format!("this is {found}; write {cure}"));
    }

    fn text<'n>(&mut self, node: &'n ConfigNode<'_>, wanted: &ValueKind) -> Option<&'n str> {
        let text = node.get_ref().as_str();
        if text.is_none() {
            self.wrong_kind(node, wanted);
        }
        text
    }

    /// The value of `text`, or a problem.
    fn parsed<T: FromStr<Err: Display>>(&mut self, node: &ConfigNode<'_>, text: &str) -> Option<T> {
        text.parse().map_err(|why| self.problem(node.span(), format!("\"{text}\": {why}"))).ok()
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(
        &mut self,
        node: &ConfigNode<'_>,
        words: &'static [(&'static str, T)],
    ) -> Option<T> {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let text = self.text(node, &ValueKind::Words(known.clone()))?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            self.problem(node.span(), format!("\"{text}\" is no choice; {}", suggestion(text, &known)));
        }
        found
    }

    /// The entries of a table.
    pub(super) fn table<'n, 'i>(&mut self, node: &'n ConfigNode<'i>) -> Option<&'n toml::de::DeTable<'i>> {
        match node.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => {
                self.wrong_kind(node, &ValueKind::Table);
                None
            }
        }
    }

    /// Checks that `value` is between `least` and `most`.
    pub(super) fn bounded<T: BoundedSetting>(
        &mut self,
        node: &ConfigNode<'_>,
        value: T,
        least: u64,
        most: u64,
    ) -> Option<T> {
        let amount = value.amount();
        if (least..=most).contains(&amount) {
            return Some(value);
        }
        let [amount, least, most] = [amount, least, most].map(T::shown_amount);
        self.problem(node.span(), format!("{amount} is not from {least} to {most}"));
        None
    }
}

/// A value and its place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At<T> {
    pub(super) value: T,
    /// Bytes from the start of the file.
    pub(super) at: Range<usize>,
}

impl<T: ConfigSetting> ConfigSetting for At<T> {
    fn kind() -> ValueKind {
        T::kind()
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        let at = reader.base + node.span().start..reader.base + node.span().end;
        T::read(node, reader).map(|value| Self { value, at })
    }

    fn shown(&self) -> Option<String> {
        self.value.shown()
    }

    fn tables(path: &str, into: &mut Vec<TableDoc>) {
        T::tables(path, into);
    }
}

impl<T: BoundedSetting> BoundedSetting for At<T> {
    fn amount(&self) -> u64 {
        self.value.amount()
    }

    fn shown_amount(amount: u64) -> String {
        T::shown_amount(amount)
    }
}

impl<T: ConfigSetting> ConfigSetting for Option<T> {
    fn kind() -> ValueKind {
        T::kind()
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        T::read(node, reader).map(Some)
    }

    fn shown(&self) -> Option<String> {
        self.as_ref().and_then(T::shown)
    }

    fn tables(path: &str, into: &mut Vec<TableDoc>) {
        T::tables(path, into);
    }
}

impl<T: BoundedSetting> BoundedSetting for Option<T> {
    fn amount(&self) -> u64 {
        self.as_ref().map_or(0, T::amount)
    }

    fn shown_amount(amount: u64) -> String {
        T::shown_amount(amount)
    }
}

impl<T: ConfigSetting> ConfigSetting for Vec<T> {
    fn kind() -> ValueKind {
        ValueKind::List(Box::new(T::kind()))
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        let DeValue::Array(array) = node.get_ref() else {
            reader.wrong_kind(node, &Self::kind());
            return None;
        };
        // Reads all elements, so all problems are found.
        let read: Vec<Option<T>> = array.iter().map(|node| T::read(node, reader)).collect();
        read.into_iter().collect()
    }

    fn shown(&self) -> Option<String> {
        let shown: Option<Vec<String>> = self.iter().map(T::shown).collect();
        shown.map(|shown| format!("[{}]", shown.join(", ")))
    }

    fn tables(path: &str, into: &mut Vec<TableDoc>) {
        T::tables(path, into);
    }
}

/// A table whose keys the operator chooses.
#[derive(Clone, Debug)]
pub(super) struct FreeTable<T>(pub(super) Vec<(At<String>, At<T>)>);

impl<T> FreeTable<T> {
    pub(super) const NONE: Self = Self(Vec::new());
}

impl<T: ConfigSetting> ConfigSetting for FreeTable<T> {
    fn kind() -> ValueKind {
        ValueKind::Map(Box::new(T::kind()))
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        let DeValue::Table(table) = node.get_ref() else {
            reader.wrong_kind(node, &Self::kind());
            return None;
        };
        let base = reader.base;
        let mut entries: Vec<_> = table.iter().collect();
        // In the order of the file, because the first match may count.
        entries.sort_by_key(|(key, _)| key.span().start);
        let read: Vec<_> = entries
            .into_iter()
            .map(|(key, value)| {
                let at = base + key.span().start..base + key.span().end;
                let key = At { value: key.get_ref().to_string(), at };
                At::read(value, reader).map(|value| (key, value))
            })
            .collect();
        read.into_iter().collect::<Option<_>>().map(Self)
    }

    fn shown(&self) -> Option<String> {
        self.0.is_empty().then(|| "{}".to_owned())
    }
}

/// A table of texts whose names may have dots: the table `{ date.timezone = "UTC" }` has the name
/// `date.timezone`, as with quotes around the name.
#[derive(Clone, Debug)]
pub(super) struct DottedTable(pub(super) Vec<(At<String>, At<String>)>);

impl DottedTable {
    pub(super) const NONE: Self = Self(Vec::new());

    fn add(&mut self, table: &toml::de::DeTable<'_>, before: &str, reader: &mut ConfigReader) -> Option<()> {
        let base = reader.base;
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let name = format!("{before}{}", key.get_ref());
            if let DeValue::Table(below) = value.get_ref() {
                self.add(below, &format!("{name}."), reader)?;
                continue;
            }
            let at = base + key.span().start..base + key.span().end;
            self.0.push((At { value: name, at }, At::read(value, reader)?));
        }
        Some(())
    }
}

impl ConfigSetting for DottedTable {
    fn kind() -> ValueKind {
        ValueKind::DottedMap
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        let DeValue::Table(table) = node.get_ref() else {
            reader.wrong_kind(node, &Self::kind());
            return None;
        };
        let mut read = Self::NONE;
        read.add(table, "", reader)?;
        Some(read)
    }

    fn shown(&self) -> Option<String> {
        self.0.is_empty().then(|| "{}".to_owned())
    }
}

/// The values of a field of answers; none removes the field.
#[derive(Clone, Debug)]
pub(super) struct FieldValues(pub(super) Vec<String>);

impl ConfigSetting for FieldValues {
    fn kind() -> ValueKind {
        ValueKind::Field
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        match node.get_ref() {
            DeValue::Boolean(false) => Some(Self(Vec::new())),
            DeValue::Array(_) => Vec::read(node, reader).map(Self),
            _ => reader.text(node, &ValueKind::Field).map(|text| Self(vec![text.to_owned()])),
        }
    }

    fn shown(&self) -> Option<String> {
        None
    }
}

impl ConfigSetting for bool {
    fn kind() -> ValueKind {
        ValueKind::Flag
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        let DeValue::Boolean(flag) = node.get_ref() else {
            reader.wrong_kind(node, &ValueKind::Flag);
            return None;
        };
        Some(*flag)
    }

    fn shown(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// True, false, or a table with details.
#[derive(Clone, Debug)]
pub(super) enum FlagOr<T> {
    Flag(bool),
    Table(T),
}

impl<T: ConfigSetting> ConfigSetting for FlagOr<T> {
    fn kind() -> ValueKind {
        ValueKind::FlagOrTable
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        match node.get_ref() {
            DeValue::Boolean(flag) => Some(Self::Flag(*flag)),
            DeValue::Table(_) => T::read(node, reader).map(Self::Table),
            _ => {
                reader.wrong_kind(node, &Self::kind());
                None
            }
        }
    }

    fn shown(&self) -> Option<String> {
        match self {
            Self::Flag(flag) => flag.shown(),
            Self::Table(table) => table.shown(),
        }
    }

    fn tables(path: &str, into: &mut Vec<TableDoc>) {
        T::tables(path, into);
    }
}

/// A value, or a list of values.
#[derive(Clone, Debug)]
pub(super) struct OneOrMore<T>(pub(super) Vec<T>);

impl<T: ConfigSetting> ConfigSetting for OneOrMore<T> {
    fn kind() -> ValueKind {
        ValueKind::OneOrMore(Box::new(T::kind()))
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        match node.get_ref() {
            DeValue::Array(_) => Vec::read(node, reader).map(Self),
            _ => T::read(node, reader).map(|one| Self(vec![one])),
        }
    }

    fn shown(&self) -> Option<String> {
        match &self.0[..] {
            [one] => one.shown(),
            _ => self.0.shown(),
        }
    }
}

impl ConfigSetting for u64 {
    fn kind() -> ValueKind {
        ValueKind::Number
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        let DeValue::Integer(number) = node.get_ref() else {
            reader.wrong_kind(node, &ValueKind::Number);
            return None;
        };
        let read = Self::from_str_radix(number.as_str(), number.radix());
        if read.is_err() {
            reader.problem(node.span(), "this number is negative, or too large");
        }
        read.ok()
    }

    fn shown(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl BoundedSetting for u64 {
    fn amount(&self) -> u64 {
        *self
    }

    fn shown_amount(amount: u64) -> String {
        amount.to_string()
    }
}

impl ConfigSetting for Size {
    fn kind() -> ValueKind {
        ValueKind::Size
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        if let DeValue::Integer(_) = node.get_ref() {
            return u64::read(node, reader).map(Self::bytes);
        }
        let text = reader.text(node, &ValueKind::Size)?;
        reader.parsed(node, text)
    }

    fn shown(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

impl BoundedSetting for Size {
    fn amount(&self) -> u64 {
        self.bytes
    }

    fn shown_amount(amount: u64) -> String {
        Self::bytes(amount).to_string()
    }
}

impl ConfigSetting for Span {
    fn kind() -> ValueKind {
        ValueKind::Time
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        match node.get_ref() {
            // Seconds, as on the command line.
            DeValue::Integer(number) if number.radix() == 10 => reader.parsed(node, number.as_str()),
            DeValue::Float(number) => reader.parsed(node, number.as_str()),
            _ => {
                let text = reader.text(node, &ValueKind::Time)?;
                reader.parsed(node, text)
            }
        }
    }

    fn shown(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

/// Implements reading for types that are texts in the file.
macro_rules! texts {
    ($($type:ty: $kind:expr, |$text:ident| $shown:expr;)+) => {$(
        impl ConfigSetting for $type {
            fn kind() -> ValueKind {
                $kind
            }

            fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
                let text = reader.text(node, &$kind)?;
                reader.parsed(node, text)
            }

            fn shown(&self) -> Option<String> {
                let $text = self;
                Some(format!("{:?}", $shown))
            }
        }
    )+};
}

texts! {
    String: ValueKind::Text, |text| text;
    Listen: ValueKind::Address, |listen| listen.to_string();
    FileMode: ValueKind::Text, |mode| mode.to_string();
    vermeil_log::LogFormat: ValueKind::Text, |format| format.to_string();
    vermeil_log::LogTarget: ValueKind::Log, |target| target.to_string();
}

impl ConfigSetting for PathBuf {
    fn kind() -> ValueKind {
        ValueKind::Path
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        let text = reader.text(node, &ValueKind::Path)?;
        // An empty path would be the folder of the file, which may have keys of certificates.
        if text.is_empty() || text.contains('\0') {
            let what = format!("{text:?}: write a path; \".\" is the folder of this file");
            reader.problem(node.span(), what);
            return None;
        }
        Some(text.into())
    }

    fn shown(&self) -> Option<String> {
        Some(format!("{:?}", self.display().to_string()))
    }
}

impl ConfigSetting for ControlTarget {
    fn kind() -> ValueKind {
        ValueKind::Path
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        let text = reader.text(node, &ValueKind::Path)?;
        reader.parsed(node, text)
    }

    fn shown(&self) -> Option<String> {
        (*self != Self::Default).then(|| format!("{:?}", self.to_string()))
    }
}

impl ConfigSetting for CoreSelection {
    fn kind() -> ValueKind {
        ValueKind::Cores
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        if let DeValue::Integer(number) = node.get_ref() {
            return reader.parsed(node, number.as_str());
        }
        let text = reader.text(node, &ValueKind::Cores)?;
        reader.parsed(node, text)
    }

    fn shown(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

impl ConfigSetting for InstanceSelection {
    fn kind() -> ValueKind {
        ValueKind::Instances
    }

    fn read(node: &ConfigNode<'_>, reader: &mut ConfigReader) -> Option<Self> {
        if let DeValue::Integer(number) = node.get_ref() {
            return reader.parsed(node, number.as_str());
        }
        let text = reader.text(node, &ValueKind::Instances)?;
        reader.parsed(node, text)
    }

    fn shown(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

/// A number that fits a word of any machine, by the bounds of its key.
pub(super) fn narrow(number: u64) -> usize {
    usize::try_from(number).expect("bounds of keys are below 2^32")
}
