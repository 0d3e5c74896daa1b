//! The timeline as a picture: a row for each core, a color for each handler, steals in red, sleep
//! in the background color.

use std::fmt::Write;

use super::timeline::{Doing, Timeline};
use super::{thousands, time};

const WIDTH: f64 = 1_200.0;
const ROW: f64 = 18.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
/// Minimum width of a span, because a narrower span would be invisible.
const NARROWEST: f64 = 0.4;
/// Distinct colors for people with color blindness (Okabe and Ito, 2008), then lighter shades.
const COLORS: [&str; 12] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442", "#7f9fbf", "#bf9f5f", "#5fbf9f",
    "#bf7fa7", "#8fcfef", "#dfdf9f",
];
const STEAL: &str = "#d55e00";
/// Minimum width of a steal, which is much shorter than most events.
const STEAL_NARROWEST: f64 = 1.5;

impl Timeline {
    /// The picture, as SVG. `handlers`: the handlers' names in order.
    pub fn to_svg(&self, title: &str, handlers: &[&str]) -> String {
        let height = TOP + ROW * self.cores() as f64 + 20.0 * (handlers.len() as f64 / 6.0).ceil() + 40.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        let cut = if self.is_cut {
            format!(", first {} spans", thousands(super::SPANS_MAX as u64))
        } else {
            String::new()
        };
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"16\" font-size=\"13\">{}{cut}</text>", escape(title));
        let (from, to) = (time(self.from_ns), time(self.to_ns));
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"32\">{from}</text>");
        let _ = writeln!(svg, "<text x=\"{WIDTH}\" y=\"32\" text-anchor=\"end\">{to}</text>");
        for core in 0..self.cores() {
            let y = TOP + ROW * core as f64;
            let _ = writeln!(svg, "<text x=\"4\" y=\"{:.1}\">core {core}</text>", y + 12.0);
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#f4f4f4\"/>",
                WIDTH - LEFT,
                ROW - 3.0
            );
        }
        self.spans_to(&mut svg);
        self.legend_to(&mut svg, handlers);
        svg + "</svg>\n"
    }

    fn x(&self, at_ns: u64) -> f64 {
        let span = (self.to_ns - self.from_ns).max(1) as f64;
        LEFT + (at_ns - self.from_ns) as f64 / span * (WIDTH - LEFT)
    }

    fn spans_to(&self, svg: &mut String) {
        for span in &self.spans {
            let fill = match span.doing {
                Doing::Handler { handler, .. } => COLORS[usize::from(handler) % COLORS.len()],
                Doing::Steal { .. } => STEAL,
                Doing::Asleep => continue,
            };
            let (x, y) = (self.x(span.from_ns), TOP + ROW * f64::from(span.core.0));
            let narrowest = if fill == STEAL { STEAL_NARROWEST } else { NARROWEST };
            let width = (self.x(span.to_ns) - x).max(narrowest);
            let height = ROW - 3.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
            );
        }
    }

    fn legend_to(&self, svg: &mut String, handlers: &[&str]) {
        let top = TOP + ROW * self.cores() as f64 + 10.0;
        let entries = handlers.iter().enumerate().map(|(index, &name)| (COLORS[index % COLORS.len()], name));
        for (index, (fill, name)) in entries.chain([(STEAL, self.steal_name)]).enumerate() {
            let (x, y) = (LEFT + 185.0 * (index % 6) as f64, top + 18.0 * (index / 6) as f64);
            let _ = writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{fill}\"/>");
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", x + 16.0, y + 10.0, escape(name));
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
