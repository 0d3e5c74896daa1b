//! The spawner with real processes: each case in a process of its own.
//!
//! A spawner must be forked from a process with one thread, but cargo's harness has several
//! threads. Cases also kill processes and count descriptors. So this program is its own harness:
//! without arguments the program runs itself once for each case, and reports like cargo's harness.
//! `cargo test -p vermeil-spawn --test processes WORD` runs the cases with the word in their names.

mod beside;
mod cases;
mod ends;
mod fixture;
mod programs;
mod revisions;
mod rights;

use std::{
    env,
    io::Read as _,
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long one case may take. The limit is far above the usual time, because test machines are
/// busy.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [option, name, rest @ ..] if option == "--case" => {
            let (_, case) = cases::ALL.iter().find(|(known, _)| known == name).expect("a case of this name");
            case(rest);
            ExitCode::SUCCESS
        }
        [option, ..] if option == "--list" => {
            cases::ALL.iter().for_each(|(name, _)| println!("{name}: test"));
            ExitCode::SUCCESS
        }
        words => run_all(words.iter().find(|word| !word.starts_with('-'))),
    }
}

fn run_all(word: Option<&String>) -> ExitCode {
    let chosen = |name: &str| !cases::is_part(name) && word.is_none_or(|word| name.contains(word.as_str()));
    let chosen: Vec<_> = cases::ALL.iter().map(|(name, _)| *name).filter(|name| chosen(name)).collect();
    println!("\nrunning {} tests", chosen.len());
    let start = Instant::now();
    let failed = chosen.iter().filter(|name| !passes(name)).count();
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let passed = chosen.len() - failed;
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out; finished in \
         {:.2}s\n",
        start.elapsed().as_secs_f64()
    );
    ExitCode::from(u8::from(failed > 0))
}

fn passes(name: &str) -> bool {
    let mut child = Command::new(env::current_exe().expect("this program"))
        .args(["--case", name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program again");
    let mut said =
        [Box::new(child.stdout.take().expect("piped")) as Box<dyn std::io::Read + Send>].into_iter();
    let mut complained = child.stderr.take().expect("piped");
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = complained.read_to_end(&mut text);
        if let Some(mut said) = said.next() {
            let _ = said.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().expect("our own child") {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => thread::park_timeout(Duration::from_millis(1)),
        }
    };
    let passed = status.is_some_and(|status| status.success());
    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
    if !passed {
        let text = reader.join().unwrap_or_default();
        println!("{status:?}\n{text}");
    }
    passed
}
