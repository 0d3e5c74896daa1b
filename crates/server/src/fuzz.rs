//! Messages over the boundary between the server's user and its owner, parsed from any bytes, for
//! the fuzz targets (`fuzz/targets`).

use vermeil_ops::control::ClientRequest;

/// Parses a request of a control client. Returns the name of the request.
pub fn control(line: &[u8]) -> String {
    format!("{:?}", ClientRequest::of(line))
}

/// Whether the bytes are a message of a takeover between two servers.
pub fn take_over(bytes: &[u8]) -> bool {
    vermeil_ops::handover::is_message(bytes)
}

/// Whether the bytes are a message of a server to its broker, or of an instance to its supervisor.
pub fn orders(bytes: &[u8]) -> bool {
    vermeil_ops::broker::is_order(bytes) || vermeil_instances::is_answer(bytes)
}
