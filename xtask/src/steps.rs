//! Runs steps in sequence: announces, times and records each, and prints a table at the end.
//!
//! A failed step does not stop the next step, because the user of a check wants all findings. Each
//! step prints its findings. The table at the end names the failed steps again, and repeats the
//! messages of the failed tests.

use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Most lines that are repeated of the messages of all failed tests.
const REPEATED_LINES_MAX: usize = 200;

/// The number of passed and failed tests, from the reports of cargo's harness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TestTally {
    /// Tests that passed.
    pub(crate) passed: usize,
    /// Tests that failed.
    pub(crate) failed: usize,
    /// The harness's messages of failed tests, at most [`REPEATED_LINES_MAX`] lines.
    messages: Vec<String>,
    /// Whether the next line belongs to such a message.
    is_in_message: bool,
}

impl TestTally {
    /// Adds the numbers of `line` when it is a result line such as `test result: ok. 3 passed; 0
    /// failed; 1 ignored; …`, and keeps `line` when it belongs to the message of a failed test.
    ///
    /// The messages stand between `---- NAME stdout ----` and the list of names after `failures:`.
    pub(crate) fn add_line(&mut self, line: &str) {
        let is_heading = line.starts_with("---- ") && line.ends_with(" stdout ----");
        self.is_in_message = is_heading || (self.is_in_message && line != "failures:");
        if self.is_in_message && !line.is_empty() && self.messages.len() < REPEATED_LINES_MAX {
            self.messages.push(line.to_owned());
        }
        let Some(rest) = line.trim_start().strip_prefix("test result: ") else { return };
        let number = |word: &str| {
            let before = rest.split(word).next()?;
            before.split([' ', ';', '.']).rfind(|part| !part.is_empty())?.parse::<usize>().ok()
        };
        self.passed += number(" passed;").unwrap_or(0);
        self.failed += number(" failed;").unwrap_or(0);
    }
}

/// The steps of a command so far.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<CheckStep>,
    tally: TestTally,
    /// The name of the single step to run, if not all.
    only: Option<String>,
}

#[derive(Debug)]
struct CheckStep {
    name: &'static str,
    time: Duration,
    passed: bool,
}

impl Steps {
    /// Steps of which only the one named `name` runs; without a name all run.
    pub(crate) fn only(name: Option<String>) -> Self {
        Self { only: name, ..Self::default() }
    }

    /// Runs a step that only passes or fails.
    pub(crate) fn run(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) {
        self.run_tests(name, |_| work());
    }

    /// Runs a step of tests, and counts the tests. A failed step without a failed test counts as
    /// one.
    pub(crate) fn run_tests(&mut self, name: &'static str, work: impl FnOnce(&mut TestTally) -> Result<()>) {
        if self.only.as_deref().is_some_and(|only| only != name) {
            return;
        }
        println!("\n── {name}");
        let start = Instant::now();
        let mut tally = TestTally::default();
        let result = work(&mut tally);
        let time = start.elapsed();
        if let Err(error) = &result {
            eprintln!("error: {error}");
            tally.failed = tally.failed.max(1);
        }
        self.tally.passed += tally.passed;
        self.tally.failed += tally.failed;
        self.tally.messages.append(&mut tally.messages);
        self.tally.messages.truncate(REPEATED_LINES_MAX);
        self.done.push(CheckStep { name, time, passed: result.is_ok() });
    }

    /// The tests of all steps.
    pub(crate) fn tally(&self) -> &TestTally {
        &self.tally
    }

    /// The table of steps with their times, and the messages of failed tests.
    pub(crate) fn table(&self) -> String {
        let width = self.done.iter().map(|step| step.name.len()).max().unwrap_or(0);
        let line = |name: &str, time: Duration, word: &str| {
            format!("{name:<width$}  {:>7.1} s  {word}\n", time.as_secs_f64())
        };
        let steps = self
            .done
            .iter()
            .map(|step| line(step.name, step.time, if step.passed { "ok" } else { "FAILED" }));
        let all: Duration = self.done.iter().map(|step| step.time).sum();
        let messages = self.tally.messages.iter().map(|line| format!("{line}\n"));
        let table = steps.chain([line("total", all, "")]).map(|line| line.trim_end().to_owned() + "\n");
        table.chain(messages).collect()
    }

