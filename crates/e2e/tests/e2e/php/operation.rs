//! Running a pool, from the operator's view: turns, bounds, times, messages, and no leftovers.

use super::{installed, serve, site, with, writable, write};
use crate::{
    cgi,
    support::{ExpectedContent, Io, TestClient, TestServer, TestSite, noise, on_usual, until},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

on_usual! {
    errors_go_to_the_notices_with_the_request,
    a_script_may_end_in_capitals,
    a_folder_named_through_its_parent_has_scripts,
    malformed_answer_is_a_502,
    a_client_that_goes_ends_its_program,
    one_child_serves_clients_of_all_cores,
    a_full_queue_refuses,
    overdue_request_gets_an_error,
    a_pool_of_others_is_used,
    external_pool_is_shared_with_other_servers,
    kept_connections_of_external_pool_starve_no_request,
    nothing_is_left_behind,
    no_child_of_php_outlives_its_killed_keeper,
}

fn errors_go_to_the_notices_with_the_request(io: Io) {
    let site = site();
    write(&site, "bad.php", "error_log(\"one\\ntwo\"); echo $_SERVER['UNIQUE_ID']; strlen();");
    let Some(server) = serve(io, &site, &[]) else { return };
    let response = server.get("/bad.php");
    let id = response.text().get(..16).unwrap_or_default().to_owned();
    // A fatal error after output: the client gets the output, or a 500 if PHP had buffered the
    // output.
    assert!(matches!(response.status, 200 | 500), "{response:?}");
    if id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        server.says(&format!("vermeil: php {id}: PHP message: one"));
        server.says(&format!("vermeil: php {id}: two"));
    }
    server.says("ArgumentCountError");
}

fn a_script_may_end_in_capitals(io: Io) {
    let site = site();
    write(&site, "x.PHP", "echo 'x';");
    let Some(server) = serve(io, &site, &[]) else { return };
    assert_eq!(server.get("/x.PHP").text(), "x");
    server.stops_clean();
}

fn a_folder_named_through_its_parent_has_scripts(io: Io) {
    let site = site();
    write(&site, "x.php", "echo $_SERVER['DOCUMENT_ROOT'];");
    write(&site, "not/it.php", "");
    if installed("php-fpm").is_none() || installed("php-cgi").is_none() {
        return eprintln!("SKIPPED: no php-fpm or no php-cgi on this machine");
    }
    let root = site.root().canonicalize().expect("there");
    for of_host in ["php = true\n", "[host.php]\n"] {
        let text = format!("[[host]]\nroot = \"site/not/..\"\n{of_host}");
        let server = TestServer::configured(io, &site, &text);
        assert_eq!(server.get("/x.php").text(), root.to_str().expect("ASCII"), "{of_host}");
        server.stops_clean();
    }
}

fn malformed_answer_is_a_502(io: Io) {
    let site = site();
    write(
        &site,
        "twice.php",
        "header('Content-Length: 3'); header('Content-Length: 4', false); echo 'abcd';",
    );
    write(&site, "coding.php", "header('Transfer-Encoding: chunked'); echo 'x';");
    write(&site, "dies.php", "posix_kill(getmypid(), 9) ?: exec('kill -9 ' . getmypid());");
    write(&site, "short.php", "header('Content-Length: 9'); echo 'abcd';");
    let Some(server) = serve(io, &site, &["--php-children", "2"]) else { return };
    let mut client = server.client();
    for target in ["/twice.php", "/coding.php", "/dies.php"] {
        let response = client.get(target);
        assert_eq!(response.status, 502, "{target}");
    }
    server.says("php ");
    server.says(" (502)");
    client.ask("GET", "/short.php", &[]);
    assert!(client.try_read(ExpectedContent::Follows).is_err(), "a part is never taken for the whole");
    until("a child is there again", || {
        let response = server.get("/index.html");
        (response.status == 200).then_some(())
    });
}

