//! Work that the subject counts itself, such as the requests of each core, in the same recording as
//! the samples.
//!
//! A Vermeil server has a page with the counts of each core ([`WorkPage`]). The recorder maps the
//! pages of all processes of the tree and copies the counts with each tick, so the counts are as
//! exact in time as the other counters, and cost the server no system call. Leaves out the rates
//! (`profile`). Tested below.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;

use vermeil_io::{CoreWork, WORK_COUNTS, WorkPage};

use crate::format::Series;

/// The unit of these series in a recording.
pub(crate) const OF_SUBJECT: &str = "count of the program";

/// The pages of a process tree.
#[derive(Default)]
pub(crate) struct WorkReader {
    pages: Vec<(i32, WorkPage)>,
}

impl WorkReader {
    /// Adds the pages of processes that had none before, as far as the user may read them. Returns
    /// the further columns, which stand behind the others.
    pub(crate) fn add(&mut self, pids: impl Iterator<Item = i32>) -> Vec<Series> {
        let is_known = |pid: &i32| self.pages.iter().any(|(known, _)| known == pid);
        let mut pids: Vec<i32> = pids.filter(|pid| !is_known(pid)).collect();
        pids.sort_unstable();
        let first = self.pages.len();
        self.pages.extend(pids.into_iter().filter_map(|pid| Some((pid, page_of(pid)?))));
        self.pages[first..].iter().flat_map(|(_, page)| columns(page)).collect()
    }

    /// Whether no process has a page.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The present counts, in the order of the columns.
    pub(crate) fn counts(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().flat_map(|(_, page)| page.cores()).flat_map(CoreWork::counts)
    }
}

/// The columns of a page: all counts of a core, then those of the next.
fn columns(page: &WorkPage) -> impl Iterator<Item = Series> {
    page.cores().iter().flat_map(|core| {
        WORK_COUNTS.map(|name| Series {
            name: name.to_owned(),
            cpu: Some(core.cpu() as u32),
            node: None,
            unit: OF_SUBJECT.to_owned(),
        })
    })
}

/// The page among the open descriptors of a process.
fn page_of(pid: i32) -> Option<WorkPage> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    descriptors.flatten().find_map(|entry| {
        let link = fs::read_link(entry.path()).ok()?;
        let is_page = WorkPage::is_named(link.as_os_str().as_bytes());
        is_page.then(|| WorkPage::open(File::open(entry.path()).ok()?).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_own_process_are_found() {
        let page = WorkPage::create(&[0, 5]);
        let mut reader = WorkReader::default();
        let own = [std::process::id() as i32];
        let columns = reader.add(own.into_iter());
        page.cores()[1].count_request();
        page.cores()[1].show_loop(9, 4, 2);
        let places: Vec<_> = columns.iter().map(|series| (&*series.name, series.cpu)).collect();
        assert_eq!([places[0], places[5]], [("requests", Some(0)), ("requests", Some(5))]);
        assert_eq!(reader.counts().collect::<Vec<_>>(), [0, 0, 0, 0, 0, 1, 0, 9, 4, 2]);
        assert!(reader.add(own.into_iter()).is_empty(), "the process is known");
    }

    #[test]
    fn process_without_page_has_no_counts() {
        let mut reader = WorkReader::default();
        assert!(reader.add([i32::MAX].into_iter()).is_empty() && reader.is_empty());
    }
}
