//! PHP is killed: children and parents, between requests and amid requests. No request is lost.

use super::{serve, site, with, write};
use crate::support::{Io, TestServer, on_both, until};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

on_both! {
    a_stale_connection_is_not_noticed,
    a_pool_that_crashes_loses_no_request,
    php_cgi_works_and_crashes_alike,
}

fn a_stale_connection_is_not_noticed(io: Io) {
    let site = site();
    write(&site, "pid.php", "echo getmypid();");
    let Some(server) = serve(io, &site, &["--php-children", "1"]) else { return };
    let mut client = server.client();
    for _ in 0..5 {
        let pid: i32 = client.get("/pid.php").text().parse().expect("a number");
        kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("it runs");
        let next = client.get("/pid.php");
        assert_eq!(next.status, 200, "{next:?}");
        assert_ne!(next.text(), pid.to_string());
    }
}

/// Signals on drop that it is time to stop.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Kills the pool's processes again and again under load: each request is answered, some with 502
/// or 503.
fn crash(server: &TestServer, kill: impl Fn(u32)) {
    let (stop, answered, good) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        // Also when something fails below.
        let stopping = StopOnDrop(&stop);
        for _ in 0..6 {
            scope.spawn(|| {
                let mut client = server.client();
                while !stop.load(Ordering::Relaxed) {
                    let response = client.get("/x.php");
                    assert!(matches!(response.status, 200 | 502 | 503), "{response:?}");
                    answered.fetch_add(1, Ordering::Relaxed);
                    good.fetch_add(usize::from(response.status == 200), Ordering::Relaxed);
                    if response.closes() {
                        client = server.client();
                    }
                }
            });
        }
        for round in 1..=3 {
            let before = good.load(Ordering::Relaxed);
            until("it serves", || (good.load(Ordering::Relaxed) > before + 20).then_some(()));
            kill(round);
        }
        let before = good.load(Ordering::Relaxed);
        until("it serves again", || (good.load(Ordering::Relaxed) > before + 20).then_some(()));
        drop(stopping);
    });
    assert!(answered.load(Ordering::Relaxed) > 80);
    server.stops_clean();
}

fn a_pool_that_crashes_loses_no_request(io: Io) {
    let site = site();
    // The group is that of the pool's first process, also in a child that outlives that process for
    // a moment and has another parent then.
    write(&site, "x.php", "echo posix_getpgrp();");
    let Some(server) = serve(io, &site, &["--php-children", "3"]) else { return };
    let first = || Pid::from_raw(server.get("/x.php").text().parse().ok()?);
    crash(&server, |round| {
        until("the pool's first process is killed", || kill_process(first()?, Signal::KILL).ok());
        until("its end is known", || {
            // The log may first have a request that the killed pool was serving. Then the end of
            // the pool is only counted for a while.
            let told = ["the pool was ended by signal 9", "(502)"];
            (told.iter().any(|told| server.stderr().contains(told)) || round > 1).then_some(())
        });
    });
}

fn php_cgi_works_and_crashes_alike(io: Io) {
    with("php-cgi", |program| {
        let site = site();
        write(&site, "sapi.php", "echo PHP_SAPI, ' ', ini_get('opcache.enable');");
        write(&site, "x.php", "echo getmypid();");
        let option = format!("--php={}", program.display());
        let server = TestServer::start(io, &site, &[&option, "--php-children", "3"]);
        assert_eq!(server.get("/sapi.php").text(), "cgi-fcgi 1");
        // The test kills a child, and its parent replaces the child.
        crash(&server, |_| {
            let pid = until("a child", || server.get("/x.php").text().parse::<i32>().ok());
            // The child may have been replaced by now.
            let _ = kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL);
        });
    });
}
