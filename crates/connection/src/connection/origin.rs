//! The client of a connection and of its current request: the other end of the connection, or the
//! client that a believed proxy names.
//!
//! A proxy names the client of a connection by a header of the PROXY protocol, before the first
//! request, or the client of a request by fields. Both count only if the address before them is a
//! believed proxy, so no client chooses its own address. Leaves out the syntax of both
//! (`vermeil_http::proxy_protocol`, `vermeil_http::forwarded`). Tested through the binary
//! (`crates/e2e/tests/e2e/proxies.rs`).

use super::{Connection, other_end, visitor_of};
use crate::client_stream::ClientStream;
use std::{future::poll_fn, io, net::SocketAddr, sync::Arc, task::Poll};
use vermeil_accept::admission_control::Admission;
use vermeil_address::{Client, ListenAddr, UnixAddr};
use vermeil_exchange::{ClientCheck, Lost, Visitor};
use vermeil_http::{
    FieldLines, Request,
    forwarded::{self, ForwardedAddress, ForwardedClient},
    gateway::{ClientLink, ClientScheme, ProxiedClient, ProxiedEnds},
    proxy_protocol::{self, ProxyHeader, ProxyHeaderPart},
};
use vermeil_log::{LoggedClient, NoticeKind};
use vermeil_routing::hosts::TrustedProxies;
use vermeil_state::{
    connections::IdleState,
    core_context::{self, CoreContext},
};
use vermeil_tls::ClientTrust;

/// The client of a connection, and of its current request.
pub struct ClientOrigin {
    /// The client of the connection.
    visitor: Visitor,
    /// The header of the PROXY protocol.
    announced: Option<ProxyHeader>,
    /// The client that the fields of the current request name.
    forwarded: Option<ForwardedClient>,
}

impl ClientOrigin {
    /// The client of `request`.
    pub fn of_request(
        origin: &mut Option<Box<Self>>,
        stream: &ClientStream,
        request: &Request<'_>,
        local: &CoreContext,
    ) -> Visitor {
        let origin = origin.get_or_insert_with(|| {
            Box::new(Self { visitor: visitor_of(stream, local), announced: None, forwarded: None })
        });
        origin.forwarded = forwarded_by(local.hosts.hosts().proxies(), origin.visitor.peer, request.fields);
        origin.visitor(stream.scheme())
    }

    /// The same for a connection that continues through TLS.
    pub fn through_tls(mut self: Box<Self>, trust: Option<ClientTrust>) -> Box<Self> {
        self.visitor.scheme = ClientScheme::Https;
        self.visitor.check = ClientCheck::Tls(trust);
        self
    }

    /// The client of the current request, which came by the scheme `own`.
    fn visitor(&self, own: ClientScheme) -> Visitor {
        let Some(forwarded) = self.forwarded else { return self.visitor };
        let peer = match forwarded.address {
            ForwardedAddress::Unlisted => self.visitor.peer,
            ForwardedAddress::Unknown => Some(Client::Unknown),
            ForwardedAddress::Ip(address, _) => Some(Client::Ip(address)),
        };
        let scheme = secured_by(own, forwarded.scheme.unwrap_or(self.visitor.scheme));
        Visitor { peer, scheme, ..self.visitor }
    }

    /// What the proxies say about the ends of the connection, which has the scheme `own`. `None` if
    /// they say nothing.
    fn proxied_ends(&self, own: ClientScheme) -> Option<ProxiedEnds> {
        let mut ends = ProxiedEnds::default();
        match self.announced {
            Some(ProxyHeader::Client { source, destination, scheme }) => {
                ends.client = Some(ProxiedClient::Ip(source.ip(), Some(source.port())));
                (ends.destination, ends.scheme) = (Some(destination), Some(scheme));
            }
            Some(ProxyHeader::Unix { scheme }) => {
                (ends.client, ends.scheme) = (Some(ProxiedClient::Unix), Some(scheme));
            }
            Some(ProxyHeader::Local) | None => {}
        }
        if let Some(ForwardedClient { address, scheme }) = self.forwarded {
            match address {
                ForwardedAddress::Unlisted => {}
                ForwardedAddress::Unknown => ends.client = Some(ProxiedClient::Unknown),
                ForwardedAddress::Ip(address, port) => {
                    ends.client = Some(ProxiedClient::Ip(address, port));
                }
            }
            if scheme.is_some() {
                (ends.scheme, ends.destination) = (scheme, None);
            }
        }
        ends.scheme = ends.scheme.map(|named| secured_by(own, named));
        (ends != ProxiedEnds::default()).then_some(ends)
    }
}

