//! A connection from the socket to the first request: the handshake.
//!
//! ```text
//! first bytes ─▶ greeting ─▶ certificates ─▶ answer (any core) ─▶ rest ─▶ requests
//!      │ no TLS     │ no host      │ unfit        │ nothing fits
//!      ▼            ▼              ▼              ▼
//!  400 in words   alert          alert          alert
//! ```
//!
//! A client that has to greet twice, or to show a certificate, makes the server work hard once
//! more. That work runs on any core too.
//!
//! At a listener with the PROXY protocol, the header of the proxy precedes the handshake, because
//! the proxy passes the bytes of TLS on as they are.
//!
//! The whole handshake has the time of a request's head. A client that must send next gives its
//! permit up like any other connection at its start. Leaves out records (`client_stream.rs`).

mod announced;
mod refusal;

use crate::request_loop::{self, ConnectionStart};
use announced::BegunConnection;
use bytes::Bytes;
use std::{fmt, future::poll_fn, io, sync::Arc, task::Poll, time::Instant};
use vermeil::{More, Sleep, TcpStream, background, blocking, now_ms};
use vermeil_accept::admission_control::Admission;
use vermeil_address::ListenAddr;
use vermeil_connection::client_stream::{ClientStream, keep_spare, take_cipher, take_spare};
use vermeil_log::NoticeKind;
use vermeil_state::{
    connections::IdleState,
    core_context::{self, ConnectionPermit},
    tls::{HandshakeEnded, ServerTls, StepFailure},
};
use vermeil_tls::{
    CertificateError, ClientGreeting, ClientTrust, FirstBytes, HandshakeKind, HelloReader, HostTls,
    HostTlsConfig, LoadPermit, LookUp, TlsFailure, TlsFlight, TlsSession,
};

/// The alert of a server that cannot use its certificates: `internal_error` (RFC 8446, section 6).
const INTERNAL_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// Serves a connection that begins with a handshake.
pub(crate) async fn serve(stream: TcpStream, permit: ConnectionPermit, tls: Arc<ServerTls>, at: ListenAddr) {
    // In memory of its own, which is given back before the handshake.
    let Some(begun) = Box::pin(announced::receive(stream, permit)).await else {
        return tls.count(HandshakeEnded::Failed);
    };
    let BegunConnection { stream, mut permit, received, origin } = begun;
    // In memory of its own, which is given back before the first request.
    // Until here the task is in the background, because a flood of handshakes must not delay the
    // clients that are served.
    match background(Box::pin(Handshake::new(&stream, &permit, &tls, at).run(received))).await {
        Ok(ShakenHands { session, trust, early }) => {
            drop(tls);
            let stream = ClientStream::secure(stream, session, trust);
            let origin = origin.map(|origin| origin.through_tls(trust));
            let start = ConnectionStart { input: early, origin, ..ConnectionStart::default() };
            request_loop::serve(stream, permit, Admission::Serve, start).await;
        }
        Err(HandshakeEnd::Over) => {
            tls.count(HandshakeEnded::Failed);
            permit.end();
        }
        Err(HandshakeEnd::Full) => {
            tls.count(HandshakeEnded::Refused);
            permit.end();
        }
        Err(HandshakeEnd::Refused(alert)) => {
            tls.count(HandshakeEnded::Failed);
            drop(tls);
            Box::pin(refusal::alert(stream, permit, alert)).await;
        }
        Err(HandshakeEnd::PlainHttp(received)) => {
            tls.count(HandshakeEnded::Plain);
            drop(tls);
            Box::pin(refusal::plain_http(stream, permit, received, origin)).await;
        }
    }
}

/// The result of a handshake.
struct ShakenHands {
    session: TlsSession,
    /// The demands on the client's certificate, which the client has met.
    trust: Option<ClientTrust>,
    /// Content that came with the handshake.
    early: Vec<u8>,
}

/// Why there is no session.
enum HandshakeEnd {
    /// The client has gone, or does not speak TLS.
    Over,
    /// The client is refused: the alert that says why.
    Refused(Vec<u8>),
    /// Too many handshakes wait.
    Full,
    /// The client sent a request without TLS: the received bytes.
    PlainHttp(Vec<u8>),
}

