//! PHP's view of a request, variable by variable, compared with the view when Apache passes the
//! same request to the same pool.
//!
//! Where the views differ, [`DIFFERENCES`] gives the reason, for all requests or for one; any other
//! difference fails the test.

use super::{installed, operation::Fpm, site, writable, write};
use crate::support::{Io, TestProcess, TestServer, on_usual, until};
use rustix::process::Signal;
use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
};

on_usual! {
    php_reads_the_same_as_behind_apache,
}

/// Where Debian has Apache's modules.
const MODULES: &str = "/usr/lib/apache2/modules";

/// One line for each variable, body and upload in PHP's view; values are encoded, so that any byte
/// may occur.
const PROGRAM: &str = "header('Content-Type: text/plain');
$all = ['body' => file_get_contents('php://input')];
foreach (['SERVER' => $_SERVER, 'GET' => $_GET, 'POST' => $_POST, 'COOKIE' => $_COOKIE, 'FILES' => $_FILES] as $kind => $values)
    foreach ($values as $name => $value) {
        if (is_array($value)) { unset($value['tmp_name']); $value = json_encode($value); }
        $all[\"$kind $name\"] = $value;
    }
ksort($all);
foreach ($all as $name => $value) echo rawurlencode($name), '=', rawurlencode($value), \"\\n\";";

/// Names whose values differ, or that only one of the two views has, with the reason.
const DIFFERENCES: [(&str, &str); 22] = [
    ("SERVER SERVER_SOFTWARE", "another server"),
    ("SERVER REMOTE_HOST", "ours: the address, which a program may expect (RFC 3875, section 4.1.9)"),
    ("SERVER UNIQUE_ID", "ours: the number of the request, as in the log"),
    ("SERVER LD_LIBRARY_PATH", "Apache's own environment, which is nobody's business"),
    ("nothing posted: SERVER CONTENT_LENGTH", "absent where there is no content (RFC 3875, section 4.1.2)"),
    ("whole address: SERVER REQUEST_URI", "always a path, as programs take it for"),
    ("SERVER SERVER_SIGNATURE", "Apache's own"),
    ("SERVER SERVER_ADMIN", "Apache's own"),
    ("SERVER CONTEXT_PREFIX", "Apache's own"),
    ("SERVER CONTEXT_DOCUMENT_ROOT", "Apache's own"),
    ("SERVER proxy-nokeepalive", "Apache's own"),
    ("SERVER PATH", "Apache's own environment, which is nobody's business"),
    ("SERVER SERVER_ADDR", "another address"),
    ("SERVER SERVER_PORT", "another port"),
    ("SERVER REMOTE_PORT", "another connection"),
    ("SERVER REQUEST_TIME", "another moment"),
    ("SERVER REQUEST_TIME_FLOAT", "another moment"),
    ("SERVER REDIRECT_STATUS", "Apache sends it after redirects only; php-cgi wants it always"),
    ("SERVER HTTPS", "empty, or not there"),
    ("SERVER FCGI_ROLE", "how PHP itself was asked"),
    ("SERVER HTTP_CONNECTION", "about the connection, not the request (RFC 3875, section 4.1.18)"),
    (
        "SERVER PATH_TRANSLATED",
        "Apache translates through the pool's name (redirect:/…), which means nothing",
    ),
];

/// A request: description, first line without the protocol, fields, content.
type Shape = (&'static str, &'static str, &'static [&'static str], &'static str);

const SHAPES: [Shape; 34] = [
    ("plain", "GET /x.php", &[], ""),
    ("query", "GET /x.php?a=1&b=2", &[], ""),
    ("empty query", "GET /x.php?", &[], ""),
    ("query of odd bytes", "GET /x.php?a=%00%ff+b&c[]=1&c[]=2&=x&&d", &[], ""),
    ("query with a question mark", "GET /x.php?a?b", &[], ""),
    ("query that looks like a path", "GET /x.php?/../y.php", &[], ""),
    ("path behind the program", "GET /x.php/a/b", &[], ""),
    ("path of one slash", "GET /x.php/", &[], ""),
    ("encoded path behind the program", "GET /x.php/a%20b/%C3%A9", &[], ""),
    ("path and query", "GET /x.php/a?b=c", &[], ""),
    ("program in a folder", "GET /deep/er/y.php/z", &[], ""),
    ("encoded name", "GET /x%2Ephp?a", &[], ""),
    ("dot segments", "GET /deep/../x.php", &[], ""),
    ("HEAD", "HEAD /x.php", &[], ""),
    ("OPTIONS", "OPTIONS /x.php", &[], ""),
    ("DELETE", "DELETE /x.php", &[], ""),
    ("PUT", "PUT /x.php", &["Content-Type: text/plain"], "some text"),
    ("PATCH", "PATCH /x.php", &["Content-Type: application/json"], "{}"),
    ("form", "POST /x.php", &["Content-Type: application/x-www-form-urlencoded"], "a=1&b%5B%5D=2&c=%26"),
    ("JSON", "POST /x.php?q=1", &["Content-Type: application/json; charset=utf-8"], "{\"a\": [1]}"),
    ("nothing posted", "POST /x.php", &["Content-Type: application/x-www-form-urlencoded"], ""),
    (
        "upload",
        "POST /x.php",
        &["Content-Type: multipart/form-data; boundary=b"],
        "--b\r\nContent-Disposition: form-data; name=\"t\"\r\n\r\ntext\r\n--b\r\nContent-Disposition: form-data; name=\"f\"; \
         filename=\"a b.txt\"\r\nContent-Type: text/plain\r\n\r\nfile\r\n--b--\r\n",
    ),
    ("cookies", "GET /x.php", &["Cookie: a=1; b=2%203; c"], ""),
    ("cookies on two lines", "GET /x.php", &["X-Before: 1", "Cookie: a=1", "X-After: 2"], ""),
    ("a field on two lines", "GET /x.php", &["X-A: 1", "X-A: 2"], ""),
    ("a field without value", "GET /x.php", &["X-Empty:"], ""),
    ("a field of Latin-1 bytes", "GET /x.php", &["X-Name: caf\u{e9}"], ""),
    ("a name with an underscore", "GET /x.php", &["X_Forged: 1", "X-Forged: 2"], ""),
    ("the field Proxy", "GET /x.php", &["Proxy: http://harm.example/"], ""),
    ("a password", "GET /x.php", &["Authorization: Basic dXNlcjpwYXNz"], ""),
    ("a token", "GET /x.php", &["Authorization: Bearer abc"], ""),
    (
        "what a browser sends",
        "GET /x.php",
        &[
            "User-Agent: Mozilla/5.0 (X11)",
            "Accept: text/html,*/*;q=0.8",
            "Accept-Language: de,en;q=0.5",
            "Accept-Encoding: gzip, br",
            "Referer: http://test/a?b",
            "Upgrade-Insecure-Requests: 1",
            "Sec-Fetch-Mode: navigate",
        ],
        "",
    ),
    (
        "conditions and ranges",
        "GET /x.php",
        &["If-None-Match: \"a\"", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", "Range: bytes=0-1"],
        "",
    ),
    ("whole address", "GET http://test/x.php?a", &[], ""),
];

fn php_reads_the_same_as_behind_apache(io: Io) {
    let Some(apache) = installed("apache2").filter(|_| Path::new(MODULES).is_dir()) else {
        return eprintln!("SKIPPED: no apache2 on this machine");
    };
    let site = site();
    write(&site, "x.php", PROGRAM);
    write(&site, "deep/er/y.php", PROGRAM);
    let socket = writable(&site, "run").join("php.sock");
    // The default of the packages: Apache lets PHP find the program in the path.
    let Some(_fpm) = Fpm::start_with(&site, &socket.display().to_string(), 2, "cgi.fix_pathinfo=1") else {
        return eprintln!("SKIPPED: no php-fpm on this machine");
    };
    until("php-fpm listens", || socket.exists().then_some(()));
    let ours =
        TestServer::start(io, &site, &[&format!("--php=unix:{}", socket.display()), "--php-children", "2"]);
    let (_running, theirs) = start_apache(&apache, &site.root(), &socket, &writable(&site, "apache"));
    let mut wrong = Vec::new();
    for shape in SHAPES {
        let [ours, theirs] = [ours.addr(), theirs].map(|addr| read_by_php(addr, shape));
        let names = ours.keys().chain(theirs.keys().filter(|name| !ours.contains_key(*name)));
        for name in names {
            let is_known = |known: &str| known == name || known == format!("{}: {name}", shape.0);
            if DIFFERENCES.iter().any(|(known, _why)| is_known(known)) {
                continue;
            }
            let [ours, theirs] = [&ours, &theirs].map(|read| read.get(name).map_or("absent", String::as_str));
            if ours != theirs {
                wrong.push(format!("{}: {name}: ours {ours}, Apache's {theirs}", shape.0));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    ours.stops_clean();
}

/// PHP's view of one request, by name; for HEAD, which has no content, the fields of the head.
fn read_by_php(addr: SocketAddr, (what, line, fields, content): Shape) -> BTreeMap<String, String> {
    let mut request = format!("{line} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n").into_bytes();
    for field in fields {
        // A letter is a byte here.
        request.extend(field.chars().map(|letter| letter as u8));
        request.extend(b"\r\n");
    }
    if !content.is_empty() || line.starts_with('P') {
        request.extend(format!("Content-Length: {}\r\n", content.len()).bytes());
    }
    request.extend(b"\r\n");
    request.extend(content.bytes());
    let mut stream = TcpStream::connect(addr).expect("it listens");
    stream.write_all(&request).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let answer = String::from_utf8(answer).expect("ASCII");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{what}: {answer}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{what}: {head}");
    // Lines of variables have an equals sign, but lines of chunk framing have no equals sign.
    let pairs = body.lines().filter_map(|line| line.split_once('='));
    let mut read: BTreeMap<String, String> =
        pairs.map(|(name, value)| (name.replace("%20", " "), value.to_owned())).collect();
    assert!(line.starts_with("HEAD") || read.contains_key("SERVER REQUEST_METHOD"), "{what}: {body}");
    read.insert("status".to_owned(), head[9..12].to_owned());
    read
}

/// Apache, which ends its workers only after a request to end.
struct Apache(TestProcess);

impl Drop for Apache {
    fn drop(&mut self) {
        if !self.0.has_ended() {
            self.0.signal(Signal::TERM);
            self.0.wait();
        }
    }
}

/// Apache with the pool at `socket`, and its address.
fn start_apache(program: &Path, root: &Path, socket: &Path, state: &Path) -> (Apache, SocketAddr) {
    let addr = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let load = |name: &str| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n");
    let loads = ["mpm_event", "authz_core", "proxy", "proxy_fcgi"].map(load).concat();
    let user = if rustix::process::geteuid().is_root() { "User www-data\nGroup www-data\n" } else { "" };
    let (root, socket, state) = (root.display(), socket.display(), state.display());
    let text = format!(
        "{loads}{user}ServerRoot {state}\nDefaultRuntimeDir {state}\nPidFile {state}/pid\nListen {addr}\n\
         ErrorLog {state}/error.log\nServerName fallback\nDocumentRoot {root}\n\
         <Directory />\nRequire all granted\nCGIPassAuth On\n</Directory>\n\
         <FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:{socket}|fcgi://localhost\"\n</FilesMatch>\n"
    );
    let file = format!("{state}/apache.conf");
    fs::write(&file, text).expect("a file");
    let mut command = Command::new(program);
    command.args(["-D", "FOREGROUND", "-f", &file]);
    let apache = Apache(TestProcess::spawn(command));
    until("Apache listens", || {
        assert!(!apache.0.has_ended(), "Apache: {}", apache.0.stderr());
        TcpStream::connect(addr).ok()
    });
    (apache, addr)
}
