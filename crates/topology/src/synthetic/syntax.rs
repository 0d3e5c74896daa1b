//! The parser from the text of a synthetic description to items.
//!
//! Contains words, numbers, sizes and attributes, each with its position for errors. Leaves out the
//! meaning of levels together (`synthetic`). Every stored byte offset is a character boundary. A
//! property in `synthetic/tests.rs` checks that no text causes a panic.

use crate::CacheKind;

/// An error in the text: the position (a byte offset) and the problem.
pub(super) struct SyntaxFault {
    pub(super) at: usize,
    pub(super) problem: String,
}

impl SyntaxFault {
    pub(super) fn at(at: usize, problem: String) -> SyntaxFault {
        SyntaxFault { at, problem }
    }
}

/// The kind of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LevelKind {
    Machine,
    Package,
    Node,
    Die,
    Group,
    Cache(u8, CacheKind),
    Core,
    Pu,
}

/// hwloc's names, in the order of the lookup of shortened names.
const NAMES: [(&str, LevelKind); 10] = [
    ("machine", LevelKind::Machine),
    ("package", LevelKind::Package),
    ("socket", LevelKind::Package),
    ("numanode", LevelKind::Node),
    ("node", LevelKind::Node),
    ("die", LevelKind::Die),
    ("group", LevelKind::Group),
    ("core", LevelKind::Core),
    ("pu", LevelKind::Pu),
    ("l3", LevelKind::Cache(3, CacheKind::Unified)),
];

impl LevelKind {
    pub(super) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, kind)| *kind == self).map_or("cache", |(name, _)| name)
    }

    fn from_word(word: &str) -> Option<LevelKind> {
        let word = word.to_ascii_lowercase();
        let named = NAMES.iter().find(|(name, _)| word.len() >= 2 && name.starts_with(&word));
        named.map(|&(_, kind)| kind).or_else(|| cache_from_word(&word))
    }
}

/// `l2`, `l2u`, `l1d`, `l1i`, each with or without `cache` behind.
fn cache_from_word(word: &str) -> Option<LevelKind> {
    let word = word.strip_suffix("cache").unwrap_or(word).strip_prefix('l')?;
    let level = word.chars().next().filter(|level| ('1'..='5').contains(level))?;
    let kind = match &word[1..] {
        "" | "u" => CacheKind::Unified,
        "d" => CacheKind::Data,
        "i" => CacheKind::Instruction,
        _ => return None,
    };
    Some(LevelKind::Cache(level as u8 - b'0', kind))
}

/// Attributes in parentheses. `bytes` is the cache's or node's size.
#[derive(Debug, Default)]
pub(super) struct SyntaxAttributes {
    pub(super) bytes: Option<u64>,
    /// With the position in the text.
    pub(super) indexes: Option<(usize, Indexes)>,
}

/// The system's numbers of a level's objects.
#[derive(Debug)]
pub(super) enum Indexes {
    List(Vec<u32>),
    /// `step*count`, both above 0.
    Loops(Vec<(usize, usize)>),
}

/// An item of the description; `kind` is `None` for a bare number.
#[derive(Debug)]
pub(super) struct SyntaxItem {
    pub(super) at: usize,
    pub(super) kind: Option<LevelKind>,
    pub(super) count: usize,
    pub(super) attributes: SyntaxAttributes,
    /// In brackets: a node attached to each object of the previous level.
    pub(super) attached: bool,
}

