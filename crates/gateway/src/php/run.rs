//! One request to PHP: content, turn, connection and the exchange.
//!
//! A child may close a kept connection just as a request starts. If nothing has arrived on that
//! connection and the method is safe, the server repeats the request once on a new connection. Any
//! other request could take effect twice. External pools close connections at will, so a request
//! that cannot be repeated never uses a kept connection there. A child of our own pool closes a
//! connection only just after the child's last request. So a request that cannot be repeated uses
//! a kept connection that has been idle for a moment, or a new connection.
//!
//! If the client leaves while its request waits, the request leaves the queue. If the client leaves
//! later, the server closes the connection, which tells PHP.

use super::{
    Php,
    idle::with_idle,
    pool::{PoolPermit, PoolTurn},
    running::RunningRequest,
    stream::{ApplicationAddress, PhpConnection},
};
use crate::parts::{
    AllowedCoding, Asking, Broken, ErrorLines, ExchangeParameters, Failure, FoundProgram, GatewayClient,
    Relayed, RequestBody, Trouble, collect, relay,
};
use rustix::io::Errno;
use std::{
    future::poll_fn,
    io,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};
use vermeil::{Sleep, core_index, sleep, yield_now};
use vermeil_exchange::{AnswerHead, Lost, nanoseconds};
use vermeil_fastcgi::request::{RequestPersistence, fits_record};
use vermeil_http::{
    Method, Request,
    gateway::{ClientLink, Invocation, ScriptPaths},
};

/// Pause between attempts to connect to our own pool while it is being restarted.
const RESTART_PAUSE: Duration = Duration::from_millis(20);

/// A request and the destination.
struct PhpRun<'a> {
    php: &'a Arc<Php>,
    request: &'a Request<'a>,
    asking: &'a Asking<'a>,
    program: &'a FoundProgram,
    head: AnswerHead,
    link: Arc<ClientLink>,
    content: RequestBody,
}

/// Has `request` answered by PHP.
pub async fn run(
    connection: &mut impl GatewayClient,
    request: &Request<'_>,
    head: AnswerHead,
    asking: &Asking<'_>,
    php: Option<&Arc<Php>>,
    program: &FoundProgram,
) -> Result<Relayed, Broken> {
    let options = asking.options;
    let php = php.ok_or(Failure::NoPool)?;
    let core = core_index().expect("connections live on cores").0 as usize;
    let content = collect(connection, asking.content, options, asking.spools).await?;
    let link = connection.link().map_err(|_gone| Failure::Client(Lost::Peer))?;
    let asked = Instant::now();
    let lease = turn(connection, php, core, options.timeouts.queue).await;
    let mut lease = lease.inspect_err(|failure| {
        // The pool counts refused requests itself.
        let waited = !matches!(failure, Failure::QueueFull(_));
        php.pool.count(|counters| counters.given_up += u64::from(waited));
    })?;
    let began = Instant::now();
    lease.serve(RunningRequest::new(request, began), nanoseconds(began - asked));
    let run = PhpRun { php, request, asking, program, head, link, content };
    let mut errors = ErrorLines::new(asking.errors.clone(), "php", asking.name);
    let result = run.exchange(connection, lease, &mut errors).await;
    let failed = matches!(&result, Err(broken) if broken.failure.concerns_operator());
    php.pool.count(|counters| {
        counters.served(nanoseconds(began.elapsed()));
        counters.failed += u64::from(failed);
    });
    result
}

/// Waits for a turn while the client stays and the time limit has not passed.
async fn turn(
    connection: &mut impl GatewayClient,
    php: &Php,
    core: usize,
    patience: Duration,
) -> Result<PoolPermit, Failure> {
    let mut waiting = php.pool.ask(core);
    // Usually a turn is free at once, so no limit is needed.
    let first = poll_fn(|context| Poll::Ready(waiting.poll(context))).await;
    let full = |_| Failure::QueueFull(php.pool.snapshot().queue);
    if let Poll::Ready(turn) = first {
        return turn.map_err(full);
    }
    let mut limit = connection.lend_limit();
    let watched = poll_fn(|context| {
        if let Poll::Ready(turn) = waiting.poll(context) {
            return Poll::Ready(turn.map_err(full));
        }
        connection.poll_gone(context).map(|()| Err(Failure::Client(Lost::Peer)))
    });
    limit.set(patience);
    let late = || match php.pool.is_shut() {
        true => Failure::NotRunning(patience),
        false => Failure::QueueLate(patience),
    };
    let turn = limit.limit(watched).await.unwrap_or_else(|_| Err(late()));
    connection.give_back_limit(limit);
    turn
}

