//! HTTPS: handshakes, certificates, and clients that do something else.

use crate::support::{
    Io, TestClient, TestProcess, TestServer, TestSite, noise, on_both, on_usual, until, vermeil,
};
use rustix::process::Signal;
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
    client::{Resumption, WebPkiServerVerifier},
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, ServerName},
    version::{TLS12, TLS13},
};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

on_both! {
    both_versions_serve_small_and_large_files,
    request_without_tls_gets_400,
    client_that_is_no_tls_client_is_closed,
    half_handshake_ends_with_the_header_timeout,
    upload_reaches_the_server,
    drain_ends_idle_tls_connections,
    session_is_resumed,
    announced_client_speaks_tls,
    openssl_and_curl_are_served,
    certificates_change_under_load,
    heads_and_ranges_are_exact,
    cut_answer_has_no_end_of_tls,
    failed_handshakes_leave_no_descriptor,
    keep_alive_timeout_closes_idle_tls_connection,
    renegotiation_is_refused_at_once,
}

on_usual! {
    host_has_the_certificate_of_its_name,
    wrong_key_is_refused_by_check_and_serve_and_reload,
    idle_connection_ends_with_an_alert,
    host_that_requires_https_redirects,
    program_gets_variables_of_tls,
    proxy_that_names_https_is_not_redirected,
    status_counts_handshakes,
    server_that_changed_its_user_reads_renewed_keys,
}

/// A self-signed certificate with a P-256 key.
pub(crate) struct TestCertificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) der: CertificateDer<'static>,
}

impl TestCertificate {
    pub(crate) fn new(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Self::of(&rcgen::CertificateParams::new(names).expect("names"))
    }

    /// A certificate of `a.example` that was valid in the year 2001.
    pub(crate) fn expired() -> Self {
        let mut params = rcgen::CertificateParams::new(["a.example".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        Self::of(&params)
    }

    fn of(params: &rcgen::CertificateParams) -> Self {
        let key = rcgen::KeyPair::generate().expect("a key");
        let signed = params.self_signed(&key).expect("signed");
        Self { certificate: signed.pem(), key: key.serialize_pem(), der: signed.der().clone() }
    }

    /// Writes `NAME.crt` and `NAME.key` beside the site, each by a rename.
    pub(crate) fn write(&self, site: &TestSite, name: &str) {
        for (end, text) in [("crt", &self.certificate), ("key", &self.key)] {
            let (path, new) = (site.outside(&format!("{name}.{end}")), site.outside("new.pem"));
            fs::write(&new, text).expect("written");
            fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).expect("changed");
            fs::rename(new, path).expect("renamed");
        }
    }
}

/// The configuration of a client that trusts this certificate alone.
pub(crate) fn trusting(
    certificate: &TestCertificate,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der.clone()).expect("a certificate");
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let mut config = builder
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    config
}

pub(crate) type TlsClient = StreamOwned<ClientConnection, TcpStream>;

pub(crate) fn client(addr: SocketAddr, config: &Arc<ClientConfig>, name: &str) -> TlsClient {
    let tcp = TcpStream::connect(addr).expect("connected");
    tcp.set_read_timeout(Some(crate::support::PATIENCE)).expect("set");
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    StreamOwned::new(ClientConnection::new(config.clone(), name).expect("a client"), tcp)
}