fn a_client_that_goes_ends_its_program(io: Io) {
    let site = site();
    let folder = writable(&site, "signals");
    let (began, ended) = (folder.join("began"), folder.join("ended"));
    let code = format!(
        "register_shutdown_function(function () {{ touch('{}'); }}); touch('{}'); while (true) {{ echo ' '; ob_flush(); flush(); usleep(1000); }}",
        ended.display(),
        began.display()
    );
    write(&site, "endless.php", &code);
    write(&site, "x.php", "echo 'x';");
    let Some(server) = serve(io, &site, &["--php-children", "1"]) else { return };
    let mut client = server.client();
    client.ask("GET", "/endless.php", &[]);
    client.receive_at_least(1);
    until("the program runs", || began.exists().then_some(()));
    // Another waits for the only child.
    let mut waiting = server.client();
    waiting.ask("GET", "/x.php", &[]);
    drop(client);
    until("the program has noticed", || ended.exists().then_some(()));
    assert_eq!(waiting.read(ExpectedContent::Follows).text(), "x");
    server.stops_clean();
}

fn one_child_serves_clients_of_all_cores(io: Io) {
    let site = site();
    write(&site, "x.php", "echo 'x';");
    let Some(server) = serve(io, &site, &["--php-children", "1"]) else { return };
    // Enough connections that every core has some; each core keeps the connection to PHP after a
    // request.
    let mut clients: Vec<_> = (0..16).map(|_| server.client()).collect();
    for _ in 0..10 {
        for client in &mut clients {
            assert_eq!(client.get("/x.php").text(), "x");
        }
    }
    // All requests come at once, and each has its turn.
    for _ in 0..10 {
        clients.iter_mut().for_each(|client| client.ask("GET", "/x.php", &[]));
        for client in &mut clients {
            assert_eq!(client.read(ExpectedContent::Follows).text(), "x");
        }
    }
    server.stops_clean();
    server.says("php: 320 requests, 0 refused, 0 given up");
}

fn a_full_queue_refuses(io: Io) {
    let site = site();
    let go = writable(&site, "signals").join("go");
    write(
        &site,
        "wait.php",
        &format!(
            "while (!file_exists('{}')) {{ clearstatcache(); usleep(1000); }} echo 'done';",
            go.display()
        ),
    );
    let Some(server) = serve(io, &site, &["--php-children", "1", "--php-queue", "1"]) else { return };
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.ask("GET", "/wait.php", &[]));
    // A request is served, another waits, and a third is refused, in any order.
    let refused = until("one is refused", || clients.iter().position(TestClient::is_readable));
    let response = clients.remove(refused).read(ExpectedContent::Follows);
    assert_eq!((response.status, response.field("retry-after")), (503, "1"));
    // Files do not wait for PHP.
    assert_eq!(server.get("/index.html").status, 200);
    fs::write(go, "").expect("a file");
    for mut client in clients {
        assert_eq!(client.read(ExpectedContent::Follows).text(), "done");
    }
    server.stops_clean();
    server.says("php: 2 requests, 1 refused, 0 given up");
}

fn overdue_request_gets_an_error(io: Io) {
    let site = site();
    let go = writable(&site, "signals").join("go");
    let wait = format!("while (!file_exists('{}')) {{ clearstatcache(); usleep(1000); }}", go.display());
    write(&site, "wait.php", &format!("{wait} echo 'done';"));
    let times = ["--php-children", "1", "--programs-timeout", "500ms", "--programs-queue-timeout", "100ms"];
    let Some(server) = serve(io, &site, &times) else { return };
    let mut first = server.client();
    first.ask("GET", "/wait.php", &[]);
    let mut second = server.client();
    second.ask("GET", "/wait.php", &[]);
    // One request has the child and is late; the other request never gets the child.
    let mut statuses =
        [first.read(ExpectedContent::Follows).status, second.read(ExpectedContent::Follows).status];
    statuses.sort_unstable();
    assert_eq!(statuses, [503, 504]);
    server.says("none was free within 0.1 s; that limit is changed by --programs-queue-timeout, or more --php-children (503)");
    fs::write(go, "").expect("a file");
    assert_eq!(first.get("/index.html").status, 200, "the connection goes on");
}

/// A php-fpm that the test runs.
pub(super) struct Fpm(Child);

