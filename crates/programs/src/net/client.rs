//! The clients of a closed loop: each sends a request, waits for the whole answer, and sends the
//! next.
//!
//! Plain threads with blocking sockets, so that the measurement covers the program and not a second
//! runtime.

use crate::ProgramOutcome;
use std::{
    io::{self, BufRead, BufReader, ErrorKind},
    net::{SocketAddr, TcpStream},
    ops::Range,
    thread,
    time::{Duration, Instant},
};

/// Maximum wait of a client for an answer, because a server that is silent for so long is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// A closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedLoop {
    /// The address of the program.
    pub addr: SocketAddr,
    /// Connections, kept for all their requests.
    pub connections: u32,
    /// Requests on each connection.
    pub requests: u32,
    /// Threads that share the connections.
    pub threads: u32,
}

impl ClosedLoop {
    /// Runs the load. In a round, a thread sends a request on each of its connections, then reads
    /// each answer. `request` writes a request, from the connection's number and the request's
    /// number. `answer` reads an answer and returns a part of the checksum. An event of the outcome
    /// is a request.
    ///
    /// # Errors
    /// When a connection fails, or an answer does not come for a minute.
    pub fn run(
        self,
        request: impl Fn(u32, u32, &mut TcpStream) -> io::Result<()> + Sync,
        answer: impl Fn(u32, u32, &mut BufReader<TcpStream>) -> io::Result<u64> + Sync,
    ) -> io::Result<ProgramOutcome> {
        let start = Instant::now();
        let threads = self.threads.clamp(1, self.connections.max(1));
        let share = |thread| thread * self.connections / threads..(thread + 1) * self.connections / threads;
        let checksum = thread::scope(|scope| {
            let (request, answer) = (&request, &answer);
            let rounds =
                (0..threads).map(|thread| scope.spawn(move || self.rounds(share(thread), request, answer)));
            let rounds: Vec<_> = rounds.collect();
            let sums = rounds.into_iter().map(|thread| thread.join().expect("a client does not panic"));
            sums.sum::<io::Result<u64>>()
        })?;
        let events = u64::from(self.connections) * u64::from(self.requests);
        Ok(ProgramOutcome { events, elapsed: start.elapsed(), checksum })
    }

    fn rounds(
        self,
        connections: Range<u32>,
        request: impl Fn(u32, u32, &mut TcpStream) -> io::Result<()>,
        answer: impl Fn(u32, u32, &mut BufReader<TcpStream>) -> io::Result<u64>,
    ) -> io::Result<u64> {
        let mut streams = connections.clone().map(|_| connect(self.addr)).collect::<io::Result<Vec<_>>>()?;
        let mut sum = 0u64;
        for number in 0..self.requests {
            for (connection, stream) in connections.clone().zip(&mut streams) {
                request(connection, number, stream.get_mut())?;
            }
            for (connection, stream) in connections.clone().zip(&mut streams) {
                sum = sum.wrapping_add(answer(connection, number, stream)?);
            }
        }
        Ok(sum)
    }
}

fn connect(addr: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(stream))
}

/// Reads the answer to an HTTP/1.1 request, which must have status 200 and a length; returns the
/// body.
///
/// # Errors
/// When the answer has another form, or the connection fails.
pub fn read_http(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let wrong = |what: &str| io::Error::new(ErrorKind::InvalidData, format!("unexpected answer: {what}"));
    let mut line = String::new();
    from.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 200 ") {
        return Err(wrong(line.trim()));
    }
    let mut length = None;
    loop {
        line.clear();
        from.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length.ok_or_else(|| wrong("without a length"))?];
    from.read_exact(&mut body)?;
    Ok(body)
}
