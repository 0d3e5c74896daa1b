//! Bytes return unchanged.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use bytes::Bytes;
use vermeil_io::{DriverOptions, More};

use super::{DEADLINE, DriverWorld, MakeDriver, pattern};

/// Serves connections, each until its end, and returns all bytes: head and body in turns.
pub(crate) fn serve(world: &DriverWorld, connections: usize) -> SocketAddr {
    let (listener, addr) = world.listen();
    let serving = world.clone();
    world.spawn(async move {
        for _ in 0..connections {
            let stream = serving.accept(listener).await.expect("accept");
            let world = serving.clone();
            serving.spawn(async move {
                let mut buf = Vec::new();
                while world.recv(stream, &mut buf).await.expect("recv") > 0 {
                    let head = world.sent(stream).await.expect("sent");
                    assert!(head.is_empty());
                    let body = Bytes::from(buf.split_off(buf.len() / 2));
                    let head = std::mem::take(&mut buf);
                    world
                        .driver
                        .borrow_mut()
                        .start_send(stream, head, body, More::No)
                        .expect("nothing is under way");
                }
                world.sent(stream).await.expect("sent");
                world.close(stream);
            });
        }
        serving.driver.borrow_mut().close_listener(listener);
        assert!(serving.accept(listener).await.is_err());
    });
    addr
}

fn echoes(addr: SocketAddr, message: &[u8]) {
    let mut stream = TcpStream::connect(addr).expect("connect");
    stream.set_read_timeout(Some(DEADLINE)).expect("timeout");
    let mut writing = stream.try_clone().expect("clone");
    thread::scope(|scope| {
        scope.spawn(move || {
            writing.write_all(message).expect("write");
            writing.shutdown(Shutdown::Write).expect("shutdown");
        });
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("read");
        assert!(back == message, "{} of {} bytes, or others, came back", back.len(), message.len());
    });
}

pub(crate) fn many_sizes(make: &MakeDriver) {
    let sizes = [0, 1, 2, 100, 4095, 4096, 4097, 8192, 65_535, 65_536, 1_000_000, 5_000_000];
    let world = make(DriverOptions::default());
    let addr = serve(&world, sizes.len());
    let clients = thread::spawn(move || {
        for size in sizes {
            echoes(addr, &pattern(size, size as u64));
        }
    });
    world.run_all();
    clients.join().expect("a client failed");
    assert_eq!(world.driver.borrow().stream_count(), 0);
}

pub(crate) fn many_streams(make: &MakeDriver) {
    const CLIENTS: usize = 200;
    let world = make(DriverOptions::default());
    let addr = serve(&world, CLIENTS);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|seed| thread::spawn(move || echoes(addr, &pattern(20_000 + seed, seed as u64))))
        .collect();
    world.run_all();
    for client in clients {
        client.join().expect("a client failed");
    }
    assert_eq!(world.driver.borrow().stream_count(), 0);
}

/// Submission and completion queues that overflow all the time.
pub(crate) fn queues_that_are_too_small(make: &MakeDriver) {
    const CLIENTS: usize = 100;
    let world = make(DriverOptions { ring_entries: 8, epoll_events: 1, ..Default::default() });
    let addr = serve(&world, CLIENTS);
    let clients: Vec<_> =
        (0..CLIENTS).map(|seed| thread::spawn(move || echoes(addr, &pattern(30_000, seed as u64)))).collect();
    world.run_all();
    for client in clients {
        client.join().expect("a client failed");
    }
}

/// A single receive buffer of one byte, and other odd sizes.
pub(crate) fn buffers_that_are_too_small(make: &MakeDriver) {
    for (recv_buffers, recv_buffer_bytes) in [(1, 1), (1, 4096), (3, 100), (0, 0)] {
        let options = DriverOptions { recv_buffers, recv_buffer_bytes, ..Default::default() };
        let world = make(options);
        let addr = serve(&world, 3);
        let clients: Vec<_> =
            (0..3).map(|seed| thread::spawn(move || echoes(addr, &pattern(5_000, seed)))).collect();
        world.run_all();
        for client in clients {
            client.join().expect("a client failed");
        }
    }
}
