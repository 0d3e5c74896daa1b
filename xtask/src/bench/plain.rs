//! The benches that need only options: built, run, shown and kept in the same way.

use std::path::Path;
use std::time::Duration;

use vermeil_bench::options::BenchOptions;
use vermeil_bench::report::BenchReport;
use vermeil_bench::size::BenchSize;
use vermeil_bench::stop::StopFlag;
use vermeil_bench::{
    BenchResult as Measured, accept, app, balancers, cgi, compression, findmax, knet, load, mechanisms,
    metrics, overload, php, rates, sim, tail, tail::loading, tls,
};

use super::{BenchBinaries, BenchName, BuildProfile, SMOKE_DURATION, build, kept};
use crate::error::Result;
use crate::workspace::Workspace;

/// For a bench whose runs have a fixed length.
const ITS_OWN: Duration = Duration::ZERO;

/// A bench, and its default options.
pub(super) struct Plain {
    rounds: usize,
    duration: Duration,
    run: fn(&BenchOptions, &StopFlag) -> Measured<BenchReport>,
    /// `None` if this machine cannot run the bench; the bench has printed the reason.
    smoke: fn(&BenchOptions, &StopFlag) -> Measured<Option<BenchReport>>,
}

impl Plain {
    /// The bench called `name`, if the bench is in this list.
    pub(super) fn of(name: BenchName) -> Option<Self> {
        let (rounds, duration, run, smoke): (_, _, fn(&_, &_) -> _, fn(&_, &_) -> _) = match name {
            BenchName::Serve | BenchName::Runtime | BenchName::Pgo => return None,
            BenchName::Accept => {
                (accept::ROUNDS, accept::DURATION, accept::run, |o, s| accept::smoke(o, s).map(Some))
            }
            BenchName::App => (app::ROUNDS, app::DURATION, app::run, |o, s| app::smoke(o, s).map(Some)),
            BenchName::Cgi => (cgi::ROUNDS, cgi::DURATION, cgi::run, |o, s| cgi::smoke(o, s).map(Some)),
            BenchName::Php => (php::ROUNDS, php::DURATION, php::run, |o, s| php::smoke(o, s).map(Some)),
            BenchName::Tail => (tail::ROUNDS, tail::DURATION, tail::run, |o, s| tail::smoke(o, s).map(Some)),
            BenchName::Hosts => {
                (loading::ROUNDS, loading::DURATION, loading::run, |o, s| loading::smoke(o, s).map(Some))
            }
            BenchName::Compression => {
                (compression::ROUNDS, compression::DURATION, compression::run, |o, s| {
                    compression::smoke(o, s).map(Some)
                })
            }
            BenchName::Rates => {
                (rates::ROUNDS, rates::DURATION, rates::run, |o, s| rates::smoke(o, s).map(Some))
            }
            BenchName::Metrics => {
                (metrics::ROUNDS, metrics::DURATION, metrics::run, |o, s| metrics::smoke(o, s).map(Some))
            }
            BenchName::Mechanisms => (mechanisms::ROUNDS, mechanisms::DURATION, mechanisms::run, |o, s| {
                mechanisms::smoke(o, s).map(Some)
            }),
            BenchName::Tls => (tls::ROUNDS, tls::DURATION, tls::run, tls::smoke),
            BenchName::Overload => {
                (overload::ROUNDS, ITS_OWN, overload::run, |o, s| overload::smoke(o, s).map(Some))
            }
            BenchName::Knet => (knet::ROUNDS, ITS_OWN, knet::run, knet::smoke),
            BenchName::Balancers => (balancers::ROUNDS, ITS_OWN, balancers::run, balancers::smoke),
            BenchName::Sim => (sim::ROUNDS, ITS_OWN, sim::run, |o, s| sim::smoke(o, s).map(Some)),
            BenchName::Load => (load::ROUNDS, load::DURATION, load::run, |o, s| load::smoke(o, s).map(Some)),
            BenchName::FindMax => (1, findmax::DURATION, findmax::run, |o, s| findmax::smoke(o, s).map(Some)),
        };
        Some(Self { rounds, duration, run, smoke })
    }

    /// The full size, with stored results.
    pub(super) fn full(
        &self,
        rounds: Option<usize>,
        duration: Option<Duration>,
        binaries: &BenchBinaries,
        workspace: &Workspace,
    ) -> Result<()> {
        let options = BenchOptions {
            size: BenchSize::Full,
            rounds: rounds.unwrap_or(self.rounds),
            duration: duration.unwrap_or(self.duration),
            ..smoke_options(workspace, &binaries.folder)
        };
        let report = (self.run)(&options, &StopFlag::on_signals()?)?.with_build(binaries.build);
        println!("\n{}", report.to_text());
        let outputs = report.write(&workspace.root)?;
        kept(&outputs.rows, &outputs.page);
        Ok(())
    }

    /// The smoke size.
    pub(super) fn smoke(&self, workspace: &Workspace) -> Result<()> {
        let options = smoke_options(workspace, &build(workspace, BuildProfile::Dev)?);
        if let Some(report) = (self.smoke)(&options, &StopFlag::on_signals()?)? {
            println!("\n{}", report.to_text());
        }
        Ok(())
    }
}

/// The options of the smoke size, with the binaries in `folder`.
fn smoke_options(workspace: &Workspace, folder: &Path) -> BenchOptions {
    BenchOptions {
        size: BenchSize::Smoke,
        rounds: 1,
        duration: SMOKE_DURATION,
        vermeil: folder.join("vermeil"),
        repository: workspace.root.clone(),
    }
}
