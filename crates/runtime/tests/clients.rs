//! Clients of the ecosystem on the runtime: WebSocket, PostgreSQL and Redis, with real servers,
//! while the policy `scatter` moves every color at every activation.

use std::{
    env,
    future::Future,
    net::TcpListener,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use vermeil::{
    DriverOptions, Handle, IoChoice, IoStream, Pinning, Policy, Runtime, TcpListener as Listener, TcpStream,
};

/// Questions of each client.
const QUESTIONS: u64 = 200;

/// Runs `task` on a runtime of two cores for each driver that this machine offers.
fn on_each_driver<F, T>(task: impl Fn() -> F)
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    for choice in [IoChoice::Epoll, IoChoice::Uring] {
        let cpu = vermeil_io::current_affinity()[0];
        let io = DriverOptions { choice, ..DriverOptions::default() };
        let builder = Runtime::builder().cpus([cpu, cpu]).pinning(Pinning::Shared).policy(Policy::Scatter);
        match builder.io(io).build() {
            Ok(runtime) => {
                runtime.handle().spawn(task()).wait().expect("it ends");
            }
            Err(error) if choice == IoChoice::Uring => eprintln!("skipped: io_uring: {error}"),
            Err(error) => panic!("epoll works everywhere: {error}"),
        }
    }
}

/// A server of a Debian package with its folder; stops when it is dropped.
struct PackagedServer {
    process: Child,
    folder: tempfile::TempDir,
}

impl PackagedServer {
    /// Starts `command`, and waits until the server answers.
    fn start(folder: tempfile::TempDir, command: &mut Command, mut answers: impl FnMut() -> bool) -> Self {
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut server = Self { process, folder };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !answers() {
            assert!(server.process.try_wait().expect("a child").is_none(), "it ended: {command:?}");
            assert!(Instant::now() < deadline, "no answer: {command:?}");
            std::thread::yield_now();
        }
        server
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for PackagedServer {
    fn drop(&mut self) {
        // At SIGQUIT, PostgreSQL stops at once and ends its children. Redis inherits how SIGQUIT is
        // handled, which a background job of a shell ignores, but stops at SIGTERM.
        let pid = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.process.wait();
    }
}

/// A folder that the user of the servers may enter.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    folder
}

/// The path of a program in `folders` and then in PATH.
fn find(program: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let in_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
    let mut candidates = folders.iter().cloned().chain(in_path.unwrap_or_default());
    candidates.find_map(|folder| Some(folder.join(program)).filter(|path| path.exists()))
}

#[test]
fn websocket_messages_return_in_order() {
    use async_tungstenite::{accept_async, client_async, tungstenite::Message};
    use futures_lite::StreamExt;
    on_each_driver(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("it is bound");
        let listener = Listener::new(listener.into()).expect("a core");
        let server = vermeil::spawn(async move {
            let socket = listener.accept().await.expect("a connection");
            let stream = IoStream::new(TcpStream::new(socket).expect("a core"));
            let mut stream = accept_async(stream).await.expect("a greeting");
            while let Some(Ok(message)) = stream.next().await {
                if message.is_binary() {
                    stream.send(message).await.expect("a client");
                }
            }
        });
        let stream = TcpStream::connect(address).await.expect("a server");
        let greeting = client_async(format!("ws://{address}/"), IoStream::new(stream)).await;
        let (mut stream, _) = greeting.expect("an upgrade");
        for number in 0..QUESTIONS {
            let message = vec![number as u8; 1 + 997 * number as usize];
            stream.send(Message::binary(message.clone())).await.expect("a server");
            let answer = stream.next().await.expect("an answer").expect("no error");
            assert_eq!(answer, Message::binary(message));
        }
        stream.close(None).await.expect("a server");
        while stream.next().await.is_some_and(|message| message.is_ok()) {}
        server.await.expect("it ends");
    });
}

