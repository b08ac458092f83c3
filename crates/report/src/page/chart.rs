//! Lines, bars and dots as SVG.

use super::axis::{Axis, Range};
use super::drawing::{COLORS, shortened};
use super::escape::escaped;
use std::fmt::{self, Write};

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// A chart. `Display` writes it as an `<svg>` element for HTML.
#[derive(Clone, Debug)]
pub struct Chart {
    title: String,
    x: Axis,
    y: Axis,
    marks: Vec<Mark>,
}

#[derive(Clone, Debug)]
enum Mark {
    Line { color: usize, name: String, points: Vec<(f64, f64)> },
    Bar { color: usize, x: [f64; 2], y: [f64; 2], text: String },
    Dot { at: (f64, f64), text: String, to: String },
    Level { y: f64, text: String },
}

impl Chart {
    /// Begins a chart. The title is for screen readers, so repeat its content in the text around the chart.
    pub fn new(title: &str, x: Axis, y: Axis) -> Chart {
        Chart { title: title.to_owned(), x, y, marks: Vec::new() }
    }

    /// Adds a line through these points. Colors are numbers, which repeat after the sixth. The name is written at its end, unless it is
    /// empty.
    pub fn line(
        &mut self,
        color: usize,
        name: &str,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> &mut Chart {
        let points = points.into_iter().collect();
        self.marks.push(Mark::Line { color, name: name.to_owned(), points });
        self
    }

    /// Adds a bar that covers these ranges. `text` is the tooltip.
    pub fn bar(&mut self, color: usize, x: [f64; 2], y: [f64; 2], text: &str) -> &mut Chart {
        self.marks.push(Mark::Bar { color, x, y, text: text.to_owned() });
        self
    }

    /// Adds a dot in the highlight color, with a link unless the address is empty. `text` is the tooltip.
    pub fn dot(&mut self, at: (f64, f64), text: &str, to: &str) -> &mut Chart {
        self.marks.push(Mark::Dot { at, text: text.to_owned(), to: to.to_owned() });
        self
    }

    /// Adds a line at a value, such as 0 or a limit, with its name.
    pub fn level(&mut self, y: f64, text: &str) -> &mut Chart {
        self.marks.push(Mark::Level { y, text: text.to_owned() });
        self
    }

    /// Returns the ranges of both axes.
    fn ranges(&self) -> (Range, Range) {
        let all = self.marks.iter().flat_map(|mark| match mark {
            Mark::Line { points, .. } => points.clone(),
            Mark::Bar { x: [left, right], y: [low, high], .. } => {
                vec![(*left, *low), (*right, *high)]
            }
            Mark::Dot { at, .. } => vec![*at],
            Mark::Level { y, .. } => vec![(f64::NAN, *y)],
        });
        let all: Vec<(f64, f64)> = all.collect();
        let x = self.x.range(all.iter().map(|(x, _)| *x));
        (x, self.y.range(all.iter().map(|(_, y)| *y)))
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of_x, of_y) = self.ranges();
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let x = |value: f64| LEFT + self.x.place(of_x, value) * (right - LEFT);
        let y = |value: f64| bottom - self.y.place(of_y, value) * (bottom - TOP);
        let title = escaped(&self.title);
        // The links inside are reached with the tab key, so it is a group and not an image.
        let role = match self
            .marks
            .iter()
            .any(|mark| matches!(mark, Mark::Dot { to, .. } if !to.is_empty()))
        {
            true => "group",
            false => "img",
        };
        writeln!(f, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role={role} aria-label=\"{title}\">")?;
        for (value, text) in self.y.ticks(of_y) {
            let (at, text) = (y(value), escaped(&text));
            writeln!(f, "<path class=rule d=\"M{LEFT} {at:.1}H{right}\"/>")?;
            writeln!(
                f,
                "<text class=faint x={:.1} y={:.1} text-anchor=end>{text}</text>",
                LEFT - 6.0,
                at + 4.0
            )?;
        }
        for (value, text) in self.x.ticks(of_x) {
            let (at, text) = (x(value), escaped(&text));
            writeln!(f, "<path class=rule d=\"M{at:.1} {bottom}v4\"/>")?;
            writeln!(
                f,
                "<text class=faint x={at:.1} y={:.1} text-anchor=middle>{text}</text>",
                bottom + 17.0
            )?;
        }
        let middle = (LEFT + right) / 2.0;
        let (label_x, label_y) = (escaped(&self.x.label), escaped(&self.y.label));
        writeln!(
            f,
            "<text x={middle:.1} y={:.1} text-anchor=middle>{label_x}</text>",
            HEIGHT - 8.0
        )?;
        let middle = (TOP + bottom) / 2.0;
        writeln!(
            f,
            "<text transform=\"translate(13 {middle:.1}) rotate(-90)\" text-anchor=middle>{label_y}</text>"
        )?;
        let mut names: Vec<(f64, f64, usize, &String)> = Vec::new();
        for mark in &self.marks {
            match mark {
                Mark::Line { color, name, points } => {
                    let mut path = String::new();
                    let (mut is_gap, mut last) = (true, None);
                    for (of_x, of_y) in points {
                        if !of_x.is_finite() || !of_y.is_finite() {
                            is_gap = true;
                            continue;
                        }
                        let (x, y) = (x(*of_x), y(*of_y));
                        write!(path, "{}{x:.1} {y:.1}", if is_gap { 'M' } else { 'L' })?;
                        (is_gap, last) = (false, Some((y, x)));
                    }
                    let color = color % COLORS;
                    writeln!(f, "<path class=\"line c{color}\" d=\"{path}\"/>")?;
                    names.extend(
                        last.filter(|_| !name.is_empty()).map(|(y, x)| (y, x, color, name)),
                    );
                }
                Mark::Bar { x, y, .. } if x.iter().chain(y).any(|end| end.is_nan()) => {}
                Mark::Bar { color, x: [low_x, high_x], y: [low, high], text } => {
                    let (left, top) = (x(*low_x), y(*high));
                    let (width, height) = ((x(*high_x) - left).max(1.0), (y(*low) - top).max(1.5));
                    let (color, text) = (color % COLORS, escaped(text));
                    writeln!(
                        f,
                        "<rect class=\"bar f{color}\" x={left:.1} y={top:.1} width={width:.1} height={height:.1}><title>{text}</title></rect>"
                    )?;
                }
                Mark::Dot { at: (at_x, at_y), text, to } => {
                    let (text, to) = (escaped(text), escaped(to));
                    let dot = format!(
                        "<circle class=mark cx={:.1} cy={:.1} r=4><title>{text}</title></circle>",
                        x(*at_x),
                        y(*at_y)
                    );
                    match to.is_empty() {
                        true => writeln!(f, "{dot}")?,
                        false => writeln!(f, "<a href=\"{to}\" aria-label=\"{text}\">{dot}</a>")?,
                    }
                }
                Mark::Level { y: of_y, text } => {
                    let (at, text) = (y(*of_y), escaped(text));
                    writeln!(
                        f,
                        "<path class=\"line mark\" stroke-dasharray=\"5 4\" d=\"M{LEFT} {at:.1}H{right}\"/>"
                    )?;
                    writeln!(f, "<text x={:.1} y={:.1}>{text}</text>", LEFT + 4.0, at - 4.0)?;
                }
            }
        }
        // Names above the ends of their lines, below each other, and all inside.
        names.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut below = bottom - 4.0;
        let mut places: Vec<f64> = Vec::new();
        for (y, ..) in names.iter().rev() {
            places.push((y - 7.0).min(below));
            below = places.last().copied().unwrap_or(below) - 14.0;
        }
        let mut above = 0.0;
        for ((_, x, color, name), place) in names.iter().zip(places.iter().rev()) {
            above = place.max(above + 12.0);
            let name = shortened(name, x - LEFT);
            writeln!(
                f,
                "<text class=f{color} x={x:.1} y={above:.1} text-anchor=end>{name}</text>"
            )?;
        }
        f.write_str("</svg>\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With any values and names, no tag is left open, no name is taken for a tag, and no coordinate is NaN or infinite.
    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn strange_values() {
        let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e308];
        for axis in [Axis::linear("<x>"), Axis::log("\"y\""), Axis::quantiles("&")] {
            let mut chart = Chart::new("</svg><script>", axis.clone(), axis.clone());
            for value in values {
                chart.line(17, "</text>", [(value, value), (1.0, 2.0)]);
                chart.bar(1, [value, 1.0], [1.0, value], "<b>").dot((value, 1.0), "'\"", "\"><a>");
                chart.level(value, "&");
            }
            let svg = chart.to_string();
            assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
            assert!(!svg.contains("<script") && !svg.contains("<b>") && !svg.contains("\"><a>"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        assert!(Chart::new("", Axis::log(""), Axis::log("")).to_string().contains("</svg>"));
    }
}
