//! Sockets that follow their tasks from core to core: nothing is lost, repeated or left open.

use super::{PATIENCE, eventually, until_arrived};
use crate::{
    CoreIndex, DriverOptions, Handle, IoChoice, ListenOptions, More, Pinning, Policy, Runtime, Source,
    TcpListener, TcpStream, core_index, hop, listen, yield_now,
};
use bytes::Bytes;
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream},
    os::fd::OwnedFd,
    sync::{Arc, mpsc},
};

/// Two cores under `policy`, with each driver that this machine offers.
pub(super) fn on_both_drivers(policy: &Policy) -> Vec<Runtime> {
    let allowed = vermeil_io::current_affinity();
    let cpus = [allowed[0], *allowed.last().expect("a process has a cpu")];
    let build = |choice| {
        let io = DriverOptions { choice, ..DriverOptions::default() };
        Runtime::builder().cpus(cpus).pinning(Pinning::Shared).policy(policy.clone()).io(io).build()
    };
    let mut runtimes = vec![build(IoChoice::Epoll).expect("epoll works everywhere")];
    match build(IoChoice::Uring) {
        Ok(uring) => runtimes.push(uring),
        Err(error) => eprintln!("skipped: io_uring: {error}"),
    }
    runtimes
}

/// A connected pair: the socket of the server's side, and the peer.
pub(super) fn pair() -> (OwnedFd, StdStream) {
    let listener = StdListener::bind("127.0.0.1:0").expect("a free port");
    let peer = StdStream::connect(listener.local_addr().expect("it is bound")).expect("a connection");
    let (socket, _) = listener.accept().expect("a connection");
    socket.set_nonblocking(true).expect("non-blocking");
    peer.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    (socket.into(), peer)
}

fn colors(handle: &Handle) -> [crate::Color; 2] {
    [0, 1].map(|core| handle.color_on(CoreIndex(core)))
}

/// The content of a message: each byte depends on the connection, the message and its place.
fn message(connection: usize, number: usize) -> Vec<u8> {
    let length = 1 + (connection * 31 + number * 17) % 300;
    (0..length).map(|at| (connection * 7 + number * 13 + at) as u8).collect()
}

#[test]
fn stream_follows_its_task_to_another_core() {
    for runtime in on_both_drivers(&Policy::None) {
        let handle = runtime.handle();
        let (start, colors) = (handle.color_on(CoreIndex(0)), colors(&handle));
        let (socket, mut peer) = pair();
        let task = handle.spawn_on(&start, async move {
            let stream = TcpStream::new(socket)?;
            let mut heard = Vec::new();
            for round in 0..20 {
                let core = round % 2;
                hop(&colors[core]).await;
                assert_eq!(core_index(), Some(CoreIndex(core as u32)));
                stream.recv(&mut heard).await?;
                stream.send(std::mem::take(&mut heard), Bytes::new(), More::No)?;
                heard = stream.sent().await?;
            }
            stream.recv(&mut heard).await
        });
        for round in 0..20u8 {
            peer.write_all(&[round]).expect("room");
            let mut heard = [0];
            peer.read_exact(&mut heard).expect("an answer");
            assert_eq!(heard, [round]);
        }
        drop(peer);
        assert_eq!(task.wait().expect("it ends").expect("no error"), 0, "the end goes along");
    }
}

/// The task has moved when it sends, and does nothing else with the stream first.
#[test]
fn send_and_shutdown_on_another_core_wait_for_the_stream() {
    for runtime in on_both_drivers(&Policy::None) {
        let handle = runtime.handle();
        let (start, colors) = (handle.color_on(CoreIndex(0)), colors(&handle));
        let (socket, mut peer) = pair();
        let task = handle.spawn_on(&start, async move {
            let stream = TcpStream::new(socket)?;
            let mut expected = Vec::new();
            for round in 0..10u8 {
                hop(&colors[usize::from(round % 2)]).await;
                let body = Bytes::from(vec![round; 50_000]);
                stream.send(vec![round; 10], body, More::No)?;
                let second = stream.send(vec![round], Bytes::new(), More::No);
                assert_eq!(second.expect_err("one at a time").kind(), ErrorKind::ResourceBusy);
                expected.resize(expected.len() + 50_010, round);
                stream.sent().await?;
            }
            hop(&colors[0]).await;
            stream.shutdown_write()?;
            // The shutdown needs no further call.
            std::future::pending::<()>().await;
            std::io::Result::Ok(())
        });
        let mut heard = Vec::new();
        peer.read_to_end(&mut heard).expect("all, and an end");
        assert_eq!(heard.len(), 500_100);
        assert!(heard.chunks(50_010).enumerate().all(|(round, part)| part.iter().all(|&b| b == round as u8)));
        task.cancel();
    }
}

