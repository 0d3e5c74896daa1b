//! The header of the PROXY protocol, which precedes the handshake at some listeners.
//!
//! Leaves out reading the header (`connection/origin.rs`). Tested through the binary
//! (`crates/e2e/tests/e2e/tls.rs`).

use vermeil::TcpStream;
use vermeil_accept::admission_control::Admission;
use vermeil_connection::{
    client_stream::ClientStream,
    connection::{ClientOrigin, Connection},
};
use vermeil_state::core_context::ConnectionPermit;

/// A connection at the begin of its handshake.
pub(super) struct BegunConnection {
    pub(super) stream: TcpStream,
    pub(super) permit: ConnectionPermit,
    /// Bytes that came with the header.
    pub(super) received: Vec<u8>,
    /// The client, if a proxy has announced it.
    pub(super) origin: Option<Box<ClientOrigin>>,
}

/// Receives the header, if the listener asks for it. `None` if the connection is over: the header
/// is missing or wrong, or the announced client has its share of connections already. A client
/// that speaks TLS reads no answer before a handshake.
pub(super) async fn receive(stream: TcpStream, permit: ConnectionPermit) -> Option<BegunConnection> {
    let mut connection = Connection::new(ClientStream::plain(stream), permit, Admission::Serve, 0);
    let goes_on = !connection.is_announced() || connection.read_announcement().await.unwrap_or(false);
    if !goes_on || connection.admission != Admission::Serve {
        connection.permit.end();
        return None;
    }
    let Connection { stream, permit, input, client, .. } = connection;
    Some(BegunConnection { stream: stream.into_tcp(), permit, received: input.into(), origin: client.origin })
}
