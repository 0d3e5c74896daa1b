//! The watching: tasks of a core wait for connections on the listeners of neighbours, and take
//! connections when it is time. The tasks also wake the connections with an unread request on the
//! neighbours' shelves, which then continue on this core.
//!
//! The kernel tells the next core of the ring of each connection together with the owner, and of
//! each request on a shelf. With epoll, the kernel tells a neighbour of a connection only if the
//! owner's driver was not waiting, and tells every neighbour. One case remains: a core whose driver
//! was waiting and whose thread then did not run. So every core also looks around now and then.
//! Before the core drops a watch, the core takes the connections that wait, as closing a listener
//! does, because the last holder of a socket resets the waiting connections. When to take:
//! `balance/verdict.rs`.

use crate::accept;
use std::{
    cell::RefCell,
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};
use vermeil::{CoreIndex, Handle, Source, Task, monotonic_ns, sleep, wake_here};
use vermeil_accept::{
    balance::{
        Accepted, Balancing, IdleConnectionPool,
        verdict::{BalanceVerdict, CoreObservation, verdict},
    },
    listening::Listening,
};
use vermeil_address::ListenAddr;
use vermeil_io::{accept_queued, has_queued};

/// How often a core looks at its neighbours' listeners and shelves without being told. This bounds
/// the wait for a core that was stopped while it slept. At some 10 µs each, five wake-ups per
/// second take a twentieth of a per mille of a core.
const LOOK_AROUND: Duration = Duration::from_millis(200);

/// How long a core that is told of every connection rests before it is told again. Under a load of
/// many connections, this bounds the cost of watching to a thousand wake-ups a second.
const REST: Duration = Duration::from_millis(1);

thread_local! {
    static POST: RefCell<Post> = const { RefCell::new(Post { watching: Vec::new(), looking_around: None }) };
}

/// A listener that `core` will watch.
pub(crate) struct WatchedListener {
    core: usize,
    owner: CoreIndex,
    addr: ListenAddr,
    socket: OwnedFd,
    shelf: Option<Arc<IdleConnectionPool>>,
    /// The descriptor that tells of requests on the shelf, for the first of its watchers.
    requests: Option<OwnedFd>,
    /// Whether `core` is the first of the listener's watchers.
    is_next: bool,
}

impl WatchedListener {
    /// The watches of new listeners. Call this function before the listeners are handed to their
    /// cores.
    ///
    /// # Errors
    /// Out of descriptors.
    pub(crate) fn of(balancing: &Balancing, listening: &[Listening]) -> io::Result<Vec<WatchedListener>> {
        let mut all = Vec::new();
        let cores = balancing.watched.len();
        for address in listening {
            for (core, watched) in balancing.watched.iter().enumerate() {
                for (rank, &owner) in watched.iter().enumerate() {
                    for socket in address.sockets.iter().skip(owner).step_by(cores) {
                        let (socket, shelf) = (socket.try_clone()?, balancing.shelf(owner));
                        let is_next = rank == 0;
                        let requests = shelf.as_ref().filter(|_| is_next);
                        let requests =
                            requests.map(|shelf| shelf.as_fd().try_clone_to_owned()).transpose()?;
                        let (owner, addr) = (CoreIndex(owner as u32), address.asked);
                        all.push(WatchedListener { core, owner, addr, socket, shelf, requests, is_next });
                    }
                }
            }
        }
        Ok(all)
    }
}

struct StallRescue {
    handle: Handle,
    core: CoreIndex,
    owner: CoreIndex,
    source: Source,
    shelf: Option<Arc<IdleConnectionPool>>,
    addr: ListenAddr,
}

/// A watch, with the tasks that wait for the kernel to tell of a connection or of a request.
struct Watching {
    watch: Arc<StallRescue>,
    told: Option<Task<()>>,
    shelf_told: Option<Task<()>>,
}

/// The watches of a core.
struct Post {
    watching: Vec<Watching>,
    looking_around: Option<Task<()>>,
}

/// Starts the watches of every core. Call this function when all owners have their listeners,
/// because the kernel tells waiters in the order in which they asked.
///
/// # Errors
/// The first error. The other cores watch.
pub(crate) fn watch(handle: &Handle, watched: Vec<WatchedListener>) -> io::Result<()> {
    let mut by_core: Vec<Vec<WatchedListener>> = handle.cores().map(|_| Vec::new()).collect();
    for watched in watched {
        by_core[watched.core].push(watched);
    }
    let tasks: Vec<Task<io::Result<()>>> = handle
        .cores()
        .zip(by_core)
        .filter(|(_, watched)| !watched.is_empty())
        .map(|(core, watched)| {
            let spawner = handle.clone();
            handle.spawn_on(&handle.color_on(core), async move { begin(&spawner, core, watched) })
        })
        .collect();
    let ended =
        tasks.into_iter().map(|task| task.wait().unwrap_or_else(|error| Err(io::Error::other(error))));
    ended.fold(Ok(()), Result::and)
}

