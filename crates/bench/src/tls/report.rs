//! The tables of the bench and their explanation.

use std::path::Path;
use std::process::{Command, Stdio};

use super::TlsBench;
use super::beside::{Besides, HANDSHAKES_PER_S, REQUESTS_PER_S, TURNS};
use super::cost::{CONNECTIONS, TlsWork};
use super::keys::KeyKind;
use super::servers::TlsServer;
use crate::network::Spread;
use crate::peers::find_program;
use crate::points::Points;
use crate::report::BenchReport;
use crate::stats::Summary;
use crate::svg::number;
use crate::table::CellTable;
use crate::{BenchResult, machine};

const HOW_TO_READ: &str = "\
**How to read it.** *1k* and *1m* are requests for files of that size over kept connections. *Full* is a connection \
for each file of 1 KB, with a full handshake and a key of that kind; *resumed* is the same with a session ticket and \
a key on P-256. The last column has the share of handshakes that were resumed, because a server may answer a ticket \
with a full handshake. *Cpu* is the cpu time of the server's processes per request, after a warm-up; for handshakes \
this includes the connection and the request. Ratios are taken within a round and then summarized: *× nginx* divides the \
row by nginx, *vermeil ×* divides Vermeil by the row. The *goal* of the first table is the ratio to nginx that Vermeil must not exceed. \
Clients, and not servers, limit the rates of handshakes, because all servers meet the same load on one cpu. *Idle* \
connections have made a full handshake and one request, and wait for the next; the number is the growth of the \
server's memory without the kernel's sockets, and the goal is 12 KB. *Beside*: requests arrive at a steady rate over \
kept connections and share two cpus with their load, with the server, and with other clients that make full \
handshakes. In a *flood*, 64 clients begin handshakes with the recorded first message of openssl and reset the \
connection at the answer, so the clients compute nothing and the server is the limit. *× alone* divides the p99 by \
the p99 without handshakes in the same turn: the numbers of *beside* are medians and extremes of turns of a second. The *goal* in a row of nginx is the largest quotient to nginx, and in a \
row of Vermeil the largest quotient to its p99 alone. The kernel runs the measured clients at once (`SCHED_FIFO`), and the others with little \
weight (`SCHED_IDLE`), so the times are the server's. Times count from the planned start of a request.

**What it does not show.** Clients with certificates, HTTP/2, and a network with losses.";

/// The finished bench.
pub(super) fn report(
    bench: &TlsBench<'_>,
    costs: &Points,
    idle: &Points,
    beside: &Points,
) -> BenchResult<BenchReport> {
    let options = bench.options;
    let mut negotiated = Vec::new();
    for &server in &bench.servers {
        negotiated.push(format!("{} {}", server.name(), negotiation(bench, server)?));
    }
    let parameters = vec![
        ("versions", versions()),
        ("negotiated", negotiated.join(", ")),
        (
            "load",
            format!(
                "vermeil load, {CONNECTIONS} connections, {:?} a run{}",
                options.duration,
                options.size.note()
            ),
        ),
        (
            "beside",
            format!(
                "{REQUESTS_PER_S} requests and {HANDSHAKES_PER_S} full handshakes a second, {TURNS} turns a round"
            ),
        ),
        ("rounds", format!("{}, interleaved", options.rounds)),
        ("cpus", "the server on one, the load on the other; beside: both on both".into()),
    ];
    Ok(BenchReport::new("tls", "the cost of HTTPS", &options.repository, parameters)
        .with_points(costs)
        .with_points(idle)
        .with_points(beside)
        .with_table(cost_table(costs))
        .with_table(idle_table(idle))
        .with_table(beside_table(beside))
        .with_how_to_read(HOW_TO_READ))
}

