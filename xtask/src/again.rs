//! The workspace's tests, with a second try for a few failures.
//!
//! Some tests watch real processes on a shared machine, and such a test may fail for an external
//! reason. The test then runs once more, alone. A test that passes at the second try is listed as
//! unsteady, for repair. More than [`MOST_AGAIN`] failed tests, a crash or a failed build get no
//! second try. Tested below.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::error::{Error, Result};
use crate::steps::{self, Tally};

/// The maximum number of failed tests that are tried again, because more failures are no
/// coincidence.
const MOST_AGAIN: usize = 3;

/// cargo's text before the arguments of a failed test program.
const TARGET: &str = "error: test failed, to rerun pass `";

/// Failed tests and the kinds of their programs, as cargo's arguments: `--lib`, `--test NAME`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Failed {
    tests: Vec<String>,
    targets: Vec<String>,
}

impl Failed {
    fn add_line(&mut self, line: &str) {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.tests.push(name.to_owned());
        }
        if let Some(target) = line.strip_prefix(TARGET).and_then(|rest| rest.strip_suffix('`')) {
            // Without the package, because a package that is built alone has other features, and
            // much would be built again.
            let kind = target.split_once(' ').and_then(|(_p, rest)| rest.split_once(' '));
            self.targets.extend(kind.map(|(_package, kind)| kind.to_owned()));
        }
    }

    fn may_run_again(&self) -> bool {
        (1..=MOST_AGAIN).contains(&self.tests.len()) && (1..=self.tests.len()).contains(&self.targets.len())
    }
}

/// Runs the tests of `command`, which makes `cargo test` with further arguments; shows and counts
/// the tests.
pub(crate) fn run_tests(
    command: impl Fn(&[&str]) -> Command,
    arguments: &[&str],
    tally: &mut Tally,
    terminal: &mut (impl Write + Send),
) -> Result<()> {
    let mut failed = Failed::default();
    let first = first_try(&mut command(arguments), tally, &mut failed, terminal);
    if first.is_ok() || !failed.may_run_again() {
        return first;
    }
    let names = failed.tests.join(", ");
    println!("\n── again, alone: {names}");
    let mut second = Tally::default();
    for target in &failed.targets {
        let mut alone = vec!["--workspace"];
        alone.extend(target.split(' '));
        alone.extend(["--", "--exact", "--test-threads=1"]);
        alone.extend(failed.tests.iter().map(String::as_str));
        let before = second.passed;
        steps::run_tests(&mut command(&alone), &mut second, terminal)?;
        if second.passed == before {
            return first;
        }
    }
    if second.passed < failed.tests.len() {
        return first;
    }
    println!("unsteady, passed at the second try: {names}");
    tally.passed += failed.tests.len();
    tally.failed -= failed.tests.len();
    Ok(())
}

/// Runs all tests and collects the failures.
fn first_try(
    command: &mut Command,
    tally: &mut Tally,
    failed: &mut Failed,
    terminal: &mut (impl Write + Send),
) -> Result<()> {
    let program = Path::new(command.get_program()).to_owned();
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::path("run", &program))?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let mut named = Failed::default();
    let terminal = Mutex::new(terminal);
    // A closed terminal does not affect the tests.
    let show = |line: &str| drop(terminal.lock().map(|mut terminal| writeln!(terminal, "{line}")));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            each_line(errors, |line| {
                named.add_line(line);
                show(line);
            })
        });
        each_line(output, |line| {
            failed.add_line(line);
            tally.add_line(line);
            show(line);
        });
    });
    failed.targets.extend(named.targets);
    let status = child.wait().map_err(Error::path("wait for", &program))?;
    if status.success() { Ok(()) } else { Err(steps::failure(command, status)) }
}

/// Passes each line of `stream` on, until the end.
fn each_line(stream: Option<impl Read>, mut line: impl FnMut(&str)) {
    let Some(stream) = stream else { return };
    for bytes in BufReader::new(stream).split(b'\n').map_while(std::result::Result::ok) {
        line(&String::from_utf8_lossy(&bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `cargo test` that fails at first and then, for a single test, runs `alone`.
    fn cargo(alone: &'static str) -> impl Fn(&[&str]) -> Command {
        move |arguments| {
            let first = "echo 'test a::b ... FAILED'; echo 'test c ... ok'; \
                 echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; \
                 echo 'error: test failed, to rerun pass `-p vermeil-io --lib`' >&2; exit 101";
            let mut command = Command::new("sh");
            command.args(["-c", if arguments.contains(&"a::b") { alone } else { first }]);
            command
        }
    }

    fn run(alone: &'static str) -> (bool, Tally) {
        let mut tally = Tally::default();
        let result = run_tests(cargo(alone), &["--workspace"], &mut tally, &mut Vec::new());
        (result.is_ok(), tally)
    }

    #[test]
    fn what_passes_alone_has_passed() {
        let passes = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";
        assert_eq!(run(passes), (true, Tally { passed: 2, failed: 0 }));
    }

    #[test]
    fn what_fails_twice_or_does_not_run_has_failed() {
        let fails = "echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101";
        assert_eq!(run(fails), (false, Tally { passed: 1, failed: 1 }));
        let absent = "echo 'test result: ok. 0 passed; 0 failed; 0 ignored'";
        assert_eq!(run(absent), (false, Tally { passed: 1, failed: 1 }));
    }

    #[test]
    fn many_failures_and_crashes_are_no_coincidence() {
        let of = |tests: usize, targets: usize| Failed {
            tests: vec!["a".to_owned(); tests],
            targets: vec!["--lib".to_owned(); targets],
        };
        assert!(of(1, 1).may_run_again() && of(3, 2).may_run_again());
        assert!(!of(4, 1).may_run_again() && !of(0, 1).may_run_again() && !of(1, 2).may_run_again());
    }
}