fn begin(handle: &Handle, core: CoreIndex, watched: Vec<WatchedListener>) -> io::Result<()> {
    let tells_every_watcher = Source::tells_every_watcher()?;
    for WatchedListener { owner, addr, socket, shelf, requests, is_next, .. } in watched {
        let source = Source::watch(socket)?;
        let requests = requests.map(Source::new).transpose()?;
        let watch = Arc::new(StallRescue { handle: handle.clone(), core, owner, source, shelf, addr });
        let told = (is_next || !tells_every_watcher).then(|| {
            let rest = if tells_every_watcher { REST } else { Duration::ZERO };
            handle.spawn_on(&handle.color_on(core), wait_to_be_told(watch.clone(), rest))
        });
        let shelf_told = requests.map(|requests| {
            handle.spawn_on(&handle.color_on(core), wait_for_requests(watch.clone(), requests))
        });
        POST.with_borrow_mut(|post| post.watching.push(Watching { watch, told, shelf_told }));
    }
    POST.with_borrow_mut(|post| {
        post.looking_around.get_or_insert_with(|| handle.spawn_on(&handle.color_on(core), look_around()));
    });
    Ok(())
}

async fn wait_to_be_told(watch: Arc<StallRescue>, rest: Duration) {
    while watch.source.readable().await.is_ok() {
        watch.rescue().await;
        if !rest.is_zero() {
            sleep(rest).await;
        }
    }
}

/// Waits for requests on the owner's shelf.
async fn wait_for_requests(watch: Arc<StallRescue>, requests: Source) {
    while requests.readable().await.is_ok() {
        watch.rescue().await;
        sleep(REST).await;
    }
}

async fn look_around() {
    loop {
        sleep(LOOK_AROUND).await;
        let watches: Vec<Arc<StallRescue>> =
            POST.with_borrow(|post| post.watching.iter().map(|watching| watching.watch.clone()).collect());
        for watch in watches.iter().filter(|watch| watch.has_something()) {
            watch.rescue().await;
        }
    }
}

impl StallRescue {
    fn has_something(&self) -> bool {
        self.shelf.as_ref().is_some_and(|shelf| shelf.has_ready()) || self.has_queued()
    }

    fn has_queued(&self) -> bool {
        matches!(self.source.with_fd(has_queued), Ok(Ok(true)))
    }

    /// Takes the connections that wait for the owner, if the owner does not come.
    async fn rescue(&self) {
        let board = self.handle.board().core(self.owner.0 as usize);
        let (noticed_ns, looks) = (monotonic_ns(), board.searches());
        loop {
            let now_ns = monotonic_ns();
            let seen = CoreObservation {
                waited: Duration::from_nanos(now_ns - noticed_ns),
                busy: board.busy_ns(now_ns).map(Duration::from_nanos),
                looks: board.searches().wrapping_sub(looks),
            };
            match verdict(seen) {
                BalanceVerdict::Take => return self.take().await,
                BalanceVerdict::Leave => return,
                BalanceVerdict::Wait(time) => sleep(time).await,
            }
            if !self.has_something() {
                return;
            }
        }
    }

    async fn take(&self) {
        if let Some(shelf) = &self.shelf {
            wake_here(|| shelf.look_from_elsewhere());
        }
        accept::take_queued(|| self.has_queued(), || self.accept_one()).await;
    }

    fn accept_one(&self) -> bool {
        // The owner logs errors of accepting.
        let Ok(Ok(Some(socket))) = self.source.with_fd(accept_queued) else { return false };
        accept::start(&self.handle, self.core, self.addr, socket, Accepted::TakenOver).is_ok()
    }
}

/// Wakes the tasks of this core's resting connections when the kernel reports their requests to the
/// shelf.
///
/// # Errors
/// Out of descriptors.
pub(crate) fn keep(shelf: Arc<IdleConnectionPool>) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let source = Source::new(shelf.as_fd().try_clone_to_owned()?)?;
    Ok(async move {
        while source.readable().await.is_ok() {
            shelf.look();
        }
    })
}

/// Ends this core's watches of these configured addresses.
pub(crate) fn stop_some(addrs: &[ListenAddr]) {
    stop_where(|addr| addrs.contains(&addr));
}

/// Ends all watches of this core.
pub(crate) fn stop() {
    stop_where(|_| true);
    if let Some(task) = POST.with_borrow_mut(|post| post.looking_around.take()) {
        task.cancel();
    }
}

fn stop_where(ends: impl Fn(ListenAddr) -> bool) {
    let ended: Vec<Watching> = POST
        .with_borrow_mut(|post| post.watching.extract_if(.., |watching| ends(watching.watch.addr)).collect());
    for Watching { watch, told, shelf_told } in ended {
        // Later connections are reported to another watcher, perhaps of another server, because the
        // kernel passes over a driver that does not wait. This driver waits again only when the
        // cancelled task has gone, and the watch with it.
        while watch.accept_one() {}
        for task in told.into_iter().chain(shelf_told) {
            task.cancel();
        }
    }
}
