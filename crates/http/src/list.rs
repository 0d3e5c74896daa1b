//! Fields that are lists: several lines of a list form a single list (RFC 9110 §5.3).
//!
//! A list usually has one line, and then the request keeps only that line. Of a list with several
//! lines, the request keeps the position of the first line. Tested in `request/tests.rs`, and with
//! the meaning of the lists in `conditions/tests.rs` and `negotiate/tests.rs`.

use crate::field_lines::FieldLines;

/// The value of a field that is a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListField<'a> {
    /// The list has one line.
    Line(&'a [u8]),
    /// The list has several lines: the field lines of the head, from the first line of the list on.
    Lines(FieldLines<'a>),
}

impl<'a> ListField<'a> {
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

/// Takes `value` if it is the first line; sets `several` for a further line.
#[inline]
pub(crate) fn take<'a>(list: &mut Option<ListField<'a>>, several: &mut bool, value: &'a [u8]) {
    match list {
        None => *list = Some(ListField::Line(value)),
        Some(_) => *several = true,
    }
}

/// Makes the list `name` cover all of its lines among `fields`.
pub(crate) fn join<'a>(list: &mut Option<ListField<'a>>, name: &[u8], fields: FieldLines<'a>) {
    let mut behind = fields;
    let mut starts = std::iter::from_fn(|| {
        let start = behind;
        behind.next().map(|(found, _)| (found, start))
    });
    if let Some((_, start)) = starts.find(|(found, _)| found.eq_ignore_ascii_case(name)) {
        *list = Some(ListField::Lines(start));
    }
}
