//! The records of a FastCGI application: cut anywhere, the same bytes on the same streams, and the
//! same end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_fastcgi::{FastcgiResponse, RequestId, ResponseEvent};

/// The result: both streams, the other events, and the final fault.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    others: Vec<String>,
    fault: Option<String>,
}

fn run<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut response = FastcgiResponse::new(RequestId::FIRST);
    let (mut outcome, mut buffer) = (Outcome::default(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while outcome.fault.is_none() {
            match response.read(&buffer) {
                Ok(None) => break,
                Ok(Some(step)) => {
                    match step.event {
                        Some(ResponseEvent::Stdout(data)) => outcome.stdout.extend_from_slice(&buffer[data]),
                        Some(ResponseEvent::Stderr(data)) => outcome.stderr.extend_from_slice(&buffer[data]),
                        Some(ResponseEvent::Values(data)) => {
                            outcome.others.push(buffer[data].escape_ascii().to_string());
                        }
                        Some(other) => outcome.others.push(format!("{other:?}")),
                        None => {}
                    }
                    assert!(step.consumed > 0, "no progress");
                    buffer.drain(..step.consumed);
                }
                Err(fault) => outcome.fault = Some(fault.to_string()),
            }
        }
    }
    outcome
}

fuzz_target!(|data: (u16, &[u8])| {
    let (front, back) = data.1.split_at(usize::from(data.0).min(data.1.len()));
    let (whole, cut) = (run([data.1]), run([front, back]));
    assert_eq!((whole.stdout, whole.stderr, whole.fault), (cut.stdout, cut.stderr, cut.fault));
});
