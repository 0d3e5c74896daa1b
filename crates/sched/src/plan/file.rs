//! Plans as text: one `handler = core` per line, in TOML.
//!
//! ```toml
//! parse = 0
//! "net.read" = [0, 1]   # one of these
//! log = "any"
//! ```
//!
//! Contains reading, with the line of an error, and writing. Leaves out the file access. Tested in
//! `plan/tests.rs`.

use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::{Plan, PlanRules};
use crate::{CoreIndex, CoreSet, HandlerIndex, Layout, Placement, SchedError};

/// A plan by the names of handlers, which need not exist yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFile {
    entries: Vec<PlanEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PlanEntry {
    line: usize,
    handler: String,
    placement: Placement,
}

impl PlanFile {
    /// Reads a plan for a runtime with `cores` cores.
    ///
    /// # Errors
    /// With the line: text that is no TOML, a value that is no core, a core that does not exist.
    pub fn parse(text: &str, cores: usize) -> Result<Self, SchedError> {
        let line_of = |at: usize| text[..at].matches('\n').count() + 1;
        let table = DeTable::parse(text).map_err(|error| SchedError::PlanSyntax {
            line: error.span().map_or(1, |span| line_of(span.start)),
            problem: error.message().trim_end().to_owned(),
        })?;
        let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
            let (line, handler) =
                (line_of(key.span().start), String::from(AsRef::<str>::as_ref(key.get_ref())));
            placement(value.get_ref(), cores)
                .map(|placement| PlanEntry { line, handler: handler.clone(), placement })
                .map_err(|problem| SchedError::PlanEntry { line, handler, problem })
        };
        let mut entries = table.get_ref().iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(|entry| entry.line);
        Ok(Self { entries })
    }

    /// The placement of the handler with this name, if the plan contains the handler.
    pub fn get(&self, handler: &str) -> Option<&Placement> {
        self.entries.iter().find(|entry| entry.handler == handler).map(|entry| &entry.placement)
    }

    /// The plan for these handlers, by index; unnamed handlers are free.
    ///
    /// # Errors
    /// When the plan names an unknown handler.
    pub fn resolve(&self, handlers: &[&str]) -> Result<Plan, SchedError> {
        self.entries.iter().try_for_each(|entry| entry.find(handlers).map(drop))?;
        let place = |name: &&str| self.get(name).cloned().unwrap_or_default();
        Ok(Plan::new(handlers.iter().map(place).collect()))
    }

    /// Checks that the plan names only these handlers (by index), on allowed cores.
    ///
    /// # Errors
    /// For the first line that names an unknown handler, a handler that may stand on none of the
    /// cores, or a handler that shares its color with a handler on another core.
    pub fn check(&self, handlers: &[&str], rules: &PlanRules, layout: &Layout) -> Result<(), SchedError> {
        let mut before: Vec<(&PlanEntry, HandlerIndex)> = Vec::new();
        for entry in &self.entries {
            let handler = entry.find(handlers)?;
            let wrong = |problem| Err(entry.wrong(problem));
            let allowed: Vec<_> = layout.indices().filter(|&core| rules.allows(handler, core)).collect();
            if !allowed.iter().any(|&core| entry.placement.allows(core)) {
                let allowed: Vec<_> = allowed.iter().map(|core| core.0.to_string()).collect();
                return wrong(format!("may not stand there: its place allows {}", allowed.join(", ")));
            }
            let parted = before
                .iter()
                .find(|(other, of)| rules.binds(handler, *of) && other.placement != entry.placement);
            if let Some((PlanEntry { line, handler, .. }, _)) = parted {
                return wrong(format!("shares its color with `{handler}`, which line {line} puts elsewhere"));
            }
            before.push((entry, handler));
        }
        Ok(())
    }
}

impl PlanEntry {
    fn find(&self, handlers: &[&str]) -> Result<HandlerIndex, SchedError> {
        let Self { line, handler, .. } = self;
        let index = handlers.iter().position(|name| name == handler);
        index.map(|index| HandlerIndex(index as u32)).ok_or_else(|| SchedError::PlanUnknown {
            line: *line,
            handler: handler.clone(),
            known: handlers.join(", "),
        })
    }

    fn wrong(&self, problem: String) -> SchedError {
        SchedError::PlanEntry { line: self.line, handler: self.handler.clone(), problem }
    }
}

impl Plan {
    /// The plan as text for [`PlanFile::parse`]; `names` by handler. Free handlers are omitted.
    pub fn to_toml(&self, names: &[&str]) -> String {
        let line = |(handler, name): (usize, &&str)| {
            let value = match self.of(HandlerIndex(handler as u32)) {
                Placement::Any => return String::new(),
                Placement::Core(core) => core.0.to_string(),
                Placement::Cores(cores) => {
                    format!("{:?}", cores.iter().map(|core| core.0).collect::<Vec<_>>())
                }
            };
            format!("{} = {value}\n", key(name))
        };
        names.iter().enumerate().map(line).collect()
    }
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(bare) {
        return name.to_owned();
    }
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", name.chars().map(escaped).collect::<String>())
}

fn placement(value: &DeValue<'_>, cores: usize) -> Result<Placement, String> {
    match value {
        DeValue::String(text) if text == "any" => Ok(Placement::Any),
        DeValue::Array(several) if !several.is_empty() => {
            let set: CoreSet =
                several.iter().map(|one| core(one.get_ref(), cores)).collect::<Result<_, _>>()?;
            Ok(Placement::Cores(Arc::new(set)))
        }
        one => core(one, cores).map(Placement::Core),
    }
}

fn core(value: &DeValue<'_>, cores: usize) -> Result<CoreIndex, String> {
    let DeValue::Integer(number) = value else {
        return Err("is neither a core, nor an array of cores, nor \"any\"".to_owned());
    };
    let index = u32::from_str_radix(number.as_str(), number.radix());
    match index {
        Ok(index) if (index as usize) < cores => Ok(CoreIndex(index)),
        _ => Err(format!("there is no core {number}: the runtime has 0 to {}", cores - 1)),
    }
}
