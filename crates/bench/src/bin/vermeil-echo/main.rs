//! A FastCGI application that is not PHP: answers with the request's target and body.
//!
//! The program runs `--children` threads, and each thread serves one connection after the other,
//! like a child of PHP. The measured time is therefore the cost of the server and the protocol. The
//! program accepts requests in any split, keeps connections open on request, and reads only one
//! parameter. Must never face anything but a bench.

use std::{
    fs::{self, Permissions},
    io::{self, Read as _, Write as _},
    ops::ControlFlow,
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    process::ExitCode,
    thread,
};

use clap::Parser;
use vermeil_fastcgi::request::RequestPersistence;
use vermeil_fastcgi::responder::{self, RequestEvent, RequestReader, RequestStep};
use vermeil_fastcgi::{RequestId, pairs};

/// The start of every answer.
const HEAD: &[u8] = b"Content-Type: text/plain\r\n\r\n";

/// Bytes per receive: more than a request of the bench.
const RECEIVE_BYTES: usize = 16 * 1024;

/// Answers each request with its target and body.
#[derive(Debug, Parser)]
#[command(name = "vermeil-echo")]
struct EchoArgs {
    /// Where to listen.
    #[arg(long)]
    socket: PathBuf,
    /// Connections that are served at once.
    #[arg(long)]
    children: usize,
}

fn main() -> ExitCode {
    match run(&EchoArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vermeil-echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &EchoArgs) -> io::Result<()> {
    let listener = UnixListener::bind(&args.socket)?;
    // A server under any user must be able to connect.
    fs::set_permissions(&args.socket, Permissions::from_mode(0o666))?;
    thread::scope(|scope| {
        let children: Vec<_> = (0..args.children).map(|_| scope.spawn(|| serve_all(&listener))).collect();
        children.into_iter().try_for_each(|child| child.join().expect("it does not panic"))
    })
}

fn serve_all(listener: &UnixListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        if let Err(error) = serve(stream) {
            eprintln!("vermeil-echo: {error}");
        }
    }
}

/// Serves one connection to its end.
fn serve(mut stream: UnixStream) -> io::Result<()> {
    let (mut requests, mut echo) = (RequestReader::default(), Echo::new());
    let (mut unread, mut buffer, mut out) = (Vec::new(), vec![0; RECEIVE_BYTES], Vec::new());
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => unread.extend_from_slice(&buffer[..bytes]),
            // A server may close a connection with unread bytes left.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        }
        let mut next = ControlFlow::Continue(());
        let mut done = 0;
        while let Some(RequestStep { consumed, event }) =
            requests.read(&unread[done..]).map_err(io::Error::other)?
        {
            if let Some(event) = event {
                next = echo.take(event, &unread[done..], &mut out)?;
            }
            done += consumed;
        }
        unread.drain(..done);
        match stream.write_all(&out) {
            // The client has gone.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
        out.clear();
        if next.is_break() {
            return Ok(());
        }
    }
}

/// One connection's request.
struct Echo {
    id: RequestId,
    persistence: RequestPersistence,
    output: Vec<u8>,
}

impl Echo {
    fn new() -> Self {
        Self { id: RequestId::FIRST, persistence: RequestPersistence::Close, output: Vec::new() }
    }

    /// Takes a part of the request, found in `input`. The last part puts the answer into `out`; the
    /// result says whether more requests may follow on the connection.
    fn take(&mut self, event: RequestEvent, input: &[u8], out: &mut Vec<u8>) -> io::Result<ControlFlow<()>> {
        match event {
            RequestEvent::Begin { id, persistence, .. } => {
                self.id = id;
                self.persistence = persistence;
                self.output.clear();
                self.output.extend_from_slice(HEAD);
            }
            RequestEvent::Params(params) => {
                for pair in pairs::read(&params) {
                    if let (b"REQUEST_URI", target) = pair.map_err(io::Error::other)? {
                        self.output.extend_from_slice(target);
                        self.output.push(b'\n');
                    }
                }
            }
            RequestEvent::Stdin(data) => self.output.extend_from_slice(&input[data]),
            RequestEvent::StdinEnd => {
                responder::stdout(out, self.id, &self.output);
                responder::end(out, self.id, 0);
                if self.persistence == RequestPersistence::Close {
                    return Ok(ControlFlow::Break(()));
                }
            }
            RequestEvent::Abort => return Ok(ControlFlow::Break(())),
            RequestEvent::GetValues(_) => {}
        }
        Ok(ControlFlow::Continue(()))
    }
}
