//! Requests over kept connections on all cpus, alone and beside the handshakes of other clients.
//!
//! Requests arrive at a steady rate, independently of answers, so a request that waits behind a
//! handshake counts with its whole wait. The loads share the cpus with the server. The measured
//! clients run at once, and the others with little weight ([`ClientPriority`]), so the times are
//! those of the server and not of the clients.

use std::process::Command;

use vermeil_load::report::Record;

use super::cost::FILES;
use super::flood::{FLOOD_CLIENTS, HandshakeFlood};
use super::injector::{ClientPriority, load_with, url};
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
    /// As many handshakes as the server answers, with a key on P-256.
    Flood,
}

/// The handshakes while they are made.
enum RunningHandshakes {
    None,
    Steady(OtherClients),
    Flood(HandshakeFlood),
}

impl Besides {
    /// Every mode, in the order of the tables.
    pub(super) const ALL: [Self; 4] =
        [Self::Alone, Self::Handshakes(KeyKind::Ecdsa), Self::Handshakes(KeyKind::Rsa), Self::Flood];

    /// The name in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Handshakes(KeyKind::Ecdsa) => "beside P-256",
            Self::Handshakes(KeyKind::Rsa) => "beside RSA-2048",
            Self::Flood => "beside a flood",
        }
    }

    /// The largest p99 that the project wants, as a part of nginx's.
    pub(super) fn goal_of_nginx(self) -> Option<f64> {
        matches!(self, Self::Handshakes(_)).then_some(0.5)
    }

    /// The largest p99 that the project wants, as a multiple of the p99 without handshakes.
    pub(super) fn goal_of_alone(self) -> Option<f64> {
        (self == Self::Flood).then_some(1.5)
    }

    fn key(self) -> KeyKind {
        match self {
            Self::Alone | Self::Flood => KeyKind::Ecdsa,
            Self::Handshakes(kind) => kind,
        }
    }
}

/// Measures Vermeil and nginx.
pub(super) fn run(bench: &TlsBench<'_>, points: &mut Points) -> BenchResult<()> {
    let compared = |server: &TlsServer| matches!(server, TlsServer::Vermeil | TlsServer::Nginx);
    let servers: Vec<_> = bench.servers.iter().copied().filter(compared).collect();
    // All in each round, so that the quotient of two rows is taken within a round.
    let runs: Vec<_> =
        Besides::ALL.iter().flat_map(|&besides| servers.iter().map(move |&of| (besides, of))).collect();
    bench.rounds(&runs, |(besides, server)| sample(bench, besides, server, points))
}

/// The 99th percentile of the times of requests beside handshakes with an RSA key, in microseconds.
pub(super) fn p99_us(bench: &TlsBench<'_>) -> BenchResult<f64> {
    let (besides, server) = (Besides::Handshakes(KeyKind::Rsa), TlsServer::Vermeil);
    let (requests, _) = measured(bench, besides, server)?;
    let p99 = requests.response.percentile(99.0);
    let p99 = p99.ok_or_else(|| wrong_load(server, "no request was measured".into()))?;
    Ok(p99.as_secs_f64() * 1e6)
}

fn sample(bench: &TlsBench<'_>, besides: Besides, server: TlsServer, points: &mut Points) -> BenchResult<()> {
    let (requests, handshakes_per_s) = measured(bench, besides, server)?;
    let mut push = |metric, value| push(points, besides.name(), server, metric, value);
    let mut said = format!("{:<15} {:<8}", besides.name(), server.name());
    for (metric, percent) in [("p50_us", 50.0), ("p99_us", 99.0), ("p99_9_us", 99.9)] {
        if let Some(time) = requests.response.percentile(percent) {
            let us = time.as_secs_f64() * 1e6;
            said += &format!("  p{percent} {us:.0} us");
            push((metric, "us"), us);
        }
    }
    if let Some(per_s) = handshakes_per_s {
        said += &format!("  {per_s:.0} handshakes a second");
        push(("handshakes_per_s", "1/s"), per_s);
    }
    eprintln!("{said}");
    Ok(())
}

/// Starts the server and measures requests. Returns their record, and the handshakes in a second.
fn measured(bench: &TlsBench<'_>, besides: Besides, server: TlsServer) -> BenchResult<(Record, Option<f64>)> {
    let started = server.start(bench, besides.key(), Spread::AllCpus)?;
    let running = match besides {
        Besides::Alone => RunningHandshakes::None,
        Besides::Handshakes(_) => {
            RunningHandshakes::Steady(OtherClients::begin(&mut handshakes(bench, &started))?)
        }
        Besides::Flood => RunningHandshakes::Flood(HandshakeFlood::begin(started.address, FLOOD_CLIENTS)?),
    };
    let requests = checked(server, record_of(&mut requests(bench, &started))?)?;
    let handshakes_per_s = running.end(server)?;
    started.process.stop()?;
    Ok((requests, handshakes_per_s))
}

impl RunningHandshakes {
    /// Ends the handshakes. Returns their number in a second.
    fn end(self, server: TlsServer) -> BenchResult<Option<f64>> {
        match self {
            Self::None => Ok(None),
            Self::Steady(clients) => {
                let record = checked(server, clients.end()?)?;
                let (full, _) = record.handshakes;
                Ok(Some(full as f64 / (record.window_ns as f64 / 1e9)))
            }
            Self::Flood(flood) => {
                let count = flood.end();
                // A server may refuse a part of a flood, but not all of it.
                if count.answered == 0 {
                    return Err(wrong_load(server, format!("the flood got no answer: {count:?}")));
                }
                Ok(Some(count.answered as f64 / count.lasted.as_secs_f64()))
            }
        }
    }
}

/// The record, if no request failed.
fn checked(server: TlsServer, record: Record) -> BenchResult<Record> {
    if record.failed > 0 || record.good == 0 {
        return Err(wrong_load(server, format!("{} failed: {:?}", record.failed, record.faults)));
    }
    Ok(record)
}

fn requests(bench: &TlsBench<'_>, started: &StartedServer) -> Command {
    let lengths = if bench.is_full() { LENGTHS } else { LENGTHS_SMOKE };
    let lasts_ms = (bench.options.duration * lengths).as_millis();
    let mut command = load_with(bench, bench.cpus.client, ClientPriority::Measured);
    command.args(["-c", &bench.connections().to_string(), "--rate", &REQUESTS_PER_S.to_string()]);
    command.args(["--warm-up", &format!("{}ms", lasts_ms / 4), "-d", &format!("{lasts_ms}ms")]);
    command.arg(url(started.address, FILES[0].0));
    command
}

/// Clients that make full handshakes at a steady rate.
fn handshakes(bench: &TlsBench<'_>, started: &StartedServer) -> Command {
    let mut command = load_with(bench, bench.cpus.server, ClientPriority::Leftover);
    command.args(["--no-keepalive", "--rate", &format!("constant:{HANDSHAKES_PER_S}"), "-d", "10m"]);
    command.arg(url(started.address, FILES[0].0));
    command
}
