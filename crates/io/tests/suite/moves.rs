//! Objects that leave a driver for another driver: bytes, ends, sends and waiting tasks go along.

use std::future::poll_fn;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use vermeil_io::{DriverKey, DriverOptions, ListenerKey, More, ObjectKey, SourceKey, StreamKey};

use super::{DEADLINE, DriverWorld, MakeDriver, pattern, poll_once};

/// Moves an object. The old driver turns until the object has left.
fn moved<K: DriverKey>(key: K, from: &DriverWorld, to: &DriverWorld) -> K {
    let key: ObjectKey = key.into();
    assert!(from.driver.borrow_mut().detach(key), "the key is fresh");
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some((left, object)) = from.driver.borrow_mut().take_detached() {
            assert_eq!(left, key);
            let key = to.driver.borrow_mut().attach(object).expect("the driver takes the object");
            return K::from_bits(key.bits());
        }
        let patience = deadline.saturating_duration_since(Instant::now());
        assert!(!patience.is_zero(), "the object does not leave");
        from.driver.borrow_mut().turn(Some(patience)).expect("turn");
    }
}

fn two(make: &MakeDriver, options: &DriverOptions) -> [DriverWorld; 2] {
    [make(options.clone()), make(options.clone())]
}

fn receives(world: &DriverWorld, key: StreamKey, heard: &mut Vec<u8>) -> Poll<std::io::Result<usize>> {
    poll_once(|cx| world.driver.borrow_mut().poll_recv(cx, key, heard))
}

/// Receives until `count` bytes have come.
fn hears(world: &DriverWorld, key: StreamKey, count: usize) -> Vec<u8> {
    let working = world.clone();
    world.run(async move {
        let mut heard = Vec::new();
        while heard.len() < count {
            assert!(working.recv(key, &mut heard).await.expect("bytes") > 0, "the stream goes on");
        }
        heard
    })
}

/// Bytes arrive before the move, during the move and after the move.
pub(crate) fn received_bytes_go_along(make: &MakeDriver) {
    let worlds = two(make, &DriverOptions::default());
    let (mut key, mut peer) = worlds[0].connected();
    for round in 0..20 {
        let (from, to) = (&worlds[round % 2], &worlds[(round + 1) % 2]);
        assert!(receives(from, key, &mut Vec::new()).is_pending());
        from.nudge();
        peer.write_all(b"one ").expect("room");
        if round % 3 != 0 {
            from.nudge();
        }
        assert!(from.driver.borrow_mut().detach(key.into()));
        peer.write_all(b"two ").expect("room");
        let object = loop {
            if let Some((_, object)) = from.driver.borrow_mut().take_detached() {
                break object;
            }
            from.nudge();
        };
        peer.write_all(b"three").expect("room");
        let attached = to.driver.borrow_mut().attach(object).expect("attach");
        let ObjectKey::Stream(attached) = attached else { panic!("a stream stays a stream") };
        key = attached;
        assert_eq!(hears(to, key, 13), b"one two three", "round {round}");
        assert_eq!(from.driver.borrow().stream_count(), 0);
    }
}

pub(crate) fn end_and_error_go_along(make: &MakeDriver) {
    for resets in [false, true] {
        let [first, second] = two(make, &DriverOptions::default());
        let (key, mut peer) = first.connected();
        assert!(receives(&first, key, &mut Vec::new()).is_pending());
        first.nudge();
        peer.write_all(b"last").expect("room");
        if resets {
            socket_resets(peer);
        } else {
            drop(peer);
        }
        first.nudge();
        let key = moved(moved(key, &first, &second), &second, &first);
        let working = first.clone();
        let (heard, end) = first.run(async move {
            let mut heard = Vec::new();
            let end = loop {
                match working.recv(key, &mut heard).await {
                    Ok(0) => break None,
                    Ok(_) => {}
                    Err(error) => break Some(error.kind()),
                }
            };
            (heard, end)
        });
        if resets {
            assert_eq!(end, Some(ErrorKind::ConnectionReset));
        } else {
            assert_eq!((heard.as_slice(), end), (&b"last"[..], None));
        }
    }
}

