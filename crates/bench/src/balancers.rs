//! The bench of balancers: HAProxy in front of two servers of unequal speed, in another network
//! namespace, once with equal turns (round robin) and once with weights from the servers' agents.
//!
//! Each server has a quota of cpu time, and the slow server's quota is a third of the fast
//! server's. With equal turns the slow server sets the rate, because both servers get the same
//! number of requests and clients wait for the slow answers. With agent checks HAProxy uses weights
//! that follow the load of each server. The expected gain follows from the quotas and the rule for
//! weights, and is printed beside the measured gain.

use std::fs;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use crate::machine::BenchCpus;
use crate::network::{BenchNetwork, Veth};
use crate::options::BenchOptions;
use crate::overload::quota::Quota;
use crate::peers::process::PeerProcess;
use crate::peers::{PeerSetting, find_program, vermeil};
use crate::points::{PointKey, Points};
use crate::report::BenchReport;
use crate::site::BenchSite;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::table::CellTable;
use crate::{BenchError, BenchResult};

/// Rounds of a full run by default: the smallest number with a median and a spread.
pub const ROUNDS: usize = 3;

/// Cpu quotas in thousandths. The quotas leave HAProxy a quarter of the cpu, and HAProxy needs half
/// of that. Note that requests cost a mostly idle cpu more, because its caches are cold each time a
/// server's turn comes.
const PARTS: [u32; 2] = [570, 190];

/// Connections through HAProxy, each with a request under way. The number is larger than both
/// servers answer while the slow server's quota is used up, because otherwise all connections would
/// wait for the slow server.
const CONNECTIONS: &str = "64";

/// The program's name in rows.
const PROGRAM: &str = "two servers";

/// The request is the listing of a folder with this many files. A listing costs a server twenty
/// times as much as a small file, so the cost hardly depends on whether the server is woken for
/// each request or has many at hand. HAProxy and the load are far from their limits.
const FILES: usize = 100;

const HOW_TO_READ: &str = "\
**How to read it.** Two servers, the second limited to a third of the first's cpu time, behind Debian's HAProxy with \
`balance roundrobin`. HAProxy and the load are in another network namespace. A closed loop requests the listing of a \
folder of a hundred files through HAProxy. The first rows are each server alone. *Of by turns* compares with the row \
*by turns* of the same round, as do all further columns. *By turns* gives both servers the same weight, so together \
they do twice the work of the slow server. *By agents* gives each server the share of its weight that `--agent` \
answers, twice a second. *Possible* is the rate of the fast server alone plus the rate of the slow server by turns, \
when the slow server has no idle time, relative to by turns. *Predicted* is the result of the rule for weights. A \
server asks for less weight the more of its time beyond 80 % is used, and for the minimum, 5 %, if all of its time is \
used. So the slow server's weight is *r* times lower if the fast server is idle for 20 % · ln *r* / ln 20 of its time, \
7 % for three. The prediction assumes that a request always costs a server the same, for any number of waiting \
requests and any other servers of HAProxy. The first seconds, and by agents the first minute, do not count, because \
the weights settle then.";

/// The rule for weights (`crates/ops/src/balancers/weight.rs`): the idle share of a server's
/// time below which the server lowers its weight, and the smallest weight, as a fraction of the
/// full weight.
const SPARE: f64 = 0.2;
const LEAST: f64 = 0.05;

/// How HAProxy chooses a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Only the fast server, and only the slow server: measures the limit of each.
    Fast,
    Slow,
    Turns,
    Agents,
}

impl By {
    const ALL: [Self; 4] = [Self::Fast, Self::Slow, Self::Turns, Self::Agents];

    fn name(self) -> &'static str {
        match self {
            Self::Fast => "to the fast one",
            Self::Slow => "to the slow one",
            Self::Turns => "by turns",
            Self::Agents => "by agents",
        }
    }

    /// The servers behind HAProxy, as a range over both servers.
    fn servers(self) -> Range<usize> {
        match self {
            Self::Fast => 0..1,
            Self::Slow => 1..2,
            Self::Turns | Self::Agents => 0..2,
        }
    }
}

/// The time for weights to settle, and the time measured after that. Without weights nothing has to
/// settle. With weights a minute is five times the time in which a server's weight covers most of
/// its way.
fn phases(size: BenchSize, by: By) -> (Duration, Duration) {
    match size {
        BenchSize::Full if by == By::Agents => (Duration::from_secs(60), Duration::from_secs(10)),
        BenchSize::Full => (Duration::from_secs(5), Duration::from_secs(10)),
        // A connection that found the slow server's queue full is tried again after a second.
        BenchSize::Smoke => (Duration::from_millis(1500), Duration::from_millis(300)),
    }
}

