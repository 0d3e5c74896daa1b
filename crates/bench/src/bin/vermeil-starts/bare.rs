//! A process that holds nothing and only starts the program with `posix_spawn`, one after the other
//! or several at once: the least cost of a start. The process is forked before memory and
//! descriptors are held, and starts programs when its turn comes.

#![allow(unsafe_code)]

use std::{
    collections::HashMap,
    ffi::CStr,
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use vermeil_bench::rusage;

use crate::{
    timed,
    ways::{Start, posix_spawn, wait_for_any},
};

/// Bytes of a number on the wire.
const NUMBER: usize = size_of::<u64>();

/// The process, which ends when this value is dropped.
pub(crate) struct Bare {
    line: UnixStream,
    pid: u32,
}

impl Bare {
    /// Forks the process; only a process without other threads may call this.
    pub(crate) fn fork(program: &CStr) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: there are no other threads, so the child may do all that this process may.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                // The parent notices an error by the missing answer.
                let _ = serve(theirs, program);
                // SAFETY: ends the child without the parent's exit handlers.
                unsafe { libc::_exit(0) }
            }
            pid => Ok(Self { line: ours, pid: pid.unsigned_abs() }),
        }
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Starts the program `count` times, `at_once` at a time; returns the starts and their total
    /// processor time.
    pub(crate) fn start(&mut self, count: usize, at_once: usize) -> io::Result<(Vec<Start>, Duration)> {
        self.line.write_all(&[count, at_once].map(|number| (number as u64).to_ne_bytes()).concat())?;
        let mut number = || {
            let mut bytes = [0; NUMBER];
            self.line.read_exact(&mut bytes).map(|()| Duration::from_nanos(u64::from_ne_bytes(bytes)))
        };
        let cpu = number()?;
        let starts = (0..count).map(|_| Ok(Start { blocked: number()?, ended: number()? }));
        Ok((starts.collect::<io::Result<_>>()?, cpu))
    }
}

fn serve(mut asked: UnixStream, program: &CStr) -> io::Result<()> {
    loop {
        let mut number = || {
            let mut bytes = [0; NUMBER];
            asked.read_exact(&mut bytes).map(|()| u64::from_ne_bytes(bytes) as usize)
        };
        let (count, at_once) = (number()?, number()?);
        let cpu = rusage::thread() + rusage::children();
        let (mut times, mut running, mut begun) = (Vec::new(), HashMap::new(), 0);
        while begun < count || !running.is_empty() {
            while begun < count && running.len() < at_once {
                let begin = Instant::now();
                let (pid, blocked) = timed(|| posix_spawn(program));
                running.insert(pid?, (begin, blocked));
                begun += 1;
            }
            let (begin, blocked) = running.remove(&wait_for_any()?).expect("a child of ours");
            times.extend([blocked, begin.elapsed()]);
        }
        let cpu = rusage::thread() + rusage::children() - cpu;
        let told = [cpu].into_iter().chain(times);
        let told: Vec<u8> = told.flat_map(|time| (time.as_nanos() as u64).to_ne_bytes()).collect();
        asked.write_all(&told)?;
    }
}
