//! The shipped workloads.
//!
//! `support` follows the published parameters of SPECweb2005 Support: transitions, think times,
//! mixes, file classes. Results with this workload may not be called SPECweb. `specweb96` and
//! `webstone` draw single files of those classes. `single` requests one path over and over, with a
//! connection each time, as sclient (Banga and Druschel, USITS 1997). Tested here against the
//! published shares.

use std::time::Duration;

use super::model::{Check, Embedded, Judge, KeepAlive, Model, Page, PageSource};
use crate::files::{FileSet, Manifest, SetKind, SetPages, pages};
use crate::pace::Think;

/// A shipped workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// A support site: pages, then a paced download.
    Support,
    /// Files of SPECweb96's sizes, five requests on a connection (as in SPECweb99).
    Specweb96,
    /// Files of WebStone's sizes, a connection for each.
    Webstone,
    /// One path, a connection for each request.
    Single,
}

/// Transitions between the pages of the support site and the download, which is the last.
const NEXT: [&[(usize, f64)]; 7] = [
    &[(1, 0.25), (2, 0.75)],
    &[(3, 0.50), (1, 0.50)],
    &[(3, 0.75), (1, 0.25)],
    &[(4, 0.80), (2, 0.20)],
    &[(5, 0.60), (3, 0.40)],
    &[(6, 0.50), (4, 0.20), (3, 0.05), (2, 0.05), (1, 0.10), (0, 0.10)],
    &[],
];

/// The random parts of the paths of the support site's pages.
const QUERIES: [&str; 6] = [
    "",
    "?q=word{0..999}",
    "?category={0..9}",
    "?product={0..999}",
    "?product={0..999}&system={0..9}",
    "?file={0..9999}",
];

impl Builtin {
    /// All workloads.
    pub const ALL: [Self; 4] = [Self::Support, Self::Specweb96, Self::Webstone, Self::Single];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Support => "support",
            Self::Specweb96 => "specweb96",
            Self::Webstone => "webstone",
            Self::Single => "single",
        }
    }

    /// The workload of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|builtin| builtin.name() == name)
    }

    /// The file set that the workload needs on the server.
    pub fn files(self) -> Option<SetKind> {
        match self {
            Self::Support => Some(SetKind::Support),
            Self::Specweb96 => Some(SetKind::Specweb96),
            Self::Webstone => Some(SetKind::Webstone),
            Self::Single => None,
        }
    }

    /// The model, for the file set that `manifest` describes. `path` is the path of `single`.
    ///
    /// # Errors
    /// The server has no file set, or another file set.
    pub fn model(self, manifest: Option<&Manifest>, path: &str) -> Result<Model, String> {
        let set = |kind: SetKind| match manifest {
            Some(manifest) if manifest.files == kind => Ok(FileSet::new(kind, manifest.directories)),
            _ => Err(format!(
                "the server has no file set {kind}: write one with `vermeil load files {kind} --scale N DIR` and serve DIR"
            )),
        };
        Ok(match self {
            Self::Support => {
                let files = set(SetKind::Support)?;
                let suffix = match manifest.map_or(SetPages::None, |manifest| manifest.pages) {
                    SetPages::Php => "php",
                    SetPages::Static => "html",
                    SetPages::None => {
                        return Err("the file set on the server has no pages: write it anew".to_owned());
                    }
                };
                support(files, suffix)
            }
            Self::Specweb96 => {
                let keep_alive = KeepAlive { share: 1.0, requests: (5, 5) };
                alone(self, PageSource::File(set(SetKind::Specweb96)?), keep_alive)
            }
            Self::Webstone => alone(self, PageSource::File(set(SetKind::Webstone)?), KeepAlive::NEVER),
            Self::Single => alone(self, PageSource::Path(path.parse()?), KeepAlive::NEVER),
        })
    }
}