    /// # Errors
    /// Names every failed step, or the requested step if no step has that name.
    pub(crate) fn result(&self) -> Result<()> {
        if let (Some(only), []) = (&self.only, &self.done[..]) {
            return Err(Error::form(only, "no step has this name; `cargo xtask check` prints the names"));
        }
        let failed: Vec<String> =
            self.done.iter().filter(|step| !step.passed).map(|step| step.name.into()).collect();
        if failed.is_empty() { Ok(()) } else { Err(Error::Steps(failed)) }
    }
}

/// Runs a command with this process's output.
pub(crate) fn run_command(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(Error::path("run", Path::new(command.get_program())))?;
    if status.success() { Ok(()) } else { Err(failure(command, status)) }
}

/// Runs a command of tests: shows the output on `terminal` and counts the result lines.
pub(crate) fn run_tests(
    command: &mut Command,
    tally: &mut TestTally,
    terminal: &mut impl Write,
) -> Result<()> {
    command.stdout(Stdio::piped());
    let mut child = command.spawn().map_err(Error::path("run", Path::new(command.get_program())))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line.map_err(Error::path("read", Path::new("the tests' output")))?;
            let line = String::from_utf8_lossy(&line);
            tally.add_line(&line);
            writeln!(terminal, "{line}").map_err(Error::path("write to", Path::new("the terminal")))?;
        }
    }
    let status = child.wait().map_err(Error::path("wait for", Path::new(command.get_program())))?;
    if status.success() { Ok(()) } else { Err(failure(command, status)) }
}

/// The error of a command that ended with `status`.
pub(crate) fn failure(command: &Command, status: std::process::ExitStatus) -> Error {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    Error::Command { command: words.join(" "), status: status.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_summed_and_others_ignored() {
        let mut tally = TestTally::default();
        tally.add_line("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out");
        tally.add_line("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        tally.add_line("test passes ... ok");
        tally.add_line("running 4 tests");
        assert_eq!(tally, TestTally { passed: 15, failed: 2, ..TestTally::default() });
    }

    #[test]
    fn table_repeats_messages_of_failed_tests() {
        let mut steps = Steps::default();
        steps.run_tests("two", |tally| {
            let output = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nleft: 1\n\nright: 2\n\n\n\
                          failures:\n    a\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored";
            output.lines().for_each(|line| tally.add_line(line));
            Ok(())
        });
        let table = steps.table();
        let (_, messages) = table.split_once("total").expect("a table");
        let (_, messages) = messages.split_once('\n').expect("lines");
        assert_eq!(messages, "---- a stdout ----\nleft: 1\nright: 2\n");
    }

    #[test]
    fn a_failed_step_lets_the_next_one_run_and_is_named() {
        let mut steps = Steps::default();
        steps.run("one", || Err(Error::form("it", "is wrong")));
        steps.run_tests("two", |tally| {
            tally.passed = 3;
            Ok(())
        });
        assert_eq!((steps.tally().passed, steps.tally().failed), (3, 1));
        assert_eq!(steps.result().expect_err("one failed").to_string(), "failed: one");
        let table = steps.table();
        assert!(table.contains("FAILED") && table.contains("ok") && table.contains("total"), "{table}");
    }

    #[test]
    fn tests_are_counted_from_the_output_of_a_command() {
        let mut tally = TestTally::default();
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101"]);
        let mut shown = Vec::new();
        assert!(run_tests(&mut command, &mut tally, &mut shown).is_err());
        assert_eq!((tally.passed, tally.failed), (1, 1));
        assert!(shown.starts_with(b"test result: FAILED"));
    }
}
