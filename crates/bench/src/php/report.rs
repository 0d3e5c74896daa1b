//! The table of the bench and its explanation.

use super::{CHILDREN, CONNECTIONS, ECHO_CHILDREN, PhpServer};
use crate::machine;
use crate::options::BenchOptions;
use crate::peers::{find_program, fpm};
use crate::points::Points;
use crate::report::BenchReport;
use crate::svg::number;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** *Server* is the cpu time of the server itself per request, *pool* the cpu time of PHP or of the \
application, which is the same for all. *× debian* and *× tuned* compare medians with nginx's. *nginx-debian* is nginx \
as Debian ships it, with a new connection for each request. *nginx-tuned* keeps as many connections as there are \
children, as Vermeil and Apache do; further users wait until a connection closes, as the p99 shows. *echo* is not PHP, \
but an application that returns the request and keeps connections. For *echo*, server and application have all cpus \
and share them with the load, and the number to read is req/s. *floor* is a loop that receives and sends on either \
side, without parsing and with kept connections: about the least time that the kernel needs for a request. *hello-4* \
is hello for as many users as children. *dokuwiki* is a page of a wiki for as many users. A real application does \
nearly all the work of a request, so the requests per second are PHP's, and the part that differs is *server*. Except \
for *echo*, all processes run on one cpu, so requests per second depend on server and pool together.

**What it does not show.** Two virtual cores of one machine, shared with other guests: compare within a table.";

/// The finished bench.
pub(super) fn report(options: &BenchOptions, points: &Points) -> BenchReport {
    let version = |program: &str| machine::version(&find_program(program)?, "-v");
    let versions = [
        version("nginx").map(|said| said.replace("nginx version: ", "")),
        version("apache2").map(|said| said.replace("Server version: ", "")),
        version(fpm::FPM.0).map(|said| said.split(" (").next().unwrap_or_default().to_owned()),
    ];
    let size = options.size.note();
    let parameters = vec![
        ("versions", versions.into_iter().flatten().collect::<Vec<_>>().join(", ")),
        (
            "load",
            format!(
                "wrk, {CONNECTIONS} keep-alive connections, {CHILDREN} for hello-4 and dokuwiki, {:?} a run{size}",
                options.duration
            ),
        ),
        (
            "pools",
            format!("php-fpm, {CHILDREN} children, and an echo of {ECHO_CHILDREN}; each one unix socket"),
        ),
        ("rounds", options.rounds.to_string()),
        ("cpus", "server and PHP on one, the load on the other; echo and its server on all".into()),
    ];
    BenchReport::new("php", "the cost of passing a request to PHP", &options.repository, parameters)
        .with_points(points)
        .with_table(table(points))
        .with_how_to_read(HOW_TO_READ)
}

fn table(points: &Points) -> CellTable {
    let head = [
        "program",
        "server",
        "server µs",
        "low – high",
        "× debian",
        "× tuned",
        "× floor",
        "pool µs",
        "req/s",
        "p50 µs",
        "p99 µs",
    ];
    let mut table = CellTable::new(2, &head);
    for (program, variant) in points.cells() {
        let median = |metric| points.median(program, variant, metric);
        let cost = |variant| points.summary(program, variant, "server_us").map(|found| found.median);
        let times = |other: PhpServer| {
            let ratio = cost(variant).zip(cost(other.name())).map(|(ours, others)| number(ours / others));
            ratio.unwrap_or_default()
        };
        table.push([
            program.into(),
            variant.into(),
            median("server_us"),
            points.spread(program, variant, "server_us"),
            times(PhpServer::NginxDebian),
            times(PhpServer::NginxTuned),
            times(PhpServer::Floor),
            median("php_us"),
            median("per_s"),
            median("p50_us"),
            median("p99_us"),
        ]);
    }
    table
}
