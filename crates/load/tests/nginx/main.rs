//! TLS and HTTP/2 against a real nginx: every byte arrives, a connection that nginx ends costs no
//! request, and certificates are checked.
//!
//! If nginx or openssl is not installed, the tests print a note and pass.

mod server;

use std::ops::ControlFlow;
use std::time::Duration;

use server::Nginx;
use vermeil::IoChoice;
use vermeil_load::files::{SetKind, SetPages, write};
use vermeil_load::session::{Builtin, SessionLoop, SessionPlan, manifest, run_sessions};
use vermeil_load::wire::{LoadRequest, Reuse};
use vermeil_load::{
    CommonOptions, Fault, Outcome, Phases, Protocol, Quality, SimplePlan, TlsVerify, Url, run_simple,
};

/// Longest time of a run that ends without a stop.
const PATIENCE: Duration = Duration::from_secs(60);

fn go_on(_: vermeil_load::RunProgress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A run of 400 requests over 8 connections.
fn plan(nginx: &Nginx, url: &str, protocol: Protocol) -> SimplePlan {
    let mut plan = SimplePlan::new(url.parse().expect("a URL"));
    plan.connections = 8;
    plan.protocol = protocol;
    plan.requests_max = Some(400);
    plan.common.phases = Phases::window(PATIENCE);
    plan.common.tls_verify = nginx.trust();
    plan
}

fn run(plan: &SimplePlan) -> Outcome {
    run_simple(plan, &mut go_on).expect("it begins")
}

#[track_caller]
fn all_good(outcome: &Outcome, connections: std::ops::RangeInclusive<u64>) {
    let total = &outcome.total;
    assert_eq!((total.good, total.failed()), (400, 0), "{:?}", total.faults);
    assert_eq!((total.content_bytes, total.statuses[2]), (400 * 7, 400));
    assert!(total.bytes > 400 * 7, "heads count as received: {}", total.bytes);
    assert!(connections.contains(&total.connections), "{}", total.connections);
}

#[test]
fn each_protocol_over_each_transport() {
    let Some(nginx) = Nginx::start(1_000_000) else { return };
    let cases = [
        (nginx.tls("/page"), Protocol::Http1, 1),
        (nginx.tls("/page"), Protocol::Http2, 1),
        (nginx.tls("/page"), Protocol::Http2, 10),
        (nginx.plain("/page"), Protocol::Http2, 10),
    ];
    for (url, protocol, pipeline) in cases {
        for io in [IoChoice::Epoll, IoChoice::Uring] {
            let mut plan = plan(&nginx, &url, protocol);
            (plan.pipeline, plan.common.io) = (pipeline, io);
            match run_simple(&plan, &mut go_on) {
                // The users of a core that starts late may find that all requests have been sent.
                Ok(outcome) => all_good(&outcome, 1..=8),
                Err(error) if io == IoChoice::Uring => eprintln!("skipped: {error}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// nginx allows 128 streams at a time, so further requests wait for a stream. Some versions (since
/// CVE-2023-44487) end a connection that asks for more than twice as many streams before nginx has
/// read other connections. Such an end costs no request.
#[test]
fn more_streams_than_the_server_allows() {
    let Some(nginx) = Nginx::start(1_000_000) else { return };
    let mut plan = plan(&nginx, &nginx.plain("/page"), Protocol::Http2);
    (plan.connections, plan.pipeline) = (1, 300);
    all_good(&run(&plan), 1..=4);
}

/// nginx ends a connection after 7 requests: with `Connection: close`, and with GOAWAY.
#[test]
fn connections_that_end_cost_no_request() {
    let Some(nginx) = Nginx::start(7) else { return };
    for (url, protocol, pipeline) in [
        (nginx.tls("/page"), Protocol::Http1, 1),
        (nginx.tls("/page"), Protocol::Http2, 1),
        (nginx.plain("/page"), Protocol::Http2, 5),
    ] {
        let mut plan = plan(&nginx, &url, protocol);
        plan.pipeline = pipeline;
        all_good(&run(&plan), 400 / 8..=400);
    }
    let mut one_each = plan(&nginx, &nginx.tls("/page"), Protocol::Http1);
    one_each.reuse = Reuse::Close;
    all_good(&run(&one_each), 400..=400);
    one_each.protocol = Protocol::Http2;
    all_good(&run(&one_each), 400..=400);
}

#[test]
fn methods_content_and_statuses_over_http2() {
    let Some(nginx) = Nginx::start(1_000_000) else { return };
    let mut posts = plan(&nginx, &nginx.plain("/page"), Protocol::Http2);
    posts.request = LoadRequest::default().content(vec![b'x'; 100_000]).method("POST").expect("a method");
    let refused = run(&posts);
    assert_eq!(refused.total.faults_of(Fault::Status), 400, "nginx answers 405: {:?}", refused.total.faults);
    let mut heads = plan(&nginx, &nginx.tls("/page"), Protocol::Http2);
    heads.request = LoadRequest::default().method("HEAD").expect("a method");
    let heads = run(&heads);
    assert_eq!((heads.total.good, heads.total.content_bytes), (400, 0));
}

#[test]
fn certificates_are_judged_before_the_run() {
    let Some(nginx) = Nginx::start(1_000_000) else { return };
    let mut plan = plan(&nginx, &nginx.tls("/page"), Protocol::Http1);
    let other = plan.common.tls_verify.clone();
    plan.common.tls_verify = TlsVerify::System;
    let said = run_simple(&plan, &mut go_on).expect_err("nobody vouches for it").to_string();
    assert!(said.contains("--ca") && (said.contains("--insecure") || said.contains("no root")), "{said}");
    plan.common.tls_verify = other;
    let page = plan.urls.clone();
    plan.urls = vec![nginx.with_root("/page").parse().expect("a URL")];
    let said = run_simple(&plan, &mut go_on).expect_err("a root is no server").to_string();
    assert!(said.contains("certificate of a CA as its own") && said.contains("CA:FALSE"), "{said}");
    plan.urls = page;
    plan.urls[0].host = "localhost".to_owned();
    plan.common.sets = vec![vermeil_load::Set {
        name: "nginx".to_owned(),
        addrs: vec![([127, 0, 0, 1], plan.urls[0].port).into()],
    }];
    let said = run_simple(&plan, &mut go_on).expect_err("another name").to_string();
    assert!(said.contains("localhost"), "{said}");
    plan.common.tls_verify = TlsVerify::Anyone;
    all_good(&run(&plan), 8..=8);
}

/// A server with another protocol is reported before the run, if the protocol is visible then.
/// Otherwise the run counts the failures.
#[test]
fn peer_without_protocol_is_refused() {
    let Some(nginx) = Nginx::start(1_000_000) else { return };
    let mut tls = plan(&nginx, &nginx.plain("/page").replace("http://", "https://"), Protocol::Http1);
    tls.requests_max = Some(5);
    let said = run_simple(&tls, &mut go_on).expect_err("no TLS there").to_string();
    assert!(said.contains("handshake"), "{said}");
    let http2 = plan(&nginx, &nginx.without_http2("/page"), Protocol::Http2);
    let said = run_simple(&http2, &mut go_on).expect_err("no HTTP/2 there").to_string();
    assert!(said.contains("does not speak HTTP/2") && said.contains("--http2"), "{said}");
    let mut http1 = plan(&nginx, &nginx.plain("/page"), Protocol::Http1);
    http1.requests_max = Some(5);
    let outcome = run(&http1);
    assert_eq!((outcome.total.good, outcome.total.failed()), (0, 5), "{:?}", outcome.total.faults);
}

/// Sessions also run over TLS, and every byte is verified.
#[test]
fn sessions_over_tls() {
    let Some(nginx) = Nginx::start(1_000_000) else { return };
    write(&nginx.root(), SetKind::Webstone, 1, 1 << 30, SetPages::None, "").expect("written");
    let url: Url = nginx.tls("/").parse().expect("a URL");
    let addr = url.resolve().expect("an address");
    let found = manifest(&url, addr, &nginx.trust()).expect("asked").expect("there");
    let plan = SessionPlan {
        common: CommonOptions {
            tls_verify: nginx.trust(),
            phases: Phases::window(PATIENCE),
            ..CommonOptions::default()
        },
        model: Builtin::named("webstone").expect("shipped").model(Some(&found), "/").expect("it fits"),
        url,
        users: 4,
        pace: SessionLoop::Closed,
        quality: Quality::default(),
        request: LoadRequest::default(),
        pages_max: Some(100),
    };
    let outcome = run_sessions(&plan, &mut go_on).expect("it begins");
    assert_eq!((outcome.total.good, outcome.total.failed()), (100, 0), "{:?}", outcome.total.faults);
}
