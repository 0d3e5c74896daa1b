//! The watching: tasks of a core that wait for connections on its neighbours' listeners, and take them when it is time; and
//! with them those on the neighbours' shelves that have a request to be read.
//!
//! A neighbour is told by the kernel when the owner's driver was not waiting (epoll), or with the owner (io_uring, where
//! only the next core of the ring asks to be told). That leaves a core whose driver was waiting and whose thread then
//! did not run: so every core also looks around now and then. Dropping a watch first takes what waits there, as closing
//! a listener does, since the last one to let go of a socket resets what it holds. When to take: `verdict.rs`.

use super::{
    Accepted, Balancing, Shelf,
    verdict::{Seen, Verdict, verdict},
};
use crate::{accept, listen::Listening, local};
use std::{
    cell::RefCell,
    io,
    net::SocketAddr,
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};
use vermeil::{CoreIndex, Handle, Source, Task, monotonic_ns, sleep, yield_now};
use vermeil_io::{accept_queued, has_queued};

/// How often a core looks at its neighbours' listeners and shelves without being told: how long a connection may wait for a
/// core that was stopped while it slept. Guess: five wake-ups a second are nothing, and a client hardly notices the delay.
const LOOK_AROUND: Duration = Duration::from_millis(200);

/// How long a core that is told of every connection rests before it is told again. Bounds what watching costs under a
/// load of many connections to a thousand wake-ups a second.
const REST: Duration = Duration::from_millis(1);

/// Connections taken before others of the core have their turn. Guess, as for accepting.
const IN_A_ROW: u32 = 16;

thread_local! {
    static POST: RefCell<Post> = const { RefCell::new(Post { watching: Vec::new(), looking_around: None }) };
}

/// A listener to be watched by `core`.
pub(crate) struct Watched {
    core: usize,
    owner: CoreIndex,
    addr: SocketAddr,
    socket: OwnedFd,
    shelf: Option<Arc<Shelf>>,
    /// Whether `core` is the first of the listener's watchers.
    is_next: bool,
}

impl Watched {
    /// Those of new listeners, to be made before the listeners are handed to their cores.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(crate) fn of(balancing: &Balancing, listening: &[Listening]) -> io::Result<Vec<Watched>> {
        let mut all = Vec::new();
        let cores = balancing.watched.len();
        for address in listening {
            for (core, watched) in balancing.watched.iter().enumerate() {
                for (rank, &owner) in watched.iter().enumerate() {
                    for socket in address.sockets.iter().skip(owner).step_by(cores) {
                        let (socket, shelf) = (socket.try_clone()?, balancing.shelf(owner));
                        let (owner, addr) = (CoreIndex(owner as u32), address.asked);
                        all.push(Watched { core, owner, addr, socket, shelf, is_next: rank == 0 });
                    }
                }
            }
        }
        Ok(all)
    }
}

struct Watch {
    handle: Handle,
    core: CoreIndex,
    owner: CoreIndex,
    source: Source,
    shelf: Option<Arc<Shelf>>,
}

/// A watch, with the task that waits for the kernel to tell of a connection.
struct Watching {
    addr: SocketAddr,
    watch: Arc<Watch>,
    told: Option<Task<()>>,
}

/// What one core watches.
struct Post {
    watching: Vec<Watching>,
    looking_around: Option<Task<()>>,
}

