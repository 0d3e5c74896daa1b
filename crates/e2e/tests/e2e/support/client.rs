//! A client that writes arbitrary bytes and reads whole responses, on one connection.

use super::response::{ExpectedContent, Response, TestHead};
use super::{PATIENCE, until};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// One connection.
pub(crate) struct TestClient {
    stream: TcpStream,
    /// Received and not yet read as responses.
    received: Vec<u8>,
    answers: usize,
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// Nothing more came.
    Closed,
    /// A reset, which may overtake earlier data.
    Reset,
}

impl TestClient {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        Self::over(TcpStream::connect(addr).expect("connected"))
    }

    /// `None` if no process listens.
    pub(crate) fn try_connect(addr: SocketAddr) -> Option<Self> {
        TcpStream::connect(addr).ok().map(Self::over)
    }

    /// With a receive buffer so small that a server notices a client that does not read.
    pub(crate) fn connect_narrow(addr: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        socket.connect(&addr.into()).expect("connected");
        Self::over(socket.into())
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(PATIENCE)).expect("an option");
        stream.set_write_timeout(Some(PATIENCE)).expect("an option");
        Self { stream, received: Vec::new(), answers: 0 }
    }

    /// Waits as long for an answer, rather than [`PATIENCE`].
    pub(crate) fn patient_for(self, time: Duration) -> Self {
        self.stream.set_read_timeout(Some(time)).expect("an option");
        self
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server takes it");
    }

    /// Sends bytes that the server may refuse before the server has taken all of them.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Tells the server that nothing more comes.
    pub(crate) fn finish(&self) {
        // The server may have closed the connection already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Sends a request without content; `fields` are lines without their ends.
    pub(crate) fn ask(&mut self, method: &str, target: &str, fields: &[&str]) {
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n");
        for field in fields {
            request.push_str(field);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        self.send(request);
    }

    /// Asks and reads the answer.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, target: &str, fields: &[&str]) -> Response {
        self.ask(method, target, fields);
        self.read(if method == "HEAD" { ExpectedContent::Omitted } else { ExpectedContent::Follows })
    }

    #[track_caller]
    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.request("GET", target, &[])
    }

    #[track_caller]
    pub(crate) fn get_with(&mut self, target: &str, fields: &[&str]) -> Response {
        self.request("GET", target, fields)
    }

    /// Reads one whole response.
    #[track_caller]
    pub(crate) fn read(&mut self, content: ExpectedContent) -> Response {
        match self.try_read(content) {
            Ok(response) => response,
            Err(end) => {
                let (count, start) = (self.received.len(), &self.received[..self.received.len().min(500)]);
                panic!("{end:?} instead of a whole response; {count} bytes came: {}", start.escape_ascii())
            }
        }
    }

    /// Reads one whole response, or reports how the connection ended before a response.
    #[track_caller]
    pub(crate) fn try_read(&mut self, content: ExpectedContent) -> Result<Response, ConnectionEnd> {
        let (head, start) = loop {
            match TestHead::read(&self.received, content) {
                Some(found) => break found,
                None => self.receive()?,
            }
        };
        let (body, count) = loop {
            match head.content(&self.received[start..]) {
                Some(found) => break found,
                None => self.receive()?,
            }
        };
        self.received.drain(..start + count);
        self.answers += 1;
        Ok(head.with(body))
    }

    /// Receives once, up to 64 KiB.
    #[track_caller]
    fn receive(&mut self) -> Result<(), ConnectionEnd> {
        let mut buffer = [0; 1 << 16];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(ConnectionEnd::Closed),
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(ConnectionEnd::Reset),
            // A stop signal interrupted this process for a moment: a read with a time limit is not
            // restarted then.
            Err(error) if error.kind() == ErrorKind::Interrupted => self.receive(),
            Err(error) => panic!("receiving: {error}; came: {} bytes", self.received.len()),
        }
    }

    /// Receives until at least `count` bytes are buffered.
    #[track_caller]
    pub(crate) fn receive_at_least(&mut self, count: usize) {
        while self.received.len() < count {
            self.receive().expect("more to come");
        }
    }

    /// Responses read so far.
    pub(crate) fn answers(&self) -> usize {
        self.answers
    }

    /// The received bytes that form no whole response yet.
    pub(crate) fn received(&self) -> &[u8] {
        &self.received
    }

    /// Discards the received bytes.
    pub(crate) fn discard(&mut self) {
        self.received.clear();
    }

    /// Receives once and drops the data, adding its length to `bytes`; false at the end.
    #[track_caller]
    pub(crate) fn receive_and_drop(&mut self, bytes: &mut usize) -> bool {
        let goes_on = self.receive().is_ok();
        *bytes += self.received.len();
        self.received.clear();
        goes_on
    }

    /// Reads to the end; unread data stays in [`received`](Self::received).
    #[track_caller]
    pub(crate) fn read_to_end(&mut self) -> ConnectionEnd {
        loop {
            if let Err(end) = self.receive() {
                return end;
            }
        }
    }

    /// Waits for the end of the connection and checks that no data comes before the end.
    #[track_caller]
    pub(crate) fn ends_silently(&mut self) {
        let end = self.read_to_end();
        assert_eq!((end, self.received.escape_ascii().to_string()), (ConnectionEnd::Closed, String::new()));
    }

    /// Waits until data has arrived, without taking the data.
    pub(crate) fn wait_readable(&self) {
        let mut byte = [0];
        until("something arrives", || self.stream.peek(&mut byte).ok());
    }

    /// Whether something, or the end, has arrived.
    pub(crate) fn is_readable(&self) -> bool {
        self.stream.set_nonblocking(true).expect("an option");
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).expect("an option");
        !matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}