/// The whole answer to a request on a connection that ends with the answer, as the server says.
#[track_caller]
pub(crate) fn get(client: &mut TlsClient, target: &str) -> Vec<u8> {
    write!(client, "GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    // Without the end of TLS (`close_notify`) this is an error.
    client.read_to_end(&mut answer).expect("an answer and its end");
    answer
}

#[track_caller]
fn body(answer: &[u8]) -> &[u8] {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    &answer[end + 4..]
}

/// A server with a certificate for `a.example`, whose second address speaks TLS.
pub(crate) fn start(io: Io, site: &TestSite, more: &str) -> (TestServer, TestCertificate) {
    let certificate = TestCertificate::new(&["a.example"]);
    certificate.write(site, "a");
    (TestServer::of_file(&site.configure(io, &text(more))), certificate)
}

/// The text of a configuration with `more`.
pub(crate) fn text(more: &str) -> String {
    format!(
        "control = \"control\"\n{more}\n[[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n[[host]]\nroot = \"site\"\n\
         certificate = \"a.crt\"\nkey = \"a.key\"\n"
    )
}

fn both_versions_serve_small_and_large_files(io: Io) {
    let site = TestSite::new();
    let large = noise(7, 3_000_000);
    site.write("large", &large);
    site.write("small", &noise(8, 1000));
    let (server, certificate) = start(io, &site, "");
    server.says(&format!(" at https://{}/\n", secure_addr(&server)));
    for (version, known) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let config = Arc::new(trusting(&certificate, &[version]));
        let mut one = client(secure_addr(&server), &config, "a.example");
        write!(one, "GET /small HTTP/1.1\r\nHost: a.example\r\n\r\n").expect("sent");
        let mut first = [0; 12];
        one.read_exact(&mut first).expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200");
        assert_eq!(one.conn.protocol_version(), Some(known));
        assert_eq!(one.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        let mut other = client(secure_addr(&server), &config, "a.example");
        assert_eq!(body(&get(&mut other, "/small")), noise(8, 1000));
        let answer = get(&mut client(secure_addr(&server), &config, "a.example"), "/large");
        assert!(body(&answer) == large, "{version:?}");
    }
    server.stops_clean();
}

fn request_without_tls_gets_400(io: Io) {
    let site = TestSite::new();
    let (server, _) = start(io, &site, "");
    let answer = TestClient::connect(secure_addr(&server)).get("/");
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("This port speaks HTTPS"), "{}", answer.text());
    server.stops_clean();
}

fn client_that_is_no_tls_client_is_closed(io: Io) {
    let site = TestSite::new();
    let (server, certificate) = start(io, &site, "");
    for bytes in [&[0; 200][..], &[0x16, 3, 1, 0xff, 0xff], &[0x16, 3, 1, 0, 4, 1, 0, 0, 0], &[0x80, 0x2e, 1]]
    {
        let mut tcp = TcpStream::connect(secure_addr(&server)).expect("connected");
        tcp.set_read_timeout(Some(crate::support::PATIENCE)).expect("set");
        tcp.write_all(bytes).expect("sent");
        let mut answer = Vec::new();
        // A reset is an end too.
        let _ = tcp.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer[0] == 21, "{bytes:?}: {answer:?}");
    }
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    assert!(get(&mut client(secure_addr(&server), &config, "a.example"), "/").ends_with(b"home\n"));
    server.stops_clean();
}

fn half_handshake_ends_with_the_header_timeout(io: Io) {
    let site = TestSite::new();
    let (server, certificate) = start(io, &site, "[timeouts]\nheader = \"300ms\"");
    let mut silent = TcpStream::connect(secure_addr(&server)).expect("connected");
    // A client that greets and does not go on.
    let mut half = TcpStream::connect(secure_addr(&server)).expect("connected");
    let name = ServerName::try_from("a.example").expect("a name");
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    let mut greeting = ClientConnection::new(config, name).expect("a client");
    greeting.write_tls(&mut half).expect("sent");
    for tcp in [&mut silent, &mut half] {
        tcp.set_read_timeout(Some(crate::support::PATIENCE)).expect("set");
        let _ = tcp.read_to_end(&mut Vec::new());
    }
    server.stops_clean();
}

fn host_has_the_certificate_of_its_name(io: Io) {
    let site = TestSite::new();
    // The third host has no certificate, and answers with that of the default host.
    let a = TestCertificate::new(&["a.example", "d.example"]);
    let b = TestCertificate::new(&["b.example"]);
    a.write(&site, "a");
    b.write(&site, "b");
    let text = "[[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n[[host]]\nnames = [\"a.example\"]\nroot = \"site\"\n\
                certificate = \"a.crt\"\nkey = \"a.key\"\n[[host]]\nnames = [\"b.example\"]\nroot = \"site\"\n\
                certificate = \"b.crt\"\nkey = \"b.key\"\n[[host]]\nnames = [\"d.example\"]\nroot = \"site\"\n\
                [hosts]\nunknown = \"refuse\"\n";
    let server = TestServer::configured(io, &site, text);
    for (certificate, name) in [(&a, "a.example"), (&b, "b.example"), (&a, "d.example")] {
        let config = Arc::new(trusting(certificate, &[&TLS13]));
        assert!(get(&mut client(secure_addr(&server), &config, name), "/").starts_with(b"HTTP/1.1 200"));
    }
    let config = Arc::new(trusting(&a, &[&TLS13]));
    let mut unknown = client(secure_addr(&server), &config, "c.example");
    let error = unknown.write_all(b"GET / HTTP/1.1\r\n\r\n").expect_err("no host has the name").to_string();
    assert!(error.contains("UnrecognisedName"), "{error}");
    server.stops_clean();
}

