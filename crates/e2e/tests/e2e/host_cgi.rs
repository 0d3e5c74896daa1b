//! CGI of one host: user, folder, environment, bounds, cgroup and Landlock, each checked by a
//! program that runs with these settings.

use crate::support::{Io, TestServer, TestSite, on_usual, until};
use rustix::process::{Signal, geteuid};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

on_usual! {
    each_host_has_its_user,
    folder_and_environment_are_the_hosts,
    bounds_are_the_hosts,
    a_program_that_is_late_is_killed,
    greedy_program_ends_with_logged_reason,
    programs_are_born_in_the_cgroup_of_their_host,
    host_decides_reach_of_programs,
    reload_changes_user_and_bounds_of_programs,
    programs_of_instances_follow_a_reload,
    new_program_beside_changed_cgi_table_is_refused,
    files_are_sent_from_folders_that_are_named,
    a_silent_program_is_late_by_the_key_of_all_programs,
}

/// Where version 2 of cgroups is, alone or beside version 1.
const CGROUPS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// A site whose programs other users may run.
fn site() -> TestSite {
    let site = TestSite::new();
    let root = site.root();
    [root.parent().expect("around it"), &root].into_iter().for_each(|folder| mode(folder, 0o755));
    fs::create_dir(site.path("cgi-bin")).expect("a folder");
    mode(&site.path("cgi-bin"), 0o755);
    site
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
}

fn script(site: &TestSite, name: &str, lines: &str) {
    let name = format!("cgi-bin/{name}");
    site.write(&name, format!("#!/bin/sh\necho Content-Type: text/plain; echo\n{lines}\n").as_bytes());
    mode(&site.path(&name), 0o755);
}

/// A server with a host for each of these texts, named `a` and `b`, whose programs are below
/// `/cgi-bin/`.
fn serve(io: Io, site: &TestSite, hosts: &[&str]) -> TestServer {
    TestServer::configured(io, site, &configuration(hosts))
}

fn configuration(hosts: &[&str]) -> String {
    let user = if geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    let hosts = ["a", "b"].iter().zip(hosts).map(|(name, keys)| {
        format!(
            "[[host]]\nnames = [\"{name}\"]\nroot = \"site\"\n{keys}\n\
             [[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n"
        )
    });
    format!("{user}{}", hosts.collect::<String>())
}

/// The output of a host's program `name`.
#[track_caller]
fn of(server: &TestServer, host: &str, name: &str) -> String {
    let response = ask(server, host, name);
    assert_eq!(response.0, 200, "{response:?} {server:?}");
    response.1
}

/// The status of an answer, and its content.
#[track_caller]
fn ask(server: &TestServer, host: &str, name: &str) -> (u16, String) {
    let response = server.client().get(&format!("http://{host}/cgi-bin/{name}"));
    (response.status, response.text().to_owned())
}

fn each_host_has_its_user(io: Io) {
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: only the superuser may start programs as others");
    }
    let site = site();
    script(&site, "who", "id -un; id -gn");
    let server = serve(io, &site, &["[host.cgi]\nuser = \"daemon:nogroup\"", ""]);
    assert_eq!(of(&server, "a", "who"), "daemon\nnogroup\n");
    assert_eq!(of(&server, "b", "who"), "nobody\nnogroup\n", "as for all hosts");
    server.stops_clean();
}

fn folder_and_environment_are_the_hosts(io: Io) {
    let site = site();
    fs::create_dir(site.path("data")).expect("a folder");
    mode(&site.path("data"), 0o755);
    script(&site, "show", "pwd; echo \"$COLOR $PATH $REQUEST_METHOD\"");
    let keys = "[host.cgi]\ndirectory = \"data\"\nenvironment = { COLOR = \"deep red\", PATH = \"/bin\" }";
    let server = serve(io, &site, &[keys, "cgi = { directory = \".\" }"]);
    let root = site.root().canonicalize().expect("there");
    let root = root.display();
    assert_eq!(of(&server, "a", "show"), format!("{root}/data\ndeep red /bin GET\n"));
    assert_eq!(of(&server, "b", "show"), format!("{root}\n /usr/local/bin:/usr/bin:/bin GET\n"));
    server.stops_clean();
}

