//! The options that files result in, on an invented machine, and the refusals, message by message.

use super::*;
use crate::options::{ServeOptions, Timeouts, keys_that_differ};
use std::{io, net::SocketAddr, time::Duration};
use vermeil::IoChoice;
use vermeil_address::{ListenAddr, UnixAddr};
use vermeil_files::{FollowSymlinks, Listing};
use vermeil_http::ConnectionLimits;
use vermeil_log::{LogFormat, LogTarget};
use vermeil_routing::hosts::{Action, Hosts, Unknown};
use vermeil_topology::{Allowed, CpuId, synthetic};

mod access;
mod answers;
mod candidates;
mod compress;
mod contradictions;
mod every_key;
mod host_php;
mod include;
mod listeners;
mod moved;
mod proxies;
mod routes;
mod running;
mod schema;

/// Four cpus; `localhost` has two addresses, and no other name is known.
fn surroundings() -> Surroundings {
    let machine = synthetic::parse("node:1 core:2 pu:2").unwrap();
    let look_up = |name: &str, port| match name {
        "localhost" => Ok(vec![addr(&format!("[::1]:{port}")), addr(&format!("127.0.0.1:{port}"))]),
        _ => Err(io::Error::other("no such name")),
    };
    Surroundings {
        allowed: Allowed::everything(&machine),
        machine,
        has_ipv6: true,
        look_up,
        given: GivenParts::Nothing,
    }
}

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn try_load(text: &str) -> Result<ServeOptions, ConfigError> {
    take(Path::new("/etc/vermeil/vermeil.toml"), &text.to_owned().into(), &surroundings())
}

#[track_caller]
fn load(text: &str) -> ServeOptions {
    assert_eq!(schema::problems_of(text), [""; 0], "the schema accepts what the server accepts");
    try_load(text).unwrap_or_else(|error| panic!("{error}"))
}

/// The problems of a file named `v.toml`, without the lines shown.
fn problems(text: &str) -> Vec<String> {
    let error = take(Path::new("v.toml"), &text.to_owned().into(), &surroundings()).expect_err("refused");
    error.to_string().lines().filter(|line| line.starts_with("v.toml:")).map(str::to_owned).collect()
}

fn root_of<'h>(hosts: &'h Hosts, name: &str) -> Option<&'h str> {
    hosts.host(hosts.find(Some(name.as_bytes()))?).root.map(|root| root.to_str().unwrap())
}

#[test]
fn single_host_has_every_default() {
    let options = load("[[host]]\nroot = \"www\"\n");
    assert_eq!(root_of(&options.hosts, "any"), Some("/etc/vermeil/www"));
    assert_eq!(options.listen, [ListenAddr::Tcp(addr("127.0.0.1:8080"))]);
    assert_eq!(options.cpus.len(), 4);
    assert_eq!((options.io, &options.log.target), (IoChoice::Auto, &LogTarget::Stdout));
    assert_eq!(options.limits, ConnectionLimits::default());
    assert_eq!(options.timeouts, Timeouts::default());
    assert_eq!(options.store, crate::options::store_here(1));
    assert_eq!(options.connections_max, crate::options::CONNECTIONS_MAX);
    let host = options.hosts.host(options.hosts.default_host());
    assert_eq!(*host.rules, vermeil_routing::hosts::Rules::default());
    assert_eq!(options.hosts.unknown(), Unknown::Default);
}

#[test]
fn table_of_a_host_may_stand_behind_another_table() {
    let options = load(
        "[[host]]\nroot = \"www\"\n[tls]\nminimum = \"1.3\"\n[[host.route]]\nprefix = \"/a\"\naction = \"files\"\n",
    );
    assert_eq!(options.hosts.host(options.hosts.default_host()).rules.routes.len(), 1);
}

