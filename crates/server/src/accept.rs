//! Accepting: one task per core and listener, which makes each connection a task on a color of its
//! own. The color may move to another core while the connection waits for a request.
//!
//! At the bound of connections, a connection that waits for its client alone gives way
//! (`connections.rs`). If no connection gives way, the core stops accepting until one ends. The
//! server refuses a client address that holds its share already. Without free descriptors, the task
//! waits a moment and logs a notice. The task never spins in these cases and never closes the
//! listener. `admission_control.rs` watches how long connections wait to be accepted.
//!
//! Once a second the core also looks at its listeners without being woken ([`accept_unannounced`]).
//! Tested in `crates/e2e/tests/e2e/activation.rs`.

use crate::{
    admission, handshake,
    request_loop::{self, ConnectionStart},
};
use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};
use vermeil::{CoreIndex, Handle, TcpListener, TcpStream, sleep, yield_now, yield_turn};
use vermeil_accept::{admission_control::Admission, balance::Accepted};
use vermeil_address::ListenAddr;
use vermeil_connection::client_stream::ClientStream;
use vermeil_io::{accept_queued, current_cpu, has_queued, incoming_cpu, incoming_queue};
use vermeil_log::NoticeKind;
use vermeil_routing::clients::Visit;
use vermeil_settings::BusyPoll;
use vermeil_state::core_context::{self, ConnectionPermit, CoreListener};

/// How long a core waits after accepting failed for lack of descriptors or memory, because the
/// kernel does not report a free descriptor. A core then makes twenty attempts per second.
const RETRY: Duration = Duration::from_millis(50);

/// Connections that a core accepts before it serves the accepted ones. Without this bound, up to
/// two hundred connections stood between the bounded queue and the answer. At some microseconds
/// each, sixteen accepts delay the answers by less than 100 µs.
const IN_A_ROW: u32 = 16;

