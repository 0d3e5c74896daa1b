//! The definitions as a whole: help and man page explain every option, with default, unit and
//! bound.

use super::*;
use clap::{Arg, Command};
use std::fs;

/// The visible commands, each with its name.
fn commands() -> Vec<Command> {
    let mut program = command().disable_help_subcommand(true);
    program.build();
    program.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect()
}

/// The visible commands and subcommands.
fn commands_and_theirs() -> Vec<Command> {
    let nested = |command: &Command| -> Vec<Command> {
        command.get_subcommands().filter(|nested| nested.get_name() != "help").cloned().collect()
    };
    commands().into_iter().flat_map(|command| [nested(&command), vec![command]].concat()).collect()
}

/// Hidden options are former names, which are refused with the new name.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_own = |arg: &&Arg| !matches!(arg.get_id().as_str(), "help" | "version");
    command.get_arguments().filter(is_own).filter(|arg| !arg.is_hide_set())
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|count| count.takes_values())
}

/// All words of a long help in one line, so that line breaks do not matter.
fn long_help(command: &Command) -> String {
    let help = command.clone().render_long_help().to_string();
    help.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_definitions_are_consistent() {
    command().debug_assert();
}

#[test]
fn every_option_says_its_default_its_unit_and_its_bounds() {
    for command in commands_and_theirs() {
        let whole_help = long_help(&command);
        for arg in options(&command) {
            let name = format!("{} {}", command.get_name(), arg.get_id());
            let help = arg.get_help().unwrap_or_else(|| panic!("{name} has no help")).to_string();
            let long = arg.get_long_help().map(ToString::to_string).unwrap_or_default();
            let long = long.strip_prefix(&help).unwrap_or(&long).trim_start();
            let defaults: Vec<_> =
                arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
            if arg.is_required_set() {
                assert!(defaults.is_empty(), "{name} must be said and has a default");
            } else if !takes_value(arg) || defaults.is_empty() {
                assert!(long.contains("Default: "), "{name} does not say what happens without it: {long}");
            } else {
                let printed = format!("[default: {}]", defaults.join(" "));
                assert!(whole_help.contains(&printed), "{name}: {printed} is not in the help");
            }
            match arg.get_value_names().map(|names| names[0].as_str()) {
                Some("N") => assert!(long.starts_with("From "), "{name}: {long}"),
                Some("SIZE") => {
                    assert!(
                        help.ends_with("in bytes") && long.starts_with("From "),
                        "{name}: {help}: {long}"
                    );
                }
                Some("TIME") => {
                    assert!(help.ends_with("in seconds or with a unit: ms, s, m, h"), "{name}: {help}");
                    assert!(long.starts_with("From 1ms to 24h"), "{name}: {long}");
                }
                Some(value_name) => assert_ne!(value_name, arg.get_id().as_str(), "{name} has no value name"),
                None => assert!(!takes_value(arg), "{name} has no value name"),
            }
        }
    }
}

#[test]
fn every_option_and_every_exit_code_is_on_its_man_page() {
    let pages = man::pages();
    for command in commands_and_theirs() {
        let name = command.get_display_name().expect("a built command has one");
        let file_name = format!("{name}.1");
        let page = pages.iter().find(|page| page.file_name == file_name).expect("each command has a page");
        let text = page.text.replace("\\-", "-");
        for arg in options(&command) {
            let name = match arg.get_long() {
                Some(long) => format!("--{long}"),
                None => arg.get_value_names().unwrap()[0].to_string(),
            };
            assert!(text.contains(&name), "{name} is not on {file_name}");
            for value in arg.get_default_values().iter().filter(|_| takes_value(arg)) {
                let value = format!("[default: {}]", value.to_string_lossy());
                assert!(text.contains(&value), "{name} {value} is not on {file_name}");
            }
        }
    }
    for page in pages {
        for exit in Exit::ALL {
            assert!(page.text.contains(exit.meaning()), "exit code {exit:?} is not on {}", page.file_name);
        }
    }
}

#[test]
fn every_exit_code_and_every_example_is_in_the_help() {
    let helps = [(command(), EXAMPLES)];
    let examples = [
        serve::EXAMPLES,
        check::EXAMPLES,
        status::EXAMPLES,
        reload::EXAMPLES,
        load::EXAMPLES,
        topo::EXAMPLES,
        steer::EXAMPLES,
        sim::EXAMPLES,
        profile::EXAMPLES,
        scale::EXAMPLES,
    ];
    for (command, examples) in helps.into_iter().chain(commands().into_iter().zip(examples)) {
        let help = long_help(&command);
        for exit in Exit::ALL {
            assert!(help.contains(&format!("{} {}", exit as u8, exit.meaning())), "{exit:?}: {help}");
        }
        assert!(examples.iter().all(|example| help.contains(example)), "{help}");
    }
}

/// Words are split by the rules of a shell, because the examples use quotes and pipes.
#[test]
fn examples_parse() {
    for example in EXAMPLES
        .iter()
        .chain(serve::EXAMPLES)
        .chain(check::EXAMPLES)
        .chain(status::EXAMPLES)
        .chain(reload::EXAMPLES)
        .chain(load::EXAMPLES)
        .chain(topo::EXAMPLES)
        .chain(steer::EXAMPLES)
        .chain(sim::EXAMPLES)
        .chain(profile::EXAMPLES)
        .chain(scale::EXAMPLES)
    {
        let words: Vec<_> = example.rsplit("| ").next().unwrap().split('\'').enumerate().fold(
            Vec::new(),
            |mut words, (index, part)| {
                match index % 2 {
                    0 => words.extend(part.split_whitespace()),
                    _ => words.push(part),
                }
                words
            },
        );
        if let Err(error) = command().try_get_matches_from(words) {
            assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelp, "{example}: {error}");
        }
    }
}

#[test]
fn the_generated_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut pages = man_pages(folder.path()).unwrap();
    pages.sort();
    assert_eq!(
        pages,
        [
            "vermeil-check.1",
            "vermeil-load-agent.1",
            "vermeil-load-backend.1",
            "vermeil-load-files.1",
            "vermeil-load-report.1",
            "vermeil-load.1",
            "vermeil-profile-compare.1",
            "vermeil-profile-import.1",
            "vermeil-profile-record.1",
            "vermeil-profile-report.1",
            "vermeil-profile.1",
            "vermeil-reload.1",
            "vermeil-scale.1",
            "vermeil-serve.1",
            "vermeil-sim-calibrate.1",
            "vermeil-sim-machines.1",
            "vermeil-sim-parity.1",
            "vermeil-sim-reproduce.1",
            "vermeil-sim-run.1",
            "vermeil-sim-show.1",
            "vermeil-sim-swarm.1",
            "vermeil-sim-workloads.1",
            "vermeil-sim.1",
            "vermeil-status.1",
            "vermeil-steer.1",
            "vermeil-topo.1",
            "vermeil.1"
        ]
        .map(|name| folder.path().join(name))
    );
    let shells = completions(folder.path()).unwrap();
    assert!(shells.len() >= 4);
    for shell in shells {
        let text = fs::read_to_string(&shell).unwrap();
        for word in ["serve", "topo", "keep-alive-timeout", "synthetic"] {
            assert!(text.contains(word), "{word} is not in {}", shell.display());
        }
    }
}
