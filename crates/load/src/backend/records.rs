//! The answers of the back end: records derived from command and arguments.
//!
//! The numbers of records are those of the support site: 30 languages, 10 systems, 20 downloads in
//! a list. Tested here.

use std::fmt::Write as _;

use crate::random::Random;

/// Words of the records.
const WORDS: [&str; 16] = [
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven", "iris", "juniper", "karst",
    "lagoon", "meadow", "north", "ochre", "prairie",
];

/// The body of the answer to a path with a query.
pub(super) fn answer(target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let argument = |name: &str| {
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|pair| pair.1)
    };
    let number = |name: &str| argument(name).and_then(|value| value.parse::<u64>().ok());
    let answer = match path {
        "/languages" => Some(records("language", 0, 30)),
        "/systems" => Some(records("system", 0, 10)),
        "/find" => argument("text").map(|text| records("product", hash(text), 20)),
        "/products" => number("category").map(|category| records("product", category, 30)),
        "/product" => number("id").map(|id| records("detail", id, 12)),
        "/files" => number("product")
            .zip(number("system"))
            .map(|(product, system)| records("file", product << 8 | system & 0xFF, 20)),
        "/file" => number("id").map(|id| records("part", id, 6)),
        _ => return "1 unknown command\n".to_owned(),
    };
    answer.map_or_else(|| "2 bad arguments\n".to_owned(), |records| format!("0 ok\n{records}"))
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// `count` records of a kind: a number, a name, a date, a size, and a sentence.
fn records(kind: &str, seed: u64, count: u64) -> String {
    let mut random = Random::new(hash(kind), seed);
    let mut text = String::new();
    for index in 0..count {
        let mut word = || WORDS[random.below(WORDS.len() as u64) as usize];
        let (name, sentence) = (word(), [word(), word(), word(), word()].join(" "));
        let (month, day, size) = (1 + random.below(12), 1 + random.below(28), 1000 + random.below(9_000_000));
        let _infallible = writeln!(
            text,
            "{}|{kind} {name} {index}|2005-{month:02}-{day:02}|{size}|{sentence}",
            seed.wrapping_mul(31).wrapping_add(index) % 10_000
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(target: &str) -> Vec<String> {
        answer(target).lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_command_has_its_records() {
        let expected = [
            ("/languages", 30),
            ("/systems?x", 10),
            ("/find?text=a+b", 20),
            ("/products?category=3", 30),
            ("/product?id=7", 12),
            ("/files?product=7&system=2", 20),
            ("/file?id=9", 6),
        ];
        for (target, count) in expected {
            let lines = lines(target);
            assert_eq!((lines[0].as_str(), lines.len()), ("0 ok", count + 1), "{target}");
            assert!(lines[1..].iter().all(|line| line.split('|').count() == 5));
        }
    }

    #[test]
    fn answers_follow_from_the_question() {
        assert_eq!(answer("/product?id=7"), answer("/product?id=7"));
        assert_ne!(answer("/product?id=7"), answer("/product?id=8"));
        assert_eq!(answer("/nothing"), "1 unknown command\n");
        assert_eq!(answer("/product?id=x"), "2 bad arguments\n");
        assert_eq!(answer("/files?product=1"), "2 bad arguments\n");
    }
}
