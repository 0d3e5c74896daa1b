//! Bar charts as SVG: one panel per group, one bar per series, a whisker from the lowest to the
//! highest round.
//!
//! Panels have separate scales, because a request for 1 MB costs a hundred times as much as a
//! request for 1 KB; all scales start at zero. Text stays text, so a chart can be searched and read
//! aloud; the background is painted, so a chart is readable on a dark page. No scripts, no fonts,
//! no other files.

use std::fmt::Write as _;

use crate::stats::Summary;

const PANEL_WIDTH: f64 = 200.0;
const PANEL_HEIGHT: f64 = 220.0;
const GAP: f64 = 28.0;
const TOP: f64 = 64.0;
const LEGEND_HEIGHT: f64 = 26.0;
/// The distance from the foot of one row of panels to the next, names included.
const ROW_GAP: f64 = 52.0;
/// A chart of this many panels is about as wide as a page.
const PANELS_PER_ROW: usize = 4;
/// Room for a bar's number above the highest whisker.
const HEADROOM: f64 = 1.12;

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The quantity of a bar's height, with the unit.
    pub unit: String,
    /// The names of the bars of every panel, with their colors.
    pub series: Vec<(String, &'static str)>,
    /// The panels, from left to right.
    pub panels: Vec<Panel>,
}

/// A group of bars.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The panel's subject.
    pub name: String,
    /// A bar for each series; `None` if there is no measurement.
    pub bars: Vec<Option<Summary>>,
}

impl Chart {
    /// The chart as an SVG document.
    pub fn to_svg(&self) -> String {
        let columns = self.panels.len().clamp(1, PANELS_PER_ROW);
        let rows = self.panels.len().div_ceil(PANELS_PER_ROW);
        let width = GAP + (PANEL_WIDTH + GAP) * columns as f64;
        let height = TOP + (PANEL_HEIGHT + ROW_GAP) * rows as f64 + LEGEND_HEIGHT;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"11\" fill=\"#222\">\n\
             <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{GAP}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{title}</text>\n\
             <text x=\"{GAP}\" y=\"42\" fill=\"#555\">{unit}</text>\n",
            title = escape(&self.title),
            unit = escape(&self.unit),
        );
        for (index, panel) in self.panels.iter().enumerate() {
            let left = GAP + (PANEL_WIDTH + GAP) * (index % PANELS_PER_ROW) as f64;
            let bottom = TOP + PANEL_HEIGHT + (PANEL_HEIGHT + ROW_GAP) * (index / PANELS_PER_ROW) as f64;
            self.draw_panel(&mut svg, panel, left, bottom);
        }
        self.draw_legend(&mut svg, height - 12.0);
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_panel(&self, svg: &mut String, panel: &Panel, left: f64, bottom: f64) {
        let top =
            panel.bars.iter().flatten().map(|bar| bar.high).fold(f64::MIN_POSITIVE, f64::max) * HEADROOM;
        let step = PANEL_WIDTH / self.series.len().max(1) as f64;
        let at = |value: f64| bottom - PANEL_HEIGHT * value / top;
        for (index, (bar, (name, color))) in panel.bars.iter().zip(&self.series).enumerate() {
            let Some(bar) = bar else { continue };
            let (x, y) = (left + step * index as f64 + step * 0.1, at(bar.median));
            let middle = x + step * 0.4;
            let value = number(bar.median);
            let tip = format!("{name}: {value} ({} to {})", number(bar.low), number(bar.high));
            let _infallible = writeln!(
                svg,
                "<g><title>{tip}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" \
                 fill=\"{color}\"/><path d=\"M{middle:.1} {low:.1}V{high:.1}M{a:.1} {low:.1}H{b:.1}M{a:.1} \
                 {high:.1}H{b:.1}\" stroke=\"#000\" stroke-opacity=\".65\" fill=\"none\"/><text x=\"{middle:.1}\" \
                 y=\"{t:.1}\" text-anchor=\"middle\" font-size=\"9.5\">{value}</text></g>",
                tip = escape(&tip),
                w = step * 0.8,
                h = bottom - y,
                low = at(bar.low),
                high = at(bar.high),
                a = middle - 3.0,
                b = middle + 3.0,
                t = at(bar.high) - 4.0,
            );
        }
        let _infallible = writeln!(
            svg,
            "<path d=\"M{left:.1} {bottom:.1}h{PANEL_WIDTH}\" stroke=\"#888\"/><text x=\"{middle:.1}\" y=\"{y:.1}\" \
             text-anchor=\"middle\" font-weight=\"600\">{name}</text>",
            middle = left + PANEL_WIDTH / 2.0,
            y = bottom + 17.0,
            name = escape(&panel.name),
        );
    }

    fn draw_legend(&self, svg: &mut String, y: f64) {
        let mut x = GAP;
        for (name, color) in &self.series {
            let _infallible = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{box_y:.1}\" width=\"11\" height=\"11\" fill=\"{color}\"/><text x=\"{text:.1}\" \
                 y=\"{y:.1}\">{name}</text>",
                box_y = y - 9.5,
                text = x + 16.0,
                name = escape(name),
            );
            // The mean width of a letter at this size in the usual fonts is 6.5 or less.
            x += 36.0 + 6.5 * name.chars().count() as f64;
        }
    }
}

/// A number with three digits that matter.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let bar = Summary { median: 10.0, low: 5.0, high: 20.0, rounds: 3 };
        Chart {
            title: "a < b".into(),
            unit: "µs".into(),
            series: vec![("one".into(), "#111"), ("two".into(), "#222")],
            panels: vec![Panel { name: "1k".into(), bars: vec![Some(bar), None] }],
        }
    }

    #[test]
    fn chart_names_and_escapes_every_series() {
        let svg = chart().to_svg();
        for part in ["<svg ", "a &lt; b", ">1k<", ">one<", ">two<", "one: 10.0 (5.00 to 20.0)", "</svg>"] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
    }

    #[test]
    fn a_series_without_a_number_has_no_bar() {
        assert_eq!(chart().to_svg().matches("<g>").count(), 1);
    }

    #[test]
    fn bars_start_at_zero_and_are_in_proportion() {
        // The highest round is 20, so with the headroom a median of 10 takes 220 * 10 / 22.4.
        assert!(chart().to_svg().contains("height=\"98.2\""));
    }

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!([number(123.4), number(12.34), number(1.234)], ["123", "12.3", "1.23"]);
    }
}
