//! Extracts an answer from FastCGI records.
//!
//! Short output is copied. Long output stays in the receive buffer, and the relay takes over that
//! memory. The contents of several records are joined by moving the shorter to the longer. Tested
//! below.

use crate::parts::{ErrorLines, PIECE_BYTES, ProgramRead, ResponseBuffer, Trouble};
use std::{mem, ops::Range};
use vermeil_fastcgi::{FastcgiResponse, ProtocolStatus, ResponseEvent, ResponseStep};

/// Receive buffer for a long answer: one piece as it is sent, and as much again, because PHP fills
/// its output buffer whatever the script does.
const ROOM_BYTES: usize = 2 * PIECE_BYTES;

/// Length from which output stays in the receive buffer. A quarter of the buffer, so that output
/// waiting for a client holds at most four times its size.
const STAYS_BYTES: usize = ROOM_BYTES / 4;

/// Makes room for a long answer in `received`. The room persists, because the content is copied out
/// or taken over before the next receive.
pub(super) fn make_room(received: &mut Vec<u8>) {
    if received.capacity() < ROOM_BYTES {
        received.reserve(ROOM_BYTES);
    }
}

/// Reads the records in `received` and leaves incomplete bytes there. Returns `None` if they hold
/// neither output nor the end of the answer.
///
/// # Errors
/// The bytes are no valid answer, or the answer of another request.
pub(super) fn unframe(
    response: &mut FastcgiResponse,
    received: &mut Vec<u8>,
    output: &mut ResponseBuffer,
    errors: &mut ErrorLines,
) -> Result<Option<ProgramRead>, Trouble> {
    let (mut at, mut found) = (0, None);
    let stays = output.has_none_behind() && received.len() >= STAYS_BYTES;
    let mut staying = 0..0;
    if !stays {
        // Reserve once instead of growing step by step.
        output.end().reserve(received.len());
    }
    while let Some(ResponseStep { consumed, event }) = response.read(&received[at..])? {
        let place = |Range { start, end }| at + start..at + end;
        match event {
            Some(ResponseEvent::Stdout(data)) => {
                if stays {
                    staying = joined(received, staying, place(data));
                } else {
                    output.end().extend_from_slice(&received[place(data)]);
                }
                found = Some(ProgramRead::Some);
            }
            Some(ResponseEvent::Stderr(data)) => {
                errors.push(&received[place(data)]);
                found = Some(ProgramRead::Some);
            }
            Some(ResponseEvent::End { protocol_status: ProtocolStatus::Complete, .. }) => {
                found = Some(ProgramRead::End)
            }
            Some(ResponseEvent::End { protocol_status, .. }) => {
                return Err(Trouble::Refused(protocol_status));
            }
            Some(ResponseEvent::Values(_) | ResponseEvent::UnknownKind(_)) | None => {}
        }
        at += consumed;
    }
    if staying.is_empty() {
        received.drain(..at);
    } else {
        let mut unread = Vec::with_capacity(ROOM_BYTES);
        unread.extend_from_slice(&received[at..]);
        received.truncate(staying.end);
        output.take_over(mem::replace(received, unread), staying.start);
    }
    Ok(found)
}

