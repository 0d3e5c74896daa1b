//! A user's workload, from TOML.
//!
//! ```toml
//! name = "shop"
//! think = "exp:5s:75s"
//! connections = 2
//!
//! [[page]]
//! name = "home"
//! path = "/index.html"
//! next = { item = 0.6 }              # what is left ends the session
//! embedded = ["/style.css", { path = "/logo.svg", cached = 0.8 }]
//!
//! [[page]]
//! name = "item"
//! path = "/item.php?id={0..999}"
//! next = { home = 0.2, item = 0.3 }
//! ends = "</html>\n"
//! ```
//!
//! Unknown keys are errors. Tested here.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::model::{Check, Embedded, Judge, KeepAlive, Model, ModelError, Page, PageSource};
use super::template::PathTemplate;
use crate::files::{FileSet, SetKind};
use crate::pace::parse_time;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default)]
    think: Option<String>,
    #[serde(default = "one")]
    connections: usize,
    #[serde(default)]
    receive_rate: Option<u64>,
    #[serde(default)]
    keep_alive: Option<TomlKept>,
    #[serde(default)]
    timeout: Option<String>,
    #[serde(rename = "page")]
    pages: Vec<FilePage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TomlKept {
    share: f64,
    requests: [u32; 2],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePage {
    name: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    files: Option<FileFiles>,
    #[serde(default)]
    next: BTreeMap<String, f64>,
    #[serde(default)]
    embedded: Vec<FileEmbedded>,
    #[serde(default)]
    ends: Option<String>,
    #[serde(default)]
    judge: Option<FileJudge>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFiles {
    set: String,
    directories: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FileEmbedded {
    Path(String),
    Full(FullEmbedded),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FullEmbedded {
    path: String,
    #[serde(default)]
    cached: f64,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileJudge {
    Time,
    Rate,
}

fn one() -> usize {
    1
}

impl Model {
    /// The model of a TOML text.
    ///
    /// # Errors
    /// The fault of the text. A syntax error has line and column.
    pub fn from_toml(text: &str) -> Result<Self, ModelError> {
        let other = |error: String| ModelError::Other(error);
        let file: File = ::toml::from_str(text).map_err(|error| other(error.to_string()))?;
        let names: Vec<&str> = file.pages.iter().map(|page| page.name.as_str()).collect();
        let again = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name));
        if let Some((_, name)) = again {
            return Err(other(format!("two pages are named {name}: give each page a name of its own")));
        }
        let pages: Vec<Page> =
            file.pages.iter().map(|page| page_of(page, &names)).collect::<Result<_, _>>().map_err(other)?;
        let timeout = match &file.timeout {
            None => Duration::from_secs(60),
            Some(text) => {
                let timeout = parse_time(text).filter(|timeout| !timeout.is_zero());
                timeout.ok_or_else(|| other(format!("timeout = {text:?}: a time above zero, such as 60s")))?
            }
        };
        let think = match &file.think {
            None => crate::pace::Think::NONE,
            Some(text) => text.parse().map_err(|error| other(format!("think: {error}")))?,
        };
        if file.receive_rate == Some(0) {
            let why = "receive_rate = 0: a number of bytes per second from 1; leave the key out for no limit";
            return Err(other(why.to_owned()));
        }
        if !(1..=64).contains(&file.connections) {
            return Err(other(format!("connections = {}: from 1 to 64", file.connections)));
        }
        let keep_alive = match file.keep_alive {
            None => KeepAlive::ALWAYS,
            Some(TomlKept { share, requests: [low, high] }) => {
                if !(0.0..=1.0).contains(&share) || low == 0 || low > high {
                    let why = "keep_alive: a share from 0 to 1, and requests = [fewest, most] from 1";
                    return Err(other(why.to_owned()));
                }
                KeepAlive { share, requests: (low, high) }
            }
        };
        let model = Self {
            name: file.name,
            pages,
            think,
            connections: file.connections,
            receive_rate: file.receive_rate,
            keep_alive,
            timeout,
        };
        model.check()?;
        Ok(model)
    }
}

fn page_of(page: &FilePage, names: &[&str]) -> Result<Page, String> {
    let name = &page.name;
    let source = match (&page.path, &page.files) {
        (Some(path), None) => PageSource::Path(path.parse::<PathTemplate>()?),
        (None, Some(files)) => {
            let kind: SetKind = files.set.parse()?;
            PageSource::File(FileSet::new(kind, files.directories))
        }
        _ => return Err(format!("page {name}: either path or files")),
    };
    let next = page.next.iter().map(|(to, probability)| {
        let index = names.iter().position(|name| name == to);
        let index = index.ok_or_else(|| {
            format!("page {name}: there is no page {to} to go to; there are {}", names.join(", "))
        })?;
        Ok((index, *probability))
    });
    let embedded = page.embedded.iter().map(|embedded| {
        let (path, cached) = match embedded {
            FileEmbedded::Path(path) => (path, 0.0),
            FileEmbedded::Full(full) => (&full.path, full.cached),
        };
        let template: PathTemplate = path.parse()?;
        if template.constant().is_none() || !(0.0..=1.0).contains(&cached) {
            return Err(format!("page {name}: embedded objects have fixed paths, and cached from 0 to 1"));
        }
        Ok(Embedded { path: path.clone(), cached, bytes: None })
    });
    Ok(Page {
        name: name.clone(),
        source,
        next: next.collect::<Result<_, String>>()?,
        embedded: embedded.collect::<Result<_, String>>()?,
        check: page.ends.clone().map_or(Check::Status, Check::Ends),
        judge: match page.judge {
            Some(FileJudge::Rate) => Judge::Rate,
            Some(FileJudge::Time) | None => Judge::Time,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = r#"
        name = "shop"
        think = "exp:5s:75s"
        connections = 2
        receive_rate = 100000
        keep_alive = { share = 0.7, requests = [5, 15] }
        [[page]]
        name = "home"
        path = "/index.html"
        next = { item = 0.6 }
        embedded = ["/style.css", { path = "/logo.svg", cached = 0.8 }]
        [[page]]
        name = "item"
        path = "/item.php?id={0..999}"
        next = { home = 0.2, item = 0.3 }
        ends = "</html>\n"
        [[page]]
        name = "get"
        files = { set = "webstone", directories = 1 }
        judge = "rate"
    "#;

    #[test]
    fn a_workload_is_read() {
        let model = Model::from_toml(SHOP).unwrap();
        assert_eq!((model.pages.len(), model.connections), (3, 2));
        assert_eq!(model.pages[0].next, [(1, 0.6)]);
        assert_eq!(model.pages[0].embedded[1].cached, 0.8);
        assert_eq!(model.pages[1].check, Check::Ends("</html>\n".into()));
        assert_eq!(model.pages[2].judge, Judge::Rate);
        // home: 1 + 0.2 item; item: 0.6 home + 0.3 item.
        let visits = model.visits();
        assert!((visits[0] - 0.7 / 0.58).abs() < 1e-9, "{visits:?}");
    }

    #[test]
    fn wrong_workload_is_refused_with_reason() {
        let cases = [
            ("think = \"exp", "thonk = \"exp", "thonk"),
            ("item = 0.6", "itme = 0.6", "there is no page itme"),
            ("item = 0.3", "item = 0.9", "add up to 1.1"),
            ("item = 0.6", "home = 1.0", "never end"),
            ("0.8 }", "8 }", "cached from 0 to 1"),
            ("/index.html", "index.html", "begin with /"),
            ("requests = [5, 15]", "requests = [15, 5]", "fewest, most"),
            ("connections = 2", "connections = 0", "from 1 to 64"),
            ("webstone", "other", "no file set"),
            ("receive_rate = 100000", "receive_rate = 0", "leave the key out"),
            ("connections = 2", "connections = 2\ntimeout = \"0s\"", "timeout = \"0s\": a time above"),
            ("connections = 2", "connections = 2\ntimeout = \"soon\"", "timeout = \"soon\""),
            ("name = \"get\"", "name = \"home\"", "two pages are named home"),
        ];
        for (right, wrong, said) in cases {
            let error = Model::from_toml(&SHOP.replace(right, wrong)).unwrap_err().to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
