//! The requests that the children of a pool are in, for the status.
//!
//! A request has a slot from its turn to the end of its use of the child. The names are cut, so
//! the memory has a bound: [`NAME_BYTES_MAX`] for each child. Tested in `pool/tests.rs`, and
//! through the binary (`crates/e2e/tests/e2e/php/running.rs`).

use std::time::Instant;
use vermeil_http::Request;

/// The longest shown host and path, in bytes, together with the method. Longer paths are cut.
pub(super) const NAME_BYTES_MAX: usize = 256;

/// A request that a child is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningRequest {
    /// Method, host and path, one behind the other. One piece of memory, because each request to
    /// PHP makes one.
    text: Box<[u8]>,
    method_end: usize,
    host_end: usize,
    /// When the program got the request.
    pub since: Instant,
}

impl RunningRequest {
    /// The names of `request`, which got its turn at `since`. Without the query, which may hold
    /// secrets.
    pub fn new(request: &Request<'_>, since: Instant) -> Self {
        let (method, host) = (request.method.as_bytes(), request.host.unwrap_or_default());
        let mut text =
            Vec::with_capacity(NAME_BYTES_MAX.min(method.len() + host.len() + request.target.path.len()));
        let mut append = |part: &[u8]| {
            text.extend_from_slice(&part[..part.len().min(NAME_BYTES_MAX - text.len())]);
            text.len()
        };
        let (method_end, host_end) = (append(method), append(host));
        append(request.target.path);
        Self { text: text.into(), method_end, host_end, since }
    }

    /// The method.
    pub fn method(&self) -> &[u8] {
        &self.text[..self.method_end]
    }

    /// The host, cut to its room.
    pub fn host(&self) -> &[u8] {
        &self.text[self.method_end..self.host_end]
    }

    /// The path, cut to its room.
    pub fn path(&self) -> &[u8] {
        &self.text[self.host_end..]
    }
}

/// The slots of the requests of a pool.
#[derive(Debug, Default)]
pub(super) struct RunningRequests {
    slots: Vec<Option<RunningRequest>>,
    free: Vec<usize>,
}

/// The slot of a request. Not a copy, because a slot is given back once.
#[derive(Debug)]
pub(super) struct RunningSlot(usize);

impl RunningRequests {
    pub(super) fn begin(&mut self, request: RunningRequest) -> RunningSlot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(request);
        RunningSlot(slot)
    }

    pub(super) fn end(&mut self, slot: Option<RunningSlot>) {
        if let Some(RunningSlot(slot)) = slot {
            self.slots[slot] = None;
            self.free.push(slot);
        }
    }

    /// The requests that run longest, at most `max`.
    pub(super) fn longest(&self, max: usize) -> Vec<RunningRequest> {
        let mut running: Vec<_> = self.slots.iter().flatten().collect();
        running.sort_by_key(|request| request.since);
        running.into_iter().take(max).cloned().collect()
    }
}