/// A client that has the begin of an answer.
pub(crate) fn answered_client(server: &TestServer, config: &Arc<ClientConfig>) -> TlsClient {
    let mut client = client(secure_addr(server), config, "a.example");
    client.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").expect("sent");
    client.read_exact(&mut [0; 12]).expect("an answer");
    client
}

fn upload_reaches_the_server(io: Io) {
    let site = TestSite::new();
    let (server, certificate) = start(io, &site, "");
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    let mut client = client(secure_addr(&server), &config, "a.example");
    let content = noise(3, 300_000);
    write!(client, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n", content.len())
        .unwrap();
    client.write_all(&content).expect("sent");
    let answer = get(&mut client, "/");
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 405 ") && text.contains("HTTP/1.1 200 "), "{text}");
    server.stops_clean();
}

fn drain_ends_idle_tls_connections(io: Io) {
    let site = TestSite::new();
    let (server, certificate) = start(io, &site, "");
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    let mut idle = answered_client(&server, &config);
    server.stops_clean();
    idle.read_to_end(&mut Vec::new()).expect("the server ends TLS");
}

fn session_is_resumed(io: Io) {
    let site = TestSite::new();
    let (server, certificate) = start(io, &site, "");
    for version in [&TLS12, &TLS13] {
        let mut config = trusting(&certificate, &[version]);
        config.resumption = Resumption::in_memory_sessions(8);
        let config = Arc::new(config);
        let kinds = [0, 1].map(|_| {
            let mut client = client(secure_addr(&server), &config, "a.example");
            get(&mut client, "/");
            client.conn.handshake_kind()
        });
        assert_eq!(kinds, [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)], "{version:?}");
    }
    server.stops_clean();
}

