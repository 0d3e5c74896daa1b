//! The proxies that the configuration believes.
//!
//! Tested in `tests/proxies.rs`.

use super::{
    keys::{Document, ForwardedWord, ProxiesTable},
    networks::networks,
    problems::Problems,
    read::At,
};
use vermeil_address::ListenAddr;
use vermeil_http::forwarded::ForwardedBy;
use vermeil_routing::hosts::TrustedProxies;

/// The believed proxies; `announced` are the listeners with the PROXY protocol.
pub(super) fn trusted(
    document: &Document,
    announced: Vec<ListenAddr>,
    problems: &mut Problems,
) -> TrustedProxies {
    let table = document.proxies.as_ref();
    let written = table.and_then(|table| table.value.from.as_ref());
    let from = networks(written, "proxies.from", "so no proxy would be believed", problems);
    if written.is_none() {
        let cure = "name the proxies with from in [proxies], such as from = [\"10.0.0.0/8\"]";
        for listener in document.listener.iter().filter(|listener| listener.proxy_protocol.value) {
            let what = format!("no proxy is believed, so each connection would be closed; {cure}");
            problems.push(&listener.proxy_protocol.at, "listener.proxy_protocol", what);
        }
        if let Some(At { value: ProxiesTable { fields, .. }, at }) = table {
            let (at, key) = match fields.at.is_empty() {
                true => (at, "proxies"),
                false => (&fields.at, "proxies.fields"),
            };
            problems.push(at, key, format!("no proxy is believed; {cure}"));
        }
    }
    let fields = table.map_or(ForwardedWord::XForwarded, |table| table.value.fields.value);
    let fields = match fields {
        ForwardedWord::XForwarded => Some(ForwardedBy::XForwarded),
        ForwardedWord::Forwarded => Some(ForwardedBy::Forwarded),
        ForwardedWord::None => None,
    };
    TrustedProxies { from, fields, listeners: announced }
}
