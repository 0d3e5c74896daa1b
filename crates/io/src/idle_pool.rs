//! A pool of idle (parked) sockets: no driver has these sockets, so the task of a socket may
//! continue on any core when input arrives.
//!
//! A task parks a socket that will probably be idle for a while, and its core still waits for the
//! socket through the pool, which is a single descriptor for the core's driver. While that core is
//! stalled, other cores look at the pool and wake the tasks whose sockets have input. Each socket
//! is reported once. If an epoll driver watches a pool, the kernel takes a machine-wide lock for
//! each parked socket (it searches for cycles of epoll instances), so use the pool only for rare
//! cases. Tested here; out of a driver and back in `tests/suite/releases.rs`.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};

use crate::has_queued;

/// Sockets reported by a look. A system call takes about 300 ns, so a full look costs 5 ns per
/// socket; the array takes less than a page of the stack.
const LOOK_MAX: usize = 64;

/// Parked sockets.
#[derive(Debug)]
pub struct IdlePool {
    epoll: OwnedFd,
    held: Mutex<ParkedSockets>,
}

#[derive(Debug)]
struct ParkedSockets {
    /// Keys given so far; no key is given twice.
    keys: u64,
    parked: HashMap<u64, ParkedEntry>,
    /// Parked sockets with input, in the order of parking.
    ready: BTreeSet<u64>,
}

#[derive(Debug)]
struct ParkedEntry {
    socket: OwnedFd,
    waker: Waker,
}

/// A parked socket, for the task that parked it. Dropping it closes the socket.
#[derive(Debug)]
pub struct ParkRequest {
    pool: Arc<IdlePool>,
    key: u64,
}

impl IdlePool {
    /// An empty pool.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        let held = ParkedSockets { keys: 0, parked: HashMap::new(), ready: BTreeSet::new() };
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, held: Mutex::new(held) })
    }

    fn held(&self) -> MutexGuard<'_, ParkedSockets> {
        self.held.lock().expect("nothing panics under this lock")
    }

    /// Parks a connected, non-blocking socket. `waker` is woken once, when there is input.
    ///
    /// # Errors
    /// The socket, if the kernel cannot watch it.
    pub fn put(self: &Arc<Self>, socket: OwnedFd, waker: Waker) -> Result<ParkRequest, OwnedFd> {
        let mut held = self.held();
        held.keys += 1;
        let key = held.keys;
        let events = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        // Under the lock, so that no thread learns of a socket that is not in the table yet.
        if epoll::add(&self.epoll, &socket, EventData::new_u64(key), events).is_err() {
            return Err(socket);
        }
        held.parked.insert(key, ParkedEntry { socket, waker });
        drop(held);
        Ok(ParkRequest { pool: self.clone(), key })
    }

    /// The number of parked sockets.
    pub fn len(&self) -> usize {
        self.held().parked.len()
    }

    /// Whether no socket is parked.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks the kernel which sockets have input, and wakes the tasks that parked them.
    pub fn look(&self) {
        let woken = self.hear(&mut self.held());
        woken.iter().for_each(Waker::wake_by_ref);
    }

    fn hear(&self, held: &mut ParkedSockets) -> Vec<Waker> {
        let mut events = [const { MaybeUninit::<Event>::uninit() }; LOOK_MAX];
        // Interrupted by a signal: the caller will look again.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&Timespec::default())) else {
            return Vec::new();
        };
        let mut woken = Vec::new();
        for event in events {
            let key = event.data.u64();
            // A socket that was taken meanwhile is not in the table.
            if let Some(parked) = held.parked.get(&key) {
                held.ready.insert(key);
                woken.push(parked.waker.clone());
            }
        }
        woken
    }

    /// Whether some sockets have input.
    pub fn has_ready(&self) -> bool {
        let known = self.held.try_lock().is_ok_and(|held| !held.ready.is_empty());
        known || has_queued(self.epoll.as_fd()).unwrap_or(false)
    }

    /// Wakes the tasks whose sockets have input, for a core that does not own the pool: also tasks
    /// that the owner has woken already, because the owner may be stalled since. Nothing happens
    /// while another thread holds the lock, because that thread may be stalled.
    pub fn look_from_elsewhere(&self) {
        let Ok(mut held) = self.held.try_lock() else { return };
        self.hear(&mut held);
        let ready = held.ready.iter().filter_map(|key| held.parked.get(key));
        let woken: Vec<Waker> = ready.map(|parked| parked.waker.clone()).collect();
        drop(held);
        woken.iter().for_each(Waker::wake_by_ref);
    }

    fn take(&self, key: u64) -> Option<OwnedFd> {
        let mut held = self.held();
        held.ready.remove(&key);
        let taken = held.parked.remove(&key);
        drop(held);
        let socket = taken?.socket;
        self.forget(&socket);
        Some(socket)
    }

    /// The new owner may watch the socket elsewhere, which must not cost a wake-up here each time.
    fn forget(&self, socket: &OwnedFd) {
        epoll::delete(&self.epoll, socket).expect("a socket that was put here is watched");
    }
}

