//! Several instances under one supervisor. A killed instance is started again, and the others do
//! not notice. All instances take a reload, or none. All instances drain together.

use crate::support::{
    ExpectedContent, Io, TestClient, TestProcess, TestServer, TestSite, on_usual, until, vermeil,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

on_usual!(
    one_that_is_killed_is_started_again_and_the_others_go_on,
    a_reload_is_taken_by_all_or_by_none,
    long_answers_reach_the_supervisor,
    log_rotation_spares_starting_instance,
    restarted_instance_keeps_fixed_settings,
    stop_during_restart_closes_listeners,
    stop_during_start_is_no_failure,
    all_drain_and_none_is_left,
    a_signal_to_every_process_is_the_first_and_the_second_ends_all,
    hanging_instance_delays_no_other_stop,
    without_the_supervisor_none_is_left,
    failing_instance_refuses_whole_start,
    sixty_four_on_any_number_of_cpus_serve,
    a_command_line_is_enough,
);

/// The kernel's hash chooses the instance of a connection: with forty connections, both instances
/// get some.
const CLIENTS: usize = 40;

const HOST: &str = "[[host]]\nroot = \"site\"\n";

/// The top of a configuration with two instances.
const TWO: &str = "instances = 2\nbalance = \"hash\"\ncontrol = \"control\"\n";

fn two(io: Io, site: &TestSite) -> (TestServer, PathBuf) {
    let server = TestServer::configured(io, site, &format!("{TWO}{HOST}"));
    (server, site.outside("control"))
}

#[track_caller]
fn status(control: &Path) -> Value {
    let output = vermeil(&["status", "--json", "--control", control.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn pids(status: &Value) -> Vec<i32> {
    let instances = status["instances"].as_array().unwrap();
    instances.iter().map(|instance| instance["pid"].as_i64().unwrap() as i32).collect()
}

/// Whether the process runs; a zombie counts as ended.
fn is_there(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Stops the process, and waits until each thread has stopped. The kernel stops the other threads
/// only when one of them has taken the signal, and until then the process may answer.
#[track_caller]
fn stop_process(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    let is_stopped = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    until("each thread has stopped", || {
        let mut threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        threads.all(|thread| thread.is_ok_and(is_stopped)).then_some(())
    });
}

fn clients(server: &TestServer) -> Vec<TestClient> {
    let mut clients: Vec<TestClient> = (0..CLIENTS).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    clients
}

fn one_that_is_killed_is_started_again_and_the_others_go_on(io: Io) {
    let site = TestSite::new();
    let (server, control) = two(io, &site);
    let mut clients = clients(&server);
    let before = status(&control);
    let others = before["instances"][1]["connections"].as_u64().unwrap() as usize;
    assert!((1..CLIENTS).contains(&others), "{before}");
    let pid = pids(&before)[0];
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    server.says("instance 0: it ended (signal: 9 (SIGKILL)); starting another\n");
    for _ in 0..CLIENTS {
        // Some connections wait in the sockets of the killed instance.
        assert_eq!(server.get("/").status, 200);
    }
    let still_answered = clients.iter_mut().filter_map(|client| {
        client.try_send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
        client.try_read(ExpectedContent::Follows).ok()
    });
    assert_eq!(still_answered.count(), others, "the others' connections, and no more");
    server.says("instance 0 serves again, after ");
    let after = status(&control);
    assert_eq!(after["instances"][0]["restarts"], 1, "{after}");
    assert_eq!(after["instances"][1]["restarts"], 0, "{after}");
    // Counts of the new process begin at its start; the counts and the uptime of the other process
    // continue.
    let uptimes = |status: &Value| [0, 1].map(|at| status["instances"][at]["uptime_s"].as_f64().unwrap());
    let (old, new) = (uptimes(&before), uptimes(&after));
    assert!(new[0] < new[1] && new[1] > old[1], "{before} {after}");
    let requests = |status: &Value| status["instances"][1]["requests"].as_u64();
    assert!(requests(&after) >= requests(&before), "{before} {after}");
    assert_ne!(pids(&after)[0], pid);
    assert_eq!(pids(&after)[1], pids(&before)[1]);
    server.stops_clean();
}

/// Writes the configuration and reloads the server; waits until the server has printed `words` once
/// more.
fn reload(server: &TestServer, site: &TestSite, io: Io, text: &str, words: &str) {
    let before = server.stderr().matches(words).count();
    site.configure(io, text);
    server.signal(Signal::HUP);
    until("it has reloaded", || (server.stderr().matches(words).count() > before).then_some(()));
}

fn a_reload_is_taken_by_all_or_by_none(io: Io) {
    let site = TestSite::new();
    fs::create_dir(site.outside("new")).unwrap();
    fs::write(site.outside("new/index.html"), "new").unwrap();
    // Shorter than the patience of `stops_clean`, so that a failure names the connections.
    let timeouts = "[timeouts]\ndrain = \"5s\"\n";
    let two = format!("{TWO}{timeouts}");
    let server = TestServer::configured(io, &site, &format!("{two}{HOST}"));
    let control = site.outside("control");
    let mut clients = clients(&server);
    for (text, words) in [
        ("[[host]]\nrot = \"site\"\n", "host.rot: there is no such key"),
        // An error that only an instance finds.
        ("[[host]]\nroot = \"gone\"\n", "gone: there is no such folder"),
    ] {
        reload(&server, &site, io, &format!("{two}{text}"), "the configuration stays as it is");
        server.says(words);
        for client in &mut clients {
            assert_eq!(client.get("/").text(), "<!doctype html>home\n");
        }
    }
    let other = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!("{two}[[host]]\nroot = \"new\"\n[[listener]]\naddress = \"{other}\"\n");
    reload(&server, &site, io, &text, "vermeil: reloaded: ");
    server.says(&format!("listening on {other} too\n"));
    for client in &mut clients {
        assert_eq!(client.get("/").text(), "new");
    }
    for _ in 0..CLIENTS {
        assert_eq!(TestClient::connect(other).get("/").text(), "new");
    }
    // An instance that starts now takes the configuration in force.
    let pid = pids(&status(&control))[1];
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    server.says("instance 1 serves again, after ");
    for _ in 0..CLIENTS {
        assert_eq!(TestClient::connect(other).get("/").text(), "new");
    }
    reload(&server, &site, io, &format!("{two}{HOST}"), &format!("no longer listening on {other}"));
    until("nobody listens", || TestClient::try_connect(other).is_none().then_some(()));
    reload(
        &server,
        &site,
        io,
        &format!("instances = 3\n{timeouts}{HOST}"),
        "only a restart changes instances\n",
    );
    let said = status(&control);
    assert_eq!((said["reloads"].as_u64(), pids(&said).len()), (Some(3), 2), "{said}");
    server.stops_clean();
}

/// Regression: the kernel refused the long answer to a reload, and the instances drained as if the
/// supervisor had gone.
fn long_answers_reach_the_supervisor(io: Io) {
    let site = TestSite::new();
    fs::create_dir(site.outside("sites")).unwrap();
    let text = format!("{TWO}include = \"sites/*\"\nskip_unfit_includes = true\n{HOST}");
    let server = TestServer::configured(io, &site, &text);
    let before = pids(&status(&site.outside("control")));
    for number in 0..25 {
        let text = format!("[[host]]\nnames = [\"h{number}\"]\n{}0 = 1\n", "x".repeat(10_000));
        fs::write(site.outside(&format!("sites/{number}")), text).unwrap();
    }
    reload(&server, &site, io, &text, "vermeil: reloaded: ");
    server.says("x0: there is no such key");
    assert_eq!(pids(&status(&site.outside("control"))), before);
    assert_eq!(server.get("/").status, 200);
    assert!(!server.stderr().contains("the supervisor is gone"), "{server:?}");
    server.stops_clean();
}

/// Regression: the signal to reopen the log ended an instance that did not watch for signals yet.
fn log_rotation_spares_starting_instance(io: Io) {
    let site = TestSite::new();
    let (server, control) = two(io, &site);
    let pid = pids(&status(&control))[1];
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    until("another serves", || {
        server.signal(Signal::USR1);
        server.stderr().contains("instance 1 serves again, after ").then_some(())
    });
    assert_eq!(status(&control)["instances"][1]["restarts"], 1, "{server:?}");
    server.stops_clean();
}

/// Regression: a restarted instance took settings that only a restart of the server changes, and
/// never served.
fn restarted_instance_keeps_fixed_settings(io: Io) {
    let site = TestSite::new();
    let (server, control) = two(io, &site);
    let text = format!("{TWO}{HOST}[programs]\nspool_folder = \"/nowhere\"\n");
    for instance in [0, 1] {
        reload(&server, &site, io, &text, "only a restart changes programs.spool_folder\n");
        let pid = pids(&status(&control))[instance];
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        server.says(&format!("instance {instance} serves again, after "));
    }
    // The file has the settings in force again.
    reload(&server, &site, io, &format!("{TWO}{HOST}"), "vermeil: reloaded: ");
    assert_eq!(server.stderr().matches("only a restart changes").count(), 2, "{server:?}");
    server.stops_clean();
}

/// Regression: the start of an instance held the lock that the supervisor needs to close its
/// sockets, so clients connected and waited in vain until the last instance had ended.
fn stop_during_restart_closes_listeners(io: Io) {
    let site = TestSite::new();
    let text = format!("{TWO}[timeouts]\ndrain = \"1h\"\nheader = \"1h\"\n{HOST}");
    let server = TestServer::configured(io, &site, &text);
    // One of these keeps instance 0 from its end.
    let mut busy = clients(&server);
    for client in &mut busy {
        client.send("GET / HTTP/1.1\r\nHost: x\r\n");
    }
    let pid = pids(&status(&site.outside("control")))[1];
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    server.says("instance 1: it ended");
    server.signal(Signal::TERM);
    until("nobody listens", || TestClient::try_connect(server.addr()).is_none().then_some(()));
    assert!(!server.has_ended(), "{server:?}");
    server.signal(Signal::TERM);
    assert!(server.wait().is_some());
}

/// The processes that process `parent` has started.
fn children(parent: u32) -> Vec<i32> {
    let parent_of = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| parent_of(pid) == Some(parent)).collect()
}

/// Regression: the signal to every process ended an instance that did not watch for signals yet,
/// and the supervisor reported a failed start.
fn stop_during_start_is_no_failure(io: Io) {
    let site = TestSite::new();
    let file = site.configure(io, &format!("{TWO}{HOST}"));
    let server = TestProcess::spawn(vermeil(&["serve", "--config", file.to_str().unwrap()]));
    let instances = until("an instance is there", || {
        let instances = children(server.pid());
        (!instances.is_empty()).then_some(instances)
    });
    server.signal(Signal::TERM);
    for instance in instances {
        // The instance may have ended.
        let _ = kill_process(Pid::from_raw(instance).unwrap(), Signal::TERM);
    }
    assert_eq!(server.wait(), Some(0), "{}", server.stderr());
}

const LARGE: usize = 8 << 20;

/// Clients in the middle of a large file.
fn slow_clients(site: &TestSite, server: &TestServer) -> Vec<TestClient> {
    site.write("large", &vec![b'x'; LARGE]);
    let mut slow: Vec<TestClient> = (0..8).map(|_| server.narrow_client()).collect();
    for client in &mut slow {
        client.ask("GET", "/large", &[]);
        client.receive_at_least(1);
    }
    slow
}

fn all_drain_and_none_is_left(io: Io) {
    let site = TestSite::new();
    let (server, control) = two(io, &site);
    let pids = pids(&status(&control));
    let mut slow = slow_clients(&site, &server);
    server.signal(Signal::TERM);
    server.says("draining, at most 30 s");
    for client in &mut slow {
        assert_eq!(client.read(ExpectedContent::Follows).body.len(), LARGE);
    }
    assert_eq!(server.wait(), Some(0), "{server:?}");
    assert!(!pids.into_iter().any(is_there));
}

/// systemd signals every process of a service. Regression: an instance took its supervisor's signal
/// for the second signal, and cut its requests.
fn a_signal_to_every_process_is_the_first_and_the_second_ends_all(io: Io) {
    let site = TestSite::new();
    let all_drain = |server: &TestServer| {
        until("all drain", || (server.stderr().matches("draining, at most 30 s").count() == 3).then_some(()));
    };
    let (server, control) = two(io, &site);
    let mut slow = slow_clients(&site, &server);
    let instances = pids(&status(&control));
    for _ in 0..2 {
        for &instance in &instances {
            kill_process(Pid::from_raw(instance).unwrap(), Signal::TERM).unwrap();
        }
    }
    server.signal(Signal::TERM);
    all_drain(&server);
    for client in &mut slow {
        assert_eq!(client.read(ExpectedContent::Follows).body.len(), LARGE);
    }
    assert_eq!(server.wait(), Some(0), "{server:?}");

    let (server, _) = two(io, &site);
    let slow = slow_clients(&site, &server);
    server.signal(Signal::TERM);
    all_drain(&server);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(4), "{server:?}");
    drop(slow);
}

/// Regression: a hanging instance delayed the supervisor's stop for ever, a reload for a minute,
/// and every status request with the reload.
fn hanging_instance_delays_no_other_stop(io: Io) {
    let site = TestSite::new();
    let text = format!("{TWO}[timeouts]\ndrain = \"10ms\"\n{HOST}");
    let server = TestServer::configured(io, &site, &text);
    let control = site.outside("control");
    let hanging = pids(&status(&control))[1];
    stop_process(hanging);
    reload(&server, &site, io, &text, "the configuration stays as it is");
    server.says("instance 1 does not answer; end its process, and another is started");
    let said = status(&control);
    assert_eq!((pids(&said).len(), &said["silent"]), (1, &serde_json::json!([1])), "{said}");
    server.signal(Signal::HUP);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(4), "{server:?}");
    server.says(&format!("instance 1 (process {hanging}) does not end; killed"));
    assert!(!is_there(hanging));
}

fn without_the_supervisor_none_is_left(io: Io) {
    let site = TestSite::new();
    let (server, control) = two(io, &site);
    let pids = pids(&status(&control));
    server.signal(Signal::KILL);
    server.wait();
    until("all have ended", || (!pids.iter().any(|pid| is_there(*pid))).then_some(()));
    server.says("the supervisor is gone");
}

fn failing_instance_refuses_whole_start(io: Io) {
    let site = TestSite::new();
    let file = site.configure(io, "instances = 2\n[[host]]\nroot = \"gone\"\n");
    let server = TestProcess::spawn(vermeil(&["serve", "--config", file.to_str().unwrap()]));
    assert_eq!(server.wait(), Some(3));
    until("both have said why", || {
        let said = server.stderr();
        (said.contains("vermeil[1]: ")
            && said.contains("gone: there is no such folder")
            && said.contains("does not serve: it ended"))
        .then_some(())
    });
}

fn sixty_four_on_any_number_of_cpus_serve(io: Io) {
    let site = TestSite::new();
    let control = site.outside("control");
    let arguments = ["--instances", "64", "--balance", "hash", "--control", control.to_str().unwrap()];
    let server = TestServer::start(io, &site, &arguments);
    for _ in 0..CLIENTS {
        assert_eq!(server.get("/").status, 200);
    }
    let output = vermeil(&["status", "--control", control.to_str().unwrap()]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(", 1 core "), "{output:?}");
    let said = status(&control);
    let answered = pids(&said).len() + said["silent"].as_array().unwrap().len();
    assert_eq!(answered, 64, "{said}");
    server.stops_clean();
}

fn a_command_line_is_enough(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &["--instances", "2", "--log", "-"]);
    for _ in 0..CLIENTS {
        assert_eq!(server.get("/").status, 200);
    }
    until("all lines are there", || {
        let lines = server.stdout();
        (lines.lines().filter(|line| line.contains("\"GET / HTTP/1.1\" 200")).count() == CLIENTS)
            .then_some(())
    });
    server.signal(Signal::HUP);
    assert_eq!(server.get("/").status, 200);
    server.stops_clean();
}
