//! hyper's servers and clients on the runtime, in a single process and against curl and h2load.
//!
//! Every case in a single process runs on both drivers. Foreign programs load `examples/axum.rs`;
//! if such a program is not installed, the case says so and is skipped.

use async_compat::Compat;
use axum::{Router, http::StatusCode, routing::get};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::service::TowerToHyperService;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tower_http::timeout::TimeoutLayer;
use vermeil::{
    CoreIndex, DriverOptions, Handle, IoChoice, ListenOptions, Pinning, Runtime, TcpListener, TcpStream,
    hyper::{ColorExec, CoreTimer, HyperStream},
    listen,
};

#[derive(Clone, Copy)]
enum HttpVersion {
    Http1,
    Http2,
}

/// A runtime of two cores for each driver that this machine offers.
fn runtimes() -> Vec<Runtime> {
    let build = |choice| {
        let cpu = vermeil_io::current_affinity()[0];
        Runtime::builder()
            .cpus([cpu, cpu])
            .pinning(Pinning::Shared)
            .io(DriverOptions { choice, ..DriverOptions::default() })
            .build()
    };
    let mut runtimes = vec![build(IoChoice::Epoll).expect("epoll works everywhere")];
    match build(IoChoice::Uring) {
        Ok(runtime) => runtimes.push(runtime),
        Err(error) => eprintln!("skipped: io_uring: {error}"),
    }
    runtimes
}

/// Answers with the request's body, doubled. A header tells whether the code runs on the
/// connection's color.
async fn double(
    request: Request<Incoming>,
    connection: vermeil::ColorId,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let own = vermeil::current_color() == Some(connection);
    let doubled = Bytes::from([&body[..], &body[..]].concat());
    Ok(Response::builder().header("own-color", own.to_string()).body(Full::new(doubled)).expect("valid"))
}

async fn serve(handle: Handle, socket: OwnedFd, version: HttpVersion, streams: fn(&Handle) -> ColorExec) {
    let id = vermeil::current_color().expect("on a color");
    let stream = HyperStream::new(TcpStream::new(socket).expect("on a core"));
    let service = service_fn(move |request| double(request, id));
    let served = match version {
        HttpVersion::Http1 => {
            hyper::server::conn::http1::Builder::new()
                .timer(CoreTimer)
                .header_read_timeout(Duration::from_secs(1))
                .serve_connection(stream, service)
                .await
        }
        HttpVersion::Http2 => {
            hyper::server::conn::http2::Builder::new(streams(&handle))
                .timer(CoreTimer)
                .keep_alive_interval(Some(Duration::from_secs(1)))
                .serve_connection(stream, service)
                .await
        }
    };
    // A client that closes abruptly is an error for hyper, and the end of a test here.
    drop(served);
}

/// Serves on core 0 for as long as the runtime lives.
fn start(handle: &Handle, version: HttpVersion, streams: fn(&Handle) -> ColorExec) -> SocketAddr {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let socket = listen(any, &ListenOptions::default()).expect("a socket");
    let addr = std::net::TcpListener::from(socket.try_clone().unwrap()).local_addr().unwrap();
    let spawner = handle.clone();
    let accept = async move {
        let listener = TcpListener::new(socket).expect("on a core");
        loop {
            let socket = listener.accept().await.expect("descriptors are left");
            let color = spawner.color_on(CoreIndex(0));
            spawner.spawn_on(&color, serve(spawner.clone(), socket, version, streams));
        }
    };
    handle.spawn_on(&handle.color_on(CoreIndex(0)), accept);
    addr
}

fn request(size: usize, fill: u8) -> Request<Full<Bytes>> {
    let body = Full::new(Bytes::from(vec![fill; size]));
    Request::post("/").header("host", "test").body(body).expect("valid")
}

/// Checks that the answer is the doubled body; returns whether the connection's color sent the
/// answer.
async fn check(response: Response<Incoming>, size: usize, fill: u8) -> bool {
    let own = response.headers()["own-color"] == "true";
    let body = response.into_body().collect().await.expect("a whole body").to_bytes();
    assert_eq!(body.len(), 2 * size);
    assert!(body.iter().all(|&byte| byte == fill));
    own
}