impl Fpm {
    /// With the setting under which php-fpm would run the file that PATH_TRANSLATED names.
    fn start(site: &TestSite, listen: &str, children: u32) -> Option<Self> {
        Self::start_with(site, listen, children, "cgi.fix_pathinfo=0")
    }

    pub(super) fn start_with(site: &TestSite, listen: &str, children: u32, setting: &str) -> Option<Self> {
        let program = installed("php-fpm")?;
        let file = site.outside("fpm.conf");
        let user =
            if rustix::process::geteuid().is_root() { "user = www-data\ngroup = www-data\n" } else { "" };
        let text = format!(
            "[global]\nerror_log = /dev/null\ndaemonize = no\n[test]\n{user}listen = {listen}\nlisten.mode = 0666\n\
             pm = static\npm.max_children = {children}\n"
        );
        fs::write(&file, text).expect("a file");
        let mut command = Command::new(program);
        command.args(["--nodaemonize", "-d", setting, "--fpm-config"]).arg(file);
        Some(Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("php-fpm starts")))
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.0.id().cast_signed()).expect("a process");
        // The children end with their master.
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.0.wait();
    }
}

fn a_pool_of_others_is_used(io: Io) {
    let site = site();
    write(&site, "x.php", "echo 'x';");
    write(&site, ".hidden/y.php", "echo 'harm';");
    let socket = writable(&site, "run").join("php.sock");
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("bound").port()
    };
    for (listen, option) in [
        (socket.display().to_string(), format!("--php=unix:{}", socket.display())),
        (format!("127.0.0.1:{port}"), format!("--php=127.0.0.1:{port}")),
        (format!("127.0.0.1:{port}"), format!("--php=localhost:{port}")),
    ] {
        let server = TestServer::start(io, &site, &[&option, "--php-children", "2"]);
        // No process listens yet.
        assert_eq!(server.get("/x.php").status, 502);
        let Some(_fpm) = Fpm::start(&site, &listen, 2) else {
            return eprintln!("SKIPPED: no php-fpm on this machine");
        };
        let mut client = server.client();
        until("it listens", || (client.get("/x.php").status == 200).then_some(()));
        for _ in 0..50 {
            assert_eq!(client.get("/x.php").text(), "x");
        }
        assert_eq!(client.get("/x.php/.hidden/y.php").text(), "x", "only what was looked up is run");
        server.stops_clean();
    }
}

fn external_pool_is_shared_with_other_servers(io: Io) {
    let site = site();
    write(&site, "x.php", "echo 'x', file_get_contents('php://input');");
    let socket = writable(&site, "run").join("php.sock");
    let Some(_fpm) = Fpm::start(&site, &socket.display().to_string(), 1) else {
        return eprintln!("SKIPPED: no php-fpm on this machine");
    };
    // Both cores assume four children and keep one connection each, but there is one child.
    let option = format!("--php=unix:{}", socket.display());
    let servers = [(); 2].map(|()| TestServer::start(io, &site, &[&option, "--php-children", "4"]));
    let mut clients = servers.each_ref().map(TestServer::client);
    until("it listens", || (clients[0].get("/x.php").status == 200).then_some(()));
    for _ in 0..3 {
        for client in &mut clients {
            assert_eq!(client.get("/x.php").text(), "x");
            client.ask("POST", "/x.php", &["Content-Length: 1"]);
            client.send("y");
            assert_eq!(client.read(ExpectedContent::Follows).text(), "xy");
        }
    }
    servers.iter().for_each(TestServer::stops_clean);
}

