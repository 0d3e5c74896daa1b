//! Requests over kept connections on all cpus, alone and beside the handshakes of other clients.
//!
//! Requests arrive at a steady rate, independently of answers, so a request that waits behind a
//! handshake counts with its whole wait. The loads share the cpus with the server.

use std::process::Command;

use super::cost::FILES;
use super::injector::{load_on, url};
use super::keys::KeyKind;
use super::servers::{StartedServer, TlsServer};
use super::{TlsBench, push, wrong_load};
use crate::BenchResult;
use crate::load::steady::{OtherClients, record_of};
use crate::network::Spread;
use crate::points::Points;

/// Requests a second: a small part of two cpus, so that waits come from handshakes and not from
/// other requests.
pub(super) const REQUESTS_PER_S: u32 = 2_000;
/// Handshakes a second: the rate of the project's goal.
pub(super) const HANDSHAKES_PER_S: u32 = 200;
/// Rounds of the runs' length, because a percentile needs more samples than a mean.
const LENGTHS: u32 = 3;
/// The same in the smoke size: enough requests for a percentile.
const LENGTHS_SMOKE: u32 = 20;

/// The handshakes beside the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Besides {
    /// None.
    Alone,
    /// Full handshakes at a steady rate.
    Handshakes(KeyKind),
}

impl Besides {
    /// Every mode, in the order of the tables.
    const ALL: [Self; 3] = [Self::Alone, Self::Handshakes(KeyKind::Ecdsa), Self::Handshakes(KeyKind::Rsa)];

    /// The name in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Handshakes(KeyKind::Ecdsa) => "beside P-256",
            Self::Handshakes(KeyKind::Rsa) => "beside RSA-2048",
        }
    }

    fn key(self) -> KeyKind {
        match self {
            Self::Alone => KeyKind::Ecdsa,
            Self::Handshakes(kind) => kind,
        }
    }
}

/// Measures Vermeil and nginx.
pub(super) fn run(bench: &TlsBench<'_>, points: &mut Points) -> BenchResult<()> {
    let compared = |server: &TlsServer| matches!(server, TlsServer::Vermeil | TlsServer::Nginx);
    let servers: Vec<_> = bench.servers.iter().copied().filter(compared).collect();
    for besides in Besides::ALL {
        bench.rounds(&servers, |server| sample(bench, besides, server, points))?;
    }
    Ok(())
}

fn sample(bench: &TlsBench<'_>, besides: Besides, server: TlsServer, points: &mut Points) -> BenchResult<()> {
    let started = server.start(bench, besides.key(), Spread::AllCpus)?;
    let others = match besides {
        Besides::Alone => None,
        Besides::Handshakes(_) => Some(OtherClients::begin(&mut handshakes(bench, &started))?),
    };
    let requests = record_of(&mut requests(bench, &started))?;
    let handshakes = others.map(OtherClients::end).transpose()?;
    for record in [Some(&requests), handshakes.as_ref()].into_iter().flatten() {
        if record.failed > 0 || record.good == 0 {
            return Err(wrong_load(server, format!("{} failed: {:?}", record.failed, record.faults)));
        }
    }
    let mut push = |metric, value| push(points, besides.name(), server, metric, value);
    let mut said = format!("{:<15} {:<8}", besides.name(), server.name());
    for (metric, percent) in [("p50_us", 50.0), ("p99_us", 99.0), ("p99_9_us", 99.9)] {
        if let Some(time) = requests.response.percentile(percent) {
            let us = time.as_secs_f64() * 1e6;
            said += &format!("  p{percent} {us:.0} us");
            push((metric, "us"), us);
        }
    }
    if let Some(record) = handshakes {
        let (full, _) = record.handshakes;
        push(("handshakes_per_s", "1/s"), full as f64 / (record.window_ns as f64 / 1e9));
    }
    eprintln!("{said}");
    started.process.stop()
}

fn requests(bench: &TlsBench<'_>, started: &StartedServer) -> Command {
    let lengths = if bench.is_full() { LENGTHS } else { LENGTHS_SMOKE };
    let lasts_ms = (bench.options.duration * lengths).as_millis();
    let mut command = load_on(bench, bench.cpus.client);
    command.args(["-c", &bench.connections().to_string(), "--rate", &REQUESTS_PER_S.to_string()]);
    command.args(["--warm-up", &format!("{}ms", lasts_ms / 4), "-d", &format!("{lasts_ms}ms")]);
    command.arg(url(started.address, FILES[0].0));
    command
}

/// Clients that make full handshakes at a steady rate.
fn handshakes(bench: &TlsBench<'_>, started: &StartedServer) -> Command {
    let mut command = load_on(bench, bench.cpus.server);
    command.args(["--no-keepalive", "--rate", &format!("constant:{HANDSHAKES_PER_S}"), "-d", "10m"]);
    command.arg(url(started.address, FILES[0].0));
    command
}
