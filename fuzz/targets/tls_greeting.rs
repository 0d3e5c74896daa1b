//! The records of a TLS client before its keys are agreed: read at once or byte by byte, the same
//! greeting or the same refusal, and no further records pass for content.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::Instant,
};
use vermeil_tls::{
    CertificatePair, CertificateStore, FirstBytes, HelloReader, HostTls, HostTlsConfig, LookUp, PlainFiles,
    Tickets, TlsFlight, TlsPolicy,
};

/// A host with a certificate of its own.
static HOST: LazyLock<HostTlsConfig> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).expect("a certificate");
    let file = |name: &str, text: String| -> PathBuf {
        let path = std::env::temp_dir().join(format!("vermeil-fuzz-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        path
    };
    let pair = CertificatePair {
        certificate: file("certificate.pem", made.cert.pem()),
        key: file("key.pem", made.signing_key.serialize_pem()),
        staple: None,
    };
    let store = Arc::new(CertificateStore::new(
        TlsPolicy::default(),
        Arc::new(Tickets::random()),
        Box::new(PlainFiles),
    ));
    let host = Arc::new(HostTls { certificates: vec![pair], client_issuers: None, requires_client: false });
    let LookUp::Load(permit) = store.look_up(&host, Instant::now()) else { panic!("the store is empty") };
    permit.load(Instant::now()).expect("the pair fits").config
});

fuzz_target!(|input: &[u8]| {
    let mut reader = HelloReader::default();
    let one_by_one = (0..input.len()).find_map(|at| match reader.receive(&input[at..=at]) {
        FirstBytes::More => None,
        decided => Some((at + 1, decided)),
    });
    let mut whole = HelloReader::default();
    match (one_by_one, whole.receive(input)) {
        (None, decided) => assert!(matches!(decided, FirstBytes::More), "{decided:?}"),
        (Some((_, FirstBytes::PlainHttp)), decided) => assert!(matches!(decided, FirstBytes::PlainHttp)),
        (Some((_, FirstBytes::Failed(_))), decided) => {
            assert!(!matches!(decided, FirstBytes::Greeting(_)), "{decided:?}")
        }
        (Some((taken, FirstBytes::Greeting(greeting))), whole) => {
            if let FirstBytes::Greeting(greeting) = whole
                && let Ok(TlsFlight { session, content }) = greeting.answer(&HOST)
            {
                assert!(content.is_empty() && session.is_handshaking());
            }
            let Ok(TlsFlight { mut session, mut content }) = greeting.answer(&HOST) else { return };
            let mut output = Vec::new();
            // A refusal is as good as an answer.
            let _ = session.receive(&input[taken..], &mut content);
            session.take_output(&mut output);
            assert!(content.is_empty() && session.is_handshaking());
        }
        (Some((_, FirstBytes::More)), _) => unreachable!("it is no decision"),
    }
});