impl From<io::Error> for HandshakeEnd {
    fn from(_: io::Error) -> Self {
        Self::Over
    }
}

impl From<TlsFailure> for HandshakeEnd {
    fn from(failure: TlsFailure) -> Self {
        match failure.alert() {
            [] => Self::Over,
            alert => Self::Refused(alert.to_vec()),
        }
    }
}

impl From<StepFailure> for HandshakeEnd {
    fn from(failure: StepFailure) -> Self {
        match failure {
            StepFailure::Full => Self::Full,
            StepFailure::Ended => Self::Over,
            StepFailure::Failed(failure) => failure.into(),
        }
    }
}

struct Handshake<'h> {
    stream: &'h TcpStream,
    permit: &'h ConnectionPermit,
    tls: &'h ServerTls,
    at: ListenAddr,
    limit: Sleep,
}

impl<'h> Handshake<'h> {
    fn new(stream: &'h TcpStream, permit: &'h ConnectionPermit, tls: &'h ServerTls, at: ListenAddr) -> Self {
        let mut limit = Sleep::unset();
        limit.set(core_context::with(|local| local.server.timeouts.header));
        Self { stream, permit, tls, at, limit }
    }

    /// Takes the handshake, which begins with `received`, to its end.
    async fn run(mut self, received: Vec<u8>) -> Result<ShakenHands, HandshakeEnd> {
        let greeting = self.greeting(&received).await?;
        let Some(host) = self.host(&greeting) else {
            return Err(greeting.refuse_name().into());
        };
        let Some(config) = self.certificates(&host).await else {
            return Err(HandshakeEnd::Refused(INTERNAL_ERROR.to_vec()));
        };
        let trust = host.client_trust();
        let TlsFlight { mut session, content: mut early } = self.tls.answer(greeting, config).await?;
        let mut greets_again = session.asks_again();
        loop {
            // Tickets leave with the first answer, if the request is there already.
            if session.has_output() && (session.is_handshaking() || early.is_empty()) {
                self.send_output(&mut session).await?;
            }
            if !session.is_handshaking() {
                break;
            }
            if session.has_ended() {
                return Err(HandshakeEnd::Over);
            }
            if greets_again || trust.is_some() {
                session = self.receive_for_step(session, &mut early).await?;
                // The answer to the second greeting.
                greets_again &= !session.has_output();
            } else {
                self.receive_rest(&mut session, &mut early).await?;
            }
        }
        self.tls.count(match session.handshake_kind() {
            HandshakeKind::Full => HandshakeEnded::Full,
            HandshakeKind::Resumed => HandshakeEnded::Resumed,
        });
        Ok(ShakenHands { session, trust, early })
    }

    /// Reads the first message of the client.
    async fn greeting(&mut self, received: &[u8]) -> Result<ClientGreeting, HandshakeEnd> {
        let mut reader = HelloReader::default();
        let mut read = |received: &[u8]| match reader.receive(received) {
            FirstBytes::PlainHttp => Err(HandshakeEnd::PlainHttp(received.to_vec())),
            other => Ok(other),
        };
        let mut idle = IdleState::BeforeFirst;
        let mut first = (!received.is_empty()).then(|| read(received));
        loop {
            match first.take().transpose()? {
                Some(FirstBytes::Greeting(greeting)) => return Ok(greeting),
                Some(FirstBytes::Failed(failure)) => return Err(failure.into()),
                Some(FirstBytes::More | FirstBytes::PlainHttp) => idle = IdleState::Head,
                None => {}
            }
            if self.receive(idle, |received| first = Some(read(received))).await? == 0 {
                return Err(HandshakeEnd::Over);
            }
        }
    }

    /// The certificates of the host that the client asks for.
    fn host(&self, greeting: &ClientGreeting) -> Option<Arc<HostTls>> {
        let name = greeting.server_name();
        core_context::with(|local| {
            local.hosts.hosts().certificates(name.as_deref().map(str::as_bytes), Some(self.at)).cloned()
        })
    }

