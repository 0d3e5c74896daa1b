use super::*;
use crate::{
    CertificateStore, FirstBytes, HelloReader, HostTls, MinimumVersion, PlainFiles, Tickets, TlsPolicy,
    testing::{MadeCertificate, host},
};
use proptest::prelude::*;
use rustls::{
    AlertDescription, CipherSuite, ClientConfig, ClientConnection, NamedGroup, RootCertStore,
    SignatureScheme,
    client::Resumption,
    crypto::{
        CryptoProvider,
        aws_lc_rs::{default_provider, kx_group},
    },
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use std::{sync::Arc, time::Instant};

fn store(minimum: MinimumVersion) -> CertificateStore {
    let policy = TlsPolicy { minimum, ..TlsPolicy::default() };
    CertificateStore::new(policy, Arc::new(Tickets::random()), Box::new(PlainFiles))
}

/// A session of `made` after the greeting of `client`, before any answer.
fn greeted(store: &CertificateStore, host: &Arc<HostTls>, client: &mut ClientConnection) -> TlsSession {
    let config = store.load(host, Instant::now()).expect("the pair fits").config;
    let FirstBytes::Greeting(greeting) = HelloReader::default().receive(&output(client)) else {
        panic!("one write carries the message")
    };
    greeting.answer(&config).expect("both agree").session
}

/// Lets client and server exchange messages until both are silent.
fn exchange(session: &mut TlsSession, client: &mut ClientConnection) -> Result<Vec<u8>, TlsFailure> {
    let mut content = Vec::new();
    while session.has_output() || client.wants_write() {
        let mut answer = Vec::new();
        session.take_output(&mut answer);
        input(client, &answer).map_err(|error| TlsFailure::silent(error.to_string()))?;
        session.receive(&output(client), &mut content)?;
    }
    Ok(content)
}

fn client_config(
    made: &[&MadeCertificate],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ClientConfig {
    client_config_with(default_provider(), made, versions)
}

fn client_config_with(
    provider: CryptoProvider,
    made: &[&MadeCertificate],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for made in made {
        roots.add(CertificateDer::from(made.der.clone())).expect("a certificate");
    }
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

fn client(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("a.example").expect("a name");
    ClientConnection::new(config.clone(), name).expect("a client")
}

fn output(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).expect("memory");
    }
    bytes
}

fn input(client: &mut ClientConnection, mut bytes: &[u8]) -> Result<Vec<u8>, rustls::Error> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).expect("memory");
        let count = client.process_new_packets()?.plaintext_bytes_to_read();
        let before = plain.len();
        plain.resize(before + count, 0);
        client.reader().read_exact(&mut plain[before..]).expect("it is there");
    }
    Ok(plain)
}

/// A handshake of `client`, whose bytes arrive one by one.
fn handshake(
    store: &CertificateStore,
    made: &MadeCertificate,
    client: &mut ClientConnection,
) -> Result<TlsSession, TlsFailure> {
    let config = store.load(&made.host(), Instant::now()).expect("the pair fits").config;
    let mut reader = HelloReader::default();
    let mut greeting = None;
    for byte in output(client) {
        match reader.receive(&[byte]) {
            FirstBytes::More => {}
            FirstBytes::Greeting(greeted) => greeting = Some(greeted),
            other => panic!("{other:?}"),
        }
    }
    let greeting = greeting.expect("the whole message was passed on");
    assert_eq!(greeting.server_name().as_deref(), Some("a.example"));
    let mut session = greeting.answer(&config)?.session;
    let mut content = Vec::new();
    while session.is_handshaking() || session.has_output() || client.wants_write() {
        let mut answer = Vec::new();
        session.take_output(&mut answer);
        input(client, &answer).map_err(|error| TlsFailure::silent(error.to_string()))?;
        for byte in output(client) {
            session.receive(&[byte], &mut content)?;
        }
    }
    assert!(content.is_empty());
    Ok(session)
}

