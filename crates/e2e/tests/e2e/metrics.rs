//! Metrics: the OpenMetrics text at a route and over the control socket, as a real Prometheus reads
//! it, and the same numbers in `vermeil status`.

use crate::support::{ExpectedContent, Io, TestProcess, TestServer, TestSite, on_usual, until, vermeil};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

on_usual!(
    metrics_count_requests_by_status_and_host,
    metrics_answer_only_allowed_clients,
    aborted_requests_are_counted,
    counts_stay_over_a_reload,
    prometheus_reads_the_metrics,
);

const HOSTS: &str = r#"
control = "control"
[hosts]
counted_max = 2
[[host]]
names = ["a.example"]
root = "site"
[[host.route]]
prefix = "/metrics"
action = "metrics"
from = ["127.0.0.1"]
[[host]]
names = ["b.example"]
root = "site"
[[host]]
names = ["c.example"]
root = "site"
[[host.route]]
prefix = "/metrics"
action = "metrics"
from = ["192.0.2.1"]
"#;

/// Asks `host` for `target`, and returns the status and the text.
#[track_caller]
fn ask(server: &TestServer, host: &str, target: &str) -> (u16, String) {
    let mut client = server.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let response = client.read(ExpectedContent::Follows);
    if target == "/metrics" && response.status == 200 {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert_eq!(response.field("content-type"), kind);
        assert_eq!(response.field("cache-control"), "no-store");
    }
    (response.status, response.text().to_owned())
}

