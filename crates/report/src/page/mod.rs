//! HTML pages of figures in one file: tables, charts and text, without scripts.
//!
//! A [`Page`] is a sequence of blocks. All text is escaped, so names may have any characters. A [`Chart`] is SVG, with a description for
//! screen readers. Its values can be repeated in a folded [`Table`], because not everybody can see a chart.
//!
//! ```
//! use rdpmc_report::page::{Page, Table};
//!
//! let mut table = Table::new([("name", false), ("count", true)]);
//! table.row(["a & b", "17"]);
//! let mut page = Page::new("Counts");
//! page.paragraph("Two names.").push(&table);
//! std::fs::write(std::env::temp_dir().join("counts.html"), page.to_string())?;
//! # Ok::<(), std::io::Error>(())
//! ```

// document the document, its style and its blocks
// table    rows of cells
// date     when a page was made
// chart    lines, bars and dots as SVG
// timeline bars from a beginning to an end as SVG
// axis     from values to places, and what is written beside them
// drawing  what charts and timelines share
// escape   text for HTML

mod axis;
mod chart;
mod date;
mod document;
mod drawing;
mod escape;
mod table;
mod timeline;

pub use axis::Axis;
pub use chart::Chart;
pub use date::date;
pub use document::{Block, Page};
pub use escape::escaped;
pub use table::Table;
pub use timeline::Timeline;
