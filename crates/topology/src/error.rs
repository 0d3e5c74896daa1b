//! What can go wrong here: one type, whose messages name the operation, the thing and the cure.
//!
//! Leaves out everything that is merely missing on this machine (a virtual machine without cache files is no error).
//! Messages are pinned in the tests of the parsers that raise them.

use std::path::PathBuf;

/// Why a machine could not be read, or why cpus could not be chosen on it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder handed in has no usable description of cpus.
    #[error(
        "cannot read cpus from {}: {source}; check that sysfs is mounted there, \
         or describe the machine (an hwloc XML export, or text such as \"node:2 core:4 pu:1\")",
        path.display()
    )]
    Sysfs {
        /// The folder that was to be listed.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A cpu list does not parse.
    #[error("cpu list \"{text}\", column {column}: {problem}; write it like 0-7,^3")]
    CpuList {
        /// The whole list.
        text: String,
        /// Where it stops making sense, in characters from 1.
        column: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A synthetic description does not parse.
    #[error("machine description \"{text}\", column {column}: {problem}")]
    Synthetic {
        /// The whole description.
        text: String,
        /// Where it stops making sense, in characters from 1.
        column: usize,
        /// What is wrong there, and the nearest thing that would be right.
        problem: String,
    },
    /// An hwloc XML export does not parse.
    #[error("hwloc XML, line {line}: {problem}; export it again with `lstopo --of xml FILE`")]
    Xml {
        /// The line, from 1.
        line: u32,
        /// What is wrong there.
        problem: String,
    },
    /// The description has no cpu that is online.
    #[error("the machine description has no online cpu; a machine needs at least one")]
    NoCpu,
    /// The cores asked for cannot be had.
    #[error("--cores {asked}: {problem}")]
    Cores {
        /// The selection as written.
        asked: String,
        /// Which cpu or number is refused, and which ones may be used.
        problem: String,
    },
}
