//! What ran when, as SVG.

use super::axis::Axis;
use super::drawing::{COLORS, LETTER, shortened};
use super::escape::escaped;
use std::fmt;

const WIDTH: f64 = 800.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 14.0;
const ROW: f64 = 20.0;
const BOTTOM: f64 = 26.0;

/// A timeline: rows of bars from a beginning to an end. `Display` writes it as an `<svg>` element for HTML.
#[derive(Clone, Debug)]
pub struct Timeline {
    title: String,
    axis: Axis,
    length: f64,
    rows: Vec<String>,
    bars: Vec<Bar>,
}

#[derive(Clone, Debug)]
struct Bar {
    row: usize,
    from_to: [f64; 2],
    /// None for the highlight color.
    color: Option<usize>,
    name: String,
    text: String,
}

impl Timeline {
    /// Begins a timeline from 0 to this length. The title is for screen readers.
    pub fn new(title: &str, axis: Axis, length: f64) -> Timeline {
        Timeline { title: title.to_owned(), axis, length, rows: Vec::new(), bars: Vec::new() }
    }

    /// Adds a row below the others. Returns its number.
    pub fn row(&mut self, name: &str) -> usize {
        self.rows.push(name.to_owned());
        self.rows.len() - 1
    }

    /// Adds a bar to an existing row. Its ends are clamped to the timeline. The name is written inside or beside the bar if there is space.
    /// `text` is the tooltip. Colors are numbers, which repeat after the sixth.
    pub fn bar(&mut self, row: usize, from_to: [f64; 2], color: usize, name: &str, text: &str) {
        self.add(row, from_to, Some(color), name, text);
    }

    /// As [`bar`](Timeline::bar), in the highlight color.
    pub fn marked_bar(&mut self, row: usize, from_to: [f64; 2], name: &str, text: &str) {
        self.add(row, from_to, None, name, text);
    }

    fn add(&mut self, row: usize, from_to: [f64; 2], color: Option<usize>, name: &str, text: &str) {
        let (name, text) = (name.to_owned(), text.to_owned());
        self.bars.push(Bar { row, from_to, color, name, text });
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (right, bottom) = (WIDTH - RIGHT, self.rows.len() as f64 * ROW + 4.0);
        let range = self.axis.range_to(self.length);
        let x = |value: f64| LEFT + self.axis.place(range, value) * (right - LEFT);
        let (title, height) = (escaped(&self.title), bottom + BOTTOM);
        writeln!(f, "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=img aria-label=\"{title}\">")?;
        for (value, text) in self.axis.ticks(range) {
            let (at, text) = (x(value), escaped(&text));
            writeln!(f, "<path class=rule d=\"M{at:.1} 0V{bottom:.0}\"/>")?;
            let y = bottom + 15.0;
            writeln!(f, "<text class=faint x={at:.1} y={y:.0} text-anchor=middle>{text}</text>")?;
        }
        for (row, name) in self.rows.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let (y, name) = (row as f64 * ROW + 14.0, shortened(name, LEFT - 8.0));
            let x = LEFT - 6.0;
            writeln!(f, "<text class=faint x={x:.0} y={y:.0} text-anchor=end>{name}</text>")?;
        }
        for Bar { row, from_to, color, name, text } in &self.bars {
            let [left, end] = from_to.map(x);
            let (width, y) = ((end - left).max(1.0), *row as f64 * ROW);
            let text = escaped(text);
            let color = color.map_or("fm".into(), |color| format!("f{}", color % COLORS));
            writeln!(
                f,
                "<rect class=\"bar {color}\" x={left:.1} y={:.0} width={width:.1} height={:.0}><title>{text}</title></rect>",
                y + 1.0,
                ROW - 3.0
            )?;
            // Beside the bar, if nothing else is there.
            let others = self.bars.iter().filter(|other| other.row == *row);
            let next = others.map(|other| x(other.from_to[0])).filter(|other| *other > left);
            let next = next.fold(right, f64::min);
            let fits_inside = width > (name.chars().count() as f64 * LETTER).min(4.0 * LETTER);
            let (begin, space) = match fits_inside {
                true => (left + 4.0, width - 6.0),
                false => (end + 4.0, next - end - 6.0),
            };
            if space > 3.0 * LETTER {
                let (name, x, y) = (shortened(name, space), begin, y + 14.0);
                writeln!(f, "<text class=inside x={x:.1} y={y:.0}>{name}</text>")?;
            }
        }
        f.write_str("</svg>\n")
    }
}
