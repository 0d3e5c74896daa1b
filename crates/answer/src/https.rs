//! Hosts that require HTTPS: the redirect from HTTP, and the order to browsers to use HTTPS alone.
//!
//! Leaves out TLS itself (`crates/tls`). Tested through the binary (`crates/e2e/tests/e2e/tls.rs`).

use crate::pages::{moved, page};
use vermeil_exchange::{AnswerHead, ClientCheck, Sent, StrictTransport, Visitor};
use vermeil_http::{Request, Status, gateway::ClientScheme};
use vermeil_routing::hosts::{HostId, Hosts};
use vermeil_settings::tls::HttpsUse;
use vermeil_state::core_context::CoreContext;

/// The answer to a request over HTTP for a host that requires HTTPS. A proxy at a unix socket
/// speaks HTTP for clients of either kind, so its requests are answered.
pub(crate) fn redirect(
    local: &mut CoreContext,
    host: HostId,
    request: &Request<'_>,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Option<Sent> {
    let Visitor { at, scheme, .. } = head.visitor;
    let is_http = scheme == ClientScheme::Http && at.is_none_or(|at| at.unix().is_none());
    let hosts = local.hosts.hosts();
    if !is_http || !hosts.redirects_to_https(host, request.target.path) {
        return None;
    }
    let Some(address) = hosts.https_address(host, request) else {
        return Some(page(local, Status::BadRequest, b"", head, out));
    };
    let mut line = [&b"Location: "[..], &address].concat();
    line.extend_from_slice(b"\r\n");
    Some(page(local, moved(request.method), &line, head, out))
}

/// The status for a request whose connection did not meet the host's demands on the certificates of
/// clients. A connection meets the demands of the host that its client named at the handshake
/// (SNI), so a request for another host with other demands is at the wrong connection (RFC 9110,
/// section 15.5.20).
pub(crate) fn refused_client(hosts: &Hosts, host: HostId, visitor: Visitor) -> Option<Status> {
    if !hosts.ask_for_certificates() {
        return None;
    }
    match visitor.check {
        ClientCheck::Tls(met) => {
            let demanded = hosts.certificates_of(host, visitor.at).and_then(|host| host.client_trust());
            (met != demanded).then_some(Status::MisdirectedRequest)
        }
        // A proxy that is believed may say HTTPS, but this server has seen no certificate.
        ClientCheck::Plain => hosts.requires_certificate(host).then_some(Status::Forbidden),
    }
}

/// Whether an answer tells the browser to use HTTPS alone. Browsers ignore the order over HTTP.
pub(crate) fn strict_transport(https: HttpsUse, visitor: Visitor) -> StrictTransport {
    match (https, visitor.scheme) {
        (HttpsUse::Only, ClientScheme::Https) => StrictTransport::Said,
        _ => StrictTransport::Unsaid,
    }
}
