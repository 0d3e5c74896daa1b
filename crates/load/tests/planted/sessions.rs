//! Sessions: shares of pages, embedded objects, checks, and the receive rate.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vermeil_load::files::{FileSet, Manifest, SetKind, SetPages, fill};
use vermeil_load::pace::{Arrivals, Think};
use vermeil_load::session::{Builtin, KeepAlive, Model, SessionLoop, SessionPlan, run_sessions};
use vermeil_load::wire::LoadRequest;
use vermeil_load::{CommonOptions, Fault, Gates, Outcome, Phases, Quality, RunProgress, ValidityWarning};

use super::server::{Act, PlantedServer, SeenByServer, answer};
use super::{PATIENCE, go_on};

const SHOP: &str = r#"
    name = "shop"
    connections = 2
    [[page]]
    name = "home"
    path = "/home"
    next = { item = 0.5, home = 0.25 }
    embedded = ["/style.css", { path = "/logo.svg", cached = 1.0 }, "/a.js", "/b.js"]
    ends = "<!--home-->"
    [[page]]
    name = "item"
    path = "/item?id={0..9}"
    next = { home = 0.5 }
    ends = "<!--item-->"
"#;

fn plan(server: &PlantedServer, model: Model, users: usize, pages: u64) -> SessionPlan {
    SessionPlan {
        common: CommonOptions { phases: Phases::window(PATIENCE), ..CommonOptions::default() },
        url: server.url("/").parse().expect("a URL"),
        model,
        users,
        pace: SessionLoop::Closed,
        quality: Quality::default(),
        request: LoadRequest::default(),
        pages_max: Some(pages),
    }
}

fn run(plan: &SessionPlan) -> Outcome {
    run_sessions(plan, &mut go_on).expect("the run begins")
}

fn path(seen: &SeenByServer) -> &str {
    seen.head.split(' ').nth(1).expect("a request line")
}

/// A shop whose logo never changes.
fn shop(seen: &SeenByServer) -> Vec<u8> {
    match path(seen) {
        "/home" => answer(200, "welcome<!--home-->"),
        "/logo.svg" if seen.head.contains("If-None-Match: \"1\"\r\n") => {
            b"HTTP/1.1 304 Same\r\nETag: \"1\"\r\n\r\n".to_vec()
        }
        "/logo.svg" => b"HTTP/1.1 200 X\r\nETag: \"1\"\r\nContent-Length: 4\r\n\r\nlogo".to_vec(),
        path if path.starts_with("/item?id=") => answer(200, "item<!--item-->"),
        _ => answer(200, "x"),
    }
}

#[test]
fn session_requests_pages_and_their_embedded_files() {
    let counts = Arc::new(Mutex::new(HashMap::new()));
    let log = counts.clone();
    let server = PlantedServer::start(move |seen| {
        let path = path(seen).split('?').next().unwrap_or_default().to_owned();
        *log.lock().unwrap().entry(path).or_insert(0u64) += 1;
        Act::Send(shop(seen))
    });
    let model = Model::from_toml(SHOP).unwrap();
    let outcome = run(&plan(&server, model.clone(), 10, 3000));
    let total = &outcome.total;
    assert_eq!((total.good, total.failed(), total.within), (3000, 0, [3000, 3000]));
    let counts = counts.lock().unwrap();
    let of = |path: &str| counts[path];
    assert_eq!(of("/home"), total.pages[0].good);
    assert_eq!(of("/item"), total.pages[1].good);
    for object in ["/style.css", "/logo.svg", "/a.js", "/b.js"] {
        assert_eq!(of(object), of("/home"));
    }
    assert_eq!(total.objects, counts.values().sum::<u64>());
    assert!(
        total.statuses[3] >= of("/home") - 20,
        "the logo is known after the first of each: {}",
        total.statuses[3]
    );
    let share = total.pages[0].good as f64 / 3000.0;
    assert!((share - model.shares()[0]).abs() < 0.05, "{share}");
    assert!(total.connections <= 20);
}

