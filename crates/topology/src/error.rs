//! The errors of this crate: one type, whose messages name the operation, the thing and the cure.
//!
//! Leaves out data that is merely missing on this machine (a virtual machine without cache files is
//! no error). Messages are pinned in the tests of the parsers.

use std::path::PathBuf;

/// The reason why a machine could not be read, or why cpus could not be chosen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// The given folder has no usable description of cpus.
    #[error(
        "cannot read cpus from {}: {source}; check that sysfs is mounted there, \
         or describe the machine (an hwloc XML export, or text such as \"node:2 core:4 pu:1\")",
        path.display()
    )]
    Sysfs {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A cpu list does not parse.
    #[error("cpu list \"{text}\", column {column}: {problem}; write it like 0-7,^3")]
    CpuList {
        /// The whole list.
        text: String,
        /// The position of the error, in characters from 1.
        column: usize,
        /// The problem.
        problem: String,
    },
    /// A synthetic description does not parse.
    #[error("machine description \"{text}\", column {column}: {problem}")]
    Synthetic {
        /// The whole description.
        text: String,
        /// The position of the error, in characters from 1.
        column: usize,
        /// The problem, and the nearest valid text.
        problem: String,
    },
    /// An hwloc XML export does not parse.
    #[error("hwloc XML, line {line}: {problem}; export it again with `lstopo --of xml FILE`")]
    Xml {
        /// The line, from 1.
        line: u32,
        /// The problem.
        problem: String,
    },
    /// The description has no cpu that is online.
    #[error("the machine description has no online cpu; a machine needs at least one")]
    NoCpu,
    /// The description has more memory nodes than Linux numbers.
    #[error("the machine description has {nodes} memory nodes, and Linux numbers at most {max}; take fewer")]
    ManyNodes {
        /// The number in the description.
        nodes: usize,
        /// The largest number.
        max: usize,
    },
    /// The requested cores are not available.
    #[error("--cores {asked}: {problem}")]
    Cores {
        /// The selection as written.
        asked: String,
        /// The refused cpu or number, and the cpus that may be used.
        problem: String,
    },
}