fn socket_resets(peer: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&peer, Some(std::time::Duration::ZERO)).expect("linger");
    drop(peer);
}

/// A task that waits in the old driver is woken by the new driver.
pub(crate) fn waiting_reader_is_woken_by_the_new_driver(make: &MakeDriver) {
    let [first, second] = two(make, &DriverOptions::default());
    let (key, mut peer) = first.connected();
    let (woken, waits) = (super::Flag::new(), first.clone());
    let waker = woken.waker();
    let mut heard = Vec::new();
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(waits.driver.borrow_mut().poll_recv(&mut cx, key, &mut heard).is_pending());
    first.nudge();
    let key = moved(key, &first, &second);
    peer.write_all(b"x").expect("room");
    let deadline = Instant::now() + DEADLINE;
    while !woken.is_set() {
        assert!(Instant::now() < deadline, "the waiting task is woken");
        second.driver.borrow_mut().turn(Some(DEADLINE)).expect("turn");
    }
    assert_eq!(hears(&second, key, 1), b"x");
}

/// A send that the peer does not read goes on at each driver where it was interrupted.
pub(crate) fn blocked_send_resumes_after_move(make: &MakeDriver) {
    let worlds = two(make, &DriverOptions::default());
    let (mut key, mut peer) = worlds[0].connected();
    let message = pattern(12 << 20, 5);
    let (head, body) = message.split_at(3 << 20);
    let body = Bytes::copy_from_slice(body);
    worlds[0].driver.borrow_mut().start_send(key, head.to_vec(), body, More::No).expect("the first send");
    let mut heard = vec![0; message.len()];
    let (mut at, mut round) = (0, 0);
    while at < 8 << 20 {
        key = moved(key, &worlds[round % 2], &worlds[(round + 1) % 2]);
        round += 1;
        // Some bytes of the new driver leave before the next move.
        worlds[round % 2].nudge();
        let part = (200 << 10).min(message.len() - at);
        peer.read_exact(&mut heard[at..at + part]).expect("bytes");
        at += part;
    }
    let reader = std::thread::spawn(move || {
        peer.read_exact(&mut heard[at..]).expect("the rest");
        heard
    });
    let last = worlds[round % 2].clone();
    worlds[round % 2].run(async move { last.sent(key).await.expect("sent") });
    assert!(reader.join().expect("reader") == message, "byte for byte after {round} moves");
}

/// The next send begins after the rest of the send before.
pub(crate) fn sends_keep_their_order(make: &MakeDriver) {
    let worlds = two(make, &DriverOptions::default());
    let (mut key, mut peer) = worlds[0].connected();
    let mut expected = Vec::new();
    for round in 0..40u8 {
        let [from, to] = [usize::from(round % 2), usize::from((round + 1) % 2)];
        let message = vec![round; 1000];
        expected.extend_from_slice(&message);
        let sends = worlds[from].driver.borrow_mut().start_send(key, message, Bytes::new(), More::No);
        sends.expect("the send before was awaited");
        if round % 3 == 0 {
            worlds[from].nudge();
        }
        key = moved(key, &worlds[from], &worlds[to]);
        let working = worlds[to].clone();
        worlds[to].run(async move { working.sent(key).await.expect("sent") });
    }
    let mut heard = vec![0; expected.len()];
    peer.read_exact(&mut heard).expect("all bytes");
    assert_eq!(heard, expected);
}

pub(crate) fn drop_between_two_drivers_closes(make: &MakeDriver) {
    let first = make(DriverOptions::default());
    for sends in [false, true] {
        let (key, mut peer) = first.connected();
        if sends {
            let big = pattern(12 << 20, 1);
            first.driver.borrow_mut().start_send(key, big, Bytes::new(), More::No).expect("the send");
        }
        first.nudge();
        assert!(first.driver.borrow_mut().detach(key.into()));
        let object = loop {
            if let Some((_, object)) = first.driver.borrow_mut().take_detached() {
                break object;
            }
            first.nudge();
        };
        drop(object);
        let end = peer.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        match end {
            Ok(count) => assert!(!sends && count == 0, "a part is no whole"),
            Err(kind) => assert!(sends && kind == ErrorKind::ConnectionReset, "{kind}"),
        }
    }
}