/// The scheme of a request that came by the scheme `own` from a proxy that names a scheme. TLS on
/// either connection counts, because a program that misses HTTPS redirects without end.
fn secured_by(own: ClientScheme, named: ClientScheme) -> ClientScheme {
    match own {
        ClientScheme::Https => own,
        ClientScheme::Http => named,
    }
}

/// The client that `fields` name, if `peer` is a believed proxy.
fn forwarded_by(
    proxies: &TrustedProxies,
    peer: Option<Client>,
    fields: FieldLines<'_>,
) -> Option<ForwardedClient> {
    let by = proxies.fields?;
    if !peer.is_some_and(|peer| proxies.trusts(peer)) {
        return None;
    }
    Some(forwarded::client(fields, by, |address| proxies.trusts(address.into())))
}

/// The result of reading a header of the PROXY protocol.
enum Announcement {
    Valid(ProxyHeader),
    /// The bytes are no header.
    Wrong,
    /// The proxy has closed the connection, or sent nothing in time.
    Missing,
}

impl Connection {
    /// The request before has its line in the log, so its client is not the client any more.
    #[inline]
    pub fn forget_client(&mut self) {
        if let Some(origin) = &mut self.client.origin
            && origin.forwarded.take().is_some()
        {
            let visitor = origin.visitor;
            self.log_as(visitor);
        }
    }

    /// Learns the client for the log, if a reload has turned the log on since the connection began.
    #[inline]
    pub fn learn_client(&mut self, local: &CoreContext) {
        if self.client.logged.is_none() && local.records.log.is_on() {
            self.client.logged = other_end(&self.stream);
            if let Some(origin) = &self.client.origin {
                let visitor = origin.visitor;
                self.log_as(visitor);
            }
        }
    }

    /// Sets the client that a proxy announced before the connection came here.
    pub fn set_origin(&mut self, origin: Option<Box<ClientOrigin>>) {
        let Some(announced) = origin else { return };
        self.log_as(announced.visitor);
        self.client.origin = Some(announced);
    }

    /// Logs the next requests, if there is a log, with `visitor` as their client.
    fn log_as(&mut self, visitor: Visitor) {
        if self.client.logged.is_some() {
            let default_port = visitor.scheme.default_port();
            self.client.logged = visitor.peer.map(|client| LoggedClient { client, default_port });
        }
    }

    /// Whether the connection begins with a header of the PROXY protocol. A connection of another
    /// core has begun already.
    pub fn is_announced(&self) -> bool {
        self.conversation.requests() == 0
            && core_context::with(|local| {
                let proxies = local.hosts.hosts().proxies();
                !proxies.listeners.is_empty() && proxies.announce_at(visitor_of(&self.stream, local).at)
            })
    }

    /// Reads the header of the PROXY protocol. Returns `false` if the connection ends without an
    /// answer, because its sender is not believed or sends other bytes.
    pub async fn read_announcement(&mut self) -> Result<bool, Lost> {
        let (visitor, is_trusted) = core_context::with(|local| {
            let visitor = visitor_of(&self.stream, local);
            (visitor, visitor.peer.is_some_and(|peer| local.hosts.hosts().proxies().trusts(peer)))
        });
        if !is_trusted {
            say_refused(visitor, "is in no network of from in [proxies]");
            return Ok(false);
        }
        let header = match self.announcement().await? {
            Announcement::Valid(header) => header,
            Announcement::Wrong => {
                say_refused(visitor, "does not begin with a header of the PROXY protocol");
                return Ok(false);
            }
            Announcement::Missing => return Ok(false),
        };
        let (peer, scheme) = match header {
            ProxyHeader::Local => (visitor.peer, visitor.scheme),
            ProxyHeader::Unix { scheme } => (Some(Client::Unix), scheme),
            ProxyHeader::Client { source, scheme, .. } => (Some(Client::of(Some(source))), scheme),
        };
        self.count_client(peer);
        let visitor = Visitor { peer, scheme, ..visitor };
        let announced = Some(header).filter(|header| *header != ProxyHeader::Local);
        self.set_origin(Some(Box::new(ClientOrigin { visitor, announced, forwarded: None })));
        Ok(true)
    }

