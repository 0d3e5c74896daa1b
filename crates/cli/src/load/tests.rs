//! Arguments of the command line arrive in the plan, and errors have messages.

use super::LoadArgs;
use super::resolve::LoadUsage;
use crate::Exit;
use clap::Parser;
use std::time::Duration;
use vermeil_load::{
    LoadJob, Loop, Protocol, Quality, SearchOptions, SetChoice, SimplePlan, TlsVerify, UNTIL_DONE,
    session::{KeepAlive, SessionLoop, SessionPlan},
    wire::Reuse,
};

#[derive(Debug, Parser)]
struct OutputLine {
    #[command(flatten)]
    load: LoadArgs,
}

fn parse(words: &[&str]) -> LoadArgs {
    OutputLine::try_parse_from([&["load"], words].concat()).expect("it parses").load
}

fn job(words: &[&str]) -> Result<LoadJob, LoadUsage> {
    parse(words).resolve().map(|(job, _)| job)
}

fn simple(words: &[&str]) -> SimplePlan {
    match job(words) {
        Ok(LoadJob::Simple(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

fn sessions(words: &[&str]) -> SessionPlan {
    match job(words) {
        Ok(LoadJob::Sessions(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

const URL: &str = "http://127.0.0.1:81/x";

#[test]
fn without_options() {
    let plan = simple(&[URL]);
    assert_eq!((plan.connections, plan.pipeline, plan.reuse), (64, 1, Reuse::Keep));
    assert_eq!(plan.common.phases.total(), Some(Duration::from_secs(10)));
    assert_eq!((plan.requests_max, plan.quality), (None, Quality::default()));
    assert_eq!((plan.protocol, plan.common.tls_verify), (Protocol::Http1, TlsVerify::System));
    assert_eq!(parse(&[URL]).search.options(), None);
    assert_eq!(parse(&[URL, "--find-max"]).search.options(), Some(SearchOptions::default()));
}

#[test]
fn each_option_arrives() {
    let words = concat!(
        "-c 7 -d 3s -n 99 --no-keepalive --timeout 2 --seed 5 --think exp:1s:9s --ramp-up 1 --warm-up 2 --ramp-down 3 ",
        "--address a=127.0.0.1:1,[::1]:2 --address 127.0.0.1:3 --choice least-pending --io epoll -X PUT -H X:y --body text"
    );
    let words: Vec<_> = [URL].into_iter().chain(words.split(' ')).collect();
    let plan = simple(&words);
    assert_eq!((plan.connections, plan.requests_max, plan.reuse), (7, Some(99), Reuse::Close));
    let ground = &plan.common;
    assert_eq!(ground.phases.total(), Some(Duration::from_secs(9)));
    assert_eq!(
        (ground.timeout, ground.seed, ground.choice),
        (Duration::from_secs(2), 5, SetChoice::LeastPending)
    );
    let sets: Vec<_> = ground.sets.iter().map(|set| (set.name.as_str(), set.addrs.len())).collect();
    assert_eq!(sets, [("a", 2), ("set 2", 1)]);
    let bytes = plan.request.bytes("h", "/", Reuse::Keep);
    assert_eq!(bytes, "PUT / HTTP/1.1\r\nHost: h\r\nX: y\r\nContent-Length: 4\r\n\r\ntext");
    assert!(matches!(plan.pace, Loop::Closed { think } if think.to_string() == "exp:1s:9s"));
    let words = "--good 1 --tolerable 2 --good-share 90 --tolerable-share 95% --failed-share 1 --good-rate 5 --tolerable-rate 4";
    let words: Vec<_> = ["single", URL].into_iter().chain(words.split(' ')).collect();
    let quality = sessions(&words).quality;
    assert_eq!((quality.good, quality.tolerable), (Duration::from_secs(1), Duration::from_secs(2)));
    assert_eq!((quality.good_share, quality.tolerable_share, quality.failed_share), (0.9, 0.95, 0.01));
    assert_eq!((quality.good_rate, quality.tolerable_rate), (5, 4));
}

#[test]
fn tls_and_http2() {
    let plan =
        simple(&["https://a/x", "--http2", "--insecure", "--pipeline", "4", "--address", "127.0.0.1:1"]);
    assert_eq!(
        (plan.protocol, plan.common.tls_verify, plan.pipeline),
        (Protocol::Http2, TlsVerify::Anyone, 4)
    );
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, "no certificate").unwrap();
    let wrong = job(&["https://a/x", "--ca", ca.to_str().unwrap()]).unwrap_err();
    assert!(wrong.to_string().contains("no certificate in it") && wrong.exit() == Exit::Usage, "{wrong}");
}

#[test]
fn requests_alone_end_a_run() {
    let plan = simple(&[URL, "-n", "5"]);
    assert_eq!(plan.common.phases.total(), None);
    let open = simple(&[URL, "--rate", "constant:10"]);
    assert!(matches!(open.pace, Loop::Open { .. }));
}

/// Regression: a run of two steps ended with the first step.
#[test]
fn arrivals_that_end_end_a_run() {
    let steps = ["single", URL, "--rate", "steps:10s@100,20s@500"];
    for words in [&steps[1..], &steps[..]] {
        let window = |more: &[&str]| match job(&[words, more].concat()).unwrap() {
            LoadJob::Simple(plan) => plan.common.phases.window,
            LoadJob::Sessions(plan) => plan.common.phases.window,
        };
        assert_eq!(window(&[]), Duration::from_secs(30));
        assert_eq!(window(&["--ramp-up", "3s", "--warm-up", "4s"]), Duration::from_secs(23));
        assert_eq!(window(&["-d", "5s"]), Duration::from_secs(5));
        assert_eq!(window(&["-n", "5"]), UNTIL_DONE);
    }
    // Regression: a run whose window had a length of zero began, and was invalid afterwards.
    let none = [&steps[1..], &["--ramp-up", "20s", "--warm-up", "10s"]].concat();
    let wrong = job(&none).unwrap_err();
    assert!(wrong.to_string().contains("the steps last 30s"), "{wrong}");
    assert_eq!(wrong.exit(), Exit::Usage);
    assert!(job(&[&none[..], &["-d", "5s"]].concat()).is_ok(), "the last rate goes on");
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("arrivals");
    std::fs::write(&record, "0\n99\n").unwrap();
    let words = [URL, "--arrivals", record.to_str().unwrap()];
    assert_eq!(simple(&words).common.phases.window, UNTIL_DONE);
    std::fs::write(&record, "0\nsoon\n").unwrap();
    let wrong = job(&words).unwrap_err();
    assert!(wrong.to_string().contains(words[2]) && wrong.to_string().contains("line 2"), "{wrong}");
    assert_eq!(wrong.exit(), Exit::Usage);
}

#[test]
fn workloads() {
    let single = sessions(&["single", URL, "-c", "3", "--think", "8s", "--compress", "4"]);
    assert_eq!((single.users, single.model.keep_alive), (3, KeepAlive::NEVER));
    assert_eq!(single.model.think.to_string(), "2s");
    assert_eq!(single.quality.good_rate, 4 * 99_000);
    let folder = tempfile::tempdir().unwrap();
    let shop = folder.path().join("shop.toml");
    std::fs::write(&shop, "name = \"shop\"\n[[page]]\nname = \"home\"\npath = \"/\"\n").unwrap();
    let shop = sessions(&[shop.to_str().unwrap(), URL, "--rate", "5"]);
    assert!(matches!(shop.pace, SessionLoop::PartlyOpen { .. }));
    let log = folder.path().join("access.log");
    std::fs::write(&log, "1.1.1.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /a HTTP/1.1\" 200 5\n").unwrap();
    let log = simple(&[log.to_str().unwrap(), URL]);
    let logged = &log.logged.expect("requests")[0];
    assert_eq!((logged.method.as_str(), &logged.target[..]), ("GET", &b"/a"[..]));
    assert_eq!(log.order.as_deref(), Some(&[0][..]));
    assert!(matches!(job(&["access.log.1", URL]), Err(LoadUsage::File { .. })));
}

#[test]
fn wrong_options_are_reported() {
    let cases: [(&[&str], &str, Exit); 13] = [
        (&["127.0.0.1:80"], "neither a URL nor a workload", Exit::Usage),
        (&["support"], "write its URL behind it, support http://", Exit::Usage),
        (&["shop.toml"], "write its URL behind it, shop.toml http://", Exit::Usage),
        (&["access.log"], "write its URL behind it, access.log http://", Exit::Usage),
        (&["nonsense", URL], "support, specweb96", Exit::Usage),
        (&["single", URL, URL], "--address", Exit::Usage),
        (&["/nonexistent.toml", URL], "/nonexistent.toml", Exit::CannotStart),
        (&[URL, "-X", "A B"], "no HTTP method", Exit::Usage),
        (&[URL, "-H", "Connection: close"], "--no-keepalive", Exit::Usage),
        (&[URL, "--body", "@/nonexistent"], "cannot read it", Exit::CannotStart),
        (&[URL, "--address", "node0=nowhere"], "no address with a port", Exit::Usage),
        (&[URL, "--arrivals", "/nonexistent"], "--arrivals /nonexistent", Exit::CannotStart),
        (&["webstone", "http://127.0.0.1:1/"], "vermeil-load.json", Exit::CannotStart),
    ];
    for (words, said, exit) in cases {
        let wrong = job(words).unwrap_err();
        assert!(wrong.to_string().contains(said), "{wrong}");
        assert_eq!(wrong.exit(), exit, "{wrong}");
    }
}

/// Regression: users got only half of the requested behaviour, or an error of another kind.
#[test]
fn options_that_exclude_each_other_are_named_with_the_cure() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let log = log.to_str().unwrap();
    let cases: [&[&str]; 34] = [
        &[URL, "--good", "1s"],
        &[URL, "--tolerable", "6s"],
        &[URL, "--good-share", "90"],
        &[URL, "--failed-share", "1"],
        &[URL, "--find-max", "--good-rate", "5"],
        &[log, URL, "--good", "1s"],
        &[log, URL, "--find-max"],
        &[log, URL, "--method", "PUT"],
        &[log, URL, "--pipeline", "2"],
        &[URL, "--insecure"],
        &["single", URL, "--pipeline", "2"],
        &["single", URL, "--http2"],
        &[URL, "--pipeline", "3", "--no-keepalive"],
        &[URL, "--http2", "--no-keepalive"],
        &["single", URL, "--good", "4s", "--tolerable", "3s"],
        &[log, URL, "--rate", "5"],
        &[log, URL, "--arrivals", "x"],
        &[log, URL, "--think", "1s"],
        &[URL, "--rate", "5", "--think", "1s"],
        &[URL, "--arrivals", "x", "--think", "1s"],
        &[URL, "--rate", "5", "--find-max"],
        &[URL, "--arrivals", "x", "--find-max"],
        &[URL, "--requests", "5", "--find-max"],
        &[URL, "--rate", "5", "--pipeline", "8"],
        &[URL, "--arrivals", "x", "--pipeline", "8"],
        &["support", URL, "--good-rate", "1000", "--tolerable-rate", "90000"],
        &["support", URL, "--good-rate", "1000"],
        &["support", URL, "--tolerable-rate", "100000"],
        &[URL, "--requests", "5", "--ramp-down", "10s"],
        &["single", URL, "--arrivals", "x", "--ramp-down", "10s"],
        &[log, URL, "--ramp-down", "10s"],
        &[URL, "--find-max", "--connections", "5"],
        &[URL, "--agents", "a:1", "--cores", "1"],
        &[URL, "--agents", "a:1", "--io", "epoll"],
    ];
    for words in cases {
        let wrong = job(words).unwrap_err();
        let said = wrong.to_string();
        for option in words.iter().filter(|word| word.starts_with("--")) {
            assert!(said.contains(option), "{said}");
        }
        assert!(said.contains("leave") || said.contains("give"), "{said}");
        assert_eq!(wrong.exit(), Exit::Usage, "{said}");
    }
    let nothing_to_compress = job(&[URL, "--compress", "2"]).unwrap_err();
    assert!(nothing_to_compress.to_string().contains("--think"), "{nothing_to_compress}");
    assert!(job(&[URL, "--compress", "2", "--think", "1s"]).is_ok());
    for words in [
        &["--precision", "5"][..],
        &["--choice", "fixed"],
        &["--agents-wait", "5s"],
        // Regression: these were accepted and ignored, because --find-max conflicts with -c.
        &["--users-from", "5", "-c", "5"],
        &["--confirm", "1", "-c", "5"],
        &["--agents-wait", "5s", "--cores", "1"],
    ] {
        assert!(OutputLine::try_parse_from([&["load", URL], words].concat()).is_err(), "{words:?}");
    }
}

/// Regression: the search began with the most users, and the ramp-down never came.
#[test]
fn bounds_in_wrong_order_are_refused() {
    let wrong = job(&[URL, "--find-max", "--users-from", "1000", "--users-max", "100"]).unwrap_err();
    assert!(wrong.to_string().contains("--users-from and --users-max"), "{wrong}");
    assert_eq!(wrong.exit(), Exit::Usage);
    let few = parse(&[URL, "--find-max", "--users-max", "10"]);
    assert!(few.resolve().is_ok(), "the default of --users-from is no contradiction");
    assert_eq!(few.search.options().map(|options| options.from), Some(SearchOptions::default().from));
    for words in [
        &[URL, "-n", "5", "-d", "5s", "--ramp-down", "1s"][..],
        &[URL, "--rate", "steps:10s@100,20s@500", "--ramp-down", "1s"],
        &["single", URL, "--good-rate", "0", "--tolerable-rate", "0"],
    ] {
        assert!(job(words).is_ok(), "{words:?}");
    }
}

#[test]
fn results_in_the_same_place_are_refused() {
    for (words, said) in [
        (&["--json", "-", "--csv", "-"][..], "--json and --csv"),
        (&["--html", "/x", "--openmetrics", "/x"], "--html and --openmetrics"),
    ] {
        let (why, exit) = parse(&[&[URL], words].concat()).output.check().unwrap_err();
        assert!(why.contains(said) && exit == Exit::Usage, "{why}");
    }
    assert_eq!(parse(&[URL, "--openmetrics", "-"]).output.check(), Ok(()));
}

#[test]
fn related_commands_parse() {
    for words in [
        &["files", "support", "dir", "--scale", "3", "--static"][..],
        &["report", "one.json", "other.json", "--html", "page.html"],
        &["backend", "--delay", "exp:1ms", "--listen", "127.0.0.1:0"],
    ] {
        assert!(parse(words).beside.is_some());
    }
}
