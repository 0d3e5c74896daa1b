//! Random operations on a few streams, against a model that only remembers the sent bytes.
//!
//! At every step the received bytes must be a prefix of the sent bytes; at the end all bytes must
//! have arrived. Queues and buffers are few and small, each random, so that the rare states
//! (suspended, out of buffers, blocked, submitted early) are common. The test found that an entry
//! which had to wait for room counted as consumed.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use vermeil_io::{DriverOptions, More, StreamKey};

use super::{DEADLINE, DriverWorld, MakeDriver, pattern, poll_once};

#[derive(Debug, Clone)]
enum PropertyStep {
    PeerWrites { pair: usize, bytes: usize },
    PeerReads { pair: usize, bytes: usize },
    Receives { pair: usize },
    Sends { pair: usize, head: usize, body: usize, more: bool },
    Sent { pair: usize },
    Turns,
    Released { pair: usize },
    Replaced { pair: usize },
}

const PAIRS: usize = 3;

fn step() -> impl Strategy<Value = PropertyStep> {
    let pair = 0..PAIRS;
    let size = prop_oneof![3 => 0..200usize, 2 => 0..20_000usize, 1 => 0..600_000usize];
    prop_oneof![
        3 => (pair.clone(), size.clone()).prop_map(|(pair, bytes)| PropertyStep::PeerWrites { pair, bytes }),
        3 => (pair.clone(), size.clone()).prop_map(|(pair, bytes)| PropertyStep::PeerReads { pair, bytes }),
        4 => pair.clone().prop_map(|pair| PropertyStep::Receives { pair }),
        3 => (pair.clone(), 0..500usize, size, any::<bool>())
            .prop_map(|(pair, head, body, more)| PropertyStep::Sends { pair, head, body, more }),
        3 => pair.clone().prop_map(|pair| PropertyStep::Sent { pair }),
        5 => Just(PropertyStep::Turns),
        2 => pair.clone().prop_map(|pair| PropertyStep::Released { pair }),
        1 => pair.prop_map(|pair| PropertyStep::Replaced { pair }),
    ]
}

/// A stream, its peer, and the bytes sent and received by each side.
struct StreamPair {
    key: StreamKey,
    peer: TcpStream,
    sending: bool,
    peer_said: Vec<u8>,
    heard: Vec<u8>,
    said: Vec<u8>,
    peer_heard: Vec<u8>,
}

impl StreamPair {
    fn new(world: &DriverWorld) -> Self {
        let (key, peer) = world.connected();
        socket2::SockRef::from(&peer).set_recv_buffer_size(20_000).expect("SO_RCVBUF");
        peer.set_nonblocking(true).expect("nonblocking");
        let empty = Vec::new;
        Self {
            key,
            peer,
            sending: false,
            peer_said: empty(),
            heard: empty(),
            said: empty(),
            peer_heard: empty(),
        }
    }

    fn peer_reads(&mut self, bytes: usize) {
        let mut buf = vec![0; bytes];
        match self.peer.read(&mut buf) {
            Ok(count) => self.peer_heard.extend_from_slice(&buf[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        assert!(self.said.starts_with(&self.peer_heard), "the peer heard what was not said");
    }

    fn peer_writes(&mut self, bytes: usize, seed: u64) {
        let message = pattern(bytes, seed);
        match self.peer.write(&message) {
            Ok(count) => self.peer_said.extend_from_slice(&message[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }

    fn receives(&mut self, world: &DriverWorld) -> Option<usize> {
        let received = poll_once(|cx| world.driver.borrow_mut().poll_recv(cx, self.key, &mut self.heard));
        assert!(self.peer_said.starts_with(&self.heard), "heard what the peer did not say");
        match received {
            Poll::Ready(count) => Some(count.expect("recv")),
            Poll::Pending => None,
        }
    }

    fn sends(&mut self, world: &DriverWorld, (head, body, more): (usize, usize, bool), seed: u64) {
        if self.sending {
            return;
        }
        let (head, body) = (pattern(head, seed), Bytes::from(pattern(body, seed + 1)));
        self.said.extend_from_slice(&head);
        self.said.extend_from_slice(&body);
        let more = if more { More::Yes } else { More::No };
        world.driver.borrow_mut().start_send(self.key, head, body, more).expect("nothing is under way");
        self.sending = true;
    }

    fn sent(&mut self, world: &DriverWorld) {
        if let Poll::Ready(head) = poll_once(|cx| world.driver.borrow_mut().poll_sent(cx, self.key)) {
            assert!(head.expect("sent").is_empty());
            self.sending = false;
        }
    }

    /// If the driver releases the socket, the socket is added again.
    fn released(&mut self, world: &DriverWorld) {
        let mut driver = world.driver.borrow_mut();
        if let Poll::Ready(released) = poll_once(|cx| driver.poll_release(cx, self.key))
            && let Some(socket) = released.expect("release")
        {
            self.key = driver.add_stream(socket).expect("add_stream");
        }
    }

    /// Receives all sent bytes on both sides, and both ends.
    fn finish(mut self, world: &DriverWorld) {
        let deadline = Instant::now() + DEADLINE;
        let mut ended = false;
        self.peer.shutdown(Shutdown::Write).expect("shutdown");
        while self.sending || !ended || self.peer_heard.len() < self.said.len() {
            assert!(Instant::now() < deadline, "bytes or an end were lost");
            self.sent(world);
            self.peer_reads(100_000);
            ended |= self.receives(world) == Some(0);
            world.nudge();
        }
        assert!(self.heard == self.peer_said && self.peer_heard == self.said);
        world.close(self.key);
    }
}

fn options() -> impl Strategy<Value = DriverOptions> {
    (0..4u32, 0..6u32, 1..5u16).prop_map(|(ring, buffers, recv_parked_max)| DriverOptions {
        recv_buffers: 1 << buffers,
        recv_buffer_bytes: 1000,
        recv_parked_max,
        ring_entries: 8 << ring,
        epoll_events: 1 << ring,
        ..Default::default()
    })
}

fn play(make: &MakeDriver, options: DriverOptions, steps: &[PropertyStep]) {
    let world = make(options);
    let mut pairs: Vec<_> = (0..PAIRS).map(|_| StreamPair::new(&world)).collect();
    for (step, seed) in steps.iter().zip(0..) {
        match *step {
            PropertyStep::PeerWrites { pair, bytes } => pairs[pair].peer_writes(bytes, seed),
            PropertyStep::PeerReads { pair, bytes } => pairs[pair].peer_reads(bytes),
            PropertyStep::Receives { pair } => drop(pairs[pair].receives(&world)),
            PropertyStep::Sends { pair, head, body, more } => {
                pairs[pair].sends(&world, (head, body, more), seed)
            }
            PropertyStep::Sent { pair } => pairs[pair].sent(&world),
            PropertyStep::Turns => drop(world.nudge()),
            PropertyStep::Released { pair } => pairs[pair].released(&world),
            PropertyStep::Replaced { pair } => {
                world.close(pairs[pair].key);
                pairs[pair] = StreamPair::new(&world);
            }
        }
    }
    for pair in pairs {
        pair.finish(&world);
    }
    let deadline = Instant::now() + DEADLINE;
    while world.driver.borrow().stream_count() > 0 {
        assert!(Instant::now() < deadline, "closed streams stay");
        world.nudge();
    }
}

pub(crate) fn bytes_are_those_of_the_model(make: &MakeDriver) {
    let config = Config { cases: 100, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(options(), vec(step(), 1..150)), |(options, steps)| {
            play(make, options, &steps);
            Ok(())
        })
        .unwrap();
}