/// A task that waits for an object learns that no driver gets the object any more.
pub(crate) fn drop_between_two_drivers_wakes_the_waiting_task(make: &MakeDriver) {
    let first = make(DriverOptions::default());
    let (stream, _peer) = first.connected();
    let (listener, _) = first.listen();
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let source = first.driver.borrow_mut().add_source(OwnedFd::from(reader)).expect("source");
    let keys: [ObjectKey; 3] = [stream.into(), listener.into(), source.into()];
    for key in keys {
        let woken = super::Flag::new();
        let waker = woken.waker();
        let mut cx = std::task::Context::from_waker(&waker);
        {
            let mut driver = first.driver.borrow_mut();
            let is_pending = match key {
                ObjectKey::Stream(key) => driver.poll_recv(&mut cx, key, &mut Vec::new()).is_pending(),
                ObjectKey::Listener(key) => driver.poll_accept(&mut cx, key).is_pending(),
                ObjectKey::Source(key) => driver.poll_readable(&mut cx, key).is_pending(),
            };
            assert!(is_pending);
            assert!(driver.detach(key));
        }
        let object = loop {
            if let Some((_, object)) = first.driver.borrow_mut().take_detached() {
                break object;
            }
            first.nudge();
        };
        assert!(!woken.is_set(), "{key:?}");
        drop(object);
        assert!(woken.is_set(), "{key:?}");
    }
}

pub(crate) fn listener_keeps_its_connections(make: &MakeDriver) {
    let [first, second] = two(make, &DriverOptions::default());
    let (mut key, addr) = first.listen();
    let accepts = |world: &DriverWorld, key: ListenerKey| {
        poll_once(|cx| world.driver.borrow_mut().poll_accept(cx, key))
    };
    assert!(accepts(&first, key).is_pending());
    first.nudge();
    let mut peers: Vec<_> = (0..5).map(|_| TcpStream::connect(addr).expect("connect")).collect();
    first.nudge();
    key = moved(key, &first, &second);
    peers.extend((0..5).map(|_| TcpStream::connect(addr).expect("connect")));
    let working = second.clone();
    let accepted = second.run(async move {
        let mut accepted = Vec::new();
        for _ in 0..10 {
            accepted.push(working.accept_fd(key).await.expect("a connection"));
        }
        accepted
    });
    assert_eq!(accepted.len(), peers.len());
    assert!(!first.driver.borrow_mut().detach(key.into()), "the old driver has nothing any more");
}

pub(crate) fn source_moves_with_its_waiting_task(make: &MakeDriver) {
    let worlds = two(make, &DriverOptions::default());
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let mut key: SourceKey = worlds[0].driver.borrow_mut().add_source(OwnedFd::from(reader)).expect("source");
    for round in 0..6 {
        let (from, to) = (worlds[round % 2].clone(), worlds[(round + 1) % 2].clone());
        assert!(poll_once(|cx| from.driver.borrow_mut().poll_readable(cx, key)).is_pending());
        from.nudge();
        key = moved(key, &from, &to);
        writer.write_all(b"x").expect("room");
        let working = to.clone();
        to.run(async move {
            working.readable(key).await.expect("readable");
            let mut byte = [0];
            let driver = working.driver.borrow();
            assert_eq!(rustix::io::read(driver.source_fd(key), &mut byte), Ok(1));
        });
    }
}