/// Sends bodies from empty to larger than any buffer.
async fn ask(handle: Handle, addr: SocketAddr, version: HttpVersion) -> Vec<bool> {
    let stream = HyperStream::new(TcpStream::connect(addr).await.expect("connected"));
    let color = handle.color_on(vermeil::core_index().expect("on a core"));
    let sizes = [0, 1, 4096, 100_000, 2_000_000];
    let mut own = Vec::new();
    match version {
        HttpVersion::Http1 => {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(stream).await.expect("a handshake");
            handle.spawn_on(&color, connection);
            for (size, fill) in sizes.into_iter().zip(1..) {
                let response = sender.send_request(request(size, fill)).await.expect("an answer");
                own.push(check(response, size, fill).await);
            }
        }
        HttpVersion::Http2 => {
            let executor = ColorExec::on(&handle, &color);
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(executor, stream).await.expect("a handshake");
            handle.spawn_on(&color, connection);
            let sent: Vec<_> = sizes
                .into_iter()
                .zip(1..)
                .map(|(size, fill)| (sender.send_request(request(size, fill)), size, fill))
                .collect();
            for (response, size, fill) in sent {
                own.push(check(response.await.expect("an answer"), size, fill).await);
            }
        }
    }
    own
}

fn exchange(version: HttpVersion, streams: fn(&Handle) -> ColorExec) -> Vec<bool> {
    let mut own = Vec::new();
    for runtime in runtimes() {
        let handle = runtime.handle();
        let addr = start(&handle, version, streams);
        let clients: Vec<_> = (0..4)
            .map(|_| handle.spawn_on(&handle.color_on(CoreIndex(1)), ask(handle.clone(), addr, version)))
            .collect();
        for client in clients {
            own.extend(client.wait().expect("the client's checks hold"));
        }
    }
    own
}

#[test]
fn http_1_answers_on_the_color_of_its_connection() {
    assert!(exchange(HttpVersion::Http1, ColorExec::children).into_iter().all(|own| own));
}

#[test]
fn http_2_requests_run_on_colors_of_their_own() {
    assert!(exchange(HttpVersion::Http2, ColorExec::children).into_iter().all(|own| !own));
}

#[test]
fn http_2_requests_run_on_the_given_color() {
    fn shared(handle: &Handle) -> ColorExec {
        ColorExec::on(handle, &handle.color_on(CoreIndex(1)))
    }
    assert!(exchange(HttpVersion::Http2, shared).into_iter().all(|own| !own));
}

#[test]
fn a_head_that_does_not_come_ends_by_the_timer() {
    for runtime in runtimes() {
        let addr = start(&runtime.handle(), HttpVersion::Http1, ColorExec::children);
        let mut socket = std::net::TcpStream::connect(addr).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.write_all(b"GET / HTTP/1.1\r\nHost: te").unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).expect("the server closes");
    }
}

/// A server of axum with tower's timeout, which needs tokio's timer: `/` answers at once, `/stuck`
/// never. `Compat` provides the timer.
fn start_with_timeout(handle: &Handle) -> SocketAddr {
    let router = Router::new()
        .route("/", get(|| async { "in time" }))
        .route("/stuck", get(std::future::pending::<&str>))
        .layer(TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_millis(50)));
    let socket = listen(SocketAddr::from(([127, 0, 0, 1], 0)), &ListenOptions::default()).expect("a socket");
    let addr = std::net::TcpListener::from(socket.try_clone().unwrap()).local_addr().unwrap();
    let spawner = handle.clone();
    let accept = async move {
        let listener = TcpListener::new(socket).expect("on a core");
        loop {
            let socket = listener.accept().await.expect("descriptors are left");
            let stream = HyperStream::new(TcpStream::new(socket).expect("on a core"));
            let service = TowerToHyperService::new(router.clone());
            let server = hyper::server::conn::http1::Builder::new();
            spawner.spawn_on(
                &spawner.color_on(CoreIndex(0)),
                Compat::new(async move { drop(server.serve_connection(stream, service).await) }),
            );
        }
    };
    handle.spawn_on(&handle.color_on(CoreIndex(0)), accept);
    addr
}

