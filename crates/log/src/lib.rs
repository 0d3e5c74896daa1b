//! The access log and the operator's log, written without making a core wait.
//!
//! ```text
//! core ── record ──▶ CoreLog (batch, 64 KiB) ── try_send ──▶ bounded channel ──▶ thread
//!              `vermeil-log` ──▶ file, stdout ◀───────────── empty batch buffers come back
//!              ─────────────────┘
//! ```
//!
//! Contains the record of a request ([`LogRecord`]), the batches, the line format, the log thread,
//! and the files of the server and of hosts, with their rotation. [`operator_log`] and [`Notices`]
//! write lines for the operator. The connection decides which requests are recorded, and the caller
//! turns signals into [`Log::reopen`]. Times are arguments, except on the log thread. Must never
//! know the routing of requests.
//!
//! Lines of a core keep the order of its records; lines of different cores may be out of order by
//! up to [`FLUSH_MS`]. Records that cannot be written in time are dropped whole, and counted.
//! Tested in `access_log/tests.rs` and beside each file.

mod access_log;
mod batch;
mod combined;
mod datagram;
mod format;
mod host_files;
mod log_file;
mod named;
mod notices;
pub mod operator_log;
mod options;
mod record;
mod rotation;
mod shared;
mod sink;
mod target;
mod template;
mod waiting_text;
mod writer;

pub use access_log::{BATCHES_WAITING_PER_CORE, Log, LogError, LogMaker, look_at_file};
pub use batch::{BATCH_BYTES, CoreLog, FLUSH_MS};
pub use format::{LogFormat, LogFormats};
pub use log_file::open_log_file;
pub use named::{LogAccess, OwnAccess};
pub use notices::{FAILURES_MAX, INTERVAL_MS, NoticeKind, Notices};
pub use options::{HOST_FILES_OPEN_MAX, HostLog, LogOptions};
pub use record::{
    AnswerTime, FILE_BYTES_MAX, HOST_BYTES_MAX, LINE_BYTES_MAX, LogRecord, LoggedClient, REFERER_BYTES_MAX,
    USER_AGENT_BYTES_MAX,
};
pub use rotation::{LogFileId, ROTATION_GAP, Rotation, rotate};
pub use shared::LogCounts;
pub use target::{LogTarget, LogTargetError};
pub use template::{LogTemplate, LogTemplateError};