/// Joins two ranges of `bytes` by moving the shorter next to the longer, and returns the joined
/// range.
fn joined(bytes: &mut [u8], first: Range<usize>, next: Range<usize>) -> Range<usize> {
    if first.is_empty() {
        return next;
    }
    if first.len() < next.len() {
        let start = next.start - first.len();
        bytes.copy_within(first, start);
        return start..next.end;
    }
    let end = first.end + next.len();
    bytes.copy_within(next, first.end);
    first.start..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::ErrorSink;
    use std::sync::Arc;
    use vermeil_exchange::RequestName;
    use vermeil_fastcgi::RequestId;
    use vermeil_log::Notices;

    /// A record of kind `number`: 6 for output, 7 for error output, 3 for the end.
    fn record(number: u8, content: &[u8]) -> Vec<u8> {
        let [high, low] = u16::try_from(content.len()).expect("one record's").to_be_bytes();
        let padding = content.len().wrapping_neg() % 8;
        let head = [1, number, 0, 1, high, low, padding as u8, 0];
        [&head[..], content, &[0; 8][..padding]].concat()
    }

    #[test]
    fn however_it_comes_the_output_is_the_same_and_the_end_is_found() {
        let text: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        let mut answer = record(7, b"a warning\n");
        for (piece, bytes) in [(0, 56), (56, 65_528), (65_584, 3_128), (68_712, 40_000), (108_712, 65_535)] {
            answer.extend(record(6, &text[piece..piece + bytes]));
        }
        answer.extend(record(3, &[0; 8]));
        let expected = &text[..108_712 + 65_535];
        for at_once in [1_000, STAYS_BYTES - 1, STAYS_BYTES, 65_000, ROOM_BYTES, answer.len()] {
            let notices = Arc::new(Notices::kept());
            let mut errors = ErrorLines::new(ErrorSink::new(notices.clone()), "php", RequestName(1));
            let mut response = FastcgiResponse::new(RequestId::FIRST);
            let (mut received, mut all, mut last) = (Vec::new(), Vec::new(), None);
            for bytes in answer.chunks(at_once) {
                received.extend_from_slice(bytes);
                let mut output = ResponseBuffer::default();
                last = unframe(&mut response, &mut received, &mut output, &mut errors).expect("an answer");
                let rest = output.take(usize::MAX, &mut all, &[]);
                all.extend_from_slice(&rest);
            }
            assert!(all == expected, "{at_once} bytes at once");
            assert!(last == Some(ProgramRead::End) && response.is_over() && received.is_empty(), "{at_once}");
            assert_eq!(notices.lines().len(), 1);
        }
    }

    /// Once the buffer was made again for each answer, twice as large, and the answer was copied
    /// there.
    #[test]
    fn room_is_made_once() {
        let mut received = vec![b'x'; 100];
        make_room(&mut received);
        assert!(received.capacity() >= 100 + ROOM_BYTES);
        received.resize(ROOM_BYTES, b'x');
        let (place, room) = (received.as_ptr(), received.capacity());
        make_room(&mut received);
        assert_eq!((received.as_ptr(), received.capacity()), (place, room));
    }

    /// Output set aside earlier comes first.
    #[test]
    fn long_output_stays_behind_reserved_bytes() {
        let mut output = ResponseBuffer::default();
        output.end().extend_from_slice(b"first ");
        output.set_aside();
        let mut received = record(6, &[b'x'; STAYS_BYTES]);
        let place = received.as_ptr();
        let mut errors = ErrorLines::new(ErrorSink::new(Arc::new(Notices::kept())), "php", RequestName(1));
        let mut response = FastcgiResponse::new(RequestId::FIRST);
        let read = unframe(&mut response, &mut received, &mut output, &mut errors);
        assert!(matches!(read, Ok(Some(ProgramRead::Some))));
        let mut out = Vec::new();
        let rest = output.take(usize::MAX, &mut out, &[]);
        assert_eq!(
            (&out[..], rest.len(), rest.as_ptr()),
            (&b"first "[..], STAYS_BYTES, place.wrapping_add(8))
        );
    }

    #[test]
    fn nonempty_buffer_is_appended_to() {
        let mut output = ResponseBuffer::default();
        output.end().extend_from_slice(b"head");
        let mut received = record(6, &[b'x'; STAYS_BYTES]);
        let mut errors = ErrorLines::new(ErrorSink::new(Arc::new(Notices::kept())), "php", RequestName(1));
        let mut response = FastcgiResponse::new(RequestId::FIRST);
        let read = unframe(&mut response, &mut received, &mut output, &mut errors);
        assert!(matches!(read, Ok(Some(ProgramRead::Some))));
        assert_eq!((output.len(), &output.as_slice()[..5]), (4 + STAYS_BYTES, &b"headx"[..]));
    }
}
