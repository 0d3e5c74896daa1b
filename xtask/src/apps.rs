//! `cargo xtask conformance apps`: real applications behind Vermeil, used through real clients.
//!
//! Each application is unpacked from Debian's packages into a temporary folder, with the
//! configuration that `docs/applications.md` shows. curl installs and feeds the application, and
//! Chromium reads and writes it. Each application runs twice: with Vermeil's own HTTPS, and behind
//! nginx that ends TLS. An application whose packages are not available is skipped with a notice.
//! Leaves pictures of the pages behind.

mod client;
mod database;
mod dokuwiki;
mod gitweb;
mod icinga;
mod mediawiki;
mod page_config;
mod site;
mod symfony;
mod sympa;
mod unpacked;
mod wordpress;

use std::path::PathBuf;

use vermeil_bench::peers::find_program;

use crate::error::{Error, Result};
use crate::packages;
use crate::steps::{TestTally, run_command};
use crate::workspace::{Workspace, cargo};
use site::{AppTools, SiteFront};

/// The arguments of `conformance apps`.
#[derive(Debug, clap::Args)]
pub(crate) struct AppsArgs {
    /// Only these applications; without a name all
    names: Vec<AppName>,
}

/// A real application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum AppName {
    /// A wiki with one program for each page.
    Dokuwiki,
    /// A blog: pretty addresses, uploads, the block editor.
    Wordpress,
    /// A wiki: short addresses, uploads.
    Mediawiki,
    /// Pages about repositories by a CGI program.
    Gitweb,
    /// A monitor, whose front controller answers all but pictures.
    Icinga,
    /// An application on a framework, with a front controller.
    Symfony,
    /// Mailing lists by a CGI program.
    Sympa,
}

const ALL: [AppName; 7] = [
    AppName::Dokuwiki,
    AppName::Wordpress,
    AppName::Mediawiki,
    AppName::Gitweb,
    AppName::Icinga,
    AppName::Symfony,
    AppName::Sympa,
];

/// Runs the command.
pub(crate) fn run(args: &AppsArgs) -> Result<()> {
    let mut tally = TestTally::default();
    let names = if args.names.is_empty() { &ALL[..] } else { &args.names };
    let result = run_apps(names, &mut tally);
    println!("{} passed, {} failed", tally.passed, tally.failed);
    result
}

/// Runs all applications as a step of `cargo xtask test --all`.
pub(crate) fn run_all(tally: &mut TestTally) -> Result<()> {
    run_apps(&ALL, tally)
}

fn run_apps(names: &[AppName], tally: &mut TestTally) -> Result<()> {
    let workspace = Workspace::load()?;
    let chromium = match prepare() {
        Ok(chromium) => chromium,
        Err(why) => {
            println!("\n******** SKIPPED: a program that the applications need is missing: {why} ********\n");
            return Ok(());
        }
    };
    run_command(cargo().args(["build", "--package", "vermeil-cli"]).current_dir(&workspace.root))?;
    let tools = AppTools {
        vermeil: workspace.target.join("debug/vermeil"),
        root: workspace.root,
        pictures: workspace.target,
        chromium,
    };
    let mut failures = Vec::new();
    for &name in names {
        for (title, outcome) in outcomes(name, &tools) {
            match outcome {
                Ok(()) => {
                    println!("{title}: ok");
                    tally.passed += 1;
                }
                Err(why) => {
                    println!("{title}: FAILED");
                    tally.failed += 1;
                    failures.push(format!("{title}: {why}"));
                }
            }
        }
    }
    Error::unless_empty(failures)
}

/// The browser, after the installation of the programs that the applications need.
fn prepare() -> Result<PathBuf> {
    packages::install_apps()?;
    find_program("chromium").ok_or_else(|| Error::form("chromium", "is not here"))
}

/// Uses an application in each of its setups. An application without packages has no outcome.
fn outcomes(name: AppName, tools: &AppTools) -> Vec<(String, Result<()>)> {
    let used = match name {
        AppName::Dokuwiki => {
            dokuwiki::prepare().map(|wiki| vec![("DokuWiki".into(), dokuwiki::use_it(tools, &wiki))])
        }
        AppName::Wordpress => wordpress::prepare()
            .map(|unpacked| behind_both("WordPress", |front| wordpress::use_it(tools, &unpacked, front))),
        AppName::Mediawiki => mediawiki::prepare()
            .map(|unpacked| behind_both("MediaWiki", |front| mediawiki::use_it(tools, &unpacked, front))),
        AppName::Gitweb => {
            gitweb::prepare().map(|()| behind_both("gitweb", |front| gitweb::use_it(tools, front)))
        }
        AppName::Icinga => icinga::prepare()
            .map(|unpacked| behind_both("Icinga Web 2", |front| icinga::use_it(tools, &unpacked, front))),
        AppName::Symfony => symfony::prepare()
            .map(|unpacked| behind_both("Symfony", |front| symfony::use_it(tools, &unpacked, front))),
        AppName::Sympa => sympa::prepare()
            .map(|unpacked| behind_both("Sympa", |front| sympa::use_it(tools, &unpacked, front))),
    };
    used.unwrap_or_else(|why| {
        println!("\n******** SKIPPED: the packages of {name:?} cannot be had: {why} ********\n");
        Vec::new()
    })
}

/// Uses an application with TLS at each place.
fn behind_both(name: &str, use_it: impl Fn(SiteFront) -> Result<()>) -> Vec<(String, Result<()>)> {
    let fronts = SiteFront::ALL.iter();
    fronts.map(|&front| (format!("{name}, {}", front.title()), use_it(front))).collect()
}
