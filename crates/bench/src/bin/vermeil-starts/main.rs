//! What starting one program costs a process that holds much memory and many descriptors, by each way to start one.
//!
//! The spawner is started first, as a server does it; then memory is filled and descriptors are opened. Each way starts
//! the program many times, one after the other, and waits for its end. Beside it another thread works on the same
//! memory, and notes how long it was ever kept from that. One line of JSON per way. Leaves out which machines and sizes
//! that is tried on (`cgi/starts.rs`).

mod memory;
mod stall;
mod ways;

use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    os::unix::net::UnixDatagram,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use memory::{Memory, Pages};
use serde::Serialize;
use stall::Watch;
use ways::{Start, Way, Ways};

/// Starts of each way before the measured ones.
const WARM_UPS: usize = 3;

/// Starts a program many times, and says what that cost.
#[derive(Debug, Parser)]
#[command(name = "vermeil-starts")]
struct Args {
    /// Megabytes of memory to hold, each page of it written to.
    #[arg(long)]
    hold_mb: usize,
    /// The pages that memory is on.
    #[arg(long)]
    pages: Pages,
    /// Descriptors to hold open.
    #[arg(long)]
    descriptors: usize,
    /// The way to start.
    #[arg(long, value_delimiter = ',')]
    ways: Vec<Way>,
    /// Starts of each way that are measured, in the same order.
    #[arg(long, value_delimiter = ',')]
    starts: Vec<usize>,
    /// The program: it must end by itself at once.
    program: PathBuf,
}

/// What one way cost.
#[derive(Debug, Serialize)]
struct Said {
    way: String,
    starts: usize,
    /// Until the call that starts the program came back: for so long the caller stood still.
    blocked_us_p50: f64,
    blocked_us_p99: f64,
    /// Until the program's end was known.
    ended_us_p50: f64,
    ended_us_p99: f64,
    /// Processor time of caller, spawner and program, for each start.
    cpu_us: f64,
    /// The longest time the other thread was kept from its work.
    stall_us: f64,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vermeil-starts: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let args = Args::parse();
    let mut ways = Ways::prepare(&args.program)?;
    let memory = Memory::hold(args.hold_mb << 20, args.pages)?;
    let held = hold_descriptors(args.descriptors)?;
    let watch = Watch::start(&memory)?;
    for (way, starts) in args.ways.iter().zip(&args.starts) {
        for _ in 0..WARM_UPS {
            ways.start(*way)?;
        }
        let cpu = ways.cpu()?;
        watch.reset();
        let measured: Vec<Start> = (0..*starts).map(|_| ways.start(*way)).collect::<io::Result<_>>()?;
        let stall = watch.longest();
        let cpu = ways.cpu()? - cpu;
        let said = summary(*way, &measured, cpu, stall);
        println!("{}", serde_json::to_string(&said).map_err(io::Error::other)?);
    }
    watch.stop();
    drop((held, memory));
    Ok(())
}

fn hold_descriptors(count: usize) -> io::Result<Vec<OwnedFd>> {
    let _null = File::open("/dev/null")?;
    (0..count).map(|_| UnixDatagram::unbound().map(OwnedFd::from)).collect()
}

fn summary(way: Way, measured: &[Start], cpu: Duration, stall: Duration) -> Said {
    let sorted = |time: fn(&Start) -> Duration| {
        let mut times: Vec<f64> = measured.iter().map(|start| time(start).as_secs_f64() * 1e6).collect();
        times.sort_by(f64::total_cmp);
        times
    };
    let (blocked, ended) = (sorted(|start| start.blocked), sorted(|start| start.ended));
    let at = |times: &[f64], share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    Said {
        way: way.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default(),
        starts: measured.len(),
        blocked_us_p50: at(&blocked, 0.5),
        blocked_us_p99: at(&blocked, 0.99),
        ended_us_p50: at(&ended, 0.5),
        ended_us_p99: at(&ended, 0.99),
        cpu_us: cpu.as_secs_f64() * 1e6 / measured.len() as f64,
        stall_us: stall.as_secs_f64() * 1e6,
    }
}

/// Measures how long `f` takes.
fn timed<R>(f: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    let result = f();
    (result, start.elapsed())
}