    /// Counts the connection for the announced client. Beyond the client's bound, the answer is
    /// 503.
    fn count_client(&mut self, peer: Option<Client>) {
        let Some(Client::Ip(addr)) = peer else { return };
        let permit = &mut self.permit;
        let is_full = core_context::with(|local| {
            let Some(max) = local.server.clients.bound.connections_max else { return false };
            let visit = local.server.visit(addr, max);
            let is_full = visit.is_none();
            permit.count_for(visit);
            is_full
        });
        if is_full {
            self.admission = Admission::Refuse;
        }
    }

    async fn announcement(&mut self) -> Result<Announcement, Lost> {
        self.wait.limit.set(core_context::with(|local| local.server.timeouts.header));
        self.permit.set_idle(IdleState::BeforeFirst);
        loop {
            match proxy_protocol::parse(self.input.unread()) {
                ProxyHeaderPart::Complete(header, length) => {
                    self.input.bytes.drain(..length);
                    self.permit.set_idle(IdleState::No);
                    return Ok(Announcement::Valid(header));
                }
                ProxyHeaderPart::Wrong => return Ok(Announcement::Wrong),
                ProxyHeaderPart::Incomplete => {}
            }
            let (stream, permit, input) = (&mut self.stream, &self.permit, &mut self.input.bytes);
            let receiving = poll_fn(|context| match stream.poll_recv(context, input) {
                Poll::Pending if permit.is_ending(context) || permit.gives_way(context) => Poll::Ready(Ok(0)),
                polled => polled,
            });
            match self.wait.limit.limit(receiving).await {
                Ok(Ok(1..)) => {}
                Ok(Ok(0)) | Err(_) => return Ok(Announcement::Missing),
                Ok(Err(error)) => return Err(error.into()),
            }
        }
    }

    /// Both ends of the connection, for a program.
    pub(crate) fn link(&mut self) -> io::Result<Arc<ClientLink>> {
        let link = self.socket_link()?;
        let own = self.stream.scheme();
        let ends = self.client.origin.as_ref().and_then(|origin| origin.proxied_ends(own));
        Ok(ends.map_or(link.clone(), |ends| Arc::new(link.behind_proxy(&ends))))
    }

    fn socket_link(&mut self) -> io::Result<Arc<ClientLink>> {
        if let Some(link) = &self.client.link {
            return Ok(link.clone());
        }
        let (own, remote) = self.stream.with_fd(|fd| {
            Ok::<_, io::Error>((rustix::net::getsockname(fd)?, vermeil_io::peer_addr(fd)?))
        })??;
        let scheme = self.stream.scheme();
        let link = match remote {
            Some(remote) => ClientLink::new(SocketAddr::try_from(own)?, remote, scheme),
            None => {
                let listener = core_context::with(|local| local.listener_of(&own));
                ClientLink::unix(listener.and_then(|addr| addr.unix()).map(UnixAddr::path), scheme)
            }
        };
        let link = link.with_variables(self.stream.variables());
        Ok(self.client.link.insert(Arc::new(link)).clone())
    }
}

/// Logs that a connection at a listener for the PROXY protocol is closed.
fn say_refused(visitor: Visitor, why: &str) {
    let Some(peer) = visitor.peer else { return };
    let at = visitor.at.as_ref().map(ListenAddr::to_string).unwrap_or_default();
    core_context::with(|local| {
        let line = format_args!("the connection of {peer} to {at} {why} (closed)");
        local.server.notices.say(NoticeKind::ProxyRefused, line);
    });
}