fn run(args: &[&str]) -> (Option<i32>, String) {
    let output = vermeil(args).output().expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn wrong_key_is_refused_by_check_and_serve_and_reload(io: Io) {
    let site = TestSite::new();
    let (server, certificate) = start(io, &site, "");
    let file = site.outside("vermeil.toml");
    let path = file.to_str().expect("text");
    let key = site.outside("a.key");
    let refused = |words: &str| {
        for command in [&["check", path][..], &["serve", "--config", path]] {
            let (code, said) = run(command);
            assert!(code != Some(0) && said.contains(words), "{command:?}: {said}");
        }
        let before = server.stderr().matches(words).count();
        server.signal(Signal::HUP);
        until("the reload is refused", || (server.stderr().matches(words).count() > before).then_some(()));
    };
    fs::write(&key, TestCertificate::new(&["a.example"]).key).expect("written");
    refused("does not belong to the first certificate in");
    fs::write(&key, &certificate.key).expect("written");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("changed");
    refused("every user of this machine may read or write the private key");
    fs::remove_file(&key).expect("removed");
    refused("a.key: No such file");
    server.stops_clean();
}

fn idle_connection_ends_with_an_alert(io: Io) {
    let site = TestSite::new();
    let (server, certificate) = start(io, &site, "[timeouts]\nkeep_alive = \"50ms\"\n");
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    let mut client = client(secure_addr(&server), &config, "a.example");
    write!(client, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    // Without the end of TLS (`close_notify`) this is an error.
    client.read_to_end(&mut answer).expect("an answer and its end");
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{answer:?}");
    server.stops_clean();
}

fn host_that_requires_https_redirects(io: Io) {
    let site = TestSite::new();
    site.write(".well-known/acme-challenge/token", b"proof");
    let certificate = TestCertificate::new(&["a.example"]);
    certificate.write(&site, "a");
    let text = "[[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n[[host]]\n\
                root = \"site\"\ncertificate = \"a.crt\"\nkey = \"a.key\"\nhttps = \"only\"\n";
    let server = TestServer::configured(io, &site, text);
    let mut plain = server.client();
    let answer = plain.get("/a%20b?c=d");
    assert_eq!((answer.status, answer.field("location")), (301, "https://test/a%20b?c=d"));
    assert!(answer.get("strict-transport-security").is_none());
    assert_eq!(plain.request("POST", "/", &["Content-Length: 0"]).status, 308);
    assert_eq!(plain.get("/.well-known/acme-challenge/token").text(), "proof");
    for other in ["/.well-known/acme-challenge/../../page", "/.well-known/acme-challenge/%2e%2e/x"] {
        assert_eq!(plain.get(other).status, 301, "{other}");
    }
    let addr = secure_addr(&server);
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    for target in ["/", "/none"] {
        let answer = get(&mut client(addr, &config, "a.example"), target);
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("\r\nStrict-Transport-Security: max-age=31536000\r\n"), "{text}");
    }
    server.stops_clean();
}

/// The address of the listener that speaks TLS.
pub(crate) fn secure_addr(server: &TestServer) -> SocketAddr {
    until("the server says its address", || {
        let said = server.stderr();
        let rest = said.split_once("https://")?.1;
        rest.split_once('/')?.0.parse().ok()
    })
}

fn program_gets_variables_of_tls(io: Io) {
    let site = TestSite::new();
    site.write("env.cgi", b"#!/bin/sh\necho Content-Type: text/plain\necho\nenv\n");
    fs::set_permissions(site.path("env.cgi"), fs::Permissions::from_mode(0o755)).expect("changed");
    let certificate = TestCertificate::new(&["a.example"]);
    certificate.write(&site, "a");
    let (crt, key) = (site.outside("a.crt"), site.outside("a.key"));
    let mut args = vec![
        "--tls-certificate",
        crt.to_str().expect("text"),
        "--tls-key",
        key.to_str().expect("text"),
        "--listen-tls",
        "127.0.0.2:0",
        "--cgi",
        ".cgi",
    ];
    if rustix::process::geteuid().is_root() {
        args.extend(["--cgi-user", "nobody"]);
    }
    let server = TestServer::start(io, &site, &args);
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    let answer = get(&mut client(secure_addr(&server), &config, "a.example"), "/env.cgi");
    let text = String::from_utf8_lossy(&answer).into_owned();
    for line in ["HTTPS=on", "REQUEST_SCHEME=https", "SSL_PROTOCOL=TLSv1.3", "SSL_TLS_SNI=a.example"] {
        assert!(text.lines().any(|said| said == line), "{line}: {text}");
    }
    assert!(text.contains("SSL_CIPHER=TLS_AES_"), "{text}");
    assert!(!server.get("/env.cgi").text().contains("HTTPS="));
    server.stops_clean();
}

/// The header of the PROXY protocol precedes the handshake.
fn announced_client_speaks_tls(io: Io) {
    let site = TestSite::new();
    let program = b"#!/bin/sh\n\
        echo Content-Type: text/plain\necho\n\
        echo \"$REMOTE_ADDR:$REMOTE_PORT $SERVER_ADDR:$SERVER_PORT $REQUEST_SCHEME ${HTTPS:-off} $SSL_PROTOCOL\"\n";
    site.write("ends.cgi", program);
    fs::set_permissions(site.path("ends.cgi"), fs::Permissions::from_mode(0o755)).expect("changed");
    let certificate = TestCertificate::new(&["a.example"]);
    certificate.write(&site, "a");
    let user = if rustix::process::geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    let text = format!(
        "[proxies]\nfrom = [\"127.0.0.1\"]\n{user}\
         [[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\nproxy_protocol = true\n\
         [[host]]\nroot = \"site\"\ncertificate = \"a.crt\"\nkey = \"a.key\"\n\
         [[host.route]]\nsuffix = \".cgi\"\naction = \"cgi\"\n"
    );
    let server = TestServer::configured(io, &site, &text);
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    let mut announced = client(secure_addr(&server), &config, "a.example");
    announced.sock.write_all(b"PROXY TCP4 192.0.2.7 203.0.113.1 4711 443\r\n").expect("sent");
    write!(announced, "GET /ends.cgi HTTP/1.1\r\nHost: a.example\r\n").expect("sent");
    // The client is no proxy, so its fields are not believed.
    write!(announced, "X-Forwarded-Proto: http\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    announced.read_to_end(&mut answer).expect("an answer and its end");
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(text.contains("192.0.2.7:4711 203.0.113.1:443 https on TLSv1.3\n"), "{text}");

    // A proxy with a request of its own, without a client.
    let mut own = client(secure_addr(&server), &config, "a.example");
    own.sock.write_all(b"\r\n\r\n\0\r\nQUIT\n\x20\x00\0\0").expect("sent");
    assert!(get(&mut own, "/").starts_with(b"HTTP/1.1 200"));

    let mut unannounced = client(secure_addr(&server), &config, "a.example");
    assert!(write!(unannounced, "GET / HTTP/1.1\r\n\r\n").is_err());
    server.says("does not begin with a header of the PROXY protocol (closed)");
    server.stops_clean();
}

fn proxy_that_names_https_is_not_redirected(io: Io) {
    let site = TestSite::new();
    let certificate = TestCertificate::new(&["a.example"]);
    certificate.write(&site, "a");
    let text = "[proxies]\nfrom = [\"127.0.0.1\"]\n[[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n[[host]]\n\
                root = \"site\"\ncertificate = \"a.crt\"\nkey = \"a.key\"\nhttps = \"only\"\n";
    let server = TestServer::configured(io, &site, text);
    let mut plain = server.client();
    let answer = plain.get_with("/", &["X-Forwarded-Proto: https"]);
    assert_eq!(answer.status, 200);
    assert!(answer.get("strict-transport-security").is_some());
    for fields in [&["X-Forwarded-Proto: http"][..], &[]] {
        assert_eq!(plain.get_with("/", fields).status, 301, "{fields:?}");
    }
    // A proxy that speaks TLS itself reaches HTTPS, although its client spoke HTTP.
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    let mut secure = client(secure_addr(&server), &config, "a.example");
    write!(secure, "GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Proto: http\r\n").expect("sent");
    write!(secure, "Connection: close\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    secure.read_to_end(&mut answer).expect("an answer and its end");
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    server.stops_clean();
}

fn status_counts_handshakes(io: Io) {
    let site = TestSite::new();
    let (server, certificate) = start(io, &site, "");
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    get(&mut client(secure_addr(&server), &config, "a.example"), "/");
    TestClient::connect(secure_addr(&server)).get("/");
    let text = status_of(&site);
    let expected =
        "https: 1 full and 0 resumed handshakes, 0 failed, 0 refused, 0 waiting; 1 requests without TLS";
    assert!(text.contains(expected), "{text}");
    let is_step = |line: &&str| line.starts_with("work \"TLS handshake");
    let steps: Vec<_> = text.lines().filter(is_step).collect();
    // In idle time, or on a serving core. If idle time did not suffice, on both.
    assert!(matches!(steps.len(), 1 | 2), "{text}");
    assert!(steps.iter().all(|step| step.contains("\": 1 runs, ")), "{text}");
    let metrics = status_with(&site, &["--metrics"]);
    for series in [
        "vermeil_tls_handshakes_total{process=\"0\",end=\"full\"} 1",
        "vermeil_tls_handshakes_total{process=\"0\",end=\"plain\"} 1",
        "vermeil_tls_handshakes_waiting{process=\"0\"} 0",
    ] {
        assert!(metrics.lines().any(|line| line == series), "{series}: {metrics}");
    }
    let runs = "vermeil_handler_runs_total{process=\"0\",handler=\"TLS handshake";
    let runs: Vec<_> = metrics.lines().filter(|line| line.starts_with(runs)).collect();
    assert!(matches!(runs.len(), 1 | 2), "{metrics}");
    assert!(runs.iter().all(|run| run.ends_with("} 1")), "{metrics}");
    server.stops_clean();
}

/// The keys belong to the superuser, and the server has become another user.
fn server_that_changed_its_user_reads_renewed_keys(io: Io) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let site = TestSite::new();
    for folder in [site.root(), site.outside("")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("changed");
    }
    let (server, before) = start(io, &site, "user = \"nobody\"");
    let config = Arc::new(trusting(&before, &[&TLS13]));
    get(&mut client(secure_addr(&server), &config, "a.example"), "/");
    let after = TestCertificate::new(&["a.example"]);
    after.write(&site, "a");
    let config = Arc::new(trusting(&after, &[&TLS13]));
    until("the server uses the new certificate", || {
        let mut client = client(secure_addr(&server), &config, "a.example");
        client.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").ok()
    });
    server.stops_clean();
}

/// Other implementations, where they are installed.
fn openssl_and_curl_are_served(io: Io) {
    let site = TestSite::new();
    site.write("large", &noise(7, 2_000_000));
    let (server, _) = start(io, &site, "");
    let crt = site.outside("a.crt");
    let crt = crt.to_str().expect("text");
    let (addr, port) = (secure_addr(&server), secure_addr(&server).port());
    let said = |command: &mut Command| command.output().ok().map(|output| output.stdout);
    for version in ["-tls1_2", "-tls1_3"] {
        let connect = format!("{addr}");
        let args = ["s_client", "-connect", &connect, "-servername", "a.example", "-CAfile", crt, version];
        let Some(text) = said(Command::new("openssl").args(args).stdin(Stdio::null())) else {
            continue;
        };
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("Verify return code: 0 (ok)"), "{version}: {text}");
    }
    let (resolve, url) = (format!("a.example:{port}:127.0.0.2"), format!("https://a.example:{port}/large"));
    for version in ["1.2", "1.3"] {
        let args = ["-sS", "--cacert", crt, "--resolve", &resolve, "--tls-max", version, &url];
        let Some(content) = said(Command::new("curl").args(args)) else { continue };
        assert!(content == noise(7, 2_000_000), "{version}: {} bytes", content.len());
    }
    server.stops_clean();
}

/// A handshake sees certificate and key of one time, and none fails, while pairs are replaced.
fn certificates_change_under_load(io: Io) {
    let site = TestSite::new();
    let (server, first) = start(io, &site, "");
    let addr = secure_addr(&server);
    let later: Vec<_> = (0..8).map(|_| TestCertificate::new(&["a.example"])).collect();
    let mut all = trusting(&first, &[&TLS13]);
    let mut roots = RootCertStore::empty();
    for certificate in later.iter().chain([&first]) {
        roots.add(certificate.der.clone()).expect("a certificate");
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    all.dangerous().set_certificate_verifier(verifier.build().expect("a verifier"));
    let all = Arc::new(all);
    // Otherwise the first handshake might find a pair that is half written, and no pair before.
    assert!(get(&mut client(addr, &all, "a.example"), "/").starts_with(b"HTTP/1.1 200"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let answer = get(&mut client(addr, &all, "a.example"), "/");
                    assert!(answer.starts_with(b"HTTP/1.1 200"));
                }
            });
        }
        for (certificate, number) in later.iter().zip(1..) {
            certificate.write(&site, "a");
            server.signal(Signal::HUP);
            until("the reload", || (server.stderr().matches("reloaded: ").count() >= number).then_some(()));
            let own = Arc::new(trusting(certificate, &[&TLS13]));
            until("the server uses the new certificate", || {
                let mut client = client(addr, &own, "a.example");
                client.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").ok()
            });
        }
        is_over.store(true, Ordering::Relaxed);
    });
    server.stops_clean();
}