impl PhpRun<'_> {
    async fn exchange(
        &self,
        connection: &mut impl GatewayClient,
        lease: PoolPermit,
        errors: &mut ErrorLines,
    ) -> Result<Relayed, Broken> {
        if lease.turn() == PoolTurn::Kept
            && let Some(mut kept) = self.take_kept()
        {
            if kept.is_alive().await {
                match self.on(connection, &mut kept, errors).await {
                    Err(broken) if self.may_repeat(&broken) => {
                        self.php.pool.count(|counters| counters.retried += 1);
                    }
                    result => {
                        finish(lease, kept, self.php, &result).await;
                        return result;
                    }
                }
            }
            kept.close(self.php);
        }
        let mut new = self.connect().await?;
        let result = self.on(connection, &mut new, errors).await;
        finish(lease, new, self.php, &result).await;
        result
    }

    async fn on(
        &self,
        connection: &mut impl GatewayClient,
        php: &mut PhpConnection,
        errors: &mut ErrorLines,
    ) -> Result<Relayed, Broken> {
        let mut all_fit = true;
        let (mut writer, mut reader) = php.begin(self.php.persistence, |params| {
            params.pair(b"UNIQUE_ID", &self.asking.name.digits());
            // With `cgi.fix_pathinfo=0` php-fpm runs the file that this names instead of the
            // program. Our own pool has another setting; the setting of an external pool is
            // unknown.
            let withheld: &[u8] = if self.php.is_ours() { b"" } else { b"PATH_TRANSLATED" };
            self.invocation(|invocation| {
                invocation.variables(|name, value| {
                    if name != withheld {
                        all_fit &= fits_record(name, value);
                        params.pair(name, value);
                    }
                });
            });
        });
        if !all_fit {
            return Err(Failure::VariableTooLong.into());
        }
        let exchange = ExchangeParameters {
            head: self.head,
            coding: connection.with_core(|core| AllowedCoding::of(core.hosts, self.request, self.head)),
            content: &self.content,
            head_limits: self.asking.options.head,
            timeouts: self.asking.options.timeouts,
        };
        relay(connection, &exchange, &mut writer, &mut reader, errors).await
    }

    fn invocation(&self, with: impl FnOnce(Invocation<'_>)) {
        let document_root = self.asking.host.host().document_root().unwrap_or_default();
        let filename = [document_root, &*self.program.script].concat();
        with(Invocation {
            request: self.request,
            script: ScriptPaths {
                name: &self.program.script,
                filename: &filename,
                path_info: &self.program.path_info,
                document_root,
            },
            uri: self.asking.uri,
            link: &self.link,
            content_length: self.content.bytes(),
            user: self.asking.user,
            software: "vermeil",
        });
    }

    /// A kept connection for this request. The place belongs to such a connection. A request that
    /// cannot be repeated gets none, because the child may be about to close the connection after
    /// its last request. Then an idle connection is closed, and a new one costs some 30 µs.
    fn take_kept(&self) -> Option<PhpConnection> {
        with_idle(|idle| match self.is_safe() {
            true => idle.take_newest(self.php),
            false => {
                idle.close_one(self.php);
                None
            }
        })
    }

    /// Whether repeating the request is harmless.
    fn may_repeat(&self, broken: &Broken) -> bool {
        let is_stale = matches!(broken.failure, Failure::Program(Trouble::Connection(_) | Trouble::Ended));
        self.is_safe() && is_stale && broken.was_silent
    }

    fn is_safe(&self) -> bool {
        matches!(self.request.method, Method::Get | Method::Head | Method::Options)
    }

    async fn connect(&self) -> Result<PhpConnection, Failure> {
        let patience = self.asking.options.timeouts.connect;
        let mut limit = Sleep::unset();
        limit.set(patience);
        let connecting = async {
            loop {
                match PhpConnection::open(&self.php.address, patience).await {
                    Err(error) if self.php.is_ours() && is_absent(&error) => sleep(RESTART_PAUSE).await,
                    result => return result,
                }
            }
        };
        let connected = limit.limit(connecting).await;
        let late = || Failure::ConnectLate(patience);
        connected.map_err(|_| late())?.map_err(|source| not_connected(&self.php.address, source))
    }
}

/// The failure of a request for which no connection to `address` could be made.
fn not_connected(address: &ApplicationAddress, source: io::Error) -> Failure {
    match Errno::from_io_error(&source) {
        Some(Errno::MFILE | Errno::NFILE) => Failure::Pipes(source),
        _ => Failure::Connect { address: address.to_string(), source },
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Gives the place back. Keeps the connection if it is reusable and no other request needs the
/// place.
///
/// The rest of the answer has not been sent yet, so a slow client holds no child. A request waiting
/// on this core goes first: the child gets its next request before the client gets its answer.
async fn finish(
    lease: PoolPermit,
    connection: PhpConnection,
    php: &Arc<Php>,
    result: &Result<Relayed, Broken>,
) {
    if result.is_err() {
        connection.abort(php).await;
        return;
    }
    let may_be_kept = php.persistence == RequestPersistence::Keep && connection.age_ms() < php.age_ms;
    if may_be_kept && connection.may_be_kept().await {
        let mut connection = Some(connection);
        let keep = || with_idle(|idle| idle.keep(php, connection.take().expect("kept once")));
        let lease = lease.finish(keep);
        // Under load many connections are closed here, because other cores wait. The question
        // whether the child works costs system calls, and matters most to a pool that may stop.
        if let Some(connection) = connection
            && php.pool.may_stop()
        {
            connection.close(php);
        }
        drop(lease);
    } else {
        connection.close(php);
        drop(lease);
    }
    if php.pool.has_granted() {
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the notice advised to start the pool.
    #[test]
    fn want_of_descriptors_is_no_fault_of_php() {
        let address = ApplicationAddress::Unix("/run/php.sock".into());
        let failure = |errno: Errno| not_connected(&address, errno.into());
        for errno in [Errno::MFILE, Errno::NFILE] {
            assert!(matches!(failure(errno), Failure::Pipes(_)));
        }
        assert!(matches!(failure(Errno::CONNREFUSED), Failure::Connect { .. }));
    }
}
