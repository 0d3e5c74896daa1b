//! How much of a bench is run.

/// How much of a bench is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Size {
    /// Everything, for numbers; what is not installed is an error.
    Full,
    /// Just enough to see that it works; what this machine cannot run is left out, loudly.
    Smoke,
}

impl Size {
    /// What a report says of its numbers, beside its parameters.
    pub fn note(self) -> &'static str {
        match self {
            Self::Full => "",
            Self::Smoke => " (smoke size: the numbers mean nothing)",
        }
    }
}