#[test]
fn both_versions_carry_content() {
    let (made, store) = (MadeCertificate::new(&["a.example"]), store(MinimumVersion::Tls12));
    for (version, name) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
        let mut config = client_config(&[&made], &[version]);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut client = client(&Arc::new(config));
        let mut session = handshake(&store, &made, &mut client).expect("both agree");
        assert!(session.speaks(b"http/1.1"));
        let facts = session.facts();
        assert_eq!((facts.version, facts.server_name.as_deref()), (name, Some("a.example")));
        assert!(facts.suite.starts_with("TLS_") && !facts.is_resumed, "{facts:?}");
        client.writer().write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let mut content = Vec::new();
        session.receive(&output(&mut client), &mut content).expect("content");
        assert_eq!(content, b"GET / HTTP/1.1\r\n");
        let answer = vec![7; 100_000];
        let mut records = Vec::new();
        session.send([b"", &answer], &mut records);
        session.close();
        session.take_output(&mut records);
        assert_eq!(input(&mut client, &records).expect("records"), answer);
        client.send_close_notify();
        assert_eq!(session.receive(&output(&mut client), &mut content), Ok(TlsInput::Ended));
    }
}

#[test]
fn first_records_are_small() {
    let (made, store) = (MadeCertificate::new(&["a.example"]), store(MinimumVersion::Tls12));
    let mut client = client(&Arc::new(client_config(&[&made], &[&TLS13])));
    let mut session = handshake(&store, &made, &mut client).expect("both agree");
    let mut records = Vec::new();
    session.send([&[0; 1000], &vec![0; 60_000]], &mut records);
    let (mut lengths, mut rest) = (Vec::new(), &records[..]);
    while let [_, _, _, high, low, ..] = *rest {
        let length = usize::from(u16::from_be_bytes([high, low]));
        lengths.push(length);
        rest = &rest[5 + length..];
    }
    assert!(lengths[..10].iter().all(|length| *length <= 1400), "{lengths:?}");
    assert!(lengths[10] > 16_000, "{lengths:?}");
}

#[test]
fn second_session_is_resumed() {
    let (made, store) = (MadeCertificate::new(&["a.example"]), store(MinimumVersion::Tls12));
    for version in [&TLS12, &TLS13] {
        let mut config = client_config(&[&made], &[version]);
        config.resumption = Resumption::in_memory_sessions(4);
        let config = Arc::new(config);
        let first = handshake(&store, &made, &mut client(&config)).expect("both agree");
        assert_eq!(first.handshake_kind(), HandshakeKind::Full);
        let second = handshake(&store, &made, &mut client(&config)).expect("both agree");
        assert_eq!(second.handshake_kind(), HandshakeKind::Resumed);
    }
}

#[test]
fn minimum_version_refuses_older_clients() {
    let (made, store) = (MadeCertificate::new(&["a.example"]), store(MinimumVersion::Tls13));
    let mut client = client(&Arc::new(client_config(&[&made], &[&TLS12])));
    let failure = handshake(&store, &made, &mut client).expect_err("the client is too old");
    assert_eq!(failure.alert()[..1], [21], "the client is told");
}

#[test]
fn client_gets_the_certificate_that_it_supports() {
    let rsa = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key");
    let (first, second) =
        (MadeCertificate::with_key(&["a.example"], &rsa), MadeCertificate::new(&["a.example"]));
    let both = Arc::new(host(vec![first.pair(), second.pair()]));
    let config = store(MinimumVersion::Tls12).load(&both, Instant::now()).expect("both fit").config;
    let mut provider = default_provider();
    let all = provider.signature_verification_algorithms.mapping;
    let p256 = all.iter().filter(|(scheme, _)| *scheme == SignatureScheme::ECDSA_NISTP256_SHA256);
    provider.signature_verification_algorithms.mapping = Vec::leak(p256.copied().collect());
    let only_p256 = client_config_with(provider, &[&second], &[&TLS13]);
    let mut client = client(&Arc::new(only_p256));
    let FirstBytes::Greeting(greeting) = HelloReader::default().receive(&output(&mut client)) else {
        panic!("one write carries the message")
    };
    let mut session = greeting.answer(&config).expect("the second certificate fits").session;
    let mut answer = Vec::new();
    session.take_output(&mut answer);
    input(&mut client, &answer).expect("the client trusts the second certificate alone");
}

#[test]
fn plain_request_is_recognised() {
    assert!(matches!(HelloReader::default().receive(b"GET / HTTP/1.1\r\n"), FirstBytes::PlainHttp));
    assert!(matches!(HelloReader::default().receive(b"\0\0"), FirstBytes::Failed(_)));
    let FirstBytes::Failed(failure) = HelloReader::default().receive(&[22, 3, 1, 0, 4, 1, 0, 0, 0]) else {
        panic!("an empty message is malformed")
    };
    assert_eq!(failure.alert()[..1], [21]);
}

