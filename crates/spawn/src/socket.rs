//! Messages with descriptors over `SOCK_SEQPACKET`. Each message arrives whole or not at all, and
//! the end of a connection is noticed.
//!
//! Tested by all code that uses this module.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, IoSlice, IoSliceMut, Result, retry_on_intr},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg,
        socketpair,
    },
};
use std::{
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
    time::Duration,
};

/// Descriptors of one message. A request for a program has three; the kernel allows 253
/// (`SCM_MAX_FD`).
pub const DESCRIPTORS_MAX: usize = 64;

/// Two ends that do not block and that no program inherits.
///
/// # Errors
///
/// When there are no descriptors left.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Sends one message, with at most [`DESCRIPTORS_MAX`] descriptors.
///
/// # Errors
///
/// [`Errno::AGAIN`] when there is no room now, [`Errno::MSGSIZE`] when the message can never fit,
/// [`Errno::PIPE`] when the other end is closed.
pub fn send(to: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors)),
            "at most {DESCRIPTORS_MAX} descriptors"
        );
    }
    // A peer that has gone is an error, not a signal.
    let flags = SendFlags::NOSIGNAL;
    let sent = retry_on_intr(|| sendmsg(to, &[IoSlice::new(bytes)], &mut ancillary, flags))?;
    debug_assert_eq!(sent, bytes.len(), "messages are sent whole");
    Ok(())
}

/// As [`send`], waiting for room up to `patience`.
///
/// # Errors
///
/// As [`send`]; [`Errno::TIMEDOUT`] when there was no room.
pub(crate) fn say(
    to: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    patience: Duration,
) -> Result<()> {
    wait(to, PollFlags::OUT, patience)?;
    send(to, bytes, descriptors)
}

/// As [`receive`], waiting for a message up to `patience`; returns the message's length.
///
/// # Errors
///
/// As [`receive`]; [`Errno::TIMEDOUT`] when no message came, [`Errno::PIPE`] when the other end is
/// closed.
pub(crate) fn hear(from: BorrowedFd<'_>, buffer: &mut [u8], patience: Duration) -> Result<usize> {
    wait(from, PollFlags::IN, patience)?;
    match receive(from, buffer)? {
        Some(received) => Ok(received.bytes),
        None => Err(Errno::PIPE),
    }
}

/// Waits until the socket is ready for `flags`.
///
/// # Errors
///
/// [`Errno::TIMEDOUT`] when `patience` was over first.
pub(crate) fn wait(socket: BorrowedFd<'_>, flags: PollFlags, patience: Duration) -> Result<()> {
    let mut polled = [PollFd::new(&socket, flags)];
    let patience = Timespec::try_from(patience).map_err(|_| Errno::INVAL)?;
    match retry_on_intr(|| poll(&mut polled, Some(&patience)))? {
        0 => Err(Errno::TIMEDOUT),
        _ => Ok(()),
    }
}

/// A received message; its descriptors are closed unless the caller takes them.
#[derive(Debug, Default)]
pub struct SocketMessage {
    /// The length of the message.
    pub bytes: usize,
    /// The descriptors that came with the message.
    pub descriptors: Vec<OwnedFd>,
}

/// Receives one message into `buffer`; returns `None` if the other end is closed.
///
/// # Errors
///
/// [`Errno::AGAIN`] when there is no message, [`Errno::MSGSIZE`] when the message does not fit.
pub fn receive(from: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Option<SocketMessage>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let message = retry_on_intr(|| recvmsg(from, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags))?;
    let mut descriptors = Vec::new();
    for content in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = content {
            descriptors.extend(rights);
        }
    }
    if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Errno::MSGSIZE);
    }
    // No process here sends empty messages, so an empty message is the end of the connection.
    if message.bytes == 0 {
        return Ok(None);
    }
    Ok(Some(SocketMessage { bytes: message.bytes, descriptors }))
}