/// Regression: the new driver forgot the readiness and asked again, so a task that moved at each
/// wake-up waited for ever.
pub(crate) fn reported_readiness_goes_along(make: &MakeDriver) {
    let worlds = two(make, &DriverOptions::default());
    let (ours, mut peer) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let key = worlds[0].driver.borrow_mut().add_source(ours.into()).expect("source");
    assert!(poll_once(|cx| worlds[0].driver.borrow_mut().poll_readable(cx, key)).is_pending());
    assert!(poll_once(|cx| worlds[0].driver.borrow_mut().poll_writable(cx, key)).is_pending());
    peer.write_all(b"x").expect("room");
    worlds[0].nudge();
    let key = moved(key, &worlds[0], &worlds[1]);
    assert!(poll_once(|cx| worlds[1].driver.borrow_mut().poll_readable(cx, key)).is_ready());
    assert!(poll_once(|cx| worlds[1].driver.borrow_mut().poll_writable(cx, key)).is_ready());
}

pub(crate) fn source_reports_room(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (ours, mut peer) = std::os::unix::net::UnixStream::pair().expect("a pair");
    ours.set_nonblocking(true).expect("non-blocking");
    let fills = ours.try_clone().expect("a descriptor");
    let key = world.driver.borrow_mut().add_source(ours.into()).expect("source");
    let mut sent = 0;
    while let Ok(count) = (&fills).write(&[7; 4096]) {
        sent += count;
    }
    assert!(poll_once(|cx| world.driver.borrow_mut().poll_writable(cx, key)).is_pending());
    // Both directions at once.
    assert!(poll_once(|cx| world.driver.borrow_mut().poll_readable(cx, key)).is_pending());
    world.nudge();
    peer.write_all(b"x").expect("room");
    let working = world.clone();
    world.run(async move { working.readable(key).await.expect("readable") });
    peer.read_exact(&mut vec![0; sent]).expect("all");
    let working = world.clone();
    world.run(async move {
        poll_fn(|cx| working.driver.borrow_mut().poll_writable(cx, key)).await.expect("writable")
    });
}

/// Both directions are busy, and each turn may be followed by a move.
pub(crate) fn echo_survives_a_move_at_every_step(make: &MakeDriver) {
    let options = DriverOptions { recv_buffers: 8, recv_buffer_bytes: 512, ..DriverOptions::default() };
    let worlds = two(make, &options);
    let (mut key, peer) = worlds[0].connected();
    let message = pattern(1 << 20, 9);
    let (sends, mut hears, expected) = (peer.try_clone().expect("clone"), peer, message.clone());
    let writer = std::thread::spawn(move || {
        let mut sends = sends;
        for part in message.chunks(1234) {
            sends.write_all(part).expect("room");
        }
        sends.shutdown(Shutdown::Write).expect("shutdown");
    });
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        hears.read_to_end(&mut all).map(|_| all)
    });
    let (mut at, mut waiting, mut heard) = (0, Vec::new(), Vec::new());
    let (mut is_sending, mut has_ended, mut moves) = (false, false, 0u32);
    let deadline = Instant::now() + DEADLINE;
    loop {
        assert!(Instant::now() < deadline, "nothing is lost");
        let world = &worlds[at];
        if is_sending && let Poll::Ready(sent) = poll_once(|cx| world.driver.borrow_mut().poll_sent(cx, key))
        {
            sent.expect("sent");
            is_sending = false;
        }
        if !has_ended
            && waiting.len() < 64 << 10
            && let Poll::Ready(count) = receives(world, key, &mut heard)
        {
            has_ended = count.expect("received") == 0;
            waiting.append(&mut heard);
        }
        if !is_sending && !waiting.is_empty() {
            let part = std::mem::take(&mut waiting);
            world.driver.borrow_mut().start_send(key, part, Bytes::new(), More::No).expect("one at a time");
            is_sending = true;
        }
        if has_ended && !is_sending && waiting.is_empty() {
            break;
        }
        if moves % 3 != 1 {
            world.nudge();
        }
        key = moved(key, world, &worlds[1 - at]);
        at = 1 - at;
        moves += 1;
    }
    worlds[at].close(key);
    worlds[at].nudge();
    writer.join().expect("writer");
    assert!(reader.join().expect("reader").expect("read") == expected, "byte for byte after {moves} moves");
}