impl AsFd for IdlePool {
    /// Readable while [`look`](IdlePool::look) has something to report.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl ParkRequest {
    /// Whether the socket was reported to have input.
    pub fn has_input(&self) -> bool {
        self.pool.held().ready.contains(&self.key)
    }

    /// Takes the socket back.
    pub fn back(self) -> OwnedFd {
        self.pool.take(self.key).expect("only this request takes the socket, and ends with that")
    }
}

impl Drop for ParkRequest {
    fn drop(&mut self) {
        drop(self.pool.take(self.key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct ParkedCount(AtomicUsize);

    impl Wake for ParkedCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn idle_pool() -> (Arc<IdlePool>, Arc<ParkedCount>) {
        (Arc::new(IdlePool::new().expect("a descriptor")), Arc::default())
    }

    impl ParkedCount {
        fn number(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// A parked socket, and its peer.
    fn put(pool: &Arc<IdlePool>, woken: &Arc<ParkedCount>) -> (ParkRequest, UnixStream) {
        let (peer, socket) = UnixStream::pair().expect("a pair");
        let rest = pool.put(socket.into(), woken.clone().into()).expect("it can be watched");
        (rest, peer)
    }

    #[test]
    fn owner_is_told_once_and_takes_socket_back() {
        let (pool, woken) = idle_pool();
        let (rest, mut peer) = put(&pool, &woken);
        pool.look();
        assert!(!rest.has_input() && !pool.has_ready());
        peer.write_all(b"a").expect("room");
        assert!(pool.has_ready());
        pool.look();
        peer.write_all(b"b").expect("room");
        pool.look();
        assert_eq!(woken.number(), 1);
        assert!(rest.has_input());
        let mut two = [0; 2];
        UnixStream::from(rest.back()).read_exact(&mut two).expect("nothing is lost");
        assert_eq!(&two, b"ab");
        assert!(!pool.has_ready() && pool.is_empty(), "it is not watched any more");
    }

    #[test]
    fn neighbour_wakes_tasks_with_input() {
        let (pool, woken) = idle_pool();
        let (first, mut peer) = put(&pool, &woken);
        let (second, other_peer) = put(&pool, &woken);
        let (third, _silent) = put(&pool, &woken);
        pool.look_from_elsewhere();
        assert_eq!(woken.number(), 0, "nothing to read");
        peer.write_all(b"a").expect("room");
        drop(other_peer);
        pool.look_from_elsewhere();
        assert_eq!(woken.number(), 2, "bytes, and an end");
        assert_eq!([&first, &second, &third].map(ParkRequest::has_input), [true, true, false]);
    }

    #[test]
    fn neighbour_wakes_tasks_that_stalled_owner_woke() {
        let (pool, woken) = idle_pool();
        let (rest, mut peer) = put(&pool, &woken);
        peer.write_all(b"a").expect("room");
        pool.look();
        assert!(pool.has_ready());
        pool.look_from_elsewhere();
        assert_eq!(woken.number(), 2);
        drop(rest.back());
        pool.look_from_elsewhere();
        assert!(woken.number() == 2 && !pool.has_ready());
    }

    #[test]
    fn stalled_holder_of_the_lock_stalls_no_neighbour() {
        let (pool, woken) = idle_pool();
        let (_rest, mut peer) = put(&pool, &woken);
        peer.write_all(b"a").expect("room");
        let held = pool.held();
        assert!(pool.has_ready());
        pool.look_from_elsewhere();
        drop(held);
        assert_eq!(woken.number(), 0);
        pool.look_from_elsewhere();
        assert_eq!(woken.number(), 1);
    }

    #[test]
    fn dropping_closes_the_socket() {
        let (pool, woken) = idle_pool();
        let (rest, mut peer) = put(&pool, &woken);
        drop(rest);
        assert_eq!(peer.read(&mut [0]).expect("an end"), 0);
        assert!(pool.is_empty());
    }

    #[test]
    fn all_of_many_sockets_are_reported() {
        let (pool, woken) = idle_pool();
        let rests: Vec<_> = (0..LOOK_MAX + 10).map(|_| put(&pool, &woken)).collect();
        for (_, peer) in &rests {
            (&mut &*peer).write_all(b"a").expect("room");
        }
        pool.look();
        pool.look();
        assert_eq!(woken.number(), rests.len());
        assert!(rests.iter().all(|(rest, _)| rest.has_input()));
    }
}
