//! Clients, their requests, and the network queues on which requests arrive.
//!
//! Owns the stores of clients and requests. Leaves out the times (`arrive.rs`).

use vermeil_sched::CoreIndex;

use super::colors::NONE;
use crate::memory::ObjectId;
use crate::random::{self, StreamPurpose};
use crate::workload::REQUEST_OBJECTS_MAX;

/// A client.
#[derive(Clone, Debug)]
pub(crate) struct SimClient {
    pub(crate) source: u16,
    /// Number of the client within the source.
    pub(crate) number: u32,
    pub(crate) color: u32,
    /// Number of requests so far.
    pub(crate) asked: u32,
    /// The client's objects, by kind of object.
    pub(crate) objects: Vec<Option<ObjectId>>,
}

/// A request under way.
#[derive(Clone, Debug)]
pub(crate) struct SimRequest {
    pub(crate) client: u32,
    pub(crate) source: u16,
    pub(crate) queue: u32,
    /// The core that accepted the connection.
    pub(crate) core: CoreIndex,
    pub(crate) asked_ns: u64,
    /// Key of the request's random draws.
    pub(crate) key: u64,
    pub(crate) color: u32,
    /// Events that were posted or prepared and have not run.
    pub(crate) live: u32,
    pub(crate) is_answered: bool,
    pub(crate) objects: [Option<ObjectId>; REQUEST_OBJECTS_MAX],
    /// The node of each streamed object of the request, after the first touch.
    pub(crate) streamed_home: [u16; REQUEST_OBJECTS_MAX],
}

impl SimRequest {
    /// A random number for this request, a purpose and a position in the request.
    pub(crate) fn draw(&self, seed: u64, purpose: StreamPurpose, position: u64) -> u64 {
        random::draw(seed, purpose, self.key.wrapping_add(position << 40))
    }
}

/// A network queue: a card, the core that handles the queue, and the number of unanswered requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkQueue {
    /// The node of the card.
    pub(crate) nic_node: u16,
    pub(crate) core: u32,
    pub(crate) pending: u32,
    pub(crate) color: u32,
}

/// The arrival of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) queue: u32,
    /// The core that accepts the connection.
    pub(crate) core: CoreIndex,
    pub(crate) asked_ns: u64,
    /// Key of the request's random draws.
    pub(crate) key: u64,
}

/// All requests; entries are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimRequests {
    all: Vec<SimRequest>,
    free: Vec<u32>,
}

impl SimRequests {
    pub(crate) fn begin(&mut self, arrival: Arrival, client: u32, source: u16) -> u32 {
        let Arrival { queue, core, asked_ns, key } = arrival;
        let request = SimRequest {
            client,
            source,
            queue,
            core,
            asked_ns,
            key,
            color: NONE,
            live: 0,
            is_answered: false,
            objects: [None; REQUEST_OBJECTS_MAX],
            streamed_home: [u16::MAX; REQUEST_OBJECTS_MAX],
        };
        match self.free.pop() {
            Some(at) => {
                self.all[at as usize] = request;
                at
            }
            None => {
                self.all.push(request);
                self.all.len() as u32 - 1
            }
        }
    }

    pub(crate) fn end(&mut self, request: u32) {
        self.free.push(request);
    }

    pub(crate) fn get(&self, request: u32) -> &SimRequest {
        &self.all[request as usize]
    }

    pub(crate) fn get_mut(&mut self, request: u32) -> &mut SimRequest {
        &mut self.all[request as usize]
    }

    /// Requests under way.
    pub(crate) fn live(&self) -> usize {
        self.all.len() - self.free.len()
    }
}
