//! Sets of cpus, in the kernel's list form.
//!
//! Contains parsing, printing and set arithmetic. Leaves out the properties of a cpu (`machine`)
//! and the cpus that a process may use (`cgroup`). Invariant: no trailing zero word, because equal
//! sets must compare equal; tested in `cpuset/tests.rs`.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

use crate::{CpuId, TopologyError};

#[cfg(test)]
mod tests;

/// Cpu numbers stand below this bound: the largest `NR_CPUS` a mainline kernel can be built with
/// (x86, `MAXSMP`).
pub const CPUS_MAX: u32 = 8192;

const WORD_BITS: u32 = u64::BITS;

/// A set of cpus. Reads and prints the kernel's list form (`0-3,8`), with `^` to remove cpus
/// (`0-7,^3`).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    /// The empty set.
    pub const fn new() -> CpuSet {
        CpuSet { words: Vec::new() }
    }

    /// Adds a cpu.
    ///
    /// # Panics
    /// If the number is not below [`CPUS_MAX`].
    pub fn insert(&mut self, cpu: CpuId) {
        assert!(cpu.0 < CPUS_MAX, "cpu {cpu} is not below CPUS_MAX ({CPUS_MAX})");
        let (word, bit) = place(cpu);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// Whether the cpu is in the set.
    pub fn contains(&self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// The number of cpus in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Whether the set has no cpu.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest cpu.
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The cpus in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> {
        self.words.iter().zip(0..).flat_map(|(&bits, word)| {
            let mut left = bits;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(CpuId(word * WORD_BITS + bit))
            })
        })
    }

    /// Cpus in either set.
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        self.combine(other, |a, b| a | b)
    }

    /// Cpus in both sets.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        self.combine(other, |a, b| a & b)
    }

    /// Cpus in this set and not in the other.
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        self.combine(other, |a, b| a & !b)
    }

    /// Whether every cpu of this set is in the other.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        let theirs = other.words.iter().chain(std::iter::repeat(&0));
        self.words.iter().zip(theirs).all(|(a, b)| a & !b == 0)
    }

    fn combine(&self, other: &CpuSet, each: impl Fn(u64, u64) -> u64) -> CpuSet {
        let word = |set: &CpuSet, i: usize| set.words.get(i).copied().unwrap_or(0);
        let len = self.words.len().max(other.words.len());
        let mut words: Vec<u64> = (0..len).map(|i| each(word(self, i), word(other, i))).collect();
        while words.last() == Some(&0) {
            words.pop();
        }
        CpuSet { words }
    }
}

fn place(cpu: CpuId) -> (usize, u64) {
    ((cpu.0 / WORD_BITS) as usize, 1 << (cpu.0 % WORD_BITS))
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().map(|cpu| cpu.0).peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for CpuSet {
    type Err = TopologyError;

    /// Reads `0-7,^3`: items between commas, each a cpu or a range; `^` removes cpus at any
    /// position. White space around items is ignored and the empty text is the empty set, as in the
    /// kernel's files.
    fn from_str(text: &str) -> Result<CpuSet, TopologyError> {
        let (mut within, mut without) = (CpuSet::new(), CpuSet::new());
        let mut at = 0;
        for item in text.split(',') {
            let body = item.trim();
            let start = at + (item.len() - item.trim_start().len());
            at += item.len() + 1;
            if body.is_empty() && text.trim().is_empty() {
                break;
            }
            let (target, range) = match body.strip_prefix('^') {
                Some(range) => (&mut without, range),
                None => (&mut within, body),
            };
            let (first, last) = parse_range(range).map_err(|problem| TopologyError::CpuList {
                text: text.trim_end().to_owned(),
                column: text[..start].chars().count() + 1,
                problem,
            })?;
            (first..=last).for_each(|cpu| target.insert(CpuId(cpu)));
        }
        Ok(within.difference(&without))
    }
}

fn parse_range(text: &str) -> Result<(u32, u32), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (parse_cpu(first)?, parse_cpu(last)?);
    if last < first {
        return Err(format!("the range {first}-{last} runs backwards"));
    }
    Ok((first, last))
}

fn parse_cpu(text: &str) -> Result<u32, String> {
    if text.is_empty() {
        return Err("a cpu number is missing".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("\"{text}\" is not a cpu number"));
    }
    match text.parse() {
        Ok(cpu) if cpu < CPUS_MAX => Ok(cpu),
        _ => Err(format!("cpu {text} is beyond {}, the last that Linux can number", CPUS_MAX - 1)),
    }
}
