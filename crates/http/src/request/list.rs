//! Fields that are lists: the lines of one are one list (RFC 9110 §5.3).
//!
//! One line is the rule, and all that is kept of it is the line; of several, where they begin. Tested in `tests.rs`, and
//! with what the lists mean in `conditions/tests.rs` and `negotiate/tests.rs`.

use super::FieldLines;

/// The value of a field that is a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List<'a> {
    /// It stands on one line.
    Line(&'a [u8]),
    /// It stands on several: the field lines of the head, from the first of these on.
    Lines(FieldLines<'a>),
}

impl<'a> List<'a> {
    /// The lines in their order, each a list.
    pub fn lines(self) -> impl Iterator<Item = &'a [u8]> {
        let (line, fields) = match self {
            Self::Line(line) => (Some(line), None),
            Self::Lines(fields) => (None, Some(fields)),
        };
        let name = fields.and_then(|mut fields| fields.next()).map_or(&b""[..], |(name, _)| name);
        let is_one =
            move |(other, value): (&[u8], &'a [u8])| other.eq_ignore_ascii_case(name).then_some(value);
        line.into_iter().chain(fields.into_iter().flatten().filter_map(is_one))
    }
}

/// Takes `value` where it is the first line, and says of a further one that there are several.
#[inline]
pub(super) fn take<'a>(list: &mut Option<List<'a>>, several: &mut bool, value: &'a [u8]) {
    match list {
        None => *list = Some(List::Line(value)),
        Some(_) => *several = true,
    }
}

/// Has the list `name` be all of its lines among `fields`.
pub(super) fn join<'a>(list: &mut Option<List<'a>>, name: &[u8], fields: FieldLines<'a>) {
    let mut behind = fields;
    let mut starts = std::iter::from_fn(|| {
        let start = behind;
        behind.next().map(|(found, _)| (found, start))
    });
    if let Some((_, start)) = starts.find(|(found, _)| found.eq_ignore_ascii_case(name)) {
        *list = Some(List::Lines(start));
    }
}
