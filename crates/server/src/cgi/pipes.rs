//! What a program reads and writes: its content as a file, its output and error output through pipes.
//!
//! Content is collected before (`gateway`), so it stands in a file, and a program that does not read it holds nobody up.
//! Output comes through pipes that only this core reads, so it waits for nothing but the program.

use crate::gateway::{Content, ErrorLines, Last, Trouble, Writer};
use bytes::Bytes;
use rustix::{
    fs::{MemfdFlags, OFlags, SeekFrom, memfd_create, seek},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};
use std::{
    fs::File,
    future::poll_fn,
    io::{self, Write as _},
    os::fd::OwnedFd,
    pin::pin,
    task::Poll,
};
use vermeil::Source;
use vermeil_spawn::Stdio;

/// Room that is made for output: what a pipe holds by default.
const READ_BYTES: usize = 64 * 1024;

/// The least room there must be for another read. Most answers leave more, and their end needs none. Guess: so that
/// reading what a pipe holds takes four reads at most.
const ROOM_BYTES_MIN: usize = 16 * 1024;

/// Bytes of an error output that are read at once: as a rule it says nothing, or a line.
const ERROR_BYTES: usize = 4096;

/// Our ends of a program's pipes.
pub(crate) struct Output {
    stdout: Pipe,
    /// Nothing once it has ended.
    stderr: Option<Pipe>,
}

/// The end of a pipe that is read.
struct Pipe {
    end: OwnedFd,
    source: Source,
}

/// Makes a program's descriptors for `content`, and our ends of them. `null` is `/dev/null`.
pub(crate) fn open(content: &Content, null: &File) -> io::Result<(Stdio, Output)> {
    let stdin = match content {
        Content::None => null.try_clone()?.into(),
        Content::Memory(bytes, _) => in_memory(bytes)?,
        Content::Spooled(spool) => {
            let file = spool.reopen()?;
            seek(&file, SeekFrom::Start(0))?;
            file
        }
    };
    let (stdout, our_stdout) = pipe()?;
    let (stderr, our_stderr) = pipe()?;
    Ok((Stdio { stdin, stdout, stderr }, Output { stdout: our_stdout, stderr: Some(our_stderr) }))
}

/// A file of these bytes that has no name, to be read from its start.
fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("content", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    seek(&file, SeekFrom::Start(0))?;
    Ok(file.into())
}

/// The end that is written, which blocks as programs expect, and ours, which does not.
fn pipe() -> io::Result<(OwnedFd, Pipe)> {
    let (end, written) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&end, OFlags::NONBLOCK)?;
    let source = Source::new(end.try_clone()?)?;
    Ok((written, Pipe { end, source }))
}

impl Pipe {
    /// Appends what is there to `into`; nothing at its end, `WouldBlock` if there is none yet.
    fn read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        if into.spare_capacity_mut().len() < ROOM_BYTES_MIN {
            into.reserve(READ_BYTES);
        }
        let read =
            rustix::io::retry_on_intr(|| rustix::io::read(&self.end, rustix::buffer::spare_capacity(into)));
        Ok(read?)
    }

    /// As [`Pipe::read`], for what is looked at at once.
    fn read_some(&self, into: &mut [u8; ERROR_BYTES]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(&self.end, &mut into[..]))?)
    }
}

impl Output {
    /// Takes what is there of the error output; says whether that was anything.
    fn take_errors(&mut self, errors: &mut ErrorLines) -> io::Result<bool> {
        let mut took = false;
        let mut said = [0; ERROR_BYTES];
        while let Some(stderr) = &self.stderr {
            match stderr.read_some(&mut said) {
                Ok(0) => self.stderr = None,
                Ok(bytes) => {
                    errors.push(&said[..bytes]);
                    took = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(took)
    }

    /// Waits until either pipe has something, or has ended.
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

    /// Waits for output, and appends it; nothing at its end. Dropping the future loses nothing.
    pub(crate) async fn read(&mut self, output: &mut Vec<u8>, errors: &mut ErrorLines) -> io::Result<usize> {
        loop {
            match self.stdout.read(output) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) => {
                    self.take_errors(errors)?;
                    return Ok(0);
                }
                read => return read,
            }
            if !self.take_errors(errors)? {
                self.readable().await?;
            }
        }
    }
}

/// The content was handed over before the program ran.
pub(crate) struct AllWritten;

impl Writer for AllWritten {
    async fn write(&mut self, piece: Bytes, _: Last) -> Result<(), Trouble> {
        if piece.is_empty() { Ok(()) } else { Err(io::Error::from(Errno::INVAL).into()) }
    }
}
