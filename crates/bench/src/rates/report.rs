//! The table of the bench and its explanation.

use super::{CONNECTIONS, FILE, RateHost, SLICES};
use crate::machine;
use crate::options::BenchOptions;
use crate::peers::{PeerServer, find_program};
use crate::points::Points;
use crate::report::BenchReport;
use crate::stats::Summary;
use crate::table::CellTable;

/// The most that a rate may cost, relative to the same request without a rate.
const GOAL: f64 = 1.05;

const HOW_TO_READ: &str = "\
**How to read it.** The load names a client in `X-Forwarded-For` of each request, and both servers believe the load. \
The rows with *rate* ask a host whose clients have a rate that no client reaches, the other rows ask a host of the \
same server without a rate. *Cpu* is the cpu time of the server's processes per request, in the kernel too. *× without* \
divides the two hosts of a round, which take turns; its spread is over the rounds. With one client, the count is in the \
nearest cache. With 100,000 clients, which take turns, the count of each request comes from a further cache or from \
memory. nginx counts with `limit_req`, and takes the client from `set_real_ip_from`.

**What it does not show.** Several cores that count at the same time, because the server has one cpu. Requests beyond \
the rate.";

/// The finished bench.
pub(super) fn report(options: &BenchOptions, points: &Points) -> BenchReport {
    let version = find_program("nginx").and_then(|path| machine::version(&path, "-v"));
    let parameters = vec![
        ("versions", version.unwrap_or_default().replace("nginx version: ", "")),
        (
            "load",
            format!(
                "wrk, {CONNECTIONS} keep-alive connections, a file of {} bytes, {:?} a host and round, in {SLICES} parts{}",
                FILE.1,
                options.duration,
                options.size.note()
            ),
        ),
        ("rounds", format!("{}, interleaved", options.rounds)),
        ("cpus", "the server on one, the load on the other".into()),
        ("goal", format!("× without of Vermeil at most {GOAL}")),
    ];
    BenchReport::new("rates", "the cost of a rate of requests", &options.repository, parameters)
        .with_points(points)
        .with_table(table(points))
        .with_how_to_read(HOW_TO_READ)
}

fn table(points: &Points) -> CellTable {
    let head = ["clients", "server", "cpu µs", "low – high", "× without", "low – high", "requests/s"];
    let mut table = CellTable::new(2, &head);
    let mut cells = points.cells();
    // Rounds begin with changing servers and hosts.
    cells.sort_by_key(|&(program, variant)| (place_of(program, points), order(variant)));
    for (program, variant) in cells {
        let ratio = PeerServer::ALL.iter().find_map(|&server| {
            let [free, rated] = RateHost::ALL.map(|host| host.variant(server));
            (rated == variant).then(|| points.ratio(program, (&rated, &free), "cpu_us")).flatten()
        });
        let text = |text: fn(Summary) -> String| ratio.map(text).unwrap_or_default();
        table.push([
            program.into(),
            variant.into(),
            points.median(program, variant, "cpu_us"),
            points.spread(program, variant, "cpu_us"),
            text(|ratio| format!("{:.3}", ratio.median)),
            text(|ratio| format!("{:.3} – {:.3}", ratio.low, ratio.high)),
            points.median(program, variant, "per_s"),
        ]);
    }
    table
}

/// The place of a program among those of `points`.
fn place_of(program: &str, points: &Points) -> Option<usize> {
    points.cells().iter().position(|(known, _)| *known == program)
}

/// The place of a variant in the table.
fn order(variant: &str) -> Option<usize> {
    let mut variants =
        PeerServer::ALL.iter().flat_map(|&server| RateHost::ALL.map(|host| host.variant(server)));
    variants.position(|known| known == variant)
}
