//! How connections came to the cores, in a line for people: at the end of the server, and in its
//! status.

use std::fmt;

/// Numbers of connections, of all cores together.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptSummary {
    /// Accepted by any core.
    pub accepted: u64,
    /// Accepted by a neighbour, because the core of the listener was stuck.
    pub taken_over: u64,
    /// Moved to another core between two requests.
    pub moved: u64,
    /// Given to another core by the kernel's program; `None` without the program.
    pub sent_away: Option<u64>,
    /// Connections of which the core asked for the cpu of their packets.
    pub sampled: u64,
    /// Those whose packets the core's own cpu handles.
    pub sampled_here: u64,
}

impl fmt::Display for AcceptSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, taken_over, moved, sent_away, sampled, sampled_here } = self;
        write!(
            f,
            "accepted: {accepted} connections ({taken_over} rescued from a stuck core, {moved} moved between requests"
        )?;
        if let Some(sent_away) = sent_away {
            write!(f, ", {sent_away} sent to another core by the kernel")?;
        }
        write!(f, ")")?;
        if *sampled > 0 {
            let share = *sampled_here as f64 * 100.0 / *sampled as f64;
            write!(f, "; packet locality {share:.0} % of {sampled} sampled")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_leaves_out_the_unknown() {
        let summary = AcceptSummary { accepted: 9, moved: 2, ..AcceptSummary::default() };
        let text = "accepted: 9 connections (0 rescued from a stuck core, 2 moved between requests)";
        assert_eq!(summary.to_string(), text);
        let summary = AcceptSummary { sent_away: Some(1), sampled: 4, sampled_here: 3, ..summary };
        let text = "accepted: 9 connections (0 rescued from a stuck core, 2 moved between requests, 1 sent to another \
                    core by the kernel); packet locality 75 % of 4 sampled";
        assert_eq!(summary.to_string(), text);
    }
}
