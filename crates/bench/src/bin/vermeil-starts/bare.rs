//! A process that holds nothing and does nothing but start the program with `posix_spawn`, one after the other: the least that a
//! start costs. It is forked before anything is held, and asked for some starts whenever it is its turn.

#![allow(unsafe_code)]

use std::{
    ffi::CStr,
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use vermeil_bench::rusage;

use crate::{
    timed,
    ways::{Start, posix_spawn, wait},
};

/// Bytes of a number as it is told.
const NUMBER: usize = size_of::<u64>();

/// The process; it ends when this is dropped.
pub(crate) struct Bare(UnixStream);

impl Bare {
    /// Forks it, which only a process without other threads may.
    pub(crate) fn fork(program: &CStr) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: there are no other threads, so the child may do all that this process may.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                // What went wrong is noticed where nothing comes back.
                let _ = serve(theirs, program);
                // SAFETY: ends the child without what its parent is to do at the end.
                unsafe { libc::_exit(0) }
            }
            _ => Ok(Self(ours)),
        }
    }

    /// Has it start the program `count` times; the starts, and the processor time they took in all.
    pub(crate) fn start(&mut self, count: usize) -> io::Result<(Vec<Start>, Duration)> {
        self.0.write_all(&(count as u64).to_ne_bytes())?;
        let mut number = || {
            let mut bytes = [0; NUMBER];
            self.0.read_exact(&mut bytes).map(|()| Duration::from_nanos(u64::from_ne_bytes(bytes)))
        };
        let cpu = number()?;
        let starts = (0..count).map(|_| Ok(Start { blocked: number()?, ended: number()? }));
        Ok((starts.collect::<io::Result<_>>()?, cpu))
    }
}

fn serve(mut asked: UnixStream, program: &CStr) -> io::Result<()> {
    loop {
        let mut count = [0; NUMBER];
        asked.read_exact(&mut count)?;
        let cpu = rusage::thread() + rusage::children();
        let mut times = Vec::new();
        for _ in 0..u64::from_ne_bytes(count) {
            let (started, ended) = timed(|| {
                let (pid, blocked) = timed(|| posix_spawn(program));
                wait(pid?).map(|()| blocked)
            });
            times.extend([started?, ended]);
        }
        let cpu = rusage::thread() + rusage::children() - cpu;
        let told = [cpu].into_iter().chain(times);
        let told: Vec<u8> = told.flat_map(|time| (time.as_nanos() as u64).to_ne_bytes()).collect();
        asked.write_all(&told)?;
    }
}