/// Regression: while requests followed each other on a kept connection, its child served no other
/// connection. So requests that cannot be repeated waited until they were late.
fn kept_connections_of_external_pool_starve_no_request(io: Io) {
    let site = site();
    write(&site, "x.php", "usleep(3000); echo file_get_contents('php://input');");
    let socket = writable(&site, "run").join("php.sock");
    let Some(_fpm) = Fpm::start(&site, &socket.display().to_string(), 1) else {
        return eprintln!("SKIPPED: no php-fpm on this machine");
    };
    // The server assumes four children and keeps one connection, but there is one child.
    let option = format!("--php=unix:{}", socket.display());
    let server = TestServer::start(io, &site, &[&option, "--php-children", "4"]);
    let mut reader = server.client();
    until("it listens", || (reader.get("/x.php").status == 200).then_some(()));
    let writers = [(); 3].map(|()| {
        let mut writer = server.client();
        thread::spawn(move || {
            writer.ask("POST", "/x.php", &["Content-Length: 1"]);
            writer.send("y");
            assert_eq!(writer.read(ExpectedContent::Follows).text(), "y");
        })
    });
    // Without a pause, in which the connection would be given up.
    while !writers.iter().all(thread::JoinHandle::is_finished) {
        assert_eq!(reader.get("/x.php").status, 200);
    }
    writers.into_iter().for_each(|writer| writer.join().expect("an answer"));
    server.stops_clean();
}

/// Regression: the children of a pool served nobody for ever, if everything above their parent was
/// killed at once.
fn no_child_of_php_outlives_its_killed_keeper(io: Io) {
    let site = site();
    write(&site, "x.php", "echo getmypid();");
    for name in ["php-fpm", "php-cgi"] {
        with(name, |program| {
            let option = format!("--php={}", program.display());
            // The killed server leaves its private folder behind.
            let folder = format!("TMPDIR={}", writable(&site, name).display());
            let server =
                TestServer::start_under(&["env", &folder], io, &site, &[&option, "--php-children", "3"]);
            let child: u32 = server.get("/x.php").text().parse().expect("a number");
            let (keeper, spawner) = (cgi::keeper(&server), cgi::spawner(&server));
            let pool = until("the spawner has a pool", || cgi::children(spawner).into_iter().next());
            let below = until("all children run", || Some(cgi::children(pool)).filter(|all| all.len() == 3));
            assert!(below.contains(&child), "{child} is among {below:?}");
            cgi::kill(keeper);
            // The spawner is a child of the test now, or of init.
            cgi::kill(spawner);
            server.signal(Signal::KILL);
            until("no process of the pool is left", || {
                (!cgi::runs(pool) && !below.iter().any(|child| cgi::runs(*child))).then_some(())
            });
        });
    }
}

fn nothing_is_left_behind(io: Io) {
    let site = site();
    write(&site, "x.php", "echo posix_getppid();");
    if installed("php-fpm").is_none() {
        return eprintln!("SKIPPED: no php-fpm on this machine");
    }
    let folder = writable(&site, "tmp");
    let wrapper = format!("TMPDIR={}", folder.display());
    let is_gone = |pid: i32| !Path::new(&format!("/proc/{pid}/cmdline")).exists();
    let server = TestServer::start_under(&["env", &wrapper], io, &site, &["--php"]);
    let mut client = server.client();
    // Something is spooled.
    client.ask("POST", "/x.php", &["Content-Length: 300000"]);
    client.send(noise(1, 300_000));
    let pool: i32 = client.read(ExpectedContent::Follows).text().parse().expect("a number");
    assert_eq!(fs::read_dir(&folder).expect("listed").count(), 1);
    server.stops_clean();
    assert!(is_gone(pool), "the pool has ended");
    assert_eq!(fs::read_dir(&folder).expect("listed").count(), 0);
    // If the server is killed, no process remains either.
    let server = TestServer::start_under(&["env", &wrapper], io, &site, &["--php"]);
    let pool: i32 = server.get("/x.php").text().parse().expect("a number");
    server.signal(Signal::KILL);
    until("the pool has ended too", || is_gone(pool).then_some(()));
    assert_eq!(fs::read_dir(&folder).expect("listed").count(), 1, "nobody was left to remove it");
    let left = fs::read_dir(&folder).expect("listed").next().expect("one").expect("read").path();
    // The next server works.
    let server = TestServer::start_under(&["env", &wrapper], io, &site, &["--php"]);
    server.says("removed a private folder that a killed server had left in ");
    assert!(!left.exists());
    server.stops_clean();
    assert_eq!(fs::read_dir(&folder).expect("listed").count(), 0);
}