/// A ticket carries a certificate of a client that no later configuration checks.
#[test]
fn session_with_client_certificates_is_not_resumed() {
    let (made, known) = (MadeCertificate::new(&["a.example"]), MadeCertificate::new(&["client.example"]));
    let store = store(MinimumVersion::Tls12);
    let issuers = Some(known.pair().certificate);
    let asking = |requires_client| {
        Arc::new(HostTls {
            certificates: vec![made.pair()],
            client_issuers: issuers.clone(),
            requires_client,
        })
    };
    let key = PrivateKeyDer::from_pem_file(known.pair().key).expect("a key");
    for version in [&TLS12, &TLS13] {
        let mut config = client_config(&[&made], &[version]);
        config.resumption = Resumption::in_memory_sessions(4);
        let mut with = config.clone();
        let own = vec![CertificateDer::from(known.der.clone())];
        let own = CertifiedKey::from_der(own, key.clone_key(), &default_provider()).expect("they fit");
        with.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(own));
        let (without, with) = (Arc::new(config), Arc::new(with));
        // An anonymous client gets a ticket of the host before the host requires certificates.
        handshake(&store, &made, &mut client(&without)).expect("both agree");
        let mut anonymous = client(&without);
        let mut session = greeted(&store, &asking(true), &mut anonymous);
        exchange(&mut session, &mut anonymous).expect_err("a certificate is required");
        for _ in 0..2 {
            let mut known = client(&with);
            let mut session = greeted(&store, &asking(true), &mut known);
            exchange(&mut session, &mut known).expect("the certificate is known");
            assert_eq!(session.handshake_kind(), HandshakeKind::Full, "{version:?}");
            let certificate = session.facts().client_certificate.expect("the client sent one");
            assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----\n"));
        }
        let mut anonymous = client(&without);
        let mut session = greeted(&store, &asking(false), &mut anonymous);
        exchange(&mut session, &mut anonymous).expect("a certificate is optional");
        assert_eq!(session.facts().client_certificate, None);
    }
}

