//! Children of the server's own pool, with php-fpm and with php-cgi. Children are replaced after
//! their requests, with their compiled code kept. The status has the time that requests waited for
//! a child, and the time in the child.

use super::{installed, site, with, writable, write};
use crate::support::{ExpectedContent, Io, TestServer, TestSite, on_usual, vermeil};
use serde_json::Value;
use std::{collections::HashMap, fs};

on_usual! {
    children_are_replaced_after_their_requests,
    posts_are_answered_while_children_are_replaced,
    code_is_compiled_once,
    status_has_waiting_and_serving_times,
    work_after_answer_delays_no_request,
}

/// Runs `test` with a server of each kind of pool that is there.
fn with_each(io: Io, site: &TestSite, args: &[&str], test: impl Fn(&str, &TestServer)) {
    for name in ["php-fpm", "php-cgi"] {
        let Some(program) = installed(name) else {
            eprintln!("SKIPPED: no {name} on this machine");
            continue;
        };
        let php = format!("--php={}", program.display());
        let server = TestServer::start(io, site, &[&[php.as_str()], args].concat());
        test(name, &server);
        server.stops_clean();
    }
}

fn children_are_replaced_after_their_requests(io: Io) {
    let site = site();
    write(&site, "who.php", "echo getmypid();");
    with_each(io, &site, &["--php-children", "1", "--php-requests", "3"], |name, server| {
        let mut client = server.client();
        let mut requests: HashMap<String, usize> = HashMap::new();
        for _ in 0..12 {
            let response = client.get("/who.php");
            assert_eq!(response.status, 200, "{name}: {response:?}");
            *requests.entry(response.text().to_owned()).or_default() += 1;
        }
        assert!(requests.len() >= 4 && requests.values().all(|&count| count <= 3), "{name}: {requests:?}");
    });
    with_each(io, &site, &["--php-children", "1", "--php-requests", "0"], |name, server| {
        let mut client = server.client();
        let first = client.get("/who.php").text().to_owned();
        (0..12).for_each(|_| assert_eq!(client.get("/who.php").text(), first, "{name}: never"));
    });
}

/// Regression: a POST went out on the connection of a child that had just served its last request,
/// and got 502.
fn posts_are_answered_while_children_are_replaced(io: Io) {
    let site = site();
    write(&site, "echo.php", "echo file_get_contents('php://input');");
    with_each(io, &site, &["--php-children", "2", "--php-requests", "5"], |name, server| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = server.client();
                    for _ in 0..100 {
                        client.ask("POST", "/echo.php", &["Content-Length: 4"]);
                        client.send("body");
                        let response = client.read(ExpectedContent::Follows);
                        assert_eq!((response.status, response.text()), (200, "body"), "{name}: {server:?}");
                    }
                });
            }
        });
    });
}

fn code_is_compiled_once(io: Io) {
    let site = site();
    let code = "if (!function_exists('opcache_get_status')) { echo 'none'; return; } \
                $all = opcache_get_status(); $hits = $all['scripts'][__FILE__]['hits'] ?? 0; \
                echo $all['opcache_enabled'] ? 'on' : 'off', ' ', opcache_is_script_cached(__FILE__) ? 'kept' : 'not', ' ', $hits;";
    write(&site, "code.php", code);
    // PHP does not cache a file that was just written, because the file may be written again.
    site.age("code.php");
    with_each(io, &site, &["--php-children", "1"], |name, server| {
        let mut client = server.client();
        let first = client.get("/code.php").text().to_owned();
        if first == "none" {
            return eprintln!("SKIPPED: {name} has no opcache on this machine");
        }
        let said = client.get("/code.php").text().to_owned();
        let hits = said.strip_prefix("on kept ").and_then(|hits| hits.parse::<u64>().ok());
        assert!(hits.is_some_and(|hits| hits > 0), "{name}: {first}, then {said}");
    });
}

/// Regression: the next request went to the child that worked on, although others were free.
fn work_after_answer_delays_no_request(io: Io) {
    let site = site();
    let go = writable(&site, "work").join("go");
    let wait = format!(
        "for ($i = 0; $i < 60000 && !file_exists('{}'); $i++) {{ usleep(1000); clearstatcache(); }}",
        go.display()
    );
    write(&site, "work.php", &format!("echo getmypid(); fastcgi_finish_request(); {wait}"));
    write(&site, "who.php", "echo getmypid();");
    with("php-fpm", |program| {
        let php = format!("--php={}", program.display());
        let server = TestServer::start(io, &site, &[&php, "--php-children", "2"]);
        let mut client = server.client();
        let worker = client.get("/work.php").text().to_owned();
        for _ in 0..3 {
            assert_ne!(client.get("/who.php").text(), worker, "that child works");
        }
        fs::write(&go, "").expect("a file");
        server.stops_clean();
    });
}

/// The last number in milliseconds before the text `behind` in a line of the status.
fn ms_before(text: &str, behind: &str) -> Option<f64> {
    let (before, _) = text.split_once(behind)?;
    before.rsplit_once(' ')?.1.parse().ok()
}

fn status_has_waiting_and_serving_times(io: Io) {
    let site = site();
    write(&site, "slow.php", "usleep(80_000); echo 'slow';");
    let control = site.outside("control");
    let control = control.to_str().expect("UTF-8");
    with_each(io, &site, &["--php-children", "1", "--control", control], |name, server| {
        let mut clients = [server.client(), server.client(), server.client()];
        clients.iter_mut().for_each(|client| client.ask("GET", "/slow.php", &[]));
        clients
            .iter_mut()
            .for_each(|client| assert_eq!(client.read(ExpectedContent::Follows).text(), "slow"));
        let asked = |args: &[&str]| {
            let output = vermeil(&["status", "--control", control]).args(args).output().expect("it runs");
            assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        let status: Value = serde_json::from_str(&asked(&["--json"])).expect("JSON");
        let php = &status["instances"][0]["php"];
        let seconds = |field: &str| php[field].as_f64().unwrap_or_else(|| panic!("{name}: {field}: {php}"));
        assert_eq!(php["requests"], 3, "{name}");
        // With one child, the second request waits for one request, the third for two; each request
        // takes its sleep time.
        let [wait, wait_max] = ["wait_s_mean", "wait_s_max"].map(seconds);
        let [service, service_max] = ["service_s_mean", "service_s_max"].map(seconds);
        assert!(wait_max >= 0.15 && (wait_max / 3.0..wait_max).contains(&wait), "{name}: {php}");
        assert!(service >= 0.08 && service <= service_max && service_max < 10.0, "{name}: {php}");

        let text = asked(&[]);
        let shown = |what: &str| {
            let (_, from) = text.split_once(what).unwrap_or_else(|| panic!("{name}: {what}: {text}"));
            let pair = (ms_before(from, " ms (at most "), ms_before(from, " ms)"));
            let (Some(mean), Some(max)) = pair else { panic!("{name}: {what}: {text}") };
            (mean / 1000.0, max / 1000.0)
        };
        for (what, mean, max) in [("; waited", wait, wait_max), (", served in", service, service_max)] {
            let (shown_mean, shown_max) = shown(what);
            let is_near = |a: f64, b: f64| (a - b).abs() < 0.0002;
            assert!(is_near(shown_mean, mean) && is_near(shown_max, max), "{name}: {what}: {text}");
        }
    });
}
