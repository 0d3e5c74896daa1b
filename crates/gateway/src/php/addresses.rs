//! The addresses of an external pool, tried in turn until one accepts the connection.
//!
//! A name may have several addresses, and the pool may listen at one of them only. For example,
//! `localhost` has an address of each family on most machines. Names are looked up when the
//! configuration is read, because the sandbox is closed later. Tested below.

use std::{
    fmt, io,
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use vermeil::{Sleep, TcpStream};

/// The addresses of a pool.
#[derive(Debug)]
pub struct PoolAddresses {
    addrs: Vec<SocketAddr>,
    /// Index of the address that accepted the last connection. The next attempt begins there, so
    /// that an address without a pool costs time only once.
    first: AtomicUsize,
}

impl PoolAddresses {
    pub fn new(addrs: Vec<SocketAddr>) -> Self {
        Self { addrs, first: AtomicUsize::new(0) }
    }

    /// Connects to the first address that accepts. Each address but the last has an equal part of
    /// `patience`; the caller limits the whole.
    pub(super) async fn connect(&self, patience: Duration) -> io::Result<TcpStream> {
        let count = self.addrs.len();
        let first = self.first.load(Ordering::Relaxed);
        let part = patience / u32::try_from(count).unwrap_or(u32::MAX).max(1);
        for left in (1..count).rev() {
            let index = (first + count - 1 - left) % count;
            let mut limit = Sleep::unset();
            limit.set(part);
            if let Ok(Ok(stream)) = limit.limit(TcpStream::connect(self.addrs[index])).await {
                self.first.store(index, Ordering::Relaxed);
                return Ok(stream);
            }
        }
        let last = (first + count - 1) % count;
        let stream = TcpStream::connect(self.addrs[last]).await?;
        self.first.store(last, Ordering::Relaxed);
        Ok(stream)
    }
}

impl fmt::Display for PoolAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, addr) in self.addrs.iter().enumerate() {
            if index > 0 {
                f.write_str(" or ")?;
            }
            addr.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
    use std::{
        net::{Ipv4Addr, TcpListener},
        sync::Arc,
    };
    use vermeil::Runtime;

    const PATIENCE: Duration = Duration::from_millis(200);

    /// The index of the address that each of two attempts reaches.
    fn reached(addrs: &[SocketAddr]) -> Vec<io::Result<usize>> {
        let addresses = Arc::new(PoolAddresses::new(addrs.to_vec()));
        let runtime = Runtime::builder().cpus([0]).build().expect("it starts");
        let attempt = || {
            let addresses = addresses.clone();
            let connected = runtime.handle().spawn(async move {
                addresses.connect(PATIENCE).await.map(|_| addresses.first.load(Ordering::Relaxed))
            });
            connected.wait().expect("no panic")
        };
        vec![attempt(), attempt()]
    }

    fn listener(host: u8) -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), 0)).expect("a port");
        let addr = listener.local_addr().expect("bound");
        (listener, addr)
    }

    /// An address at which no program listens.
    fn refusing() -> SocketAddr {
        listener(1).1
    }

    #[test]
    fn refused_address_leads_to_next() {
        let (_listener, addr) = listener(2);
        for (addrs, expected) in [
            (vec![addr], 0),
            (vec![refusing(), addr], 1),
            (vec![refusing(), addr, refusing()], 1),
            (vec![refusing(), refusing(), addr], 2),
        ] {
            let reached = reached(&addrs);
            assert!(matches!(reached[..], [Ok(a), Ok(b)] if a == expected && b == expected), "{reached:?}");
        }
        let refused = reached(&[refusing(), refusing()]);
        let is_refused = |result: &io::Result<usize>| {
            result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        assert!(refused.iter().all(is_refused), "{refused:?}");
    }

    #[test]
    fn silent_address_leads_to_next() {
        // A full queue of connections is as silent as a machine that drops packets.
        let full = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&full, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("bound");
        listen(&full, 0).expect("it listens");
        let silent = SocketAddr::try_from(getsockname(&full).expect("an address")).expect("of TCP");
        let _filler = std::net::TcpStream::connect(silent).expect("the queue has one place");
        let (_listener, addr) = listener(2);
        let reached = reached(&[silent, addr]);
        assert!(matches!(reached[..], [Ok(1), Ok(1)]), "{reached:?}");
    }
}