fn bounds_are_the_hosts(io: Io) {
    let site = site();
    let show = "ulimit -v; ulimit -t; ulimit -f; ulimit -n; grep NoNewPrivs /proc/self/status | tr -d '\\t'";
    script(&site, "show", show);
    let keys = "[host.cgi]\nmemory = \"1G\"\ncpu_time = \"1500ms\"\nfile_bytes = \"1M\"\ndescriptors = 77\n\
                no_new_privileges = false";
    let server = serve(io, &site, &[keys, ""]);
    assert_eq!(of(&server, "a", "show"), "1048576\n2\n2048\n77\nNoNewPrivs:0\n");
    let usual = of(&server, "b", "show");
    assert!(usual.ends_with("\n1024\nNoNewPrivs:1\n"), "{usual}");
    server.stops_clean();
}

fn a_program_that_is_late_is_killed(io: Io) {
    let site = site();
    site.write("cgi-bin/late", b"#!/bin/sh\nsleep 600\n");
    mode(&site.path("cgi-bin/late"), 0o755);
    let server = serve(io, &site, &["cgi = { timeout = \"200ms\" }"]);
    assert_eq!(ask(&server, "a", "late").0, 504);
    server.stops_clean();
}

/// The kernel bounds memory and processes; the emulated machine (`cargo xtask test numa`) tests the
/// bounds of a cgroup.
fn greedy_program_ends_with_logged_reason(io: Io) {
    let site = site();
    let write = |name: &str, lines: &str| {
        site.write(&format!("cgi-bin/{name}"), format!("#!/bin/sh\n{lines}\n").as_bytes());
        mode(&site.path(&format!("cgi-bin/{name}")), 0o755);
    };
    write(
        "hungry",
        "x=$(head -c 300000000 /dev/zero | tr '\\0' x); printf 'Content-Type: a/b\\n\\n%s' ${#x}",
    );
    write("bomb", "for i in $(seq 500); do sleep 30 & done; printf 'Content-Type: a/b\\n\\nall'");
    // Processes are counted for the whole user, and never for the superuser.
    let user = if geteuid().is_root() { "user = \"games\"\nprocesses = 20\n" } else { "" };
    let server = serve(io, &site, &[&format!("[host.cgi]\nmemory = \"64M\"\n{user}"), ""]);
    assert_eq!(ask(&server, "a", "hungry").0, 502);
    server.says("/cgi-bin/hungry: it ended with ");
    if geteuid().is_root() {
        assert_eq!(ask(&server, "a", "bomb").0, 502);
        // The server logs one failure a second, but always logs the programs' output.
        server.says("Cannot fork");
    }
    server.stops_clean();
}

fn programs_are_born_in_the_cgroup_of_their_host(io: Io) {
    let is_there = |path: &&Path| path.join("cgroup.procs").exists();
    let Some(parent) = CGROUPS.iter().map(Path::new).find(is_there) else {
        return eprintln!("SKIPPED: no cgroups of version 2");
    };
    let named = |what| parent.join(format!("vermeil-e2e-{}-{}-{what}", std::process::id(), io.name()));
    let (free, bounded) = (named("free"), named("bounded"));
    if !geteuid().is_root() || fs::create_dir(&free).and_then(|()| fs::remove_dir(&free)).is_err() {
        return eprintln!("SKIPPED: no cgroup can be made here");
    }
    let site = site();
    script(&site, "show", "grep ^0: /proc/self/cgroup");
    let bounds = "memory = \"64M\", cpu_percent = 50, processes = 9";
    let keys = [
        format!("cgi = {{ cgroup = {{ folder = {free:?} }} }}"),
        format!("cgi = {{ cgroup = {{ folder = {bounded:?}, {bounds} }} }}"),
    ];
    let server = serve(io, &site, &[&keys[0], &keys[1]]);
    let name = free.file_name().expect("named").to_str().expect("UTF-8");
    assert!(of(&server, "a", "show").trim_end().ends_with(name));
    let controllers = fs::read_to_string(parent.join("cgroup.subtree_control")).expect("it is there");
    let status = ask(&server, "b", "show").0;
    if ["memory", "cpu", "pids"].iter().all(|controller| controllers.contains(controller)) {
        let bound = |file: &str| fs::read_to_string(bounded.join(file)).expect("a bound");
        let bounds = ["memory.max", "cpu.max", "pids.max"].map(bound);
        assert_eq!(status, 200);
        assert_eq!(bounds, ["67108864\n", "50000 100000\n", "9\n"].map(String::from));
    } else {
        // A bound that cannot be had is not left out.
        assert!(status >= 500, "{status}");
        server.says("cgroup.subtree_control");
    }
    server.stops_clean();
    fs::remove_dir(&free).expect("nothing is in it");
    // The cgroup is made only where its bounds are available.
    let _ = fs::remove_dir(&bounded);
}

