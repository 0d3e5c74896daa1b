//! Files that change: between requests, and during a send.

use crate::support::{
    ConnectionEnd, ExpectedContent, Io, TestClient, TestServer, TestSite, noise, on_both, until,
};
use rustix::fs::{FallocateFlags, fallocate, statfs};
use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;

on_both!(
    request_after_change_gets_new_content,
    created_deleted_and_moved_files_are_noticed,
    a_file_truncated_while_sent_cuts_the_connection,
    a_file_rewritten_while_sent_cuts_the_connection,
    a_file_appended_to_while_sent_cuts_the_connection,
    file_replaced_during_transfer_is_sent_unchanged,
    complete_answer_is_one_state_of_the_file,
    copy_of_a_large_file_is_sent_whatever_happens_to_the_file,
    file_rolled_back_to_an_older_date_is_sent,
);

/// Asks until the answer is `wanted`. Until the kernel has reported a change, the server may answer
/// with the old content, or may begin and cut the old content. No other answer is allowed.
#[track_caller]
fn becomes(server: &TestServer, target: &str, before: &[u8], wanted: &[u8]) {
    until("the change is seen", || {
        let mut client = server.client();
        client.ask("GET", target, &[]);
        let response = client.try_read(ExpectedContent::Follows).ok()?;
        assert!(response.status == 200 && (response.body == wanted || response.body == before), "{target}");
        (response.body == wanted).then_some(())
    });
}

/// Waits until the status is `wanted`.
#[track_caller]
fn answers(server: &TestServer, target: &str, wanted: u16) {
    until("the change is seen", || (server.get(target).status == wanted).then_some(()));
}

fn request_after_change_gets_new_content(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &[]);
    for (len, name) in [(1000, "f.txt"), (60_000, "f.bin"), (300_000, "sub/f.bin")] {
        let target = format!("/{name}");
        let mut before = noise(0, len);
        site.write(name, &before);
        becomes(&server, &target, &before, &before);
        for seed in 1..30 {
            let content = noise(seed, len + seed as usize % 3);
            // In place, with the old length too, and by renaming.
            match seed % 3 {
                0 => site.write(name, &content),
                _ => site.replace(name, &content),
            }
            becomes(&server, &target, &before, &content);
            before = content;
        }
    }
    server.stops_clean();
}

fn created_deleted_and_moved_files_are_noticed(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &[]);
    for _ in 0..3 {
        answers(&server, "/new.txt", 404);
        site.write("new.txt", b"new");
        answers(&server, "/new.txt", 200);
        site.remove("new.txt");
        answers(&server, "/new.txt", 404);

        answers(&server, "/a/b/c.txt", 404);
        site.write("a/b/c.txt", b"deep");
        answers(&server, "/a/b/c.txt", 200);
        std::fs::rename(site.path("a"), site.path("z")).unwrap();
        answers(&server, "/z/b/c.txt", 200);
        answers(&server, "/a/b/c.txt", 404);
        std::fs::remove_dir_all(site.path("z")).unwrap();
        answers(&server, "/z/b/c.txt", 404);

        let home = "<!doctype html>home\n";
        until("the index is there", || (server.get("/").text() == home).then_some(()));
        site.remove("index.html");
        until("there is a listing", || server.get("/").text().contains("<table>").then_some(()));
        site.write("index.html", home.as_bytes());
    }
    server.stops_clean();
}

const LARGE: usize = 20 << 20;

/// A client that has received only the start of a large file, because the rest does not fit into
/// the buffers between.
fn amid_download(server: &TestServer) -> TestClient {
    let mut client = server.narrow_client();
    client.ask("GET", "/large.bin", &[]);
    client.receive_at_least(10_000);
    client
}