/// Accepts until the listener is closed.
pub(crate) async fn accept(handle: Handle, core: CoreIndex, addr: ListenAddr, listener: Arc<TcpListener>) {
    let mut accepted = 0;
    loop {
        core_context::prospect().await;
        accepted += 1;
        if accepted % IN_A_ROW == 0 {
            yield_turn().await;
        }
        match listener.accept().await {
            Ok(socket) => {
                core_context::vacancy().await;
                if let Err(error) = start(&handle, core, addr, socket, Accepted::Own) {
                    trouble(&error).await;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                return core_context::with(|local| local.sockets.accepting -= 1);
            }
            Err(error) => trouble(&error).await,
        }
    }
}

/// Accepts the connections that wait at this core's listeners without the kernel's waking the core.
///
/// Of all io_urings that accept from a socket, the kernel wakes one. After the kill of a process
/// that had the same socket, the process's io_uring waits there until a thread of the kernel has
/// removed it. On a busy machine a new instance begins before that. The dead io_uring then takes
/// the wake-up of a connection, and the connection would wait until the next one comes.
pub(crate) async fn accept_unannounced(handle: &Handle, core: CoreIndex) {
    let own = |listener: &CoreListener| (listener.addr, listener.listener.clone());
    let listeners: Vec<_> = core_context::with(|local| local.sockets.listeners.iter().map(own).collect());
    for (addr, listener) in listeners {
        let is_queued = || matches!(listener.with_fd(has_queued), Ok(Ok(true)));
        if !is_queued() {
            continue;
        }
        // The core looks at its I/O, so the accepting task takes what the kernel has announced.
        yield_turn().await;
        let accept_one = || {
            // The accepting task logs errors of accepting.
            let Ok(Ok(Some(socket))) = listener.with_fd(accept_queued) else { return false };
            start(handle, core, addr, socket, Accepted::Own).inspect_err(say_trouble).is_ok()
        };
        take_queued(is_queued, accept_one).await;
    }
}

/// Accepts while connections are queued and the core has room, or until `accept_one` fails.
pub(crate) async fn take_queued(is_queued: impl Fn() -> bool, accept_one: impl Fn() -> bool) {
    let mut taken = 0;
    while is_queued() && core_context::makes_room().await && accept_one() {
        taken += 1;
        if taken % IN_A_ROW == 0 {
            yield_now().await;
        }
    }
}

/// Makes a connection at the listener `addr` a task of this core, or refuses it.
///
/// # Errors
/// The driver refuses the descriptor.
pub(crate) fn start(
    handle: &Handle,
    core: CoreIndex,
    addr: ListenAddr,
    socket: OwnedFd,
    how: Accepted,
) -> io::Result<()> {
    let tls = core_context::with(|local| local.server.tls.clone().filter(|tls| tls.is_spoken_at(addr)));
    let admission = admission::admit(&socket);
    let left = match admission {
        Admission::Serve => Some(socket),
        // A client that speaks TLS reads no answer before a handshake, which costs more than
        // serving.
        Admission::Refuse if tls.is_some() => None,
        Admission::Refuse => admission::refuse(socket),
        Admission::Drop => None,
    };
    let Some(socket) = left else {
        core_context::with(|local| local.server.balancing.count(core.0 as usize, how));
        return Ok(());
    };
    let Ok(visit) = visit(&socket, addr) else {
        if tls.is_none() {
            admission::refuse_client(socket);
        }
        core_context::with(|local| local.server.balancing.count(core.0 as usize, how));
        return Ok(());
    };
    let stream = TcpStream::new(socket)?;
    count(core.0 as usize, &stream, how);
    let permit = ConnectionPermit::take(visit);
    match tls {
        None => {
            let stream = ClientStream::plain(stream);
            let start = ConnectionStart::default();
            drop(handle.spawn_staying(core, request_loop::serve(stream, permit, admission, start)));
        }
        Some(tls) => {
            let serve = handshake::serve(stream, permit, tls, addr);
            drop(handle.spawn_staying_in_background(core, serve));
        }
    }
    Ok(())
}

/// The client address of a connection already holds the maximum.
struct ClientIsFull;

/// Counts a connection at the listener `addr` for its client. Returns `None` if clients have no
/// bound.
fn visit(socket: &OwnedFd, addr: ListenAddr) -> Result<Option<Visit>, ClientIsFull> {
    core_context::with(|local| {
        let Some(max) = local.server.clients.bound.connections_max else { return Ok(None) };
        // The header of the PROXY protocol names the client.
        if local.hosts.hosts().proxies().announce_at(Some(addr)) {
            return Ok(None);
        }
        // A client that has gone already holds nothing.
        // Nor does a proxy of this machine count, because all its clients are one.
        let Ok(Some(peer)) = vermeil_io::peer_addr(socket.as_fd()) else { return Ok(None) };
        local.server.visit(peer.ip(), max).map(Some).ok_or(ClientIsFull)
    })
}

fn count(core: usize, stream: &TcpStream, how: Accepted) {
    core_context::with(|local| {
        let balancing = &local.server.balancing;
        balancing.count(core, how);
        if balancing.is_sample(core)
            && let Ok(Ok(Some(cpu))) = stream.with_fd(incoming_cpu)
        {
            let here = cpu == current_cpu();
            balancing.count(core, if here { Accepted::SampledHere } else { Accepted::SampledElsewhere });
            if local.server.busy_poll == BusyPoll::Load
                && let Ok(Ok(queue)) = stream.with_fd(incoming_queue)
            {
                local.polling.see(queue);
            }
        }
    });
}

async fn trouble(error: &io::Error) {
    say_trouble(error);
    sleep(RETRY).await;
}

/// Logs why a connection could not be accepted.
pub(crate) fn say_trouble(error: &io::Error) {
    core_context::with(|local| {
        local.server.notices.say(
            NoticeKind::AcceptTrouble,
            format_args!(
                "cannot accept a connection: {error}; trying again (raise the limit of open files?)"
            ),
        );
    });
}
