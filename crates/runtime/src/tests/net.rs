//! Sockets through tasks, on both drivers.

use super::{moves::pair, runtimes_of_both_drivers, until_arrived, within_patience};
use crate::{Handle, More, Source, TcpListener, TcpStream, UnixDatagram, yield_now, yield_turn};
use bytes::Bytes;
use futures_lite::future::block_on;
use std::{
    future::poll_fn,
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};
use vermeil_io::{ListenOptions, listen};

/// Answers each received byte with the same byte, twice.
async fn double(stream: TcpStream) -> std::io::Result<usize> {
    let (mut buffer, mut total) = (Vec::new(), 0);
    while stream.recv(&mut buffer).await? > 0 {
        total += buffer.len();
        let head = std::mem::take(&mut buffer);
        let body = Bytes::copy_from_slice(&head);
        stream.send(head, body, More::No)?;
        buffer = stream.sent().await?;
    }
    Ok(total)
}

/// Serves connections until `count` connections have ended; returns the received bytes.
fn serve(handle: &Handle, count: usize) -> (SocketAddr, crate::Task<usize>) {
    let socket = listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    let addr = std::net::TcpListener::from(socket.try_clone().unwrap()).local_addr().unwrap();
    let spawner = handle.clone();
    let task = handle.spawn(async move {
        let listener = TcpListener::new(socket).unwrap();
        let mut connections = Vec::new();
        for _ in 0..count {
            let socket = listener.accept().await.unwrap();
            let stream = TcpStream::new(socket).unwrap();
            connections.push(spawner.spawn(double(stream)));
        }
        let mut total = 0;
        for connection in connections {
            total += connection.await.unwrap().unwrap();
        }
        total
    });
    (addr, task)
}

#[test]
fn many_connections_are_served_at_once() {
    for runtime in runtimes_of_both_drivers() {
        let handle = runtime.handle();
        let (addr, total) = serve(&handle, 20);
        std::thread::scope(|scope| {
            for client in 0..20u8 {
                scope.spawn(move || {
                    let mut socket = std::net::TcpStream::connect(addr).unwrap();
                    for round in 0..50 {
                        let sent = [client; 100];
                        socket.write_all(&sent[..round + 1]).unwrap();
                        let mut back = vec![0; 2 * (round + 1)];
                        socket.read_exact(&mut back).unwrap();
                        assert!(back.iter().all(|&byte| byte == client));
                    }
                    socket.shutdown(Shutdown::Write).unwrap();
                    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
                });
            }
        });
        assert_eq!(total.wait(), Ok(20 * (1..=50).sum::<usize>()));
        assert_eq!(runtime.shutdown(super::PATIENCE).tasks_cancelled, 0);
    }
}

/// Sends `count` bytes to a doubler and counts the bytes of the answer.
async fn ask(stream: TcpStream, count: usize) -> std::io::Result<usize> {
    stream.send(vec![7; count], Bytes::new(), More::No)?;
    stream.sent().await?;
    stream.shutdown_write()?;
    let mut back = Vec::new();
    while stream.recv(&mut back).await? > 0 {}
    Ok(back.len())
}

#[test]
fn tasks_connect_to_tasks() {
    for runtime in runtimes_of_both_drivers() {
        let handle = runtime.handle();
        let (addr, total) = serve(&handle, 10);
        let clients: Vec<_> = (1..=10)
            .map(|count| {
                handle.spawn(async move { ask(TcpStream::connect(addr).await?, count * 1000).await })
            })
            .collect();
        for (client, count) in clients.into_iter().zip(1..) {
            assert_eq!(client.wait().unwrap().unwrap(), count * 2000);
        }
        assert_eq!(total.wait(), Ok(55_000));
        // Certainly closed, while the server's listener closes only when its driver looks at the
        // listener.
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let refused = handle
            .spawn(async move { TcpStream::connect(closed).await.map(drop).map_err(|error| error.kind()) });
        assert_eq!(refused.wait(), Ok(Err(ErrorKind::ConnectionRefused)));
    }
}

/// The queue of the listener is full when the second client connects.
#[test]
fn a_full_unix_queue_is_waited_for() {
    for runtime in runtimes_of_both_drivers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let handle = runtime.handle();
        let clients = [(); 2].map(|()| {
            let path = path.clone();
            handle.spawn_on(
                &handle.color(),
                async move { ask(TcpStream::connect_unix(&path).await?, 100).await },
            )
        });
        for _ in 0..2 {
            let (mut peer, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            peer.read_to_end(&mut asked).unwrap();
            peer.write_all(&asked).unwrap();
        }
        for client in clients {
            assert_eq!(client.wait().unwrap().unwrap(), 100);
        }
        let gone = handle.spawn(async move {
            TcpStream::connect_unix("/nonexistent/socket".as_ref())
                .await
                .map(drop)
                .map_err(|error| error.kind())
        });
        assert_eq!(gone.wait(), Ok(Err(ErrorKind::NotFound)));
    }
}

#[test]
fn a_socket_is_refused_off_its_core() {
    let socket = listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    let error = TcpListener::new(socket).unwrap_err();
    assert!(error.to_string().contains("on a core of a runtime"), "{error}");
}