fn versions() -> String {
    let version = |program: &str, flag| machine::version(&find_program(program)?, flag);
    let known = [
        version("nginx", "-v").map(|said| said.replace("nginx version: ", "")),
        version("apache2", "-v").map(|said| said.replace("Server version: ", "")),
        version("h2o", "-v").map(|said| said.replace(" version ", "/")),
        version("openssl", "version").map(|said| said.split(" (").next().unwrap_or_default().to_owned()),
    ];
    known.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The version and the cipher suite that a server and openssl agree on.
fn negotiation(bench: &TlsBench<'_>, server: TlsServer) -> BenchResult<String> {
    let started = server.start(bench, KeyKind::Ecdsa, Spread::OneCpu)?;
    let program = find_program("openssl").unwrap_or_else(|| Path::new("openssl").into());
    let mut command = Command::new(program);
    command.args(["s_client", "-brief", "-connect", &started.address.to_string()]);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(crate::BenchError::thing("run", "openssl"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let after = |name| said.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim().to_owned();
    started.process.stop()?;
    Ok(format!("{} {}", after("Protocol version:"), after("Ciphersuite:")))
}

fn cost_table(points: &Points) -> CellTable {
    let head = [
        "work",
        "server",
        "cpu µs",
        "low – high",
        "× nginx",
        "vermeil ×",
        "low – high",
        "goal",
        "per second",
        "resumed",
    ];
    let mut table = CellTable::new(2, &head);
    for (work, server) in points.cells() {
        let [vermeil, nginx] = [TlsServer::Vermeil, TlsServer::Nginx].map(TlsServer::name);
        let ratio = points.ratio(work, (server, nginx), "cpu_us");
        let ours = points.ratio(work, (vermeil, server), "cpu_us").filter(|_| server != vermeil);
        let ours = with_spread(ours);
        let goal = TlsWork::ALL.into_iter().find(|of| of.name() == work && server == nginx);
        table.push([
            work.into(),
            server.into(),
            points.median(work, server, "cpu_us"),
            points.spread(work, server, "cpu_us"),
            ratio.map(|ratio| number(ratio.median)).unwrap_or_default(),
            ours[0].clone(),
            ours[1].clone(),
            goal.map(|work| format!("≤ {}", number(work.goal()))).unwrap_or_default(),
            points.median(work, server, "per_s"),
            points.median(work, server, "resumed"),
        ]);
    }
    table
}

fn idle_table(points: &Points) -> CellTable {
    let mut table = CellTable::new(2, &["connections", "server", "KB each", "low – high"]);
    for (work, server) in points.cells() {
        let kb = points.summary(work, server, "idle_bytes");
        let kb = kb.map(|bytes| [bytes.median, bytes.low, bytes.high].map(|bytes| number(bytes / 1024.0)));
        let [median, low, high] = kb.unwrap_or_default();
        table.push([work.into(), server.into(), median, format!("{low} – {high}")]);
    }
    table
}

fn beside_table(points: &Points) -> CellTable {
    let head = [
        "requests",
        "server",
        "p50 µs",
        "p99 µs",
        "low – high",
        "vermeil ×",
        "low – high",
        "× alone",
        "low – high",
        "goal",
        "p99.9 µs",
        "handshakes/s",
    ];
    let mut table = CellTable::new(2, &head);
    let vermeil = TlsServer::Vermeil.name();
    for (work, server) in points.cells() {
        let ours = points.ratio(work, (vermeil, server), "p99_us").filter(|_| server != vermeil);
        let alone = Besides::Alone.name();
        let of_alone = points.ratio_of_programs((work, alone), server, "p99_us").filter(|_| work != alone);
        let [ours, of_alone] = [ours, of_alone].map(with_spread);
        table.push([
            work.into(),
            server.into(),
            points.median(work, server, "p50_us"),
            points.median(work, server, "p99_us"),
            points.spread(work, server, "p99_us"),
            ours[0].clone(),
            ours[1].clone(),
            of_alone[0].clone(),
            of_alone[1].clone(),
            goal_beside(work, server),
            points.median(work, server, "p99_9_us"),
            points.median(work, server, "handshakes_per_s"),
        ]);
    }
    table
}

/// The median, and the extremes; empty if there is no measurement.
fn with_spread(ratio: Option<Summary>) -> [String; 2] {
    let cells =
        |ratio: Summary| [number(ratio.median), format!("{} – {}", number(ratio.low), number(ratio.high))];
    ratio.map(cells).unwrap_or_default()
}

/// The goal of a row of requests beside handshakes: of the quotient to nginx, in nginx's row, or
/// of the quotient to the requests alone, in Vermeil's.
fn goal_beside(work: &str, server: &str) -> String {
    let Some(besides) = Besides::ALL.into_iter().find(|besides| besides.name() == work) else {
        return String::new();
    };
    let goal =
        if server == TlsServer::Nginx.name() { besides.goal_of_nginx() } else { besides.goal_of_alone() };
    goal.map(|goal| format!("≤ {}", number(goal))).unwrap_or_default()
}