#[test]
fn each_key_arrives() {
    let options = load(
        r#"
        cores = 2
        io = "epoll"
        log = "off"
        [limits]
        connections_max = 7
        wait_max = "70ms"
        request_line_bytes = "1K"
        header_count = 9
        header_bytes = 2048
        body_bytes = "3G"
        requests_per_connection = 5
        ranges_max = 0
        [timeouts]
        header = 1
        body = 2.5
        keep_alive = "500ms"
        write = "2m"
        leave = 5
        drain = "1h"
        [[listener]]
        address = "localhost:80"
        [[host]]
        [cache]
        bytes = "1M"
        entries = 11
        file_bytes = "3K"
        [[listener]]
        address = ":81"
        "#,
    );
    assert_eq!(options.cpus, [CpuId(0), CpuId(2)]);
    assert_eq!(
        (options.io, &options.log.target, options.connections_max),
        (IoChoice::Epoll, &LogTarget::Off, 7)
    );
    assert_eq!(
        options.listen,
        ["[::1]:80", "127.0.0.1:80", "0.0.0.0:81", "[::]:81"].map(addr).map(ListenAddr::Tcp)
    );
    let limits = ConnectionLimits {
        request_line_bytes: 1024,
        header_count: 9,
        header_bytes: 2048,
        body_bytes: 3 << 30,
        requests_per_connection: 5,
        ranges_max: 0,
        ..ConnectionLimits::default()
    };
    assert_eq!(options.limits, limits);
    assert_eq!(options.wait_max, Duration::from_millis(70));
    let timeouts = Timeouts {
        header: Duration::from_secs(1),
        body: Duration::from_millis(2500),
        keep_alive: Duration::from_millis(500),
        write: Duration::from_secs(120),
        leave: Duration::from_secs(5),
        drain: Duration::from_secs(3600),
    };
    assert_eq!(options.timeouts, timeouts);
    let site = &options.store;
    assert_eq!(
        (site.content_bytes_max, site.entries_max, site.content_file_bytes_max),
        (1 << 20, 11, 3 << 10)
    );
}

#[test]
fn relative_paths_begin_at_the_folder_of_the_file() {
    let options = load("log = \"logs/access.log\"\n[[host]]\nroot = \"www\"\n");
    assert_eq!(options.log.target, LogTarget::File("/etc/vermeil/logs/access.log".into()));
    assert_eq!(root_of(&options.hosts, "x"), Some("/etc/vermeil/www"));
}

#[test]
fn log_has_the_host_where_there_are_several() {
    let two = "[[host]]\nroot = \"www\"\n[[host]]\nnames = [\"b.example\"]\nroot = \"www\"\n";
    assert_eq!(load("[[host]]\nroot = \"www\"\n").log.format.common, LogFormat::Combined);
    assert_eq!(load(two).log.format.common, LogFormat::VhostCombined);
    assert_eq!(load(&format!("log_format = \"json\"\n{two}")).log.format.common, LogFormat::Json);
}

#[test]
fn a_file_that_is_named_relatively_comes_to_the_same_wherever_it_is_read_again() {
    let text = "log = \"log\"\ncontrol = \"run/ctl\"\n[[host]]\nroot = \"www\"\n";
    let named = take(Path::new("v.toml"), &text.to_owned().into(), &surroundings()).unwrap();
    let absolute =
        take(&std::path::absolute("v.toml").unwrap(), &text.to_owned().into(), &surroundings()).unwrap();
    assert_eq!((named.control, named.log), (absolute.control, absolute.log));
}

