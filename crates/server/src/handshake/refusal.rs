//! The last bytes to a client without a session: an alert, or for a request without TLS at a port
//! of HTTPS 400, in words for a person.
//!
//! A close with unread bytes would reset the connection, and the client might lose the alert. A
//! client of TLS 1.3 sends the first request while the server looks at the client's certificate. So
//! the server reads on for a moment before the close. Tested through the binary
//! (`crates/e2e/tests/e2e/tls_trust.rs` and `tls.rs`).

use bytes::Bytes;
use vermeil::{More, TcpStream};
use vermeil_accept::admission_control::Admission;
use vermeil_answer::pages::{detailed_page, unparsed_head};
use vermeil_connection::{
    client_stream::ClientStream,
    close,
    connection::{ClientOrigin, Connection},
};
use vermeil_http::Status;
use vermeil_state::{
    core_context::{self, ConnectionPermit},
    counts::AnswerEnd,
};

/// The text of the page.
const DETAIL: &str = "This port speaks HTTPS. Write https:// in place of http:// in the address";

/// Answers a client that does not speak TLS and closes the connection.
pub(super) async fn plain_http(
    stream: TcpStream,
    mut permit: ConnectionPermit,
    received: Vec<u8>,
    origin: Option<Box<ClientOrigin>>,
) {
    permit.end();
    let mut connection = Connection::new(ClientStream::plain(stream), permit, Admission::Serve, 0);
    connection.set_origin(origin);
    let Connection { output, client, .. } = &mut connection;
    core_context::with(|local| {
        local.server.count_request();
        let head = unparsed_head(&received);
        let sent = detailed_page(local, Status::BadRequest, DETAIL, b"", head, output);
        local.end_unparsed(client.logged, &received, sent, AnswerEnd::Complete);
    });
    tell(connection).await;
}

/// Sends an alert and closes the connection.
pub(super) async fn alert(stream: TcpStream, mut permit: ConnectionPermit, alert: Vec<u8>) {
    permit.end();
    let mut connection = Connection::new(ClientStream::plain(stream), permit, Admission::Serve, 0);
    connection.output = alert;
    tell(connection).await;
}

/// Sends the output, and closes the connection once the client has read it.
async fn tell(mut connection: Connection) {
    let is_sent = connection.flush(Bytes::new(), More::No).await.is_ok() && connection.sent().await.is_ok();
    if is_sent {
        close::linger(connection).await;
    }
}
