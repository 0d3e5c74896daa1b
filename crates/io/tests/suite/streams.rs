//! The end of streams, and the use of streams afterwards.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::task::Poll;
use std::thread;

use bytes::Bytes;
use rustix::net::{SendFlags, send};
use vermeil_io::{DriverOptions, More, StreamKey};

use super::{DriverWorld, MakeDriver, pattern, poll_once};

/// More than the socket buffers of both sides take.
pub(super) const TOO_MUCH: usize = 16 << 20;

/// Closes with a reset instead of an end.
fn reset(peer: TcpStream) {
    socket2::SockRef::from(&peer).set_linger(Some(std::time::Duration::ZERO)).expect("linger");
}

pub(super) fn recv_now(
    world: &DriverWorld,
    key: StreamKey,
    buf: &mut Vec<u8>,
) -> Poll<std::io::Result<usize>> {
    poll_once(|cx| world.driver.borrow_mut().poll_recv(cx, key, buf))
}

pub(super) fn sent_now(world: &DriverWorld, key: StreamKey) -> Poll<std::io::Result<Vec<u8>>> {
    poll_once(|cx| world.driver.borrow_mut().poll_sent(cx, key))
}

/// Turns until the driver holds as many streams.
fn until_streams_are(world: &DriverWorld, count: usize) {
    let world = world.clone();
    let deadline = std::time::Instant::now() + super::DEADLINE;
    while world.driver.borrow().stream_count() != count {
        assert!(std::time::Instant::now() < deadline, "closed streams stay");
        world.nudge();
    }
}

pub(crate) fn the_end_comes_after_the_bytes(make: &MakeDriver) {
    for size in [0, 1, 4096, 100_000] {
        let world = make(DriverOptions::default());
        let (key, mut peer) = world.connected();
        let message = pattern(size, 1);
        let expected = message.clone();
        let sender = thread::spawn(move || peer.write_all(&message));
        let reading = world.clone();
        world.run(async move {
            assert!(reading.recv_to_end(key).await.expect("recv") == expected);
            let mut buf = Vec::new();
            assert_eq!(reading.recv(key, &mut buf).await.expect("the end, again"), 0);
        });
        sender.join().expect("sender").expect("write");
    }
}

/// Regression: a receive ends at urgent data. The epoll driver took that for the end of the bytes,
/// and the bytes behind the urgent data waited for further bytes.
pub(crate) fn bytes_behind_urgent_data_come(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, peer) = world.connected();
    assert!(poll_once(|cx| world.driver.borrow_mut().poll_recv(cx, key, &mut Vec::new())).is_pending());
    world.nudge();
    let parts =
        [(&b"before"[..], SendFlags::empty()), (b"!", SendFlags::OOB), (b"behind", SendFlags::empty())];
    for (bytes, flags) in parts {
        assert_eq!(send(&peer, bytes, flags), Ok(bytes.len()));
    }
    let working = world.clone();
    let heard = world.run(async move {
        let mut heard = Vec::new();
        while heard.len() < b"beforebehind".len() {
            assert!(working.recv(key, &mut heard).await.expect("bytes") > 0, "the stream goes on");
        }
        heard
    });
    assert_eq!(heard, b"beforebehind");
}

pub(crate) fn half_closed_both_ways(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, mut peer) = world.connected();
    peer.write_all(b"question").expect("write");
    peer.shutdown(Shutdown::Write).expect("shutdown");
    let reader = thread::spawn(move || {
        let mut back = Vec::new();
        peer.read_to_end(&mut back).map(|_| back)
    });
    let answer = Bytes::from(pattern(1 << 20, 3));
    let expected = answer.clone();
    let serving = world.clone();
    world.run(async move {
        assert_eq!(serving.recv_to_end(key).await.expect("recv"), b"question");
        serving.send(key, b"", &answer, More::No).await.expect("send after the peer's end");
        serving.driver.borrow_mut().shutdown_write(key).expect("shutdown");
    });
    assert!(reader.join().expect("reader").expect("read") == expected, "the answer was cut");
    world.close(key);
}

pub(crate) fn reset_while_receiving(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, peer) = world.connected();
    assert!(recv_now(&world, key, &mut Vec::new()).is_pending());
    world.nudge();
    reset(peer);
    let reading = world.clone();
    world.run(async move {
        let mut buf = Vec::new();
        let error = reading.recv(key, &mut buf).await.expect_err("reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(reading.recv(key, &mut buf).await.expect("the end after an error"), 0);
        reading.close(key);
    });
    until_streams_are(&world, 0);
}

pub(crate) fn reset_while_sending(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, peer) = world.connected();
    world
        .driver
        .borrow_mut()
        .start_send(key, Vec::new(), Bytes::from(vec![1; TOO_MUCH]), More::No)
        .expect("nothing is under way");
    while world.nudge() > 0 {}
    assert!(sent_now(&world, key).is_pending());
    reset(peer);
    let sending = world.clone();
    world.run(async move {
        let error = sending.sent(key).await.expect_err("reset");
        assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
        let error = sending.send(key, b"more", &Bytes::new(), More::No).await.expect_err("still reset");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        sending.close(key);
    });
    until_streams_are(&world, 0);
}

/// Bytes sent before the close arrive, although no turn came in between.
pub(crate) fn closed_with_a_send_queued(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, mut peer) = world.connected();
    assert!(recv_now(&world, key, &mut Vec::new()).is_pending());
    let body = Bytes::from_static(b" and goodbye");
    world
        .driver
        .borrow_mut()
        .start_send(key, b"hello".to_vec(), body, More::No)
        .expect("nothing is under way");
    world.close(key);
    until_streams_are(&world, 0);
    let mut back = Vec::new();
    peer.read_to_end(&mut back).expect("read");
    assert_eq!(back, b"hello and goodbye");
}

