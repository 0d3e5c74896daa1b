//! The flow graph: which handler posts to which, and how often. Placement cuts this graph.
//!
//! A core counts posts in a [`FlowCounts`]. The monitor merges the counts of a window and folds the
//! result into a [`FlowGraph`], whose rates decay. Both are sparse, because a handler posts to few
//! others. Leaves out the cost of an edge (`plan/model.rs`). Branches and loops are allowed;
//! [`FlowGraph::order`] is topological if there is no loop. Tested in `flow/tests.rs`.

use crate::HandlerIndex;

#[cfg(test)]
mod tests;

/// Age at which a rate has half the weight of a new rate, in nanoseconds: a third of the time in
/// which a placement must settle (200 ms), so that a change of load counts within that time.
const MEMORY_NS: f64 = 60e6;

/// Posts from one handler, or from outside, to one handler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The poster; `None`: a thread, a timer or the network.
    pub from: Option<HandlerIndex>,
    /// The handler of the posted events.
    pub to: HandlerIndex,
    /// Number of posts, or posts per second.
    pub posts: f64,
    /// Bytes of these posts, or bytes per second; 0 if bytes are not counted.
    pub bytes: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Default)]
struct FlowCell<N> {
    to: u32,
    posts: N,
    bytes: N,
}

/// Posts of one core in one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowCounts {
    /// By poster: first external posts, then the handlers by index.
    rows: Vec<Vec<FlowCell<u64>>>,
}

impl FlowCounts {
    /// Empty counts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a posted event; `bytes` is 0 if unknown. Searches the few handlers that `from` posts
    /// to.
    pub fn record(&mut self, from: Option<HandlerIndex>, to: HandlerIndex, bytes: u64) {
        self.add(row_of(from), FlowCell { to: to.0, posts: 1, bytes });
    }

    /// Merges another core's counts.
    pub fn merge(&mut self, other: &Self) {
        for (row, cells) in other.rows.iter().enumerate() {
            cells.iter().for_each(|&cell| self.add(row, cell));
        }
    }

    /// Starts the next window; keeps the memory.
    pub fn clear(&mut self) {
        self.rows.iter_mut().for_each(Vec::clear);
    }

    /// The counts, by poster.
    pub fn flows(&self) -> impl Iterator<Item = Flow> {
        let rows = self.rows.iter().enumerate();
        rows.flat_map(|(row, cells)| cells.iter().map(move |cell| (row, cell))).map(|(row, cell)| Flow {
            from: poster_of(row),
            to: HandlerIndex(cell.to),
            posts: cell.posts as f64,
            bytes: cell.bytes as f64,
        })
    }

    fn add(&mut self, row: usize, cell: FlowCell<u64>) {
        let cells = row_mut(&mut self.rows, row);
        let found = cell_mut(cells, cell.to);
        found.posts += cell.posts;
        found.bytes += cell.bytes;
    }
}

/// Rates of all flows, in posts and bytes per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowGraph {
    rows: Vec<Vec<FlowCell<f64>>>,
    absorbed: bool,
}

impl FlowGraph {
    /// A graph without flows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the counts of a window of this length. Other flows fade.
    pub fn absorb(&mut self, window: &FlowCounts, window_ns: u64) {
        if window_ns == 0 {
            return;
        }
        let window_ns = window_ns as f64;
        let weight = if self.absorbed { window_ns / (window_ns + MEMORY_NS) } else { 1.0 };
        self.absorbed = true;
        for cell in self.rows.iter_mut().flatten() {
            cell.posts *= 1.0 - weight;
            cell.bytes *= 1.0 - weight;
        }
        for flow in window.flows() {
            let cell = cell_mut(row_mut(&mut self.rows, row_of(flow.from)), flow.to.0);
            cell.posts += weight * flow.posts * 1e9 / window_ns;
            cell.bytes += weight * flow.bytes * 1e9 / window_ns;
        }
    }

