//! More bytes than buffers: nothing is lost, and no stream waits for a stream that does not read.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::thread;

use bytes::Bytes;
use vermeil_io::{DriverOptions, More, StreamKey};

use super::{DriverWorld, MakeDriver, pattern, poll_once};

/// Far below the sent size, and enough that TCP does not wait for timers with every segment.
const NARROW_BYTES: usize = 64 << 10;

/// A stream whose peer has a small receive buffer, so that sending blocks often.
fn narrow(world: &DriverWorld) -> (StreamKey, TcpStream) {
    let (key, peer) = world.connected();
    socket2::SockRef::from(&peer).set_recv_buffer_size(NARROW_BYTES).expect("SO_RCVBUF");
    socket2::SockRef::from(&world.driver.borrow().stream_fd(key))
        .set_send_buffer_size(NARROW_BYTES)
        .expect("SO_SNDBUF");
    (key, peer)
}

/// Reads to the end in small steps.
fn sip(mut peer: TcpStream) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut all, mut sip) = (Vec::new(), [0; 3000]);
        loop {
            match peer.read(&mut sip).expect("read") {
                0 => return all,
                count => all.extend_from_slice(&sip[..count]),
            }
        }
    })
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("file");
    file.write_all(bytes).expect("write");
    file.rewind().expect("rewind");
    file
}

pub(crate) fn slow_reader_gets_every_byte(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, peer) = narrow(&world);
    let reader = sip(peer);
    let message = pattern(8 << 20, 8);
    let (head, body) = (message[..5000].to_vec(), Bytes::from(message.clone()).slice(5000..));
    let sending = world.clone();
    world.run(async move {
        sending.send(key, &head, &body, More::No).await.expect("send");
        sending.close(key);
    });
    assert!(reader.join().expect("reader") == message);
}

pub(crate) fn a_file_to_a_slow_reader(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, peer) = narrow(&world);
    let reader = sip(peer);
    let content = pattern(5 << 20, 9);
    let (file, size) = (file_of(&content), content.len() as u64);
    let sending = world.clone();
    world.run(async move {
        let mut offset = 0;
        while offset < size {
            let before = offset;
            let count = sending
                .sendfile(key, file.as_fd(), &mut offset, (size - before) as usize)
                .await
                .expect("sendfile");
            assert!(count > 0 && offset == before + count as u64);
        }
        sending.close(key);
    });
    assert!(reader.join().expect("reader") == content);
}

pub(crate) fn a_head_and_its_file(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, peer) = world.connected();
    let reader = sip(peer);
    let content = pattern(200_000, 10);
    let file = file_of(&content);
    let sending = world.clone();
    world.run(async move {
        for _ in 0..3 {
            sending.send(key, b"head:", &Bytes::new(), More::Yes).await.expect("send");
            let mut offset = 0;
            while offset < 200_000 {
                let left = 200_000 - offset as usize;
                sending.sendfile(key, file.as_fd(), &mut offset, left).await.expect("sendfile");
            }
        }
        sending.close(key);
    });
    let once = [b"head:".as_slice(), &content].concat();
    assert!(reader.join().expect("reader") == once.repeat(3));
}

pub(crate) fn a_file_shorter_than_thought(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, peer) = world.connected();
    let reader = sip(peer);
    let file = file_of(b"short");
    let sending = world.clone();
    world.run(async move {
        let mut offset = 0;
        assert_eq!(sending.sendfile(key, file.as_fd(), &mut offset, 100).await.expect("sendfile"), 5);
        assert_eq!(sending.sendfile(key, file.as_fd(), &mut offset, 95).await.expect("sendfile"), 0);
        assert_eq!(offset, 5);
        sending.close(key);
    });
    assert_eq!(reader.join().expect("reader"), b"short");
}

/// A stream armed once and then left alone, while the peer sends more than all buffers hold.
pub(crate) fn unread_stream_starves_no_other(make: &MakeDriver) {
    let options = DriverOptions { recv_buffers: 8, recv_parked_max: 2, ..Default::default() };
    let world = make(options);
    let (unread, mut loud) = world.connected();
    assert!(poll_once(|cx| world.driver.borrow_mut().poll_recv(cx, unread, &mut Vec::new())).is_pending());
    let message = pattern(1 << 20, 11);
    let expected = message.clone();
    let shouting = thread::spawn(move || loud.write_all(&message));

    let (key, mut quiet) = world.connected();
    let talking = thread::spawn(move || {
        for round in 0..50u8 {
            quiet.write_all(&[round; 3000]).expect("write");
            let mut back = [0; 3000];
            quiet.read_exact(&mut back).expect("read");
            assert_eq!(back, [round; 3000]);
        }
    });
    let world2 = world.clone();
    world.run(async move {
        let mut buf = Vec::new();
        while world2.recv(key, &mut buf).await.expect("recv") > 0 {
            let back = std::mem::take(&mut buf);
            world2.send(key, &back, &Bytes::new(), More::No).await.expect("send");
        }
        assert!(world2.recv_to_end(unread).await.expect("recv") == expected);
    });
    talking.join().expect("the quiet one");
    shouting.join().expect("the loud one").expect("write");
}

pub(crate) fn three_hundred_senders_and_sixteen_buffers(make: &MakeDriver) {
    const BYTES: usize = 50_000;
    let options = DriverOptions { recv_buffers: 16, ring_entries: 64, ..Default::default() };
    let world = make(options);
    let streams: Vec<_> = (0..300).map(|_| world.connected()).collect();
    let mut peers = Vec::new();
    for (seed, (key, peer)) in streams.into_iter().enumerate() {
        // Armed before any bytes are there, so that all streams compete for the buffers.
        assert!(poll_once(|cx| world.driver.borrow_mut().poll_recv(cx, key, &mut Vec::new())).is_pending());
        peers.push((seed, peer));
        let reading = world.clone();
        world.spawn(async move {
            assert!(reading.recv_to_end(key).await.expect("recv") == pattern(BYTES, seed as u64));
            reading.close(key);
        });
    }
    world.nudge();
    let senders: Vec<_> = peers
        .into_iter()
        .map(|(seed, mut peer)| thread::spawn(move || peer.write_all(&pattern(BYTES, seed as u64))))
        .collect();
    world.run_all();
    for sender in senders {
        sender.join().expect("sender").expect("write");
    }
}

/// A reader that keeps much room behind the bytes it has read, like a reader that received long
/// data before.
pub(crate) fn reader_with_room_gets_long_and_short_data(make: &MakeDriver) {
    const ROOM: usize = 128 << 10;
    let world = make(DriverOptions::default());
    let (key, mut peer) = world.connected();
    let lengths = [10, 200_000, 10, 70_000, 4096, 300_000, 1];
    let asking = thread::spawn(move || {
        for (seed, bytes) in lengths.into_iter().enumerate() {
            peer.write_all(&pattern(bytes, seed as u64)).expect("write");
            peer.read_exact(&mut [0]).expect("read");
        }
    });
    let world2 = world.clone();
    world.run(async move {
        let mut buf = Vec::with_capacity(ROOM);
        for (seed, bytes) in lengths.into_iter().enumerate() {
            let mut all = Vec::new();
            while all.len() < bytes {
                assert!(world2.recv(key, &mut buf).await.expect("recv") > 0);
                all.append(&mut buf);
            }
            assert!(all == pattern(bytes, seed as u64), "{bytes} bytes");
            world2.send(key, b".", &Bytes::new(), More::No).await.expect("send");
        }
        assert_eq!(world2.recv(key, &mut buf).await.expect("recv"), 0);
    });
    asking.join().expect("who asks");
}
