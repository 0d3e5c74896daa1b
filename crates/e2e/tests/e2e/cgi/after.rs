//! Error output that a program writes beside or after its answer.

use super::{get, mode, script, serve, site};
use crate::support::{ExpectedContent, Io, TestSite, on_both, until};
use rustix::process::Signal;
use std::{fs, path::PathBuf};

on_both! {
    program_writes_errors_after_its_answer,
    reason_beside_refused_head_is_logged,
}

/// A folder in which programs may create files.
fn work_folder(site: &TestSite) -> PathBuf {
    let folder = site.outside("work");
    fs::create_dir(&folder).expect("a folder");
    mode(&folder, 0o777);
    folder
}

/// Regression: the first line after the answer ended the program (SIGPIPE), and was lost.
fn program_writes_errors_after_its_answer(io: Io) {
    let site = site();
    let folder = work_folder(&site);
    let work = folder.display();
    script(
        &site,
        "cgi-bin/x",
        &format!(
            "printf 'Content-Type: a/b\\n\\nok'; exec >&-
             for step in 1 2; do
                 while [ ! -e {work}/go$step ]; do sleep 0.01; done
                 echo step $step >&2
                 touch {work}/done$step
             done
             printf 'last words' >&2"
        ),
    );
    let server = serve(io, &site, &[]);
    assert_eq!(server.get("/cgi-bin/x").text(), "ok");
    for step in 1..=2 {
        fs::write(folder.join(format!("go{step}")), "").expect("a file");
        let done = folder.join(format!("done{step}"));
        until("the program goes on", || done.exists().then_some(()));
        server.says(&format!(": step {step}\n"));
    }
    server.says(": last words\n");
    server.stops_clean();
}

/// Regression: the server read the output first, refused the head, and never read the reason.
fn reason_beside_refused_head_is_logged(io: Io) {
    let site = site();
    let folder = work_folder(&site);
    let work = folder.display();
    script(
        &site,
        "cgi-bin/x",
        &format!(
            "touch {work}/began
             while [ ! -e {work}/go ]; do sleep 0.01; done
             echo the reason >&2; echo hello world; echo
             touch {work}/done"
        ),
    );
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    client.ask("GET", "/cgi-bin/x", &[]);
    until("the program runs", || folder.join("began").exists().then_some(()));
    // Both pipes have data when the server continues.
    server.signal(Signal::STOP);
    fs::write(folder.join("go"), "").expect("a file");
    until("the program has written", || folder.join("done").exists().then_some(()));
    server.signal(Signal::CONT);
    assert_eq!(client.read(ExpectedContent::Follows).status, 502);
    server.says(": the reason\n");
    assert_eq!(get(&mut client, "/index.html").status, 200, "the connection goes on");
    server.stops_clean();
}
