//! The cost of a request over a kept connection, and of a connection with its handshake.

use super::injector::{Handshakes, TlsLoad};
use super::keys::KeyKind;
use super::servers::TlsServer;
use super::{TlsBench, push, wrong_load};
use crate::BenchResult;
use crate::measure::CpuTime;
use crate::network::Spread;
use crate::points::Points;

/// The served files with their sizes.
pub(super) const FILES: [(&str, usize); 2] = [("1k.html", 1024), ("1m.html", 1024 * 1024)];

/// Connections of every run, the same number as in the benches of servers.
pub(super) const CONNECTIONS: usize = 64;
/// And of a smoke run: so few that all handshakes end within the run.
pub(super) const CONNECTIONS_SMOKE: usize = 4;

/// The work of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsWork {
    /// A file of 1 KB over kept connections.
    Small,
    /// A file of 1 MB over kept connections.
    Large,
    /// A connection with a full handshake for each file of 1 KB.
    Full(KeyKind),
    /// The same with a resumed session.
    Resumed,
}

impl TlsWork {
    /// Every work, in the order of the tables.
    pub(super) const ALL: [Self; 5] =
        [Self::Small, Self::Large, Self::Full(KeyKind::Ecdsa), Self::Full(KeyKind::Rsa), Self::Resumed];

    /// The name in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Small => "1k",
            Self::Large => "1m",
            Self::Full(KeyKind::Ecdsa) => "full, P-256",
            Self::Full(KeyKind::Rsa) => "full, RSA-2048",
            Self::Resumed => "resumed",
        }
    }

    /// The most that Vermeil may cost, relative to nginx.
    pub(super) fn goal(self) -> f64 {
        match self {
            Self::Small => 0.85,
            Self::Large | Self::Full(_) => 1.0,
            Self::Resumed => 0.9,
        }
    }

    fn key(self) -> KeyKind {
        match self {
            Self::Full(kind) => kind,
            Self::Small | Self::Large | Self::Resumed => KeyKind::Ecdsa,
        }
    }

    fn load(self, bench: &TlsBench<'_>) -> TlsLoad {
        let (file, handshakes) = match self {
            Self::Small => (FILES[0], Handshakes::Once),
            Self::Large => (FILES[1], Handshakes::Once),
            Self::Full(_) => (FILES[0], Handshakes::Full),
            Self::Resumed => (FILES[0], Handshakes::Resumed),
        };
        TlsLoad { file, handshakes, connections: bench.connections(), duration: bench.options.duration }
    }
}

/// Runs all work on all servers.
pub(super) fn run(bench: &TlsBench<'_>, points: &mut Points) -> BenchResult<()> {
    for work in TlsWork::ALL {
        bench.rounds(&bench.servers, |server| sample(bench, work, server, points))?;
    }
    Ok(())
}

fn sample(bench: &TlsBench<'_>, work: TlsWork, server: TlsServer, points: &mut Points) -> BenchResult<()> {
    let started = server.start(bench, work.key(), Spread::OneCpu)?;
    let load = work.load(bench);
    load.run(bench, server, started.address).map_err(|problem| wrong_load(server, problem.to_string()))?;
    let before = CpuTime::of_group(started.process.group())?;
    let record = load
        .run(bench, server, started.address)
        .map_err(|problem| wrong_load(server, problem.to_string()))?;
    let spent = CpuTime::of_group(started.process.group())? - before;
    let cpu_us = spent.run.as_secs_f64() * 1e6 / record.good as f64;
    let mut push = |metric, value| push(points, work.name(), server, metric, value);
    push(("cpu_us", "us"), cpu_us);
    push(("per_s", "1/s"), record.rate);
    let (full, resumed) = record.handshakes;
    push(("resumed", "ratio"), resumed as f64 / (full + resumed).max(1) as f64);
    if let Some(p99) = record.response.percentile(99.0) {
        push(("p99_us", "us"), p99.as_secs_f64() * 1e6);
    }
    eprintln!("{:<15} {:<8} {cpu_us:>8.1} us  {:>8.0} a second", work.name(), server.name(), record.rate);
    started.process.stop()
}