/// Changes the file during the send, and checks that the client can notice the change.
fn check_cut(io: Io, change: impl FnOnce(&TestSite)) {
    let site = TestSite::new();
    let old = noise(1, LARGE);
    site.write("large.bin", &old);
    let server = TestServer::start(io, &site, &[]);
    let mut client = amid_download(&server);
    change(&site);
    let end = client.try_read(ExpectedContent::Follows).expect_err("the answer cannot be completed");
    let received = client.received();
    let head = received.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(received.len() - head < LARGE, "all of the announced bytes came");
    assert!(matches!(end, ConnectionEnd::Closed | ConnectionEnd::Reset));
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

/// The open file is not the file that was renamed over its name: either all old bytes come, or the
/// connection is cut.
fn file_replaced_during_transfer_is_sent_unchanged(io: Io) {
    let site = TestSite::new();
    let (old, new) = (noise(1, LARGE), noise(2, LARGE));
    site.write("large.bin", &old);
    let server = TestServer::start(io, &site, &[]);
    let mut client = amid_download(&server);
    site.replace("large.bin", &new);
    if let Ok(response) = client.try_read(ExpectedContent::Follows) {
        assert!(response.body == old, "a mixture of two files");
    }
    assert!(server.get("/large.bin").body == new);
    server.stops_clean();
}

/// Regression: the queue of a socket referred to pages of the file, which still changed after the
/// check.
fn complete_answer_is_one_state_of_the_file(io: Io) {
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change); 5] = [
        ("overwritten", |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &vec![b'N'; MIDDLE], 0).unwrap();
        }),
        ("truncated and grown again", |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(1000).unwrap();
            file.set_len(MIDDLE as u64).unwrap();
        }),
        ("written at its end", |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, b"N", MIDDLE as u64 - 1).unwrap();
        }),
        ("with a hole", |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            if let Err(error) = fallocate(&file, flags, 0, MIDDLE as u64) {
                eprintln!("SKIPPED: this file system makes no holes: {error}");
            }
        }),
        ("overwritten by a mapping", |path| {
            // The kernel does not move the time of such a file for a store to memory.
            const TMPFS: i64 = 0x0102_1994;
            if statfs(path).unwrap().f_type == TMPFS {
                return eprintln!("SKIPPED: the file system is tmpfs");
            }
            let program = "import mmap, sys\n\
                with open(sys.argv[1], 'r+b') as file:\n \
                memory = mmap.mmap(file.fileno(), 0)\n \
                memory[:] = b'N' * len(memory)\n";
            if Command::new("python3").args(["-c", program]).arg(path).status().is_err() {
                eprintln!("SKIPPED: no python3 to map a file with");
            }
        }),
    ];
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &[]);
    let all = &[][..];
    let part = format!("Range: bytes=1-{MIDDLE}");
    let parts = format!("Range: bytes=0-{},{}-", MIDDLE / 2, MIDDLE / 2 + 10);
    let (part, parts) = ([&*part], [&*parts]);
    for (how, change) in changes {
        for (name, fields) in [("all", all), ("part", &part[..]), ("parts", &parts[..]), ("sibling.gz", all)]
        {
            let target = format!("/{}", name.trim_end_matches(".gz"));
            site.write(target.trim_start_matches('/'), b"original");
            site.write(name, &vec![b'O'; MIDDLE]);
            let mut client = server.narrow_client();
            let fields = [fields, &["Accept-Encoding: gzip"]].concat();
            client.ask("GET", &target, &fields);
            client.receive_at_least(2000);
            change(&site.path(name));
            if let Ok(response) = client.try_read(ExpectedContent::Follows) {
                let has_other = response.body.iter().any(|&byte| byte == b'N' || byte == 0);
                assert!(!has_other, "{how}, {name}: a whole answer of two states");
            }
            site.remove(name);
        }
    }
    server.stops_clean();
}

/// A large file that is asked for often is sent from a sealed copy: whole, in parts, and to its end
/// after a change of the file.
fn copy_of_a_large_file_is_sent_whatever_happens_to_the_file(io: Io) {
    let site = TestSite::new();
    let (old, new) = (noise(1, MIDDLE), noise(2, MIDDLE));
    site.write("large.bin", &old);
    let text = "[[host]]\nroot = \"site\"\n[[host.route]]\npath = \"/status\"\naction = \"status\"\n";
    let server = TestServer::configured(io, &site, text);
    let mut client = server.client();
    until("the file has not changed for a while, and the server has a copy", || {
        (0..4).for_each(|_| assert!(client.get("/large.bin").body == old));
        let status = client.get("/status?json").text().to_owned();
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        (status["instances"][0]["cache"]["content_bytes"] == MIDDLE).then_some(())
    });
    let part = client.get_with("/large.bin", &["Range: bytes=70000-1500000"]);
    assert!(part.status == 206 && part.body == old[70_000..=1_500_000]);
    let parts = client.get_with("/large.bin", &["Range: bytes=0-99999,1900000-"]);
    assert_eq!(parts.status, 206);
    for piece in [&old[..100_000], &old[1_900_000..]] {
        assert!(parts.body.windows(piece.len()).any(|part| part == piece));
    }
    let mut slow = amid_download(&server);
    site.write("large.bin", &new);
    assert!(slow.read(ExpectedContent::Follows).body == old, "the copy does not change");
    becomes(&server, "/large.bin", &old, &new);
    server.stops_clean();
}

/// Above the size of small files, and above the capacity of a narrow client's buffers.
const MIDDLE: usize = 2_000_000;

fn file_rolled_back_to_an_older_date_is_sent(io: Io) {
    let site = TestSite::new();
    let aged = |name: &str, seconds: u64| {
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
        OpenOptions::new().append(true).open(site.path(name)).unwrap().set_modified(time).unwrap();
    };
    site.write("page", b"new");
    aged("page", 100);
    let server = TestServer::start(io, &site, &[]);
    let date = server.get("/page").field("last-modified").to_owned();
    site.write("before", b"old");
    aged("before", 9000);
    std::fs::rename(site.path("before"), site.path("page")).unwrap();
    becomes(&server, "/page", b"new", b"old");
    let response = server.client().request("GET", "/page", &[&format!("If-Modified-Since: {date}")]);
    assert_eq!((response.status, response.text()), (200, "old"));
    server.stops_clean();
}
