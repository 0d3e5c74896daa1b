//! Line plots as inline SVG: axes, grid, lines, legend. Needs no script and no network.
//!
//! Tested here.

use std::fmt::Write as _;

/// The division of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// Evenly, from zero.
    Linear,
    /// Evenly, up to 100 %, and from the multiple of ten below the least value.
    Percent,
    /// By powers of ten.
    Log,
}

/// A line of a plot, in pieces. Between the pieces there are no values.
#[derive(Clone, Debug)]
pub(super) struct PlotLine {
    name: String,
    pieces: Vec<Vec<(f64, f64)>>,
}

/// A plot.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x: (String, Scale),
    pub(super) y: (String, Scale),
    pub(super) lines: Vec<PlotLine>,
    /// The counted part of the horizontal axis, if not all counts.
    pub(super) window: Option<(f64, f64)>,
    /// Formats values of the vertical axis.
    pub(super) value: fn(f64) -> String,
    /// Formats values of the horizontal axis.
    pub(super) place: fn(f64) -> String,
}

const SIZE: (f64, f64) = (860.0, 300.0);
/// Left, top, right, bottom. Each line's name needs one more line at the top.
const MARGIN: [f64; 4] = [86.0, 20.0, 32.0, 44.0];
const NAME_HEIGHT: f64 = 15.0;
/// Colours that differ for most kinds of colour vision (Okabe and Ito, 2008).
const COLORS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"];
/// Approximate number of divisions of a linear axis.
const STEPS: f64 = 5.0;

impl Plot {
    /// The plot as an SVG element.
    pub(super) fn svg(&self) -> String {
        let (width, top) = (SIZE.0, MARGIN[1] + NAME_HEIGHT * self.lines.len() as f64);
        let height = SIZE.1 + NAME_HEIGHT * self.lines.len() as f64;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{0}\"><text class=\"t\" x=\"{1}\" y=\"18\">{0}</text>",
            escape(&self.title),
            MARGIN[0]
        );
        let points = || self.lines.iter().flat_map(|line| line.pieces.iter().flatten());
        if points().next().is_none() {
            return svg + "<text x=\"90\" y=\"150\">nothing to show</text></svg>";
        }
        let x = Axis::new(points().map(|point| point.0), self.x.1, (MARGIN[0], width - MARGIN[2]));
        let y = Axis::new(points().map(|point| point.1), self.y.1, (height - MARGIN[3], top));
        if let Some((begins, ends)) = self.window {
            let (left, right) = (x.at(begins), x.at(ends));
            let _infallible = write!(
                svg,
                "<rect class=\"w\" x=\"{left:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                right - left,
                height - MARGIN[3] - top
            );
        }
        self.grid(&mut svg, height, &x, &y);
        for (index, line) in self.lines.iter().enumerate() {
            line.draw(&mut svg, index, &x, &y);
        }
        svg + "</svg>"
    }

    fn grid(&self, svg: &mut String, height: f64, x: &Axis, y: &Axis) {
        let width = SIZE.0;
        for value in y.ticks() {
            let at = y.at(value);
            let _infallible = write!(
                svg,
                "<line class=\"g\" x1=\"{}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                MARGIN[0],
                width - MARGIN[2],
                MARGIN[0] - 6.0,
                at + 4.0,
                escape(&(self.value)(value))
            );
        }
        for value in x.ticks() {
            let _infallible = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                x.at(value),
                height - 26.0,
                escape(&(self.place)(value))
            );
        }
        let _infallible = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text><text x=\"4\" y=\"18\">{}</text>",
            width / 2.0,
            height - 8.0,
            escape(&self.x.0),
            escape(&self.y.0)
        );
    }
}

impl PlotLine {
    /// A line without gaps.
    pub(super) fn whole(name: String, points: Vec<(f64, f64)>) -> Self {
        Self { name, pieces: vec![points] }
    }

    /// A line with a gap at each missing value.
    pub(super) fn with_gaps(name: String, points: impl Iterator<Item = (f64, Option<f64>)>) -> Self {
        let points: Vec<_> = points.collect();
        let pieces = points.split(|(_, value)| value.is_none()).filter(|piece| !piece.is_empty());
        let shown = |piece: &[(f64, Option<f64>)]| {
            piece.iter().filter_map(|&(place, value)| Some((place, value?))).collect()
        };
        Self { name, pieces: pieces.map(shown).collect() }
    }