fn host_decides_reach_of_programs(io: Io) {
    let site = site();
    let outside = site.outside("outside");
    fs::create_dir(&outside).expect("a folder");
    mode(&outside, 0o777);
    fs::write(outside.join("secret"), "secret").expect("written");
    site.write("own", b"own");
    let (secret, made) = (outside.join("secret"), outside.join("made"));
    let read = format!("cat \"$DOCUMENT_ROOT/own\" 2>/dev/null; cat {} 2>/dev/null", secret.display());
    script(&site, "try", &format!("{read}; echo x > {} && echo written", made.display()));
    let wider = format!("cgi = {{ landlock = {{ write = [\"/dev/null\", {outside:?}] }} }}");
    let server = serve(io, &site, &["cgi = { landlock = {} }", &wider]);
    let (status, said) = ask(&server, "a", "try");
    if status != 200 {
        server.says("Landlock");
        return eprintln!("SKIPPED: this kernel has no Landlock");
    }
    assert_eq!(said, "own");
    assert!(!made.exists());
    assert_eq!(of(&server, "b", "try"), "ownsecretwritten\n");
    server.stops_clean();
}

/// Changes of bounds, folder, user and a new host take effect with the reload; a faulty
/// configuration never does. Writes the configuration and reloads the server; waits until the
/// server has printed `words` once more.
fn reload(server: &TestServer, site: &TestSite, io: Io, text: &str, words: &str) {
    let before = server.stderr().matches(words).count();
    site.configure(io, text);
    server.signal(Signal::HUP);
    until("it has answered the signal", || (server.stderr().matches(words).count() > before).then_some(()));
}

fn reload_changes_user_and_bounds_of_programs(io: Io) {
    let site = site();
    script(&site, "show", "ulimit -n; id -un");
    let other = site.outside("other");
    fs::create_dir_all(other.join("cgi-bin")).expect("folders");
    [other.clone(), other.join("cgi-bin")].iter().for_each(|folder| mode(folder, 0o755));
    let program = other.join("cgi-bin/show");
    fs::write(&program, "#!/bin/sh\necho Content-Type: text/plain; echo; echo other\n").expect("written");
    mode(&program, 0o755);
    let is_root = geteuid().is_root();
    let who = |server: &TestServer| of(server, "a", "show").lines().last().unwrap_or_default().to_owned();
    let reload = |server: &TestServer, text: &str, words: &str| reload(server, &site, io, text, words);

    let server = serve(io, &site, &["cgi = { descriptors = 70 }"]);
    let first = of(&server, "a", "show");
    assert!(first.starts_with("70\n"), "{first}");
    let was = who(&server);

    let user = if is_root { ", user = \"daemon\"" } else { "" };
    let changed = format!("cgi = {{ descriptors = 71{user} }}");
    let hosts = [changed.as_str(), "cgi = { descriptors = 72 }"];
    let two = configuration(&hosts).replacen(
        "names = [\"b\"]\nroot = \"site\"",
        "names = [\"b\"]\nroot = \"other\"",
        1,
    );
    reload(&server, &two, "vermeil: reloaded: ");
    let second = of(&server, "a", "show");
    assert!(second.starts_with("71\n"), "{second}");
    assert_eq!(who(&server), if is_root { "daemon" } else { &was });
    assert_eq!(of(&server, "b", "show"), "other\n");

    let gone = two.replace("root = \"other\"", "root = \"nowhere\"");
    reload(&server, &gone, "the configuration stays as it is");
    assert_eq!(of(&server, "b", "show"), "other\n", "refused as a whole");

    reload(&server, &configuration(&["cgi = { descriptors = 70 }"]), "vermeil: reloaded: ");
    assert_eq!(of(&server, "a", "show"), first, "as it was");
    server.stops_clean();
}

/// The keeper of an instance may run only on that instance's cpus, but reads a configuration that
/// names all cpus.
fn programs_of_instances_follow_a_reload(io: Io) {
    let site = site();
    script(&site, "who", "echo $WHO");
    let cpus: Vec<String> = vermeil_io::current_affinity().iter().map(ToString::to_string).collect();
    let text = |who: &str| {
        let hosts = configuration(&[&format!("cgi = {{ environment = {{ WHO = \"{who}\" }} }}")]);
        format!("instances = 2\nbalance = \"hash\"\ncores = \"{}\"\n{hosts}", cpus.join(","))
    };
    let server = TestServer::configured(io, &site, &text("first"));
    assert_eq!(of(&server, "a", "who"), "first\n");
    reload(&server, &site, io, &text("second"), "vermeil: reloaded: ");
    // The kernel's hash chooses the instance.
    for _ in 0..20 {
        assert_eq!(of(&server, "a", "who"), "second\n");
    }
    server.stops_clean();
}