/// A position in the text.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Cursor<'a> {
        let mut cursor = Cursor { text, at: 0 };
        cursor.take(char::is_whitespace);
        cursor
    }

    /// The attributes of the machine, which hwloc allows in front.
    pub(super) fn root_attributes(&mut self) -> Result<SyntaxAttributes, SyntaxFault> {
        self.attributes()
    }

    pub(super) fn items(&mut self) -> Result<Vec<SyntaxItem>, SyntaxFault> {
        let mut items = Vec::new();
        loop {
            self.take(char::is_whitespace);
            if self.at == self.text.len() {
                return Ok(items);
            }
            items.push(if self.eat('[') { self.attached()? } else { self.level()? });
        }
    }

    fn level(&mut self) -> Result<SyntaxItem, SyntaxFault> {
        let at = self.at;
        let kind =
            if self.rest().starts_with(|c: char| c.is_ascii_digit()) { None } else { Some(self.kind()?) };
        if kind.is_some() && !self.eat(':') {
            return Err(self.fault("expected \":\" and a count, as in core:4"));
        }
        let digits = self.at;
        let count = match self.take(|c| c.is_ascii_digit()).parse() {
            Ok(0) => return Err(SyntaxFault::at(digits, "a level of 0 objects; leave the level out".into())),
            Ok(count) => count,
            Err(_) => return Err(SyntaxFault::at(digits, "expected a count, as in core:4".into())),
        };
        Ok(SyntaxItem { at, kind, count, attributes: self.attributes()?, attached: false })
    }

    fn attached(&mut self) -> Result<SyntaxItem, SyntaxFault> {
        let at = self.at;
        if self.kind()? != LevelKind::Node {
            return Err(SyntaxFault::at(
                at,
                "only a memory node can be attached, as in [numa(memory=8GiB)]".into(),
            ));
        }
        let attributes = self.attributes()?;
        if !self.eat(']') {
            return Err(self.fault("expected \"]\""));
        }
        Ok(SyntaxItem { at, kind: Some(LevelKind::Node), count: 1, attributes, attached: true })
    }

    fn kind(&mut self) -> Result<LevelKind, SyntaxFault> {
        let at = self.at;
        let word = self.take(char::is_alphanumeric);
        if word.is_empty() {
            return Err(self.fault("expected a level name or a number"));
        }
        LevelKind::from_word(word).ok_or_else(|| {
            SyntaxFault::at(at, format!("unknown level \"{word}\"; did you mean \"{}\"?", nearest_name(word)))
        })
    }

    /// `(name=value name=value)`, or nothing.
    fn attributes(&mut self) -> Result<SyntaxAttributes, SyntaxFault> {
        let mut attributes = SyntaxAttributes::default();
        if !self.eat('(') {
            return Ok(attributes);
        }
        loop {
            self.take(|c| c == ' ');
            if self.eat(')') {
                return Ok(attributes);
            }
            let at = self.at;
            let name = self.take(|c| c.is_ascii_alphanumeric());
            if !self.eat('=') {
                return Err(SyntaxFault::at(
                    at,
                    "expected size=, memory= or indexes=, and \")\" at the end".into(),
                ));
            }
            let value_at = self.at;
            let value = self.take(|c| c != ' ' && c != ')');
            match name {
                "size" | "memory" => {
                    attributes.bytes = Some(bytes(value).ok_or_else(|| {
                        SyntaxFault::at(
                            value_at,
                            format!("\"{value}\" is no size; write bytes or 32MiB, 8GiB"),
                        )
                    })?)
                }
                "indexes" => {
                    attributes.indexes = Some((
                        value_at,
                        indexes(value).ok_or_else(|| {
                            SyntaxFault::at(
                                value_at,
                                format!(
                                    "\"{value}\" is no index list; write 0,2,1,3 or step*count:step*count"
                                ),
                            )
                        })?,
                    ))
                }
                _ => {
                    let problem = format!("unknown attribute \"{name}\"; known are size, memory and indexes");
                    return Err(SyntaxFault::at(at, problem));
                }
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.rest().starts_with(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    fn fault(&self, expected: &str) -> SyntaxFault {
        let found = self.rest().chars().next().map_or("the end".to_owned(), |c| format!("\"{c}\""));
        SyntaxFault::at(self.at, format!("{expected}, found {found}"))
    }
}

fn bytes(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

fn indexes(text: &str) -> Option<Indexes> {
    if !text.contains('*') {
        return text.split(',').map(|number| number.parse().ok()).collect::<Option<_>>().map(Indexes::List);
    }
    let one = |part: &str| {
        let (step, count) = part.split_once('*')?;
        let (step, count) = (step.parse().ok()?, count.parse().ok()?);
        (step > 0 && count > 0).then_some((step, count))
    };
    text.split(':').map(one).collect::<Option<_>>().map(Indexes::Loops)
}

fn nearest_name(word: &str) -> &'static str {
    let word = word.to_ascii_lowercase();
    NAMES.iter().map(|(name, _)| *name).min_by_key(|name| edits(&word, name)).unwrap_or("pu")
}

/// The number of insertions, deletions and replacements that turn a word into the other
/// (Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}