/// Runs the bench.
///
/// # Errors
/// HAProxy is missing, the rights for cpu quotas or network namespaces are missing, a program does
/// not start, or the run is interrupted. In every case all started processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let mut points = Points::default();
    for round in 0..options.rounds {
        let mut order = By::ALL;
        order.rotate_left(round % By::ALL.len());
        let mut rates = Vec::new();
        for by in order {
            stop.check()?;
            let rate = one(options, by)?;
            eprintln!("{:<16} {rate:>8.0} requests/s", by.name());
            rates.push((by, rate));
        }
        keep(&rates, &mut points);
    }
    Ok(report(options, &points))
}

/// Records a round: the rates, and each rate relative to the round-robin rate of the same round.
fn keep(rates: &[(By, f64)], points: &mut Points) {
    let rate_of = |wanted| {
        let found = rates.iter().find(|(by, _)| *by == wanted);
        found.map_or(f64::MIN_POSITIVE, |(_, rate)| rate.max(f64::MIN_POSITIVE))
    };
    let (fast, turns) = (rate_of(By::Fast), rate_of(By::Turns));
    let predicted = together(fast * (1.0 - idle(2.0 * fast / turns)), turns);
    for &(by, rate) in rates {
        let mut push = |metric, unit, value| {
            points.push(PointKey { program: PROGRAM.into(), variant: by.name().into(), metric, unit }, value);
        };
        push("per_s", "req/s", rate);
        push("of_turns", "", rate / turns);
        if by == By::Agents {
            push("predicted", "", predicted);
            push("of_predicted", "", rate / turns / predicted);
            push("possible", "", together(fast, turns));
        }
    }
}

/// Runs the smoke size and checks the shape of the report; asserts nothing about time. Prints a
/// line and returns `None` where a requirement is missing.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<Option<BenchReport>> {
    if find_program("haproxy").is_none() {
        eprintln!("SKIPPED: haproxy is not installed");
        return Ok(None);
    }
    if let Err(why) = Quota::of("try", PARTS[0]) {
        eprintln!("SKIPPED: servers cannot be held to a part of a cpu here: {why}");
        return Ok(None);
    }
    if let Err(why) = Veth::new(BenchCpus::allowed()?) {
        eprintln!("SKIPPED: no network namespaces here: {why}");
        return Ok(None);
    }
    let report = run(options, stop)?;
    for metric in ["per_s", "of_turns"] {
        report.check(&By::ALL.map(|by| (by.name(), metric)))?;
    }
    Ok(Some(report))
}

/// Requests per second through HAProxy.
fn one(options: &BenchOptions, by: By) -> BenchResult<f64> {
    let haproxy =
        find_program("haproxy").ok_or(BenchError::Missing { program: "haproxy", package: "haproxy" })?;
    let (cpus, site) = (BenchCpus::allowed()?, folder()?);
    let network = BenchNetwork::Veth(Veth::new(cpus)?);
    // The order matters: a group can be removed only after all processes in the group have ended,
    // and Rust drops later variables first.
    let quotas = [Quota::of("fast", PARTS[0])?, Quota::of("slow", PARTS[1])?];
    let mut behind = Vec::new();
    for (quota, name) in quotas.iter().zip(["fast", "slow"]) {
        behind.push(BehindHaproxy::start(options, &network, cpus, &site, (quota, name))?);
    }
    let address = network.free_client_address()?;
    let state = site.state_folder("haproxy")?;
    let file = state.join("haproxy.cfg");
    fs::write(&file, configuration(address, &behind[by.servers()], by))
        .map_err(BenchError::path("write", &file))?;
    // HAProxy shares the servers' cpu, because the servers need little of that cpu and the load
    // needs all of the other cpu.
    let mut command = network.client_command(haproxy, cpus.server);
    command.arg("-db").arg("-f").arg(&file);
    let process = PeerProcess::start("haproxy", command, &state)?;
    process.wait_until_listening(&network, address)?;
    let rate = load(options, (&network, cpus), &site, address, by)?;
    process.stop()?;
    behind.into_iter().try_for_each(|server| server.process.stop())?;
    Ok(rate)
}

/// The folder that is listed.
fn folder() -> BenchResult<BenchSite> {
    let names: Vec<String> = (0..FILES).map(|number| format!("page-{number}.html")).collect();
    BenchSite::new(&names.iter().map(|name| (name.as_str(), 0)).collect::<Vec<_>>())
}

/// A server behind HAProxy.
struct BehindHaproxy {
    process: PeerProcess,
    address: SocketAddr,
    agent: SocketAddr,
}

