//! Colors and their events.
//!
//! A color holds its events in the order of posting. The color's token is in the ready queue of a
//! core, kept by a core to run next, running, set apart while events gather, or absent. Owns the
//! stores of colors and events, and the sums. Leaves out the moves of tokens (`ready.rs`).
//! `check.rs` checks this from outside.

use vermeil_sched::{CoreIndex, Leader, Placement, QueuedClass, ReadySlot, RecentLength};

/// No event, no color, no request.
pub(crate) const NONE: u32 = u32::MAX;

/// A future run of a handler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimEvent {
    /// Number in the order of posting, from 1.
    pub(crate) sequence: u64,
    /// Position of the handler in the workload.
    pub(crate) handler: u16,
    pub(crate) color: u32,
    /// The request that the event belongs to, or [`NONE`].
    pub(crate) request: u32,
    /// Key of the event's random draws within its request: the steps from the beginning of the
    /// request, along the handlers' `next`; `also` begins anew at a mixed number. Of an event that
    /// looks for arrivals, the number of its source's looks before. In a recording, the index of
    /// the recorded event.
    pub(crate) step: u32,
    pub(crate) posted_ns: u64,
    /// The part of the color's worth that comes from this event.
    pub(crate) worth_ns: u32,
    /// The core that posted the event, if any.
    pub(crate) by: Option<CoreIndex>,
    /// The next event of the color.
    after: u32,
}

/// The place of a color's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenPlace {
    /// No token, because the color is empty.
    Absent,
    /// Set apart while events gather.
    WaitingForBatch,
    /// In the ready queue of the color's core.
    Ready,
    /// Kept by the color's core, to run next.
    Next,
    /// Running on the color's core.
    Running,
}

/// A color.
#[derive(Clone, Debug)]
pub(crate) struct SimColor {
    /// Identifies the color. Unlike the index, a number is never used again.
    pub(crate) number: u64,
    pub(crate) token: TokenPlace,
    /// The core on which the color runs, or will be queued.
    pub(crate) core: CoreIndex,
    /// The core for which the color was made.
    pub(crate) home: CoreIndex,
    /// The core of the color's last run.
    pub(crate) last: Option<CoreIndex>,
    pub(crate) placement: Placement,
    pub(crate) leader: Option<Leader>,
    pub(crate) slot: ReadySlot,
    pub(crate) moved_ns: Option<u64>,
    /// Sum over the queued events.
    pub(crate) worth_ns: u64,
    /// Queued events that came with a steal, whose run time counts as stolen.
    pub(crate) stolen: u32,
    pub(crate) len: u32,
    /// The longest recent timed event.
    pub(crate) length: RecentLength,
    /// Number of users: requests, clients, the workload. An empty color without users ends.
    pub(crate) users: u32,
    first: u32,
    last_event: u32,
}

impl SimColor {
    /// Marks the class of a color that some cores must not take.
    pub(crate) fn class_for_thieves(&self, class: Option<QueuedClass>) -> Option<QueuedClass> {
        if self.placement == Placement::Any { class } else { class.map(QueuedClass::restricted) }
    }

    /// Whether thieves must leave the color.
    pub(crate) fn is_fixed(&self) -> bool {
        self.placement.is_fixed() || self.leader.is_some()
    }
}

/// All colors and events.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimColors {
    colors: Vec<SimColor>,
    free_colors: Vec<u32>,
    made: u64,
    events: Vec<SimEvent>,
    free_events: Vec<u32>,
    posted: u64,
    queued: u64,
}

impl SimColors {
    /// A new color on `core`.
    pub(crate) fn make(&mut self, core: impl FnOnce(u64) -> CoreIndex, placement: Placement) -> u32 {
        let made = self.made;
        self.made += 1;
        let home = core(made);
        let color = SimColor {
            number: 0,
            token: TokenPlace::Absent,
            core: home,
            home,
            last: None,
            placement,
            leader: None,
            slot: ReadySlot(NONE),
            moved_ns: None,
            worth_ns: 0,
            stolen: 0,
            len: 0,
            length: RecentLength::default(),
            users: 1,
            first: NONE,
            last_event: NONE,
        };
        let at = put(&mut self.colors, &mut self.free_colors, color);
        // An index is used again, a number is not.
        self.colors[at as usize].number = made << 32 | u64::from(at);
        at
    }

