//! Datagrams: sent and received on whichever core the task runs.

use super::{runtimes_of_both_drivers, within_patience};
use crate::{
    DriverOptions, Handle, IoChoice, Pinning, Policy, Runtime, TcpListener, TcpStream, UdpSocket,
    UnixDatagram, Watched, sleep, yield_now, yield_turn,
};
use std::{
    future::poll_fn, io::Result, os::unix::net::UnixDatagram as StdUnixDatagram, path::Path, pin::pin,
    task::Poll, time::Duration,
};

#[test]
fn udp_sockets_exchange_datagrams() {
    for runtime in runtimes_of_both_drivers() {
        let task = runtime.handle().spawn(async {
            let [one, two] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0".parse().expect("an address")));
            let (one, two) = (one?, two?);
            let (from, to) = (one.get_ref().local_addr()?, two.get_ref().local_addr()?);
            let answers = crate::spawn(async move {
                let mut buffer = [0; 100];
                for _ in 0..50 {
                    let (count, sender) = two.recv_from(&mut buffer).await?;
                    two.send_to(&buffer[..count], sender).await?;
                }
                Result::Ok(())
            });
            one.get_ref().connect(to)?;
            let mut buffer = [0; 100];
            for number in 0..50u8 {
                one.send(&[number; 10]).await?;
                assert_eq!(one.recv(&mut buffer).await?, 10);
                assert_eq!(buffer[..10], [number; 10]);
            }
            answers.await.expect("it ends")?;
            Result::Ok(from)
        });
        task.wait().expect("it ends").expect("no error");
    }
}

/// The queue of a datagram socket is short, so the sender must wait for room.
#[test]
fn sender_waits_for_room() {
    for runtime in runtimes_of_both_drivers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("datagrams");
        let task = runtime.handle().spawn(async move {
            let receiver = UnixDatagram::bind(&path)?;
            let sends = crate::spawn(async move {
                let socket = std::os::unix::net::UnixDatagram::unbound()?;
                socket.set_nonblocking(true)?;
                let sender = UnixDatagram::new(socket)?;
                sender.get_ref().connect(&path)?;
                for number in 0..1000u32 {
                    sender.write_with(|socket| socket.send(&number.to_ne_bytes())).await?;
                }
                Result::Ok(())
            });
            for number in 0..1000u32 {
                let mut buffer = [0; 4];
                receiver.recv(&mut buffer).await?;
                assert_eq!(u32::from_ne_bytes(buffer), number);
            }
            sends.await.expect("it ends")
        });
        task.wait().expect("it ends").expect("no error");
    }
}

/// Regression: with io_uring, the second descriptor stayed open until the next turn, so the address
/// was still in use.
#[test]
fn address_of_dropped_socket_is_free() {
    for runtime in runtimes_of_both_drivers() {
        let task = runtime.handle().spawn(async {
            let mut socket = UdpSocket::bind("127.0.0.1:0".parse().expect("an address"))?;
            let address = socket.get_ref().local_addr()?;
            // No wait, a wait that only the driver knows, and a wait of the kernel.
            for (waits, turns) in [(false, false), (true, false), (true, true)] {
                if waits {
                    let mut buffer = [0; 1];
                    let mut receive = pin!(socket.recv(&mut buffer));
                    poll_fn(|context| {
                        assert!(receive.as_mut().poll(context).is_pending());
                        Poll::Ready(())
                    })
                    .await;
                }
                if turns {
                    yield_turn().await;
                }
                drop(socket);
                socket = UdpSocket::bind(address)?;
            }
            Result::Ok(())
        });
        task.wait().expect("it ends").expect("no error");
    }
}

fn unconnected() -> Result<StdUnixDatagram> {
    let socket = StdUnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Fills the queue of the datagram socket at `path`. Returns the number of datagrams.
fn fill_queue(path: &Path) -> Result<usize> {
    let mut count = 0;
    loop {
        // A sender also has a bound of its own.
        let (sender, before) = (unconnected()?, count);
        while sender.send_to(b"full", path).is_ok() {
            count += 1;
        }
        if count == before {
            return Ok(count);
        }
    }
}

/// Regression: the kernel reports room to an unconnected sender although the receiver's queue is
/// full, so the sender tried again without a pause.
#[test]
fn unconnected_sender_pauses_while_queue_is_full() {
    for runtime in runtimes_of_both_drivers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("datagrams");
        let task = runtime.handle().spawn(async move {
            let receiver = UnixDatagram::bind(&path)?;
            let queued = fill_queue(&path)?;
            let (sender, mut polls) = (UnixDatagram::new(unconnected()?)?, 0);
            let mut send = pin!(sender.send_to(b"last", &path));
            let counted = poll_fn(|context| {
                polls += 1;
                send.as_mut().poll(context)
            });
            sleep(Duration::from_millis(100)).limit(counted).await.expect_err("the queue is full");
            assert!(polls < 50, "{polls} polls in 100 ms");
            let mut buffer = [0; 4];
            receiver.recv(&mut buffer).await?;
            send.await?;
            for _ in 0..queued {
                receiver.recv(&mut buffer).await?;
            }
            Result::Ok(buffer)
        });
        let last = within_patience("the datagram is sent", move || task.wait());
        assert_eq!(&last.expect("it ends").expect("no error"), b"last");
    }
}

