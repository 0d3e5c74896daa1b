//! A pool of idle (parked) sockets: no driver has these sockets, so any core may take a socket when
//! input arrives.
//!
//! A core parks a socket that will probably be idle for a while, and still waits for the socket
//! through the pool, which is a single descriptor for the core's driver. While that core is
//! stalled, other cores look at the pool and take sockets with input. The thread that removes a
//! socket from the table under the lock owns the socket; the core that parked it is woken and finds
//! it gone. Each socket is reported once. If an epoll driver watches a pool, the kernel takes a
//! machine-wide lock for each parked socket (it searches for cycles of epoll instances), so use the
//! pool only for rare cases. Tested here; out of a driver and back in `tests/suite/releases.rs`.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};

use crate::has_queued;

/// Sockets reported by a look. A system call takes about 300 ns, so a full look costs 5 ns per
/// socket; the array takes less than a page of the stack.
const LOOK_MAX: usize = 64;

/// Parked sockets, each with the caller's data.
#[derive(Debug)]
pub struct IdlePool<T> {
    epoll: OwnedFd,
    held: Mutex<ParkedSocket<T>>,
}

#[derive(Debug)]
struct ParkedSocket<T> {
    /// Keys given so far; no key is given twice.
    keys: u64,
    parked: HashMap<u64, ParkedEntry<T>>,
    /// Parked sockets with input, in the order of parking.
    ready: BTreeSet<u64>,
}

#[derive(Debug)]
struct ParkedEntry<T> {
    socket: OwnedFd,
    with: T,
    waker: Waker,
}

/// A parked socket, for the core that parked it. Dropping it closes the socket, unless another core
/// has taken the socket.
#[derive(Debug)]
pub struct ParkRequest<T> {
    pool: Arc<IdlePool<T>>,
    key: u64,
}