#[test]
fn issuers_that_every_user_writes_are_refused() {
    let made = MadeCertificate::new(&["a.example"]);
    let issuers = made.folder().join("issuers.pem");
    std::fs::copy(made.pair().certificate, &issuers).unwrap();
    std::fs::set_permissions(&issuers, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let host = HostTls { client_issuers: Some(issuers), ..host(vec![made.pair()]) };
    let why = store(MinimumVersion::Tls12).check(&host).expect_err("it is refused").to_string();
    assert!(why.contains("chmod o-w"), "{why}");
}

#[test]
fn staple_reaches_the_client() {
    let made = MadeCertificate::new(&["a.example"]);
    let staple = made.folder().join("staple.der");
    let answer_of_issuer = [&[0x30, 26, 0x0a, 1, 0][..], b"an answer of the issuer"].concat();
    std::fs::write(&staple, &answer_of_issuer).unwrap();
    let pair = crate::CertificatePair { staple: Some(staple), ..made.pair() };
    let mut client = client(&Arc::new(client_config(&[&made], &[&TLS12])));
    let mut session = greeted(&store(MinimumVersion::Tls12), &Arc::new(host(vec![pair])), &mut client);
    let mut answer = Vec::new();
    session.take_output(&mut answer);
    assert!(answer.windows(answer_of_issuer.len()).any(|bytes| bytes == answer_of_issuer));
}

/// Regression: clients refused the handshake of a host with an empty staple, and a certificate was
/// not renewed while the staple was missing.
#[test]
fn unfit_staple_is_left_out() {
    let made = MadeCertificate::new(&["a.example"]);
    let staple = made.folder().join("staple.der");
    let pair = crate::CertificatePair { staple: Some(staple.clone()), ..made.pair() };
    let (host, store) = (Arc::new(host(vec![pair])), store(MinimumVersion::Tls12));
    let config = Arc::new(client_config(&[&made], &[&TLS12]));
    for content in [None, Some(&b""[..]), Some(b"cut")] {
        if let Some(content) = content {
            std::fs::write(&staple, content).unwrap();
        }
        let why = store.check(&host).expect_err("a start is refused").to_string();
        assert!(why.contains("staple.der"), "{why}");
        let loaded = store.load(&host, Instant::now()).expect("certificate and key fit");
        assert_eq!(loaded.unfit_staples.len(), 1, "{content:?}");
        let mut client = client(&config);
        let mut session = greeted(&store, &host, &mut client);
        exchange(&mut session, &mut client).expect("no staple, no fault");
        let again = store.load(&host, Instant::now()).expect("nothing has changed");
        assert!(again.unfit_staples.is_empty(), "told once for each change");
    }
}

/// The server asks for a second greeting, whose answer is the expensive step.
#[test]
fn client_without_a_fitting_share_greets_again() {
    let (made, store) = (MadeCertificate::new(&["a.example"]), store(MinimumVersion::Tls12));
    let mut provider = default_provider();
    // The client sends a share for its first group, which the server does not support.
    provider.kx_groups = vec![kx_group::MLKEM768, kx_group::X25519];
    let mut client = client(&Arc::new(client_config_with(provider, &[&made], &[&TLS13])));
    let mut session = greeted(&store, &made.host(), &mut client);
    assert!(session.asks_again());
    let mut answer = Vec::new();
    session.take_output(&mut answer);
    input(&mut client, &answer).expect("it is the protocol");
    let second = output(&mut client);
    let (half, rest) = second.split_at(second.len() / 2);
    let TlsFlight { session, .. } = session.go_on(half).expect("a half of a message");
    assert!(!session.has_output(), "half a greeting has no answer");
    let TlsFlight { mut session, .. } = session.go_on(rest).expect("the whole message");
    assert!(session.has_output());
    exchange(&mut session, &mut client).expect("both agree");
    assert!(!session.is_handshaking() && !session.asks_again());
}

/// Regression: bytes behind the greeting were lost, so the handshake of a client with early data,
/// which the server refuses, ended in an error.
#[test]
fn bytes_behind_the_greeting_reach_the_session() {
    let (made, store) = (MadeCertificate::new(&["a.example"]), store(MinimumVersion::Tls12));
    let config = store.load(&made.host(), Instant::now()).expect("the pair fits").config;
    let mut client = client(&Arc::new(client_config(&[&made], &[&TLS13])));
    // A client may change to encryption with a record that the server passes over (RFC 8446,
    // appendix D.4). Here the record is behind the greeting, cut in two.
    let mut bytes = output(&mut client);
    bytes.extend_from_slice(&[20, 3, 3, 0, 1, 1]);
    let (first, second) = bytes.split_at(bytes.len() - 3);
    let FirstBytes::Greeting(greeting) = HelloReader::default().receive(first) else {
        panic!("the message is whole")
    };
    let mut session = greeting.answer(&config).expect("both agree").session;
    session.receive(second, &mut Vec::new()).expect("the rest of the record");
    exchange(&mut session, &mut client).expect("both agree");
    assert!(!session.is_handshaking());
}

/// Regression: an end that came with the client's last message of the handshake was forgotten, and
/// the server waited for more.
#[test]
fn end_with_the_handshake_is_kept() {
    let (made, store) = (MadeCertificate::new(&["a.example"]), store(MinimumVersion::Tls12));
    let mut client = client(&Arc::new(client_config(&[&made], &[&TLS13])));
    let mut session = greeted(&store, &made.host(), &mut client);
    let mut answer = Vec::new();
    session.take_output(&mut answer);
    input(&mut client, &answer).expect("it is the protocol");
    client.send_close_notify();
    assert!(!session.has_ended());
    session.receive(&output(&mut client), &mut Vec::new()).expect("both agree");
    assert!(session.has_ended() && !session.is_handshaking());
}

/// A message in records of one byte costs no more than its records.
#[test]
fn greeting_in_tiny_records_ends_at_the_bound() {
    let mut records = vec![22, 3, 1, 0, 4, 1, 0, 0xff, 0xf0];
    for _ in 0..0x10000 {
        records.extend_from_slice(&[22, 3, 1, 0, 1, 0]);
    }
    let mut reader = HelloReader::default();
    let mut taken = 0;
    let end = records.chunks(1000).find_map(|part| {
        taken += part.len();
        match reader.receive(part) {
            FirstBytes::More => None,
            other => Some(other),
        }
    });
    assert!(matches!(end, Some(FirstBytes::Failed(_))), "{end:?}");
    assert!(taken <= 400_000, "{taken}");
}

/// A peer that changes its keys without end, or renegotiates, is cut off, because each change costs
/// the server an answer.
#[test]
fn client_that_changes_keys_without_end_is_refused() {
    let (made, store) = (MadeCertificate::new(&["a.example"]), store(MinimumVersion::Tls12));
    let mut client = client(&Arc::new(client_config(&[&made], &[&TLS13])));
    let mut session = handshake(&store, &made, &mut client).expect("both agree");
    let mut content = Vec::new();
    let refused = (0..1000).find_map(|_| {
        client.refresh_traffic_keys().expect("TLS 1.3");
        session.receive(&output(&mut client), &mut content).err()
    });
    let why = refused.expect("the server gives up").to_string();
    assert!(why.contains("peer misbehaved"), "{why}");
    let mut alert = Vec::new();
    session.take_output(&mut alert);
    assert!(alert.len() < 4096, "{} bytes wait", alert.len());
}

#[test]
fn changed_record_is_refused() {
    let (made, store) = (MadeCertificate::new(&["a.example"]), store(MinimumVersion::Tls12));
    for version in [&TLS12, &TLS13] {
        let mut client = client(&Arc::new(client_config(&[&made], &[version])));
        let mut session = handshake(&store, &made, &mut client).expect("both agree");
        client.writer().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut records = output(&mut client);
        *records.last_mut().expect("a record") ^= 1;
        let mut content = Vec::new();
        session.receive(&records, &mut content).expect_err("the record was changed");
        assert!(content.is_empty());
        let mut alert = Vec::new();
        session.take_output(&mut alert);
        let error = input(&mut client, &alert).expect_err("the client is told");
        assert_eq!(error, rustls::Error::AlertReceived(AlertDescription::BadRecordMac));
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), is_record: bool) {
        if is_record && bytes.len() > 5 {
            bytes[..3].copy_from_slice(&[22, 3, 1]);
            let length = (bytes.len() - 5) as u16;
            bytes[3..5].copy_from_slice(&length.to_be_bytes());
        }
        let _ = HelloReader::default().receive(&bytes);
    }

    /// A record that was changed on its way ends the session, and no changed content arrives.
    #[test]
    fn changed_records_carry_no_content(
        at in 0usize..10_000,
        bits in 1u8..=255,
        lengths in proptest::collection::vec(0usize..3000, 1..6),
        is_old: bool,
    ) {
        let (made, store) = (MadeCertificate::new(&["a.example"]), store(MinimumVersion::Tls12));
        let version = if is_old { &TLS12 } else { &TLS13 };
        let mut client = client(&Arc::new(client_config(&[&made], &[version])));
        let mut session = handshake(&store, &made, &mut client).expect("both agree");
        let (mut sent, mut records) = (Vec::new(), Vec::new());
        for (length, byte) in lengths.into_iter().zip(1..) {
            let part = vec![byte; length];
            client.writer().write_all(&part).unwrap();
            records.extend(output(&mut client));
            sent.extend(part);
        }
        let mut content = Vec::new();
        if records.is_empty() {
            return Ok(());
        }
        let at = at % records.len();
        let is_version = is_in_version(&records, at);
        records[at] ^= bits;
        let received = session.receive(&records, &mut content);
        prop_assert!(sent.starts_with(&content));
        // A changed length may announce bytes that have not come.
        prop_assert!(received.is_err() || content.len() < sent.len() || sent.is_empty() || is_version);
    }
}

