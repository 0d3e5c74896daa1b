//! Reproductions of published results.
//!
//! Each reproduction is one published experiment: the machine, the workload, and the runtimes as
//! their documents describe. Beside every published figure stands ours. Fitted parameters are
//! listed, because a figure for which a parameter was chosen proves nothing; the other figures do.
//! If this project's `adaptive` can run the same program, `adaptive` is compared with the
//! document's best. Owns the figures and the bands, which `reproduce/tests.rs` enforces.

mod mely;
mod modes;
mod network;
mod numa;
mod placement;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::{Value, json};

use crate::SimError;
use crate::report::Table;

/// The size of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEffort {
    /// The lengths and repetitions that the figures need.
    Full,
    /// Less, for tests: the same figures with wider bands, some left out.
    Quick,
}

/// The evidence of a figure of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// A parameter was chosen for the figure.
    Fitted,
    /// The figure follows from the rest.
    Predicted,
    /// `adaptive` on the same program, which the document does not contain.
    Ours,
    /// No document has the figure or a figure to compare. From the model alone.
    Modelled,
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The measured quantity and the unit.
    pub name: String,
    /// The document's figure, if any.
    pub document: Option<f64>,
    /// Our figure.
    pub ours: f64,
    /// The evidence of our figure.
    pub kind: FigureKind,
    /// The bounds of our figure.
    pub band: (f64, f64),
}

/// The results of a reproduction.
#[derive(Clone, Debug)]
pub struct Findings {
    /// All figures, in the order of the document.
    pub figures: Vec<Figure>,
}

/// `adaptive` matches or beats the document's best, in percent. Less than 1 % is noise of the seed.
const MATCHES: (f64, f64) = (-1.0, f64::INFINITY);

/// A published experiment.
#[derive(Clone, Copy)]
pub struct Reproduction {
    /// The name on the command line.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// The publication.
    pub source: &'static str,
    /// Parameters that were chosen so that figures match.
    pub fitted: &'static [&'static str],
    run: fn(RunEffort) -> Result<Findings, SimError>,
}

impl Reproduction {
    /// Runs the experiment.
    ///
    /// # Errors
    /// A shipped machine or workload does not fit, which is a fault of this crate.
    pub fn run(&self, effort: RunEffort) -> Result<Findings, SimError> {
        (self.run)(effort)
    }

    /// The findings as JSON. Bounds that do not exist are left out.
    pub fn to_json(&self, findings: &Findings) -> Value {
        let figure = |figure: &Figure| {
            let bound = |value: f64| value.is_finite().then_some(value);
            json!({
                "name": figure.name, "document": figure.document, "ours": figure.ours, "kind": figure.kind.name(),
                "least": bound(figure.band.0), "most": bound(figure.band.1), "holds": figure.holds(),
                "can_fail": figure.can_fail(),
            })
        };
        let figures: Vec<Value> = findings.figures.iter().map(figure).collect();
        json!({
            "name": self.name, "about": self.about, "source": self.source, "fitted": self.fitted, "figures": figures,
        })
    }

    /// The findings as a text table.
    pub fn report(&self, findings: &Findings) -> String {
        let mut table = Table::new(&["figure", "document", "ours", "difference", "", "band"]);
        for figure in &findings.figures {
            let difference = figure.document.map(|document| match document.abs() {
                size if size < 1e-9 => String::new(),
                size => format!("{:+.0} %", 100.0 * (figure.ours - document) / size),
            });
            table.row([
                figure.name.clone(),
                figure.document.map_or(String::new(), number),
                number(figure.ours),
                difference.unwrap_or_default(),
                figure.kind.name().to_owned(),
                format!("{} to {}{}", number(figure.band.0), number(figure.band.1), figure.mark()),
            ]);
        }
        let fitted: String = self.fitted.iter().map(|line| format!("  {line}\n")).collect();
        format!("{}: {}\n{}\n\n{table}\nfitted:\n{fitted}", self.name, self.about, self.source)
    }
}

