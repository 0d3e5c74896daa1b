//! Habits of scripts on real sites: streams opened by name, work after the answer, and releases
//! behind a link.

use super::{script, serve, site};
use crate::support::{ExpectedContent, Io, on_usual};

on_usual! {
    standard_streams_can_be_opened_by_name,
}

/// Regression: a program of another user than the server's could open none of its streams by name,
/// and `/dev/stdin` only with content that fits into memory.
fn standard_streams_can_be_opened_by_name(io: Io) {
    let site = site();
    let lines = "printf 'Content-Type: text/plain\\n\\n'; echo told > /dev/stderr
         cat /dev/stdin | wc -c > /dev/stdout";
    script(&site, "cgi-bin/x", lines);
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    for bytes in [10, 70_000] {
        client.ask("POST", "/cgi-bin/x", &[&format!("Content-Length: {bytes}")]);
        client.send(vec![b'x'; bytes]);
        let answer = client.read(ExpectedContent::Follows);
        assert_eq!(answer.text().trim(), bytes.to_string(), "{server:?}");
    }
    server.says(": told\n");
    server.stops_clean();
}
