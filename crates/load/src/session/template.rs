//! Paths with random numbers, for example `/product?id={0..999}`.
//!
//! Tested here.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// A path with parts that are drawn for each request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTemplate {
    pieces: Vec<TemplatePiece>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum TemplatePiece {
    Text(String),
    /// A number from the first to the second, both included.
    Number(u64, u64),
}

impl PathTemplate {
    /// The path, if no part is random.
    pub fn constant(&self) -> Option<&str> {
        match &self.pieces[..] {
            [TemplatePiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Draws a path.
    pub fn draw(&self, random: &mut Random) -> String {
        let mut path = String::new();
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Text(text) => path.push_str(text),
                TemplatePiece::Number(low, high) => {
                    let number = low + random.below((high - low).saturating_add(1));
                    let _infallible = write!(path, "{number}");
                }
            }
        }
        path
    }
}

impl FromStr for PathTemplate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{text:?} is no path: {why}; write /page or /page?id={{0..999}}");
        if !text.starts_with('/') {
            return Err(wrong("it does not begin with /"));
        }
        let is_sent = |byte: u8| byte > b' ' && byte < 0x7F;
        if !text.bytes().all(is_sent) {
            return Err(wrong("it has spaces or characters that must be percent-encoded"));
        }
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (range, behind) = after.split_once('}').ok_or_else(|| wrong("a brace is not closed"))?;
            let ends =
                range.split_once("..").and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
            let (low, high) = ends
                .filter(|(low, high): &(u64, u64)| low <= high)
                .ok_or_else(|| wrong("between braces stands no range"))?;
            if !before.is_empty() {
                pieces.push(TemplatePiece::Text(before.to_owned()));
            }
            pieces.push(TemplatePiece::Number(low, high));
            rest = behind;
        }
        if !rest.is_empty() {
            pieces.push(TemplatePiece::Text(rest.to_owned()));
        }
        Ok(Self { pieces })
    }
}

impl fmt::Display for PathTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Text(text) => f.write_str(text)?,
                TemplatePiece::Number(low, high) => write!(f, "{{{low}..{high}}}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_drawn_within_their_ends() {
        let template: PathTemplate = "/a{3..5}/b?c={0..0}".parse().unwrap();
        let mut random = Random::new(1, 1);
        let mut seen: Vec<_> = (0..100).map(|_| template.draw(&mut random)).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, ["/a3/b?c=0", "/a4/b?c=0", "/a5/b?c=0"]);
        assert_eq!(template.to_string(), "/a{3..5}/b?c={0..0}");
        assert_eq!("/plain".parse::<PathTemplate>().unwrap().constant(), Some("/plain"));
    }

    #[test]
    fn wrong_path_is_refused_with_reason() {
        for (text, why) in [("x", "begin"), ("/a b", "spaces"), ("/{1..", "closed"), ("/{5..1}", "range")] {
            let said = text.parse::<PathTemplate>().unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
