//! HTML pages of figures in one file: tables, charts and text, without scripts.
//!
//! A [`Page`] is a sequence of blocks. All text is escaped, so names may have any characters. A [`Chart`] is SVG, with a description for
//! screen readers. Its values can be repeated in a folded [`Table`], because not everybody can see a chart.
//!
//! ```
//! use rdpmc_page::{Page, Table};
//!
//! let mut table = Table::new([("name", false), ("count", true)]);
//! table.row(["a & b", "17"]);
//! let mut page = Page::new("Counts");
//! page.paragraph("Two names.").push(&table);
//! std::fs::write(std::env::temp_dir().join("counts.html"), page.to_string())?;
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

// page     the document, its style and its blocks
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
mod drawing;
mod escape;
mod page;
mod table;
mod timeline;

pub use axis::Axis;
pub use chart::Chart;
pub use date::date;
pub use escape::escaped;
pub use page::{Block, Page};
pub use table::Table;
pub use timeline::Timeline;

/// The README's example is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
