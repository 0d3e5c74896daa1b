//! The table of the bench and its explanation.

use super::{CHILDREN, CONNECTIONS, ECHO_CHILDREN, Server};
use crate::machine;
use crate::options::Options;
use crate::peers::{find_program, fpm};
use crate::points::Points;
use crate::report::Report;
use crate::svg::number;
use crate::table::Table;

const HOW_TO_READ: &str = "\
**How to read it.** *Server* is the cpu time that the server itself takes for a request, *pool* that of PHP or of the application, which is the same for \
all. *× debian* and *× tuned* compare medians with nginx's. *nginx-debian* is nginx as Debian ships it, which opens a connection for each request; \
*nginx-tuned* keeps as many as there are children, as Vermeil and Apache do, and lets users beyond that number wait for one of them to be closed: \
see its p99. *echo* is no PHP, but an application that says what it was asked for and keeps connections: server and application have all cpus, \
and share them with the load; what it tells is req/s. *floor* is no server: a loop that receives and sends on either side and looks at nothing, with connections that are kept, so about the least \
that the kernel takes for a request. *hello-4* is hello for as many users as children, and *dokuwiki* is a page of a wiki for as many: a real application, \
whose own work is nearly all of a request, so requests per second are PHP's and what differs is *server*, the part that is left to choose. But for *echo* all run on one cpu, so requests per second are what both together leave.

**What it does not show.** Two virtual cores of one machine, shared with strangers: compare within a table.";

/// The finished bench.
pub(super) fn report(options: &Options, points: &Points) -> Report {
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
    Report::new("php", "what passing a request to PHP costs", &options.repository, parameters)
        .with_points(points)
        .with_table(table(points))
        .with_how_to_read(HOW_TO_READ)
}

fn table(points: &Points) -> Table {
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
    let mut table = Table::new(2, &head);
    for (program, variant) in points.cells() {
        let median = |metric| points.median(program, variant, metric);
        let cost = |variant| points.summary(program, variant, "server_us").map(|found| found.median);
        let times = |other: Server| {
            let ratio = cost(variant).zip(cost(other.name())).map(|(ours, others)| number(ours / others));
            ratio.unwrap_or_default()
        };
        table.push([
            program.into(),
            variant.into(),
            median("server_us"),
            points.spread(program, variant, "server_us"),
            times(Server::NginxDebian),
            times(Server::NginxTuned),
            times(Server::Floor),
            median("php_us"),
            median("per_s"),
            median("p50_us"),
            median("p99_us"),
        ]);
    }
    table
}