#[test]
fn unix_listener_accepts_streams() {
    for runtime in runtimes_of_both_drivers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("listener");
        let task = runtime.handle().spawn(async move {
            let listener = TcpListener::bind_unix(&path)?;
            let client = Handle::current().spawn(async move {
                let stream = TcpStream::connect_unix(&path).await?;
                let mut heard = Vec::new();
                while stream.recv(&mut heard).await? > 0 {}
                Result::Ok(heard)
            });
            let stream = TcpStream::new(listener.accept().await?)?;
            stream.send(b"hello".to_vec(), bytes::Bytes::new(), crate::More::No)?;
            stream.sent().await?;
            drop(stream);
            client.await.expect("it ends")
        });
        assert_eq!(task.wait().expect("it ends").expect("no error"), b"hello");
    }
}

/// Regression: the first accept and the first receive blocked the core.
#[test]
fn blocking_objects_do_not_stop_their_core() {
    for runtime in runtimes_of_both_drivers() {
        let handle = runtime.handle();
        let refused = handle.spawn(async {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
            Result::Ok(Watched::new(socket).expect_err("the socket blocks"))
        });
        let refused = refused.wait().expect("it ends").expect("a socket");
        assert!(refused.kind() == std::io::ErrorKind::InvalidInput, "{refused}");
        assert!(refused.to_string().contains("set_nonblocking"), "{refused}");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let accepts = handle.spawn(async move { TcpListener::new(listener.into())?.accept().await });
        let others = handle.spawn(async {});
        within_patience("the core is free", move || others.wait()).expect("it ends");
        let _peer = std::net::TcpStream::connect(address).expect("a connection");
        within_patience("a connection", move || accepts.wait()).expect("it ends").expect("a socket");
    }
}

/// Regression: a source forgot its readiness on the way to another core, so a task that moved at
/// each wake-up waited for ever.
#[test]
fn datagrams_arrive_while_every_color_moves() {
    for choice in [IoChoice::Epoll, IoChoice::Auto] {
        let allowed = vermeil_io::current_affinity();
        let runtime = Runtime::builder()
            .cpus((0..3).map(|core| allowed[core % allowed.len()]))
            .pinning(Pinning::Shared)
            .policy(Policy::Scatter)
            .io(DriverOptions { choice, ..DriverOptions::default() })
            .build()
            .expect("a runtime starts");
        let task = runtime.handle().spawn(async {
            let receiver = UdpSocket::bind("127.0.0.1:0".parse().expect("an address"))?;
            let address = receiver.get_ref().local_addr()?;
            let sender = std::net::UdpSocket::bind("127.0.0.1:0")?;
            for number in 0..20u8 {
                let (from, mut buffer) = (sender.try_clone()?, [0; 10]);
                let sends = crate::spawn(async move {
                    yield_now().await;
                    from.send_to(&[number], address)
                });
                assert_eq!(receiver.recv_from(&mut buffer).await?.0, 1);
                assert_eq!(buffer[0], number);
                sends.await.expect("it ends")?;
            }
            Result::Ok(())
        });
        within_patience("every datagram arrives", move || task.wait()).expect("it ends").expect("no error");
    }
}

/// Regression: a receive counted against the budget after the system call. A cancelled receive then
/// lost the datagram.
#[test]
fn cancelled_receive_leaves_the_datagram() {
    for runtime in runtimes_of_both_drivers() {
        let task = runtime.handle().spawn(async {
            let socket = UdpSocket::bind("127.0.0.1:0".parse().expect("an address"))?;
            let address = socket.get_ref().local_addr()?;
            assert_eq!(socket.get_ref().send_to(b"kept", address)?, 4);
            crate::core::current(|core| core.run.budget.set(0));
            let mut buffer = [0; 10];
            {
                let mut receive = std::pin::pin!(socket.recv_from(&mut buffer));
                std::future::poll_fn(|context| {
                    assert!(receive.as_mut().poll(context).is_pending(), "the budget is spent");
                    std::task::Poll::Ready(())
                })
                .await;
            }
            socket.get_ref().recv_from(&mut buffer)
        });
        let (count, _) = task.wait().expect("it ends").expect("the datagram is still in the socket");
        assert_eq!(count, 4);
    }
}
