//! The cryptography, from one library: AWS-LC. No other file of this crate names the library.
//!
//! AWS-LC takes 0.56 of the time of ring for a full handshake with RSA-2048, 0.87 with P-256, and
//! 0.59 for large records with AES-128 (`docs/https.md`, "The cryptography"). Tested in
//! `session.rs`.

pub(crate) use aws_lc_rs::{aead, hkdf, rand};

use rustls::crypto::CryptoProvider;
use std::sync::Arc;

/// The algorithms for handshakes and records. The client's order of key exchanges counts, so a
/// client that prefers the post-quantum exchange X25519MLKEM768 gets that exchange.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