    /// All flows with their rates, by poster.
    pub fn flows(&self) -> impl Iterator<Item = Flow> {
        let rows = self.rows.iter().enumerate();
        rows.flat_map(|(row, cells)| cells.iter().map(move |cell| (row, cell))).map(|(row, cell)| Flow {
            from: poster_of(row),
            to: HandlerIndex(cell.to),
            posts: cell.posts,
            bytes: cell.bytes,
        })
    }

    /// The rate of a flow in posts per second.
    pub fn rate(&self, from: Option<HandlerIndex>, to: HandlerIndex) -> f64 {
        let cells = self.rows.get(row_of(from)).map_or(&[][..], Vec::as_slice);
        cells.iter().find(|cell| cell.to == to.0).map_or(0.0, |cell| cell.posts)
    }

    /// External events per second.
    pub fn arrivals(&self) -> f64 {
        self.rows.first().map_or(0.0, |cells| cells.iter().map(|cell| cell.posts).sum())
    }

    /// All handlers below `handlers`, each before its targets unless a loop leads back, and close
    /// to its heaviest targets. Depth-first from the entry points; the heaviest branch comes next.
    pub fn order(&self, handlers: usize) -> Vec<HandlerIndex> {
        let mut walk =
            FlowWalk { graph: self, visited: vec![false; handlers], finished: Vec::with_capacity(handlers) };
        let fed = self.fed_from_inside(handlers);
        let enters = |handler: &usize| !fed[*handler] || self.rate(None, HandlerIndex(*handler as u32)) > 0.0;
        (0..handlers).rev().filter(enters).for_each(|handler| walk.visit(handler));
        (0..handlers).for_each(|handler| walk.visit(handler));
        walk.finished.reverse();
        walk.finished
    }

    fn fed_from_inside(&self, handlers: usize) -> Vec<bool> {
        let mut fed = vec![false; handlers];
        for flow in self.flows().filter(|flow| flow.from.is_some_and(|from| from != flow.to)) {
            if let Some(fed) = fed.get_mut(flow.to.0 as usize) {
                *fed = true;
            }
        }
        fed
    }

    /// The targets of a handler, lightest first.
    fn targets(&self, handler: usize) -> Vec<usize> {
        let mut cells = self.rows.get(handler + 1).cloned().unwrap_or_default();
        cells.sort_by(|a, b| a.posts.total_cmp(&b.posts).then(b.to.cmp(&a.to)));
        cells.into_iter().map(|cell| cell.to as usize).collect()
    }
}

struct FlowWalk<'a> {
    graph: &'a FlowGraph,
    visited: Vec<bool>,
    finished: Vec<HandlerIndex>,
}

impl FlowWalk<'_> {
    /// Without recursion, because a pipeline may be longer than a stack is deep.
    fn visit(&mut self, root: usize) {
        if std::mem::replace(&mut self.visited[root], true) {
            return;
        }
        let mut path = vec![(root, self.graph.targets(root).into_iter())];
        while let Some((handler, targets)) = path.last_mut() {
            match targets.next() {
                Some(next) if next < self.visited.len() => {
                    if !std::mem::replace(&mut self.visited[next], true) {
                        path.push((next, self.graph.targets(next).into_iter()));
                    }
                }
                Some(_) => {}
                None => {
                    self.finished.push(HandlerIndex(*handler as u32));
                    path.pop();
                }
            }
        }
    }
}

fn row_of(from: Option<HandlerIndex>) -> usize {
    from.map_or(0, |handler| handler.0 as usize + 1)
}

fn poster_of(row: usize) -> Option<HandlerIndex> {
    row.checked_sub(1).map(|handler| HandlerIndex(handler as u32))
}

fn row_mut<N>(rows: &mut Vec<Vec<FlowCell<N>>>, row: usize) -> &mut Vec<FlowCell<N>> {
    if rows.len() <= row {
        rows.resize_with(row + 1, Vec::new);
    }
    &mut rows[row]
}

fn cell_mut<N: Default>(cells: &mut Vec<FlowCell<N>>, to: u32) -> &mut FlowCell<N> {
    let at = cells.iter().position(|cell| cell.to == to).unwrap_or_else(|| {
        cells.push(FlowCell { to, posts: N::default(), bytes: N::default() });
        cells.len() - 1
    });
    &mut cells[at]
}