#[test]
fn timeout_layer_runs_with_compat() {
    for runtime in runtimes() {
        let addr = start_with_timeout(&runtime.handle());
        for (path, status, body) in [("/", "200 OK", "in time"), ("/stuck", "504 Gateway Timeout", "")] {
            let mut socket = std::net::TcpStream::connect(addr).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            write!(socket, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            socket.read_to_string(&mut answer).expect("an answer");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
            assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
        }
    }
}

/// Regression: the documentation promised that everything above hyper runs unchanged.
#[test]
fn timer_of_tokio_panics_without_compat() {
    for runtime in runtimes() {
        let bare = runtime.handle().spawn(async { tokio::time::sleep(Duration::ZERO).await });
        let error = bare.wait().expect_err("there is no reactor").to_string();
        assert!(error.contains("no reactor running"), "{error}");
        let wrapped = runtime.handle().spawn(Compat::new(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            vermeil::sleep(Duration::from_millis(1)).await;
        }));
        assert_eq!(wrapped.wait(), Ok(()));
    }
}

/// The example under test, killed when dropped.
struct Axum {
    process: Child,
    url: String,
}

impl Axum {
    fn start(streams: &str) -> Option<Self> {
        Some(Self::of(Command::new(Self::program()?).args(["--streams", streams])))
    }

    fn program() -> Option<PathBuf> {
        let tests = std::env::current_exe().expect("a test is a file");
        let program = tests.parent()?.parent()?.join("examples/axum");
        if !program.exists() {
            eprintln!("skipped: {} is not built", program.display());
            return None;
        }
        Some(program)
    }

    fn of(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("the example starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let url = line.trim().strip_prefix("listening on ").expect("the address").to_owned();
        Self { process, url }
    }
}

impl Drop for Axum {
    fn drop(&mut self) {
        self.process.kill().expect("it is running");
        self.process.wait().expect("it has ended");
    }
}

/// The output of a program; `None` if the program is not installed.
fn run(program: &str, args: &[&str]) -> Option<String> {
    match Command::new(program).args(args).output() {
        Ok(output) => Some(String::from_utf8(output.stdout).expect("UTF-8")),
        Err(error) => {
            eprintln!("skipped: {program}: {error}");
            None
        }
    }
}

#[test]
fn curl_speaks_both_versions_with_axum() {
    let Some(server) = Axum::start("parallel") else { return };
    for (version, number) in [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")] {
        let ask = |path: &str, more: &[&str]| {
            let url = format!("{}{path}", server.url);
            run("curl", &[&["-s", "--max-time", "20", version, &url], more].concat())
        };
        let Some(hello) = ask("/hello/you", &["-w", "%{http_version}"]) else { return };
        assert_eq!(hello, format!("Hello, you\n{number}"));
        assert_eq!(ask("/upper", &["-d", "up"]).as_deref(), Some("UP"));
        assert_eq!(ask("/later/5", &[]).as_deref(), Some("5 ms later\n"));
        assert_eq!(ask("/nowhere", &["-w", "%{http_code}"]).as_deref(), Some("404"));
    }
}

#[test]
fn h2load_gets_every_answer_from_axum() {
    for streams in ["serial", "parallel"] {
        let Some(server) = Axum::start(streams) else { return };
        for version in [&["-m", "10"][..], &["--h1"]] {
            let args = [&["-n", "2000", "-c", "5"], version, &[server.url.as_str()]].concat();
            let Some(said) = run("h2load", &args) else { return };
            assert!(said.contains("2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{said}");
            assert!(said.contains("2000 2xx"), "{said}");
        }
    }
}

/// Regression: the first failed accept ended the example. Here connections take all descriptors,
/// and the example must answer again after their end.
#[test]
fn axum_answers_after_shortage_of_descriptors() {
    let Some(program) = Axum::program() else { return };
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64 && exec \"$0\""]).arg(program).stderr(Stdio::piped());
    let mut server = Axum::of(&mut command);
    let addr = server.url.strip_prefix("http://").expect("a URL").to_owned();
    let connect = || std::net::TcpStream::connect(&addr).expect("the kernel accepts");
    let waiting: Vec<_> = (0..128).map(|_| connect()).collect();
    // Stays open, because the example writes into it.
    let mut said = BufReader::new(server.process.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(line.starts_with("accept: "), "{line}");
    drop(waiting);
    for _ in 0..4 {
        let mut stream = connect();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
