//! Messages over the boundary between the server's user and its owner, read from any bytes: for the fuzz targets (`fuzz/targets`).

use crate::control::Asked;

/// What a client of the control socket asks; the name of the request.
pub fn control(line: &[u8]) -> String {
    format!("{:?}", Asked::of(line))
}

/// What two servers say to each other of which one takes over: whether the bytes are a message.
pub fn take_over(bytes: &[u8]) -> bool {
    crate::handover::is_message(bytes)
}

/// What a server says to its broker, and an instance to its supervisor: whether the bytes are a message.
pub fn orders(bytes: &[u8]) -> bool {
    crate::serve::broker::is_order(bytes) || crate::supervise::is_answer(bytes)
}
