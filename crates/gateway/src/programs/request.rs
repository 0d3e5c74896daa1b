//! A request that may be for a program.
//!
//! [`may_concern`] looks only at the path's bytes, because it runs for every request on hosts with
//! programs. Leaves out finding the program, which is the server's part. Tested below.

use super::ProgramConfig;
use crate::parts::Collected;
use std::sync::Arc;
use vermeil_exchange::{CoreHeadParts, RequestName};
use vermeil_http::{Framing, Method, Request, gateway::split, path};
use vermeil_routing::hosts::{Action, CoreHosts, HostId, Met};
use vermeil_settings::php::EXTENSION;

/// A request that may be for a program.
///
/// A call may outlast its configuration, for example during a slow upload or while the request
/// waits for its turn. So the call holds the parts of the configuration that concern it.
#[derive(Clone)]
pub struct GatewayRequest {
    /// The host of the request.
    pub host: Met,
    /// The configuration of programs that the call began with.
    pub answering: Arc<ProgramConfig>,
    /// Why the request may be for a program.
    pub reason: ProgramReason,
    /// The program to run, decoded. Set for an index page, because the request's path does not name
    /// the program.
    pub script: Option<Arc<[u8]>>,
    /// The announcement of the request's content.
    pub content: Collected,
    /// The request's name in notices.
    pub name: RequestName,
    /// Path and query as received, if a route has rewritten them.
    pub uri: Option<Arc<[u8]>>,
}

impl GatewayRequest {
    /// Returns `None` if no program can be concerned.
    #[inline]
    pub fn of(
        hosts: &CoreHosts,
        heads: &mut CoreHeadParts,
        host: HostId,
        request: &Request<'_>,
    ) -> Option<Self> {
        let rules = hosts.hosts().host(host).rules;
        let has_php = rules.php.is_on();
        if !has_php && !rules.routes.iter().any(|route| route.action == Action::Cgi) {
            return None;
        }
        let reason = may_concern(request).filter(|&reason| has_php || reason == ProgramReason::Folder)?;
        Self::new(hosts, heads, host, request, reason)
    }

    /// The call for a path that a route assigns to CGI.
    pub fn of_cgi(
        hosts: &CoreHosts,
        heads: &mut CoreHeadParts,
        host: HostId,
        request: &Request<'_>,
    ) -> Option<Self> {
        Self::new(hosts, heads, host, request, ProgramReason::Cgi)
    }

    /// The call for a folder whose index page is the PHP program `script`.
    pub fn of_index(
        hosts: &CoreHosts,
        heads: &mut CoreHeadParts,
        host: HostId,
        request: &Request<'_>,
        script: &[u8],
    ) -> Option<Self> {
        let call = Self::new(hosts, heads, host, request, ProgramReason::Index)?;
        Some(Self { script: Some(script.into()), ..call })
    }

    /// The same call for the CGI program `script`, an index page.
    pub fn for_cgi(&self, script: Arc<[u8]>) -> Self {
        Self { reason: ProgramReason::Cgi, script: Some(script), ..self.clone() }
    }

    /// Returns `None` if there are no programs.
    fn new(
        hosts: &CoreHosts,
        heads: &mut CoreHeadParts,
        host: HostId,
        request: &Request<'_>,
        reason: ProgramReason,
    ) -> Option<Self> {
        let answering = super::with(|programs| programs.answering.clone())?;
        let content = match request.body {
            Framing::None => Collected::Nothing,
            // The final status spares the client the upload (RFC 9110, section 10.1.1).
            Framing::Length(bytes) if request.expect_continue && bytes > answering.options.content_bytes => {
                Collected::TooLong
            }
            _ if request.expect_continue => Collected::Awaits,
            _ => Collected::Follows,
        };
        let host = hosts.met(host);
        let name = RequestName(heads.boundary());
        Some(Self { host, answering, reason, script: None, content, name, uri: None })
    }
}

/// Why a request may be for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramReason {
    /// A segment of the path is named like a program.
    Name,
    /// A route assigns the path to CGI.
    Cgi,
    /// The request's method on a folder needs a program.
    Folder,
    /// The index page of its folder is a PHP program.
    Index,
}

/// Whether `request` may be for a program, by its path and method.
fn may_concern(request: &Request<'_>) -> Option<ProgramReason> {
    let path = request.target.path;
    let is_plain = matches!(request.method, Method::Get | Method::Head | Method::Options);
    match request.method {
        Method::Connect => None,
        _ if names_program(path) || (path.contains(&b'%') && names_program_encoded(path)) => {
            Some(ProgramReason::Name)
        }
        _ if !is_plain && path::names_folder(path) => Some(ProgramReason::Folder),
        _ => None,
    }
}

fn names_program(path: &[u8]) -> bool {
    split::candidates(path, EXTENSION).next().is_some()
}

/// A client may encode any part of the name.
#[cold]
fn names_program_encoded(path: &[u8]) -> bool {
    path::decode_for_program(path, &mut Vec::new()).is_ok_and(|decoded| names_program(decoded.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vermeil_http::{ConnectionLimits, ParsedPart};

    #[test]
    fn which_requests_may_be_for_programs() {
        for (line, expected) in [
            ("GET /x.php", Some(ProgramReason::Name)),
            ("GET /x.php?y", Some(ProgramReason::Name)),
            ("GET /x.PHP/y", Some(ProgramReason::Name)),
            ("GET /x%2Ephp", Some(ProgramReason::Name)),
            ("GET /x.%70hp", Some(ProgramReason::Name)),
            ("GET /x.%70hp/a%2Fb", Some(ProgramReason::Name)),
            ("GET /x.php/a%2Fb", Some(ProgramReason::Name)),
            ("POST /x.php", Some(ProgramReason::Name)),
            ("OPTIONS /x.php", Some(ProgramReason::Name)),
            ("TRACE /x.php", Some(ProgramReason::Name)),
            ("TRACE /a/", Some(ProgramReason::Folder)),
            ("GET /x%20y.css", None),
            ("GET /x%2.php", Some(ProgramReason::Name)),
            ("GET /x.css", None),
            ("GET /", None),
            ("GET /a/", None),
            ("OPTIONS /", None),
            ("POST /a/", Some(ProgramReason::Folder)),
            ("PROPFIND /a/", Some(ProgramReason::Folder)),
            ("POST /a/.", Some(ProgramReason::Folder)),
            ("POST /a/%2e", Some(ProgramReason::Folder)),
            ("POST /a/b/..", Some(ProgramReason::Folder)),
            ("POST /a/...", None),
            ("GET /a/.", None),
            ("POST /a", None),
            ("OPTIONS *", None),
        ] {
            let head = format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n");
            let ParsedPart::Complete { request, .. } =
                vermeil_http::parse(head.as_bytes(), &ConnectionLimits::default())
            else {
                panic!("{line} is a request")
            };
            assert_eq!(may_concern(&request), expected, "{line}");
        }
    }
}