/// Asks the control socket beside the site.
#[track_caller]
fn status(site: &TestSite, args: &[&str]) -> String {
    let control = site.outside("control");
    let output = vermeil(&["status", "--control"]).arg(control).args(args).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The series of the metrics with their values.
#[track_caller]
fn series(metrics: &str) -> BTreeMap<String, f64> {
    assert!(metrics.ends_with("\n# EOF\n"), "{metrics}");
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    let pairs = samples.map(|line| line.rsplit_once(' ').expect("a name and a value"));
    let mut series = BTreeMap::new();
    for (name, value) in pairs {
        let twice = series.insert(name.to_owned(), value.parse().expect("a number"));
        assert_eq!(twice, None, "{name}");
    }
    series
}

fn metrics_count_requests_by_status_and_host(io: Io) {
    let site = TestSite::new();
    site.write("page", &[b'x'; 1000]);
    let server = TestServer::configured(io, &site, HOSTS);
    for (host, times) in [("a.example", 1), ("b.example", 4), ("c.example", 3)] {
        (0..times).for_each(|_| assert_eq!(ask(&server, host, "/page").0, 200));
    }
    assert_eq!(ask(&server, "b.example", "/none").0, 404);
    let all = series(&status(&site, &["--metrics"]));
    for (name, value) in [
        (r#"vermeil_requests_total{process="0",code="200",class="2xx"}"#, 8.0),
        (r#"vermeil_requests_total{process="0",code="404",class="4xx"}"#, 1.0),
        (r#"vermeil_host_requests_total{process="0",host="b.example"}"#, 5.0),
        (r#"vermeil_host_requests_total{process="0",host="c.example"}"#, 3.0),
        (r#"vermeil_host_requests_total{process="0",host="(others)"}"#, 1.0),
        (r#"vermeil_host_sent_body_bytes_total{process="0",host="c.example"}"#, 3000.0),
        (r#"vermeil_request_duration_seconds_count{process="0"}"#, 9.0),
        (r#"vermeil_request_duration_seconds_bucket{le="+Inf",process="0"}"#, 9.0),
    ] {
        let found = all.get(name).or_else(|| all.get(&swapped(name)));
        assert_eq!(found, Some(&value), "{name}: {all:#?}");
    }
    let sum = |name: &str| -> f64 {
        all.iter().filter(|(series, _)| series.starts_with(name)).map(|(_, value)| value).sum()
    };
    // Each core has a cache of its own, which admits a path at the fourth request within a second.
    // How many answers are hits therefore depends on the cores of the connections, and on the time.
    let looked_up = sum("vermeil_cache_hits_total") + sum("vermeil_cache_misses_total");
    assert_eq!(looked_up, 9.0, "{all:#?}");
    assert!(sum("vermeil_core_activations_total") > 0.0 && sum("vermeil_core_cpu_seconds_total") > 0.0);
    assert_eq!(sum("vermeil_core_requests_total"), 9.0);

    let (code, page) = ask(&server, "a.example", "/metrics");
    assert_eq!(code, 200);
    let page = series(&page);
    assert_eq!(page.len(), all.len(), "the route gives the same series");

    let text = status(&site, &[]);
    for words in
        ["answers: 9 with 2xx, 1 with 4xx, 0 aborted;", "durations: 50 % within ", "b.example: 5 requests"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json: Value = serde_json::from_str(&status(&site, &["--json"])).expect("JSON");
    let answers = &json["instances"][0]["answers"];
    assert_eq!(answers["statuses"][0], serde_json::json!({ "status": 200, "count": 9 }), "{answers}");
    assert!(answers["duration_s_p99"].as_f64().expect("a number") > 0.0, "{answers}");
    server.stops_clean();
}

/// The name of a histogram's series with its labels in the other order.
fn swapped(name: &str) -> String {
    name.replace(r#"{le="+Inf",process="0"}"#, r#"{process="0",le="+Inf"}"#)
}

fn metrics_answer_only_allowed_clients(io: Io) {
    let site = TestSite::new();
    let server = TestServer::configured(io, &site, HOSTS);
    assert_eq!(ask(&server, "c.example", "/metrics").0, 404, "the client is not in `from`");
    assert_eq!(ask(&server, "b.example", "/metrics").0, 404, "no route");
    let mut client = server.client();
    client.send("POST /metrics HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read(ExpectedContent::Follows).status, 405);
    server.stops_clean();
    let both = vermeil(&["status", "--json", "--metrics"]).output().expect("it runs");
    assert_eq!(both.status.code(), Some(2), "{both:?}");
}

fn aborted_requests_are_counted(io: Io) {
    let site = TestSite::new();
    site.write("large", &vec![b'x'; 64 << 20]);
    let server = TestServer::configured(io, &site, HOSTS);
    let mut client = server.client();
    client.send("GET /large HTTP/1.1\r\nHost: a.example\r\n\r\n");
    client.wait_readable();
    drop(client);
    until("the answer is counted as aborted", || {
        let all = series(&status(&site, &["--metrics"]));
        (all[r#"vermeil_requests_aborted_total{process="0"}"#] == 1.0).then_some(())
    });
    server.stops_clean();
}

fn counts_stay_over_a_reload(io: Io) {
    let site = TestSite::new();
    site.write("page", b"x");
    let server = TestServer::configured(io, &site, HOSTS);
    assert_eq!(ask(&server, "b.example", "/page").0, 200);
    // The hosts change their places.
    let file = site.outside("vermeil.toml");
    let text = fs::read_to_string(&file).expect("the configuration");
    let first = "[[host]]\nnames = [\"0.example\"]\nroot = \"site\"\n[[host]]\nnames = [\"a.example\"]";
    fs::write(&file, text.replacen("[[host]]\nnames = [\"a.example\"]", first, 1)).expect("it is written");
    let output = vermeil(&["reload", "--control"]).arg(site.outside("control")).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(ask(&server, "b.example", "/page").0, 200);
    let all = series(&status(&site, &["--metrics"]));
    assert_eq!(all[r#"vermeil_host_requests_total{process="0",host="b.example"}"#], 2.0, "{all:#?}");
    assert_eq!(all["vermeil_reloads_total"], 1.0);
    server.stops_clean();
}

/// A Prometheus that scrapes one server.
struct Prometheus {
    process: TestProcess,
    addr: std::net::SocketAddr,
}

impl Prometheus {
    fn start(program: &Path, folder: &TestSite, server: &TestServer) -> Self {
        let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let file = folder.outside("prometheus.yml");
        let target = server.addr();
        let text = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: vermeil\n    static_configs:\n      - \
             targets: ['{target}']\n"
        );
        fs::write(&file, text).expect("it is written");
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.outside("tsdb").display()))
            .arg(format!("--web.listen-address={addr}"));
        Self { process: TestProcess::spawn(command), addr }
    }

    /// The values of a query.
    fn query(&self, query: &str) -> Option<Vec<Value>> {
        assert!(!self.process.has_ended(), "{}", self.process.stderr());
        let mut stream = TcpStream::connect(self.addr).ok()?;
        write!(stream, "GET /api/v1/query?query={query} HTTP/1.0\r\nHost: x\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        answer["data"]["result"].as_array().cloned()
    }
}

fn prometheus_reads_the_metrics(io: Io) {
    let program = Path::new("/usr/bin/prometheus");
    if !program.exists() {
        return eprintln!("SKIPPED: no prometheus");
    }
    let site = TestSite::new();
    site.write("page", b"x");
    let text = HOSTS.replace("[\"a.example\"]", "[\"a.example\"]\ndefault = true");
    let server = TestServer::configured(io, &site, &text);
    (0..3).for_each(|_| assert_eq!(ask(&server, "b.example", "/page").0, 200));
    let prometheus = Prometheus::start(program, &site, &server);
    let value = |query: &str| {
        let result = prometheus.query(query)?;
        let [one] = &result[..] else { return None };
        one["value"][1].as_str()?.parse::<f64>().ok()
    };
    until("Prometheus scrapes the server", || (value("up") == Some(1.0)).then_some(()));
    let requests = "vermeil_host_requests_total{host=%22b.example%22}";
    assert_eq!(value(requests), Some(3.0));
    let quantile = "histogram_quantile(0.99,vermeil_request_duration_seconds_bucket)";
    assert!(value(quantile).is_some_and(|seconds| seconds > 0.0 && seconds < 20.0), "{:?}", value(quantile));
    // Prometheus has read every series and knows the kinds.
    let series = prometheus.query("%7B__name__=~%22vermeil_.%2B%22%7D").expect("an answer");
    let named = |name: &str| series.iter().any(|series| series["metric"]["__name__"] == name);
    for name in
        ["vermeil_connections", "vermeil_core_steals_total", "vermeil_build_info", "vermeil_cache_hits_total"]
    {
        assert!(named(name), "{name}");
    }
    // Every query of the dashboard has a metric that exists.
    let dashboard = include_str!("../../../../deploy/grafana/vermeil.json");
    let dashboard: Value = serde_json::from_str(dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().expect("a query")).collect();
    assert!(queries.len() >= 10, "{queries:?}");
    let metrics = status(&site, &["--metrics"]);
    for query in queries {
        let names = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for name in names.filter(|name| name.starts_with("vermeil_")) {
            let family = ["_bucket", "_sum", "_count", "_total"]
                .iter()
                .fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
            let is_known = metrics.contains(&format!("# TYPE {family} ")) || name.starts_with("vermeil_php_");
            assert!(is_known, "{name} of {query}");
        }
    }
    server.stops_clean();
}