    /// The worth of the last event of a color with events.
    pub(crate) fn last_cost_ns(&self, color: u32) -> u64 {
        u64::from(self.events[self.colors[color as usize].last_event as usize].worth_ns)
    }

    /// The handler of the event posted last to a color that is not empty.
    pub(crate) fn last_handler(&self, color: u32) -> u16 {
        self.events[self.colors[color as usize].last_event as usize].handler
    }

    /// Removes a user. The index of an empty color without users is used again.
    pub(crate) fn release(&mut self, color: u32) {
        let ended = &mut self.colors[color as usize];
        ended.users -= 1;
        self.end_if_unused(color);
    }

    /// Ends a color without users and without a token.
    pub(crate) fn end_if_unused(&mut self, color: u32) {
        let ended = &self.colors[color as usize];
        if ended.users == 0 && ended.token == TokenPlace::Absent {
            self.free_colors.push(color);
        }
    }

    pub(crate) fn color(&self, color: u32) -> &SimColor {
        &self.colors[color as usize]
    }

    pub(crate) fn color_mut(&mut self, color: u32) -> &mut SimColor {
        &mut self.colors[color as usize]
    }

    /// The colors that have users or a token.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = (u32, &SimColor)> {
        let named = |color: &SimColor| color.users > 0 || color.token != TokenPlace::Absent;
        (0..).zip(&self.colors).filter(move |(_, color)| named(color))
    }

    /// The sum of the worth of a color's events.
    pub(crate) fn sum_of_worth(&self, color: u32) -> u64 {
        let mut sum = 0;
        let mut at = self.colors[color as usize].first;
        while at != NONE {
            sum += u64::from(self.events[at as usize].worth_ns);
            at = self.events[at as usize].after;
        }
        sum
    }

    /// Number of indices, in use or kept for later colors.
    pub(crate) fn len(&self) -> usize {
        self.colors.len()
    }

    /// Makes an event that is not yet posted.
    pub(crate) fn prepare(&mut self, handler: u16, color: u32, request: u32, step: u32) -> u32 {
        let event = SimEvent {
            sequence: 0,
            handler,
            color,
            request,
            step,
            posted_ns: 0,
            worth_ns: 0,
            by: None,
            after: NONE,
        };
        put(&mut self.events, &mut self.free_events, event)
    }

    pub(crate) fn event(&self, event: u32) -> &SimEvent {
        &self.events[event as usize]
    }

    /// Posts a prepared event as the last event of its color.
    pub(crate) fn push(&mut self, event: u32, now_ns: u64, worth_ns: u64, by: Option<CoreIndex>) {
        self.posted += 1;
        self.queued += 1;
        let posted = &mut self.events[event as usize];
        posted.sequence = self.posted;
        posted.posted_ns = now_ns;
        posted.by = by;
        posted.worth_ns = worth_ns.min(u64::from(u32::MAX)) as u32;
        let color = &mut self.colors[posted.color as usize];
        color.worth_ns += u64::from(posted.worth_ns);
        color.len += 1;
        let last = std::mem::replace(&mut color.last_event, event);
        match last {
            NONE => color.first = event,
            last => self.events[last as usize].after = event,
        }
    }

    /// Takes the first event of a color.
    pub(crate) fn pop(&mut self, color: u32) -> Option<u32> {
        let from = &mut self.colors[color as usize];
        let event = from.first;
        if event == NONE {
            return None;
        }
        let taken = &self.events[event as usize];
        from.first = taken.after;
        if from.first == NONE {
            from.last_event = NONE;
        }
        from.len -= 1;
        from.worth_ns -= u64::from(taken.worth_ns);
        self.queued -= 1;
        Some(event)
    }

    /// The first event of a color.
    pub(crate) fn first(&self, color: u32) -> Option<&SimEvent> {
        let first = self.colors[color as usize].first;
        (first != NONE).then(|| &self.events[first as usize])
    }

    /// Frees an event that has run.
    pub(crate) fn discard(&mut self, event: u32) {
        self.free_events.push(event);
    }

    /// Number of events in colors.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// Events posted so far.
    pub(crate) fn posted(&self) -> u64 {
        self.posted
    }
}

fn put<T>(all: &mut Vec<T>, free: &mut Vec<u32>, item: T) -> u32 {
    match free.pop() {
        Some(at) => {
            all[at as usize] = item;
            at
        }
        None => {
            all.push(item);
            all.len() as u32 - 1
        }
    }
}
