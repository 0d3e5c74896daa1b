//! PHP in several instances: each instance has a pool of its own, and a killed instance leaves no
//! pool behind.

use super::{serve, site, write};
use crate::support::{Io, TestClient, TestServer, on_usual, two_cpus, until, vermeil};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{collections::BTreeSet, path::Path, thread, time::Duration};

on_usual! {
    each_instance_has_its_own_pool,
    new_connections_go_where_less_waits_for_php,
}

/// The kernel's hash chooses the instance of a connection: with forty connections, both instances
/// get some.
const CLIENTS: usize = 40;

/// Requests that wait for the single child: four seconds of work.
const WAITING: usize = 20;

/// The number of checks for a connection on the other instance. All checks take less than that
/// time, because a status takes a fifth of a second.
const LOOKS: usize = 10;

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(100);

#[track_caller]
fn instances(control: &str) -> Vec<Value> {
    let output = vermeil(&["status", "--json", "--control", control]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status["instances"].as_array().unwrap().clone()
}

/// The masters of the answering pools, with one request for each connection.
#[track_caller]
fn masters(server: &TestServer) -> BTreeSet<u32> {
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

/// The cores of the loaded instance only wait for PHP, so their own load counts as idle.
fn new_connections_go_where_less_waits_for_php(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = site();
    write(&site, "slow.php", "usleep(200000); echo 'slept';");
    let control = site.outside("control");
    let control = control.to_str().expect("UTF-8");
    let cores = format!("{},{}", cpus[0], cpus[1]);
    let args = ["--instances", "2", "--cores", &cores, "--balance", "load-aware", "--php-children", "1"];
    let Some(server) = serve(io, &site, &[&args[..], &["--control", control]].concat()) else { return };
    server.says("vermeil: balance: ");
    if !server.stderr().contains("vermeil: balance: load-aware") {
        eprintln!("SKIPPED: the kernel takes no program: {server:?}");
        return;
    }
    let addr = server.addr();
    let from_first_cpu = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            vermeil_io::pin_current_thread(cpus[0]).expect("a cpu of ours");
            assert_eq!(
                TestClient::connect(addr).get("/slow.php").text(),
                "slept",
                "so it is known how long it takes"
            );
            let mut waiting: Vec<TestClient> = (0..WAITING).map(|_| TestClient::connect(addr)).collect();
            waiting.iter_mut().for_each(|client| client.ask("GET", "/slow.php", &[]));
            let moved = (0..LOOKS).any(|_| {
                thread::sleep(LOOK);
                drop(TestClient::connect(addr).get("/none"));
                instances(control)[0]["cores"][0]["sent_away"].as_u64() > Some(0)
            });
            (moved, waiting)
        });
        asking.join().expect("it does not panic")
    });
    let (moved, waiting) = from_first_cpu;
    assert!(moved, "{:?}", instances(control));
    drop(waiting);
    server.stops_clean();
}