/// Regression: the connection was made, and then closed because it had no core. A full queue of a
/// listener caused a panic. A bind left its path behind.
#[test]
fn refused_call_off_a_core_has_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    unix.set_nonblocking(true).unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    let bound = dir.path().join("bound");
    let errors = [
        block_on(TcpStream::connect_unix(&path)).unwrap_err(),
        block_on(TcpStream::connect(tcp.local_addr().unwrap())).unwrap_err(),
        TcpListener::bind_unix(&bound).unwrap_err(),
        UnixDatagram::bind(&bound).unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("on a core of a runtime"), "{error}");
    }
    assert!(!bound.exists());
    assert_eq!(unix.accept().map(drop).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(tcp.accept().map(drop).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn released_socket_works_on_another_core() {
    for runtime in runtimes_of_both_drivers() {
        let handle = runtime.handle();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = listener.accept().unwrap().0.into();
        client.write_all(b"a").unwrap();
        for core in handle.cores().chain(handle.cores()) {
            let task = handle.spawn_on(&handle.color_on(core), async move {
                let (stream, mut heard) = (TcpStream::new(socket).unwrap(), Vec::new());
                stream.recv(&mut heard).await.unwrap();
                stream.send(heard.clone(), Bytes::new(), More::No).unwrap();
                stream.sent().await.unwrap();
                let socket = stream.release().await.unwrap().expect("nothing happens");
                assert_eq!(stream.recv(&mut heard).await.unwrap_err().kind(), ErrorKind::NotConnected);
                socket
            });
            socket = task.wait().unwrap();
            let mut heard = [0];
            client.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"a");
            client.write_all(&heard).unwrap();
        }
        assert_eq!(runtime.shutdown(super::PATIENCE).tasks_cancelled, 0);
    }
}

/// Regression: calls that do not wait used the old key, and `with_fd` panicked.
#[test]
fn released_stream_refuses_every_call() {
    for runtime in runtimes_of_both_drivers() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = listener.accept().unwrap().0.into();
        client.write_all(b"a").unwrap();
        let task = runtime.handle().spawn(async move {
            let stream = TcpStream::new(socket).unwrap();
            stream.recv(&mut Vec::new()).await.unwrap();
            let _socket = stream.release().await.unwrap().expect("nothing happens");
            assert!(!stream.is_here());
            let send = || stream.send(Vec::new(), Bytes::from_static(b"late"), More::No);
            let errors = [
                send().unwrap_err(),
                send().unwrap_err(),
                stream.sent().await.unwrap_err(),
                stream.shutdown_write().unwrap_err(),
                stream.try_recv(&mut Vec::new()).unwrap_err(),
                stream.with_fd(|_| ()).unwrap_err(),
                stream.move_here().await.unwrap_err(),
                stream.release().await.unwrap_err(),
            ];
            assert_eq!(errors.map(|error| error.kind()), [ErrorKind::NotConnected; 8]);
        });
        task.wait().unwrap();
        assert_eq!(runtime.shutdown(super::PATIENCE).tasks_cancelled, 0);
    }
}

/// Regression: with io_uring, the first try on a connection made here found neither the bytes nor
/// the end of the connection.
#[test]
fn try_recv_finds_bytes_of_new_connection() {
    for runtime in runtimes_of_both_drivers() {
        for is_answered in [true, false] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let addr = listener.local_addr().unwrap();
            let task = runtime.handle().spawn(async move {
                let stream = TcpStream::connect(addr).await?;
                let (mut peer, _) = listener.accept()?;
                if is_answered {
                    peer.write_all(b"abc")?;
                }
                peer.shutdown(Shutdown::Write)?;
                until_arrived(&stream);
                yield_turn().await;
                stream.try_recv(&mut Vec::new())
            });
            let count = if is_answered { 3 } else { 0 };
            assert_eq!(task.wait().unwrap().unwrap(), Some(count));
        }
    }
}

/// Regression: a try took the place of the task that waited in `poll_recv`, and the task waited for
/// ever.
#[test]
fn try_recv_leaves_waiting_task_in_place() {
    for runtime in runtimes_of_both_drivers() {
        let (socket, mut peer) = pair();
        let (tried, is_tried) = mpsc::channel();
        let task = runtime.handle().spawn(async move {
            let stream = Arc::new(TcpStream::new(socket)?);
            let is_waiting = Arc::new(AtomicBool::new(false));
            let (reads, waits) = (stream.clone(), is_waiting.clone());
            let reader = crate::spawn(async move {
                let mut heard = Vec::new();
                poll_fn(|context| {
                    waits.store(true, Ordering::Relaxed);
                    reads.poll_recv(context, &mut heard)
                })
                .await
            });
            while !is_waiting.load(Ordering::Relaxed) {
                yield_now().await;
            }
            assert_eq!(stream.try_recv(&mut Vec::new())?, None);
            tried.send(()).expect("the test waits");
            reader.await.expect("it ends")
        });
        is_tried.recv().expect("the stream is tried");
        peer.write_all(b"abc").unwrap();
        let count = within_patience("the reader is woken", move || task.wait());
        assert_eq!(count.unwrap().unwrap(), 3);
    }
}

#[test]
fn socket_used_within_with_fd_panics_with_advice() {
    for runtime in runtimes_of_both_drivers() {
        let task = runtime.handle().spawn(async {
            let [outer, inner] = [(); 2].map(|()| Source::new(std::io::pipe().unwrap().0.into()).unwrap());
            outer.with_fd(|_| inner.with_fd(|_| ())).unwrap().unwrap();
        });
        let error = task.wait().unwrap_err().to_string();
        assert!(error.contains("use sockets after `with_fd`"), "{error}");
    }
}
