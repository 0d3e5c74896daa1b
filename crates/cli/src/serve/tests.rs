//! The options that result from command lines, on an invented machine, and the refusals, message by
//! message.

use super::*;
use crate::Command;
use clap::error::ErrorKind;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use vermeil_address::ListenAddr;
use vermeil_config::{CONNECTIONS_MAX, ServeOptions, Timeouts, store_here};
use vermeil_files::{Listing, SiteOptions, StoreOptions};
use vermeil_http::ConnectionLimits;
use vermeil_routing::hosts::Rules;
use vermeil_server::IoChoice;
use vermeil_settings::{Balance, BusyPoll};
use vermeil_topology::{Allowed, CpuId, synthetic};

fn parse(args: &[&str]) -> Result<ServeArgs, clap::Error> {
    match crate::parse(["vermeil", "serve"].iter().chain(args).map(Into::into))?.command {
        Command::Serve(args) => Ok(*args),
        other => panic!("not serve: {other:?}"),
    }
}

/// Two nodes of two cores of two cpus; `localhost` has two addresses, `empty` none, and no other
/// name is known.
fn surroundings() -> Surroundings {
    let machine = synthetic::parse("node:2 core:2 pu:2").unwrap();
    let look_up = |name: &str, port| match name {
        "localhost" => Ok(vec![addr(&format!("[::1]:{port}")), addr(&format!("127.0.0.1:{port}"))]),
        "empty" => Ok(Vec::new()),
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

fn resolve(args: &[&str]) -> ServeOptions {
    parse(args).unwrap().resolve(&surroundings()).unwrap()
}

fn root(options: &ServeOptions) -> PathBuf {
    options.hosts.host(options.hosts.default_host()).root.expect("a folder").to_owned()
}

fn absolute(path: &str) -> PathBuf {
    std::path::absolute(path).expect("there is a folder to be in")
}

fn listen(args: &[&str]) -> Vec<String> {
    resolve(args).listen.iter().map(ToString::to_string).collect()
}

#[test]
fn without_arguments() {
    let options = resolve(&[]);
    assert_eq!(root(&options), absolute("."));
    assert_eq!(options.listen, [ListenAddr::Tcp(addr("127.0.0.1:8080"))]);
    assert_eq!(options.cpus.len(), 8);
    assert_eq!((options.balance, options.io), (Balance::Auto, IoChoice::Auto));
    assert_eq!(options.log.target, LogTarget::Stdout);
    assert_eq!(options.store, store_here(options.instances.len()));
    assert_eq!(options.limits, ConnectionLimits::default());
    assert_eq!(options.timeouts, Timeouts::default());
    assert_eq!(options.connections_max, CONNECTIONS_MAX);
}

/// Regression: after a reload without a host whose file of users was then removed, no instance
/// could be restarted.
#[test]
fn refused_earlier_text_leaves_present_settings() {
    let file = Path::new("/etc/vermeil/vermeil.toml");
    let text = |io: &str, users: &str| -> ConfigText {
        format!("io = \"{io}\"\n[[host]]\nroot = \"/\"\n{users}").into()
    };
    for (users, io) in [("", IoChoice::Epoll), ("access.users = \"/missing/users\"\n", IoChoice::Auto)] {
        let mut options = vermeil_config::take(file, &text("auto", ""), &surroundings()).unwrap();
        keep_fixed_of(&text("epoll", users), file, &surroundings(), &mut options);
        assert_eq!(options.io, io, "{users}");
    }
}

#[test]
fn where_to_listen() {
    assert_eq!(listen(&["-l", "80"]), ["127.0.0.1:80"]);
    assert_eq!(listen(&["--listen", ":80"]), ["0.0.0.0:80", "[::]:80"]);
    assert_eq!(listen(&["--listen", "[::1]:80", "--listen=10.0.0.1:81"]), ["[::1]:80", "10.0.0.1:81"]);
    assert_eq!(listen(&["--listen", "localhost:80"]), ["[::1]:80", "127.0.0.1:80"]);
    assert_eq!(listen(&["-l", "unix:/run/v.sock", "-l", "unix:/run/./v.sock"]), ["unix:/run/v.sock"]);
    assert_eq!(listen(&["-l", "unix:v.sock"]), [format!("unix:{}", absolute("v.sock").display())]);
    assert_eq!(listen(&["-l", "localhost:80", "-l", "80", "-l", "[::1]:80"]), ["[::1]:80", "127.0.0.1:80"]);
}

#[test]
fn all_interfaces_are_those_of_ipv4_where_there_is_no_ipv6() {
    let around = Surroundings { has_ipv6: false, ..surroundings() };
    let listen = |text| parse(&["--listen", text]).unwrap().resolve(&around).unwrap().listen;
    assert_eq!(listen(":80"), [ListenAddr::Tcp(addr("0.0.0.0:80"))]);
    let written = [ListenAddr::Tcp(addr("[::]:80"))];
    assert_eq!(listen("[::]:80"), written, "what was written is tried, and fails with its reason");
}

#[test]
fn which_cpus() {
    let cpus = |text| resolve(&["--cores", text]).cpus;
    assert_eq!(cpus("1"), [CpuId(0)]);
    assert_eq!(cpus("2"), [CpuId(0), CpuId(2)]);
    assert_eq!(cpus("5-7,^6"), [CpuId(5), CpuId(7)]);
}

#[test]
fn each_option_arrives() {
    let options = resolve(&[
        "site",
        "--balance=hash",
        "--busy-poll=load",
        "--io=epoll",
        "--log=off",
        "--no-listing",
        "--follow-symlinks=none",
        "--cache-bytes=1M",
        "--cache-entries=11",
        "--cache-file-bytes=3K",
        "--connections-max=7",
        "--request-line-bytes=1K",
        "--header-count=9",
        "--header-bytes=2K",
        "--body-bytes=3G",
        "--requests-per-connection=5",
        "--ranges-max=0",
        "--header-timeout=1",
        "--body-timeout=2.5",
        "--keep-alive-timeout=500ms",
        "--write-timeout=2m",
        "--leave-timeout=5",
        "--drain-timeout=1h",
        "--wait-max=70ms",
    ]);
    assert_eq!(root(&options), absolute("site"));
    assert_eq!((options.balance, options.io), (Balance::Hash, IoChoice::Epoll));
    assert_eq!(options.busy_poll, BusyPoll::Load);
    assert_eq!(options.log.target, LogTarget::Off);
    let files = SiteOptions {
        follow_symlinks: vermeil_files::FollowSymlinks::None,
        listing: Listing::Off,
        ..SiteOptions::default()
    };
    let rules = options.hosts.host(options.hosts.default_host()).rules;
    assert_eq!(*rules, Rules { files, ..Rules::default() });
    let store = StoreOptions {
        content_bytes_max: 1 << 20,
        entries_max: 11,
        content_file_bytes_max: 3 << 10,
        ..store_here(options.instances.len())
    };
    assert_eq!(options.store, store);
    let timeouts = Timeouts {
        header: Duration::from_secs(1),
        body: Duration::from_millis(2500),
        keep_alive: Duration::from_millis(500),
        write: Duration::from_secs(120),
        leave: Duration::from_secs(5),
        drain: Duration::from_secs(3600),
    };
    assert_eq!(options.timeouts, timeouts);
    assert_eq!((options.connections_max, options.wait_max), (7, Duration::from_millis(70)));
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
}

#[test]
fn log_targets() {
    assert_eq!(resolve(&["--log", "-"]).log.target, LogTarget::Stdout);
    assert_eq!(resolve(&["--log", "/tmp/x.log"]).log.target, LogTarget::File("/tmp/x.log".into()));
}

#[test]
fn refused_value_names_accepted_values() {
    for (args, words) in [
        (&["--listen", "localhost"][..], "'--listen <ADDR>': the port is missing; write it behind a colon"),
        (&["--listen", "::1"], "write an IPv6 address in brackets, such as [::1]:8080"),
        (&["--cores", "0"], "'0' for '--cores <LIST|N|all>': a server needs at least one core"),
        (&["--io", "kqueue"], "[possible values: auto, uring, epoll]"),
        (&["--log", ""], "a log is `off`, `-` for standard output, `syslog`, `journald`"),
        (&["--header-timeout", "0"], "no time at all; the shortest time is 1ms"),
        (&["--drain-timeout", "2d"], "write seconds such as 10 or 2.5, or a number with a unit"),
        (&["--header-bytes", "17M"], "at most 16M"),
        (&["--header-count", "0"], "0 is not in 1..=10000"),
        (&["--requests-per-connection", "0"], "0 is not in 1..=4294967295"),
        (&["--body-bytes", "1.5G"], "a whole number with a unit of 1024"),
        (&["--lissten", "80"], "a similar argument exists: '--listen'"),
    ] {
        let error = parse(args).expect_err("refused");
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.use_stderr());
    }
    assert_eq!(parse(&["one", "two"]).unwrap_err().kind(), ErrorKind::UnknownArgument);
}

#[test]
fn machine_refusal_names_option_value_and_cure() {
    for (args, message, exit) in [
        (
            &["--listen", "nowhere:80"][..],
            "--listen nowhere:80: the name cannot be resolved: no such name; write an address such as 127.0.0.1:8080",
            Exit::CannotStart,
        ),
        (
            &["--agent", "unix:/run/v.sock"],
            "--agent unix:/run/v.sock: this is a unix socket; write an address of TCP such as 127.0.0.1:8080",
            Exit::CannotStart,
        ),
        (
            &["--listen", "empty:80"],
            "--listen empty:80: the name has no address; write an address such as 127.0.0.1:8080",
            Exit::CannotStart,
        ),
        (
            &["--cores", "9"],
            "--cores 9: 9 cpus asked for, 8 allowed; cpus that may be used: 0-7",
            Exit::Usage,
        ),
        (
            &["--cores", "7-8"],
            "--cores 7-8: cpu 8 does not exist on this machine; cpus that may be used: 0-7",
            Exit::Usage,
        ),
        (
            &["--instances", "2", "--trace", "run.ndjson"],
            "--trace: records one instance and there are 2; add --instances one",
            Exit::Usage,
        ),
        (
            &["--request-line-bytes", "64K"],
            "--request-line-bytes 64K: more than --header-bytes 32K allows; raise --header-bytes or lower \
             --request-line-bytes",
            Exit::Usage,
        ),
        (
            &["--cache-bytes", "1K", "--cache-file-bytes", "65K"],
            "--cache-file-bytes 65K: more than --cache-bytes 1K allows; raise --cache-bytes or lower --cache-file-bytes",
            Exit::Usage,
        ),
        (
            &["--cgi", ".cgi", "--cgi-user", "root"],
            "--cgi-user: programs do not run as the superuser, because a fault in one would give the whole machine away; name another user",
            Exit::Usage,
        ),
        (
            &["--php", "--php-user", "root"],
            "--php-user: programs do not run as the superuser, because a fault in one would give the whole machine away; name another user",
            Exit::Usage,
        ),
    ] {
        let error = parse(args).unwrap().resolve(&surroundings()).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.exit()), (message, exit));
    }
}

