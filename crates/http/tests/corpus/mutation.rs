//! The corpus damaged: bytes changed, cut out, doubled, and two entries spliced. For every result,
//! no code panics, no cut changes the events, and httparse reads accepted heads alike.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed};
use vermeil_http::ConnectionLimits;

use crate::converse::{check_against_httparse, check_moment, check_prefixes, converse};
use crate::{CorpusCase, corpus};

/// Bytes at which parsers decide something.
const INTERESTING: &[u8] = b"\r\n\t \0:;,=/?#*\"%+-0159aAfFxX[]@\x0b\x7f\x80\xff";

#[derive(Clone, Debug)]
enum Damage {
    Set(Index, u8),
    Insert(Index, u8),
    Remove(Index, usize),
    Double(Index, usize),
    Splice(Index, Index, Index),
}

impl Damage {
    fn apply(&self, input: &mut Vec<u8>, corpus: &[CorpusCase]) {
        let len = input.len();
        match self {
            Self::Set(_, _) | Self::Remove(_, _) | Self::Double(_, _) if len == 0 => {}
            Self::Set(at, byte) => input[at.index(len)] = *byte,
            Self::Insert(at, byte) => input.insert(at.index(len + 1), *byte),
            Self::Remove(at, count) => {
                let start = at.index(len);
                input.drain(start..(start + count).min(len));
            }
            Self::Double(at, count) => {
                let start = at.index(len);
                let piece = input[start..(start + count).min(len)].to_vec();
                input.splice(start..start, piece);
            }
            Self::Splice(at, other, other_at) => {
                let other = other.get(corpus).input;
                input.truncate(at.index(len + 1));
                input.extend_from_slice(&other[other_at.index(other.len() + 1)..]);
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let byte = prop_oneof![3 => prop::sample::select(INTERESTING), 1 => any::<u8>()];
    prop_oneof![
        3 => (any::<Index>(), byte.clone()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        3 => (any::<Index>(), byte).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        1 => (any::<Index>(), 1..12usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        1 => (any::<Index>(), 1..40usize).prop_map(|(at, count)| Damage::Double(at, count)),
        2 => any::<(Index, Index, Index)>().prop_map(|(at, other, other_at)| Damage::Splice(at, other, other_at)),
    ]
}

/// Defaults, and limits so small that damaged entries reach the limits.
fn limits() -> impl Strategy<Value = ConnectionLimits> {
    let small = ConnectionLimits {
        request_line_bytes: 32,
        header_count: 3,
        header_bytes: 96,
        body_bytes: 12,
        requests_per_connection: 2,
        chunk_extension_bytes: 4,
        trailer_bytes: 16,
        ..ConnectionLimits::default()
    };
    prop_oneof![2 => Just(ConnectionLimits::default()), 1 => Just(small)]
}

fn cut<'a>(input: &'a [u8], at: &[Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = at.iter().map(|index| index.index(input.len() + 1)).collect();
    places.extend([0, input.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &input[pair[0]..pair[1]]).collect()
}

fn check(input: &[u8], limits: &ConnectionLimits, cuts: &[Index]) -> Result<(), TestCaseError> {
    check_prefixes(input, limits);
    check_against_httparse(input, limits);
    check_moment(input, limits);
    let whole = converse([input], limits);
    prop_assert_eq!(converse(cut(input, cuts), limits), whole.clone(), "{}", input.escape_ascii());
    prop_assert_eq!(converse(input.chunks(1), limits), whole, "{}", input.escape_ascii());
    Ok(())
}

/// The same cases in every run: a failure is the change's fault, not the day's.
fn fixed_cases() -> Config {
    Config { cases: 2_000, rng_seed: RngSeed::Fixed(9110), failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(fixed_cases())]

    #[test]
    fn damaged_entries(
        entry in any::<Index>(),
        damages in prop::collection::vec(damage(), 1..5),
        limits in limits(),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let corpus = corpus();
        let mut input = entry.get(&corpus).input.to_vec();
        for damage in &damages {
            damage.apply(&mut input, &corpus);
        }
        check(&input, &limits, &cuts)?;
    }

    #[test]
    fn arbitrary_bytes(
        input in prop::collection::vec(prop_oneof![prop::sample::select(INTERESTING), any::<u8>()], 0..200),
        limits in limits(),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        check(&input, &limits, &cuts)?;
    }
}