/// Regression: after a change of `[cgi]` the server advised to reload again, which never helped.
fn new_program_beside_changed_cgi_table_is_refused(io: Io) {
    let site = site();
    script(&site, "show", "ulimit -n");
    let user = if geteuid().is_root() { "user = \"nobody\"\n" } else { "" };
    let text = |memory: &str, hosts: &[&str]| {
        let of_hosts = configuration(hosts);
        let of_hosts = of_hosts.strip_prefix(&format!("[cgi]\n{user}")).unwrap_or(&of_hosts);
        format!("[cgi]\nmemory = \"{memory}\"\n{user}{of_hosts}")
    };
    // The first host with programs comes by a reload.
    let server = TestServer::configured(io, &site, &format!("[cgi]\n{user}[[host]]\nroot = \"site\"\n"));
    let one = ["cgi = { descriptors = 70 }"];
    let two = [one[0], "cgi = { descriptors = 71 }"];
    reload(&server, &site, io, &text("512M", &one), "vermeil: reloaded: ");
    assert_eq!(of(&server, "a", "show"), "70\n");
    reload(&server, &site, io, &text("256M", &two), "the configuration stays as it is");
    server.says("[cgi] is not as it was when the first host got programs, and only a restart changes [cgi]");
    reload(&server, &site, io, &text("512M", &two), "vermeil: reloaded: ");
    assert_eq!(of(&server, "b", "show"), "71\n");
    server.stops_clean();
}

/// Regression: folders of sendable files could be given only on the command line, where there are
/// no hosts.
fn files_are_sent_from_folders_that_are_named(io: Io) {
    let site = site();
    for name in ["shared", "own"] {
        fs::create_dir(site.outside(name)).expect("a folder");
        fs::write(site.outside(name).join("file"), name).expect("a file");
    }
    let send = |name: &str, lines: &str| {
        let name = format!("cgi-bin/{name}");
        site.write(&name, format!("#!/bin/sh\n{lines}\necho Content-Type: text/plain; echo\n").as_bytes());
        mode(&site.path(&name), 0o755);
    };
    send("shared", &format!("echo X-Sendfile: {}/file", site.outside("shared").display()));
    send("own", "echo X-Accel-Redirect: /private/file");
    let user = if geteuid().is_root() { "user = \"nobody\"\n" } else { "" };
    let named = |hosts: &[&str]| {
        let of_hosts = configuration(hosts).replacen(&format!("[cgi]\n{user}"), "", 1);
        format!("[cgi]\nsend = [\"shared\"]\n{user}{of_hosts}")
    };
    let server = TestServer::configured(io, &site, &named(&["", "[host.cgi]\nsend = [\"/private=own\"]"]));
    assert_eq!(of(&server, "a", "shared"), "shared");
    assert_eq!(of(&server, "b", "own"), "own");
    assert_eq!(ask(&server, "a", "own").0, 502);
    server.says("X-Accel-Redirect: /private/file is in no folder that files may be sent from (send in [cgi], or in its [host.cgi])");
    assert_eq!(ask(&server, "b", "shared").0, 502, "a host's own are instead of those of all");

    let reload = |hosts: &[&str], words: &str| reload(&server, &site, io, &named(hosts), words);
    reload(&["[host.cgi]\nsend = [\"/private=own\"]", "cgi = { send = [] }"], "vermeil: reloaded: ");
    assert_eq!(of(&server, "a", "own"), "own");
    assert_eq!((ask(&server, "a", "shared").0, ask(&server, "b", "own").0), (502, 502));
    reload(&["cgi = { send = [\"gone\"] }", ""], "the configuration stays as it is");
    assert_eq!(of(&server, "a", "own"), "own", "refused as a whole");
    server.stops_clean();
}

fn a_silent_program_is_late_by_the_key_of_all_programs(io: Io) {
    let site = site();
    site.write("cgi-bin/silent", b"#!/bin/sh\nsleep 1000\n");
    mode(&site.path("cgi-bin/silent"), 0o755);
    let text = format!("[programs]\ntimeout = \"300ms\"\n{}", configuration(&["", ""]));
    let server = TestServer::configured(io, &site, &text);
    assert_eq!(ask(&server, "a", "silent").0, 504);
    server.says(
        "/cgi-bin/silent: it was silent for 0.3 s; that limit is changed by timeout in [programs] (504)",
    );
    server.stops_clean();
}