    /// Loads the certificates, unless they are in memory. `None` if they are unfit.
    async fn certificates(&mut self, host: &Arc<HostTls>) -> Option<HostTlsConfig> {
        let store = self.tls.certificates();
        loop {
            match store.look_up(host, Instant::now()) {
                LookUp::Ready(config) => return Some(config),
                LookUp::Unfit => return None,
                LookUp::Load(permit) => return load(permit).await,
                LookUp::Loading => self.limit.limit(store.loaded(host)).await.ok()?,
            }
        }
    }

    /// Receives bytes, and hands them to `take`. Returns their number; 0 at the end of the
    /// connection.
    async fn receive(&mut self, idle: IdleState, mut take: impl FnMut(&[u8])) -> Result<usize, HandshakeEnd> {
        let Self { stream, permit, limit, .. } = self;
        permit.set_idle_since(idle, now_ms());
        let receiving = poll_fn(|context| {
            let received = take_cipher(|cipher| {
                let received = stream.poll_recv(context, cipher);
                if let Poll::Ready(Ok(1..)) = received {
                    take(cipher);
                }
                received
            });
            match received {
                Poll::Pending if permit.gives_way(context) || permit.is_ending(context) => Poll::Ready(Ok(0)),
                other => other,
            }
        });
        let received = limit.limit(receiving).await;
        permit.set_idle(IdleState::No);
        Ok(received.map_err(|_late| HandshakeEnd::Over)??)
    }

    /// Receives the client's part of the handshake behind its greeting.
    async fn receive_rest(
        &mut self,
        session: &mut TlsSession,
        early: &mut Vec<u8>,
    ) -> Result<(), HandshakeEnd> {
        let mut taken: Result<(), TlsFailure> = Ok(());
        let count = self
            .receive(IdleState::Head, |received| taken = session.receive(received, early).map(drop))
            .await?;
        match taken {
            _ if count == 0 => Err(HandshakeEnd::Over),
            Ok(()) => Ok(()),
            Err(_) => {
                let mut alert = Vec::new();
                session.take_output(&mut alert);
                Err(HandshakeEnd::Refused(alert))
            }
        }
    }

    /// As [`receive_rest`](Self::receive_rest), but any core takes the bytes.
    async fn receive_for_step(
        &mut self,
        session: TlsSession,
        early: &mut Vec<u8>,
    ) -> Result<TlsSession, HandshakeEnd> {
        let mut bytes = Vec::new();
        if self.receive(IdleState::Head, |received| bytes.extend_from_slice(received)).await? == 0 {
            return Err(HandshakeEnd::Over);
        }
        let TlsFlight { session, content } = self.tls.go_on(session, bytes).await?;
        early.extend(content);
        Ok(session)
    }

    async fn send_output(&mut self, session: &mut TlsSession) -> Result<(), HandshakeEnd> {
        let mut bytes = take_spare();
        session.take_output(&mut bytes);
        self.stream.send(bytes, Bytes::new(), More::No)?;
        let sent = self.limit.limit(self.stream.sent()).await.map_err(|_late| HandshakeEnd::Over)?;
        keep_spare(sent?);
        Ok(())
    }
}

/// Loads certificates, or compares them with their files. `None` if they are unfit.
async fn load(permit: LoadPermit) -> Option<HostTlsConfig> {
    let before = permit.before();
    match blocking(move || permit.load(Instant::now())).await {
        // Without room for a blocking call, the certificates in memory go on.
        Err(_) => before,
        Ok(Ok(loaded)) => {
            if let Some(error) = &loaded.unfit {
                say_unfit(error, "the server goes on with the certificate before");
            }
            for error in &loaded.unfit_staples {
                say_unfit(error, "clients get no staple");
            }
            for out_of_date in &loaded.out_of_date {
                say_trouble(format_args!("{out_of_date}"));
            }
            Some(loaded.config)
        }
        Ok(Err(error)) => {
            say_unfit(&error, "clients of the host are refused");
            None
        }
    }
}

fn say_unfit(error: &CertificateError, effect: &str) {
    say_trouble(format_args!("{error} ({effect})"));
}

fn say_trouble(what: fmt::Arguments<'_>) {
    core_context::with(|local| local.server.notices.say(NoticeKind::CertificateTrouble, what));
}
