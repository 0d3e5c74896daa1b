//! One axum program on two runtimes: the server of `cargo xtask bench app`.
//!
//! The router is the same; only the accept loop differs, because each runtime has its own. All
//! connections are accepted on one core, so the other core gets work only if the runtime moves it.
//! Each request computes for as many microseconds as its path says.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use clap::{Parser, ValueEnum};
use hyper::server::conn::http1;
use hyper_util::service::TowerToHyperService;
use vermeil::hyper::{CoreTimer, HyperStream};
use vermeil::{CoreIndex, Handle, ListenOptions, Policy, Runtime, TcpListener, TcpStream, listen};
use vermeil_programs::kernel::{MixingPace, mix};

/// The allocator of the binary `vermeil`, for the peer too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
struct AppArgs {
    /// The runtime.
    #[arg(value_enum)]
    runtime: AppRuntime,
    /// Where to listen.
    #[arg(long)]
    listen: SocketAddr,
    /// Vermeil's policy.
    #[arg(long, default_value_t)]
    policy: Policy,
    /// Vermeil's cores: the first of the allowed cpus. Default: all.
    #[arg(long)]
    cores: Option<usize>,
    /// The speed of this machine's mixing; measured if left out.
    #[arg(long)]
    rounds_per_us: Option<f64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AppRuntime {
    /// Vermeil.
    Vermeil,
    /// tokio's multi-threaded runtime, with axum's own accept loop.
    Tokio,
}

fn main() -> ExitCode {
    match run(&AppArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vermeil-app: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &AppArgs) -> io::Result<()> {
    let pace =
        args.rounds_per_us.map_or_else(MixingPace::measure, |rounds_per_us| MixingPace { rounds_per_us });
    let router = router(pace);
    match args.runtime {
        AppRuntime::Vermeil => on_vermeil(args, router),
        AppRuntime::Tokio => on_tokio(args.listen, router),
    }
}

/// A request for `/N` computes for N microseconds.
fn router(pace: MixingPace) -> Router {
    let computing = move |Path(us): Path<u32>| async move {
        let rounds = (f64::from(us) * pace.rounds_per_us) as u64;
        format!("{:016x}\n", mix(rounds, u64::from(us)))
    };
    Router::new().route("/{us}", get(computing))
}

fn on_vermeil(args: &AppArgs, router: Router) -> io::Result<()> {
    let cpus = vermeil_io::current_affinity();
    let cores = args.cores.unwrap_or(cpus.len());
    let builder = Runtime::builder().policy(args.policy.clone()).cpus(cpus.into_iter().take(cores));
    let runtime = builder.build().map_err(io::Error::other)?;
    let handle = runtime.handle();
    let socket = listen(args.listen, &ListenOptions::default())?;
    let color = handle.color_on(CoreIndex(0));
    let accepting = handle.spawn_on(&color, accept(handle.clone(), socket, router));
    accepting.wait().map_err(io::Error::other)?
}

/// Accepts on one core. A connection is a task on a color that idle cores may take.
async fn accept(handle: Handle, socket: std::os::fd::OwnedFd, router: Router) -> io::Result<()> {
    let listener = TcpListener::new(socket)?;
    let service = TowerToHyperService::new(router);
    loop {
        let stream = HyperStream::new(TcpStream::new(listener.accept().await?)?);
        let service = service.clone();
        handle.spawn(async move {
            let served = http1::Builder::new().timer(CoreTimer).serve_connection(stream, service).await;
            if let Err(error) = served {
                eprintln!("a connection ended: {error}");
            }
        });
    }
}

fn on_tokio(listen: SocketAddr, router: Router) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(listen).await?;
        axum::serve(listener, router).await
    })
}
