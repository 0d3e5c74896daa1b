//! Outgoing connections: successful, failed, and abandoned.

use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;

use bytes::Bytes;
use vermeil_io::{ConnectOptions, Connecting, More, StreamKey, connect_tcp};

use super::{DriverWorld, MakeDriver, poll_once};

async fn connect(world: &DriverWorld, addr: SocketAddr) -> io::Result<StreamKey> {
    let key = match connect_tcp(addr, &ConnectOptions::default())? {
        Connecting::Done(fd) => return world.driver.borrow_mut().add_connected(fd),
        Connecting::UnderWay(fd) => world.driver.borrow_mut().add_connecting(fd)?,
    };
    let connected = poll_fn(|cx| world.driver.borrow_mut().poll_connected(cx, key)).await;
    if connected.is_err() {
        world.driver.borrow_mut().close_stream(key);
    }
    connected.map(|()| key)
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
    let addr = listener.local_addr().expect("bound");
    (listener, addr)
}

/// An address without a listener: the listener is gone.
fn deserted() -> SocketAddr {
    listener().1
}

pub(crate) fn stream_reaches_connected_peer(make: &MakeDriver) {
    let world = make(Default::default());
    let (listener, addr) = listener();
    let peer = thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("accept");
        peer.write_all(b"who speaks first").expect("write");
        let mut asked = [0; 8];
        peer.read_exact(&mut asked).expect("read");
        asked
    });
    let ours = world.clone();
    let heard = world.run(async move {
        let key = connect(&ours, addr).await.expect("connect");
        ours.send(key, b"ques", &Bytes::from_static(b"tion"), More::No).await.expect("send");
        ours.recv_to_end(key).await.expect("recv")
    });
    assert_eq!(heard, b"who speaks first");
    assert_eq!(&peer.join().expect("the peer failed"), b"question");
}

pub(crate) fn connecting_without_listener_fails(make: &MakeDriver) {
    let world = make(Default::default());
    let ours = world.clone();
    let error = world.run(async move { connect(&ours, deserted()).await }).expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    world.nudge();
    assert_eq!(world.driver.borrow().stream_count(), 0);
}

pub(crate) fn many_at_once(make: &MakeDriver) {
    const COUNT: usize = 200;
    let world = make(Default::default());
    let (key, addr) = world.listen();
    for _ in 0..COUNT {
        let ours = world.clone();
        world.spawn(async move {
            let key = connect(&ours, addr).await.expect("connect");
            assert_eq!(ours.recv_to_end(key).await.expect("recv"), b"welcome");
            ours.driver.borrow_mut().close_stream(key);
        });
    }
    let ours = world.clone();
    world.spawn(async move {
        for _ in 0..COUNT {
            let guest = ours.accept(key).await.expect("accept");
            ours.send(guest, b"welcome", &Bytes::new(), More::No).await.expect("send");
            ours.driver.borrow_mut().close_stream(guest);
        }
    });
    world.run_all();
    assert_eq!(world.driver.borrow().stream_count(), 0);
}

pub(crate) fn dropped_while_connecting(make: &MakeDriver) {
    let world = make(Default::default());
    let (_listener, addr) = listener();
    let Connecting::UnderWay(fd) = connect_tcp(addr, &ConnectOptions::default()).expect("connect") else {
        return;
    };
    let key = world.driver.borrow_mut().add_connecting(fd).expect("add_connecting");
    world.driver.borrow_mut().close_stream(key);
    world.nudge();
    assert_eq!(world.driver.borrow().stream_count(), 0);
}

pub(crate) fn stale_keys(make: &MakeDriver) {
    let world = make(Default::default());
    let (key, _peer) = world.connected();
    world.driver.borrow_mut().close_stream(key);
    let error = poll_once(|cx| world.driver.borrow_mut().poll_connected(cx, key));
    assert!(matches!(error, std::task::Poll::Ready(Err(error)) if error.kind() == ErrorKind::NotConnected));
}