/// Has every core watch; to be called when all owners have their listeners: the kernel tells in the order of asking.
///
/// # Errors
/// What went wrong first; the others watch.
pub(crate) fn watch(handle: &Handle, watched: Vec<Watched>) -> io::Result<()> {
    let mut by_core: Vec<Vec<Watched>> = handle.cores().map(|_| Vec::new()).collect();
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

fn begin(handle: &Handle, core: CoreIndex, watched: Vec<Watched>) -> io::Result<()> {
    let tells_every_watcher = Source::tells_every_watcher()?;
    for Watched { owner, addr, socket, shelf, is_next, .. } in watched {
        let source = Source::watch(socket)?;
        let watch = Arc::new(Watch { handle: handle.clone(), core, owner, source, shelf });
        let told = (is_next || !tells_every_watcher).then(|| {
            let rest = if tells_every_watcher { REST } else { Duration::ZERO };
            handle.spawn_on(&handle.color_on(core), wait_to_be_told(watch.clone(), rest))
        });
        POST.with_borrow_mut(|post| post.watching.push(Watching { addr, watch, told }));
    }
    POST.with_borrow_mut(|post| {
        post.looking_around.get_or_insert_with(|| handle.spawn_on(&handle.color_on(core), look_around()));
    });
    Ok(())
}

async fn wait_to_be_told(watch: Arc<Watch>, rest: Duration) {
    while watch.source.readable().await.is_ok() {
        watch.relieve().await;
        if !rest.is_zero() {
            sleep(rest).await;
        }
    }
}

async fn look_around() {
    loop {
        sleep(LOOK_AROUND).await;
        let watches: Vec<Arc<Watch>> =
            POST.with_borrow(|post| post.watching.iter().map(|watching| watching.watch.clone()).collect());
        for watch in watches.iter().filter(|watch| watch.has_something()) {
            watch.relieve().await;
        }
    }
}

impl Watch {
    fn has_something(&self) -> bool {
        let has_request = self.shelf.as_ref().is_some_and(|shelf| shelf.has_told());
        has_request || matches!(self.source.with_fd(has_queued), Ok(Ok(true)))
    }

    /// Takes what waits for the owner, if the owner does not come.
    async fn relieve(&self) {
        let board = self.handle.board().core(self.owner.0 as usize);
        let (noticed_ns, looks) = (monotonic_ns(), board.looks());
        loop {
            let now_ns = monotonic_ns();
            let seen = Seen {
                waited: Duration::from_nanos(now_ns - noticed_ns),
                busy: board.busy_ns(now_ns).map(Duration::from_nanos),
                looks: board.looks().wrapping_sub(looks),
            };
            match verdict(seen) {
                Verdict::Take => return self.take().await,
                Verdict::Leave => return,
                Verdict::Wait(time) => sleep(time).await,
            }
            if !self.has_something() {
                return;
            }
        }
    }

    async fn take(&self) {
        let mut taken = 0;
        while self.has_something() && local::makes_room().await && (self.move_one() || self.accept_one()) {
            taken += 1;
            if taken % IN_A_ROW == 0 {
                yield_now().await;
            }
        }
    }

    fn move_one(&self) -> bool {
        let told = self.shelf.as_ref().and_then(|shelf| shelf.take_told());
        let Some((socket, requests)) = told else { return false };
        // Nobody else is left to say that.
        let adopted = accept::adopt(&self.handle, self.core, socket, requests);
        adopted.inspect_err(accept::say_trouble).is_ok()
    }

    fn accept_one(&self) -> bool {
        // What goes wrong with accepting is the owner's to say.
        let Ok(Ok(Some(socket))) = self.source.with_fd(accept_queued) else { return false };
        accept::start(&self.handle, self.core, socket, Accepted::TakenOver).is_ok()
    }
}

/// Has the tasks of this core's connections told of what the kernel tells its shelf.
///
/// # Errors
/// Out of descriptors.
pub(crate) fn keep(shelf: Arc<Shelf>) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let source = Source::new(shelf.as_fd().try_clone_to_owned()?)?;
    Ok(async move {
        while source.readable().await.is_ok() {
            shelf.look();
        }
    })
}

/// Ends this core's watches of these addresses, as they were asked for.
pub(crate) fn stop_some(addrs: &[SocketAddr]) {
    stop_where(|addr| addrs.contains(&addr));
}

/// Ends all watches of this core.
pub(crate) fn stop() {
    stop_where(|_| true);
    if let Some(task) = POST.with_borrow_mut(|post| post.looking_around.take()) {
        task.cancel();
    }
}

fn stop_where(ends: impl Fn(SocketAddr) -> bool) {
    let ended: Vec<Watching> =
        POST.with_borrow_mut(|post| post.watching.extract_if(.., |watching| ends(watching.addr)).collect());
    for Watching { watch, told, .. } in ended {
        // What comes behind this look is told to somebody else, perhaps of another server: the kernel passes over a driver that
        // does not wait, and this one waits again only when the cancelled task has gone, and the watch with it.
        while watch.accept_one() {}
        if let Some(task) = told {
            task.cancel();
        }
    }
}