fn heads_and_ranges_are_exact(io: Io) {
    let site = TestSite::new();
    let large = noise(7, 3_000_000);
    site.write("large", &large);
    let (server, certificate) = start(io, &site, "");
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    let mut one = client(secure_addr(&server), &config, "a.example");
    write!(one, "HEAD /large HTTP/1.1\r\nHost: a.example\r\n\r\n").expect("sent");
    write!(one, "GET /large HTTP/1.1\r\nHost: a.example\r\nRange: bytes=1000000-2500000\r\n").expect("sent");
    write!(one, "Connection: close\r\n\r\n").expect("sent");
    let mut answers = Vec::new();
    one.read_to_end(&mut answers).expect("two answers and the end");
    let head = String::from_utf8_lossy(&answers[..answers.len().min(1000)]).into_owned();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("Content-Length: 3000000\r\n"), "{head}");
    assert!(head.contains("\r\n\r\nHTTP/1.1 206"), "a head has no content: {head}");
    assert!(answers.ends_with(&large[1_000_000..=2_500_000]));
    assert_eq!(body(body(&answers)).len(), 1_500_001);
    server.stops_clean();
}

/// A client must not take a part of an answer for the whole.
fn cut_answer_has_no_end_of_tls(io: Io) {
    let site = TestSite::new();
    site.write(
        "cut.cgi",
        b"#!/bin/sh\necho Content-Type: text/plain\necho\necho some\nsleep 0\nkill -9 $$\n",
    );
    fs::set_permissions(site.path("cut.cgi"), fs::Permissions::from_mode(0o755)).expect("changed");
    let certificate = TestCertificate::new(&["a.example"]);
    certificate.write(&site, "a");
    let user = if rustix::process::geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    let text = format!(
        "{user}[[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n\
         [[host]]\nroot = \"site\"\ncertificate = \"a.crt\"\nkey = \"a.key\"\n\
         [[host.route]]\nsuffix = \".cgi\"\naction = \"cgi\"\n"
    );
    let server = TestServer::configured(io, &site, &text);
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    let mut one = client(secure_addr(&server), &config, "a.example");
    write!(one, "GET /cut.cgi HTTP/1.0\r\nHost: a.example\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    let end = one.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    assert!(end.is_err() || text.starts_with("HTTP/1.1 502"), "{text}");
    server.stops_clean();
}

fn failed_handshakes_leave_no_descriptor(io: Io) {
    let site = TestSite::new();
    let (server, certificate) = start(io, &site, "");
    let addr = secure_addr(&server);
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    get(&mut client(addr, &config, "a.example"), "/");
    let folder = format!("/proc/{}/fd", server.pid());
    let open = || fs::read_dir(&folder).expect("descriptors").count();
    // The connection of the first client may be there or not.
    let before = open();
    let stranger = Arc::new(trusting(&TestCertificate::new(&["a.example"]), &[&TLS13]));
    for round in 0..40 {
        let mut raw = TcpStream::connect(addr).expect("connected");
        match round % 4 {
            0 => drop(raw.write_all(&[0x16, 3, 1, 0, 200, 1])),
            1 => drop(raw.write_all(&[0; 100])),
            // The client leaves while the server answers.
            2 => {
                let name = ServerName::try_from("a.example").expect("a name");
                let mut greeting = ClientConnection::new(config.clone(), name).expect("a client");
                drop(greeting.write_tls(&mut raw));
            }
            _ => drop(client(addr, &stranger, "a.example").write_all(b"GET")),
        }
    }
    until("no descriptor is left", || (open() <= before).then_some(()));
    assert!(get(&mut client(addr, &config, "a.example"), "/").starts_with(b"HTTP/1.1 200"));
    server.stops_clean();
}

fn status_of(site: &TestSite) -> String {
    status_with(site, &[])
}

fn status_with(site: &TestSite, args: &[&str]) -> String {
    let control = site.outside("control");
    let mut command = vermeil(&["status", "--control", control.to_str().expect("text")]);
    let status = command.args(args).output().expect("it runs");
    String::from_utf8_lossy(&status.stdout).into_owned()
}

/// Regression: the refusal left with the next answer, so the client waited for the end of the
/// connection.
fn renegotiation_is_refused_at_once(io: Io) {
    let site = TestSite::new();
    let (server, _) = start(io, &site, "");
    let connect = secure_addr(&server).to_string();
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &connect, "-servername", "a.example", "-tls1_2"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut openssl) = command.spawn() else { return };
    // The input stays open. Otherwise openssl would end by itself.
    let mut input = openssl.stdin.take().expect("a pipe");
    input.write_all(b"R\n").expect("openssl runs");
    let output = openssl.wait_with_output().expect("openssl ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("RENEGOTIATING") && said.contains("no renegotiation"), "{said}");
    server.stops_clean();
}

/// The time is longer than the time after which the connection gives its buffer back.
fn keep_alive_timeout_closes_idle_tls_connection(io: Io) {
    let site = TestSite::new();
    site.write("large", &noise(7, 1_000_000));
    let (server, certificate) = start(io, &site, "[timeouts]\nkeep_alive = \"1300ms\"");
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    let mut idle = client(secure_addr(&server), &config, "a.example");
    idle.write_all(b"GET /large HTTP/1.1\r\nHost: a.example\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    // Without the end of TLS this is an error, because the client has no other sign of the end.
    let _ = idle.read_to_end(&mut answer);
    assert_eq!(body(&answer).len(), 1_000_000);
    server.stops_clean();
}

/// A connection whose buffer went back still answers.
#[test]
fn request_after_rest_is_answered_over_tls() {
    let site = TestSite::new();
    let (server, certificate) = start(Io::usual(), &site, "[timeouts]\nheader = \"1200ms\"");
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    let mut resting = client(secure_addr(&server), &config, "a.example");
    let ask = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    resting.write_all(ask).expect("sent");
    resting.read_exact(&mut [0; 12]).expect("an answer");
    // The end of a connection without a handshake shows that the other connection rests.
    let mut silent = TcpStream::connect(secure_addr(&server)).expect("connected");
    let _ = silent.read_to_end(&mut Vec::new());
    let answer = get(&mut resting, "/");
    assert!(answer.windows(12).any(|part| part == b"HTTP/1.1 200"));
    server.stops_clean();
}

#[test]
fn injector_resumes_sessions_and_counts_handshakes() {
    let site = TestSite::new();
    let (server, _) = start(Io::usual(), &site, "");
    let addr = secure_addr(&server).to_string();
    let url = format!("https://a.example:{}/", secure_addr(&server).port());
    let ca = site.outside("a.crt");
    let args =
        ["load", &url, "--address", &addr, "--ca", ca.to_str().expect("text"), "--no-keepalive", "-c", "1"];
    let handshakes = |more: &[&str]| -> Vec<u64> {
        let output = vermeil(&args).args(["-n", "20"]).args(more).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text
            .lines()
            .find(|line| line.contains("handshakes"))
            .unwrap_or_else(|| panic!("no handshakes: {text} {}", String::from_utf8_lossy(&output.stderr)));
        line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    assert_eq!(handshakes(&[]), [20, 0]);
    let [full, resumed] = handshakes(&["--resume"])[..] else { panic!("two counts") };
    assert!(full <= 1 && full + resumed == 20, "{full} {resumed}");
    server.stops_clean();
}

#[test]
fn listener_and_certificate_need_each_other() {
    let site = TestSite::new();
    let refused = |text: &str, words: &str| {
        let file = site.configure(Io::usual(), text);
        let (code, said) = run(&["check", file.to_str().expect("text")]);
        assert!(code == Some(2) && said.contains(words), "{text}: {said}");
    };
    let listener = "[[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n";
    refused(&format!("{listener}[[host]]\nroot = \"site\"\n"), "no host has a certificate");
    refused("[[host]]\nroot = \"site\"\ncertificate = \"a\"\n", "no listener speaks HTTPS");
    refused("[[host]]\nroot = \"site\"\nhttps = \"only\"\n", "no listener speaks HTTPS");
    refused(
        &format!("{listener}[[host]]\nroot = \"site\"\nkey = \"a\"\n"),
        "of no use without a certificate",
    );
    let several = "[[host]]\ncertificate = [\"a\", \"b\"]\nkey = \"c\"\n";
    refused(&format!("{listener}{several}"), "2 certificates and 1 keys");
    assert!(Path::new(&site.root()).exists());
}

#[test]
fn command_line_serves_https_at_default_address() {
    let site = TestSite::new();
    let root = site.root();
    let process = TestProcess::spawn(vermeil(&[
        "serve",
        root.to_str().expect("text"),
        "--log",
        "off",
        "--listen",
        "127.0.0.1:0",
        "--tls-certificate",
        "/none.pem",
    ]));
    process.wait();
    // The end of the process may be seen before its last line.
    until("the reason is printed", || {
        process.stderr().contains("cannot serve HTTPS: cannot read /none.pem").then_some(())
    });
}
