//! Requests over kept connections on all cpus, alone and beside the handshakes of other clients.
//!
//! Requests arrive at a steady rate, independently of answers, so a request that waits behind a
//! handshake counts with its whole wait. The loads share the cpus with the server. The measured
//! clients run at once, and the others with little weight ([`ClientPriority`]), so the times are
//! those of the server and not of the clients.
//!
//! All servers of a round are started together and loaded in short turns, and each turn has
//! percentiles of its own. So an interruption of the whole machine spoils a turn and not the
//! median.

use std::process::Command;
use std::time::Duration;

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
use crate::stats::Summary;

/// Requests a second: a small part of two cpus, so that waits come from handshakes and not from
/// other requests.
pub(super) const REQUESTS_PER_S: u32 = 2_000;
/// Handshakes a second: the rate of the project's goal.
pub(super) const HANDSHAKES_PER_S: u32 = 200;
/// Turns of each row in a round.
pub(super) const TURNS: usize = 8;
/// The time before a turn counts. The measured clients begin with a burst of handshakes, after
/// which Vermeil runs the steps of handshakes on the serving cores for a second.
const WARM_UP: Duration = Duration::from_millis(1500);
/// A turn's part of the length of a run: some thousand requests, enough for a percentile.
const TURN_PART: u32 = 2;
/// A turn of the smoke size, as a multiple: the least for a percentile.
const TURN_SMOKE: u32 = 20;

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
    // All in each turn, so that the quotient of two rows is taken within a turn.
    let mut runs: Vec<_> =
        Besides::ALL.iter().flat_map(|&besides| servers.iter().map(move |&of| (besides, of))).collect();
    for _ in 0..bench.options.rounds {
        let mut started = Vec::new();
        for &server in &servers {
            for kind in [KeyKind::Ecdsa, KeyKind::Rsa] {
                started.push((server, kind, server.start(bench, kind, Spread::AllCpus)?));
            }
        }
        for _ in 0..turns(bench) {
            for &(besides, server) in &runs {
                bench.stop.check()?;
                let with = started.iter().find(|(of, kind, _)| (*of, *kind) == (server, besides.key()));
                if let Some((_, _, with)) = with {
                    sample(bench, (besides, server), with, points)?;
                }
            }
            runs.rotate_left(1);
        }
        started.into_iter().try_for_each(|(_, _, server)| server.process.stop())?;
    }
    Ok(())
}

/// The 99th percentile of the times of requests beside handshakes with an RSA key, in microseconds:
/// the median of the turns.
pub(super) fn p99_us(bench: &TlsBench<'_>) -> BenchResult<f64> {
    let (besides, server) = (Besides::Handshakes(KeyKind::Rsa), TlsServer::Vermeil);
    let started = server.start(bench, besides.key(), Spread::AllCpus)?;
    let mut times = Vec::new();
    for _ in 0..turns(bench) {
        let (requests, _) = measured(bench, (besides, server), &started)?;
        times.extend(requests.response.percentile(99.0).map(|time| time.as_secs_f64() * 1e6));
    }
    started.process.stop()?;
    let p99 = Summary::of(&times).map(|summary| summary.median);
    p99.ok_or_else(|| wrong_load(server, "no request was measured".into()))
}

fn turns(bench: &TlsBench<'_>) -> usize {
    if bench.is_full() { TURNS } else { 1 }
}

/// One turn.
fn sample(
    bench: &TlsBench<'_>,
    (besides, server): (Besides, TlsServer),
    started: &StartedServer,
    points: &mut Points,
) -> BenchResult<()> {
    let (requests, handshakes_per_s) = measured(bench, (besides, server), started)?;
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

/// Measures requests to a started server. Returns their record, and the handshakes in a second.
fn measured(
    bench: &TlsBench<'_>,
    (besides, server): (Besides, TlsServer),
    started: &StartedServer,
) -> BenchResult<(Record, Option<f64>)> {
    let running = match besides {
        Besides::Alone => RunningHandshakes::None,
        Besides::Handshakes(_) => {
            RunningHandshakes::Steady(OtherClients::begin(&mut handshakes(bench, started))?)
        }
        Besides::Flood => RunningHandshakes::Flood(HandshakeFlood::begin(started.address, FLOOD_CLIENTS)?),
    };
    let requests = checked(server, record_of(&mut requests(bench, started))?)?;
    Ok((requests, running.end(server)?))
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
    let duration = bench.options.duration;
    let (lasts, warm_up) = match bench.is_full() {
        true => (duration / TURN_PART, WARM_UP),
        false => (duration * TURN_SMOKE, duration),
    };
    let mut command = load_with(bench, bench.cpus.client, ClientPriority::Measured);
    command.args(["-c", &bench.connections().to_string(), "--rate", &REQUESTS_PER_S.to_string()]);
    command.args(["--warm-up", &format!("{}ms", warm_up.as_millis())]);
    command.args(["-d", &format!("{}ms", lasts.as_millis())]);
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
