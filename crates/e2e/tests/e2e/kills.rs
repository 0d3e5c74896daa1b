//! Random kills under load of everything that runs programs: the spawner, pools of PHP and their
//! children, CGI programs, instances. Each request is answered, with 502 or 503 at worst, and the
//! server's counts equal the clients' counts.
//!
//! The tests run only when [`SECONDS`] is set, as `cargo xtask test kill` does, because rare
//! failures take minutes to occur. Shorter tests of a single kind of kill are beside the subject
//! (`cgi.rs`, `php/crashes.rs`, `instances.rs`). The tests print the kills and the answers. The
//! order of the kills comes from a seed, which is printed too; the kernel decides when a kill takes
//! effect.

use crate::support::{ExpectedContent, Io, TestClient, TestServer, TestSite, on_both, until, vermeil};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

on_both! {
    killed_processes_lose_no_request,
    instances_are_killed_and_the_others_answer,
}

/// The variable with the duration of each test, in seconds.
const SECONDS: &str = "VERMEIL_KILL_SECONDS";

/// The pause between recovery and the next kill, minimum and maximum, in milliseconds. Each client
/// completes several requests in the shortest pause.
const PAUSE_MS: (u64, u64) = (20, 300);

/// How long recovery may take: a process that was killed often is started again after ten seconds,
/// on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The targets, and the number of concurrent clients of each.
const TARGETS: [(&str, usize); 4] =
    [("/x.php", 2), ("http://pool/x.php", 2), ("/cgi-bin/hello", 3), ("/index.html", 1)];

/// Answers by target and status.
type Answers = BTreeMap<(String, u16), u64>;

/// The duration of each test; `None` if the test is not to run.
fn seconds() -> Option<Duration> {
    env::var(SECONDS).ok().map(|text| Duration::from_secs(text.parse().expect("seconds")))
}

fn killed_processes_lose_no_request(io: Io) {
    let Some((site, server)) = serve(io, "") else { return };
    let killed = Killed::default();
    let (answers, lost) = under_load(&server, &killed, |kind| kind != "instance");
    assert_eq!(lost, 0, "no connection is lost: {server:?}");
    let counted = status(&site);
    server.stops_clean();
    report(io, &killed, &answers, lost);

    let mut all: u64 = answers.values().sum();
    let logged = logged(&site.outside("access.log"));
    for (key, count) in &answers {
        assert_eq!(logged.get(key), Some(count), "{key:?}: {logged:?} {server:?}");
        all -= count;
    }
    assert_eq!((all, logged.len()), (0, answers.len()), "{logged:?}");
    let counted = &counted["instances"][0];
    let of = |target: &str, is: fn(u16) -> bool| -> u64 {
        answers.iter().filter(|((t, s), _)| t == target && is(*s)).map(|(_, count)| count).sum()
    };
    let is_bad = |status| status != 200;
    assert_eq!(counted["requests"], answers.values().sum::<u64>());
    for (target, counts) in
        [("/x.php", &counted["php"]), ("http://pool/x.php", &counted["php_pools_used"][0]["pool"])]
    {
        let count = |name: &str| counts[name].as_u64().expect("a number");
        let refused = count("refused") + count("given_up");
        assert_eq!(count("requests") + refused, of(target, |_| true), "{target}: {counts}");
        assert_eq!(count("failed") + refused, of(target, is_bad), "{target}: {counts}");
    }
    assert_eq!(counted["php_pools_used"][0]["hosts"][0], "pool", "{counted}");
    let cgi = &counted["cgi"];
    assert_eq!(cgi["requests"], of("/cgi-bin/hello", |_| true), "{cgi}");
    assert_eq!(cgi["failed"], of("/cgi-bin/hello", is_bad), "{cgi}");
    println!("the server counted the same: {counted}");
}

fn instances_are_killed_and_the_others_answer(io: Io) {
    let Some((site, server)) = serve(io, "instances = 2\nbalance = \"hash\"\n") else { return };
    let killed = Killed::default();
    let (answers, lost) = under_load(&server, &killed, |kind| matches!(kind, "instance" | "CGI program"));
    let instances = killed.of("instance");
    // The last killed instance may still be away, and then the other instance gives the good
    // answers.
    let deadline = Instant::now() + PATIENCE;
    while restarts(&status(&site)) != instances {
        assert!(Instant::now() < deadline, "{instances} killed: {}", status(&site));
        thread::park_timeout(Duration::from_millis(100));
    }
    server.stop();
    report(io, &killed, &answers, lost);
    // A client of a killed instance lost its connection, with at most one request on the
    // connection.
    let clients: usize = TARGETS.iter().map(|(_, clients)| clients).sum();
    assert!(lost <= instances * clients as u64, "{lost} lost");
}

/// The number of restarts of the instances that answer.
fn restarts(status: &Value) -> u64 {
    let instances = status["instances"].as_array().expect("instances").iter();
    instances.map(|instance| instance["restarts"].as_u64().expect("a number")).sum()
}

