//! Shell completions, from the definitions of the commands.
//!
//! Tested in `tests.rs`: every shell gets a file that names every command.

use crate::{Exit, command, print};
use clap::{Args, ValueEnum};
use clap_complete::{Generator as _, Shell, generate};
use std::io;
use std::path::{Path, PathBuf};

const PROGRAM: &str = "vermeil";

/// Write the completions of a shell to standard output
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) fn run(self) -> Exit {
        print::result(&String::from_utf8_lossy(&text(self.shell)))
    }
}

/// Writes the completions for every shell into the folder `dir`, which must exist. The files
/// written.
///
/// # Errors
/// A file cannot be written.
pub fn completions(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let write = |&shell: &Shell| {
        let path = dir.join(shell.file_name(PROGRAM));
        vermeil_io::output::write(&path, text(shell))?;
        Ok(path)
    };
    Shell::value_variants().iter().map(write).collect()
}

fn text(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    generate(shell, &mut command(), PROGRAM, &mut text);
    text
}
