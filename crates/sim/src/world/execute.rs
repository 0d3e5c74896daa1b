//! The run time of a handler: cycles, instructions, and the objects that the handler touches.
//!
//! Owns the random draws that make runs differ, and the choice of an object's instance. The memory
//! system says how long a touch takes.

use vermeil_sched::CoreIndex;

use super::World;
use super::colors::{NONE, SimEvent};
use crate::fixed;
use crate::machine::{PS_PER_NS, Pattern};
use crate::memory::{Access, ObjectId, ObjectWalk};
use crate::random::{self, StreamPurpose};
use crate::watch::Watch;
use crate::workload::{ObjectHome, ObjectLife, Touch};

/// The pool of objects that do not belong to a core.
const COMMON_POOL: u32 = u32::MAX;

/// The time of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunTime {
    /// At least 1.
    pub(super) run_ns: u64,
    /// The part of `run_ns` that is base cycles.
    pub(super) base_ns: u64,
}

impl<W: Watch> World<W> {
    /// Runs an event's handler from `at_ns` on.
    pub(super) fn execute(&mut self, core: CoreIndex, event: u32, found: u32, at_ns: u64) -> RunTime {
        let event = *self.colors.event(event);
        let base_ps = self.base_ps(&event, found);
        let base_ps = self.at_speed(core, base_ps);
        let mut waited_ps = 0;
        let start_ps = at_ns * PS_PER_NS;
        if self.core(core).history.handler != event.handler {
            self.core(core).history.handler = event.handler;
            waited_ps += self.fetch_code(core, event.handler, start_ps);
        }
        // The handler's own work is spread over the touched objects, by size.
        let touches = &self.given.program.handlers[usize::from(event.handler)].touches;
        let sizes: u64 = touches.iter().filter(|touch| !touch.by_nic).map(|touch| touch.bytes).sum();
        let mut worked_ps = 0;
        for index in 0..touches.len() {
            let touch = self.given.program.handlers[usize::from(event.handler)].touches[index];
            let work_ps = match sizes {
                0 => 0,
                _ if touch.by_nic => 0,
                _ => fixed::share(base_ps, touch.bytes, sizes),
            };
            waited_ps += self.touch(core, &event, touch, work_ps, start_ps + worked_ps + waited_ps);
            worked_ps += work_ps;
        }
        let run_ns = (base_ps + waited_ps).div_ceil(PS_PER_NS).max(1);
        RunTime { run_ns, base_ns: base_ps / PS_PER_NS }
    }

    /// Cycles of this run, as picoseconds on a core at full speed.
    fn base_ps(&self, event: &SimEvent, found: u32) -> u64 {
        if let Some(trace) = &self.given.program.trace {
            return trace.events[event.step as usize].run_ns * PS_PER_NS;
        }
        let handler = &self.given.program.handlers[usize::from(event.handler)];
        let mut cycles =
            handler.cycles * u64::from(self.placing.cycles_percent[usize::from(event.handler)]) / 100;
        if let (Some(source), true) = (handler.polls, found > 0) {
            let each =
                self.given.program.sources[usize::from(source)].poll.map_or(0, |poll| poll.cycles_each);
            cycles += each * u64::from(found);
        }
        let drawn = self.draw(event, StreamPurpose::Duration);
        if handler.spread_percent > 0 {
            let spread = cycles * u64::from(handler.spread_percent) / 100;
            cycles = cycles - spread + random::scale(drawn, 2 * spread + 1);
        }
        if handler.tail_permille > 0
            && random::scale(random::mix(drawn), 1_000) < u64::from(handler.tail_permille)
        {
            cycles *= u64::from(handler.tail_times);
        }
        if let Some((permille, times)) = self.faults.outliers
            && random::scale(self.draw(event, StreamPurpose::Fault), 1_000) < u64::from(permille)
        {
            cycles *= u64::from(times);
        }
        self.given.machine.cycles_ps(cycles)
    }

    /// A random number for this run, equal under every policy.
    fn draw(&self, event: &SimEvent, purpose: StreamPurpose) -> u64 {
        match event.request {
            // A look for arrivals of the handler's only source.
            NONE => {
                let key = u64::from(event.handler) << 32 | u64::from(event.step);
                random::draw(self.given.options.seed, purpose, key)
            }
            request => self.arrivals.requests.get(request).draw(
                self.given.options.seed,
                purpose,
                u64::from(event.step),
            ),
        }
    }

    fn at_speed(&self, core: CoreIndex, ps: u64) -> u64 {
        let state = &self.cores[core.0 as usize];
        let sibling = self.given.machine.cores[core.0 as usize].sibling;
        let beside = sibling.is_some_and(|sibling| self.cores[sibling.0 as usize].running.is_some());
        let alone = ps * 100 / u64::from(state.faults.speed_percent.max(1));
        if beside { alone * 100 / u64::from(self.given.machine.costs.smt_percent) } else { alone }
    }

    fn fetch_code(&mut self, core: CoreIndex, handler: u16, at_ps: u64) -> u64 {
        let bytes = self.given.program.handlers[usize::from(handler)].code_bytes;
        if bytes == 0 || self.given.options.ideal {
            return 0;
        }
        let code = self.objects.code[usize::from(handler)];
        let walk = ObjectWalk { bytes, access: Access::Read, pattern: Pattern::Sequential, work_ps: 0 };
        self.memory.touch(core, code, walk, at_ps)
    }

