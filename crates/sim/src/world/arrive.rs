//! Requests: the time of each, the network queue, and the answer.
//!
//! Owns the four kinds of sources and the choice of a queue. When a request arrives, the card
//! writes the data to memory and may interrupt the queue's core. The request's first event is then
//! posted, or the request waits for a polling handler.

use vermeil_sched::{CoreIndex, Placement};

use super::World;
use super::clock::Moment;
use super::colors::{NONE, TokenPlace};
use super::requests::{Arrival, NetworkQueue, SimClient};
use crate::machine::PS_PER_NS;
use crate::memory::Access;
use crate::random::{self, RandomStream, StreamPurpose};
use crate::watch::Watch;
use crate::workload::{Accept, SourceKind, SourceQueue};

/// Clients without think time send the first request at a random time within this limit, not all at
/// one instant.
const START_SPREAD_NS: u64 = 1_000_000;

/// Picoseconds in a second.
const PS_PER_S: u64 = 1_000_000_000_000;

impl<W: Watch> World<W> {
    pub(super) fn begin_sources(&mut self) {
        for index in 0..self.given.program.sources.len() {
            self.add_queues(index);
            self.add_clients(index);
            self.begin_source(index);
        }
        self.begin_recording();
    }

    fn add_queues(&mut self, source: usize) {
        let cores = self.cores.len() as u32;
        let count = self.given.program.sources[source].queues.unwrap_or(cores);
        let nics = &self.given.machine.nics;
        let queue = |index: u32| {
            let core = (u64::from(index) * u64::from(cores) / u64::from(count)) as u32;
            let own_node = self.given.machine.cores[core as usize].node;
            let card = u64::from(index) * nics.len() as u64 / u64::from(count);
            NetworkQueue {
                nic_node: nics.get(card as usize).copied().unwrap_or(own_node),
                core,
                pending: 0,
                color: NONE,
            }
        };
        self.arrivals.queues.push((0..count).map(queue).collect());
    }

    fn add_clients(&mut self, source: usize) {
        self.arrivals.first_client.push(self.arrivals.clients.len() as u32);
        let count = self.given.program.sources[source].clients();
        self.arrivals.clients.extend((0..count).map(|number| SimClient {
            source: source as u16,
            number,
            color: NONE,
            asked: 0,
            objects: Vec::new(),
        }));
    }

    fn begin_source(&mut self, source: usize) {
        let first = self.arrivals.first_client[source];
        match self.given.program.sources[source].load.clone() {
            SourceKind::Closed { clients, think_us } => {
                let mut start =
                    RandomStream::new(self.given.options.seed, StreamPurpose::Start, source as u64);
                for client in first..first + clients.max(1) {
                    // As if all clients had been thinking for a long time, so that there is no rush
                    // at the start.
                    let at_ns = match think_us {
                        0 => start.below(START_SPREAD_NS),
                        _ => start.exponential(think_us * 1_000),
                    };
                    self.ask_at(at_ns, client);
                }
            }
            SourceKind::Open { .. } => self.send_at(0, source),
            SourceKind::Burst { .. } => self.send_at(0, source),
            SourceKind::Start { count } => {
                for client in first..first + count {
                    self.ask_at(0, client);
                }
            }
        }
    }

    fn ask_at(&mut self, at_ns: u64, client: u32) {
        self.arrivals.outstanding += 1;
        self.time.clock.at(at_ns, Moment::Ask { client });
    }

    fn send_at(&mut self, at_ns: u64, source: usize) {
        self.arrivals.outstanding += 1;
        self.time.clock.at(at_ns, Moment::Send { source: source as u32 });
    }

