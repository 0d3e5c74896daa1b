//! Third-party clients: wget mirrors a whole tree, and curl resumes, revalidates and is refused.
//!
//! Leaves out the answers themselves, which the neighbouring modules check byte by byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use crate::support::{Io, TestServer, TestSite, noise, on_usual};

on_usual!(
    wget_mirrors_a_tree_byte_for_byte,
    wget_follows_the_links_of_pages,
    curl_resumes_and_revalidates,
    curl_is_refused_with_reasons,
);

/// Runs a client; `None` where the client is not installed.
fn client(program: &str, folder: &Path, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).current_dir(folder).env_clear().output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("SKIPPED: {program}: {error}");
            None
        }
    }
}

fn wget(server: &TestServer, folder: &Path) -> Option<Output> {
    let url = format!("http://{}/", server.addr());
    let mirror = ["-q", "-r", "-l", "inf", "-nH", "-e", "robots=off", "--restrict-file-names=nocontrol"];
    client("wget", folder, &[mirror.as_slice(), &[&url]].concat())
}

/// Every file below `root`, by its relative path, sorted.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path.strip_prefix(root).unwrap().to_path_buf());
            }
        }
    }
    files.sort();
    files
}

/// wget's name for the listing of a folder without an index.
fn is_listing(original: &Path, path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "index.html") && !original.join(path).exists()
}

fn assert_same(original: &Path, copy: &Path, expected: &[PathBuf]) {
    let copied: Vec<_> = files(copy).into_iter().filter(|path| !is_listing(original, path)).collect();
    assert_eq!(copied, expected);
    for file in expected {
        let (ours, theirs) = (fs::read(original.join(file)).unwrap(), fs::read(copy.join(file)).unwrap());
        assert!(ours == theirs, "{} differs", file.display());
    }
}

/// Without an index anywhere, so that every file is found by the listings alone.
fn wget_mirrors_a_tree_byte_for_byte(io: Io) {
    let site = TestSite::new();
    site.remove("index.html");
    let lengths = [0, 1, 4095, 4096, 65_537, 3_000_001];
    for (seed, len) in (0..).zip(lengths) {
        site.write(&format!("sizes/{len}.bin"), &noise(seed, len));
    }
    for depth in 1..12 {
        site.write(&format!("{}leaf.txt", "deep/".repeat(depth)), &noise(99, depth * 100));
    }
    for name in ["a b", "50%", "q?x=1&y", "h#sh", "+plus", "über", "semi;colon", "'quoted'", "comma,"] {
        site.write(&format!("odd names/{name}.txt"), name.as_bytes());
    }
    let server = TestServer::start(io, &site, &[]);
    let copy = site.outside("copy");
    fs::create_dir(&copy).unwrap();
    if let Some(output) = wget(&server, &copy) {
        assert!(output.status.success(), "{output:?}");
        assert_same(&site.root(), &copy, &files(&site.root()));
    }
    server.stops_clean();
}

fn wget_follows_the_links_of_pages(io: Io) {
    let site = TestSite::new();
    site.write(
        "index.html",
        b"<link rel=stylesheet href=s.css><a href=part/one.html>one</a><img src=i/p.png>",
    );
    site.write("s.css", b"body { background: url(i/back.png) }");
    site.write("part/one.html", b"<a href=../part/two.html?print=1#end>two</a><a href=\"/\">home</a>");
    site.write("part/two.html", b"<p id=end>end");
    for name in ["i/p.png", "i/back.png"] {
        site.write(name, &noise(7, 30_000));
    }
    let server = TestServer::start(io, &site, &[]);
    let copy = site.outside("copy");
    fs::create_dir(&copy).unwrap();
    if let Some(output) = wget(&server, &copy) {
        assert!(output.status.success(), "{output:?}");
        // The file has the name of the whole link, as wget names files.
        fs::rename(copy.join("part/two.html?print=1"), copy.join("part/two.html")).unwrap();
        let expected = ["i/back.png", "i/p.png", "index.html", "part/one.html", "part/two.html", "s.css"];
        assert_same(&site.root(), &copy, &expected.map(PathBuf::from));
    }
    server.stops_clean();
}

/// curl's report of one request: the status and the length of the response.
fn curl(server: &TestServer, folder: &Path, target: &str, arguments: &[&str]) -> Option<String> {
    let url = format!("http://{}{target}", server.addr());
    let say = ["-sS", "--path-as-is", "-w", "%{http_code} %{size_download}", "-o", "got"];
    let output = client("curl", folder, &[say.as_slice(), arguments, &[&url]].concat())?;
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

fn curl_resumes_and_revalidates(io: Io) {
    let site = TestSite::new();
    let bytes = noise(3, 200_000);
    site.write("big.bin", &bytes);
    // A file that was just written has no date yet.
    let file = fs::File::options().write(true).open(site.root().join("big.bin")).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    let server = TestServer::start(io, &site, &[]);
    let folder = site.outside("curl");
    fs::create_dir(&folder).unwrap();
    let got = || fs::read(folder.join("got")).unwrap();
    let ask = |arguments: &[&str]| curl(&server, &folder, "/big.bin", arguments);
    let Some(whole) = ask(&["--etag-save", "etag"]) else { return };
    assert_eq!(whole, "200 200000");
    assert!(got() == bytes);
    assert_eq!(ask(&["--etag-compare", "etag"]).unwrap(), "304 0");
    fs::write(folder.join("got"), &bytes[..123_456]).unwrap();
    assert_eq!(ask(&["-C", "-"]).unwrap(), "206 76544");
    assert!(got() == bytes);
    assert_eq!(ask(&["-r", "-10"]).unwrap(), "206 10");
    assert!(got() == bytes[199_990..]);
    assert_eq!(ask(&["-r", "200000-"]).unwrap().split(' ').next(), Some("416"));
    assert_eq!(ask(&["--http1.0", "--remote-time"]).unwrap(), "200 200000");
    assert_eq!(ask(&["-z", "got"]).unwrap(), "304 0");
    server.stops_clean();
}

fn curl_is_refused_with_reasons(io: Io) {
    let site = TestSite::new();
    site.write(".secret", b"not served");
    let server = TestServer::start(io, &site, &[]);
    let folder = site.outside("curl");
    fs::create_dir(&folder).unwrap();
    let status = |target: &str, arguments: &[&str]| {
        curl(&server, &folder, target, arguments).map(|said| said[..3].to_owned())
    };
    if status("/", &[]).is_none() {
        return;
    }
    for (target, arguments, expected) in [
        ("/../../etc/passwd", &[][..], "404"),
        ("/%2e%2e/%2e%2e/etc/passwd", &[], "404"),
        ("/.secret", &[], "404"),
        ("/a%00b", &[], "400"),
        ("/", &["-X", "DELETE"], "405"),
        ("/", &["-H", "Host: a b"], "400"),
        ("/", &["-H", "Transfer-Encoding: chunked", "-H", "Content-Length: 3", "-d", "abc"], "400"),
    ] {
        assert_eq!(status(target, arguments).unwrap(), expected, "{target} {arguments:?}");
    }
    server.stops_clean();
}
