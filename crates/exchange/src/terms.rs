//! The terms of one request and its answer, which all layers of the request path share.
//!
//! Leaves out the connection and the choice of the answer.

use std::{fmt, io};
use vermeil_address::{Client, ListenAddr};
use vermeil_http::{
    Method, Rejection, Request, Version,
    gateway::ClientScheme,
    response::{PageContent, Persistence},
};
use vermeil_routing::hosts::{AnswerRulesId, Asked};
use vermeil_tls::ClientTrust;

/// Largest body that is copied behind its head, in bytes, so that both leave as one piece of
/// memory. The kernel gathers larger bodies. Default from bench `serve`: at 1 KB copying wins
/// clearly, at 20 KB copying does not win.
pub const COPY_BYTES_MAX: usize = 8 * 1024;

/// The parts of the request that decide the head of an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerHead {
    /// The version of the request.
    pub version: Version,
    /// Whether the connection stays open behind an answer of the server.
    pub persistence: Persistence,
    /// The same for the answer of a program.
    pub of_program: Persistence,
    /// Whether the answer has its content, which an answer to HEAD has not.
    pub content: PageContent,
    /// Where the connection came to and from.
    pub visitor: Visitor,
    /// How the answer differs from those of the server. Known once the host is known.
    pub rules: Option<AnswerRulesId>,
    /// The first route to try: behind the route that rewrote the path, if there is one.
    pub routes_from: u32,
    /// Whether the answer demands HTTPS.
    pub strict: StrictTransport,
    /// The checks of clients that the request has passed.
    pub passed: PassedChecks,
    /// Whether rules asked for a password.
    pub password: PasswordUse,
    /// The number of the configuration that `routes_from` and `passed` are about.
    pub configuration: u32,
}

/// Whether rules about clients asked a request for a password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PasswordUse {
    /// The name that the client sent, if any, was not checked.
    #[default]
    NotAsked,
    /// A name with a right password was needed, at the path of the request or at a path before a
    /// rewrite or a redirect within the server.
    Asked,
}

/// The checks of clients that a request has passed, by the number of their rules in the host. A
/// request meets the rules of its path, and of the file that answers. After a rewrite, rules of an
/// earlier route come to each of the two. If chained rewrites meet more, the oldest is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedChecks([(u32, PassedCheck); 4]);

/// The checks of one rule that a request has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassedCheck {
    /// None.
    Nothing,
    /// The rate. The network is checked again, and a password is remembered.
    Rate,
    /// Also the bound on requests in progress.
    Progress,
    /// All checks.
    All,
}

impl PassedChecks {
    /// No check of any rule.
    pub const NONE: Self = Self([(0, PassedCheck::Nothing); 4]);

    /// The passed checks of a rule.
    pub fn of(self, rule: u32) -> PassedCheck {
        self.0
            .into_iter()
            .filter(|(known, _)| *known == rule)
            .map(|(_, passed)| passed)
            .max()
            .unwrap_or(PassedCheck::Nothing)
    }

    /// The rules whose rate the request has passed.
    pub fn rules_with_rate(self) -> impl Iterator<Item = u32> {
        self.0.into_iter().filter(|(_, passed)| *passed >= PassedCheck::Rate).map(|(rule, _)| rule)
    }

    /// Notes that the request has passed checks of a rule.
    pub fn note(&mut self, rule: u32, passed: PassedCheck) {
        let Self(noted) = self;
        let place = noted.iter().position(|(known, _)| *known == rule);
        let last = place.unwrap_or(noted.len() - 1);
        // The newest stands first.
        noted[..=last].rotate_right(1);
        if place.is_none() {
            noted[0] = (rule, PassedCheck::Nothing);
        }
        noted[0].1 = noted[0].1.max(passed);
    }
}

/// Whether the answer tells the browser to use HTTPS alone (RFC 6797).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StrictTransport {
    /// The answer does not.
    #[default]
    Unsaid,
    /// The answer tells the browser.
    Said,
}

impl StrictTransport {
    /// The name of the field.
    pub const FIELD: &[u8] = b"Strict-Transport-Security";

    /// The field lines of the answer. A year, as lists of such hosts in browsers ask for.
    pub fn lines(self) -> &'static [u8] {
        match self {
            Self::Unsaid => b"",
            Self::Said => b"Strict-Transport-Security: max-age=31536000\r\n",
        }
    }
}