impl BehindHaproxy {
    fn start(
        options: &BenchOptions,
        network: &BenchNetwork,
        cpus: BenchCpus,
        site: &BenchSite,
        (quota, name): (&Quota, &str),
    ) -> BenchResult<Self> {
        let (address, agent) = (network.free_address()?, network.free_address()?);
        let (root, state) = (site.root(), site.state_folder(name)?);
        let setting = PeerSetting { network, address, cpu: cpus.server, root: &root, state: &state };
        let mut command = vermeil::command(setting, &options.vermeil, vermeil::VermeilIo::Epoll);
        command.args(["--agent", &agent.to_string(), "--control"]).arg(state.join("control"));
        let process = PeerProcess::start(name, quota.within(&command), &state)?;
        process.wait_until_listening(network, address)?;
        Ok(Self { process, address, agent })
    }
}

fn configuration(address: SocketAddr, behind: &[BehindHaproxy], by: By) -> String {
    let mut text = format!(
        "defaults\n mode http\n timeout connect 30s\n timeout client 30s\n timeout server 30s\n\
         frontend f\n bind {address}\n default_backend b\n\
         backend b\n balance roundrobin\n"
    );
    for (number, server) in behind.iter().enumerate() {
        text += &format!(" server s{number} {} weight 100", server.address);
        if by == By::Agents {
            let (ip, port) = (server.agent.ip(), server.agent.port());
            text += &format!(" agent-check agent-addr {ip} agent-port {port} agent-inter 500ms");
        }
        text += "\n";
    }
    text
}

fn load(
    options: &BenchOptions,
    (network, cpus): (&BenchNetwork, BenchCpus),
    site: &BenchSite,
    address: SocketAddr,
    by: By,
) -> BenchResult<f64> {
    let (settles, lasts) = phases(options.size, by);
    let file = site.state_folder("load")?.join("record.json");
    let mut command = network.client_command(&options.vermeil, cpus.client);
    command.args(["load", "--cores"]).arg(format!("{0}-{0}", cpus.client)).args(["-c", CONNECTIONS]);
    command.args(["--warm-up", &format!("{}ms", settles.as_millis())]);
    command.args(["-d", &format!("{}ms", lasts.as_millis())]);
    command.arg("--json").arg(&file).arg(format!("http://{address}/"));
    Ok(crate::load::recorded(&mut command, &file)?.rate)
}

/// The rate of both servers at their limits, relative to the round-robin rate. The slow server's
/// limit comes from the round-robin run and not from its run alone: alone, the slow server does a
/// tenth less, because the caches of a mostly idle cpu are cold.
fn together(fast: f64, turns: f64) -> f64 {
    (fast + turns / 2.0) / turns
}

/// The idle fraction of a server whose weight is `ratio` times the weight of another server without
/// idle time.
fn idle(ratio: f64) -> f64 {
    -SPARE * ratio.ln() / LEAST.ln()
}

fn report(options: &BenchOptions, points: &Points) -> BenchReport {
    let [fast, slow] = PARTS;
    let parameters = vec![
        ("servers", format!("{:.1} % and {:.1} % of a cpu", f64::from(fast) / 10.0, f64::from(slow) / 10.0)),
        (
            "load",
            format!(
                "vermeil load, {CONNECTIONS} connections, a listing of {FILES} files{}",
                options.size.note()
            ),
        ),
        ("rounds", options.rounds.to_string()),
    ];
    let heads = [
        "HAProxy goes",
        "requests per second",
        "spread",
        "of by turns",
        "spread",
        "predicted",
        "of predicted",
        "spread",
        "possible",
    ];
    let mut table = CellTable::new(1, &heads);
    for by in By::ALL {
        let median = |metric| points.median(PROGRAM, by.name(), metric);
        let spread = |metric| points.spread(PROGRAM, by.name(), metric);
        table.push([
            by.name().into(),
            median("per_s"),
            spread("per_s"),
            median("of_turns"),
            spread("of_turns"),
            median("predicted"),
            median("of_predicted"),
            spread("of_predicted"),
            median("possible"),
        ]);
    }
    BenchReport::new(
        "balancers",
        "two servers of unequal speed behind HAProxy",
        &options.repository,
        parameters,
    )
    .with_points(points)
    .with_table(table)
    .with_how_to_read(HOW_TO_READ)
}

#[cfg(test)]
mod tests {
    #[test]
    fn three_to_one_is_nearly_twice_as_much() {
        assert_eq!(super::together(3.0, 2.0), 2.0);
        let idle = super::idle(3.0);
        assert!((0.07..0.08).contains(&idle), "{idle}");
        assert_eq!(super::idle(1.0), 0.0);
    }
}