/// Whether the byte at `at` belongs to the version of a record, which receivers ignore (RFC 8446,
/// section 5.1).
fn is_in_version(records: &[u8], at: usize) -> bool {
    let mut start = 0;
    while start + 5 <= at {
        let end = start + 5 + usize::from(u16::from_be_bytes([records[start + 3], records[start + 4]]));
        if at < end {
            break;
        }
        start = end;
    }
    (start + 1..start + 3).contains(&at)
}

/// Browsers prefer the exchange that a quantum computer does not break.
#[test]
fn client_gets_the_key_exchange_that_it_prefers() {
    let made = MadeCertificate::new(&["a.example"]);
    let store = store(MinimumVersion::Tls12);
    for group in [NamedGroup::X25519MLKEM768, NamedGroup::X25519, NamedGroup::secp384r1] {
        let mut provider = default_provider();
        provider.kx_groups.sort_by_key(|known| known.name() != group);
        let mut client = client(&Arc::new(client_config_with(provider, &[&made], &[&TLS13])));
        let mut session = greeted(&store, &made.host(), &mut client);
        exchange(&mut session, &mut client).expect("both agree");
        let used = client.negotiated_key_exchange_group().map(|group| group.name());
        assert_eq!(used, Some(group));
    }
}

/// A client of TLS 1.2 or 1.3 with these suites, in this order.
fn client_with_suites(made: &MadeCertificate, suites: &[CipherSuite]) -> ClientConnection {
    let mut provider = default_provider();
    let place = |suite: CipherSuite| suites.iter().position(|named| *named == suite);
    provider.cipher_suites.retain(|known| place(known.suite()).is_some());
    provider.cipher_suites.sort_by_key(|known| place(known.suite()));
    let version =
        if suites[0].as_str().is_some_and(|name| name.starts_with("TLS13")) { &TLS13 } else { &TLS12 };
    client(&Arc::new(client_config_with(provider, &[made], &[version])))
}

