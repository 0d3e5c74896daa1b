//! Programs that write errors without end, programs whose start hangs, and more requests than the
//! spawner takes at once.

use super::{children, family, get, mode, runs, script, serve, site, spawner};
use crate::support::{ConnectionEnd, ExpectedContent, Io, on_both, on_usual, until, vermeil};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

on_both! {
    flood_of_errors_leaves_time_for_other_requests,
    flood_after_answer_leaves_time_for_other_requests,
    requests_start_when_spawner_has_room,
}

on_usual! {
    held_program_delays_no_other,
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

/// A program that floods the error output after its answer: the same core reads that output too.
fn flood_after_answer_leaves_time_for_other_requests(io: Io) {
    let site = site();
    script(&site, "cgi-bin/flood", "printf 'Content-Type: a/b\\n\\nok'; exec >&-; exec yes >&2");
    let server = serve(io, &site, &["--cores", "1"]);
    assert_eq!(server.get("/cgi-bin/flood").text(), "ok");
    server.says("lines of error output were left out");
    for _ in 0..3 {
        assert_eq!(get(&mut server.client(), "/index.html").status, 200);
    }
    // The program does not hold the drain up.
    server.stops_clean();
}

/// Takes a lease of the file, says so, and holds the lease until the end of standard input.
const LEASE: &str = "open my $file, '<', $ARGV[0] or die; $SIG{IO} = 'IGNORE';
    fcntl $file, 1024, 1 or die; $| = 1; print \"leased\\n\"; <STDIN>;";

/// Regression: the spawner waited for the exec of an NPH program, and started no other program
/// meanwhile. The owner of a program can hold its exec up by a lease.
fn held_program_delays_no_other(io: Io) {
    let site = site();
    script(&site, "cgi-bin/nph-held", "printf 'HTTP/1.1 200 OK\\r\\n\\r\\nheld'");
    script(&site, "cgi-bin/hello", "printf 'Content-Type: a/b\\n\\nhello'");
    let server = serve(io, &site, &["--cgi-nph"]);
    let holder = Command::new("perl")
        .args(["-e", LEASE])
        .arg(site.path("cgi-bin/nph-held"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut holder) = holder else { return eprintln!("SKIPPED: no perl") };
    let mut said = String::new();
    BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut said).expect("text");
    if said != "leased\n" {
        holder.wait().expect("our own");
        return eprintln!("SKIPPED: no lease can be taken here");
    }
    let mut held = server.client();
    held.ask("GET", "/cgi-bin/nph-held", &[]);
    let process = spawner(&server);
    until("the program is about to start", || (!children(process).is_empty()).then_some(()));
    assert_eq!(server.get("/cgi-bin/hello").text(), "hello");
    drop(holder.stdin.take());
    holder.wait().expect("our own");
    assert_eq!(held.read_to_end(), ConnectionEnd::Closed);
    assert_eq!(held.received(), b"HTTP/1.1 200 OK\r\n\r\nheld");
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
