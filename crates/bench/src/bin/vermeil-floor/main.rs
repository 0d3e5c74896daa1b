//! The floor: the least work of a server for one HTTP exchange. The remaining cost is the kernel's
//! TCP.
//!
//! The floor answers each receive with one fixed response of the configured size, and ignores the
//! received bytes. With `--folder` it answers with the file that the request names (`files.rs`).
//! The floor is one pinned thread without timeouts and limits. Its only client must be a load
//! generator that neither pipelines nor splits requests, because each receive then is one request.
//! The harness checks the status and the byte count of the answers before every run, as for the
//! real servers.

mod epoll;
mod files;
mod once;
mod php;
mod readiness;
mod response;
mod uring;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use files::FloorFiles;
use php::FloorPhp;
use response::{HeadWait, RepeatedResponse};
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::thread::{CpuSet, sched_setaffinity};

/// How the floor talks to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FloorIo {
    /// Readiness, then one receive and one send per request.
    Epoll,
    /// Multishot receive into a buffer ring, sends submitted in batches.
    Uring,
    /// Blocking calls, a connection for each request.
    Once,
    /// As `epoll`, and the floor asks PHP before each answer.
    Php,
}

/// Answers every receive with the same bytes.
#[derive(Debug, Parser)]
#[command(name = "vermeil-floor")]
struct FloorArgs {
    /// The kernel interface to use.
    #[arg(long)]
    io: FloorIo,
    /// The address to listen on.
    #[arg(long)]
    listen: SocketAddr,
    /// The cpu to stay on.
    #[arg(long)]
    cpu: usize,
    /// The status code of the canned response.
    #[arg(long)]
    status: u16,
    /// Bytes of the response's head, blank line included.
    #[arg(long)]
    head: usize,
    /// Bytes of the response's body; with --file, the size of the file. With --io php the body is
    /// as long as PHP's.
    #[arg(long, default_value_t = 0)]
    body: u64,
    /// Send the body from this file with sendfile instead of from memory.
    #[arg(long)]
    file: Option<PathBuf>,
    /// With --file: send the head at once instead of with the first bytes of the file.
    #[arg(long, requires = "file")]
    head_apart: bool,
    /// Answer with the file below this folder that the request names. With --io epoll or uring.
    #[arg(long, conflicts_with = "file")]
    folder: Option<PathBuf>,
    /// With --folder: each host has a folder of its own there, called like the host.
    #[arg(long, requires = "folder")]
    by_host: bool,
    /// Connections that the kernel queues.
    #[arg(long, default_value_t = 4096)]
    queue: u16,
    /// With --io php: where PHP listens.
    #[arg(long, required_if_eq("io", "php"))]
    socket: Option<PathBuf>,
    /// With --io php: the script to request.
    #[arg(long, required_if_eq("io", "php"))]
    script: Option<PathBuf>,
    /// With --io php: connections to PHP, as many as PHP has children.
    #[arg(long, default_value_t = 1)]
    children: usize,
}

fn main() -> ExitCode {
    match run(&FloorArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vermeil-floor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &FloorArgs) -> io::Result<()> {
    let php = args.php();
    let body = php.as_ref().map_or(Ok(args.body), FloorPhp::body_bytes)?;
    let response = args.response(body)?;
    let mut cpus = CpuSet::new();
    cpus.set(args.cpu);
    sched_setaffinity(None, &cpus)?;
    let listener = args.listener()?;
    if let Some(folder) = &args.folder {
        let mut files = FloorFiles::new(folder, args.by_host, args.head)?;
        return match args.io {
            FloorIo::Epoll => files::run(&listener, &mut files),
            FloorIo::Uring => uring::run(&listener, &response, Some(&mut files)),
            FloorIo::Once | FloorIo::Php => Err(io::Error::other("--folder needs --io epoll or uring")),
        };
    }
    match args.io {
        FloorIo::Epoll => epoll::run(&listener, &response),
        FloorIo::Uring => uring::run(&listener, &response, None),
        FloorIo::Once => once::run(&listener, &response),
        FloorIo::Php => php::run(&listener, &response, &php.expect("made for --io php")),
    }
}

impl FloorArgs {
    /// PHP, with `--io php`.
    fn php(&self) -> Option<FloorPhp> {
        let required = |path: &Option<PathBuf>| path.clone().expect("required with --io php");
        (self.io == FloorIo::Php).then(|| FloorPhp {
            socket: required(&self.socket),
            script: required(&self.script),
            children: self.children,
        })
    }

    /// The response with a body of `body` bytes.
    fn response(&self, body: u64) -> io::Result<RepeatedResponse> {
        let head = if self.head_apart { HeadWait::Apart } else { HeadWait::Joined };
        let file = self.file.as_deref().map(|path| (path, head));
        // A client counts an unannounced end of the connection as an error.
        let fields = if self.io == FloorIo::Once { "Connection: close\r\n" } else { "" };
        RepeatedResponse::new(self.status, fields, self.head, body, file)
    }

    fn listener(&self) -> io::Result<TcpListener> {
        let listener = TcpListener::bind(self.listen)?;
        // A second listen changes the length of the queue.
        rustix::net::listen(&listener, self.queue.into())?;
        // The tail of a response must not wait for an acknowledgement (Nagle). Accepted sockets
        // inherit the option from the listener.
        set_tcp_nodelay(&listener, true)?;
        Ok(listener)
    }
}
