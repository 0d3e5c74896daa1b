//! Waits on an epoll set.
//!
//! Contains the event buffer and the two system calls. `epoll_pwait2` takes a timeout in
//! nanoseconds. `epoll_wait` takes milliseconds, rounded up, and replaces `epoll_pwait2` where that
//! call is missing or forbidden. Tested in `tests/suite`.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::event::epoll::EventFlags;

/// The buffer for the events of a wait.
pub(super) struct EpollEvents {
    buffer: Vec<libc::epoll_event>,
    /// Whether `epoll_pwait2` was refused: ENOSYS before Linux 5.11, EPERM by a seccomp filter that
    /// does not know the call.
    lacks_pwait2: bool,
}

impl EpollEvents {
    pub(super) fn new(capacity: u16) -> Self {
        let empty = libc::epoll_event { events: 0, u64: 0 };
        Self { buffer: vec![empty; usize::from(capacity.max(1))], lacks_pwait2: false }
    }

    /// Waits for events and returns their number. The number is zero after a timeout or a signal.
    pub(super) fn wait(&mut self, epoll: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<usize> {
        let milliseconds = match timeout {
            None => -1,
            Some(Duration::ZERO) => 0,
            Some(timeout) if self.lacks_pwait2 => ceil_ms(timeout),
            Some(timeout) => match self.wait_ns(epoll, timeout) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.lacks_pwait2 = true;
                    ceil_ms(timeout)
                }
                result => return result,
            },
        };
        let (buffer, capacity) = (self.buffer.as_mut_ptr(), self.buffer.len() as i32);
        // SAFETY: `buffer` has room for `capacity` events, and the kernel writes at most `capacity`
        // events.
        let count = unsafe { libc::epoll_wait(epoll.as_raw_fd(), buffer, capacity, milliseconds) };
        event_count(i64::from(count))
    }

    fn wait_ns(&mut self, epoll: BorrowedFd<'_>, timeout: Duration) -> io::Result<usize> {
        let timeout = libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // SAFETY: `buffer` has room for the requested number of events, the timeout outlives the
        // call, and no signal mask is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                epoll.as_raw_fd(),
                self.buffer.as_mut_ptr(),
                self.buffer.len() as libc::c_int,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        event_count(count)
    }

    /// The flags and the data of an event. `index` must be below the result of `wait`.
    #[inline]
    pub(super) fn get(&self, index: usize) -> (EventFlags, u64) {
        let event = self.buffer[index];
        (EventFlags::from_bits_retain(event.events), event.u64)
    }
}

fn ceil_ms(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

/// The result of a wait, from the result of its system call.
fn event_count(result: i64) -> io::Result<usize> {
    if let Ok(count) = usize::try_from(result) {
        return Ok(count);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_round_up_to_milliseconds() {
        assert_eq!(ceil_ms(Duration::from_nanos(1)), 1);
        assert_eq!(ceil_ms(Duration::from_micros(1000)), 1);
        assert_eq!(ceil_ms(Duration::from_micros(1001)), 2);
        assert_eq!(ceil_ms(Duration::MAX), i32::MAX);
    }
}
