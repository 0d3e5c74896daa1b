//! axum on Vermeil: a `Router` served over HTTP/1.1 and HTTP/2. Each core has a listening socket.
//!
//! Shows that a program built on hyper runs unchanged. axum, tower and hyper bring no runtime here,
//! because Vermeil provides hyper's executor, timer and I/O. A connection is a task on a new color.
//! With `--streams parallel`, each request of an HTTP/2 connection gets a new color too. Clear
//! text, HTTP/2 with prior knowledge:
//!
//! ```text
//! cargo run -p vermeil --release --features hyper --example axum -- --listen 127.0.0.1:8081
//! curl http://127.0.0.1:8081/hello/world
//! curl --http2-prior-knowledge http://127.0.0.1:8081/core
//! h2load -n 100000 -c 16 -m 10 http://127.0.0.1:8081/
//! ```

use axum::{
    Router,
    extract::Path,
    routing::{get, post},
};
use clap::{Parser, ValueEnum};
use hyper_util::{server::conn::auto, service::TowerToHyperService};
use std::{io, net::SocketAddr, os::fd::OwnedFd, time::Duration};
use vermeil::{
    CoreIndex, Handle, ListenOptions, Policy, Runtime, TcpListener, TcpStream,
    hyper::{ColorExec, CoreTimer, HyperStream},
    listen,
};
use vermeil_programs::cli::CliFailure;

/// axum on Vermeil: a router served over HTTP/1.1 and HTTP/2.
#[derive(Debug, Parser)]
struct AxumArgs {
    /// Where to listen. With port 0 the kernel chooses a free port, and the program prints that
    /// port.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How colors find their cores.
    #[arg(long, default_value_t)]
    policy: Policy,
    /// Where the requests of an HTTP/2 connection run.
    #[arg(long, value_enum, default_value = "parallel")]
    streams: Streams,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Streams {
    /// All on the connection's color, in sequence.
    Serial,
    /// Each on a new color.
    Parallel,
}

fn router() -> Router {
    Router::new()
        .route("/", get(|| async { "Vermeil\n" }))
        .route("/hello/{name}", get(|Path(name): Path<String>| async move { format!("Hello, {name}\n") }))
        .route("/core", get(|| async { format!("{}\n", vermeil::core_index().expect("on a core").0) }))
        .route("/later/{ms}", get(later))
        .route("/upper", post(|body: String| async move { body.to_uppercase() }))
}

/// Waits without blocking the core: the core runs other tasks meanwhile.
async fn later(Path(ms): Path<u16>) -> String {
    vermeil::sleep(Duration::from_millis(ms.into())).await;
    format!("{ms} ms later\n")
}

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The accept loop of a core. Each connection gets a color of this core, because the socket is on
/// this core's driver.
async fn accept(handle: Handle, core: CoreIndex, socket: OwnedFd, streams: Streams) -> io::Result<()> {
    let listener = TcpListener::new(socket)?;
    let service = TowerToHyperService::new(router());
    loop {
        let stream = match listener.accept().await.and_then(TcpStream::new) {
            Ok(stream) => HyperStream::new(stream),
            // For example, no descriptor is free for a moment.
            Err(error) => {
                eprintln!("accept: {error}");
                vermeil::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let color = handle.color_on(core);
        let executor = match streams {
            Streams::Serial => ColorExec::on(&handle, &color),
            Streams::Parallel => ColorExec::children(&handle),
        };
        let service = service.clone();
        handle.spawn_on(&color, async move {
            let mut server = auto::Builder::new(executor);
            server.http1().timer(CoreTimer);
            server.http2().timer(CoreTimer);
            if let Err(error) = server.serve_connection(stream, service).await {
                eprintln!("a connection ended: {error}");
            }
        });
    }
}

fn main() -> Result<(), CliFailure> {
    let args = AxumArgs::parse();
    let runtime = Runtime::builder().policy(args.policy).build()?;
    let handle = runtime.handle();
    let mut addr = args.listen;
    let mut accepting = Vec::new();
    for core in handle.cores() {
        let socket = listen(addr, &ListenOptions::default())?;
        // The first socket chooses the port, the others share it.
        addr = std::net::TcpListener::from(socket.try_clone()?).local_addr()?;
        let task = accept(handle.clone(), core, socket, args.streams);
        accepting.push(handle.spawn_on(&handle.color_on(core), task));
    }
    println!("listening on http://{addr}");
    for task in accepting {
        task.wait()??;
    }
    Ok(())
}
