//! The keys of log files.
//!
//! Leaves out the resulting options (`logs.rs`).

use super::{
    read::At,
    tables::table,
    values::{Size, Span},
};
use vermeil_log::HOST_FILES_OPEN_MAX;

table! {
    /// The files of access logs: the log of the server and the logs of hosts.
    pub(super) struct LogFilesTable {
        /// The size at which the server rotates a log file: `access.log` becomes `access.log.1`,
        /// `access.log.1` becomes `access.log.2`, and so on. A file may exceed the size by some
        /// 300 KB, and is rotated every two seconds at most. The server's user needs the right to
        /// write in the folder. Without the key: the size does not matter. Example: `"100M"`.
        rotate_bytes: Option<Size> = None; from 1 << 10, to 1 << 40,
        /// The time after which the server rotates a log file, counted from midnight UTC: `"24h"`
        /// gives a file for each day, `"1h"` for each hour. The first line of a new period begins
        /// the new file. At least 2 s. Without the key: the time does not matter. Example: `"24h"`.
        rotate_every: Option<At<Span>> = None,
        /// The most rotated files of each log. The oldest is removed. A lower number removes no
        /// file that has a higher number already. Example: `30`.
        kept: At<u64> = At::unwritten(10); from 1, to 1000,
        /// The most log files of hosts that are open at once, at most a quarter of the limit of
        /// open files. At the bound, the server closes the file that was unused for the longest
        /// time, and opens it again for its next line. Example: `1000`.
        open_max: u64 = HOST_FILES_OPEN_MAX as u64; from 1, to 4096,
    }
}
