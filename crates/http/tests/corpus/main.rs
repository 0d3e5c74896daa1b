//! The corpus: every request of `heads.rs` and `framing.rs` gives its expected line. The line is
//! the same for every cut: whole, in two at every byte, and byte by byte. `mutation.rs` does the
//! same to damaged entries.

mod converse;
mod framing;
mod heads;
mod mutation;

use converse::{check_against_httparse, check_moment, check_prefixes, converse, without_positions};
use vermeil_http::ConnectionLimits;

/// One entry: bytes, and the expected result in one line (see [`converse`]).
#[derive(Clone, Debug)]
struct CorpusCase {
    name: &'static str,
    input: &'static [u8],
    expected: &'static str,
}

/// All entries.
fn corpus() -> Vec<CorpusCase> {
    let tables = [heads::VALID, heads::MALFORMED, framing::VALID, framing::MALFORMED, framing::SMUGGLING];
    let entries = tables.into_iter().flatten();
    entries.map(|&(name, input, expected)| CorpusCase { name, input, expected }).collect()
}

#[test]
fn every_entry_gives_expected_line() {
    let limits = ConnectionLimits::default();
    let wrong: Vec<String> = corpus()
        .iter()
        .filter_map(|CorpusCase { name, input, expected }| {
            let got = without_positions(&converse([*input], &limits));
            (got != *expected).then(|| format!("{name}:\n  expected {expected}\n  got      {got}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_corpus_is_large_and_its_names_are_unique() {
    let mut names: Vec<_> = corpus().iter().map(|case| case.name).collect();
    assert!(names.len() >= 200, "{}", names.len());
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn no_cut_changes_a_line() {
    let limits = ConnectionLimits::default();
    for CorpusCase { name, input, .. } in corpus() {
        let whole = converse([input], &limits);
        assert_eq!(converse(input.chunks(1), &limits), whole, "{name}, byte by byte");
        for at in 0..=input.len() {
            let (first, second) = input.split_at(at);
            assert_eq!(converse([first, second], &limits), whole, "{name}, cut at {at}");
        }
    }
}

#[test]
fn no_prefix_contradicts_the_whole() {
    let limits = ConnectionLimits::default();
    for case in corpus() {
        check_prefixes(case.input, &limits);
    }
}

#[test]
fn connection_decides_as_early_as_the_parser() {
    let limits = ConnectionLimits::default();
    for case in corpus() {
        check_moment(case.input, &limits);
    }
}

#[test]
fn httparse_agrees_on_all_that_is_accepted() {
    let limits = ConnectionLimits::default();
    for case in corpus() {
        check_against_httparse(case.input, &limits);
    }
}
