//! How much of a bench is run.

/// How much of a bench is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BenchSize {
    /// Everything, for numbers; a program that is not installed is an error.
    Full,
    /// A minimal run that checks the bench; parts that this machine cannot run are left out with a
    /// message.
    Smoke,
}

impl BenchSize {
    /// A report's note about the numbers, beside the parameters.
    pub fn note(self) -> &'static str {
        match self {
            Self::Full => "",
            Self::Smoke => " (smoke size: the numbers mean nothing)",
        }
    }
}
