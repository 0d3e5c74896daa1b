//! `vermeil load files`: writes the files of workloads.

use crate::values::{Size, size_between};
use crate::{Exit, print};
use clap::{Args, ValueHint};
use std::path::PathBuf;
use vermeil_load::files::{SetKind, SetPages, write};

/// Write the files that a workload requests.
///
/// The number of directories depends on the expected number of users and on --max-bytes. Every byte
/// of the content can be verified. A manifest at the root of DIR lists the files for `vermeil
/// load`. Existing files are kept. `support` also gets pages: PHP that reads its data from `vermeil
/// load backend`, or with --static plain files.
#[derive(Debug, Args)]
pub(super) struct FilesArgs {
    /// The set of files: support, specweb96 or webstone
    #[arg(value_name = "SET")]
    set: SetKind,

    /// The folder, to be served as the root of a site
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: PathBuf,

    /// The number of users (support), or of expected operations a second (specweb96)
    ///
    /// From 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    scale: u64,

    /// The largest total size of the directories, in bytes
    ///
    /// From 1M to 1P. If the directories do not fit, fewer are written.
    #[arg(long, value_name = "SIZE", default_value_t = Size::bytes(1 << 30), value_parser = size_between(1 << 20, 1 << 50))]
    max_bytes: Size,

    /// Pages as plain files instead of PHP
    ///
    /// Default: PHP.
    #[arg(long = "static")]
    is_static: bool,

    /// The address of the back end of the PHP pages; the environment variable VERMEIL_LOAD_BACKEND
    /// overrides the address
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8089")]
    backend: String,
}

impl FilesArgs {
    /// Writes.
    pub(super) fn run(self) -> Exit {
        let pages = if self.is_static { SetPages::Static } else { SetPages::Php };
        match write(&self.dir, self.set, self.scale, self.max_bytes.bytes, pages, &self.backend) {
            Ok(written) => {
                let directories = written.manifest.directories;
                let fewer = if directories < written.directories_asked {
                    format!(" (of {} that --scale asks for: --max-bytes)", written.directories_asked)
                } else {
                    String::new()
                };
                print::result(&format!(
                    "{}: {} files, {} bytes, {directories} directories{fewer}\n",
                    self.dir.display(),
                    written.files,
                    written.bytes
                ))
            }
            Err(error) => print::failure(&error, Exit::CannotStart),
        }
    }
}