/// Where a connection came to and from, as far as an answer may depend on that.
#[derive(Clone, Copy, Debug)]
pub struct Visitor {
    /// The address of the listener, as configured.
    pub at: Option<ListenAddr>,
    /// The client.
    pub peer: Option<Client>,
    /// The scheme of the request, which a believed proxy may name.
    pub scheme: ClientScheme,
    /// The check of the client by this server's TLS.
    pub check: ClientCheck,
}

/// The check of the client at the handshake of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCheck {
    /// The connection has no TLS.
    Plain,
    /// The client met these demands on its certificate.
    Tls(Option<ClientTrust>),
}

impl Visitor {
    /// The ends of a connection that the kernel cannot name.
    pub const UNKNOWN: Self =
        Self { at: None, peer: None, scheme: ClientScheme::Http, check: ClientCheck::Plain };
}

impl AnswerHead {
    /// For an answer to input that was no request.
    pub const UNKNOWN: Self = Self {
        version: Version::Http11,
        persistence: Persistence::Close,
        of_program: Persistence::Close,
        content: PageContent::Sent,
        visitor: Visitor::UNKNOWN,
        rules: None,
        routes_from: 0,
        strict: StrictTransport::Unsaid,
        passed: PassedChecks::NONE,
        password: PasswordUse::NotAsked,
        configuration: 0,
    };

    /// For an answer to `request`. `last` closes the connection behind the answer.
    pub fn of(request: &Request<'_>, visitor: Visitor, last: bool) -> Self {
        // A client that waits for 100 gets the answer instead, and may or may not send its content
        // then.
        let of_program = match request.keep_alive && !last {
            true => Persistence::KeepAlive,
            false => Persistence::Close,
        };
        Self {
            version: request.version,
            persistence: if request.expect_continue { Persistence::Close } else { of_program },
            of_program,
            content: if request.method == Method::Head { PageContent::Omitted } else { PageContent::Sent },
            visitor,
            rules: None,
            routes_from: 0,
            strict: StrictTransport::Unsaid,
            passed: PassedChecks::NONE,
            password: PasswordUse::NotAsked,
            configuration: 0,
        }
    }
}

impl AnswerHead {
    /// The question to the routes of the host of `request`.
    pub fn asked<'a>(&self, request: &'a Request<'a>) -> Asked<'a> {
        Asked { request: Some(request), peer: self.visitor.peer, first: self.routes_from as usize }
    }

    /// Forgets the passed checks and routes if the request passed them under another configuration,
    /// because the numbers of rules and routes mean others now.
    #[inline]
    pub fn use_configuration(&mut self, number: u32) {
        if self.configuration != number {
            *self = Self { configuration: number, routes_from: 0, passed: PassedChecks::NONE, ..*self };
        }
    }

    /// The answer becomes the last of its connection, because the server drains.
    pub fn close(&mut self) {
        (self.persistence, self.of_program) = (Persistence::Close, Persistence::Close);
    }

    /// The same for the answer of a program, which waits for the content and asks for it if need
    /// be.
    pub fn of_program(self) -> Self {
        Self { persistence: self.of_program, ..self }
    }
}

/// The name of one request in notices. The program gets the name as `UNIQUE_ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestName(pub u64);

impl RequestName {
    /// In hexadecimal digits. Not by `format!`, because every request to a program needs the digits
    /// and `format!` costs a hundredth of the request's time.
    pub fn digits(self) -> [u8; 16] {
        std::array::from_fn(|at| b"0123456789abcdef"[(self.0 >> (60 - 4 * at)) as usize % 16])
    }
}

impl fmt::Display for RequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digits().into_iter().try_for_each(|digit| fmt::Write::write_char(f, digit.into()))
    }
}

/// The part of an answer that the log records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The status code.
    pub status: u16,
    /// Bytes of content.
    pub body_bytes: u64,
}

/// The result of receiving content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentStep {
    /// More content will come.
    More,
    /// The content is complete.
    Done,
    /// The content is malformed or too long.
    Refused(Rejection),
    /// Nothing came in time.
    Late,
}

/// Why a connection ended early.
#[derive(Debug)]
pub enum Lost {
    /// The client has gone, or the network.
    Peer,
    /// The client took too long.
    Late,
    /// An answer cannot be completed, and the client counts its bytes.
    Cut,
    /// An answer cannot be completed, and its end would be the end of the connection. So only a
    /// reset tells the client.
    CutWithoutLength,
}

impl From<io::Error> for Lost {
    fn from(_: io::Error) -> Self {
        Self::Peer
    }
}