#[test]
fn host_table_sets_host_options() {
    let options = load(
        r#"
        [hosts]
        unknown = "refuse"
        [[host]]
        names = ["Example.ORG", "*.example.org."]
        root = "/srv/a"
        index = ["home.html", "index.html"]
        listing = false
        follow_symlinks = "none"
        [[host.route]]
        prefix = "/old"
        action = "redirect"
        to = "https://{host}/new{rest}{query}"
        code = 308
        [[host.route]]
        suffix = ".txt"
        action = "files"
        [[host]]
        names = ["b.example"]
        default = true
        "#,
    );
    let hosts = &options.hosts;
    assert_eq!(root_of(hosts, "www.example.org"), Some("/srv/a"));
    assert_eq!(root_of(hosts, "nobody"), None);
    let rules = hosts.host(hosts.find(Some(b"example.org")).unwrap()).rules;
    assert_eq!(rules.files.index_names, ["home.html", "index.html"]);
    assert_eq!((rules.files.listing, rules.files.follow_symlinks), (Listing::Off, FollowSymlinks::None));
    assert!(rules.routes[0].covers(b"/old/x") && !rules.routes[0].covers(b"/older"));
    match &rules.routes[0].action {
        Action::Redirect { to, status } => {
            assert_eq!((to.to_string().as_str(), status.code()), ("https://{host}/new{rest}{query}", 308));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(rules.routes[1].action, Action::Files);
    assert_eq!(hosts.default_host(), hosts.find(Some(b"b.example")).unwrap());
}

#[test]
fn balancer_keys_choose_reports() {
    let text = "agent = \"localhost:9\"\nload_report = \"json\"\n[[host]]\n\
                [[host.route]]\nprefix = \"/s\"\naction = \"status\"\n[[host.route]]\nprefix = \"/r\"\naction = \"ready\"\n";
    let options = load(text);
    assert_eq!(options.balancers.agent, ["[::1]:9", "127.0.0.1:9"].map(addr));
    assert_eq!(options.balancers.load_report, vermeil_settings::LoadReport::Json);
    let rules = options.hosts.host(options.hosts.default_host()).rules;
    let actions: Vec<_> = rules.routes.iter().map(|route| &route.action).collect();
    assert_eq!(actions, [&Action::Status, &Action::Ready]);
    assert_eq!(
        problems("agent = \"nowhere:80\"\n[[host]]\n"),
        [
            "v.toml:1:9: agent: the name cannot be resolved: no such name; write an address such as 127.0.0.1:8080"
        ]
    );
}

#[test]
fn programs_are_asked_for_by_hosts() {
    let plain = load("[[host]]\nroot = \"x\"\n[php]\nchildren = 3\n");
    assert_eq!(plain.php, None, "no host has it");
    let text = "[[host]]\nroot = \"x\"\nphp = true\n[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n\
                [php]\nsource = \"unix:/run/php.sock\"\nchildren = 3\nqueue_max = 7\n[programs]\ntimeout = 5\nbody_bytes = \"2M\"\n\
                [cgi]\nrunning_max = 9\ntimeout = \"1m\"\nnph = true\nmemory = \"1G\"\n";
    let options = load(text);
    let php = options.php.unwrap();
    assert_eq!(php.source, vermeil_settings::php::PhpSource::Unix("/run/php.sock".into()));
    assert_eq!((php.children, php.queue_max), (3, 7));
    assert_eq!(options.gateway.timeouts.answer, Duration::from_secs(5));
    assert_eq!((options.gateway.content_bytes, options.limits.body_bytes), (2 << 20, 2 << 20));
    let cgi = options.cgi;
    assert_eq!((cgi.bounds.running_max, cgi.time_limit), (9, Duration::from_secs(60)));
    assert_eq!(
        (cgi.nph, cgi.limits.address_space_bytes),
        (vermeil_settings::cgi::Nph::Allowed, Some(1 << 30))
    );
    assert!(options.hosts.have_cgi() && options.hosts.have_php());
    let text = "[[host]]\nroot = \"x\"\nphp = true\n[php]\nsource = \"localhost:9000\"\n";
    let named = vermeil_settings::php::PhpSource::Tcp(["[::1]:9000", "127.0.0.1:9000"].map(addr).to_vec());
    assert_eq!(load(text).php.unwrap().source, named);
    for (table, problem) in [
        ("[php]\nchildren = 0\n", "v.toml:2:12: php.children: 0 is not from 1 to 10000"),
        (
            "[php]\nsource = \"nowhere:9\"\n",
            "v.toml:2:10: php.source: the name cannot be resolved: no such name; write an address such as 127.0.0.1:8080",
        ),
        ("[cgi]\nmemory = 9\n", "v.toml:2:10: cgi.memory: 9 is not from 1M to 1T"),
    ] {
        assert_eq!(problems(&format!("{table}[[host]]\n")), [problem]);
    }
    assert!(
        problems("[php]\nsource = \"x\"\n[[host]]\n")[0]
            .starts_with("v.toml:2:10: php.source: write \"auto\"")
    );
    assert!(
        problems("[cgi]\nuser = \"nobody-of-this-name\"\n[[host]]\n")[0]
            .starts_with("v.toml:2:8: cgi.user: ")
    );
}

#[test]
fn hosts_may_have_pools_of_their_own() {
    let pool = "[host.php]\nuser = \"nobody\"\nchildren = 2\nidle_stop = \"5s\"\n";
    let text = format!(
        "[[host]]\nnames = [\"a\"]\nroot = \"x\"\n{pool}[[host]]\nnames = [\"b\"]\nroot = \"y\"\n{pool}\
         [[host]]\nnames = [\"c\"]\nroot = \"z\"\nphp = {{ queue_max = 3 }}\n\
         [php]\nsource = \"/usr/bin/php-cgi\"\npools_max = 9\n"
    );
    let options = load(&text);
    assert_eq!(options.php, None, "nobody uses the server's");
    assert!(options.hosts.have_php() && !options.hosts.have_shared_php());
    let pools: Vec<_> = options.hosts.pools().cloned().collect();
    assert_eq!(pools.len(), 2, "equal ones are one");
    assert_eq!(pools[0].user.as_ref().map(ToString::to_string).as_deref(), Some("nobody"));
    assert_eq!((pools[0].children, pools[0].idle_stop), (2, Duration::from_secs(5)));
    assert_eq!((pools[1].user.as_ref(), pools[1].children, pools[1].queue_max), (None, 4, 3));
    assert_eq!(options.php_pools.running_max, 9);
    assert_eq!(options.php_pools.program.as_deref(), Some(Path::new("/usr/bin/php-cgi")));
    for (key, problem) in [
        ("php = 3", "v.toml:2:7: host.php: this is a whole number; write true, false, or a table in { }"),
        (
            "php = { childern = 3 }",
            "v.toml:2:9: host.php.childern: there is no such key; did you mean `children`?",
        ),
        ("php = { children = 0 }", "v.toml:2:20: host.php.children: 0 is not from 1 to 10000"),
    ] {
        assert_eq!(problems(&format!("[[host]]\n{key}\n")), [problem]);
    }
}

#[test]
fn hosts_may_run_their_programs_otherwise() {
    let text = "[[host]]\nroot = \"x\"\n[host.cgi]\nuser = \"nobody\"\ndirectory = \"./a/b\"\nenvironment = { A = \"b=c\" }\n\
                cpu_time = \"1500ms\"\nmemory = \"2M\"\nno_new_privileges = false\n\
                [host.cgi.cgroup]\nfolder = \"/x/y\"\ncpu_percent = 150\n[host.cgi.landlock]\nread = [\"/\", \"/no/such\"]\n";
    let options = load(text);
    let programs = options.hosts.programs().next().unwrap();
    assert_eq!(programs.user.as_ref().unwrap().identity().uid, 65_534);
    assert_eq!(programs.directory.as_deref(), Some(Path::new("a/b")));
    assert_eq!(programs.environment, [("A".to_owned(), "b=c".to_owned())]);
    assert_eq!((programs.limits.cpu_seconds, programs.limits.address_space_bytes), (Some(2), Some(2 << 20)));
    assert_eq!(programs.limits.descriptors, None, "as for all hosts");
    assert_eq!(programs.new_privileges, vermeil_settings::cgi::NewPrivileges::Allowed);
    assert_eq!(programs.cgroup.as_ref().unwrap().cpu_thousandths, Some(1500));
    let confinement = programs.confinement.as_ref().unwrap();
    // Regression: a path that the reader of the file may not reach was left out, so the server and
    // the keeper read different profiles.
    assert_eq!(confinement.read, [Path::new("/"), Path::new("/no/such")]);
    assert_eq!(confinement.write.len(), 1);
    for (keys, problem) in [
        ("directory = \"../x\"", "v.toml:3:13: host.cgi.directory: write a folder below the host's"),
        ("environment = [\"A=b\"]", "v.toml:3:15: host.cgi.environment: this is a list; write a table"),
        ("environment = { 1 = \"x\" }", "v.toml:3:17: host.cgi.environment.1: a name has letters"),
        ("environment.HTTP_X = \"\"", "v.toml:3:13: host.cgi.environment.HTTP_X: this variable tells"),
        ("cgroup = { folder = \"x\" }", "v.toml:3:21: host.cgi.cgroup.folder: write its path from the root"),
        ("cgroup = {}", "v.toml:3:10: host.cgi.cgroup.folder: this key must be there"),
    ] {
        let found = problems(&format!("[[host]]\n[host.cgi]\n{keys}\n"));
        assert!(found.len() == 1 && found[0].starts_with(problem), "{found:?}");
    }
}

#[test]
fn superuser_never_owns_programs() {
    let superuser = "programs do not run as the superuser, because a fault in one would give the whole machine away; name another user";
    let group = "programs do not run in the superuser's group, whose files may be written to by it; name a user of another group, or for \
                 one host another group behind it, as \"USER:GROUP\"";
    for (table, user, why) in [
        ("cgi", "root", superuser),
        ("php", "root", superuser),
        ("host.cgi", "root", superuser),
        ("host.php", "root", superuser),
        ("host.cgi", "root:nogroup", superuser),
        ("host.cgi", "nobody:root", group),
        ("host.php", "nobody:root", group),
    ] {
        let found = problems(&format!("[[host]]\n[{table}]\nuser = \"{user}\"\n"));
        assert_eq!(found, [format!("v.toml:3:8: {table}.user: {why}")]);
    }
    // The server's own user is another matter.
    load("user = \"root\"\n[[host]]\n");
}

#[test]
fn hosts_share_a_cgroup_if_they_bound_it_alike() {
    let host = |processes| {
        format!(
            "[[host]]\nnames = [\"n{processes}\"]\n[host.cgi]\ncgroup = {{ folder = \"/g\", processes = {processes} }}\n"
        )
    };
    load(&format!("{}{}", host(9), host(9).replace("n9", "m9")));
    assert_eq!(
        problems(&format!("{}{}", host(9), host(8))),
        [
            "v.toml:8:21: host.cgi.cgroup.folder: another host has this cgroup with other bounds; write the same ones, or name \
          another folder"
        ]
    );
}

#[test]
fn programs_have_files_sent_out_of_named_folders() {
    let send = |folder: &str| vermeil_settings::gateway::SendRoot { prefix: None, folder: folder.into() };
    let options = load(
        "[php]\nsend = [\"p\"]\n[cgi]\nsend = [\"/files=/c\"]\n[[host]]\nphp = true\n[[host]]\nnames = [\"own\"]\n\
         [host.php]\nsend = [\"../h\"]\n[host.cgi]\nsend = []\n[[host]]\nnames = [\"none\"]\n[host.php]\n[host.cgi]\n",
    );
    let of_all = &options.gateway.sends;
    assert_eq!(of_all.php, [send("/etc/vermeil/p")]);
    assert_eq!((of_all.cgi[0].prefix.as_deref(), &*of_all.cgi[0].folder), (Some("/files"), Path::new("/c")));
    let of = |name: &str| {
        options.hosts.host(options.hosts.find(Some(name.as_bytes())).unwrap()).rules.sends.clone()
    };
    assert_eq!((of("any").php, of("any").cgi), (None, None), "as of all");
    assert_eq!((of("own").php, of("own").cgi), (Some(vec![send("/etc/vermeil/../h")]), Some(Vec::new())));
    assert_eq!((of("none").php, of("none").cgi), (Some(Vec::new()), None), "a pool of its own has its own");
    for (keys, problem) in [
        (
            "send = [\"files=/x\"]",
            "v.toml:2:9: php.send: \"files=/x\": write the prefix as a path of the site, such as /files=/srv/files",
        ),
        ("send = [\"\"]", "v.toml:2:9: php.send: \"\": write a folder, such as /srv/files"),
        ("sned = []", "v.toml:2:1: php.sned: there is no such key; did you mean `send`?"),
    ] {
        assert_eq!(problems(&format!("[php]\n{keys}\n[[host]]\n")), [problem]);
    }
}

#[test]
fn every_problem_is_reported_with_its_place() {
    let text = r#"
corse = 2
[limits]
header_count = 0
header-bytes = "1K"
body_bytes = "1.5G"
[timeouts]
header = "never"
[[host]]
root = 3
rout = "x"
[[host.route]]
prefix = "/a"
action = "redirekt"
"#;
    let expected = [
        "v.toml:2:1: corse: there is no such key; did you mean `cores`?",
        "v.toml:4:16: limits.header_count: 0 is not from 1 to 10000",
        "v.toml:5:1: limits.header-bytes: there is no such key; did you mean `header_bytes`?",
        "v.toml:6:14: limits.body_bytes: \"1.5G\": write bytes such as 4096, or a whole number with a unit of 1024: \
         32K, 256M, 2G, 1T",
        "v.toml:8:10: timeouts.header: \"never\": write seconds such as 10 or 2.5, or a number with a unit: 500ms, \
         10s, 2m, 1h",
        "v.toml:10:8: host.root: this is a whole number; write a path in quotes, such as \"/srv/www\"",
        "v.toml:11:1: host.rout: there is no such key; did you mean `root`?",
        "v.toml:14:10: host.route.action: \"redirekt\" is no choice; did you mean `redirect`?",
    ];
    assert_eq!(problems(text), expected);
}

#[test]
fn invalid_toml_is_reported() {
    let found = problems("cores = \nio = \"epoll\"\nlog = \"off\n[[host]]\nroot = \"a\"\nroot = \"b\"\n");
    let at = |problem: &String| problem.split(' ').next().unwrap().to_owned();
    let places: Vec<_> = found.iter().map(at).collect();
    assert!(places.iter().any(|place| place.starts_with("v.toml:1:")), "{found:?}");
    assert!(places.iter().any(|place| place.starts_with("v.toml:3:")), "{found:?}");
    assert!(places.iter().any(|place| place.starts_with("v.toml:6:")), "{found:?}");
}

#[test]
fn unclosed_text_is_one_problem() {
    for text in
        ["[[host]]\nnames = [\"a.test]\nroot = \"x\"\n", "[[host]]\nnames = [\n\"a.test]\nroot = \"x\"\n"]
    {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with("this text has no quotation mark at its end; write one"), "{found:?}");
    }
    let found = problems("[host]\nroot = \"x\"\n");
    assert!(found[0].ends_with("write [[host]] instead of [host]"), "{found:?}");
}

#[test]
fn conflicting_keys_are_refused() {
    for (text, problem) in [
        ("", "v.toml:1:1: host: there is no host; write [[host]] and below it root = \"FOLDER\""),
        (
            "[limits]\nrequest_line_bytes = \"64K\"\n[[host]]\n",
            "v.toml:2:22: limits.request_line_bytes: 64K is more than header_bytes allows, which is 32K",
        ),
        (
            "cores = 9\n[[host]]\n",
            "v.toml:1:9: cores: 9 cpus asked for, 4 allowed; cpus that may be used: 0-3",
        ),
        (
            "[[listener]]\naddress = \"nowhere:80\"\n[[host]]\n",
            "v.toml:2:11: listener.address: the name cannot be resolved: no such name; write an address such as \
             127.0.0.1:8080",
        ),
        (
            "[[listener]]\naddress = \"80\"\n[[listener]]\naddress = \"127.0.0.1:80\"\n[[host]]\n",
            "v.toml:4:11: listener.address: another listener has this address",
        ),
        // The second socket could not be bound, and the error blamed the server itself.
        (
            "[[listener]]\naddress = \":80\"\n[[listener]]\naddress = \"127.0.0.1:80\"\n[[host]]\n",
            "v.toml:4:11: listener.address: another listener has this address: 0.0.0.0:80 has 127.0.0.1:80 too; leave \
             one of them out",
        ),
        (
            "[[listener]]\naddress = \"[::1]:80\"\n[[listener]]\naddress = \"[::]:80\"\n[[host]]\n",
            "v.toml:4:11: listener.address: another listener has this address: [::]:80 has [::1]:80 too; leave one of \
             them out",
        ),
        ("[[listener]]\n[[host]]\n", "v.toml:1:1: listener.address: this key must be there"),
        (
            "[[host]]\nnames = [\"a.example\"]\n\n[[host]]\nnames = [\"b\", \"A.example.\"]\n",
            "v.toml:5:15: host.names: \"a.example\": the host at line 1 has this name",
        ),
        (
            "[[host]]\n[[host]]\nroot = \"x\"\n",
            "v.toml:2:1: host.names: no request reaches a host without a name; name it, write default = true, or bind it with \
             listen",
        ),
        (
            "[[host]]\n[[host]]\nnames = [\"a\"]\ndefault = true\n",
            "v.toml:1:1: host.names: no request reaches a host without a name; name it, write default = true, or bind it with \
             listen",
        ),
        (
            "[hosts]\nunknown = \"refuse\"\n[[host]]\n",
            "v.toml:3:1: host.names: no request reaches a host without a name, because unknown = \"refuse\"; name the host",
        ),
        (
            "[[host]]\nclient_certificate = \"required\"\n",
            "v.toml:2:22: host.client_certificate: no issuers are named, so no client would be asked for a certificate; \
             write client_issuers = \"FILE\" too",
        ),
        (
            "[[host]]\nerror_pages = { 404 = \"/.errors/404.html\" }\n",
            "v.toml:2:23: host.error_pages.404: \"/.errors/404.html\": names that begin with a dot are never served; name \
             another file",
        ),
        (
            "[[host]]\ntry = [\"{path}\", \"/.app/front.html\"]\n",
            "v.toml:2:18: host.try: \"/.app/front.html\": names that begin with a dot are never served; name another file",
        ),
        (
            "[[host]]\n[[host.route]]\nprefix = \"/a\"\naction = \"deny\"\ncode = 401\n",
            "v.toml:5:8: host.route.code: 401 must ask for a name and password; write users = \"FILE\" below access instead",
        ),
        (
            "[[host]]\ndefault = true\n[[host]]\ndefault = true\n",
            "v.toml:4:11: host.default: another host is the default already",
        ),
        (
            "[[host]]\nnames = [\"a:80\"]\n",
            "v.toml:2:10: host.names: \"a:80\": write the name alone, without `http://`, port or path, such as \
             example.org",
        ),
        (
            "[[host]]\n[[host.route]]\nprefix = \"/a\"\naction = \"redirect\"\n",
            "v.toml:2:1: host.route.to: a redirect needs this key, such as to = \"/new{rest}{query}\"",
        ),
        (
            "[[host]]\n[[host.route]]\naction = \"files\"\nto = \"/a\"\n",
            "v.toml:4:6: host.route.to: only a route with action = \"redirect\" or \"rewrite\" has this key",
        ),
        (
            "[[host]]\n[[host.route]]\naction = \"redirect\"\nto = \"/{pth}\"\n",
            "v.toml:4:6: host.route.to: \"/{pth}\": `{pth}` stands for nothing; {scheme}, {host}, {name}, {path}, {rest}, \
             {query} and the groups of a pattern, such as {1}, do",
        ),
        (
            "[[host]]\n[[host.route]]\nprefix = \"/a/../b\"\naction = \"files\"\n",
            "v.toml:3:10: host.route.prefix: \"/a/../b\": write a path as it is when decoded, such as \"/old\", without \
             dot segments",
        ),
        (
            "[[host]]\nindex = [\"../x\"]\n",
            "v.toml:2:10: host.index: \"../x\": write the name of a file, without slash and without dot at its start",
        ),
    ] {
        assert_eq!(problems(text), [problem], "{text}");
    }
}

#[test]
fn the_line_is_shown_with_its_place_marked() {
    let error = try_load("[[host]]\nnames = [\"münchen.example\", \"a b\"]\n").unwrap_err().to_string();
    let expected = concat!(
        "/etc/vermeil/vermeil.toml:2:10: host.names: \"münchen.example\": write an international name as it is on ",
        "the wire, beginning with xn--\n    |\n  2 | names = [\"münchen.example\", \"a b\"]\n    |          ",
        "^^^^^^^^^^^^^^^^^\n",
        "/etc/vermeil/vermeil.toml:2:29: host.names: \"a b\": a name has letters, digits, `-` and `_` between dots; an ",
        "IPv6 address stands in brackets\n    |\n  2 | names = [\"münchen.example\", \"a b\"]\n    |",
        "                             ^^^^^",
    );
    assert_eq!(error, expected);
}

/// Regression: the line of an included file could command the terminal of its reader.
#[test]
fn excerpt_shows_no_control_character() {
    let text = "[[host]]\nnames = [\"\u{1b}[31m\"]\n\"a\\u001b\" = \"\\u009b\"\n";
    let error = try_load(text).unwrap_err();
    let lines = error.lines().collect::<Vec<_>>().join("\n");
    assert!(error.to_string().contains("names = [\"\u{fffd}[31m\"]"), "{error}");
    for shown in [error.to_string(), lines] {
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    }
}

#[test]
fn so_many_problems_and_no_more_are_shown() {
    let text = "x = 1\n[[host]]\n".to_owned() + &(0..99).map(|i| format!("x{i} = 1\n")).collect::<String>();
    let found = problems(&text);
    assert_eq!(found.len(), 51);
    assert_eq!(found[50], "v.toml: 50 more problems");
}

/// Reading in parts gives the same hosts in the same order, and the same places, as reading at
/// once.
#[test]
fn very_many_hosts_are_read_like_few() {
    let host = |i: usize| format!("[[host]]\nnames = [\"h{i}.example\"]\nroot = \"/srv/{i}\"\n");
    let text: String = (0..2000).map(host).collect();
    let options = load(&format!("{text}[timeouts]\ndrain = 1\n"));
    assert_eq!(options.hosts.names(), 2000);
    assert_eq!(options.timeouts.drain, Duration::from_secs(1));
    for i in [0, 1, 511, 512, 1999] {
        assert_eq!(root_of(&options.hosts, &format!("h{i}.example")), Some(&*format!("/srv/{i}")));
    }
    assert_eq!(root_of(&options.hosts, "other"), Some("/srv/0"), "the first one is the default");
    let again = format!("{text}{}", host(1500));
    assert_eq!(
        problems(&again),
        ["v.toml:6002:10: host.names: \"h1500.example\": the host at line 4501 has this name"]
    );
    let wrong = text.replace("root = \"/srv/1999\"", "rot = \"/srv/1999\"");
    assert_eq!(problems(&wrong), ["v.toml:6000:1: host.rot: there is no such key; did you mean `root`?"]);
}

#[test]
fn hosts_may_be_written_in_one_list() {
    let options = load("host = [{ names = [\"a\"], root = \"x\" }, { names = [\"b\"], root = \"y\" }]\n");
    assert_eq!(root_of(&options.hosts, "b"), Some("/etc/vermeil/y"));
}

#[test]
fn the_page_has_every_key_and_the_introduction_parses() {
    let page = reference_page();
    for words in
        ["`[limits]`", "`[[host.route]]`", "| `connections_max` | number, 1 to 10000000 |", "`\"256M\"`"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
    let example = INTRODUCTION.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    load(example);
}

#[test]
fn key_written_twice_is_named() {
    let host = "[[host]]\nroot = \"www\"\ncompress = true\n[host.compress]\n";
    let file: ConfigText = host.to_owned().into();
    let error = take(Path::new("v.toml"), &file, &surroundings()).expect_err("refused").to_string();
    assert!(error.starts_with("v.toml:4:7: compress is written twice; leave one of the two out"), "{error}");
}

#[test]
fn reload_names_keys_that_need_restart() {
    let of = |keys: &str| load(&format!("{keys}\n[[host]]\nroot = \"www\"\n")).instances;
    let differ = |old, new| keys_that_differ(&of(old), &of(new));
    assert_eq!(differ("", "cores = 4"), [""; 0]);
    assert_eq!(differ("", "cores = 3"), ["cores"]);
    assert_eq!(differ("", "instances = 2"), ["instances"]);
    assert_eq!(differ("", "cores = 3\ninstances = 3"), ["cores", "instances"]);
}

#[test]
fn a_server_that_has_lost_a_cpu_reads_its_configuration_as_before() {
    let text = |cores: &str| format!("cores = {cores}\n[[host]]\nroot = \"www\"\n");
    for cores in ["4", "3", "\"0-3\"", "\"all\""] {
        let running = load(&text(cores));
        let mut around = surroundings();
        around.allowed.cpus = (0..3).map(CpuId).collect();
        let read =
            |text: &str, around: &Surroundings| take(Path::new("v.toml"), &text.to_owned().into(), around);
        let begun = read(&text(cores), &around);
        assert!(begun.is_err() || begun.is_ok_and(|begun| begun.cpus.len() == 3), "a server that begins");
        let around = around.of_running(&running);
        let again = read(&text(cores), &around).unwrap();
        assert_eq!(again.instances, running.instances);
        assert!(read(&text("\"1-3\""), &around).is_err(), "something else was asked for");
    }
}

#[test]
fn host_bound_to_listener_answers_there() {
    let text = r#"
[[listener]]
address = "127.0.0.1:80"
[[listener]]
address = "127.0.0.1:9000"
[[host]]
root = "public"
listen = ["127.0.0.1:80"]
[[host]]
names = ["monitor.internal"]
root = "monitor"
listen = ["127.0.0.1:9000"]
[[host]]
names = ["both.example"]
root = "both"
"#;
    let hosts = load(text).hosts;
    assert!(hosts.ask_for_visitor());
    let root = |name: &str, at: Option<&str>| {
        let id = hosts.find_at(Some(name.as_bytes()), at.map(addr).map(ListenAddr::Tcp))?;
        hosts.host(id).root?.file_name()?.to_str()
    };
    let (public, private) = (Some("127.0.0.1:80"), Some("127.0.0.1:9000"));
    for (name, at, expected) in [
        ("monitor.internal", public, Some("public")),
        ("monitor.internal", private, Some("monitor")),
        ("other.example", public, Some("public")),
        ("other.example", private, Some("monitor")),
        ("both.example", public, Some("both")),
        ("both.example", private, Some("both")),
        ("both.example", None, Some("both")),
        ("monitor.internal", None, None),
    ] {
        assert_eq!(root(name, at), expected, "{name} at {at:?}");
    }
    let refusing = load(&format!("[hosts]\nunknown = \"refuse\"\n{text}")).hosts;
    assert_eq!(refusing.find_at(Some(b"monitor.internal"), public.map(addr).map(ListenAddr::Tcp)), None);
    assert!(!load("[[host]]\nroot = \"x\"\n").hosts.ask_for_visitor());
}

#[test]
fn unix_listener_has_path_below_folder_and_mode() {
    let text = r#"
[[listener]]
address = "unix:run/v.sock"
mode = "0660"
[[listener]]
address = "unix:/run/w.sock"
[[host]]
root = "public"
listen = ["unix:/run/w.sock"]
[[host]]
root = "private"
listen = ["unix:/etc/vermeil/run/v.sock"]
"#;
    let options = load(text);
    let unix = |path: &str, mode| ListenAddr::Unix(UnixAddr::new(Path::new(path)).unwrap().with_mode(mode));
    let (v, w) = (unix("/etc/vermeil/run/v.sock", 0o660), unix("/run/w.sock", 0o666));
    assert_eq!(options.listen, [v, w]);
    // A connection that came before a reload changed the mode.
    let before = unix("/etc/vermeil/run/v.sock", 0o600);
    for (at, root) in [(v, "private"), (before, "private"), (w, "public")] {
        let id = options.hosts.find_at(Some(b"any"), Some(at)).expect("a host");
        assert!(options.hosts.host(id).root.unwrap().ends_with(root), "{at}");
    }
}

#[test]
fn wrong_unix_listeners_are_reported() {
    let long = "x".repeat(104);
    let host = "[[host]]\nroot = \"x\"\n";
    for (text, expected) in [
        (
            "[[listener]]\naddress = \"unix:\"\n".to_owned(),
            "v.toml:2:11: listener.address: \"unix:\": write the path",
        ),
        (
            format!("[[listener]]\naddress = \"unix:/run/{long}\"\n"),
            "v.toml:2:11: listener.address: a unix socket's path has at most 107 bytes, and /run/x",
        ),
        (
            "[[listener]]\naddress = \"unix:/v\"\n[[listener]]\naddress = \"unix:/v\"\nmode = \"0600\"\n"
                .to_owned(),
            "v.toml:4:11: listener.address: another listener has this address",
        ),
        (
            "[[listener]]\naddress = \"80\"\nmode = \"0600\"\n".to_owned(),
            "v.toml:3:8: listener.mode: only a unix socket has a mode",
        ),
        (
            "[[listener]]\naddress = \"unix:/v\"\nmode = \"0888\"\n".to_owned(),
            "v.toml:3:8: listener.mode: \"0888\": write the rights of owner",
        ),
        (
            "agent = \"unix:/v\"\n".to_owned(),
            "v.toml:1:9: agent: this is a unix socket; write an address of TCP",
        ),
    ] {
        let found = problems(&format!("{text}{host}"));
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?} for {expected}");
    }
}
