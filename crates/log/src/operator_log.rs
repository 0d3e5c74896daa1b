//! Lines for the operator, on standard error.
//!
//! Owns the name at the start of each line: the server, or one of its instances. A line waits a
//! moment for room, and is lost without room, because a server must start and end also if the
//! reader of its standard error has stopped. Leaves out notices about frequent events
//! (`notices.rs`). Tested below and through the binary.

use crate::log_file::in_one_piece;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat},
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
    let text = format!("{}: {line}\n", process_name());
    // Until the last piece, so that no line of another thread comes between two pieces.
    let stderr = io::stderr().lock();
    write_if_room(stderr.as_fd(), text.as_bytes());
}

/// Writes `text`, or gives up when `end` has no room for [`ROOM_WAIT`]. A file takes the text at
/// once, and a pipe as many whole lines as it takes in one piece, because several processes write
/// to the same stream.
fn write_if_room(end: BorrowedFd<'_>, text: &[u8]) {
    let is_file =
        fstat(end).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile);
    let mut rest = text;
    while !rest.is_empty() {
        let mut polled = [PollFd::from_borrowed_fd(end, PollFlags::OUT)];
        if !retry_on_intr(|| poll(&mut polled, Some(&ROOM_WAIT))).is_ok_and(|ready| ready > 0) {
            return;
        }
        let piece = if is_file { rest } else { in_one_piece(rest) };
        match retry_on_intr(|| write(end, piece)) {
            Ok(written @ 1..) => rest = &rest[written..],
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_file::{PIPE_BYTES, open_log_file};
    use std::{
        io::{Read as _, pipe},
        os::unix::net::UnixDatagram,
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

    /// Regression: a text was cut at any byte, so lines of other processes came into its lines.
    #[test]
    fn each_piece_ends_with_a_line() {
        let (reader, writer) = UnixDatagram::pair().expect("a pair");
        let line = [vec![b'x'; PIPE_BYTES / 2], b"\n".to_vec()].concat();
        write_if_room(writer.as_fd(), &line.repeat(3));
        for _ in 0..3 {
            let mut piece = vec![0; PIPE_BYTES];
            let length = reader.recv(&mut piece).expect("a piece");
            assert_eq!(&piece[..length], line);
        }
    }

    #[test]
    fn file_takes_long_lines_whole() {
        const LINES: usize = 100;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        thread::scope(|scope| {
            for byte in *b"ab" {
                let file = open_log_file(&path).expect("a file");
                scope.spawn(move || {
                    let line = [vec![byte; 3 * PIPE_BYTES], b"\n".to_vec()].concat();
                    (0..LINES).for_each(|_| write_if_room(file.as_fd(), &line));
                });
            }
        });
        let text = std::fs::read(&path).expect("read");
        assert_eq!(text.len(), 2 * LINES * (3 * PIPE_BYTES + 1));
        let mut lines = text.split(|byte| *byte == b'\n');
        assert!(lines.all(|line| line.iter().all(|byte| *byte == line[0])), "lines are mixed");
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
