//! Popular files beside a walk of all files, as of a crawler: does the walk take the popular files
//! out of memory?
//!
//! One request in [`WALK_EACH`] is for the next of all files, the others are for random popular
//! files. The metrics of the server tell how many requests the cache answered. A cache answers no
//! request of the walk, because each file of the walk is asked for once. The request that has a
//! popular file checked again, once a second, does not count as answered by the cache. Thus a
//! popular file that stays in memory is looked up at most once a second.

use std::fs;

use super::VisitedServer;
use super::servers::TailServer;
use super::site::{FOLDER_FILES, TailSite};
use crate::machine::BenchCpus;
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::points::{PointKey, Points};
use crate::probe;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};

/// The name in rows.
pub(super) const NAME: &str = "popular files";
/// Popular files.
pub(super) const POPULAR: usize = 1_000;
/// Requests for each request of the walk, with that request.
pub(super) const WALK_EACH: u64 = 4;
/// The path of the metrics.
const METRICS: &str = "/metrics";

/// The requests besides those for popular files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Walk,
}

/// Measures Vermeil in `site`.
pub(super) fn run(
    options: &BenchOptions,
    site: &TailSite,
    stop: &StopFlag,
    points: &mut Points,
) -> BenchResult<()> {
    for round in 0..options.rounds {
        let mut order = [TailServer::Vermeil, TailServer::VermeilEpoll];
        order.rotate_left(round % 2);
        for server in order {
            stop.check()?;
            sample(options, server, site, stop, points)?;
        }
    }
    Ok(())
}

fn sample(
    options: &BenchOptions,
    server: TailServer,
    site: &TailSite,
    stop: &StopFlag,
    points: &mut Points,
) -> BenchResult<()> {
    let cpus = BenchCpus::allowed()?;
    let (network, address) = (BenchNetwork::Loopback, BenchNetwork::Loopback.free_address()?);
    let (state, cpu) = (site.state("walk")?, cpus.server);
    let io = if server == TailServer::VermeilEpoll { "epoll" } else { "uring" };
    let text = format!(
        "cores = \"{cpu}-{cpu}\"\nio = \"{io}\"\nlog = \"off\"\n[[listener]]\naddress = \"{address}\"\n\
         [[host]]\nnames = [\"localhost\"]\nroot = \"{}\"\n\
         [[host.route]]\npath = \"{METRICS}\"\naction = \"metrics\"\n",
        site.root().display()
    );
    let path = state.join("vermeil.toml");
    fs::write(&path, text).map_err(BenchError::path("write", &path))?;
    let mut command = network.server_command(&options.vermeil, cpu);
    command.args(["serve", "--config"]).arg(path);
    let process = PeerProcess::start(server.name(), command, &state)?;
    process.wait_until_listening(&network, address)?;
    let visited =
        VisitedServer { process, state, address, client_cpu: cpus.client, target: site.target(0), stop };
    let of = |beside| -> BenchResult<PopularHits> {
        let before = hits(&visited)?;
        let (outcome, cpu) = visited.measured(&requests(site, beside), options.duration)?;
        let walked = if beside == Beside::Walk { outcome.requests / WALK_EACH } else { 0 };
        let (hits, popular) = (hits(&visited)? - before, (outcome.requests - walked) as f64);
        let seconds = outcome.duration_us as f64 / 1e6;
        Ok(PopularHits {
            percent: 100.0 * hits / popular,
            looked_up: (popular - hits) / POPULAR as f64 / seconds,
            cpu_us: cpu.server_us,
        })
    };
    // Fills the cache.
    visited.run(&requests(site, Beside::Nothing), options.duration)?;
    let (alone, beside) = (of(Beside::Nothing)?, of(Beside::Walk)?);
    let mut push = |metric, unit, value| {
        let key = PointKey { program: NAME.into(), variant: server.name().into(), metric, unit };
        points.push(key, value);
    };
    push("alone_hits", "%", alone.percent);
    push("alone_looked_up", "1/s", alone.looked_up);
    push("beside_hits", "%", beside.percent);
    push("beside_looked_up", "1/s", beside.looked_up);
    push("walk_cpu_us", "us", beside.cpu_us);
    eprintln!("{NAME:<28} {:<16} alone {alone:.2?}, beside a walk {beside:.2?}", server.name());
    visited.process.stop()
}

/// The answers to requests for popular files.
#[derive(Clone, Copy, Debug)]
struct PopularHits {
    /// The share that the cache answered.
    percent: f64,
    /// Look-ups of each file in a second.
    looked_up: f64,
    /// The server's cpu time of a request, of the walk too.
    cpu_us: f64,
}

/// The requests that the cache has answered.
fn hits(visited: &VisitedServer<'_>) -> BenchResult<f64> {
    let page = probe::page(visited.address, METRICS).map_err(BenchError::thing("ask for", METRICS))?;
    let lines = page.lines().filter(|line| line.starts_with("vermeil_cache_hits_total"));
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    counts.reduce(|sum, count| sum + count).ok_or_else(|| visited.process.failure("has no metric of hits"))
}

/// The part of wrk's script that asks for popular files, of different folders.
fn requests(site: &TailSite, beside: Beside) -> String {
    let (pages, each) = (site.pages(), (site.pages() / POPULAR).max(1));
    let walks = beside == Beside::Walk;
    format!(
        r#"
local turn, walk, made = 0, 0, {{}}
local format = function(number)
  return wrk.format(nil, "/" .. math.floor(number / {FOLDER_FILES}) .. "/" .. number % {FOLDER_FILES} .. ".html")
end
init = function(args) math.randomseed(os.time()) end
request = function()
  turn = turn + 1
  if {walks} and turn % {WALK_EACH} == 0 then
    walk = walk + 1
    return format(walk % {pages})
  end
  local number = math.random(0, {POPULAR} - 1) * {each} % {pages}
  made[number] = made[number] or format(number)
  return made[number]
end
"#
    )
}