#[test]
fn reader_and_writer_on_two_cores_share_a_stream() {
    const COUNT: usize = 200;
    for runtime in on_both_drivers(&Policy::None) {
        let handle = runtime.handle();
        let [first, second] = colors(&handle);
        let (socket, mut peer) = pair();
        let stream = handle.spawn_on(&first, async move { TcpStream::new(socket).map(Arc::new) });
        let stream = stream.wait().expect("it ends").expect("the driver takes sockets");
        let (reads, writes) = (stream.clone(), stream);
        let reader = handle.spawn_on(&first, async move {
            let mut heard = Vec::new();
            while reads.recv(&mut heard).await? > 0 {}
            std::io::Result::Ok(heard)
        });
        let writer = handle.spawn_on(&second, async move {
            for number in 0..COUNT {
                writes.send(message(1, number), Bytes::new(), More::No)?;
                writes.sent().await?;
                yield_now().await;
            }
            std::io::Result::Ok(())
        });
        let mut sends = peer.try_clone().expect("a descriptor");
        let sender = std::thread::spawn(move || {
            for number in 0..COUNT {
                sends.write_all(&message(2, number)).expect("room");
            }
            sends.shutdown(std::net::Shutdown::Write).expect("shutdown");
        });
        let all = |connection| (0..COUNT).flat_map(|number| message(connection, number)).collect::<Vec<_>>();
        let mut heard = vec![0; all(1).len()];
        peer.read_exact(&mut heard).expect("all messages");
        assert!(heard == all(1));
        sender.join().expect("it sends");
        writer.wait().expect("it ends").expect("no error");
        assert!(reader.wait().expect("it ends").expect("no error") == all(2));
    }
}

#[test]
fn stream_that_is_dropped_during_a_move_is_closed() {
    for runtime in on_both_drivers(&Policy::None) {
        let handle = runtime.handle();
        let [first, second] = colors(&handle);
        for round in 0..50 {
            let (socket, mut peer) = pair();
            let there = second.clone();
            let task = handle.spawn_on(&first, async move {
                let stream = TcpStream::new(socket).expect("the driver takes sockets");
                let mut heard = Vec::new();
                std::future::poll_fn(|context| {
                    assert!(stream.poll_recv(context, &mut heard).is_pending());
                    std::task::Poll::Ready(())
                })
                .await;
                hop(&there).await;
                std::future::poll_fn(|context| {
                    let _ = stream.poll_recv(context, &mut heard);
                    std::task::Poll::Ready(())
                })
                .await;
                for _ in 0..round % 5 {
                    yield_now().await;
                }
                drop(stream);
            });
            task.wait().expect("it ends");
            assert_eq!(peer.read(&mut [0]).expect("an end"), 0, "round {round}");
        }
    }
}

