//! Networks that a key names.
//!
//! Tested through the keys that name networks (`tests/access.rs`, `tests/proxies.rs`).

use super::{problems::Problems, read::At};
use vermeil_routing::hosts::Network;

/// The networks in the list at `key`. `why_not` says why the list may not be empty.
pub(super) fn networks(
    from: Option<&At<Vec<At<String>>>>,
    key: &str,
    why_not: &str,
    problems: &mut Problems,
) -> Vec<Network> {
    let Some(from) = from else { return Vec::new() };
    if from.value.is_empty() {
        let what = format!("no network is named, {why_not}; name one, or leave the key out");
        problems.push(&from.at, key, what);
    }
    let mut networks = Vec::new();
    for text in &from.value {
        match text.value.parse::<Network>() {
            Ok(network) => networks.push(network),
            Err(why) => problems.push(&text.at, key, format!("\"{}\": {why}", text.value)),
        }
    }
    networks
}
