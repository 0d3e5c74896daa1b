//! A request without TLS at a port of HTTPS: 400, in words for a person.

use bytes::Bytes;
use rustix::net::{SendFlags, send};
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
pub(super) async fn refuse(
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
    let is_sent = connection.flush(Bytes::new(), More::No).await.is_ok() && connection.sent().await.is_ok();
    if is_sent {
        close::linger(connection).await;
    }
}

/// Sends bytes past the driver, which sends nothing at this moment.
pub(super) fn send_now(stream: &TcpStream, bytes: &[u8]) {
    // A client that does not take the bytes has gone.
    let _ = stream.with_fd(|fd| send(fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL));
}
