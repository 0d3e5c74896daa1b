//! The bound of requests in progress: `in_progress` in the table `access` of hosts and routes.

use crate::support::{ExpectedContent, Io, TestClient, TestServer, TestSite, on_usual, until};
use rustix::{
    fs::OFlags,
    process::{Signal, geteuid},
};
use std::{
    fs,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    process::Command,
};

on_usual! {
    request_beyond_bound_is_refused,
    download_counts_until_its_end,
    requests_count_by_field,
}

/// The client of a request is the address in `X-Forwarded-For`.
const TRUST_TEST: &str = "[proxies]\nfrom = [\"127.0.0.1\"]\n";

/// A program that waits at two FIFOs, first `beginN`, then `endN`. The query of the request is N.
/// The program passes a FIFO when the test opens the other end.
const HOLD: &str = "#!/bin/sh\ncat \"../begin$QUERY_STRING\" \"../end$QUERY_STRING\"\n\
                    printf 'Content-Type: text/plain\\n\\ndone'\n";

/// A site with a page and the program [`HOLD`]. Each user may run the program.
fn site() -> TestSite {
    let site = TestSite::new();
    site.write("page", b"page");
    site.write("cgi-bin/hold", HOLD.as_bytes());
    for path in [site.outside(""), site.root(), site.path("cgi-bin"), site.path("cgi-bin/hold")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a file of the test");
    }
    for name in ["begin1", "end1", "begin2", "end2"] {
        let made = Command::new("mkfifo").arg("-m666").arg(site.path(name)).status();
        assert!(made.expect("mkfifo").success());
    }
    site
}

fn serve(io: Io, site: &TestSite, host: &str) -> TestServer {
    let user = if geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    TestServer::configured(io, site, &format!("{TRUST_TEST}{user}[[host]]\nroot = \"site\"\n{host}"))
}

/// The status of a request by the client at `address`.
fn status_for(client: &mut TestClient, target: &str, address: &str) -> u16 {
    client.get_with(target, &[&format!("X-Forwarded-For: {address}")]).status
}

/// Lets the program pass a FIFO. Waits until the program reads the FIFO, because an open for
/// writing fails at once while there is no reader.
fn let_pass(site: &TestSite, name: &str) {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let open = || fs::File::options().write(true).custom_flags(nonblocking).open(site.path(name)).ok();
    drop(until(&format!("the program reads {name}"), open));
}

fn request_beyond_bound_is_refused(io: Io) {
    let site = site();
    let server = serve(
        io,
        &site,
        "[host.access]\nin_progress = { requests = 2 }\n\
         [[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n",
    );
    let mut held = [1, 2].map(|number| {
        let mut client = server.client();
        client.ask("GET", &format!("/cgi-bin/hold?{number}"), &["X-Forwarded-For: 2001:db8::1"]);
        let_pass(&site, &format!("begin{number}"));
        client
    });
    let mut client = server.client();
    // Clients of the same /64 network count together.
    let refused = client.get_with("/page", &["X-Forwarded-For: 2001:db8::2"]);
    assert_eq!((refused.status, refused.field("retry-after").is_empty()), (503, false));
    server.says("2001:db8::2 has 2 requests in progress, the bound of in_progress in access (503)");
    assert_eq!(status_for(&mut client, "/page", "2001:db8:0:1::1"), 200, "a client of another network");
    server.signal(Signal::HUP);
    server.says("reloaded");
    assert_eq!(status_for(&mut client, "/page", "2001:db8::1"), 503, "requests still count after a reload");
    let_pass(&site, "end1");
    assert_eq!(held[0].read(ExpectedContent::Follows).text(), "done");
    until("the request has ended", || (status_for(&mut client, "/page", "2001:db8::1") == 200).then_some(()));
    // Pipelined requests are in progress in turn, so three requests do not reach the bound.
    for _ in 0..3 {
        client.ask("GET", "/page", &["X-Forwarded-For: 2001:db8::1"]);
    }
    for _ in 0..3 {
        assert_eq!(client.read(ExpectedContent::Follows).status, 200);
    }
    let_pass(&site, "end2");
    assert_eq!(held[1].read(ExpectedContent::Follows).text(), "done");
    server.stops_clean();
}

fn download_counts_until_its_end(io: Io) {
    let site = site();
    site.write("download/large", b"");
    fs::File::options()
        .write(true)
        .open(site.path("download/large"))
        .and_then(|file| file.set_len(64 << 20))
        .expect("a file of the test");
    let server = serve(
        io,
        &site,
        "[[host.route]]\nprefix = \"/download\"\naction = \"files\"\n\
         access.in_progress = { requests = 1, by = \"all\", code = 429 }\n",
    );
    let mut other = server.client();
    for ends_early in [false, true] {
        let mut slow = server.client();
        slow.ask("GET", "/download/large", &[]);
        slow.wait_readable();
        assert_eq!(other.get("/download/large").status, 429);
        assert_eq!(other.request("HEAD", "/download/large", &[]).status, 429);
        assert_eq!(other.get("/page").status, 200, "the host has no bound");
        if !ends_early {
            assert_eq!(slow.read(ExpectedContent::Follows).body.len(), 64 << 20);
        }
        drop(slow);
        until("the download has ended", || {
            (other.request("HEAD", "/download/large", &[]).status == 200).then_some(())
        });
        // The HEAD itself counts until the server takes the next request of its connection.
        assert_eq!(other.get("/page").status, 200);
    }
    server.stops_clean();
}

fn requests_count_by_field(io: Io) {
    let site = site();
    let server = serve(
        io,
        &site,
        "access.in_progress = { requests = 1, by = \"field:X-Api-Key\" }\n\
         [[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n",
    );
    let mut held = server.client();
    held.ask("GET", "/cgi-bin/hold?1", &["X-Api-Key: a"]);
    let_pass(&site, "begin1");
    let mut client = server.client();
    assert_eq!(client.get_with("/page", &["X-Api-Key: a"]).status, 503);
    assert_eq!(client.get_with("/page", &["X-Api-Key: b"]).status, 200);
    assert_eq!(client.get("/page").status, 200);
    let_pass(&site, "end1");
    assert_eq!(held.read(ExpectedContent::Follows).status, 200);
    server.stops_clean();
}
