//! `--trace`: a server's recording of real requests is simulated on another machine.

use crate::support::{Io, TestServer, TestSite, noise, on_usual, vermeil};
use serde_json::Value;
use std::process::Output;

on_usual!(a_server_is_replayed_on_a_machine_one_does_not_have, configured_server_leaves_a_trace);

fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

fn a_server_is_replayed_on_a_machine_one_does_not_have(io: Io) {
    let site = TestSite::new();
    site.write("page", &noise(1, 10_000));
    let trace = site.outside("server.ndjson");
    let trace = trace.to_str().unwrap();
    let server = TestServer::start(io, &site, &["--trace", trace]);
    let mut clients = [server.client(), server.client(), server.client()];
    for _ in 0..20 {
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/page").status, 200));
    }
    drop(clients);
    server.stops_clean();
    assert!(server.stderr().contains("vermeil: trace: "), "{server:?}");
    let machine = ["--machine", "node:4 l3:1(size=32MiB) core:4 pu:1", "--working-set", "4K"];
    for policy in ["none", "adaptive"] {
        let run =
            vermeil(&["sim", "run", trace, "--policy", policy, "--json"]).args(machine).output().unwrap();
        let run: Value = serde_json::from_str(stdout(&run)).unwrap();
        // Each request of each client was a wake-up at least.
        let events = run["events"].as_u64().unwrap_or_default();
        assert!(events >= 60, "{policy}: {run}");
        assert_eq!(run["policy"], policy);
    }
    let compared = vermeil(&["sim", "run", trace, "--compare", "none,mely"]).args(machine).output().unwrap();
    assert!(stdout(&compared).contains("mely"), "{compared:?}");
}

fn configured_server_leaves_a_trace(io: Io) {
    let site = TestSite::new();
    site.write("page", b"of a configured host");
    let file = site.configure(io, "[[host]]\ndefault = true\nroot = \"site\"\n");
    let trace = site.outside("server.ndjson");
    let server = TestServer::of_file_with(&file, &["--trace", trace.to_str().unwrap()]);
    assert_eq!(server.client().get("/page").status, 200);
    server.stops_clean();
    let text = std::fs::read_to_string(&trace).unwrap();
    assert!(text.lines().skip(1).any(|line| line.contains("accept")), "{text}");
    let picture = site.outside("server.svg");
    let files = ["--timeline", picture.to_str().unwrap(), trace.to_str().unwrap()];
    let shown = vermeil(&["sim", "show"]).args(files).output().unwrap();
    let shown = stdout(&shown).to_owned();
    assert!(shown.contains("accept::accept") && shown.contains("policy adaptive"), "{shown}");
    assert!(std::fs::read_to_string(&picture).unwrap().starts_with("<svg"));
    let foreign = vermeil(&["sim", "show", file.to_str().unwrap()]).output().unwrap();
    assert_eq!(foreign.status.code(), Some(2), "{foreign:?}");
    let said = String::from_utf8_lossy(&foreign.stderr);
    assert!(said.contains("vermeil.toml: recording: line 1: the header: "), "{said}");
}