#[test]
fn postgresql_answers_queries() {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|entry| entry.path().join("bin")).collect::<Vec<_>>());
    let folders = versions.unwrap_or_default();
    let (Some(initdb), Some(postgres)) = (find("initdb", &folders), find("postgres", &folders)) else {
        eprintln!("skipped: PostgreSQL is not installed");
        return;
    };
    // PostgreSQL refuses to run as the superuser.
    let is_superuser = rustix::process::geteuid().is_root();
    let as_user = |program: &Path| {
        let mut command = Command::new(if is_superuser { Path::new("setpriv") } else { program });
        if is_superuser {
            command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program);
        }
        command.current_dir("/");
        command
    };
    let folder = folder();
    let data = folder.path().join("data");
    let made = as_user(&initdb)
        .args(["--no-sync", "--auth=trust", "--username=tester", "--encoding=UTF8", "--no-locale", "-D"])
        .arg(&data)
        .output()
        .expect("it starts");
    assert!(made.status.success(), "{made:?}");
    let mut command = as_user(&postgres);
    command.arg("-D").arg(&data).args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"]);
    command.arg(folder.path());
    let mut asking = Command::new(initdb.with_file_name("pg_isready"));
    asking.arg("-q").arg("-h").arg(folder.path());
    let answers = || asking.status().is_ok_and(|status| status.success());
    let server = PackagedServer::start(folder, &mut command, answers);
    let socket = server.socket(".s.PGSQL.5432");
    on_each_driver(|| {
        let socket = socket.clone();
        async move {
            let stream = IoStream::new(TcpStream::connect_unix(&socket).await.expect("a server"));
            let mut config = tokio_postgres::Config::new();
            config.user("tester").dbname("postgres");
            let connected = config.connect_raw(stream, tokio_postgres::NoTls).await;
            let (client, connection) = connected.expect("a session");
            let connection = vermeil::spawn(connection);
            client.batch_execute("CREATE TEMP TABLE t (n bigint, text text)").await.expect("a table");
            let insert = client.prepare("INSERT INTO t VALUES ($1, $2)").await.expect("a statement");
            for number in 0..QUESTIONS as i64 {
                let text = "é".repeat(number as usize * 100);
                assert_eq!(client.execute(&insert, &[&number, &text]).await.expect("a row"), 1);
            }
            let rows = client.query("SELECT n, text FROM t ORDER BY n", &[]).await.expect("rows");
            assert_eq!(rows.len() as u64, QUESTIONS);
            for (number, row) in rows.iter().enumerate() {
                assert_eq!(row.get::<_, i64>(0), number as i64);
                assert_eq!(row.get::<_, &str>(1).chars().count(), number * 100);
            }
            let error = client.query("SELECT no_such_thing", &[]).await.expect_err("no such column");
            assert!(error.as_db_error().is_some(), "{error:?}");
            drop(client);
            connection.await.expect("it ends").expect("no error");
        }
    });
}

#[test]
fn redis_answers_pipelined_commands() {
    use redis::{AsyncConnectionConfig, aio::MultiplexedConnection};
    let Some(program) = find("redis-server", &[]) else {
        eprintln!("skipped: redis-server is not installed");
        return;
    };
    let folder = folder();
    let socket = folder.path().join("redis.sock");
    let mut command = Command::new(program);
    command.args(["--port", "0", "--save", "", "--dir"]).arg(folder.path());
    command.arg("--unixsocket").arg(&socket);
    let answers = || UnixStream::connect(&socket).is_ok();
    let server = PackagedServer::start(folder, &mut command, answers);
    on_each_driver(|| {
        let socket = server.socket("redis.sock");
        async move {
            let stream = IoStream::new(TcpStream::connect_unix(&socket).await.expect("a server"));
            // The crate's timeouts would need tokio's clock.
            let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
            let info = redis::RedisConnectionInfo::default();
            let connected = MultiplexedConnection::new_with_config(&info, stream, config).await;
            let (connection, driver) = connected.expect("a session");
            let driver = vermeil::spawn(driver);
            let askers: Vec<_> = (0..4_u64)
                .map(|asker| {
                    let mut connection = connection.clone();
                    Handle::current().spawn(async move {
                        for number in 0..QUESTIONS {
                            let key = format!("{asker}-{number}");
                            let value = vec![number as u8; 100 * number as usize];
                            let mut pipe = redis::pipe();
                            pipe.set(&key, &value).ignore().get(&key);
                            let (found,): (Vec<u8>,) =
                                pipe.query_async(&mut connection).await.expect("an answer");
                            assert_eq!(found, value);
                        }
                    })
                })
                .collect();
            for asker in askers {
                asker.await.expect("it ends");
            }
            drop(connection);
            driver.await.expect("it ends");
        }
    });
}
