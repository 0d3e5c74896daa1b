//! Lines for the operator, on standard error.
//!
//! Owns the name at the start of each line: the server, or one of its instances. A line waits a
//! moment for room, and is lost without room, because a server must start and end also if the
//! reader of its standard error has stopped. Leaves out notices about frequent events
//! (`notices.rs`). Tested below and through the binary.

use crate::log_file::PIPE_BYTES;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{retry_on_intr, write},
};
use std::{
    fmt, io,
    os::fd::{AsFd as _, BorrowedFd},
    sync::OnceLock,
};

/// How long a line waits for room. The end of a server has about ten lines, so a reader that has
/// stopped delays the end by a second.
const ROOM_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The number of this instance and the prefix of its lines, if there are several instances.
static SPEAKER: OnceLock<(u32, String)> = OnceLock::new();

/// The prefix of this process's lines: the program's name, with the instance number if there are
/// several instances.
pub fn process_name() -> &'static str {
    SPEAKER.get().map_or("vermeil", |(_, speaker)| speaker)
}

/// The number of this instance, or 0 if it is the only instance.
pub fn instance() -> u32 {
    SPEAKER.get().map_or(0, |(number, _)| *number)
}

/// Marks all further lines as those of instance `number`.
pub fn log_as_instance(number: u32) {
    // A second call would mean a second instance in this process, which cannot happen.
    let _ = SPEAKER.set((number, format!("vermeil[{number}]")));
}

/// Writes a line, unless standard error has no room for it. A closed standard error is no reason to
/// stop.
pub fn log_line(line: fmt::Arguments<'_>) {
    write_if_room(io::stderr().as_fd(), format!("{}: {line}\n", process_name()).as_bytes());
}

/// Writes `line`, or gives up when `end` has no room for [`ROOM_WAIT`]. A line that a pipe takes in
/// one piece is written at once, because several processes write to the same stream.
fn write_if_room(end: BorrowedFd<'_>, line: &[u8]) {
    let mut rest = line;
    while !rest.is_empty() {
        let mut polled = [PollFd::from_borrowed_fd(end, PollFlags::OUT)];
        if !retry_on_intr(|| poll(&mut polled, Some(&ROOM_WAIT))).is_ok_and(|ready| ready > 0) {
            return;
        }
        match retry_on_intr(|| write(end, &rest[..rest.len().min(PIPE_BYTES)])) {
            Ok(written @ 1..) => rest = &rest[written..],
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read as _, pipe},
        sync::mpsc,
        thread,
        time::Duration,
    };

    /// Regression: a server whose standard error was a full pipe did not end at SIGTERM.
    #[test]
    fn line_gives_up_on_full_pipe() {
        let (mut reader, writer) = pipe().expect("a pipe");
        let long = vec![b'x'; 1 << 20];
        let (say_done, done) = mpsc::channel();
        let writing = thread::spawn(move || {
            write_if_room(writer.as_fd(), &long);
            write_if_room(writer.as_fd(), b"lost\n");
            say_done.send(()).expect("the test waits");
        });
        done.recv_timeout(Duration::from_secs(20)).expect("the lines are given up");
        writing.join().expect("no panic");
        let mut text = Vec::new();
        reader.read_to_end(&mut text).expect("read");
        assert!(!text.is_empty() && text.iter().all(|byte| *byte == b'x'), "{} bytes", text.len());
    }

    #[test]
    fn long_line_is_written_whole() {
        let (mut reader, writer) = pipe().expect("a pipe");
        let long = [vec![b'x'; PIPE_BYTES + 1], b"\n".to_vec()].concat();
        write_if_room(writer.as_fd(), &long);
        drop(writer);
        let mut text = Vec::new();
        reader.read_to_end(&mut text).expect("read");
        assert_eq!(text, long);
    }
}
