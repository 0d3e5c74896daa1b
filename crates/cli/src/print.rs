//! The two outputs of a command: the result on standard output, errors on standard error.

use crate::Exit;
use std::fmt::Display;
use std::io::{self, Write};

/// Writes a command's result. A reader that closed the pipe (`| head`) needs no more output, so a
/// broken pipe is no error.
pub(crate) fn result(text: &str) -> Exit {
    bytes(text.as_bytes())
}

/// Writes a result that is not text.
pub(crate) fn bytes(bytes: &[u8]) -> Exit {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Exit::Clean,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Clean,
        Err(error) => failure(&format_args!("cannot write to standard output: {error}"), Exit::Failed),
    }
}

/// Reports why a command ends with `exit`. If standard error is closed too, only the exit code
/// remains.
pub(crate) fn failure(why: &dyn Display, exit: Exit) -> Exit {
    // In one write, because several instances may end at once.
    let _ =
        io::stderr().write_all(format!("{}: {why}\n", vermeil_log::operator_log::process_name()).as_bytes());
    exit
}
