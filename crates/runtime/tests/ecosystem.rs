//! The reads and writes of futures-io and of tokio over the runtime's streams.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream as StdStream},
    os::fd::OwnedFd,
};
use vermeil::{CoreIndex, DriverOptions, Handle, IoChoice, IoStream, Pinning, Runtime, TcpStream, hop};

/// A runtime of two cores for each driver that this machine offers.
fn runtimes() -> Vec<Runtime> {
    let build = |choice| {
        let cpu = vermeil_io::current_affinity()[0];
        let io = DriverOptions { choice, ..DriverOptions::default() };
        Runtime::builder().cpus([cpu, cpu]).pinning(Pinning::Shared).io(io).build()
    };
    let mut runtimes = vec![build(IoChoice::Epoll).expect("epoll works everywhere")];
    match build(IoChoice::Uring) {
        Ok(runtime) => runtimes.push(runtime),
        Err(error) => eprintln!("skipped: io_uring: {error}"),
    }
    runtimes
}

fn pair() -> (OwnedFd, StdStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let peer = StdStream::connect(listener.local_addr().expect("it is bound")).expect("a connection");
    let (socket, _) = listener.accept().expect("a connection");
    socket.set_nonblocking(true).expect("non-blocking");
    (socket.into(), peer)
}

/// The peer sends lines and reads all of them back.
fn asks(mut peer: StdStream) {
    let line = "x".repeat(100_000) + "\n";
    for _ in 0..3 {
        peer.write_all(line.as_bytes()).expect("room");
        let mut answer = vec![0; line.len()];
        peer.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, line.as_bytes());
    }
    peer.shutdown(std::net::Shutdown::Write).expect("shutdown");
    assert_eq!(peer.read(&mut [0]).expect("an end"), 0);
}

#[test]
fn futures_io_echoes_lines_across_cores() {
    use futures_lite::{AsyncBufReadExt, AsyncWriteExt};
    for runtime in runtimes() {
        let handle = runtime.handle();
        let (socket, peer) = pair();
        let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
            let mut stream = IoStream::new(TcpStream::new(socket)?);
            let (mut line, mut core) = (String::new(), 0);
            while stream.read_line(&mut line).await? > 0 {
                core = 1 - core;
                hop(&Handle::current().color_on(CoreIndex(core))).await;
                stream.write_all(line.as_bytes()).await?;
                stream.flush().await?;
                line.clear();
            }
            stream.close().await
        });
        asks(peer);
        task.wait().expect("it ends").expect("no error");
    }
}

#[test]
fn tokio_echoes_lines_across_cores() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
    for runtime in runtimes() {
        let handle = runtime.handle();
        let (socket, peer) = pair();
        let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
            let mut stream = IoStream::new(TcpStream::new(socket)?);
            let (mut line, mut core) = (String::new(), 0);
            while stream.read_line(&mut line).await? > 0 {
                core = 1 - core;
                hop(&Handle::current().color_on(CoreIndex(core))).await;
                stream.write_all(line.as_bytes()).await?;
                stream.flush().await?;
                line.clear();
            }
            stream.shutdown().await
        });
        asks(peer);
        task.wait().expect("it ends").expect("no error");
    }
}

/// Regression: the error "not connected" of a second shutdown, or of a shutdown after a reset.
#[test]
fn shutdown_of_an_ended_connection_is_no_error() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    for runtime in runtimes() {
        let (socket, mut peer) = pair();
        let task = runtime.handle().spawn(async move {
            let mut stream = IoStream::new(TcpStream::new(socket)?);
            stream.shutdown().await?;
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await?;
            // Both sides have ended the connection.
            stream.shutdown().await?;
            stream.shutdown().await
        });
        assert_eq!(peer.read(&mut [0]).expect("an end"), 0);
        drop(peer);
        task.wait().expect("it ends").expect("no error");
    }
}

#[test]
fn library_spawns_without_a_handle() {
    assert!(Handle::try_current().is_none(), "this thread is no core");
    for runtime in runtimes() {
        let task = runtime.handle().spawn(async { vermeil::spawn(async { 7 }).await });
        assert_eq!(task.wait().expect("it ends"), Ok(7));
    }
}