/// Regression: bytes counted when their answer ended, so a download that outlasted the run had
/// received nothing.
#[test]
fn bytes_of_unfinished_pages_are_counted() {
    let head = "HTTP/1.1 200 X\r\nContent-Length: 900000\r\n\r\n";
    let part = [head.as_bytes(), &[b'x'; 400_000]].concat();
    let expected = part.len() as u64;
    let server = PlantedServer::start(move |_| Act::Send(part.clone()));
    let text = "name = \"one\"\n[[page]]\nname = \"big\"\npath = \"/\"\njudge = \"rate\"\n";
    let mut plan = plan(&server, Model::from_toml(text).unwrap(), 1, 1);
    plan.common.phases = Phases::window(Duration::from_secs(10));
    let outcome = run_sessions(&plan, &mut |progress: RunProgress<'_>| match progress.total.bytes {
        bytes if bytes < expected => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    })
    .unwrap();
    assert_eq!((outcome.total.bytes, outcome.total.ended()), (expected, 0));
    assert!(outcome.interrupted, "the bytes are counted before the end of the window");
}

/// Regression: a download at the receive rate of the model counted as hanging. A pause of the
/// injector between two reads is longer here than the silence of a server that hangs.
#[test]
fn slowly_received_page_is_no_doubt() {
    let head = "HTTP/1.1 200 X\r\nContent-Length: 900000\r\n\r\n";
    let whole = [head.as_bytes(), &[b'x'; 900_000]].concat();
    let server = PlantedServer::start(move |_| Act::Send(whole.clone()));
    let text =
        "name = \"one\"\nreceive_rate = 20000\n[[page]]\nname = \"big\"\npath = \"/\"\njudge = \"rate\"\n";
    let mut plan = plan(&server, Model::from_toml(text).unwrap(), 2, 2);
    plan.common.phases = Phases::window(Duration::from_secs(2));
    let outcome = run(&plan);
    let waits = outcome.waits.expect("users wait");
    assert!(waits.oldest > Duration::from_secs(1), "{waits:?}");
    let doubts = Gates::default().judge(&outcome);
    assert!(!doubts.iter().any(|doubt| matches!(doubt, ValidityWarning::Hanging { .. })), "{doubts:?}");
}

/// The server takes each second request of a connection, then resets or closes the connection.
#[test]
fn page_that_was_accepted_and_cut_off_has_failed() {
    const LATER: Duration = Duration::from_millis(30);
    const PAGES: u64 = 40;
    let text =
        "name = \"one\"\nconnections = 1\n[[page]]\nname = \"home\"\npath = \"/\"\nnext = { home = 0.9 }\n";
    for act in [|| Act::ResetAfter(LATER), || Act::CloseAfter(LATER)] {
        for method in ["GET", "POST"] {
            let server = PlantedServer::start(move |seen| match seen.on_connection {
                1 => act(),
                _ => Act::Send(answer(200, "x")),
            });
            let mut plan = plan(&server, Model::from_toml(text).unwrap(), 4, PAGES);
            plan.request = LoadRequest::default().method(method).unwrap();
            let total = run(&plan).total;
            let failed = total.faults_of(Fault::Reset);
            assert!(failed > 0 && total.good + failed == PAGES, "{method}: {failed} failed");
            assert_eq!((total.reopened, total.repeated), (0, 0), "{method}");
            assert_eq!(server.requests() as u64, PAGES, "{method}: each request was sent once");
        }
    }
}

#[test]
fn failed_page_has_no_think_time() {
    let server = PlantedServer::start(|seen| Act::Send(shop(seen)));
    let mut model = Model::from_toml(SHOP).unwrap();
    model.think = Think::Constant(Duration::from_millis(20));
    let outcome = run(&plan(&server, model, 20, 100));
    assert_eq!(
        (outcome.total.good, outcome.total.late.count()),
        (100, 100 - 20),
        "the first pages come at once"
    );
}

#[test]
fn a_page_with_another_end_is_wrong() {
    let server = PlantedServer::start(|seen| match (path(seen), seen.index % 3) {
        ("/home", 0) => Act::Send(answer(200, "<!--home-->cut")),
        _ => Act::Send(shop(seen)),
    });
    let outcome = run(&plan(&server, Model::from_toml(SHOP).unwrap(), 4, 200));
    let wrong = outcome.total.faults_of(Fault::WrongBytes);
    assert!(wrong > 0 && wrong == outcome.total.failed());
    assert_eq!(outcome.total.good + wrong, 200);
}

