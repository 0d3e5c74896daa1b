//! Checks of answers: the page's end mark, or every byte of a file.
//!
//! Also keeps validators for conditional requests. Tested here and in `tests/`.

use crate::fault::Fault;
use crate::files::{ContentCheck, NO_BACK_END};
use crate::wire::{AnswerSink, FinalHead, WholeAnswer};

/// Maximum length of a checked page end, in bytes.
pub(super) const TAIL: usize = 64;

/// The expected answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expect<'a> {
    /// A good status.
    Status,
    /// A good status, and these last bytes.
    Ends(&'a str),
    /// The file at this path, of this size.
    File(&'a str, u64),
}

/// The check of one answer.
pub(super) struct Looker<'a> {
    expect: Expect<'a>,
    /// The fields of a conditional request, if they are wanted and known.
    validators: Option<Vec<u8>>,
    status: u16,
    content: Option<ContentCheck>,
    tail: [u8; TAIL],
    tail_bytes: usize,
}

impl<'a> Looker<'a> {
    pub(super) fn new(expect: Expect<'a>) -> Self {
        let content = match expect {
            Expect::File(path, _) => Some(ContentCheck::of(path)),
            Expect::Status | Expect::Ends(_) => None,
        };
        Self { expect, validators: None, status: 0, content, tail: [0; TAIL], tail_bytes: 0 }
    }

    /// Also keeps validators.
    pub(super) fn wanting_validators(mut self) -> Self {
        self.validators = Some(Vec::new());
        self
    }

    /// The fields that make a request conditional, if the answer had validators.
    pub(super) fn validators(&self) -> Option<&[u8]> {
        self.validators.as_deref().filter(|fields| !fields.is_empty())
    }

    /// Whether the answer is as expected.
    pub(super) fn verdict(&self, answer: WholeAnswer) -> Result<(), Fault> {
        match (answer.status, self.expect) {
            (304, _) => Ok(()),
            (200..400, Expect::Status) => Ok(()),
            (200, Expect::Ends(mark)) => {
                let tail = &self.tail[..self.tail_bytes];
                let mut parts = tail.windows(NO_BACK_END.len());
                match tail.ends_with(mark.as_bytes()) {
                    false if parts.any(|part| part == NO_BACK_END.as_bytes()) => Err(Fault::NoBackEnd),
                    is_right => right(is_right),
                }
            }
            (200, Expect::File(_, bytes)) => {
                right(self.content.as_ref().is_some_and(|content| content.is_whole(bytes)))
            }
            _ => Err(Fault::Status),
        }
    }

    fn keep_tail(&mut self, bytes: &[u8]) {
        let new = &bytes[bytes.len().saturating_sub(TAIL)..];
        let kept = self.tail_bytes.min(TAIL - new.len());
        self.tail.copy_within(self.tail_bytes - kept..self.tail_bytes, 0);
        self.tail[kept..kept + new.len()].copy_from_slice(new);
        self.tail_bytes = kept + new.len();
    }
}

fn right(is_right: bool) -> Result<(), Fault> {
    if is_right { Ok(()) } else { Err(Fault::WrongBytes) }
}

impl AnswerSink for Looker<'_> {
    fn head(&mut self, head: &FinalHead<'_>) {
        self.status = head.status;
        let Some(fields) = self.validators.as_mut().filter(|_| head.status == 200) else { return };
        fields.clear();
        for (validator, condition) in [("etag", "If-None-Match"), ("last-modified", "If-Modified-Since")] {
            if let Some(value) = head.field(validator) {
                fields.extend_from_slice(condition.as_bytes());
                fields.extend_from_slice(b": ");
                fields.extend_from_slice(value);
                fields.extend_from_slice(b"\r\n");
            }
        }
    }

    fn content(&mut self, bytes: &[u8]) {
        if self.status != 200 {
            return;
        }
        if let Some(content) = &mut self.content {
            content.check(bytes);
        } else if matches!(self.expect, Expect::Ends(_)) {
            self.keep_tail(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Reuse;

    fn ends_with(pieces: &[&[u8]], mark: &str) -> bool {
        let mut looker = Looker::new(Expect::Ends(mark));
        looker.status = 200;
        pieces.iter().for_each(|piece| looker.content(piece));
        looker.verdict(WholeAnswer { status: 200, content_bytes: 0, reuse: Reuse::Keep }).is_ok()
    }

    #[test]
    fn the_end_is_found_however_it_is_cut() {
        let page = [b"x".repeat(200), b"<!--the end-->".to_vec()].concat();
        for cut in 0..page.len() {
            assert!(ends_with(&[&page[..cut], &page[cut..]], "<!--the end-->"), "{cut}");
        }
        let single: Vec<_> = page.chunks(1).collect();
        assert!(ends_with(&single, "<!--the end-->"));
        assert!(!ends_with(&[&page[..page.len() - 1]], "<!--the end-->"));
        assert!(!ends_with(&[], "x") && ends_with(&[], ""));
    }

    /// Regression: the page said why it was wrong, and the report said "wrong bytes".
    #[test]
    fn page_without_back_end_is_recognised() {
        let mut looker = Looker::new(Expect::Ends("<!--the end-->"));
        looker.status = 200;
        let page = b"<h1>home</h1>\n</body><!--vermeil-load home without its back end--></html>\n";
        looker.content(page);
        let answer = WholeAnswer { status: 200, content_bytes: 0, reuse: Reuse::Keep };
        assert_eq!(looker.verdict(answer), Err(Fault::NoBackEnd));
    }

    #[test]
    fn statuses_are_judged() {
        let verdict = |expect, status| {
            Looker::new(expect).verdict(WholeAnswer { status, content_bytes: 0, reuse: Reuse::Keep })
        };
        assert_eq!(verdict(Expect::Status, 302), Ok(()));
        assert_eq!(verdict(Expect::File("/x", 1), 304), Ok(()));
        assert_eq!(verdict(Expect::File("/x", 1), 200), Err(Fault::WrongBytes));
        assert_eq!(verdict(Expect::Ends("x"), 206), Err(Fault::Status));
        assert_eq!(verdict(Expect::Status, 404), Err(Fault::Status));
    }
}
