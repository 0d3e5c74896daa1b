//! The proxies that the configuration believes.
//!
//! Tested in `tests/proxies.rs`.

use super::{
    keys::{ForwardedWord, ListenerTable, ProxiesTable},
    networks::networks,
    problems::Problems,
};
use vermeil_address::ListenAddr;
use vermeil_http::forwarded::ForwardedBy;
use vermeil_routing::hosts::TrustedProxies;

/// The believed proxies; `announced` are the listeners with the PROXY protocol.
pub(super) fn trusted(
    table: &ProxiesTable,
    listeners: &[ListenerTable],
    announced: Vec<ListenAddr>,
    problems: &mut Problems,
) -> TrustedProxies {
    let from = networks(table.from.as_ref(), "proxies.from", "so no proxy would be believed", problems);
    if table.from.is_none() {
        let cure = "name the proxies with from in [proxies], such as from = [\"10.0.0.0/8\"]";
        for listener in listeners.iter().filter(|listener| listener.proxy_protocol.value) {
            let what = format!("no proxy is believed, so each connection would be closed; {cure}");
            problems.push(&listener.proxy_protocol.at, "listener.proxy_protocol", what);
        }
        if !table.fields.at.is_empty() {
            problems.push(&table.fields.at, "proxies.fields", format!("no proxy is believed; {cure}"));
        }
    }
    let fields = match table.fields.value {
        ForwardedWord::XForwarded => Some(ForwardedBy::XForwarded),
        ForwardedWord::Forwarded => Some(ForwardedBy::Forwarded),
        ForwardedWord::None => None,
    };
    TrustedProxies { from, fields, listeners: announced }
}