    /// Draws the line with its name, and also the points if there are few.
    fn draw(&self, svg: &mut String, index: usize, x: &Axis, y: &Axis) {
        let color = COLORS[index % COLORS.len()];
        let are_few = self.pieces.iter().map(Vec::len).sum::<usize>() <= 40;
        for piece in &self.pieces {
            let path: String =
                piece.iter().map(|&(px, py)| format!("{:.1},{:.1} ", x.at(px), y.at(py))).collect();
            let _infallible = write!(
                svg,
                "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"1.6\" points=\"{path}\"/>"
            );
            // A single point makes no line.
            for &(px, py) in piece.iter().filter(|_| are_few || piece.len() == 1) {
                let (px, py) = (x.at(px), y.at(py));
                let _infallible =
                    write!(svg, "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3\" fill=\"{color}\"/>");
            }
        }
        // A style, because the style of all text would override an attribute.
        let _infallible = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" style=\"fill:{color}\" text-anchor=\"end\">{}</text>",
            SIZE.0 - MARGIN[2],
            MARGIN[1] + NAME_HEIGHT * index as f64,
            escape(&self.name)
        );
    }
}

/// Maps values to coordinates.
struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
    ends: (f64, f64),
}

impl Axis {
    fn new(values: impl Iterator<Item = f64> + Clone, scale: Scale, ends: (f64, f64)) -> Self {
        let high = values.clone().fold(f64::MIN, f64::max);
        let (low, high) = match scale {
            Scale::Linear => (0.0, if high > 0.0 { high * 1.05 } else { 1.0 }),
            Scale::Percent => {
                let low = values.fold(f64::MAX, f64::min);
                // Some room, so that a line at 100 % is visible.
                (((low / 10.0).floor() * 10.0).clamp(0.0, 90.0), 100.5)
            }
            Scale::Log => {
                let low = values.filter(|value| *value > 0.0).fold(f64::MAX, f64::min).min(high).max(1e-12);
                (10f64.powf(low.log10().floor()), 10f64.powf(high.max(low * 1.01).log10().ceil()))
            }
        };
        Self { low, high, scale, ends }
    }

    fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear | Scale::Percent => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        self.ends.0 + share * (self.ends.1 - self.ends.0)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear | Scale::Percent => {
                let step = round_step((self.high - self.low) / STEPS);
                let count = ((self.high - self.low) / step) as usize;
                (0..=count).map(|tick| self.low + tick as f64 * step).collect()
            }
            Scale::Log => {
                let decades = (self.high / self.low).log10().round() as i32;
                (0..=decades).map(|decade| self.low * 10f64.powi(decade)).collect()
            }
        }
    }
}

/// The least of 1, 2, 5, 10, 20, … that is at least `step`.
fn round_step(step: f64) -> f64 {
    let decade = 10f64.powf(step.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * decade >= step);
    digit.unwrap_or(10.0) * decade
}

/// Escapes text for an element or an attribute.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(y: Scale, points: &[(f64, f64)]) -> String {
        let line = PlotLine::whole("a<b".into(), points.to_vec());
        let number = |value: f64| format!("{value:.1}");
        let (value, place) = (number as fn(f64) -> String, number as fn(f64) -> String);
        let x = ("time".to_owned(), Scale::Linear);
        let window = Some((0.0, points.last().map_or(0.0, |point| point.0)));
        Plot { title: "t".into(), x, y: ("s".into(), y), lines: vec![line], window, value, place }.svg()
    }

    #[test]
    fn points_lie_within_the_frame() {
        for scale in [Scale::Linear, Scale::Log] {
            let svg = plot(scale, &[(0.0, 0.002), (5.0, 30.0), (10.0, 1.0)]);
            let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
            for point in points.split_whitespace() {
                let (x, y) = point.split_once(',').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                assert!((86.0..=828.0).contains(&x) && (35.0..=271.0).contains(&y), "{point}");
            }
            assert!(svg.contains("a&lt;b") && !svg.contains("NaN"), "{svg}");
            assert!(svg.contains("style=\"fill:#0072b2\""), "a name has the colour of its line: {svg}");
        }
    }

    #[test]
    fn nothing_is_drawn_where_nothing_was() {
        let values = [Some(1.0), Some(2.0), None, None, Some(3.0), None];
        let points = values.into_iter().enumerate().map(|(place, value)| (place as f64, value));
        let line = PlotLine::with_gaps("a".into(), points);
        assert_eq!(line.pieces, [vec![(0.0, 1.0), (1.0, 2.0)], vec![(4.0, 3.0)]]);
    }

    #[test]
    fn axes_have_round_numbers() {
        let axis = Axis::new([7.1].into_iter(), Scale::Linear, (0.0, 1.0));
        assert_eq!(axis.ticks(), [0.0, 2.0, 4.0, 6.0]);
        let axis = Axis::new([97.0, 100.0].into_iter(), Scale::Percent, (0.0, 1.0));
        assert_eq!(axis.ticks(), [90.0, 95.0, 100.0]);
        assert_eq!([0.3, 1.0, 1.1, 7.0, 130.0].map(round_step), [0.5, 1.0, 2.0, 10.0, 200.0]);
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert!(plot(Scale::Log, &[]).contains("nothing to show"));
        assert!(!plot(Scale::Log, &[(0.0, 0.0)]).contains("NaN"));
    }
}