impl<T> IdlePool<T> {
    /// An empty pool.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        let held = ParkedSocket { keys: 0, parked: HashMap::new(), ready: BTreeSet::new() };
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, held: Mutex::new(held) })
    }

    fn held(&self) -> MutexGuard<'_, ParkedSocket<T>> {
        self.held.lock().expect("nothing panics under this lock")
    }

    /// Parks a connected, non-blocking socket. `waker` is woken once, when there is input.
    ///
    /// # Errors
    /// The socket, if the kernel cannot watch it.
    pub fn put(self: &Arc<Self>, socket: OwnedFd, with: T, waker: Waker) -> Result<ParkRequest<T>, OwnedFd> {
        let mut held = self.held();
        held.keys += 1;
        let key = held.keys;
        let events = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        // Under the lock, so that no thread learns of a socket that is not in the table yet.
        if epoll::add(&self.epoll, &socket, EventData::new_u64(key), events).is_err() {
            return Err(socket);
        }
        held.parked.insert(key, ParkedEntry { socket, with, waker });
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

    fn hear(&self, held: &mut ParkedSocket<T>) -> Vec<Waker> {
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

    /// Takes a socket with input, for a core that did not park it. `None` also while another thread
    /// holds the lock, because that thread may be stalled.
    pub fn take_ready(&self) -> Option<(OwnedFd, T)> {
        let mut held = self.held.try_lock().ok()?;
        let woken = if held.ready.is_empty() { self.hear(&mut held) } else { Vec::new() };
        let first = held.ready.pop_first().and_then(|key| held.parked.remove(&key));
        drop(held);
        woken.iter().for_each(Waker::wake_by_ref);
        let ParkedEntry { socket, with, .. } = first?;
        self.forget(&socket);
        Some((socket, with))
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

impl<T> AsFd for IdlePool<T> {
    /// Readable while [`look`](IdlePool::look) has something to report.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl<T> ParkRequest<T> {
    /// Ready when there is input, with the socket, or with `None` when another core has taken the
    /// socket.
    pub fn poll_back(&self) -> Poll<Option<OwnedFd>> {
        let held = self.pool.held();
        if held.parked.contains_key(&self.key) && !held.ready.contains(&self.key) {
            return Poll::Pending;
        }
        drop(held);
        Poll::Ready(self.pool.take(self.key))
    }

    /// Takes the socket back, unless another core has.
    pub fn back(&self) -> Option<OwnedFd> {
        self.pool.take(self.key)
    }
}

impl<T> Drop for ParkRequest<T> {
    fn drop(&mut self) {
        drop(self.back());
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

    fn idle_pool() -> (Arc<IdlePool<u32>>, Arc<ParkedCount>) {
        (Arc::new(IdlePool::new().expect("a descriptor")), Arc::default())
    }

    /// A parked socket, and its peer.
    fn put(pool: &Arc<IdlePool<u32>>, with: u32, woken: &Arc<ParkedCount>) -> (ParkRequest<u32>, UnixStream) {
        let (peer, socket) = UnixStream::pair().expect("a pair");
        let rest = pool.put(socket.into(), with, woken.clone().into()).expect("it can be watched");
        (rest, peer)
    }

    #[test]
    fn owner_is_told_once_and_takes_socket_back() {
        let (pool, woken) = idle_pool();
        let (rest, mut peer) = put(&pool, 7, &woken);
        pool.look();
        assert!(rest.poll_back().is_pending() && !pool.has_ready());
        peer.write_all(b"a").expect("room");
        assert!(pool.has_ready());
        pool.look();
        peer.write_all(b"b").expect("room");
        pool.look();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        let Poll::Ready(Some(socket)) = rest.poll_back() else { panic!("it is told of") };
        drop(rest);
        let mut two = [0; 2];
        UnixStream::from(socket).read_exact(&mut two).expect("nothing is lost");
        assert_eq!(&two, b"ab");
        assert!(!pool.has_ready(), "it is not watched any more");
    }

    #[test]
    fn socket_taken_by_neighbour_is_gone() {
        let (pool, woken) = idle_pool();
        let (first, mut peer) = put(&pool, 1, &woken);
        let (second, other_peer) = put(&pool, 2, &woken);
        assert!(pool.take_ready().is_none() && pool.len() == 2, "nothing to read");
        peer.write_all(b"a").expect("room");
        drop(other_peer);
        let mut taken: Vec<u32> = std::iter::from_fn(|| pool.take_ready()).map(|(_, with)| with).collect();
        taken.sort_unstable();
        assert_eq!(taken, [1, 2], "bytes, and an end");
        assert_eq!(woken.0.load(Ordering::Relaxed), 2, "who put them there learns of it");
        assert!(matches!(first.poll_back(), Poll::Ready(None)) && second.back().is_none() && pool.is_empty());
    }

    #[test]
    fn neighbour_takes_socket_of_stuck_owner() {
        let (pool, woken) = idle_pool();
        let (rest, mut peer) = put(&pool, 1, &woken);
        peer.write_all(b"a").expect("room");
        pool.look();
        assert!(pool.has_ready() && pool.take_ready().is_some() && !pool.has_ready());
        assert!(matches!(rest.poll_back(), Poll::Ready(None)));
    }

    #[test]
    fn dropping_closes_the_socket() {
        let (pool, woken) = idle_pool();
        let (rest, mut peer) = put(&pool, 1, &woken);
        drop(rest);
        assert_eq!(peer.read(&mut [0]).expect("an end"), 0);
    }

    /// Many concurrent takers: exactly one gets each socket.
    #[test]
    fn one_of_many_has_it() {
        let (pool, woken) = idle_pool();
        for _ in 0..50 {
            let rests: Vec<_> = (0..LOOK_MAX as u32 + 10).map(|with| put(&pool, with, &woken)).collect();
            for (_, peer) in &rests {
                (&mut &*peer).write_all(b"a").expect("room");
            }
            let taken: usize = std::thread::scope(|scope| {
                let takers: Vec<_> = (0..3)
                    .map(|_| {
                        scope.spawn(|| {
                            std::iter::from_fn(|| pool.has_ready().then(|| pool.take_ready()))
                                .flatten()
                                .count()
                        })
                    })
                    .collect();
                let back = rests.iter().filter(|(rest, _)| rest.back().is_some()).count();
                back + takers.into_iter().map(|taker| taker.join().expect("a taker")).sum::<usize>()
            });
            assert_eq!(taken, rests.len());
        }
    }
}
