//! PHP in several instances: each has a pool of its own, and one that is killed does not leave its pool behind.

use super::{serve, site, write};
use crate::support::{Io, Server, on_both, until, vermeil};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{collections::BTreeSet, path::Path};

on_both! {
    each_instance_has_its_own_pool,
}

/// Which instance a connection comes to, the kernel's hash decides: among forty, both have some.
const CLIENTS: usize = 40;

#[track_caller]
fn instances(control: &str) -> Vec<Value> {
    let output = vermeil(&["status", "--json", "--control", control]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status["instances"].as_array().unwrap().clone()
}

/// The masters of the pools that answer, one request per connection.
#[track_caller]
fn masters(server: &Server) -> BTreeSet<u32> {
    let answers = (0..CLIENTS).map(|_| {
        let response = server.get("/parent.php");
        assert_eq!(response.status, 200, "{response:?}");
        response.text().parse::<u32>().expect("a process's number")
    });
    answers.collect()
}

fn each_instance_has_its_own_pool(io: Io) {
    let site = site();
    write(
        &site,
        "parent.php",
        "preg_match('/^PPid:\\s*(\\d+)/m', file_get_contents('/proc/self/status'), $m); echo $m[1];",
    );
    let control = site.outside("control");
    let control = control.to_str().expect("UTF-8");
    let args = ["--instances", "2", "--balance", "hash", "--php-children", "2", "--control", control];
    let Some(server) = serve(io, &site, &args) else { return };
    let before = masters(&server);
    assert_eq!(before.len(), 2, "a master for each instance: {before:?}");
    let pools: Vec<Value> = instances(control).iter().map(|instance| instance["php"].clone()).collect();
    assert!(pools.iter().all(|pool| pool["children"] == 2), "{pools:?}");
    let answered: Vec<u64> = pools.iter().map(|pool| pool["requests"].as_u64().unwrap()).collect();
    assert_eq!(answered.iter().sum::<u64>(), CLIENTS as u64, "{pools:?}");
    assert!(answered.iter().all(|&requests| requests > 0), "{pools:?}");

    let pid = instances(control)[0]["pid"].as_i64().unwrap() as i32;
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    server.says("instance 0 serves again, after ");
    let after = masters(&server);
    assert_eq!((after.len(), after.intersection(&before).count()), (2, 1), "{before:?}, then {after:?}");
    until("the pool of the killed one is gone", || {
        let gone = before.difference(&after).all(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        gone.then_some(())
    });
    server.stops_clean();
    until("no pool is left", || {
        let gone = after.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        gone.then_some(())
    });
}
