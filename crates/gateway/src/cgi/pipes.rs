//! A program's descriptors: content as a file, output and error output as pipes.
//!
//! The gateway has already collected the content (`gateway`). So the content is in a file, and a
//! program that ignores the content blocks nothing. Only this core reads the pipes, so output waits
//! only for the program.

use crate::parts::{ErrorLines, Last, ProgramRead, ProgramWriter, RequestBody, Trouble, reopened};
use bytes::Bytes;
use rustix::{
    fs::{MemfdFlags, Mode, OFlags, memfd_create},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};
use std::{
    fs::File,
    future::poll_fn,
    io::{self, Write as _},
    os::fd::OwnedFd,
    pin::pin,
    task::{Context, Poll},
};
use vermeil::{Source, yield_now};
use vermeil_spawn::Stdio;

/// Buffer space for output: the default size of a pipe.
const READ_BYTES: usize = 64 * 1024;

/// Minimum buffer space for another read. Most answers leave more, and reading their end needs
/// none. A full pipe of 64 KiB takes four reads at most.
const ROOM_BYTES_MIN: usize = 16 * 1024;

/// Bytes of error output that are read at once, because error output is usually empty or a single
/// line.
const ERROR_BYTES: usize = 4096;

/// Bytes of error output that are read before other work of the core has its turn: the content of
/// a full pipe. A program may write without end.
const ERROR_PASS_BYTES: usize = 64 * 1024;

/// The server's ends of a program's pipes.
pub(super) struct ProgramPipes {
    stdout: Pipe,
    /// `None` once the error output has ended.
    stderr: Option<Pipe>,
}

/// The error output of a program that goes on after its answer. Dropping this value logs an
/// unfinished line and closes the pipe.
pub(super) struct LeftErrors {
    /// `None` once the error output has ended.
    stderr: Option<Pipe>,
    lines: ErrorLines,
}

/// The read end of a pipe.
struct Pipe {
    end: OwnedFd,
    source: Source,
}

/// Makes a program's descriptors for `content`, and the server's ends. `null` is `/dev/null`.
pub(super) fn open(content: &RequestBody, null: &File) -> io::Result<(Stdio, ProgramPipes)> {
    let stdin = match content {
        RequestBody::None => null.try_clone()?.into(),
        RequestBody::Memory(bytes, _) => in_memory(bytes)?,
        RequestBody::Spooled(spool) => spool.reopen()?,
    };
    let (stdout, our_stdout) = pipe()?;
    let (stderr, our_stderr) = pipe()?;
    Ok((Stdio { stdin, stdout, stderr }, ProgramPipes { stdout: our_stdout, stderr: Some(our_stderr) }))
}

/// A file without a name that holds these bytes, to be read from the start.
fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("content", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    reopened(&file)
}

/// Returns the write end, which blocks as programs expect, and the nonblocking read end.
fn pipe() -> io::Result<(OwnedFd, Pipe)> {
    let (end, written) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&end, OFlags::NONBLOCK)?;
    // A program of another user may open `/dev/stdout` and `/dev/stderr`, as shell scripts do. Only
    // a process that has the pipe, or may trace such a process, can open the pipe by `/proc`.
    rustix::fs::fchmod(&written, Mode::RUSR | Mode::WUSR | Mode::WGRP | Mode::WOTH)?;
    let source = Source::new(end.try_clone()?)?;
    Ok((written, Pipe { end, source }))
}

impl Pipe {
    /// Appends available output to `into`. Returns 0 at the end, and `WouldBlock` if there is no
    /// output yet.
    fn read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        if into.spare_capacity_mut().len() < ROOM_BYTES_MIN {
            into.reserve(READ_BYTES);
        }
        let read =
            rustix::io::retry_on_intr(|| rustix::io::read(&self.end, rustix::buffer::spare_capacity(into)));
        Ok(read?)
    }

    /// Like [`Pipe::read`], into a small buffer.
    fn read_some(&self, into: &mut [u8; ERROR_BYTES]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(&self.end, &mut into[..]))?)
    }
}