/// A server with a PHP pool of its own, a host with its own pool, and CGI.
fn serve(io: Io, top: &str) -> Option<(TestSite, TestServer)> {
    if seconds().is_none() {
        eprintln!("SKIPPED: {SECONDS} is not set");
        return None;
    }
    if ["/usr/sbin/php-fpm8.2", "/usr/bin/php-cgi"].iter().any(|program| !Path::new(program).exists()) {
        eprintln!("SKIPPED: no php-fpm or no php-cgi on this machine");
        return None;
    }
    let site = TestSite::new();
    let root = site.root();
    site.write(
        "x.php",
        b"<?php header('Content-Length: 6'); usleep(random_int(0, 3000)); echo \"hello\\n\";",
    );
    site.write(
        "cgi-bin/hello",
        b"#!/bin/sh\nsleep 0.01\nprintf 'Content-Type: a/b\\nContent-Length: 6\\n\\nhello\\n'\n",
    );
    let open = [
        root.parent().expect("around it").to_owned(),
        root,
        site.path("cgi-bin"),
        site.path("cgi-bin/hello"),
    ];
    for path in open {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let (user, pool_user) = match geteuid().is_root() {
        true => ("[cgi]\nuser = \"nobody\"\n", "user = \"daemon\"\n"),
        false => ("", ""),
    };
    let log = site.outside("access.log");
    let text = format!(
        "io = \"{}\"\nlog = {log:?}\ncontrol = \"control\"\n{top}[[listener]]\naddress = \"127.0.0.1:0\"\n{user}\
         [php]\nchildren = 3\n[programs]\nqueue_timeout = \"5s\"\n\
         [[host]]\nroot = \"site\"\nphp = true\n[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n\
         [[host]]\nnames = [\"pool\"]\nroot = \"site\"\n[host.php]\n{pool_user}children = 2\n",
        io.name()
    );
    let file = site.outside("vermeil.toml");
    fs::write(&file, text).expect("a file");
    let server = TestServer::of_file(&file);
    Some((site, server))
}

/// Clients ask while processes of all `chosen` kinds are killed, for the configured time, and until
/// all targets give good answers again. Returns the answers, and the number of requests that lost
/// their connection.
fn under_load(server: &TestServer, killed: &Killed, chosen: impl Fn(&str) -> bool) -> (Answers, u64) {
    let (stop, all) = (AtomicBool::new(false), Mutex::new((Answers::new(), 0)));
    let good: [AtomicU64; TARGETS.len()] = Default::default();
    thread::scope(|scope| {
        for ((target, clients), good) in TARGETS.into_iter().zip(&good) {
            for _ in 0..clients {
                let (stop, all) = (&stop, &all);
                scope.spawn(move || {
                    let (answers, lost) = ask_on(server, target, stop, good);
                    let mut all = all.lock().expect("nobody panics");
                    answers.into_iter().for_each(|(key, count)| *all.0.entry(key).or_default() += count);
                    all.1 += lost;
                });
            }
        }
        let _stopping = StopSignal(&stop);
        kill_for(seconds().expect("it is run"), server.pid(), killed, chosen, &good);
    });
    let (answers, lost) = all.into_inner().expect("nobody panicked");
    (answers, lost)
}

/// Signals on drop that it is time to stop, also after a failure.
struct StopSignal<'a>(&'a AtomicBool);

impl Drop for StopSignal<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn ask_on(server: &TestServer, target: &str, stop: &AtomicBool, good: &AtomicU64) -> (Answers, u64) {
    let (mut answers, mut lost) = (Answers::new(), 0);
    // A connection may wait in the sockets of an instance that is killed repeatedly, each time for
    // the restart pause.
    let connected = || server.client().patient_for(PATIENCE);
    let mut client = connected();
    while !stop.load(Ordering::Relaxed) {
        match ask(&mut client, target) {
            Ok((status, closes)) => {
                assert!(matches!(status, 200 | 502 | 503), "{target}: {status}");
                *answers.entry((target.to_owned(), status)).or_default() += 1;
                good.fetch_add((status == 200).into(), Ordering::Relaxed);
                if closes {
                    client = connected();
                }
            }
            Err(()) => {
                lost += 1;
                client = until("somebody listens", || TestClient::try_connect(server.addr()))
                    .patient_for(PATIENCE);
            }
        }
    }
    (answers, lost)
}

/// The status of the next answer, and whether the connection ends after the answer.
fn ask(client: &mut TestClient, target: &str) -> Result<(u16, bool), ()> {
    let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n");
    client.try_send(request).map_err(drop)?;
    let response = client.try_read(ExpectedContent::Follows).map_err(drop)?;
    Ok((response.status, response.closes()))
}

/// The killed processes, by kind.
#[derive(Default)]
struct Killed(Mutex<BTreeMap<&'static str, u64>>);

impl Killed {
    fn of(&self, kind: &str) -> u64 {
        self.0.lock().expect("nobody panics").get(kind).copied().unwrap_or_default()
    }
}

fn kill_for(time: Duration, server: u32, killed: &Killed, chosen: impl Fn(&str) -> bool, good: &[AtomicU64]) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let mut random = Xorshift(now.as_nanos() as u64 | 1);
    println!("seed {}", random.0);
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        // One kill, or two at once.
        for _ in 0..=random.below(2) {
            kill_one(server, killed, &chosen, &mut random);
        }
        wait_until_well(good);
        let (least, most) = PAUSE_MS;
        thread::park_timeout(Duration::from_millis(least + random.below((most - least) as usize) as u64));
    }
}

