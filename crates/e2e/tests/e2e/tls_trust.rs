//! HTTPS: certificates of clients, sessions that other processes resume, and certificates that are
//! replaced or have expired.

use crate::{
    support::{ExpectedContent, Io, TestServer, TestSite, on_usual, until, vermeil},
    tls::{TestCertificate, TlsClient, answered_client, client, get, secure_addr, start, text, trusting},
};
use rustls::{
    ClientConfig, HandshakeKind,
    client::Resumption,
    crypto::aws_lc_rs::default_provider,
    pki_types::{PrivateKeyDer, pem::PemObject as _},
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    sync::Arc,
};

on_usual!(
    host_with_client_certificates_serves_known_clients,
    optional_client_certificate_reaches_programs,
    sessions_are_resumed_by_other_instances_and_successors,
    expired_certificate_is_told,
    replaced_certificate_is_used,
);

/// Sends a request for `host` and returns the answer, up to the end of the connection.
#[track_caller]
fn ask(client: &mut TlsClient, host: &str, target: &str) -> std::io::Result<String> {
    write!(client, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    client.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The configuration of a client with a certificate of its own.
fn with_own(mut config: ClientConfig, own: &TestCertificate) -> Arc<ClientConfig> {
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("a key");
    let own = CertifiedKey::from_der(vec![own.der.clone()], key, &default_provider()).expect("they fit");
    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(own));
    Arc::new(config)
}

/// A request is served only if its connection met the demands of its host. The client may have
/// given another name at the handshake.
fn host_with_client_certificates_serves_known_clients(io: Io) {
    let site = TestSite::new();
    let (a, b) = (TestCertificate::new(&["a.example"]), TestCertificate::new(&["b.example"]));
    let (known, stranger) = (TestCertificate::new(&["known"]), TestCertificate::new(&["stranger"]));
    for (certificate, name) in [(&a, "a"), (&b, "b"), (&known, "known")] {
        certificate.write(&site, name);
    }
    let text = "[proxies]\nfrom = [\"127.0.0.1\"]\n[[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n\
                [[host]]\nnames = [\"b.example\"]\nroot = \"site\"\ncertificate = \"b.crt\"\nkey = \"b.key\"\n\
                [[host]]\nnames = [\"a.example\"]\nroot = \"site\"\ncertificate = \"a.crt\"\nkey = \"a.key\"\n\
                client_issuers = \"known.crt\"\n\
                [[host]]\nnames = [\"bare.example\"]\nroot = \"site\"\n";
    let server = TestServer::configured(io, &site, text);
    let addr = secure_addr(&server);
    for version in [&TLS12, &TLS13] {
        let (to_a, to_b) = (trusting(&a, &[version]), Arc::new(trusting(&b, &[version])));
        let as_known = with_own(to_a.clone(), &known);
        let status = |config: &Arc<ClientConfig>, named: &str, host: &str| {
            ask(&mut client(addr, config, named), host, "/").map(|answer| answer[9..12].to_owned())
        };
        assert_eq!(status(&as_known, "a.example", "a.example").expect("served"), "200");
        for refused in [Arc::new(to_a.clone()), with_own(to_a.clone(), &stranger)] {
            // The request may be on its way already. Regression: a reset could overtake the alert.
            for _ in 0..10 {
                let why = status(&refused, "a.example", "a.example").expect_err("refused").to_string();
                assert!(why.contains("received fatal alert"), "{why}");
            }
        }
        assert_eq!(status(&to_b, "b.example", "b.example").expect("served"), "200");
        assert_eq!(status(&to_b, "b.example", "bare.example").expect("served"), "200");
        assert_eq!(status(&to_b, "b.example", "a.example").expect("an answer"), "421");
        assert_eq!(status(&as_known, "a.example", "b.example").expect("an answer"), "421");
    }
    let mut plain = server.client();
    let mut status = |host: &str, proto: &str| {
        plain.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Proto: {proto}\r\n\r\n"));
        plain.read(ExpectedContent::Follows).status
    };
    assert_eq!([status("a.example", "http"), status("a.example", "https")], [403, 403]);
    assert_eq!(status("b.example", "http"), 200);
    server.stops_clean();
}

fn optional_client_certificate_reaches_programs(io: Io) {
    let site = TestSite::new();
    site.write("env.cgi", b"#!/bin/sh\necho Content-Type: text/plain\necho\nenv\n");
    fs::set_permissions(site.path("env.cgi"), fs::Permissions::from_mode(0o755)).expect("changed");
    let known = TestCertificate::new(&["known"]);
    known.write(&site, "known");
    let certificate = TestCertificate::new(&["a.example"]);
    certificate.write(&site, "a");
    let user = if rustix::process::geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    let text = format!(
        "{user}[[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n\
         [[host]]\nroot = \"site\"\ncertificate = \"a.crt\"\nkey = \"a.key\"\nclient_issuers = \"known.crt\"\n\
         client_certificate = \"optional\"\n[[host.route]]\nsuffix = \".cgi\"\naction = \"cgi\"\n"
    );
    let server = TestServer::configured(io, &site, &text);
    let config = trusting(&certificate, &[&TLS13]);
    let said = |config: &Arc<ClientConfig>| {
        let mut client = client(secure_addr(&server), config, "a.example");
        ask(&mut client, "a.example", "/env.cgi").expect("an answer")
    };
    let anonymous = said(&Arc::new(config.clone()));
    assert!(anonymous.contains("SSL_CLIENT_VERIFY=NONE"), "{anonymous}");
    let known = said(&with_own(config, &known));
    assert!(known.contains("SSL_CLIENT_VERIFY=SUCCESS") && known.contains("BEGIN CERTIFICATE"), "{known}");
    assert_eq!(server.get("/").status, 200, "a request without TLS has no certificate");
    server.stops_clean();
}

fn sessions_are_resumed_by_other_instances_and_successors(io: Io) {
    let site = TestSite::new();
    let certificate = TestCertificate::new(&["a.example"]);
    certificate.write(&site, "a");
    let top = |instances: &str| {
        format!(
            "control = \"control\"\ncores = 2\ninstances = {instances}\n[[listener]]\n\
             address = \"127.0.0.2:0\"\ntls = true\n[[host]]\nroot = \"site\"\ncertificate = \"a.crt\"\n\
             key = \"a.key\"\n"
        )
    };
    let before = TestServer::of_file(&site.configure(io, &top("2")));
    let addr = secure_addr(&before);
    let mut config = trusting(&certificate, &[&TLS12]);
    config.resumption = Resumption::in_memory_sessions(8);
    let config = Arc::new(config);
    let kind = || {
        let mut client = client(addr, &config, "a.example");
        get(&mut client, "/");
        client.conn.handshake_kind()
    };
    assert_eq!(kind(), Some(HandshakeKind::Full));
    for _ in 0..20 {
        assert_eq!(kind(), Some(HandshakeKind::Resumed), "at the same server");
    }
    let file = site.configure(io, &top("\"one\""));
    let after = TestServer::of_file_with(&file, &["--take-over"]);
    after.says("vermeil: took over from process ");
    before.says("vermeil: stopped: ");
    before.wait();
    assert_eq!(kind(), Some(HandshakeKind::Resumed), "at the successor");
    after.stops_clean();
}

/// Regression: nothing told the operator why clients left.
fn expired_certificate_is_told(io: Io) {
    let site = TestSite::new();
    let expired = TestCertificate::expired();
    expired.write(&site, "a");
    let file = site.configure(io, &text(""));
    let checked = vermeil(&["check", "--config"]).arg(&file).output().expect("it runs");
    let told = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success(), "{told}");
    assert!(told.contains("warning: ") && told.contains("a.crt: the certificate expired on "), "{told}");
    let server = TestServer::of_file(&file);
    let config = Arc::new(trusting(&expired, &[&TLS13]));
    let mut secure = client(secure_addr(&server), &config, "a.example");
    secure.write_all(b"GET / HTTP/1.1\r\n\r\n").expect_err("the client refuses the certificate");
    until("the server tells it", || {
        server.stderr().contains("a.crt: the certificate expired on ").then_some(())
    });
    server.stops_clean();
}

fn replaced_certificate_is_used(io: Io) {
    let site = TestSite::new();
    let (server, before) = start(io, &site, "");
    let config = Arc::new(trusting(&before, &[&TLS13]));
    let mut kept = answered_client(&server, &config);
    let after = TestCertificate::new(&["a.example"]);
    after.write(&site, "a");
    let config = Arc::new(trusting(&after, &[&TLS13]));
    until("the server uses the new certificate", || {
        let mut client = client(secure_addr(&server), &config, "a.example");
        client.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").ok()
    });
    // A connection outlives its certificate.
    assert!(get(&mut kept, "/").windows(5).any(|five| five == b"home\n"));
    // A key that does not fit changes nothing.
    fs::write(site.outside("a.crt"), &before.certificate).expect("written");
    until("the server says why", || {
        get(&mut client(secure_addr(&server), &config, "a.example"), "/");
        server.stderr().contains("does not belong to the first certificate").then_some(())
    });
    assert!(server.stderr().contains("the server goes on with the certificate before"));
    server.stops_clean();
}