/// Reads available error output, up to [`ERROR_PASS_BYTES`]. Returns the number of bytes.
fn take_errors(stderr: &mut Option<Pipe>, errors: &mut ErrorLines) -> io::Result<usize> {
    let mut taken_bytes = 0;
    let mut said = [0; ERROR_BYTES];
    while taken_bytes < ERROR_PASS_BYTES
        && let Some(pipe) = stderr.as_ref()
    {
        match pipe.read_some(&mut said) {
            Ok(0) => *stderr = None,
            Ok(bytes) => {
                errors.push(&said[..bytes]);
                taken_bytes += bytes;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(taken_bytes)
}

impl LeftErrors {
    /// Reads available error output. Pending if there is none yet.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<ProgramRead> {
        let Ok(bytes) = take_errors(&mut self.stderr, &mut self.lines) else {
            return Poll::Ready(ProgramRead::End);
        };
        let Some(stderr) = &self.stderr else { return Poll::Ready(ProgramRead::End) };
        if bytes > 0 {
            return Poll::Ready(ProgramRead::Some);
        }
        stderr.source.poll_readable(context).map(|ready| match ready {
            Ok(()) => ProgramRead::Some,
            Err(_) => ProgramRead::End,
        })
    }

    /// Logs the remaining error output of a program that has ended: a full pipe at most. Another
    /// process that still holds the pipe gets SIGPIPE.
    pub(super) fn finish(mut self) {
        // If the pipe cannot be read, there is nothing more to log.
        let _ = take_errors(&mut self.stderr, &mut self.lines);
    }
}

impl ProgramPipes {
    /// Reads available error output, up to [`ERROR_PASS_BYTES`]. Returns the number of bytes.
    pub(super) fn take_errors(&mut self, errors: &mut ErrorLines) -> io::Result<usize> {
        take_errors(&mut self.stderr, errors)
    }

    /// Logs available error output, and closes the output. Returns the error output if it goes on.
    pub(super) fn into_errors(mut self, mut lines: ErrorLines) -> Option<LeftErrors> {
        self.take_errors(&mut lines).ok()?;
        let Self { stderr, .. } = self;
        stderr.is_some().then_some(LeftErrors { stderr, lines })
    }

    /// Waits until either pipe is readable or has ended.
    async fn readable(&self) -> io::Result<()> {
        let mut stdout = pin!(self.stdout.source.readable());
        let Some(stderr) = &self.stderr else { return stdout.await };
        let mut stderr = pin!(stderr.source.readable());
        poll_fn(|context| match stdout.as_mut().poll(context) {
            Poll::Ready(ready) => Poll::Ready(ready),
            Poll::Pending => stderr.as_mut().poll(context),
        })
        .await
    }

    /// Waits for output and appends it. Returns 0 at the end. Dropping the future loses nothing.
    pub(super) async fn read(&mut self, output: &mut Vec<u8>, errors: &mut ErrorLines) -> io::Result<usize> {
        loop {
            match self.stdout.read(output) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) => {
                    self.take_errors(errors)?;
                    return Ok(0);
                }
                read => return read,
            }
            match self.take_errors(errors)? {
                0 => self.readable().await?,
                // There may be more at once and for ever, so the core does other work first, and
                // the caller notices that the client has gone.
                _ => yield_now().await,
            }
        }
    }
}

/// A writer for content that the program already has.
pub(super) struct AllWritten;

impl ProgramWriter for AllWritten {
    async fn write(&mut self, piece: Bytes, _: Last) -> Result<(), Trouble> {
        if piece.is_empty() { Ok(()) } else { Err(io::Error::from(Errno::INVAL).into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::ErrorSink;
    use rustix::pipe::fcntl_setpipe_size;
    use std::sync::Arc;
    use vermeil::Runtime;
    use vermeil_log::Notices;

    const PASSES: usize = 3;

    /// Regression: error output was read to its end, which a flood does not have.
    #[test]
    fn flood_of_errors_is_read_in_passes() {
        let runtime = Runtime::builder().cpus([0]).build().expect("it starts");
        let taken = runtime.handle().spawn(async {
            let null = File::open("/dev/null").expect("it is there");
            let (stdio, mut pipes) = open(&RequestBody::None, &null).expect("descriptors");
            let flood = vec![b'x'; PASSES * ERROR_PASS_BYTES];
            fcntl_setpipe_size(&stdio.stderr, flood.len()).expect("below the bound for users");
            File::from(stdio.stderr).write_all(&flood).expect("room");
            let mut errors = ErrorLines::of_program(ErrorSink::new(Arc::new(Notices::kept())), "cgi");
            let mut output = Vec::new();
            let mut reading = Box::pin(pipes.read(&mut output, &mut errors));
            // Between two passes the core does other work.
            let is_pending =
                poll_fn(|context| Poll::Ready(reading.as_mut().poll(context).is_pending())).await;
            assert!(is_pending);
            drop(reading);
            let mut left = || pipes.take_errors(&mut errors).expect("readable");
            [left(), left(), left()]
        });
        assert_eq!(taken.wait().expect("no panic"), [ERROR_PASS_BYTES, ERROR_PASS_BYTES, 0]);
    }
}