    fn touch(&mut self, core: CoreIndex, event: &SimEvent, touch: Touch, work_ps: u64, at_ps: u64) -> u64 {
        let kind = &self.given.program.objects[usize::from(touch.object)];
        if self.given.options.ideal {
            return if touch.by_nic { 0 } else { self.warm_ps(core, touch.bytes, touch.pattern) };
        }
        if touch.by_nic {
            let home = self.home_of(core, event, touch.object);
            let nic = self.nic_node(event.request);
            self.memory.dma(nic, home, touch.bytes, Access::Read, at_ps);
            self.output.results.sent_bytes += touch.bytes;
            return 0;
        }
        if kind.streamed {
            let home = self.home_of(core, event, touch.object);
            return self.memory.stream(core, home, touch.bytes, touch.pattern, at_ps);
        }
        let object = self.object(core, event, touch.object);
        let walk = ObjectWalk { bytes: touch.bytes, access: touch.access, pattern: touch.pattern, work_ps };
        self.memory.touch(core, object, walk, at_ps)
    }

    /// Time to touch bytes that are all in the innermost cache.
    fn warm_ps(&self, core: CoreIndex, bytes: u64, pattern: Pattern) -> u64 {
        let innermost = self.given.machine.cores[core.0 as usize].caches.first();
        let line_ps =
            innermost.map_or(0, |&cache| self.given.machine.caches[usize::from(cache)].hit.ps(pattern));
        bytes.div_ceil(u64::from(self.given.machine.line_bytes)) * line_ps
    }

    fn nic_node(&self, request: u32) -> u16 {
        match request {
            NONE => 0,
            request => {
                let request = self.arrivals.requests.get(request);
                self.arrivals.queues[usize::from(request.source)][request.queue as usize].nic_node
            }
        }
    }

    /// The instance of a shared object that an event uses.
    pub(super) fn instance(&self, object: u16, request: u32, recorded_color: u32) -> u32 {
        if self.given.program.trace.is_some() {
            return recorded_color;
        }
        let drawn = match request {
            NONE => 0,
            request => self.arrivals.requests.get(request).draw(
                self.given.options.seed,
                StreamPurpose::Key,
                u64::from(object) << 20,
            ),
        };
        self.given.program.objects[usize::from(object)].instance(drawn)
    }

    fn instance_for(&self, core: CoreIndex, event: &SimEvent, object: u16) -> u32 {
        match self.given.program.objects[usize::from(object)].life {
            ObjectLife::Shared => {
                let recorded =
                    self.given.program.trace.as_ref().map_or(0, |t| t.events[event.step as usize].color);
                self.instance(object, event.request, recorded)
            }
            ObjectLife::Node => u32::from(self.given.machine.cores[core.0 as usize].node),
            ObjectLife::Core => core.0,
            ObjectLife::Request | ObjectLife::Client => 0,
        }
    }

    /// The node of an object whose chunks are not tracked, or which goes to a network card.
    fn home_of(&mut self, core: CoreIndex, event: &SimEvent, object: u16) -> u16 {
        let kind = &self.given.program.objects[usize::from(object)];
        let here = self.given.machine.cores[core.0 as usize].node;
        if kind.home == ObjectHome::Touch && kind.life == ObjectLife::Request && event.request != NONE {
            let slot = kind.request_slot;
            let home = &mut self.arrivals.requests.get_mut(event.request).streamed_home[slot];
            if *home == u16::MAX {
                *home = here;
            }
            return *home;
        }
        let instance = self.instance_for(core, event, object);
        self.new_home(here, event.request, object, instance)
    }

    fn new_home(&self, here: u16, request: u32, object: u16, instance: u32) -> u16 {
        match self.given.program.objects[usize::from(object)].home {
            ObjectHome::Touch => here,
            ObjectHome::Spread => (instance as usize % self.given.machine.nodes) as u16,
            ObjectHome::Active => {
                self.objects.active_nodes[instance as usize % self.objects.active_nodes.len()]
            }
            ObjectHome::Nic => self.nic_node(request),
            ObjectHome::Node(node) => node.min(self.given.machine.nodes as u16 - 1),
        }
    }

    /// The object that an event touches. The first touch makes the object.
    fn object(&mut self, core: CoreIndex, event: &SimEvent, object: u16) -> ObjectId {
        let kind = &self.given.program.objects[usize::from(object)];
        let (life, slot, bytes) = (kind.life, kind.request_slot, kind.bytes);
        let here = self.given.machine.cores[core.0 as usize].node;
        let instance = self.instance_for(core, event, object);
        let known = match (life, event.request) {
            (ObjectLife::Request | ObjectLife::Client, NONE) => None,
            (ObjectLife::Request, request) => self.arrivals.requests.get(request).objects[slot],
            (ObjectLife::Client, request) => {
                let client = self.arrivals.requests.get(request).client;
                self.arrivals.clients[client as usize].objects.get(usize::from(object)).copied().flatten()
            }
            _ => self.objects.shared[usize::from(object)][instance as usize],
        };
        if let Some(known) = known {
            return known;
        }
        let home = self.new_home(here, event.request, object, instance);
        let pool = if life == ObjectLife::Request { core.0 } else { COMMON_POOL };
        let made = self.memory.allocate(bytes, home, pool);
        match (life, event.request) {
            (ObjectLife::Request | ObjectLife::Client, NONE) => {}
            (ObjectLife::Request, request) => {
                self.arrivals.requests.get_mut(request).objects[slot] = Some(made)
            }
            (ObjectLife::Client, request) => {
                let client = self.arrivals.requests.get(request).client;
                let objects = &mut self.arrivals.clients[client as usize].objects;
                objects.resize(self.given.program.objects.len(), None);
                objects[usize::from(object)] = Some(made);
            }
            _ => self.objects.shared[usize::from(object)][instance as usize] = Some(made),
        }
        made
    }
}
