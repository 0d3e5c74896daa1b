//! The three ways of receiving, each with small files, 20 KB by sendfile, and WebStone's mix.
//!
//! Server and load share the machine's first two cpus, so the result is the number of requests per
//! second of the whole machine's cpu time. During the load `vermeil steer verify` counts the cpus
//! that handle packets.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use vermeil_load::report::Record;

use super::bed::{Bed, KnetReceiving};
use super::count::CpuTotals;
use crate::load::recorded;
use crate::machine::BenchCpus;
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::points::{PointKey, Points};
use crate::site::BenchSite;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};

/// Connections, each with a request under way.
const CONNECTIONS: &str = "32";

/// The requested file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestedFile {
    Small,
    Sendfile,
    Webstone,
}

impl RequestedFile {
    const ALL: [Self; 3] = [Self::Small, Self::Sendfile, Self::Webstone];

    fn name(self) -> &'static str {
        match self {
            Self::Small => "1 KB",
            Self::Sendfile => "20 KB, sendfile",
            Self::Webstone => "WebStone mix",
        }
    }
}

/// Every way of receiving with every requested file, in an order that rotates with the rounds.
pub(super) fn round(
    options: &BenchOptions,
    cpus: BenchCpus,
    round: usize,
    points: &mut Points,
    stop: &StopFlag,
) -> BenchResult<()> {
    let site = BenchSite::new(&[("1k.txt", 1024), ("20k.txt", 20 << 10)])?;
    let mut files = Command::new(&options.vermeil);
    files.args(["load", "files", "webstone"]).arg(site.root());
    crate::network::run(&mut files)?;
    let mut order = KnetReceiving::ALL;
    order.rotate_left(round % KnetReceiving::ALL.len());
    for receiving in order {
        let bed = Bed::new(receiving, cpus)?;
        for asked in RequestedFile::ALL {
            stop.check()?;
            let sample = PathRun { options, cpus, bed: &bed, site: &site, receiving, asked }.measure()?;
            sample.keep(receiving, asked, points);
        }
    }
    Ok(())
}

struct PathRun<'a> {
    options: &'a BenchOptions,
    cpus: BenchCpus,
    bed: &'a Bed,
    site: &'a BenchSite,
    receiving: KnetReceiving,
    asked: RequestedFile,
}

impl PathRun<'_> {
    fn measure(&self) -> BenchResult<PathSample> {
        let state = self.site.state_folder("vermeil")?;
        let mut command = self.bed.server.command(&self.options.vermeil);
        command.arg("serve").arg(self.site.root()).arg("--listen").arg(self.bed.address().to_string());
        command.args(["--log", "off", "--cores"]).arg(format!("{},{}", self.cpus.server, self.cpus.client));
        command.args(["--balance", self.receiving.balance(), "--control"]).arg(state.join("control"));
        if self.asked == RequestedFile::Sendfile {
            // Files larger than this are sent from the file, not from memory.
            command.args(["--cache-file-bytes", "4096"]);
        }
        let process = PeerProcess::start("vermeil", command, &state)?;
        process.wait_until_listening_for(&self.bed.client, self.bed.address())?;
        let verifying = self.verify()?;
        let (before, packets) = (CpuTotals::now(self.bed.threads())?, self.bed.packets()?);
        let record = self.load()?;
        let did = CpuTotals::now(self.bed.threads())?.since(before);
        let packets = self.bed.packets()?.saturating_sub(packets);
        let here_share = verifying.and_then(|child| child.wait_with_output().ok()).and_then(|output| {
            let value: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
            value["here_share"].as_f64()
        });
        process.stop()?;
        Ok(PathSample { requests: record.good as f64, did, packets: packets.max(1) as f64, here_share })
    }

    /// Starts counting the cpus that handle packets, if the load is long enough.
    fn verify(&self) -> BenchResult<Option<std::process::Child>> {
        let time = super::lasts(self.options.size).mul_f64(0.6);
        let mut command = self.bed.server.command(&self.options.vermeil);
        command.args(["steer", "verify", "--json", "--port"]).arg(self.bed.address().port().to_string());
        command.args(["--time", &format!("{}ms", time.as_millis())]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().map(Some).map_err(BenchError::thing("start", "vermeil steer verify"))
    }

    fn load(&self) -> BenchResult<Record> {
        let address = self.bed.address();
        let asked = match self.asked {
            RequestedFile::Small => vec![format!("http://{address}/1k.txt")],
            RequestedFile::Sendfile => vec![format!("http://{address}/20k.txt")],
            RequestedFile::Webstone => vec!["webstone".into(), format!("http://{address}")],
        };
        let mut arguments = vec!["-c".to_owned(), CONNECTIONS.to_owned()];
        arguments.extend(asked);
        load(self.options, self.bed, self.site, super::lasts(self.options.size), &arguments)
    }
}

/// Runs `vermeil load` on the load's host.
pub(super) fn load(
    options: &BenchOptions,
    bed: &Bed,
    site: &BenchSite,
    lasts: Duration,
    arguments: &[String],
) -> BenchResult<Record> {
    let file: PathBuf = site.state_folder("load")?.join("record.json");
    let mut command = bed.client.command("nice");
    // A higher priority than the flood, because the load must go on asking or the server would get
    // no requests.
    command.args(["-n", "-10"]).arg(&options.vermeil).args(["load", "--cores", "1", "--warm-up", "1ms"]);
    command.args(["-d", &format!("{}ms", lasts.as_millis())]).arg("--json").arg(&file).args(arguments);
    recorded(&mut command, &file)
}

/// The result of one run.
struct PathSample {
    requests: f64,
    did: CpuTotals,
    packets: f64,
    /// `None` where the kernel does not permit the count.
    here_share: Option<f64>,
}

impl PathSample {
    fn keep(&self, receiving: KnetReceiving, asked: RequestedFile, points: &mut Points) {
        let busy_s = self.did.busy_s.max(f64::MIN_POSITIVE);
        let values = [
            ("requests_per_cpu_s", "req/s", Some(self.requests / busy_s)),
            ("here_share", "", self.here_share),
            ("receiving_share", "", Some(self.did.receiving_s / busy_s)),
            ("switches_per_packet", "", Some(self.did.switches / self.packets)),
        ];
        eprintln!(
            "{:<5} {:<16} {:>8.0} requests per cpu second, on their cpu {}",
            receiving.name(),
            asked.name(),
            self.requests / busy_s,
            self.here_share.map_or("not measurable".to_owned(), |share| format!("{:.1} %", share * 100.0)),
        );
        for (metric, unit, value) in values {
            let key =
                PointKey { program: asked.name().into(), variant: receiving.name().into(), metric, unit };
            if let Some(value) = value {
                points.push(key, value);
            }
        }
    }
}
