//! The floor: the least work of a server for one HTTP exchange. The remaining cost is the kernel's
//! TCP.
//!
//! The floor takes every receive for exactly one request, does not look at the bytes, and answers
//! with one fixed response of the configured size. It is one pinned thread with no other path, no
//! time-outs and no limits. It must never face anything but a load generator that neither pipelines
//! nor splits requests. The harness checks the status and the byte count of the answers before
//! every run, as for the real servers.

mod epoll;
mod once;
mod php;
mod response;
mod uring;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
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
    let head = if args.head_apart { HeadWait::Apart } else { HeadWait::Joined };
    let file = args.file.as_deref().map(|path| (path, head));
    let php = FloorPhp {
        socket: args.socket.clone().unwrap_or_default(),
        script: args.script.clone().unwrap_or_default(),
        children: args.children,
    };
    let body = match args.io {
        FloorIo::Php => php.body_bytes()?,
        FloorIo::Epoll | FloorIo::Uring | FloorIo::Once => args.body,
    };
    // A client that expects a kept connection counts its end as an error.
    let fields = if args.io == FloorIo::Once { "Connection: close\r\n" } else { "" };
    let response = RepeatedResponse::new(args.status, fields, args.head, body, file)?;
    let mut cpus = CpuSet::new();
    cpus.set(args.cpu);
    sched_setaffinity(None, &cpus)?;
    let listener = TcpListener::bind(args.listen)?;
    rustix::net::listen(&listener, args.queue.into())?;
    // Accepted sockets inherit the option, because the tail of a response must not wait for an
    // acknowledgement (Nagle).
    set_tcp_nodelay(&listener, true)?;
    match args.io {
        FloorIo::Epoll => epoll::run(&listener, &response),
        FloorIo::Uring => uring::run(&listener, &response),
        FloorIo::Once => once::run(&listener, &response),
        FloorIo::Php => php::run(&listener, &response, &php),
    }
}
