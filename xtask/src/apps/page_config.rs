//! The configurations that a page of the documentation shows, for use in a test.
//!
//! A test that copies the configuration from the page also tests the page. Only the parts that
//! belong to a machine are replaced, and each replaced part must be on the page.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};

/// The page with the configurations of applications.
pub(super) const PAGE: &str = "docs/applications.md";

/// A configuration from the page.
#[derive(Clone, Debug)]
pub(super) struct PageConfig {
    heading: String,
    text: String,
}

impl PageConfig {
    /// The first block of `language` below the heading.
    pub(super) fn read(root: &Path, heading: &str, language: &str) -> Result<Self> {
        let path = root.join(PAGE);
        let page = fs::read_to_string(&path).map_err(Error::path("read", &path))?;
        Self::find(&page, heading, language)
            .ok_or_else(|| Error::form(PAGE, format!("no block of {language} below {heading:?}")))
    }

    fn find(page: &str, heading: &str, language: &str) -> Option<Self> {
        let (_, section) = page.split_once(&format!("\n## {heading}\n"))?;
        let section = section.split("\n## ").next()?;
        let (_, block) = section.split_once(&format!("\n```{language}\n"))?;
        let text = block.split("```").next()?.to_owned();
        Some(Self { heading: heading.into(), text })
    }

    /// The configuration with `to` in place of `from`, which must occur.
    pub(super) fn replace(mut self, from: &str, to: &str) -> Result<Self> {
        if !self.text.contains(from) {
            return Err(Error::form(PAGE, format!("no {from} below {:?}", self.heading)));
        }
        self.text = self.text.replace(from, to);
        Ok(self)
    }

    /// The configuration without the lines that begin with one of these words.
    pub(super) fn without_lines(mut self, starts: &[&str]) -> Self {
        let kept = self.text.lines().filter(|line| !starts.iter().any(|start| line.starts_with(start)));
        self.text = kept.map(|line| format!("{line}\n")).collect();
        self
    }

    /// The configuration with `listeners` in place of its tables of listeners.
    pub(super) fn with_listeners(mut self, listeners: &str) -> Self {
        let mut tables = self.text.split("\n[").map(str::to_owned).collect::<Vec<_>>();
        tables.retain(|table| !table.starts_with("[listener]]"));
        // The top of the file comes before all tables.
        tables[0].push_str(&format!("\n{listeners}"));
        self.text = tables.join("\n[");
        self
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Page\n\n## A blog\n\nText.\n\n```toml\nuser = \"w\"\n\n[[listener]]\naddress = \":443\"\n\n\
        [[host]]\nroot = \"/srv\"\n```\n\n## Other\n\n```nginx\nlisten 1;\n```\n";

    #[test]
    fn block_belongs_to_its_heading() {
        let config = PageConfig::find(TEXT, "A blog", "toml").expect("a block");
        assert!(config.text().starts_with("user = ") && config.text().ends_with("\"/srv\"\n"));
        assert!(PageConfig::find(TEXT, "Other", "toml").is_none());
        assert!(config.replace("/none", "/").is_err());
    }

    #[test]
    fn listeners_are_replaced() {
        let config = PageConfig::find(TEXT, "A blog", "toml").expect("a block");
        let config = config.with_listeners("[proxies]\nfrom = []\n").without_lines(&["user ="]);
        assert!(!config.text().contains("443") && !config.text().contains("user"), "{}", config.text());
        assert!(config.text().contains("\n[proxies]") && config.text().contains("\n[[host]]"));
    }
}