    /// Sends requests of a source that does not wait for answers, and plans the next sending.
    pub(super) fn send(&mut self, source: u32) {
        let index = source as usize;
        let (seed, now_ns) = (self.given.options.seed, self.time.now_ns);
        let clients = self.given.program.sources[index].clients();
        let sent = self.output.results.sent_by(index);
        self.arrivals.outstanding -= 1;
        if self.is_draining() {
            return;
        }
        let (count, gap_ns) = match self.given.program.sources[index].load {
            SourceKind::Open { per_s, even, .. } => {
                let per_s = (per_s * u64::from(self.arrivals.rate_percent) / 100).max(1);
                let mean_ps = PS_PER_S / per_s;
                let mut stream =
                    RandomStream::new(seed, StreamPurpose::Arrival, u64::from(source) << 48 | sent);
                (1, self.whole_ns(index, if even { mean_ps } else { stream.exponential(mean_ps) }))
            }
            SourceKind::Burst { count, every_us } => (count, every_us.max(1) * 1_000),
            SourceKind::Closed { .. } | SourceKind::Start { .. } => return,
        };
        self.output.results.sent(index, u64::from(count));
        for number in 0..u64::from(count) {
            let client = self.arrivals.first_client[index] + ((sent + number) % u64::from(clients)) as u32;
            self.arrivals.outstanding += 1;
            self.ask(client);
        }
        self.send_at(now_ns + gap_ns, index);
    }

    /// The whole nanoseconds of a gap between requests of a source. The rest lengthens the next
    /// gap, because gaps without the rest would be too short on average.
    fn whole_ns(&mut self, source: usize, gap_ps: u64) -> u64 {
        let rest_ps = &mut self.arrivals.rest_ps[source];
        let gap_ps = gap_ps + *rest_ps;
        *rest_ps = gap_ps % PS_PER_NS;
        gap_ps / PS_PER_NS
    }

    /// Sends a request of a client.
    pub(super) fn ask(&mut self, client: u32) {
        if self.is_draining() {
            self.arrivals.outstanding -= 1;
            return;
        }
        let asked = {
            let asking = &mut self.arrivals.clients[client as usize];
            asking.asked += 1;
            asking.asked
        };
        let source = self.arrivals.clients[client as usize].source;
        let queue = self.choose_queue(client, asked);
        let key = random::mix(u64::from(client) << 32 | u64::from(asked));
        let home = CoreIndex(self.arrivals.queues[usize::from(source)][queue as usize].core);
        let core = self.accept_on(client, home, key);
        let arrival = Arrival { queue, core, asked_ns: self.time.now_ns, key };
        let request = self.arrivals.requests.begin(arrival, client, source);
        self.arrivals.queues[usize::from(source)][queue as usize].pending += 1;
        self.receive_bytes(source, queue);
        let mut at_ns = self.time.now_ns;
        if self.given.program.sources[usize::from(source)].poll.is_some() {
            self.arrivals.requests.get_mut(request).live += 1;
            self.arrivals.polled[usize::from(source)].waiting.push_back(request);
            if !std::mem::replace(&mut self.arrivals.polled[usize::from(source)].is_posted, true) {
                self.post_poll(source, None, &mut at_ns);
            }
        } else {
            self.arrivals.requests.get_mut(request).live += 1;
            self.enter(request, None, &mut at_ns);
        }
    }

    fn choose_queue(&self, client: u32, asked: u32) -> u32 {
        let client = &self.arrivals.clients[client as usize];
        let queues = &self.arrivals.queues[usize::from(client.source)];
        let count = queues.len() as u32;
        match self.given.program.sources[usize::from(client.source)].choice {
            SourceQueue::Fixed => client.number % count,
            SourceQueue::Hash => {
                let key = u64::from(client.number) << 32 | u64::from(asked);
                random::scale(random::draw(self.given.options.seed, StreamPurpose::Queue, key), count.into())
                    as u32
            }
            SourceQueue::RoundRobin => (client.number + asked - 1) % count,
            SourceQueue::LeastPending => {
                let node =
                    |queue: &NetworkQueue| usize::from(self.given.machine.cores[queue.core as usize].node);
                let mut pending = vec![0u32; self.given.machine.nodes];
                queues.iter().for_each(|queue| pending[node(queue)] += queue.pending);
                let rotated = (0..count).map(|index| (client.number + asked + index) % count);
                rotated.min_by_key(|&index| pending[node(&queues[index as usize])]).unwrap_or(0)
            }
        }
    }