#[test]
fn a_small_cache_lowers_the_largest_file_in_it() {
    let store = parse(&["--cache-bytes", "0"]).unwrap().resolve(&surroundings()).unwrap().store;
    assert_eq!((store.content_bytes_max, store.content_file_bytes_max), (0, 0));
}

#[test]
fn limits_of_programs_hold_with_cgi_alone() {
    let options = resolve(&["--cgi", ".cgi", "--programs-timeout", "2s", "--programs-body-bytes", "1M"]);
    assert_eq!(options.gateway.timeouts.answer, Duration::from_secs(2));
    assert_eq!(options.gateway.content_bytes, 1 << 20);
    let error = parse(&["--programs-timeout", "2s"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingRequiredArgument);
}

#[test]
fn former_option_names_its_successor() {
    for option in ["queue-timeout", "timeout", "body-bytes"] {
        let error = parse(&["--php", &format!("--php-{option}"), "1"]).unwrap_err().to_string();
        assert!(error.contains(&format!("write --programs-{option}")), "{error}");
    }
}

#[test]
fn reference_page_has_each_limit_with_an_option() {
    let keys = vermeil_config::reference_page();
    let (_, limits) = keys.split_once("\n## `[limits]`\n").unwrap();
    let limits = limits.split("\n## ").next().unwrap();
    let named = limits.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let options: Vec<String> = crate::command()
        .find_subcommand("serve")
        .unwrap()
        .get_arguments()
        .filter_map(|argument| argument.get_long().map(str::to_owned))
        .collect();
    let page = include_str!("../../../../docs/reference.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let mut checked = 0;
    for option in named.map(|key| key.replace('_', "-")).filter(|option| options.contains(option)) {
        let has_row = rows.iter().any(|row| row.contains(&format!("`--{option} ")));
        assert!(has_row, "docs/reference.md has no row for --{option}");
        checked += 1;
    }
    assert!(checked >= 12, "only {checked} limits with an option were found");
}
