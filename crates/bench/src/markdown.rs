//! The generated section of a hand-written page.
//!
//! A page keeps one section per bench between two markers; a run replaces the text between the
//! markers and touches nothing else. A page without the markers gets the section at its end.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::{BenchError, BenchResult};

/// Puts `section` between the markers of `bench` in the page at `path`.
///
/// # Errors
/// The page has only one of the two markers, or cannot be read or written.
pub fn replace_section(path: &Path, bench: &str, section: &str) -> BenchResult<()> {
    let page = match fs::read_to_string(path) {
        Ok(page) => page,
        Err(error) if error.kind() == ErrorKind::NotFound => "# Benchmarks\n".into(),
        Err(error) => return Err(BenchError::path("read", path)(error)),
    };
    let page = with_section(&page, bench, section).ok_or_else(|| {
        BenchError::form(path.display(), format!("only one of the two markers of `bench {bench}`"))
    })?;
    vermeil_io::output::write(path, page).map_err(BenchError::path("write", path))
}

fn with_section(page: &str, bench: &str, section: &str) -> Option<String> {
    let begin = format!("<!-- bench {bench} begin -->");
    let end = format!("<!-- bench {bench} end -->");
    let section = format!("{begin}\n\n{}\n\n{end}", section.trim());
    match (page.find(&begin), page.find(&end)) {
        (None, None) => Some(format!("{}\n\n{section}\n", page.trim_end())),
        (Some(from), Some(to)) if from < to => {
            Some(format!("{}{section}{}", &page[..from], &page[to + end.len()..]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_section_goes_to_the_end() {
        let page = with_section("# B\n", "x", "new\n").expect("no markers");
        assert_eq!(page, "# B\n\n<!-- bench x begin -->\n\nnew\n\n<!-- bench x end -->\n");
    }

    #[test]
    fn only_text_between_markers_changes() {
        let page = with_section("# B\n", "x", "old").expect("no markers") + "after\n";
        let page = with_section(&page, "x", "new").expect("both markers");
        assert_eq!(page, "# B\n\n<!-- bench x begin -->\n\nnew\n\n<!-- bench x end -->\nafter\n");
    }

    #[test]
    fn a_lone_marker_is_an_error() {
        assert_eq!(with_section("<!-- bench x end -->", "x", "new"), None);
    }
}