    /// The card writes arrived data to memory near the queue's core, and may interrupt the core.
    fn receive_bytes(&mut self, source: u16, queue: u32) {
        let described = &self.given.program.sources[usize::from(source)];
        let (bytes, cycles) = (described.received_bytes, described.interrupt_cycles);
        let NetworkQueue { nic_node, core, .. } = self.arrivals.queues[usize::from(source)][queue as usize];
        if bytes > 0 {
            let home = self.given.machine.cores[core as usize].node;
            self.memory.dma(nic_node, home, bytes, Access::Write, self.time.now_ns * PS_PER_NS);
        }
        let interrupt_ns = self.given.machine.cycles_ps(cycles) / PS_PER_NS;
        self.core(CoreIndex(core)).idleness.debt_ns += interrupt_ns;
    }

    /// Posts the first event of a request.
    pub(super) fn enter(&mut self, request: u32, by: Option<CoreIndex>, at_ns: &mut u64) {
        let source = self.arrivals.requests.get(request).source;
        let entry = self.given.program.sources[usize::from(source)].entry;
        let maker = by.unwrap_or_else(|| self.queue_core(request));
        let color = self.color_for(entry, request, Some(maker));
        let event = self.colors.prepare(entry, color, request, 0);
        self.count_post(None, entry);
        self.post(event, by, at_ns);
    }

    fn queue_core(&self, request: u32) -> CoreIndex {
        let request = self.arrivals.requests.get(request);
        let core = CoreIndex(self.arrivals.queues[usize::from(request.source)][request.queue as usize].core);
        self.next_there(core)
    }

    /// Posts the event that looks for arrived requests.
    pub(super) fn post_poll(&mut self, source: u16, by: Option<CoreIndex>, at_ns: &mut u64) {
        let poll = self.given.program.sources[usize::from(source)].poll.expect("the source is polled");
        let color = self.color_for(poll.handler, NONE, by);
        let polled = &mut self.arrivals.polled[usize::from(source)];
        let look = polled.looks;
        polled.looks = look.wrapping_add(1);
        let event = self.colors.prepare(poll.handler, color, NONE, look);
        self.arrivals.outstanding += 1;
        self.post(event, by, at_ns);
    }

    /// Records the answer to a client. A client that waited for the answer plans the next request.
    pub(super) fn answer(&mut self, request: u32, at_ns: u64) {
        if request == NONE
            || std::mem::replace(&mut self.arrivals.requests.get_mut(request).is_answered, true)
        {
            return;
        }
        let answered = self.arrivals.requests.get(request);
        let (client, source, queue) = (answered.client, answered.source, answered.queue);
        let took_ns = at_ns - answered.asked_ns;
        self.arrivals.queues[usize::from(source)][queue as usize].pending -= 1;
        let core = answered.core;
        self.accepted_is_answered(core);
        let load = &self.given.program.sources[usize::from(source)].load;
        let is_open = matches!(load, SourceKind::Open { .. } | SourceKind::Burst { .. });
        self.output.results.answered(self.given.machine.node(core), took_ns, is_open);
        if let SourceKind::Closed { think_us, .. } = *load {
            let asked = u64::from(self.arrivals.clients[client as usize].asked);
            let mut think = RandomStream::new(
                self.given.options.seed,
                StreamPurpose::Think,
                u64::from(client) << 32 | asked,
            );
            self.ask_at(at_ns + think.exponential(think_us * 1_000), client);
        }
    }

    /// Counts the end of an event of a request. The last event ends the request.
    pub(super) fn event_of_request_ended(&mut self, request: u32) {
        if request == NONE {
            return;
        }
        let ended = self.arrivals.requests.get_mut(request);
        ended.live -= 1;
        if ended.live > 0 {
            return;
        }
        let (color, objects, answered) = (ended.color, ended.objects, ended.is_answered);
        for object in objects.into_iter().flatten() {
            self.memory.release(object);
        }
        if color != NONE {
            self.colors.release(color);
        }
        if !answered {
            self.answer(request, self.time.now_ns);
        }
        self.arrivals.requests.end(request);
    }

    pub(super) fn request_color(&mut self, request: u32, by: Option<CoreIndex>) -> u32 {
        let known = self.arrivals.requests.get(request).color;
        if known != NONE {
            return known;
        }
        let by = self.maker(request, by);
        let color = self.make_color(None, Placement::Any, by);
        self.arrivals.requests.get_mut(request).color = color;
        color
    }

