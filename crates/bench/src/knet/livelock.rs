//! The goodput of a web server beside a flood of unwanted packets, by the priority of receiving.
//!
//! One queue, polled on the server's cpu. Requests arrive in an open loop at a rate that the server
//! holds easily. Beside the requests, the other cpu sends more and more datagrams to a socket
//! without a reader. The flood is as fast as one cpu sends through sockets.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use super::bed::{Bed, KnetReceiving, Urgency};
use super::paths;
use crate::machine::BenchCpus;
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::points::{PointKey, Points};
use crate::site::BenchSite;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};

/// Requests per second, each on a new connection: a small part of a core's capacity, so that only
/// the flood can delay an answer.
const REQUESTS_PER_S: u32 = 1000;

/// Packets per second; the last value is more than one cpu sends.
const FLOODS: [u32; 5] = [0, 50_000, 100_000, 200_000, 1_000_000];

/// The interval at which the flood catches up with its rate.
const BURST: Duration = Duration::from_millis(1);

/// A datagram: with headers the smallest packet that a card sends.
const DATAGRAM: [u8; 18] = [0; 18];

/// A client's time-out for its answer.
const PATIENCE: &str = "1s";

/// Every urgency with every flood.
pub(super) fn round(
    options: &BenchOptions,
    cpus: BenchCpus,
    round: usize,
    points: &mut Points,
    stop: &StopFlag,
) -> BenchResult<()> {
    let site = BenchSite::new(&[("1k.txt", 1024)])?;
    let mut order = Urgency::ALL;
    order.rotate_left(round % Urgency::ALL.len());
    for urgency in order {
        let bed = Bed::new(KnetReceiving::Napi, cpus)?;
        bed.make_receiving(urgency)?;
        for &rate in floods(options.size) {
            stop.check()?;
            beside(options, cpus, &bed, &site, (urgency, rate), points)?;
        }
    }
    Ok(())
}

fn floods(size: BenchSize) -> &'static [u32] {
    match size {
        BenchSize::Full => &FLOODS,
        BenchSize::Smoke => &FLOODS[1..2],
    }
}

fn beside(
    options: &BenchOptions,
    cpus: BenchCpus,
    bed: &Bed,
    site: &BenchSite,
    (urgency, rate): (Urgency, u32),
    points: &mut Points,
) -> BenchResult<()> {
    let state = site.state_folder("vermeil")?;
    let mut command = bed.server.command(&options.vermeil);
    command.arg("serve").arg(site.root()).arg("--listen").arg(bed.address().to_string());
    command.args(["--log", "off", "--cores"]).arg(format!("{0}-{0}", cpus.server));
    command.arg("--control").arg(state.join("control"));
    let process = PeerProcess::start("vermeil", command, &state)?;
    process.wait_until_listening_for(&bed.client, bed.address())?;
    let flood = Flood { sink: bed.sink(), rate, cpu: cpus.client };
    // The socket has no reader: the kernel drops the datagrams that do not fit.
    let _sink =
        bed.server.enter(|| UdpSocket::bind(bed.sink()))?.map_err(BenchError::thing("open", "the sink"))?;
    let arguments = [
        "-c",
        "4000",
        "--no-keepalive",
        "--timeout",
        PATIENCE,
        "--rate",
        &format!("constant:{REQUESTS_PER_S}"),
        &format!("http://{}/1k.txt", bed.address()),
    ];
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let ends = AtomicBool::new(false);
    let (record, sent_per_s) = thread::scope(|scope| {
        let flood = scope.spawn(|| bed.client.enter(|| flood.run(&ends)));
        let record = paths::load(options, bed, site, super::lasts(options.size), &arguments);
        // Relaxed: the flag publishes no data.
        ends.store(true, Ordering::Relaxed);
        let sent = flood.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (record, sent)
    });
    process.stop()?;
    let (record, sent_per_s) = (record?, sent_per_s??);
    // Late requests count as offered too. If fewer requests began than were due, the due number
    // counts as offered, because otherwise the goodput would look better than it was.
    let offered =
        (f64::from(REQUESTS_PER_S) * super::lasts(options.size).as_secs_f64()).max(record.begun as f64);
    let goodput = record.good as f64 / offered;
    let flooded = name(rate);
    eprintln!(
        "flood {flooded:<16} receiving {:<17} goodput {:>5.1} %  ({sent_per_s:.0} packets/s sent)",
        urgency.name(),
        goodput * 100.0
    );
    for (metric, unit, value) in [("goodput_share", "", goodput), ("flood_per_s", "packets/s", sent_per_s)] {
        let key = PointKey { program: flooded.clone(), variant: urgency.name().into(), metric, unit };
        points.push(key, value);
    }
    Ok(())
}

fn name(rate: u32) -> String {
    match rate {
        0 => "none".into(),
        _ if Some(&rate) == FLOODS.last() => "all one cpu sends".into(),
        _ => format!("{} k/s", rate / 1000),
    }
}

/// Datagrams for a socket without a reader.
struct Flood {
    sink: SocketAddr,
    /// Per second.
    rate: u32,
    cpu: usize,
}

impl Flood {
    /// Sends from its cpu until the flag is set; returns the rate per second.
    fn run(&self, ends: &AtomicBool) -> BenchResult<f64> {
        let mut cpus = CpuSet::new();
        cpus.set(self.cpu);
        sched_setaffinity(None, &cpus)
            .map_err(|error| BenchError::thing("pin", "the flood")(error.into()))?;
        let socket = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect(self.sink)?;
            Ok(socket)
        });
        let socket = socket.map_err(BenchError::thing("open", "the flood's socket"))?;
        let begun = Instant::now();
        let mut sent = 0.0;
        while !ends.load(Ordering::Relaxed) {
            let due = begun.elapsed().as_secs_f64() * f64::from(self.rate);
            if sent >= due {
                thread::sleep(BURST);
                continue;
            }
            // A datagram refused for lack of room counts as well, because it was offered.
            let _ = socket.send(&DATAGRAM);
            sent += 1.0;
        }
        Ok(sent / begun.elapsed().as_secs_f64().max(f64::MIN_POSITIVE))
    }
}
