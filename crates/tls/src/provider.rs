//! The cryptography, from one library: AWS-LC. No other file of this crate names the library.
//!
//! AWS-LC takes 0.56 of the time of ring for a full handshake with RSA-2048, 0.87 with P-256, and
//! 0.59 for large records with AES-128 (`docs/https.md`, "The cryptography"). Tested in
//! `session.rs`.

pub(crate) use aws_lc_rs::{aead, hkdf, rand};

use rustls::{CipherSuite, SupportedCipherSuite, crypto::CryptoProvider, version::TLS13};
use std::sync::Arc;

/// The algorithms for handshakes and records.
///
/// The client's order of key exchanges counts, so a client that prefers the post-quantum exchange
/// X25519MLKEM768 gets that exchange. Cipher suites have the order of Mozilla's recommendation: AES
/// with 128 bits, 256 bits, ChaCha20.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(place);
    Arc::new(provider)
}

/// Draws the first random bytes of this thread. AWS-LC then measures the jitter of the clock for
/// about 20 ms, once in a process, and prepares the source of the thread, both under locks. If a
/// thread of the kernel's idle class held these locks on a busy machine, handshakes on other
/// threads would wait for seconds.
pub fn prepare_random() {
    let mut byte = [0];
    // A failure shows again at the first handshake, which ends with an error then.
    let _ = rand::fill(&mut byte);
}

fn place(suite: &SupportedCipherSuite) -> (bool, u8) {
    let cipher = match suite.suite() {
        suite if is_chacha20(suite) => 2,
        CipherSuite::TLS13_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => 0,
        _ => 1,
    };
    (suite.version() != &TLS13, cipher)
}

/// Whether the suite encrypts with ChaCha20, which processors without instructions for AES prefer.
pub(crate) fn is_chacha20(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
    )
}