    /// The core that makes a request's colors: the core that accepted the connection, unless that
    /// is left to the queue's core.
    fn maker(&self, request: u32, by: Option<CoreIndex>) -> Option<CoreIndex> {
        let request = self.arrivals.requests.get(request);
        match self.given.program.sources[usize::from(request.source)].accept {
            Accept::Local => by,
            Accept::Hash | Accept::Fixed | Accept::RoundRobin | Accept::LoadAware => Some(request.core),
        }
    }

    pub(super) fn client_color(&mut self, request: u32, by: Option<CoreIndex>) -> u32 {
        let by = self.maker(request, by);
        let client = self.arrivals.requests.get(request).client as usize;
        if self.arrivals.clients[client].color == NONE {
            self.arrivals.clients[client].color = self.make_color(None, Placement::Any, by);
        }
        let color = self.arrivals.clients[client].color;
        self.at_home(color, by);
        color
    }

    /// A policy that keeps nodes apart makes new colors beside their makers. It also returns a
    /// client's empty color from another node to the maker.
    fn at_home(&mut self, color: u32, by: Option<CoreIndex>) {
        let Some(maker) = by else { return };
        let resting = self.colors.color(color);
        let apart = self.given.options.policy.keeps_apart(self.given.machine.layout(), resting.core, maker);
        if apart && resting.token == TokenPlace::Absent {
            self.colors.color_mut(color).core = maker;
        }
    }

    pub(super) fn queue_color(&mut self, request: u32) -> u32 {
        let (source, queue) = {
            let request = self.arrivals.requests.get(request);
            (usize::from(request.source), request.queue as usize)
        };
        if self.arrivals.queues[source][queue].color == NONE {
            let core = CoreIndex(self.arrivals.queues[source][queue].core);
            self.arrivals.queues[source][queue].color =
                self.make_color(Some(core), Placement::Core(core), None);
        }
        self.arrivals.queues[source][queue].color
    }

    pub(super) fn instance_color(&mut self, object: u16, request: u32, by: Option<CoreIndex>) -> u32 {
        let instance = self.instance(object, request, 0) as usize;
        let colors = &mut self.objects.instance_colors[usize::from(object)];
        if colors.is_empty() {
            colors.resize(self.given.program.objects[usize::from(object)].count as usize, NONE);
        }
        if self.objects.instance_colors[usize::from(object)][instance] == NONE {
            let color = self.make_color(None, Placement::Any, by);
            self.objects.instance_colors[usize::from(object)][instance] = color;
        }
        self.objects.instance_colors[usize::from(object)][instance]
    }

    /// Puts the external events of a recording on the clock, each at its recorded time.
    fn begin_recording(&mut self) {
        let Some(trace) = self.given.program.trace.clone() else { return };
        let colors = (0..trace.colors).map(|_| self.make_color(None, Placement::Any, None)).collect();
        self.objects.instance_colors = vec![colors];
        for (index, recorded) in trace.events.iter().enumerate().filter(|(_, recorded)| recorded.is_root) {
            let event = self.prepare_recorded(index as u32);
            self.time.clock.at(recorded.posted_ns, Moment::Deliver { event });
        }
    }

    /// Prepares an event of a recording for posting.
    pub(super) fn prepare_recorded(&mut self, index: u32) -> u32 {
        let recorded = self.given.program.trace.as_ref().expect("a recording runs").events[index as usize];
        let color = self.objects.instance_colors[0][recorded.color as usize];
        self.arrivals.outstanding += 1;
        self.colors.prepare(recorded.handler, color, NONE, index)
    }

    /// This core, or the next core if a fault has removed this core.
    pub(super) fn next_there(&self, core: CoreIndex) -> CoreIndex {
        let count = self.cores.len() as u32;
        let there = |core: &CoreIndex| self.cores[core.0 as usize].is_there();
        (0..count).map(|step| CoreIndex((core.0 + step) % count)).find(there).unwrap_or(core)
    }
}
