//! The pages of `vermeil load files support`, run by real PHP. The injector accepts PHP's output
//! with the back end's answers, and rejects PHP's output without the back end.

use super::{serve, site};
use crate::support::{Io, TestProcess, TestSite, on_both, until, vermeil};
use std::path::Path;

on_both! {
    support_is_served_by_real_php,
}

/// `vermeil load backend`, with its address.
fn backend() -> (TestProcess, String) {
    let process = TestProcess::spawn(vermeil(&["load", "backend", "--listen", "127.0.0.1:0"]));
    let addr = until("the back end says where it listens", || {
        let said = process.stderr();
        let (_, rest) = said.split_once("back end at ")?;
        rest.split_once('\n').map(|(addr, _)| addr.to_owned())
    });
    (process, addr)
}

fn files(site: &TestSite, backend: &str) {
    let root = site.root();
    // One directory, the minimum.
    let process = TestProcess::spawn(vermeil(&[
        "load",
        "files",
        "support",
        utf8(&root),
        "--scale",
        "1",
        "--backend",
        backend,
    ]));
    assert_eq!(process.wait(), Some(0), "{}", process.stderr());
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The record of some pages; users think and wait a thousandth of the usual time.
fn load(url: &str, pages: &str) -> serde_json::Value {
    let words =
        ["load", "support", url, "-c", "3", "-n", pages, "--compress", "1000", "--cores", "1", "--json", "-"];
    let process = TestProcess::spawn(vermeil(&words));
    process.wait();
    // The output arrives a moment after the end.
    until("the record is whole", || serde_json::from_str(&process.stdout()).ok())
}

fn support_is_served_by_real_php(io: Io) {
    let (backend, addr) = backend();
    let site = site();
    files(&site, &addr);
    let Some(server) = serve(io, &site, &["--php-children", "3"]) else { return };
    let url = format!("http://{}/", server.addr());
    let record = load(&url, "60");
    assert_eq!(
        (record["good"].as_u64(), record["failed"].as_u64()),
        (Some(60), Some(0)),
        "{record} {server:?}"
    );
    let visited =
        record["pages"].as_array().expect("pages").iter().filter(|page| page["good"].as_u64() > Some(0));
    assert!(visited.count() >= 3, "{record}");
    drop(backend);
    let record = load(&url, "5");
    assert_eq!(record["faults"][0][0].as_str(), Some("no_back_end"), "{record} {server:?}");
    server.stops_clean();
}
