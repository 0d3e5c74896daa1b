//! The cost of starting one program from a process with much memory and many descriptors, by each
//! way of starting.
//!
//! First the program starts the spawner, as a server does, and a process that holds nothing and
//! starts programs. Then the program fills memory and opens descriptors. Each way starts the
//! program many times, one after the other, and waits for its end. After that each way does so
//! again while another thread works on the same memory and records the length of its stalls, with
//! the same number of records for each way. Prints one line of JSON per way. Leaves out the choice
//! of machines and sizes (`cgi/starts.rs`). The ways take turns, because other activity of the
//! machine then falls on all of them alike.

mod awake;
mod bare;
mod memory;
mod one_cpu;
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
use memory::{MappedMemory, PageKind};
use serde::Serialize;
use stall::{StallWatch, WorkPiece};
use ways::{Start, StartWay, Ways};

/// Warm-up starts of each way in a turn.
const WARM_UPS: usize = 3;
/// Turns of each way, if the way has that many starts.
const TURNS: usize = 10;
/// Pieces that the other thread records in a turn. The number is fixed because the maximum of more
/// pieces would be longer; a turn goes on until the number is reached.
const NOTED: usize = 300;

/// Starts a program many times and reports the cost.
#[derive(Debug, Parser)]
#[command(name = "vermeil-starts")]
struct StartsArgs {
    /// Megabytes of memory to hold, with every page written.
    #[arg(long)]
    hold_mb: usize,
    /// The pages that memory is on.
    #[arg(long)]
    pages: PageKind,
    /// Descriptors to hold open.
    #[arg(long)]
    descriptors: usize,
    /// The way to start.
    #[arg(long, value_delimiter = ',')]
    ways: Vec<StartWay>,
    /// Measured starts of each way, in the same order.
    #[arg(long, value_delimiter = ',')]
    starts: Vec<usize>,
    /// The program: must end at once without help.
    program: PathBuf,
}

/// The cost of one way.
#[derive(Debug, Serialize)]
struct WayCost {
    way: String,
    starts: usize,
    /// The time until the starting call returned; the caller was blocked for this time.
    blocked_us_p50: f64,
    blocked_us_p99: f64,
    /// Until the program's end was known.
    ended_us_p50: f64,
    ended_us_p99: f64,
    /// Processor time of caller, spawner and program, for each start: of the median turn.
    cpu_us: f64,
    /// Page tables of the process that starts the program.
    page_tables_kb: u64,
    /// The stalls of the other thread: the 99.9th percentile and the maximum.
    stall_us_p999: f64,
    stall_us_max: f64,
    /// The maximum time that the host took from the other thread.
    host_us_max: f64,
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
    let args = StartsArgs::parse();
    let mut ways = Ways::prepare(&args.program)?;
    let memory = MappedMemory::hold(args.hold_mb << 20, args.pages)?;
    let held = hold_descriptors(args.descriptors)?;
    let watch = StallWatch::start(&memory)?;
    let ways_here = args.ways.iter().zip(&args.starts).filter(|(way, _)| way.is_possible());
    let mut all: Vec<_> = ways_here.map(|(&way, &starts)| (Measured::of(way), starts)).collect();
    for turn in 0..TURNS {
        for (measured, starts) in &mut all {
            // Spreads the remainder over the turns.
            let starts = *starts * (turn + 1) / TURNS - *starts * turn / TURNS;
            if starts > 0 {
                measured.turn(starts, &mut ways, &watch)?;
            }
        }
    }
    watch.stop()?;
    drop((held, memory));
    for (measured, _) in all.iter().filter(|(measured, _)| !measured.starts.is_empty()) {
        println!("{}", serde_json::to_string(&measured.summary()).map_err(io::Error::other)?);
    }
    Ok(())
}

/// The measurements of one way.
struct Measured {
    way: StartWay,
    starts: Vec<Start>,
    /// For each start, of each turn.
    cpu_us: Vec<f64>,
    page_tables_kb: u64,
    pieces: Vec<WorkPiece>,
}

impl Measured {
    fn of(way: StartWay) -> Self {
        Self { way, starts: Vec::new(), cpu_us: Vec::new(), page_tables_kb: 0, pieces: Vec::new() }
    }

    fn turn(&mut self, starts: usize, ways: &mut Ways, watch: &StallWatch) -> io::Result<()> {
        ways.starts(self.way, WARM_UPS)?;
        let (started, cpu) = ways.starts(self.way, starts)?;
        self.cpu_us.push(cpu.as_secs_f64() * 1e6 / started.len() as f64);
        self.starts.extend(started);
        self.page_tables_kb = ways.page_tables_kb(self.way)?;
        watch.begin();
        while !watch.has(NOTED) {
            ways.starts(self.way, starts)?;
        }
        self.pieces.extend(watch.end(NOTED));
        Ok(())
    }

    fn summary(&self) -> WayCost {
        let times = |time: fn(&Start) -> Duration| {
            sorted(self.starts.iter().map(|start| time(start).as_secs_f64() * 1e6).collect())
        };
        let (blocked, ended) = (times(|start| start.blocked), times(|start| start.ended));
        let pieces = |time: fn(&WorkPiece) -> Duration| {
            sorted(self.pieces.iter().map(|piece| time(piece).as_secs_f64() * 1e6).collect())
        };
        let (stalls, host) = (pieces(|piece| piece.own), pieces(|piece| piece.host));
        let name = self.way.to_possible_value().map(|value| value.get_name().to_owned());
        WayCost {
            way: name.unwrap_or_default(),
            starts: self.starts.len(),
            blocked_us_p50: at(&blocked, 0.5),
            blocked_us_p99: at(&blocked, 0.99),
            ended_us_p50: at(&ended, 0.5),
            ended_us_p99: at(&ended, 0.99),
            cpu_us: at(&sorted(self.cpu_us.clone()), 0.5),
            page_tables_kb: self.page_tables_kb,
            stall_us_p999: at(&stalls, 0.999),
            stall_us_max: at(&stalls, 1.0),
            host_us_max: at(&host, 1.0),
        }
    }
}

fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

/// The value below which a `share` of all values lies.
fn at(times: &[f64], share: f64) -> f64 {
    times[((times.len() - 1) as f64 * share).round() as usize]
}

fn hold_descriptors(count: usize) -> io::Result<Vec<OwnedFd>> {
    let _null = File::open("/dev/null")?;
    (0..count).map(|_| UnixDatagram::unbound().map(OwnedFd::from)).collect()
}

/// Measures how long `f` takes.
fn timed<R>(f: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    let result = f();
    (result, start.elapsed())
}