/// A missing page is in no histogram, but counts as not good.
#[test]
fn pages_that_do_not_come_are_not_good() {
    const FORGOTTEN: usize = 5;
    let server =
        PlantedServer::start(
            |seen| if seen.index < FORGOTTEN { Act::Silence } else { Act::Send(shop(seen)) },
        );
    let mut plan = plan(&server, Model::from_toml(SHOP).unwrap(), 10, u64::MAX);
    plan.common.phases = Phases::window(Duration::from_secs(1));
    plan.quality.good = Duration::from_millis(100);
    let outcome = run(&plan);
    let result = plan.quality.judge(&outcome.total, &[]);
    assert!(result.overdue[0] >= FORGOTTEN as u64, "{result:?}");
    assert_eq!(result.overdue[1], 0, "none waited for longer than 5 s");
    let share = outcome.total.within[0] as f64 / (outcome.total.ended() + result.overdue[0]) as f64;
    assert_eq!((result.good_share, outcome.total.failed()), (share, 0));
}

fn webstone(path: &str) -> Vec<u8> {
    let set = FileSet::new(SetKind::Webstone, 1);
    let pick = set.files(0).find(|&pick| set.path(pick) == path).expect("a file of the set");
    let mut content = vec![0; pick.bytes as usize];
    fill(path, 0, &mut content);
    [format!("HTTP/1.1 200 X\r\nContent-Length: {}\r\n\r\n", pick.bytes).into_bytes(), content].concat()
}

fn webstone_model() -> Model {
    let manifest = Manifest { files: SetKind::Webstone, directories: 1, pages: SetPages::None };
    Builtin::Webstone.model(Some(&manifest), "/").unwrap()
}

#[test]
fn every_byte_of_a_file_is_verified() {
    let server = PlantedServer::start(|seen| {
        let mut bytes = webstone(path(seen));
        if seen.index % 10 == 7 {
            let last = bytes.len() - 1;
            bytes[last] ^= 0x40;
        }
        Act::SendAndClose(bytes)
    });
    let outcome = run(&plan(&server, webstone_model(), 1, 100));
    assert_eq!((outcome.total.good, outcome.total.faults_of(Fault::WrongBytes)), (90, 10));
    assert_eq!(outcome.total.connections, 100, "a connection each");
}

#[test]
fn model_ends_connections() {
    let server = PlantedServer::start(|seen| {
        assert_eq!(seen.head.contains("Connection: close"), seen.on_connection == 4);
        match seen.on_connection {
            4 => Act::SendAndClose(webstone(path(seen))),
            _ => Act::Send(webstone(path(seen))),
        }
    });
    let mut model = webstone_model();
    model.keep_alive = KeepAlive { share: 1.0, requests: (5, 5) };
    let outcome = run(&plan(&server, model, 1, 50));
    assert_eq!((outcome.total.good, outcome.total.connections), (50, 10));
}

/// 300 KB at 400 kB/s take three quarters of a second, less the free bytes at the start.
#[test]
fn link_rate_bounds_reading() {
    let body = "x".repeat(300_000);
    let server = PlantedServer::start(move |_| Act::Send(answer(200, &body)));
    let toml =
        "name = \"slow\"\nreceive_rate = 400000\n[[page]]\nname = \"file\"\npath = \"/\"\njudge = \"rate\"\n";
    let mut plan = plan(&server, Model::from_toml(toml).unwrap(), 8, 8);
    plan.quality = Quality { good_rate: 460_000, tolerable_rate: 1_000, ..Quality::default() };
    let outcome = run(&plan);
    assert_eq!(outcome.total.good, 8);
    let fastest = outcome.total.response.min();
    assert!(fastest >= Duration::from_millis(690), "{fastest:?}");
    // No page comes at a higher rate than the link's; the lower bound leaves 300 s.
    assert_eq!(outcome.total.within, [0, 8], "{fastest:?}");
}

#[test]
fn sessions_that_come_by_themselves() {
    let server = PlantedServer::start(|seen| Act::Send(shop(seen)));
    let mut plan = plan(&server, Model::from_toml(SHOP).unwrap(), 5, u64::MAX);
    plan.pages_max = None;
    let record: String = (0..40).map(|index| format!("{}\n", f64::from(index) * 0.01)).collect();
    plan.pace = SessionLoop::PartlyOpen { arrivals: Arrivals::recorded(&record).unwrap() };
    let outcome = run(&plan);
    assert!(outcome.is_open && outcome.total.failed() == 0);
    assert_eq!(outcome.total.late.count(), 40, "every session came");
    assert!(outcome.total.good >= 40);
}
