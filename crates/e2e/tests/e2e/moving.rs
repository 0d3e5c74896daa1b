//! Connections that all came to one core. An idle core takes some of them, and every answer stays
//! right.
//!
//! The kernel gives a connection to the core whose cpu handles its packets, and on the loopback
//! device that is the cpu of the client. So clients of one thread all come to one core.

use crate::support::{Io, TestServer, TestSite, noise, on_both, two_cpus, until, vermeil};
use serde_json::Value;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

on_both! {
    idle_core_takes_connections_of_busy_core,
}

/// The sum over all cores of `field` in the status.
fn sum_of_cores(control: &str, field: &str) -> u64 {
    let output = vermeil(&["status", "--json", "--control", control]).output().expect("it runs");
    let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cores = status["instances"][0]["cores"].as_array().expect("cores");
    cores.iter().map(|core| core[field].as_u64().expect("a number")).sum()
}

/// Sends `request` and reads the answer, which ends with `content`. Returns its length.
fn length_of_answer(client: &mut TcpStream, request: &str, content: &[u8]) -> usize {
    client.write_all(request.as_bytes()).expect("the server takes it");
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    while !answer.ends_with(content) {
        let length = client.read(&mut piece).expect("the server answers");
        assert!(length > 0, "the connection ended within an answer");
        answer.extend_from_slice(&piece[..length]);
    }
    answer.len()
}

fn idle_core_takes_connections_of_busy_core(io: Io) {
    const CLIENTS: usize = 16;
    /// Requests that a client sends together, so that the server has more work than the clients.
    const REQUESTS: usize = 50;
    /// Rounds between two looks at the status, during which the server has no work.
    const ROUNDS: usize = 100;
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let content = noise(1, 300);
    site.write("page.bin", &content);
    let control = site.outside("control").to_str().expect("UTF-8").to_owned();
    let cores = format!("{},{}", cpus[0], cpus[1]);
    let server = TestServer::start(io, &site, &["--cores", &cores, "--control", &control]);
    let addr = server.addr();
    let asking = std::thread::spawn(move || {
        vermeil_io::pin_current_thread(cpus[0]).expect("a cpu of ours");
        let connect = |_| TcpStream::connect(addr).expect("the server listens");
        let mut clients: Vec<_> = (0..CLIENTS).map(connect).collect();
        let request = "GET /page.bin HTTP/1.1\r\nHost: x\r\n\r\n";
        let length = length_of_answer(&mut clients[0], request, &content);
        let (requests, mut answers) = (request.repeat(REQUESTS), vec![0; length * REQUESTS]);
        let mut asked = 1;
        until("an idle core has taken connections", || {
            for _ in 0..ROUNDS {
                for client in &mut clients {
                    client.write_all(requests.as_bytes()).expect("the server takes it");
                }
                for client in &mut clients {
                    client.read_exact(&mut answers).expect("the server answers");
                    assert!(answers.chunks(length).all(|answer| answer.ends_with(&content)));
                }
            }
            asked += CLIENTS * REQUESTS * ROUNDS;
            (sum_of_cores(&control, "moved") > 0).then_some(())
        });
        // The connections stay whole after their moves.
        assert_eq!(sum_of_cores(&control, "connections"), CLIENTS as u64);
        drop(clients);
        until("no place is left behind", || (sum_of_cores(&control, "connections") == 0).then_some(()));
        asked
    });
    let asked = asking.join().expect("every request is answered");
    server.stops_clean();
    assert!(server.stderr().contains(&format!(": {asked} requests")), "{}", server.stderr());
}