pub(crate) fn closed_with_a_send_in_flight(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, mut peer) = world.connected();
    let message = pattern(TOO_MUCH, 5);
    world
        .driver
        .borrow_mut()
        .start_send(key, message[..10].to_vec(), Bytes::from(message.clone()).slice(10..), More::No)
        .expect("nothing is under way");
    while world.nudge() > 0 {}
    world.close(key);
    assert!(matches!(sent_now(&world, key), Poll::Ready(Err(_))));
    until_streams_are(&world, 0);
    let mut back = Vec::new();
    // A clean end would tell the peer that all has come.
    let error = peer.read_to_end(&mut back).expect_err("a part is no whole");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(back.len() < message.len() && message.starts_with(&back));
}

pub(crate) fn closed_while_its_task_waits(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, _peer) = world.connected();
    let mut buf = Vec::new();
    assert!(recv_now(&world, key, &mut buf).is_pending());
    world.nudge();
    world.close(key);
    let Poll::Ready(Err(error)) = recv_now(&world, key, &mut buf) else {
        panic!("a closed stream must fail")
    };
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    until_streams_are(&world, 0);
}

pub(crate) fn reading_and_writing_by_two_tasks(make: &MakeDriver) {
    const BYTES: usize = 3 << 20;
    let world = make(DriverOptions::default());
    let (key, peer) = world.connected();
    let mut writing = peer.try_clone().expect("clone");
    let out = thread::spawn(move || {
        writing.write_all(&pattern(BYTES, 1)).expect("write");
        writing.shutdown(Shutdown::Write).expect("shutdown");
    });
    let mut reading = peer;
    let back = thread::spawn(move || {
        let mut back = vec![0; BYTES];
        reading.read_exact(&mut back).expect("read");
        assert!(back == pattern(BYTES, 2));
    });
    let (receiver, sender) = (world.clone(), world.clone());
    world.spawn(async move { assert!(receiver.recv_to_end(key).await.expect("recv") == pattern(BYTES, 1)) });
    world.spawn(async move {
        for part in pattern(BYTES, 2).chunks(100_000) {
            sender.send(key, part, &Bytes::new(), More::No).await.expect("send");
        }
    });
    world.run_all();
    out.join().expect("writer");
    back.join().expect("reader");
}

pub(crate) fn stale_keys_touch_no_stream(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (stale, old_peer) = world.connected();
    let mut buf = Vec::new();
    assert!(recv_now(&world, stale, &mut buf).is_pending());
    world.close(stale);
    until_streams_are(&world, 0);
    drop(old_peer);

    let (fresh, mut peer) = world.connected();
    peer.write_all(b"for the fresh one").expect("write");
    let mut driver = world.driver.borrow_mut();
    driver.start_send(stale, b"lost".to_vec(), Bytes::new(), More::No).expect("nothing is under way");
    assert_eq!(driver.shutdown_write(stale).expect_err("stale").kind(), ErrorKind::NotConnected);
    driver.close_stream(stale);
    assert!(driver.stream_fd(fresh).as_raw_fd() >= 0);
    drop(driver);
    for _ in 0..3 {
        world.nudge();
        assert!(matches!(recv_now(&world, stale, &mut buf), Poll::Ready(Err(_))));
        assert!(matches!(sent_now(&world, stale), Poll::Ready(Err(_))));
    }
    let file = tempfile::tempfile().expect("file");
    let sending = world.clone();
    world.run(async move {
        use std::os::fd::AsFd;
        assert!(sending.sendfile(stale, file.as_fd(), &mut 0, 1).await.is_err());
        while buf.len() < 17 {
            sending.recv(fresh, &mut buf).await.expect("recv");
        }
        assert_eq!(buf, b"for the fresh one");
        sending.send(fresh, b"only this", &Bytes::new(), More::No).await.expect("send");
        sending.close(fresh);
    });
    let mut back = Vec::new();
    peer.read_to_end(&mut back).expect("read");
    assert_eq!(back, b"only this");
}

/// Heads return empty with their memory, and the bytes arrive in order for every value of `More`.
pub(crate) fn sends_one_after_the_other(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, mut peer) = world.connected();
    let reader = thread::spawn(move || {
        let mut back = Vec::new();
        peer.read_to_end(&mut back).map(|_| back)
    });
    let sending = world.clone();
    world.run(async move {
        let mut head = Vec::with_capacity(1000);
        for round in 0..100u8 {
            head.extend_from_slice(&[round; 10]);
            let body = Bytes::from(vec![round; usize::from(round)]);
            let more = if round % 3 == 0 { More::Yes } else { More::No };
            sending.driver.borrow_mut().start_send(key, head, body, more).expect("nothing is under way");
            head = sending.sent(key).await.expect("sent");
            assert!(head.is_empty() && head.capacity() >= 1000);
        }
        sending.close(key);
    });
    let expected: Vec<u8> = (0..100u8).flat_map(|round| vec![round; 10 + usize::from(round)]).collect();
    assert!(reader.join().expect("reader").expect("read") == expected);
}

pub(crate) fn nothing_to_send(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, _peer) = world.connected();
    assert!(matches!(sent_now(&world, key), Poll::Ready(Ok(head)) if head.is_empty()));
    world
        .driver
        .borrow_mut()
        .start_send(key, Vec::new(), Bytes::new(), More::No)
        .expect("nothing is under way");
    assert!(matches!(sent_now(&world, key), Poll::Ready(Ok(_))));
}