fn wait_until_well(good: &[AtomicU64]) {
    let now = || -> Vec<u64> { good.iter().map(|count| count.load(Ordering::Relaxed)).collect() };
    let (before, deadline) = (now(), Instant::now() + PATIENCE);
    // Two, because the first answer may be from before the recovery.
    while !now().iter().zip(&before).all(|(now, before)| *now >= before + 2) {
        assert!(Instant::now() < deadline, "not well again: {before:?} good answers before, {:?} now", now());
        thread::park_timeout(Duration::from_millis(5));
    }
}

fn kill_one(server: u32, killed: &Killed, chosen: impl Fn(&str) -> bool, random: &mut Xorshift) {
    let found: Vec<_> = below(server).into_iter().filter(|process| chosen(process.kind)).collect();
    let mut kinds: Vec<_> = found.iter().map(|process| process.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if !kinds.is_empty() {
        // Every kind equally often, independent of its number of processes.
        let kind = kinds[random.below(kinds.len())];
        let of_kind: Vec<_> = found.iter().filter(|process| process.kind == kind).collect();
        if of_kind[random.below(of_kind.len())].kill() {
            *killed.0.lock().expect("nobody panics").entry(kind).or_default() += 1;
        }
    }
}

/// Xorshift, after Marsaglia (2003).
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }
}

/// A process that may be killed.
struct KilledProcess {
    pid: u32,
    parent: u32,
    kind: &'static str,
}

impl KilledProcess {
    /// Kills the process, but no process that has reused its number; returns whether the process
    /// existed.
    fn kill(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid.cast_signed()) else { return false };
        let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        let is_it = children(self.parent).contains(&self.pid);
        if !is_it || is_over(self.pid) || pidfd_send_signal(&descriptor, Signal::KILL).is_err() {
            return false;
        }
        // Until its end the process could be killed, and counted, once more.
        let patience = Timespec::try_from(PATIENCE).expect("seconds");
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&patience)).is_ok_and(|over| over > 0)
    }
}

fn is_over(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

/// The processes below a server, or below a supervisor of several, that may be killed.
fn below(server: u32) -> Vec<KilledProcess> {
    let mut found = Vec::new();
    for child in children(server) {
        match name(child).as_str() {
            "vermeil-tested" => {
                found.push(KilledProcess { pid: child, parent: server, kind: "instance" });
                found.extend(below(child));
            }
            "vermeil-keeper" => {
                for spawner in children(child).into_iter().filter(|pid| name(*pid) == "vermeil-spawn") {
                    found.push(KilledProcess { pid: spawner, parent: child, kind: "spawner" });
                    found.extend(programs(spawner));
                }
            }
            _ => {}
        }
    }
    found
}

fn programs(spawner: u32) -> Vec<KilledProcess> {
    let mut found = Vec::new();
    for program in children(spawner) {
        let name = name(program);
        let (kind, kind_below) = match name.as_str() {
            _ if name.starts_with("php-fpm") => ("PHP pool (php-fpm)", "PHP child (php-fpm)"),
            _ if name.starts_with("php-cgi") => ("PHP pool (php-cgi)", "PHP child (php-cgi)"),
            "hello" => ("CGI program", "CGI program"),
            _ => continue,
        };
        found.push(KilledProcess { pid: program, parent: spawner, kind });
        let below = children(program).into_iter();
        found.extend(below.map(|pid| KilledProcess { pid, parent: program, kind: kind_below }));
    }
    found
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// Children of all threads of a process.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let listed = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let listed: Vec<String> = listed.collect();
    listed.iter().flat_map(|pids| pids.split_ascii_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
}

fn status(site: &TestSite) -> Value {
    let control = site.outside("control");
    let asked = vermeil(&["status", "--json", "--control", control.to_str().expect("UTF-8")]).output();
    serde_json::from_slice(&asked.expect("it runs").stdout).expect("JSON")
}

/// The answers in the access log.
fn logged(log: &Path) -> Answers {
    let mut answers = Answers::new();
    for line in fs::read_to_string(log).expect("a log").lines() {
        let (_, rest) = line.split_once("\"GET ").expect("a request");
        let (target, rest) = rest.split_once(" HTTP/1.1\" ").expect("its version");
        let status = rest.split(' ').next().and_then(|status| status.parse().ok()).expect("a status");
        *answers.entry((target.to_owned(), status)).or_default() += 1;
    }
    answers
}

fn report(io: Io, killed: &Killed, answers: &Answers, lost: u64) {
    println!("{}, {} s under load", io.name(), seconds().map_or(0, |time| time.as_secs()));
    for (kind, count) in killed.0.lock().expect("nobody panics").iter() {
        println!("  killed {count:>6}  {kind}");
    }
    for ((target, status), count) in answers {
        println!("  {status} {count:>10}  {target}");
    }
    println!("  lost with an instance {lost}");
}