impl FigureKind {
    fn name(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Predicted => "predicted",
            Self::Ours => "adaptive",
            Self::Modelled => "modelled",
        }
    }
}

impl Figure {
    /// Whether our figure is within the band.
    pub fn holds(&self) -> bool {
        (self.band.0..=self.band.1).contains(&self.ours)
    }

    /// Whether any result could lie outside of the band. A band from 0 to 100 or more holds every
    /// percentage, so such a figure proves nothing. A lower bound between -100 and 0 belongs to a
    /// difference, which can fall below the bound.
    pub fn can_fail(&self) -> bool {
        let (least, most) = self.band;
        let holds_least = least == 0.0 || least <= -100.0;
        !(holds_least && most >= 100.0)
    }

    fn mark(&self) -> &'static str {
        match (self.holds(), self.can_fail()) {
            (false, _) => "  outside",
            (true, false) => "  cannot fail",
            (true, true) => "",
        }
    }
}

/// Number of figures of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FigureCounts {
    /// All figures.
    pub all: usize,
    /// Figures for which a parameter was chosen.
    pub fitted: usize,
    /// Figures that follow from the rest.
    pub predicted: usize,
    /// Figures whose band holds every possible result.
    pub cannot_fail: usize,
    /// Figures outside the band.
    pub outside: usize,
}

impl FigureCounts {
    /// Adds the figures of one reproduction.
    pub fn add(&mut self, findings: &Findings) {
        let count = |is: fn(&Figure) -> bool| findings.figures.iter().filter(|figure| is(figure)).count();
        self.all += findings.figures.len();
        self.fitted += count(|figure| figure.kind == FigureKind::Fitted);
        self.predicted += count(|figure| figure.kind == FigureKind::Predicted);
        self.cannot_fail += count(|figure| !figure.can_fail());
        self.outside += count(|figure| !figure.holds());
    }
}

impl fmt::Display for FigureCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { all, fitted, predicted, cannot_fail, outside } = self;
        write!(
            f,
            "{all} figures: {fitted} fitted, {predicted} predicted; {cannot_fail} cannot fail, because their bands hold every \
             possible result; {outside} outside of their bands"
        )
    }
}

impl Findings {
    fn new() -> Self {
        Self { figures: Vec::new() }
    }

    fn add(&mut self, name: impl Into<String>, document: f64, ours: f64, kind: FigureKind, band: (f64, f64)) {
        self.figures.push(Figure { name: name.into(), document: Some(document), ours, kind, band });
    }

    /// Adds our figure without a figure of the document.
    fn add_ours(&mut self, name: impl Into<String>, ours: f64, band: (f64, f64)) {
        self.figures.push(Figure { name: name.into(), document: None, ours, kind: FigureKind::Ours, band });
    }

    /// Adds a figure from the model alone.
    fn add_modelled(&mut self, name: impl Into<String>, ours: f64, band: (f64, f64)) {
        self.figures.push(Figure {
            name: name.into(),
            document: None,
            ours,
            kind: FigureKind::Modelled,
            band,
        });
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        size if size.is_infinite() => "any".to_owned(),
        size if size >= 10_000.0 => crate::report::thousands(value.round() as u64),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// All reproductions, in the order of the documents.
pub fn reproductions() -> [Reproduction; 8] {
    [
        mely::SFS,
        mely::WEB,
        placement::ROOTS,
        placement::IMAGES,
        numa::CLIENTS_TABLE,
        numa::NODES,
        modes::MODES,
        network::KNET,
    ]
}

/// The reproduction of this name.
///
/// # Errors
/// No reproduction has this name.
pub fn reproduction(name: &str) -> Result<Reproduction, SimError> {
    let all = reproductions();
    let known = all.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
    let found = all.into_iter().find(|one| one.name == name);
    found.ok_or_else(|| SimError::Unknown { kind: "reproduction", name: name.to_owned(), known })
}
