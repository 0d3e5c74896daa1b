//! Options of a driver: the implementation, and the bounds.
//!
//! Contains the names, units and defaults of every limit of the crate. The drivers check the limits
//! against the machine, and report the result in `Driver::description`. Tested here (parsing) and
//! in `tests/suite` (behavior at each bound).

use std::fmt;
use std::str::FromStr;

/// The implementation of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// io_uring if every operation needed works here, epoll otherwise.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// epoll, always available.
    Epoll,
}

impl fmt::Display for IoChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        })
    }
}

/// A word that names no [`IoChoice`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown I/O driver '{0}': use auto, uring or epoll")]
pub struct UnknownIoChoice(String);

impl FromStr for IoChoice {
    type Err = UnknownIoChoice;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "epoll" => Ok(Self::Epoll),
            _ => Err(UnknownIoChoice(word.to_owned())),
        }
    }
}

/// The bounds of a driver. Memory per driver with the defaults: about 1.2 MiB with io_uring
/// (touched only as far as used), under 16 KiB with epoll; plus at most 160 bytes per stream.
#[derive(Debug, Clone)]
pub struct DriverOptions {
    /// The implementation. Default: [`IoChoice::Auto`].
    pub choice: IoChoice,
    /// Entries of io_uring's submission queue, rounded up to a power of two. Default 512 (32 KiB).
    /// A full queue is submitted early, which costs an additional system call. The completion queue
    /// has four times as many entries; when the completion queue is full, the kernel keeps
    /// completions in kernel memory until there is room.
    pub ring_entries: u32,
    /// Receive buffers shared by all streams of an io_uring driver, rounded up to a power of two,
    /// at most 32768. Default 256. When all buffers are in use, streams receive by one system call
    /// each.
    pub recv_buffers: u16,
    /// Bytes of a receive buffer, and the maximum that a `poll_recv` appends to a buffer without
    /// room for more. Default 4096: a request's header fits.
    pub recv_buffer_bytes: u32,
    /// Receive buffers that a stream may hold before receiving is suspended until the buffers are
    /// read. Default 4. A burst that arrives within one turn may exceed this number. After a burst,
    /// a reader with room for another receives by system calls, into the reader's memory.
    pub recv_parked_max: u16,
    /// Connections accepted by io_uring but not yet taken through `poll_accept`, per listener,
    /// before accepting is suspended. Default 64. A burst that arrives within one turn may exceed
    /// this number. (The epoll driver never holds any.)
    pub accept_backlog_max: usize,
    /// Events that epoll returns in a turn. Default 512 (6 KiB); further events come with the next
    /// turn.
    pub epoll_events: u16,
}

impl DriverOptions {
    /// The default of [`recv_buffer_bytes`](Self::recv_buffer_bytes).
    pub const RECV_BUFFER_BYTES: u32 = 4096;
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            choice: IoChoice::Auto,
            ring_entries: 512,
            recv_buffers: 256,
            recv_buffer_bytes: Self::RECV_BUFFER_BYTES,
            recv_parked_max: 4,
            accept_backlog_max: 64,
            epoll_events: 512,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_choice_reads_back() {
        for choice in [IoChoice::Auto, IoChoice::Uring, IoChoice::Epoll] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let error = "kqueue".parse::<IoChoice>().unwrap_err().to_string();
        assert!(error.contains("'kqueue'") && error.contains("auto, uring or epoll"), "{error}");
    }
}