/// A model of single requests without think time.
fn alone(builtin: Builtin, source: PageSource, keep_alive: KeepAlive) -> Model {
    Model {
        name: builtin.name().to_owned(),
        pages: vec![Model::single("file", source, Judge::Time)],
        think: Think::NONE,
        connections: 1,
        receive_rate: None,
        keep_alive,
        timeout: Duration::from_secs(60),
    }
}

fn support(files: FileSet, suffix: &str) -> Model {
    let page = |(index, page): (usize, &pages::SetPage)| {
        let path = format!("/support/{}.{suffix}{}", page.name, QUERIES[index]);
        Page {
            name: page.name.to_owned(),
            source: PageSource::Path(path.parse().expect("a path that is tested")),
            next: NEXT[index].to_vec(),
            embedded: pages::SMALL[page.files.clone()]
                .iter()
                .map(|small| Embedded {
                    path: small.path.to_owned(),
                    cached: small.cached,
                    bytes: Some(small.bytes),
                })
                .collect(),
            check: Check::Ends(pages::end_mark(page.name)),
            judge: Judge::Time,
        }
    };
    let mut all: Vec<Page> = pages::PAGES.iter().enumerate().map(page).collect();
    all.push(Model::single("download", PageSource::File(files), Judge::Rate));
    Model {
        name: "support".to_owned(),
        pages: all,
        think: Think::Exponential { mean: Duration::from_secs(5), max: Some(Duration::from_secs(75)) },
        connections: 2,
        receive_rate: Some(100_000),
        keep_alive: KeepAlive { share: 0.7, requests: (5, 15) },
        timeout: Duration::from_secs(60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(builtin: Builtin) -> Model {
        let manifest = builtin.files().map(|files| Manifest { files, directories: 3, pages: SetPages::Php });
        let model = builtin.model(manifest.as_ref(), "/x").unwrap();
        model.check().unwrap();
        model
    }

    /// The published expected shares of pages, in percent.
    #[test]
    fn page_shares_are_the_published_ones() {
        let published = [8.1072, 12.6125, 11.7088, 24.7746, 22.5237, 13.5135, 6.7597];
        let support = model(Builtin::Support);
        for (share, published) in support.shares().iter().zip(published) {
            assert!((share * 100.0 - published).abs() < 0.005, "{share} {published}");
        }
        assert!((support.pages_per_session() - 14.8).abs() < 1e-6);
    }

    #[test]
    fn a_session_has_as_many_requests_and_bytes_as_published() {
        let support = model(Builtin::Support);
        assert!((support.requests_per_session() - 293.5).abs() < 1.5, "{}", support.requests_per_session());
        let visits = support.visits();
        let html: f64 =
            pages::PAGES.iter().zip(&visits).map(|(page, visits)| page.padding_bytes as f64 * visits).sum();
        assert!((html / 878_140.0 - 1.0).abs() < 0.01, "{html}");
        let (mut cached, mut small) = (0.0, 0.0);
        for (page, visits) in support.pages.iter().zip(&visits) {
            for embedded in &page.embedded {
                cached += visits * embedded.cached;
                small += visits * (1.0 - embedded.cached) * embedded.bytes.unwrap_or(0) as f64;
            }
        }
        assert!((cached / 188.7 - 1.0).abs() < 0.06, "{cached} answers are 304");
        assert!((small / 58_386.0 - 1.0).abs() < 0.05, "{small} bytes of small files");
    }

    #[test]
    fn every_workload_makes_sense() {
        for builtin in Builtin::ALL {
            let model = model(builtin);
            assert_eq!(Builtin::named(&model.name), Some(builtin));
        }
        let keep_alive = model(Builtin::Support).keep_alive;
        let kept = keep_alive.share_of_connections();
        let share = kept * 10.0 / (kept * 10.0 + (1.0 - kept));
        assert!((share - 0.7).abs() < 1e-9, "of the requests go over kept connections");
    }

    #[test]
    fn missing_file_set_is_named_with_cure() {
        let said = Builtin::Webstone.model(None, "/").unwrap_err();
        assert!(said.contains("vermeil load files webstone"), "{said}");
        assert!(Builtin::Single.model(None, "nopath").is_err());
    }
}