/// Polls a receive once and forgets it.
async fn receives_once(stream: &TcpStream) {
    let mut heard = Vec::new();
    std::future::poll_fn(|context| {
        assert!(stream.poll_recv(context, &mut heard).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
}

/// Regression: a drop of the stream before the driver had the send ended the connection in order,
/// so the peer took the bytes so far for all bytes.
#[test]
fn drop_before_a_queued_send_resets() {
    for runtime in on_both_drivers(&Policy::None) {
        let handle = runtime.handle();
        let [first, second] = colors(&handle);
        for waits_for_detach in [false, true] {
            let (socket, mut peer) = pair();
            let (there, beside) = (second.clone(), handle.clone());
            let begin = first.clone();
            let task = handle.spawn_on(&first, async move {
                let stream = TcpStream::new(socket).expect("the driver takes sockets");
                hop(&there).await;
                stream.send(b"all".to_vec(), Bytes::new(), More::No).expect("the send is queued");
                if waits_for_detach {
                    // The other core carries out its requests before a later event. This core is
                    // busy, so it does not attach the stream.
                    let (done, is_done) = mpsc::channel();
                    drop(beside.spawn_on(&begin, async move {
                        yield_now().await;
                        crate::yield_turn().await;
                        done.send(()).expect("the task waits");
                    }));
                    is_done.recv_timeout(PATIENCE).expect("the other core runs");
                }
                drop(stream);
            });
            task.wait().expect("it ends");
            let end = peer.read(&mut [0]).map_err(|error| error.kind());
            assert_eq!(end, Err(ErrorKind::ConnectionReset), "after the detach: {waits_for_detach}");
        }
    }
}

/// Regression: a queued send that the next driver refused, because the send before it had not been
/// awaited, was missing before a clean end.
#[test]
fn drop_after_a_refused_queued_send_resets() {
    for runtime in on_both_drivers(&Policy::None) {
        let handle = runtime.handle();
        let [first, second] = colors(&handle);
        let (socket, mut peer) = pair();
        let task = handle.spawn_on(&first, async move {
            let stream = TcpStream::new(socket)?;
            stream.send(b"first".to_vec(), Bytes::new(), More::No)?;
            hop(&second).await;
            stream.send(b"late".to_vec(), Bytes::new(), More::No)?;
            let refused = stream.sent().await.expect_err("the first send was not awaited");
            std::io::Result::Ok(refused.kind())
        });
        assert_eq!(task.wait().expect("it ends").expect("no error"), ErrorKind::ResourceBusy);
        let end = peer.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert_eq!(end, Err(ErrorKind::ConnectionReset));
    }
}

/// Regression: a task that waits in the driver in the same direction as a cancelled task of another
/// core slept for ever, because only the cancelled task was woken.
#[test]
fn reader_is_woken_beside_a_cancelled_reader_of_another_core() {
    for runtime in on_both_drivers(&Policy::None) {
        let handle = runtime.handle();
        let [first, second] = colors(&handle);
        let (socket, mut peer) = pair();
        let stream = handle.spawn_on(&first, async move { TcpStream::new(socket).map(Arc::new) });
        let stream = stream.wait().expect("it ends").expect("the driver takes sockets");
        let (asks, reads) = (stream.clone(), stream);
        let (heard, is_heard) = mpsc::channel();
        let (beside, waiting) = (handle.clone(), mpsc::channel());
        drop(handle.spawn_on(&first, async move {
            // This core is busy until the other core has asked, so the stream is still here.
            drop(beside.spawn_on(&second, async move {
                receives_once(&asks).await;
                drop(asks);
                waiting.0.send(()).expect("the reader waits");
            }));
            waiting.1.recv_timeout(PATIENCE).expect("the other core asks");
            let mut bytes = Vec::new();
            let count = reads.recv(&mut bytes).await;
            let _ = heard.send(count.expect("no error"));
        }));
        // After the stream has left its driver.
        let handle = runtime.handle();
        for _ in 0..3 {
            handle.spawn_on(&first, async { crate::yield_turn().await }).wait().expect("it ends");
        }
        peer.write_all(b"x").expect("room");
        assert_eq!(is_heard.recv_timeout(PATIENCE), Ok(1), "the reader is woken");
    }
}

/// Sets a flag.
#[derive(Default)]
struct WokenFlag(std::sync::atomic::AtomicBool);

impl std::task::Wake for WokenFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Regression: a core that ended dropped a request to attach a stream, and the task that waited in
/// the stream slept for ever.
#[test]
fn stream_that_an_ended_core_should_attach_goes_to_its_reader() {
    use crate::home_core::{AttachRequest, CoreRequest, HomeCore, Moves};
    use vermeil_queue::{ComeOutcome, DetachOutcome, OwnWaiters};
    for ends_first in [false, true] {
        let mut driver = vermeil_io::Driver::new(&DriverOptions::default()).expect("a driver");
        let [here, there] = [0, 1].map(|core| HomeCore::new(CoreIndex(core), driver.unparker()));
        let (socket, _peer) = pair();
        let key = driver.add_stream(socket).expect("the driver takes sockets");
        let woken = Arc::new(WokenFlag::default());
        let waker = std::task::Waker::from(woken.clone());
        let mut context = std::task::Context::from_waker(&waker);
        assert!(driver.poll_recv(&mut context, key, &mut Vec::new()).is_pending());
        let moves = Moves::new(here.clone(), key.into());
        assert!(matches!(moves.attachment.come(&there, None), ComeOutcome::Ask(..)));
        assert!(driver.detach(key.into()));
        let object = loop {
            match driver.take_detached() {
                Some((_, object)) => break object,
                None => drop(driver.turn(Some(PATIENCE)).expect("a turn")),
            }
        };
        let outcome = moves.attachment.detached(object, |object, asked| OwnWaiters {
            needs_driver: object.needs_driver(asked),
            asked_too: object.take_waiters(asked),
        });
        assert!(matches!(outcome, DetachOutcome::Send(_)));
        if ends_first {
            there.end();
        }
        assert_eq!(there.leave(CoreRequest::Attach(AttachRequest::new(moves.clone()))), !ends_first);
        there.end();
        assert!(woken.0.load(std::sync::atomic::Ordering::Relaxed), "the reader is woken");
        assert!(matches!(moves.attachment.come(&here, None), ComeOutcome::Attach(_)));
    }
}

#[test]
fn listener_and_source_follow_their_task() {
    for runtime in on_both_drivers(&Policy::None) {
        let handle = runtime.handle();
        let (start, colors) = (handle.color_on(CoreIndex(0)), colors(&handle));
        let socket = listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
        let address = StdListener::from(socket.try_clone().unwrap()).local_addr().unwrap();
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let (done, is_done) = mpsc::channel();
        let task = handle.spawn_on(&start, async move {
            let (listener, source) = (TcpListener::new(socket)?, Source::new(OwnedFd::from(reader))?);
            for round in 0..10 {
                hop(&colors[round % 2]).await;
                drop(listener.accept().await?);
                source.readable().await?;
                let read = source.with_fd(|fd| rustix::io::read(fd, &mut [0; 8]))?;
                assert_eq!(read, Ok(1));
                done.send(()).expect("the test waits");
            }
            std::io::Result::Ok(())
        });
        for _ in 0..10 {
            drop(StdStream::connect(address).expect("a connection"));
            writer.write_all(b"x").expect("room");
            is_done.recv_timeout(PATIENCE).expect("the task has both");
        }
        task.wait().expect("it ends").expect("no error");
    }
}

#[test]
fn stream_comes_for_its_address_after_move_here() {
    for runtime in on_both_drivers(&Policy::None) {
        let handle = runtime.handle();
        let [first, second] = colors(&handle);
        let (socket, peer) = pair();
        let task = handle.spawn_on(&first, async move {
            let stream = TcpStream::new(socket)?;
            hop(&second).await;
            let early = stream.with_fd(|_| ()).expect_err("the stream is on the other core");
            assert_eq!(early.kind(), ErrorKind::WouldBlock);
            assert!(early.to_string().contains("move_here"), "{early}");
            stream.move_here().await?;
            stream.with_fd(vermeil_io::peer_addr)?
        });
        let address = task.wait().expect("it ends").expect("no error").expect("a TCP address");
        assert_eq!(address, peer.local_addr().expect("a TCP address"));
    }
}

/// Regression: with io_uring, the first try on a stream from another core found no bytes.
#[test]
fn try_recv_finds_bytes_after_move_here() {
    for runtime in on_both_drivers(&Policy::None) {
        let handle = runtime.handle();
        let [first, second] = colors(&handle);
        let (socket, mut peer) = pair();
        let task = handle.spawn_on(&first, async move {
            let stream = TcpStream::new(socket)?;
            hop(&second).await;
            stream.move_here().await?;
            peer.write_all(b"abc")?;
            until_arrived(&stream);
            crate::yield_turn().await;
            stream.try_recv(&mut Vec::new())
        });
        assert_eq!(task.wait().expect("it ends").expect("no error"), Some(3));
    }
}

/// Regression: a stream knew its core by index alone. On the same core of another runtime the
/// stream reached, and closed, that runtime's socket.
#[test]
fn stream_moves_to_another_runtime() {
    let two = || on_both_drivers(&Policy::None).into_iter();
    for (one, other) in two().zip(two().rev()) {
        let (socket, mut peer) = pair();
        let handle = one.handle();
        let stream = handle.spawn_on(&colors(&handle)[0], async move { TcpStream::new(socket) });
        let stream = stream.wait().expect("it ends").expect("the driver takes sockets");
        peer.write_all(b"question").expect("room");
        let handle = other.handle();
        let task = handle.spawn_on(&colors(&handle)[0], async move {
            let mut heard = Vec::new();
            while heard.len() < 8 {
                stream.recv(&mut heard).await?;
            }
            stream.send(heard, Bytes::new(), More::No)?;
            stream.sent().await
        });
        task.wait().expect("it ends").expect("no error");
        let mut heard = [0; 8];
        peer.read_exact(&mut heard).expect("an answer");
        assert_eq!(&heard, b"question");
    }
}

#[test]
fn stream_of_a_runtime_that_has_ended_is_closed() {
    let two = || on_both_drivers(&Policy::None).into_iter();
    for (one, other) in two().zip(two()) {
        let (socket, _peer) = pair();
        let handle = one.handle();
        let stream = handle.spawn_on(&colors(&handle)[0], async move { TcpStream::new(socket) });
        let stream = stream.wait().expect("it ends").expect("the driver takes sockets");
        drop(one);
        let task = other.handle().spawn(async move { stream.recv(&mut Vec::new()).await });
        let error = task.wait().expect("it ends").expect_err("its driver is gone");
        assert_eq!(error.kind(), ErrorKind::NotConnected);
    }
}

async fn echo(socket: OwnedFd) -> std::io::Result<()> {
    let stream = TcpStream::new(socket)?;
    let mut heard = Vec::new();
    while stream.recv(&mut heard).await? > 0 {
        stream.send(std::mem::take(&mut heard), Bytes::new(), More::No)?;
        heard = stream.sent().await?;
    }
    Ok(())
}

async fn serve(handle: Handle, listener: TcpListener) {
    while let Ok(socket) = listener.accept().await {
        drop(handle.spawn_on(&handle.color(), echo(socket)));
    }
}

/// Asks and compares the answers.
async fn ask(address: SocketAddr, connection: usize, messages: usize) -> std::io::Result<()> {
    let stream = TcpStream::connect(address).await?;
    let mut heard = Vec::new();
    for number in 0..messages {
        let asked = message(connection, number);
        stream.send(asked.clone(), Bytes::new(), More::No)?;
        stream.sent().await?;
        while heard.len() < asked.len() {
            if stream.recv(&mut heard).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        if heard != asked {
            return Err(ErrorKind::InvalidData.into());
        }
        heard.clear();
    }
    Ok(())
}

/// Echoes under `scatter`, which moves every color at every activation.
fn all_bytes_arrive(connections: usize, messages: usize) {
    for runtime in on_both_drivers(&Policy::Scatter) {
        let handle = runtime.handle();
        let socket = listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
        let address = StdListener::from(socket.try_clone().unwrap()).local_addr().unwrap();
        let serving = handle.clone();
        let server = handle.spawn_on(&handle.color(), async move {
            let listener = TcpListener::new(socket).expect("the driver takes listeners");
            serve(serving, listener).await;
        });
        let clients: Vec<_> = (0..connections)
            .map(|connection| handle.spawn_on(&handle.color(), ask(address, connection, messages)))
            .collect();
        for client in clients {
            client.wait().expect("it ends").expect("byte for byte");
        }
        let moves = handle.snapshot().cores.iter().map(|core| core.moves).sum::<u64>();
        assert!(moves > (connections * messages) as u64, "{moves} moves: tasks move all the time");
        server.cancel();
    }
}

#[test]
fn all_bytes_arrive_while_every_color_moves() {
    all_bytes_arrive(20, 100);
}

#[test]
#[ignore = "a million messages take minutes"]
fn million_messages_arrive_while_every_color_moves() {
    all_bytes_arrive(1000, 1000);
}

#[test]
fn moves_leave_no_descriptor_open() {
    for runtime in on_both_drivers(&Policy::Scatter) {
        let handle = runtime.handle();
        let (socket, mut peer) = pair();
        let task = handle.spawn_on(&handle.color(), echo(socket));
        for number in 0..20 {
            let asked = message(3, number);
            peer.write_all(&asked).expect("room");
            let mut heard = vec![0; asked.len()];
            peer.read_exact(&mut heard).expect("an answer");
            assert_eq!(heard, asked);
        }
        peer.shutdown(std::net::Shutdown::Write).expect("shutdown");
        task.wait().expect("it ends").expect("no error");
        assert_eq!(peer.read(&mut [0]).expect("an end"), 0);
        let streams = || {
            let count =
                || crate::core::current(|core| core.io.driver.borrow().stream_count()).expect("a core");
            let counts = colors(&handle).map(|color| handle.spawn_on(&color, async move { count() }));
            counts.map(|count| count.wait().expect("it ends")).iter().sum::<usize>()
        };
        eventually("the drivers have no stream any more", || streams() == 0);
    }
}
