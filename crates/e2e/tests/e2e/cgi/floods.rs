//! Programs that write errors without end, and more requests than the spawner takes at once.

use super::{family, get, mode, runs, script, serve, site, spawner};
use crate::support::{ExpectedContent, Io, on_both, until, vermeil};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;

on_both! {
    flood_of_errors_leaves_time_for_other_requests,
    requests_start_when_spawner_has_room,
}

/// Regression: the core read the errors without a pause, so the core answered no other request and
/// did not notice the client's end.
fn flood_of_errors_leaves_time_for_other_requests(io: Io) {
    let site = site();
    let numbers = site.outside("numbers");
    fs::write(&numbers, "").expect("a file");
    mode(&numbers, 0o666);
    let flood = "yes >&2 & echo $!; yes >&2 & echo $!; echo $$";
    script(&site, "cgi-bin/flood", &format!("{{ {flood}; }} >> {}\nwait", numbers.display()));
    let server = serve(io, &site, &["--cores", "1"]);
    let mut client = server.client();
    client.ask("GET", "/cgi-bin/flood", &[]);
    let family = family(&numbers);
    server.says("lines of error output were left out");
    for _ in 0..3 {
        assert_eq!(get(&mut server.client(), "/index.html").status, 200);
    }
    drop(client);
    until("the program has ended", || (!family.iter().any(|number| runs(*number))).then_some(()));
    server.stops_clean();
}

/// Regression: requests that found the spawner's socket full were sent only when a program ended.
fn requests_start_when_spawner_has_room(io: Io) {
    const REQUESTS: usize = 24;
    let site = site();
    let folder = site.outside("signals");
    fs::create_dir(&folder).expect("a folder");
    mode(&folder, 0o777);
    let began = folder.display();
    // Each program waits until all have begun.
    script(
        &site,
        "cgi-bin/together",
        &format!(
            "mktemp {began}/XXXXXX >/dev/null\nwhile [ $(ls {began} | wc -l) -lt {REQUESTS} ]; do sleep 0.05; done\n\
             printf 'Content-Type: a/b\\n\\ntogether'"
        ),
    );
    let control = site.outside("control");
    let control = control.to_str().expect("UTF-8");
    let server = serve(io, &site, &["--cores", "1", "--control", control]);
    let process = Pid::from_raw(spawner(&server).cast_signed()).expect("a number above zero");
    kill_process(process, Signal::STOP).expect("ours");
    let long = format!("X-Long: {}", "x".repeat(20_000));
    let mut clients: Vec<_> = (0..REQUESTS).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.ask("GET", "/cgi-bin/together", &[&long]));
    let all = format!("cgi: {REQUESTS} of at most ");
    until("the core has asked for all programs", || {
        let output = vermeil(&["status", "--control", control]).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).contains(&all).then_some(())
    });
    kill_process(process, Signal::CONT).expect("ours");
    for client in &mut clients {
        assert_eq!(client.read(ExpectedContent::Follows).text(), "together");
    }
    server.stops_clean();
}
