//! Files that change: between requests, and while they are sent.

use crate::support::{Client, Content, End, Io, Server, Site, noise, on_both};
use std::fs::OpenOptions;
use std::io::Write;

on_both!(
    the_request_after_a_change_sees_it,
    what_is_created_deleted_and_moved_is_noticed,
    a_file_truncated_while_sent_cuts_the_connection,
    a_file_rewritten_while_sent_cuts_the_connection,
    a_file_appended_to_while_sent_cuts_the_connection,
    a_file_replaced_while_sent_is_sent_as_it_was,
);

fn the_request_after_a_change_sees_it(io: Io) {
    let site = Site::new();
    let server = Server::start(io, &site, &[]);
    let mut client = server.client();
    for (len, name) in [(1000, "f.txt"), (60_000, "f.bin"), (300_000, "sub/f.bin")] {
        let target = format!("/{name}");
        site.write(name, &noise(0, len));
        let mut tag = client.get(&target).field("etag").to_owned();
        for seed in 1..40 {
            let content = noise(seed, len + seed as usize % 3);
            // In place and by renaming in turn: the write has returned when the request is sent.
            if seed % 2 == 0 { site.write(name, &content) } else { site.replace(name, &content) }
            let condition = format!("If-None-Match: {tag}");
            let response = client.get_with(&target, &[&condition]);
            assert_eq!(response.status, 200, "{target}, change {seed}");
            assert!(response.body == content, "{target}, change {seed}");
            tag = response.field("etag").to_owned();
        }
    }
    server.stops_clean();
}

fn what_is_created_deleted_and_moved_is_noticed(io: Io) {
    let site = Site::new();
    let server = Server::start(io, &site, &[]);
    let mut client = server.client();
    for _ in 0..3 {
        assert_eq!(client.get("/new.txt").status, 404);
        site.write("new.txt", b"new");
        assert_eq!(client.get("/new.txt").text(), "new");
        site.remove("new.txt");
        assert_eq!(client.get("/new.txt").status, 404);

        assert_eq!(client.get("/a/b/c.txt").status, 404);
        site.write("a/b/c.txt", b"deep");
        assert_eq!(client.get("/a/b/c.txt").text(), "deep");
        std::fs::rename(site.path("a"), site.path("z")).unwrap();
        assert_eq!((client.get("/a/b/c.txt").status, client.get("/z/b/c.txt").text()), (404, "deep"));
        std::fs::remove_dir_all(site.path("z")).unwrap();
        assert_eq!(client.get("/z/b/c.txt").status, 404);

        assert_eq!(client.get("/").text(), "<!doctype html>home\n");
        site.remove("index.html");
        assert!(client.get("/").text().contains("<table>"), "a listing");
        site.write("index.html", b"<!doctype html>home\n");
    }
    server.stops_clean();
}

const LARGE: usize = 20 << 20;

/// A client that has received the start of a large file and no more: the rest does not fit into the buffers between.
fn amid_download(server: &Server) -> Client {
    let mut client = server.narrow_client();
    client.ask("GET", "/large.bin", &[]);
    client.receive_at_least(10_000);
    client
}

/// Changes the file while it is sent, and insists that the client can tell.
fn check_cut(io: Io, change: impl FnOnce(&Site)) {
    let site = Site::new();
    let old = noise(1, LARGE);
    site.write("large.bin", &old);
    let server = Server::start(io, &site, &[]);
    let mut client = amid_download(&server);
    change(&site);
    let end = client.try_read(Content::Follows).expect_err("the answer cannot be completed");
    let received = client.received();
    let head = received.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(received.len() - head < LARGE, "all of the announced bytes came");
    assert!(matches!(end, End::Closed | End::Reset));
    server.says("file changed while sent: GET /large.bin HTTP/1.1 (connection cut)");
    assert_eq!(server.get("/").status, 200);
    server.stops_clean();
    assert!(server.stderr().contains(" 1 answers cut"), "{server:?}");
}

fn a_file_truncated_while_sent_cuts_the_connection(io: Io) {
    check_cut(io, |site| {
        OpenOptions::new().write(true).open(site.path("large.bin")).unwrap().set_len(2_000_000).unwrap();
    });
}

fn a_file_rewritten_while_sent_cuts_the_connection(io: Io) {
    check_cut(io, |site| site.write("large.bin", &noise(2, LARGE)));
}

fn a_file_appended_to_while_sent_cuts_the_connection(io: Io) {
    check_cut(io, |site| {
        let mut file = OpenOptions::new().append(true).open(site.path("large.bin")).unwrap();
        file.write_all(b"more").unwrap();
    });
}

/// What was opened is not what was renamed over it: either all old bytes come, or the connection is cut.
fn a_file_replaced_while_sent_is_sent_as_it_was(io: Io) {
    let site = Site::new();
    let (old, new) = (noise(1, LARGE), noise(2, LARGE));
    site.write("large.bin", &old);
    let server = Server::start(io, &site, &[]);
    let mut client = amid_download(&server);
    site.replace("large.bin", &new);
    if let Ok(response) = client.try_read(Content::Follows) {
        assert!(response.body == old, "a mixture of two files");
    }
    assert!(server.get("/large.bin").body == new);
    server.stops_clean();
}
