//! What is written on the command line arrives in the plan, and what is wrong with it is said.

use super::LoadArgs;
use super::resolve::Wrong;
use crate::Exit;
use clap::Parser;
use std::time::Duration;
use vermeil_load::wire::Reuse;
use vermeil_load::{Choice, Loop, SimplePlan};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    load: LoadArgs,
}

fn resolve(words: &[&str]) -> Result<SimplePlan, Wrong> {
    let line = Line::try_parse_from([&["load"], words].concat()).expect("it parses");
    line.load.resolve().map(|(plan, _)| plan)
}

const URL: &str = "http://127.0.0.1:81/x";

#[test]
fn without_options() {
    let plan = resolve(&[URL]).unwrap();
    assert_eq!((plan.connections, plan.pipeline, plan.reuse), (64, 1, Reuse::Keep));
    assert_eq!(plan.ground.phases.total(), Duration::from_secs(10));
    assert_eq!(plan.requests_max, None);
}

#[test]
fn each_option_arrives() {
    let words = [
        URL,
        "-c",
        "7",
        "-d",
        "3s",
        "-n",
        "99",
        "--no-keepalive",
        "--timeout",
        "2",
        "--seed",
        "5",
        "--think",
        "exp:1s:9s",
        "--ramp-up",
        "1",
        "--warm-up",
        "2",
        "--ramp-down",
        "3",
        "--address",
        "a=127.0.0.1:1,[::1]:2",
        "--address",
        "127.0.0.1:3",
        "--choice",
        "least-pending",
        "--io",
        "epoll",
        "-X",
        "PUT",
        "-H",
        "X: y",
        "--body",
        "text",
    ];
    let plan = resolve(&words).unwrap();
    assert_eq!((plan.connections, plan.requests_max, plan.reuse), (7, Some(99), Reuse::Close));
    let ground = &plan.ground;
    assert_eq!(ground.phases.total(), Duration::from_secs(9));
    assert_eq!(
        (ground.timeout, ground.seed, ground.choice),
        (Duration::from_secs(2), 5, Choice::LeastPending)
    );
    let sets: Vec<_> = ground.sets.iter().map(|set| (set.name.as_str(), set.addrs.len())).collect();
    assert_eq!(sets, [("a", 2), ("set 2", 1)]);
    let bytes = plan.request.bytes("h", "/", Reuse::Keep);
    assert_eq!(bytes, "PUT / HTTP/1.1\r\nHost: h\r\nX: y\r\nContent-Length: 4\r\n\r\ntext");
    assert!(matches!(plan.pace, Loop::Closed { think } if think.to_string() == "exp:1s:9s"));
}

#[test]
fn requests_alone_end_a_run() {
    let plan = resolve(&[URL, "-n", "5"]).unwrap();
    assert!(plan.ground.phases.window > Duration::from_secs(3600));
    let open = resolve(&[URL, "--rate", "constant:10"]).unwrap();
    assert!(matches!(open.pace, Loop::Open { .. }));
}

#[test]
fn what_is_wrong_is_said() {
    let cases: [(&[&str], &str, Exit); 6] = [
        (&["127.0.0.1:80"], "http://127.0.0.1:8080/page", Exit::Usage),
        (&[URL, "-X", "A B"], "no HTTP method", Exit::Usage),
        (&[URL, "-H", "Connection: close"], "--no-keepalive", Exit::Usage),
        (&[URL, "--body", "@/nonexistent"], "cannot read it", Exit::CannotStart),
        (&[URL, "--address", "node0=nowhere"], "no address with a port", Exit::Usage),
        (&[URL, "--arrivals", "/nonexistent"], "--arrivals /nonexistent", Exit::CannotStart),
    ];
    for (words, said, exit) in cases {
        let wrong = resolve(words).unwrap_err();
        assert!(wrong.to_string().contains(said), "{wrong}");
        assert_eq!(wrong.exit(), exit, "{wrong}");
    }
}