#[test]
fn server_chooses_the_suite_unless_client_prefers_chacha20() {
    use CipherSuite as Suite;
    let made = MadeCertificate::new(&["a.example"]);
    let store = store(MinimumVersion::Tls12);
    let newer = [
        Suite::TLS13_AES_256_GCM_SHA384,
        Suite::TLS13_CHACHA20_POLY1305_SHA256,
        Suite::TLS13_AES_128_GCM_SHA256,
    ];
    let older = [
        Suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ];
    for [aes_256, chacha20, aes_128] in [newer, older] {
        for (offered, chosen) in [
            ([aes_256, chacha20, aes_128], aes_128),
            ([aes_128, aes_256, chacha20], aes_128),
            ([chacha20, aes_128, aes_256], chacha20),
        ] {
            let mut client = client_with_suites(&made, &offered);
            let mut session = greeted(&store, &made.host(), &mut client);
            exchange(&mut session, &mut client).expect("both agree");
            let used = client.negotiated_cipher_suite().map(|suite| suite.suite());
            assert_eq!(used, Some(chosen), "{offered:?}");
        }
    }
}

/// The alert that the server answers to these bytes.
fn alert(host: &Arc<HostTls>, hello: &[u8]) -> u8 {
    let config = store(MinimumVersion::Tls12).load(host, Instant::now()).expect("the pair fits").config;
    let FirstBytes::Greeting(greeting) = HelloReader::default().receive(hello) else {
        panic!("the message is whole")
    };
    let failure = greeting.answer(&config).expect_err("nothing fits");
    *failure.alert().last().expect("an alert")
}

#[test]
fn client_that_fell_back_to_an_older_version_is_refused() {
    let made = MadeCertificate::new(&["a.example"]);
    let only = [CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
    let mut hello = output(&mut client_with_suites(&made, &only));
    // rustls offers the suite and TLS_EMPTY_RENEGOTIATION_INFO_SCSV, in place of which the test
    // writes TLS_FALLBACK_SCSV.
    let at = hello.windows(6).position(|six| six == [0, 4, 0xc0, 0x2b, 0, 0xff]).expect("two suites");
    hello[at + 4..at + 6].copy_from_slice(&[0x56, 0]);
    assert_eq!(alert(&made.host(), &hello), 86);
}

/// Regression: the alert was `access_denied`.
#[test]
fn client_without_common_suite_gets_handshake_failure() {
    let made = MadeCertificate::new(&["a.example"]);
    let only = [CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256];
    let hello = output(&mut client_with_suites(&made, &only));
    assert_eq!(alert(&made.host(), &hello), 40);
}

/// Regression: the alert was `handshake_failure`.
#[test]
fn client_of_an_old_version_gets_protocol_version() {
    for version in [1, 2] {
        let mut hello = vec![22, 3, 1, 0, 45, 1, 0, 0, 41, 3, version];
        hello.extend([7; 32]);
        // No session, the suite TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, no compression, no extensions.
        hello.extend([0, 0, 2, 0xc0, 0x13, 1, 0]);
        let FirstBytes::Failed(failure) = HelloReader::default().receive(&hello) else {
            panic!("no version fits")
        };
        assert_eq!(failure.alert(), [21, 3, 3, 0, 2, 2, 70], "{failure}");
    }
}
